//! The profile: what was in memory, at every moment, as far as the evidence says.

use std::collections::BTreeMap;

use super::{
    Aliases, AllocationTotals, ByteRange, CallEnd, CallId, CallTotals, Calls, CarriedOver, CutOut,
    Derivations, Expected, Fault, FromStep, History, Labels, Module, ModuleId, Moment, Nanoseconds, Op, OpId,
    OpKind, OpTotals, Ops, Origins, Phase, Pool, PoolId, Position, Restored, Run, RunId, ScopeId, ScopeKind,
    Scopes, Seen, Session, Snapshot, Source, Stacks, Step, StepNumber, Steps, StrId, Strings, TensorId,
    TensorType, Tensors, Thinned, TypeId, Warning,
};

/// Everything that one piece of evidence says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Where it comes from.
    pub source: Source,
    /// All texts.
    pub strings: Strings,
    /// All tensor types.
    pub types: Vec<TensorType>,
    /// All distinct operations.
    pub ops: Ops,
    /// Where operations are called from.
    pub stacks: Stacks,
    /// The ranks, in the order they appeared.
    pub ranks: Vec<Rank>,
    /// What people should know about the reading.
    pub warnings: Vec<Warning>,
    /// Lines that should have been understood and were not.
    pub skipped_lines: u64,
    /// Texts of the source that were taken along, by where they stood.
    pub texts: BTreeMap<(u64, u64), String>,
    /// Whether the evidence was read to its end.
    pub complete: bool,
}

/// One rank: a process with its own device memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    /// Its label in the log (`1,0`), where lines are tagged.
    pub label: Option<StrId>,
    /// Which process of its log it is, counted from 1; `None` where the log has only one.
    pub process: Option<u32>,
    /// Its pools, in the order they appeared.
    pub pools: Vec<Pool>,
    /// The graphs that were compiled.
    pub modules: Vec<Module>,
    /// The program runs, nested ones after the one they run in.
    pub runs: Vec<Run>,
    /// The steps.
    pub steps: Steps,
    /// The allocations.
    pub tensors: Tensors,
    /// Further names of allocations.
    pub aliases: Aliases,
    /// What was computed from what.
    pub derivations: Derivations,
    /// Which arguments the allocations go back to.
    pub origins: Origins,
    /// Where allocations are from that no step here made.
    pub carried: CarriedOver,
    /// Set where the rank is one pass of a longer log.
    pub cut_out: Option<CutOut>,
    /// The sessions of phases.
    pub sessions: Vec<Session>,
    /// The phases of all sessions, in order.
    pub phases: Vec<Phase>,
    /// The errors.
    pub faults: Vec<Fault>,
    /// When the recording began, in nanoseconds of Unix time.
    pub began: Option<u64>,
    /// The names of threads and streams.
    pub lanes: Vec<StrId>,
    /// The tree of what the program does.
    pub scopes: Scopes,
    /// What it did, in the order that it began.
    pub calls: Calls,
    /// What is known of calls that nobody watched, but looked at before and after.
    pub seen: BTreeMap<CallId, Seen>,
    /// Calls that are not kept one by one, by scope.
    pub further_calls: BTreeMap<ScopeId, CallTotals>,
    /// When steps happened.
    pub times: FromStep<Nanoseconds>,
    /// In which calls steps happened.
    pub within: FromStep<Option<CallId>>,
    /// The moments that somebody wanted to look at, in order.
    pub snapshots: Vec<Snapshot>,
    /// What a profiler says of operations.
    pub op_totals: Vec<OpTotals>,
    /// What classes should take.
    pub expected: Vec<Expected>,
    /// What is not in the figures of pools, in words.
    pub not_watched: Vec<(PoolId, StrId)>,
    /// For which allocations it is known whether gradients are computed.
    pub requires_grad: BTreeMap<TensorId, bool>,
    /// Set where detail is there only from a time on.
    pub thinned: Option<Thinned>,
    /// Allocations that are not kept one by one, by pool.
    pub further_allocations: BTreeMap<PoolId, AllocationTotals>,
    /// Rows that are not one allocation, but several that are no longer told apart: how many.
    pub stands_for: BTreeMap<TensorId, u64>,
    /// Rows that were restored from another file of the recording. The sums in `further_allocations` have them, too.
    pub restored: BTreeMap<TensorId, Restored>,
    /// Set where calls outside of all others are all here only from a time on.
    pub calls_since: Option<Nanoseconds>,
    /// What allocators did that has no place among the steps yet.
    pub history: History,
    /// What was seen at addresses of their memory.
    pub labels: Labels,
}

