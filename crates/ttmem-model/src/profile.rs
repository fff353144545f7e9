//! The profile: the memory contents at every moment, as far as the input allows.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Aliases, AllocationTotals, ByteRange, CallEnd, CallId, CallTotals, Calls, CarriedOver, CoreMemory,
    CutOut, Derivations, Expected, Fault, FaultDetail, FaultLedger, FromStep, History, Holder, Labels,
    Launch, Module, ModuleId, Moment, Nanoseconds, Op, OpId, OpKind, OpTotals, Ops, Origins, Phase,
    Placements, Pool, PoolId, Position, ProgramBuffers, RankId, ReservedSegments, Restored, Run, RunId,
    ScopeId, ScopeKind, Scopes, Seen, Session, Snapshot, Source, Stacks, Step, StepNumber, Steps, StrId,
    Strings, TensorId, TensorType, Tensors, Thinned, TtnnPeaks, TypeId, Usages, Warning,
};

/// The contents of one input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The source.
    pub source: Source,
    /// All texts.
    pub strings: Strings,
    /// All tensor types.
    pub types: Vec<TensorType>,
    /// All distinct operations.
    pub ops: Ops,
    /// The call stacks of operations.
    pub stacks: Stacks,
    /// The ranks, in order of appearance.
    pub ranks: Vec<Rank>,
    /// Complete iterations of ranks, from earlier files of the recording.
    pub examples: BTreeMap<RankId, Rank>,
    /// Warnings of the reader.
    pub warnings: Vec<Warning>,
    /// The number of lines that should have been understood but were skipped.
    pub skipped_lines: u64,
    /// Embedded texts of the source, by their position.
    pub texts: BTreeMap<(u64, u64), String>,
    /// Whether the input was read to its end.
    pub complete: bool,
}

