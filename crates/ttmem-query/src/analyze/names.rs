//! Resolves the name of an operand at a step to an allocation.
//!
//! Each run of a program allocates its own `%12`. `%arg3`, and a tensor loaded from a cache, is the same allocation in
//! all runs, and is named only once in the profile. So a name refers to the allocation that got the name in the step's
//! own run, or else to one of the same program that is kept from run to run.

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{ModuleId, Moment, Profile, Rank, RunId, Step, StrId, TensorId};

/// The names of a rank's allocations.
#[derive(Debug)]
pub struct Names<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    /// The last allocation that got a name in a run.
    own: FxHashMap<(RunId, StrId), TensorId>,
    /// Allocations that may be kept from run to run.
    kept: FxHashMap<StrId, Vec<Kept<'a>>>,
}

/// An allocation that has its name in more than one run.
#[derive(Clone, Copy, Debug)]
struct Kept<'a> {
    tensor: TensorId,
    /// The program that allocated it; `None` if that program is outside the cut-out.
    program: Option<&'a str>,
}

impl<'a> Names<'a> {
    /// Indexes only the `wanted` names, because all names of a large rank would take a lot of memory.
    pub fn of(profile: &'a Profile, rank: &'a Rank, wanted: &FxHashSet<StrId>) -> Self {
        let mut names = Self { profile, rank, own: FxHashMap::default(), kept: FxHashMap::default() };
        for tensor in (0..rank.tensors.len()).filter_map(TensorId::new) {
            let index = tensor.index();
            let Some(ssa) = rank.tensors.ssa[index].filter(|ssa| wanted.contains(ssa)) else { continue };
            if let Some(run) = rank.tensors.run[index] {
                names.own.insert((run, ssa), tensor);
            }
            if rank.tensors.step[index].is_none() {
                let program = profile.made(rank, tensor).program;
                names.kept.entry(ssa).or_default().push(Kept { tensor, program });
            }
        }
        for alias in rank.aliases.iter().filter(|alias| wanted.contains(&alias.ssa)) {
            if let Some(run) = alias.run {
                names.own.insert((run, alias.ssa), alias.tensor);
            }
            let program = names.program(alias.run);
            names.kept.entry(alias.ssa).or_default().push(Kept { tensor: alias.tensor, program });
        }
        names
    }

    /// The allocation that a name refers to at a step. It must be live when the step begins.
    pub fn meant(&self, step: Step, name: StrId) -> Option<TensorId> {
        let run = self.rank.steps.run.get(step as usize).copied().flatten();
        let own = run.and_then(|run| self.own.get(&(run, name)).copied());
        own.filter(|tensor| self.is_alive(*tensor, step)).or_else(|| self.kept_for(step, run, name))
    }

    fn kept_for(&self, step: Step, run: Option<RunId>, name: StrId) -> Option<TensorId> {
        let program = self.program(run);
        let fits = |kept: &&Kept<'_>| {
            (kept.program.is_none() || kept.program == program) && self.is_alive(kept.tensor, step)
        };
        let found = || self.kept.get(&name).into_iter().flatten().rev().filter(fits);
        // Two graphs may both have a `%arg3` of `main`.
        let graph = run.and_then(|run| self.rank.module_of(run)).filter(|_| found().nth(1).is_some());
        let of_graph = graph.and_then(|graph| found().find(|kept| self.is_of(kept.tensor, graph)));
        Some(of_graph.or_else(|| found().next())?.tensor)
    }

    /// Whether an allocation comes from arguments of a graph.
    fn is_of(&self, tensor: TensorId, graph: ModuleId) -> bool {
        self.rank.origins.iter().any(|origin| origin.tensor == tensor && origin.module == graph)
    }

    fn program(&self, run: Option<RunId>) -> Option<&'a str> {
        Some(self.profile.text(self.rank.run(run?)?.program))
    }

    fn is_alive(&self, tensor: TensorId, step: Step) -> bool {
        let (tensors, at) = (&self.rank.tensors, Moment::late(step));
        tensors.born[tensor.index()] <= at && at < tensors.dies[tensor.index()]
    }
}