/// Where an allocation is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made<'a> {
    /// The program in which it got its first name.
    pub program: Option<&'a str>,
    /// The operation that made it.
    pub op: Option<&'a str>,
    /// Where that operation is from.
    pub loc: Option<&'a str>,
}

impl Profile {
    /// The text of an id.
    pub fn text(&self, id: StrId) -> &str {
        self.strings.get(id)
    }

    /// The type of an id.
    pub fn tensor_type(&self, id: TypeId) -> Option<&TensorType> {
        self.types.get(id.index())
    }

    /// The operation of a step.
    pub fn op_of(&self, rank: &Rank, step: Step) -> Option<Op> {
        self.ops.get(rank.op_id(step)?)
    }

    /// The name of a step's operation.
    pub fn op_name(&self, rank: &Rank, step: Step) -> Option<&str> {
        self.ops.name(rank.op_id(step)?).map(|name| self.text(name))
    }

    /// The location of a step's operation.
    pub fn op_loc(&self, rank: &Rank, step: Step) -> Option<&str> {
        self.ops.loc(rank.op_id(step)?).map(|loc| self.text(loc))
    }

    /// The kind of a step's operation.
    pub fn op_kind(&self, rank: &Rank, step: Step) -> OpKind {
        rank.op_id(step).map_or(OpKind::Compute, |op| self.ops.kind(op))
    }

    /// Where an allocation is from: as its step and run say, or as it was carried over.
    pub fn made(&self, rank: &Rank, tensor: TensorId) -> Made<'_> {
        if let Ok(row) = rank.carried.tensor.binary_search(&tensor) {
            let text = |id: Option<StrId>| id.map(|id| self.text(id));
            let carried = &rank.carried;
            return Made {
                program: Some(self.text(carried.program[row])).filter(|program| !program.is_empty()),
                op: text(carried.op[row]),
                loc: text(carried.loc[row]),
            };
        }
        if let Some(op) = rank.restored.get(&tensor).map(|restored| restored.op) {
            let text = |id: Option<StrId>| id.map(|id| self.text(id));
            let (name, loc) = (op.and_then(|op| self.ops.name(op)), op.and_then(|op| self.ops.loc(op)));
            return Made { program: None, op: text(name), loc: text(loc) };
        }
        let tensors = &rank.tensors;
        let run = tensors.run.get(tensor.index()).copied().flatten();
        let step = tensors.step.get(tensor.index()).copied().flatten().map(StepNumber::get);
        Made {
            program: run.and_then(|run| rank.run(run)).map(|run| self.text(run.program)),
            op: step.and_then(|step| self.op_name(rank, step)),
            loc: step.and_then(|step| self.op_loc(rank, step)),
        }
    }

    /// A text of the source that was taken along.
    pub fn source_text(&self, range: ByteRange) -> Option<&str> {
        self.texts.get(&(range.start, range.end)).map(String::as_str)
    }
}