/// One rank: a process with its own device memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    /// The label in the log (`1,0`), if lines are tagged, or the number of the rank of a recording.
    pub label: Option<StrId>,
    /// The number of its process in the log, counted from 1; `None` if the log has only one.
    pub process: Option<u32>,
    /// The pools, in order of appearance.
    pub pools: Vec<Pool>,
    /// The compiled graphs.
    pub modules: Vec<Module>,
    /// The program runs; a nested run comes after its parent.
    pub runs: Vec<Run>,
    /// The steps.
    pub steps: Steps,
    /// The allocations.
    pub tensors: Tensors,
    /// Additional names of allocations.
    pub aliases: Aliases,
    /// The sources of computed allocations.
    pub derivations: Derivations,
    /// The arguments that allocations originate from.
    pub origins: Origins,
    /// The origins of allocations that were not made by a step here.
    pub carried: CarriedOver,
    /// Set if the rank is one pass of a longer log.
    pub cut_out: Option<CutOut>,
    /// The sessions of phases.
    pub sessions: Vec<Session>,
    /// The phases of all sessions, in order.
    pub phases: Vec<Phase>,
    /// The errors.
    pub faults: Vec<Fault>,
    /// Details of errors, by their index.
    pub fault_details: BTreeMap<u32, FaultDetail>,
    /// The device's memory at errors, by their index.
    pub ledgers: BTreeMap<u32, FaultLedger>,
    /// The layout of a core's L1, on a device that has cores.
    pub core_memory: Option<CoreMemory>,
    /// The peaks of L1 by ttnn's own rules, for a capture.
    pub ttnn_peaks: Option<TtnnPeaks>,
    /// The addresses of allocations.
    pub placements: Placements,
    /// The buffers of the programs that steps run.
    pub program_buffers: ProgramBuffers,
    /// The last uses of allocations.
    pub usages: Usages,
    /// The segments of caching allocators at the end of the input.
    pub reserved: ReservedSegments,
    /// The start of the recording, in nanoseconds of Unix time.
    pub began: Option<u64>,
    /// How the program was launched.
    pub launch: Option<Launch>,
    /// The arguments of the program; the first is its name.
    pub launch_arguments: Vec<StrId>,
    /// The names of threads and streams.
    pub lanes: Vec<StrId>,
    /// The program's scope tree.
    pub scopes: Scopes,
    /// The calls, ordered by start.
    pub calls: Calls,
    /// Observations of calls that were only measured before and after.
    pub seen: BTreeMap<CallId, Seen>,
    /// Totals of calls that are not stored individually, by scope.
    pub further_calls: BTreeMap<ScopeId, CallTotals>,
    /// The scopes whose calls return several tensors, or objects that may contain several. See [`Self::states_outputs`].
    pub several_outputs: BTreeSet<ScopeId>,
    /// The times of steps.
    pub times: FromStep<Nanoseconds>,
    /// The calls of steps.
    pub within: FromStep<Option<CallId>>,
    /// The snapshots, in order.
    pub snapshots: Vec<Snapshot>,
    /// A profiler's totals of operations.
    pub op_totals: Vec<OpTotals>,
    /// The expected sizes of classes.
    pub expected: Vec<Expected>,
    /// Descriptions of memory that the pools' figures do not include.
    pub not_watched: Vec<(PoolId, StrId)>,
    /// Whether gradients are computed for an allocation, if known.
    pub requires_grad: BTreeMap<TensorId, bool>,
    /// Set if full detail is only available from a time on.
    pub thinned: Option<Thinned>,
    /// Totals of allocations that are not stored individually, by pool.
    pub further_allocations: BTreeMap<PoolId, AllocationTotals>,
    /// Rows that represent several allocations that are no longer distinguished, with their number.
    pub stands_for: BTreeMap<TensorId, u64>,
    /// Rows restored from another file of the recording. The totals in `further_allocations` include them.
    pub restored: BTreeMap<TensorId, Restored>,
    /// Set if all outermost calls are available only from a time on.
    pub calls_since: Option<Nanoseconds>,
    /// Actions of allocators that have no position among the steps yet.
    pub history: History,
    /// Observed contents of addresses in their memory.
    pub labels: Labels,
    /// What kept allocations alive, at the last search that found it.
    pub holders: BTreeMap<TensorId, Holder>,
    /// The same for addresses in the memory of allocators with a history, in the order of the searches.
    pub address_holders: Vec<(PoolId, u64, Holder)>,
}

/// The origin of an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made<'a> {
    /// The program that gave it its first name.
    pub program: Option<&'a str>,
    /// The operation that made it.
    pub op: Option<&'a str>,
    /// The location of that operation.
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

    /// The origin of an allocation: from its step and run, or carried over.
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

    /// An embedded text of the source.
    pub fn source_text(&self, range: ByteRange) -> Option<&str> {
        self.texts.get(&(range.start, range.end)).map(String::as_str)
    }
}

impl Rank {
    /// The number of steps, which is also the last position.
    pub fn end(&self) -> Position {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX)
    }

    /// The time of a moment: on its early side, the end of the step before it; on its late side, the start of the step
    /// after it.
    pub fn time_of(&self, at: Moment) -> Option<Nanoseconds> {
        if at == Moment::START {
            return Some(0);
        }
        let position = at.position();
        let before = || self.times.get(position.checked_sub(1)?);
        if at == Moment::late(position) { self.times.get(position).or_else(before) } else { before() }
    }

    /// The operation that made an allocation, if it is known.
    pub fn made_by(&self, tensor: TensorId) -> Option<OpId> {
        match self.tensors.step.get(tensor.index()).copied().flatten() {
            Some(step) => self.op_id(step.get()),
            None => self.restored.get(&tensor).and_then(|restored| restored.op),
        }
    }

    /// The scope that a tensor was allocated in: the innermost one that is not a framework operation.
    pub fn made_in(&self, tensor: TensorId) -> Option<ScopeId> {
        if let Some(restored) = self.restored.get(&tensor) {
            return restored.scope;
        }
        let step = self.tensors.step.get(tensor.index()).copied().flatten().map(StepNumber::get)?;
        let call = self.named_call(self.within.get(step)??)?;
        self.calls.scope.get(call.index()).copied()
    }

    /// Whether the rank has memory data; a controller that only compiled has none.
    pub fn has_content(&self) -> bool {
        // A process that failed before its first program has only its error.
        let has_failed = self.process.is_some_and(|number| number > 1) && !self.faults.is_empty()
            || !self.fault_details.is_empty();
        !self.pools.is_empty() || !self.steps.is_empty() || !self.phases.is_empty() || has_failed
    }

    /// Whether errors are all that is known, because the input has no programs.
    pub fn has_only_faults(&self) -> bool {
        let has_programs = !self.steps.is_empty() || !self.runs.is_empty() || !self.phases.is_empty();
        !self.fault_details.is_empty() && !has_programs && self.began.is_none()
    }

    /// The details of an error of this rank; the default if there are none.
    pub fn fault_detail(&self, fault: &Fault) -> FaultDetail {
        self.index_of(fault).and_then(|index| self.fault_details.get(&index)).copied().unwrap_or_default()
    }

    /// The device's memory at an error of this rank, if the error states it.
    pub fn ledger(&self, fault: &Fault) -> Option<&FaultLedger> {
        self.ledgers.get(&self.index_of(fault)?)
    }

    fn index_of(&self, fault: &Fault) -> Option<u32> {
        let index = self.faults.iter().position(|one| one == fault);
        index.and_then(|index| u32::try_from(index).ok())
    }

    /// The operation of a step.
    pub fn op_id(&self, step: Step) -> Option<OpId> {
        self.steps.op.get(step as usize).copied()
    }

    /// The end of the call in a row.
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

    /// The innermost enclosing call (or the call itself) that is not a framework operation.
    pub fn named_call(&self, call: CallId) -> Option<CallId> {
        let kind = |call: CallId| self.scopes.kind.get(self.calls.scope.get(call.index())?.index());
        let outer = |call: &CallId| self.calls.parent.get(call.index()).copied().flatten();
        let mut around = std::iter::successors(Some(call), outer).take(self.calls.len());
        around.find(|call| kind(*call) != Some(&ScopeKind::Framework))
    }

    /// The memory in use after the call in a row minus the memory in use before it, as far as the call caused it.
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

    /// The graph of a run: its own, or its parent's.
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

    /// The top-level runs with their ids, in order. A const-eval program is never a top-level run.
    pub fn top_level_runs(&self) -> impl Iterator<Item = (RunId, &Run)> {
        self.runs
            .iter()
            .enumerate()
            .filter(|(_, run)| run.is_top_level())
            .filter_map(|(index, run)| Some((RunId::new(index)?, run)))
    }

    /// The number of runs at the beginning that ran in earlier passes. Only cut-outs written up to 0.1.0 have any:
    /// [`CutOut::first`].
    pub fn earlier_runs(&self) -> usize {
        let first = self.cut_out.map_or(0, |cut_out| cut_out.first);
        self.runs.partition_point(|run| run.first < first)
    }

    /// For each run, the number of its top-level run, counted from 1; 0 for [`Rank::earlier_runs`].
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

    /// Whether `several_outputs` is complete. Trackers that do not record the launch do not record outputs either.
    pub fn states_outputs(&self) -> bool {
        self.launch.is_some()
    }

    /// Whether the rank has tensors at all; without them, memory can't be attributed.
    pub fn has_tensors(&self) -> bool {
        !self.tensors.is_empty()
    }

    /// The tensors of a pool that are live at a moment.
    pub fn live(&self, pool: PoolId, at: Moment) -> impl Iterator<Item = usize> + '_ {
        let tensors = &self.tensors;
        (0..tensors.len())
            .filter(move |&i| tensors.born[i] <= at && at < tensors.dies[i] && tensors.pool[i] == pool)
    }
}