impl Rank {
    /// How many steps there are; also the last position.
    pub fn end(&self) -> Position {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX)
    }

    /// The time of a moment: on its early side, when the step before it ended; on its late side, when its own began.
    pub fn time_of(&self, at: Moment) -> Option<Nanoseconds> {
        if at == Moment::START {
            return Some(0);
        }
        let position = at.position();
        let before = || self.times.get(position.checked_sub(1)?);
        if at == Moment::late(position) { self.times.get(position).or_else(before) } else { before() }
    }

    /// The scope that a tensor was allocated in: the innermost one that isn't an operation of the framework.
    pub fn made_in(&self, tensor: TensorId) -> Option<ScopeId> {
        if let Some(restored) = self.restored.get(&tensor) {
            return restored.scope;
        }
        let step = self.tensors.step.get(tensor.index()).copied().flatten().map(StepNumber::get)?;
        let call = self.named_call(self.within.get(step)??)?;
        self.calls.scope.get(call.index()).copied()
    }

    /// Whether the rank said something of its memory; a controller that only compiled did not.
    pub fn has_content(&self) -> bool {
        // A process that failed before its first program has nothing but its error.
        let has_failed = self.process.is_some_and(|number| number > 1) && !self.faults.is_empty();
        !self.pools.is_empty() || !self.steps.is_empty() || !self.phases.is_empty() || has_failed
    }

    /// The operation of a step.
    pub fn op_id(&self, step: Step) -> Option<OpId> {
        self.steps.op.get(step as usize).copied()
    }

    /// What is known of the end of the call in a row.
    pub fn call_end(&self, call: usize) -> CallEnd {
        let Some(row) = self.calls.get(call) else { return CallEnd::Unknown };
        let seen = || CallId::new(call).and_then(|id| self.seen.get(&id));
        match (row.outcome, seen()) {
            (Some(outcome), _) => CallEnd::At(outcome.ended.max(row.began)),
            (None, None) => CallEnd::Open,
            (None, Some(seen)) => {
                seen.ended.map_or(CallEnd::Unknown, |ended| CallEnd::At(ended.max(row.began)))
            }
        }
    }

    /// The innermost call around one, or that one, which is no operation of the framework: what the program calls it.
    pub fn named_call(&self, call: CallId) -> Option<CallId> {
        let kind = |call: CallId| self.scopes.kind.get(self.calls.scope.get(call.index())?.index());
        let outer = |call: &CallId| self.calls.parent.get(call.index()).copied().flatten();
        let mut around = std::iter::successors(Some(call), outer).take(self.calls.len());
        around.find(|call| kind(*call) != Some(&ScopeKind::Framework))
    }

    /// By how much there was more memory in use after the call in a row than before it, as far as it is to blame.
    pub fn call_change(&self, call: usize) -> Option<i64> {
        let outcome = self.calls.outcome.get(call)?;
        outcome.map(|outcome| outcome.change()).or_else(|| self.seen.get(&CallId::new(call)?)?.change)
    }

    /// The run with that id.
    pub fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(id.index())
    }

    /// The run of a step.
    pub fn run_of(&self, step: Step) -> Option<&Run> {
        self.run((*self.steps.run.get(step as usize)?)?)
    }

    /// The module with that id.
    pub fn module(&self, id: ModuleId) -> Option<&Module> {
        self.modules.get(id.index())
    }

    /// The graph of a run: its own, or that of the run it is nested in.
    pub fn module_of(&self, mut run: RunId) -> Option<ModuleId> {
        loop {
            let found = self.run(run)?;
            if found.module.is_some() {
                return found.module;
            }
            // A parent is always an earlier row.
            run = found.parent.filter(|parent| *parent < run)?;
        }
    }

    /// The pool with that name.
    pub fn pool_named<'a>(&'a self, profile: &Profile, name: &str) -> Option<(PoolId, &'a Pool)> {
        let index = self.pools.iter().position(|pool| profile.text(pool.name) == name)?;
        Some((PoolId::new(index)?, &self.pools[index]))
    }

    /// The runs that ran in no other, with their ids, in order. A const-eval program always ran in another.
    pub fn top_level_runs(&self) -> impl Iterator<Item = (RunId, &Run)> {
        self.runs
            .iter()
            .enumerate()
            .filter(|(_, run)| run.is_top_level())
            .filter_map(|(index, run)| Some((RunId::new(index)?, run)))
    }

    /// The number of runs at the beginning that ran in earlier passes. Only cut-outs written up to 0.1.0 have any:
    /// [`CutOut::first`].
    pub fn retold_runs(&self) -> usize {
        let first = self.cut_out.map_or(0, |cut_out| cut_out.first);
        self.runs.partition_point(|run| run.first < first)
    }

    /// For each run the number of the top-level run that it is part of, from 1; 0 for
    /// [`Rank::retold_runs`].
    pub fn run_numbers(&self) -> Vec<usize> {
        let mut numbers: Vec<usize> = Vec::with_capacity(self.runs.len());
        let mut top = 0;
        for run in &self.runs {
            // A parent is always an earlier row.
            let of_parent = run.parent.and_then(|parent| numbers.get(parent.index()).copied());
            top += usize::from(run.is_top_level());
            numbers.push(of_parent.unwrap_or(top));
        }
        numbers
    }

    /// Whether the rank has tensors at all; without them nobody's bytes can be named.
    pub fn has_tensors(&self) -> bool {
        !self.tensors.is_empty()
    }

    /// The tensors of a pool that are there at a moment.
    pub fn live(&self, pool: PoolId, at: Moment) -> impl Iterator<Item = usize> + '_ {
        let tensors = &self.tensors;
        (0..tensors.len())
            .filter(move |&i| tensors.born[i] <= at && at < tensors.dies[i] && tensors.pool[i] == pool)
    }
}
