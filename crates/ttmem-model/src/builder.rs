//! Builds a profile from events, and replays a profile as events.

use std::borrow::Cow;

use super::{
    ByteRange, Call, During, Event, FailureContext, FaultLedger, FromStep, HistoryRow, Module, ModuleId,
    Moment, OpId, Pool, PoolId, Profile, Rank, RankEvent, RankId, Reading, Run, Sink, Step, StepRow, Tensor,
    Warning,
};
use crate::error::Result;
use crate::words::counted_as;

/// Limits on ranks and pools. A file with more is not a real recording, but an attempt to exhaust memory with a few
/// bytes.
const MAX_RANKS: usize = 1 << 16;
const MAX_POOLS: usize = 1 << 10;

/// Builds the profile that a sequence of events describes.
///
/// Events may come from a corrupt or hostile file: an event that refers to a missing row is counted and skipped.
#[derive(Debug, Default)]
pub struct Builder {
    profile: Profile,
    rejected: u64,
    /// The ranks that are examples of others, in order. They are among the ranks until the end, because events refer to
    /// them in the same way.
    examples: Vec<Example>,
}

/// A rank that is an example, by its index.
#[derive(Clone, Copy, Debug)]
struct Example {
    index: usize,
    of: RankId,
}

impl Builder {
    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// The profile built so far.
    pub fn finish(mut self) -> Profile {
        if self.rejected > 0 {
            let events = counted_as(
                self.rejected,
                "event refers to missing rows and was",
                "events refer to missing rows and were",
            );
            let message = format!("{events} skipped because the file is corrupt, so numbers may be wrong");
            self.profile.warnings.push(Warning { line: None, message });
        }
        for Example { index, of } in self.examples.into_iter().rev() {
            let rank = self.profile.ranks.remove(index);
            self.profile.examples.insert(of, rank);
        }
        self.profile
    }

    /// Applies an event. Returns whether it was valid.
    fn apply(&mut self, event: Event<'_>) -> bool {
        let profile = &mut self.profile;
        match event {
            Event::Source(source) => profile.source = source,
            Event::Text(text) => return profile.strings.push(&text).is_some(),
            Event::Type(ty) => profile.types.push(ty),
            Event::Op(op) => return profile.ops.push(&op).is_some(),
            Event::Frame(frame) => profile.stacks.frames.push(frame),
            Event::Stack(stack) => return profile.stacks.push(stack).is_some(),
            Event::OpStack(row) => {
                return row.op.index() < profile.ops.len() && profile.stacks.give(row).is_some();
            }
            Event::Rank { .. } if profile.ranks.len() >= MAX_RANKS || !self.examples.is_empty() => {
                return false;
            }
            Event::Rank { label } => profile.ranks.push(Rank { label, ..Rank::default() }),
            Event::Example(of) => {
                // All examples are after the ranks, so that the numbers of these do not change.
                let index = profile.ranks.len();
                let ranks = self.examples.first().map_or(index, |first| first.index);
                let is_possible = of.index() < ranks && index < MAX_RANKS;
                if is_possible {
                    profile.ranks.push(Rank::default());
                    self.examples.push(Example { index, of });
                }
                return is_possible;
            }
            Event::Of(rank, event) => {
                let ops = profile.ops.len();
                return rank_mut(&mut profile.ranks, rank).and_then(|rank| apply(rank, ops, event)).is_some();
            }
            Event::Warning(warning) => profile.warnings.push(warning),
            Event::SkippedLines(lines) => {
                profile.skipped_lines = profile.skipped_lines.saturating_add(lines);
            }
            Event::SourceText(range, text) => {
                profile.texts.insert((range.start, range.end), text.into_owned());
            }
            Event::End => profile.complete = true,
        }
        true
    }
}

impl Sink for Builder {
    fn take(&mut self, event: Event<'_>) -> Result<()> {
        if !self.apply(event) {
            self.rejected += 1;
        }
        Ok(())
    }

    fn history(&mut self, rank: RankId, row: HistoryRow) -> Result<()> {
        let ops = self.profile.ops.len();
        let rank = rank_mut(&mut self.profile.ranks, rank);
        if rank.and_then(|rank| push_history(rank, ops, row)).is_none() {
            self.rejected += 1;
        }
        Ok(())
    }
}

fn rank_mut(ranks: &mut [Rank], id: RankId) -> Option<&mut Rank> {
    ranks.get_mut(id.index())
}

/// Applies an event to its rank; `None` if it refers to a missing row.
fn apply(rank: &mut Rank, ops: usize, event: RankEvent) -> Option<()> {
    match event {
        RankEvent::Pool { .. } if rank.pools.len() >= MAX_POOLS => return None,
        RankEvent::Pool { name, banks, quantum } => rank.pools.push(Pool::new(name, banks, quantum)),
        RankEvent::Banks(pool, banks) => rank.pools.get_mut(pool.index())?.banks = Some(banks),
        RankEvent::PoolTotals(pool, totals) => rank.pools.get_mut(pool.index())?.totals = Some(totals),
        RankEvent::Sampled(pool, peak) => rank.pools.get_mut(pool.index())?.sampled = Some(peak),
        RankEvent::Module { name } => {
            rank.modules.push(Module { name, stages: Vec::new(), arguments: Vec::new() });
        }
        RankEvent::Stage(module, stage) => rank.modules.get_mut(module.index())?.stages.push(stage),
        RankEvent::Argument(module, argument) => {
            rank.modules.get_mut(module.index())?.arguments.push(argument);
        }
        RankEvent::Run(run) => push_run(rank, run)?,
        RankEvent::RunEnded { run, end, finished, source_end } => {
            let run = rank.runs.get_mut(run.index())?;
            (run.end, run.finished, run.source.end) = (end, finished, source_end);
        }
        RankEvent::RunModule(run, module) => {
            rank.modules.get(module.index())?;
            rank.runs.get_mut(run.index())?.module = Some(module);
        }
        RankEvent::Step(step) => push_step(rank, ops, step)?,
        RankEvent::Marks(step, marks) => rank.steps.marks.get_mut(step as usize)?.add(marks),
        RankEvent::State(pool, at, reading) => {
            within(rank, at)?;
            rank.pools.get_mut(pool.index())?.observe(at, &reading).then_some(())?;
        }
        RankEvent::Unchanged(pool, at) => {
            within(rank, at)?;
            rank.pools.get_mut(pool.index())?.look(at).then_some(())?;
        }
        RankEvent::Block(pool, at, block) => {
            within(rank, at)?;
            rank.pools.get_mut(pool.index())?.map(at, block);
        }
        RankEvent::Tensor(tensor) => push_tensor(rank, tensor)?,
        RankEvent::Dies(tensor, at) => {
            within(rank, at)?;
            *rank.tensors.dies.get_mut(tensor.index())? = at;
        }
        RankEvent::Classified(tensor, class, name) => {
            *rank.tensors.class.get_mut(tensor.index())? = class;
            if name.is_some() {
                rank.tensors.name[tensor.index()] = name;
            }
        }
        RankEvent::Alias(alias) => {
            rank.tensors.get(alias.tensor.index())?;
            rank.aliases.push(alias);
        }
        RankEvent::Derived(derivation) => {
            rank.tensors.get(derivation.tensor.index().max(derivation.source.index()))?;
            rank.derivations.push(derivation);
        }
        RankEvent::Origin(origin) => {
            rank.tensors.get(origin.tensor.index())?;
            rank.modules.get(origin.module.index())?;
            rank.origins.push(origin);
        }
        RankEvent::Carried(carried) => {
            rank.tensors.get(carried.tensor.index())?;
            rank.carried.push(carried);
        }
        RankEvent::CutOut(cut_out) => rank.cut_out = Some(cut_out),
        RankEvent::Process(number) => rank.process = Some(number),
        RankEvent::Session(session) => rank.sessions.push(session),
        RankEvent::Phase(phase) => {
            rank.sessions.get(phase.session.index())?;
            rank.phases.push(phase);
        }
        RankEvent::SessionEnded(session, totals) => {
            rank.sessions.get_mut(session.index())?.totals = Some(totals);
        }
        RankEvent::Fault(fault) => rank.faults.push(fault),
        RankEvent::FaultEnded(fault) => rank.faults.get_mut(fault as usize)?.ended_program = true,
        RankEvent::RequiresGrad(tensor, does) => {
            rank.tensors.get(tensor.index())?;
            rank.requires_grad.insert(tensor, does);
        }
        RankEvent::Thinned(_)
        | RankEvent::AllocationTotals(..)
        | RankEvent::StandsFor(..)
        | RankEvent::Restored(..)
        | RankEvent::CallsSince(_) => return apply_thinned(rank, event),
        RankEvent::OpTotals(totals) => rank.op_totals.push(totals),
        RankEvent::History(row) => push_history(rank, ops, row)?,
        RankEvent::Label(label) => {
            rank.pools.get(label.pool.index())?;
            rank.labels.push(label);
        }
        RankEvent::Expected(expected) => rank.expected.push(expected),
        RankEvent::NotWatched(pool, what) => rank.not_watched.push((pool, what)),
        RankEvent::Ledger(..)
        | RankEvent::ProcessUse(..)
        | RankEvent::ReportedPart(..)
        | RankEvent::MemorySetting(..) => return apply_to_ledger(rank, event),
        _ => apply_on_cores(rank, event).or_else(|| apply_in_time(rank, ops, event))?,
    }
    Some(())
}

/// Applies an event about the device's memory at an error.
fn apply_to_ledger(rank: &mut Rank, event: RankEvent) -> Option<()> {
    match event {
        RankEvent::Ledger(fault, ledger) => {
            rank.faults.get(fault as usize)?;
            rank.ledgers.entry(fault).or_default().ledger = ledger;
        }
        RankEvent::ProcessUse(fault, process) => rank.ledgers.get_mut(&fault)?.processes.push(process),
        RankEvent::ReportedPart(fault, part) => rank.ledgers.get_mut(&fault)?.reported.push(part),
        RankEvent::MemorySetting(fault, setting) => rank.ledgers.get_mut(&fault)?.settings.push(setting),
        _ => return None,
    }
    Some(())
}

/// Applies an event about what keeps an allocation alive.
fn apply_holder(rank: &mut Rank, event: RankEvent) -> Option<()> {
    match event {
        RankEvent::HeldBy(tensor, holder) => {
            rank.tensors.get(tensor.index())?;
            rank.holders.insert(tensor, holder);
        }
        RankEvent::AddressHeldBy(pool, address, holder) => {
            rank.pools.get(pool.index())?;
            rank.address_holders.push((pool, address, holder));
        }
        _ => return None,
    }
    Some(())
}

/// Applies an event about the L1 of cores, or the details of an error.
fn apply_on_cores(rank: &mut Rank, event: RankEvent) -> Option<()> {
    match event {
        RankEvent::FaultDetail(fault, detail) => {
            rank.faults.get(fault as usize)?;
            rank.fault_details.insert(fault, detail);
        }
        RankEvent::FailureContext(fault, context) => rank.ledgers.get_mut(&fault)?.context = context,
        RankEvent::CoreMemory(memory) => rank.core_memory = Some(memory),
        RankEvent::TtnnPeaks(peaks) => rank.ttnn_peaks = Some(peaks),
        RankEvent::Placed(placement) => {
            rank.tensors.get(placement.tensor.index())?;
            // In the order of the allocations, for `Placements::of`.
            let is_next = rank.placements.tensor.last().is_none_or(|last| *last < placement.tensor);
            is_next.then(|| rank.placements.push(placement))?;
        }
        RankEvent::Used(usage) => {
            rank.tensors.get(usage.tensor.index())?;
            let is_next = rank.usages.tensor.last().is_none_or(|last| *last < usage.tensor);
            is_next.then(|| rank.usages.push(usage))?;
        }
        RankEvent::BankLayout(pool, layout) => rank.pools.get_mut(pool.index())?.layout = Some(layout),
        RankEvent::AllocatorRules(pool, rules) => rank.pools.get_mut(pool.index())?.rules = Some(rules),
        RankEvent::Reserved(segment) => {
            rank.pools.get(segment.pool.index())?;
            rank.reserved.push(segment);
        }
        RankEvent::ProgramBuffer(buffer) => {
            let is_next = rank.program_buffers.step.last().is_none_or(|last| *last <= buffer.step);
            (is_next && buffer.step < rank.end()).then(|| rank.program_buffers.push(buffer))?;
        }
        _ => return None,
    }
    Some(())
}

/// Applies an event about times, or about the program and its calls.
fn apply_in_time(rank: &mut Rank, ops: usize, event: RankEvent) -> Option<()> {
    match event {
        RankEvent::Began(unix) => rank.began = Some(unix),
        RankEvent::Launch(launch) => {
            rank.label = rank.label.or(launch.label);
            rank.launch = Some(launch);
        }
        RankEvent::LaunchArgument(argument) => rank.launch_arguments.push(argument),
        RankEvent::Lane { name } => rank.lanes.push(name),
        RankEvent::Scope(scope) => {
            if let Some(parent) = scope.parent {
                rank.scopes.get(parent.index())?;
            }
            rank.scopes.push(scope);
        }
        RankEvent::Call(call) => push_call(rank, ops, call)?,
        RankEvent::Returned(call, outcome) => *rank.calls.outcome.get_mut(call.index())? = Some(outcome),
        RankEvent::Seen(call, seen) => {
            rank.calls.get(call.index())?;
            rank.seen.insert(call, seen);
        }
        RankEvent::CallTotals(scope, totals) => {
            rank.scopes.get(scope.index())?;
            rank.further_calls.insert(scope, totals);
        }
        RankEvent::SeveralOutputs(scope) => {
            rank.scopes.get(scope.index())?;
            rank.several_outputs.insert(scope);
        }
        RankEvent::Time(step, time) => {
            follows(rank, &rank.times, step)?;
            rank.times.set(step, time);
        }
        RankEvent::Within(step, call) => {
            follows(rank, &rank.within, step)?;
            if let Some(call) = call {
                rank.calls.get(call.index())?;
            }
            rank.within.set(step, call);
        }
        RankEvent::Snapshot(snapshot) => {
            within(rank, snapshot.at)?;
            rank.snapshots.push(snapshot);
        }
        _ => return apply_holder(rank, event),
    }
    Some(())
}

/// Checks that values arrive in step order, for existing steps or the next one.
fn follows<T>(rank: &Rank, values: &FromStep<T>, step: Step) -> Option<()> {
    (step <= rank.end() && values.step.last().is_none_or(|last| *last <= step)).then_some(())
}

/// Applies an event about the thinned beginning of a recording that reached its limit.
fn apply_thinned(rank: &mut Rank, event: RankEvent) -> Option<()> {
    match event {
        RankEvent::Thinned(thinned) => rank.thinned = Some(thinned),
        RankEvent::AllocationTotals(pool, totals) => {
            rank.pools.get(pool.index())?;
            rank.further_allocations.insert(pool, totals);
        }
        RankEvent::StandsFor(tensor, count) => {
            rank.tensors.get(tensor.index())?;
            rank.stands_for.insert(tensor, count);
        }
        RankEvent::Restored(tensor, made) => {
            rank.tensors.get(tensor.index())?;
            rank.restored.insert(tensor, made);
        }
        RankEvent::CallsSince(time) => rank.calls_since = Some(time),
        _ => return None,
    }
    Some(())
}

fn push_call(rank: &mut Rank, ops: usize, call: Call) -> Option<()> {
    rank.scopes.get(call.scope.index())?;
    rank.lanes.get(call.lane.index())?;
    if let Some(parent) = call.parent {
        rank.calls.get(parent.index())?;
    }
    if call.op.is_some_and(|op| op.index() >= ops) {
        return None;
    }
    rank.calls.push(call);
    Some(())
}

fn push_history(rank: &mut Rank, ops: usize, row: HistoryRow) -> Option<()> {
    rank.pools.get(row.pool.index())?;
    if let During::Call(call) = row.during {
        rank.calls.get(call.index())?;
    }
    (row.op.index() < ops).then(|| rank.history.push(row))
}

/// Checks that a moment is within the existing steps, because tables are sized by it.
fn within(rank: &Rank, at: Moment) -> Option<()> {
    (at == Moment::NEVER || at.position() <= rank.end()).then_some(())
}

fn push_run(rank: &mut Rank, run: Run) -> Option<()> {
    if let Some(parent) = run.parent {
        rank.runs.get(parent.index())?;
    }
    if let Some(module) = run.module {
        rank.modules.get(module.index())?;
    }
    rank.runs.push(run);
    Some(())
}

fn push_step(rank: &mut Rank, ops: usize, step: StepRow) -> Option<()> {
    if step.op.index() >= ops || rank.end() >= Moment::MAX_STEPS {
        return None;
    }
    if let Some(run) = step.run {
        rank.runs.get(run.index())?;
    }
    rank.steps.push(step);
    Some(())
}

fn push_tensor(rank: &mut Rank, tensor: Tensor) -> Option<()> {
    within(rank, tensor.born)?;
    within(rank, tensor.dies)?;
    rank.pools.get(tensor.pool.index())?;
    rank.tensors.push(tensor);
    Some(())
}

impl Profile {
    /// Replays the profile as events. Building them gives an equal profile.
    pub fn replay(&self, sink: &mut dyn Sink) -> Result<()> {
        sink.take(Event::Source(self.source.clone()))?;
        for text in self.strings.iter() {
            sink.take(Event::Text(Cow::Borrowed(text)))?;
        }
        for ty in &self.types {
            sink.take(Event::Type(ty.clone()))?;
        }
        for op in (0..self.ops.len()).filter_map(OpId::new).filter_map(|id| self.ops.get(id)) {
            sink.take(Event::Op(op))?;
        }
        self.stacks.frames.iter().try_for_each(|&frame| sink.take(Event::Frame(frame)))?;
        self.stacks.rows.iter().try_for_each(|stack| sink.take(Event::Stack(stack)))?;
        self.stacks.of_ops.iter().try_for_each(|row| sink.take(Event::OpStack(row)))?;
        for (index, rank) in self.ranks.iter().enumerate() {
            sink.take(Event::Rank { label: rank.label })?;
            let Some(id) = RankId::new(index) else { break };
            rank.replay(&mut |event| sink.take(Event::Of(id, event)))?;
        }
        for (index, (&of, rank)) in self.examples.iter().enumerate() {
            sink.take(Event::Example(of))?;
            let Some(id) = RankId::new(self.ranks.len() + index) else { break };
            rank.replay(&mut |event| sink.take(Event::Of(id, event)))?;
        }
        for (&(start, end), text) in &self.texts {
            sink.take(Event::SourceText(ByteRange { start, end }, Cow::Borrowed(text)))?;
        }
        for warning in &self.warnings {
            sink.take(Event::Warning(warning.clone()))?;
        }
        if self.skipped_lines > 0 {
            sink.take(Event::SkippedLines(self.skipped_lines))?;
        }
        if self.complete { sink.take(Event::End) } else { Ok(()) }
    }
}

impl Rank {
    fn replay(&self, say: &mut dyn FnMut(RankEvent) -> Result<()>) -> Result<()> {
        for (index, module) in self.modules.iter().enumerate() {
            say(RankEvent::Module { name: module.name })?;
            let Some(id) = ModuleId::new(index) else { break };
            for &stage in &module.stages {
                say(RankEvent::Stage(id, stage))?;
            }
            for &argument in &module.arguments {
                say(RankEvent::Argument(id, argument))?;
            }
        }
        self.runs.iter().try_for_each(|&run| say(RankEvent::Run(run)))?;
        self.steps.iter().try_for_each(|step| say(RankEvent::Step(step)))?;
        for (index, pool) in self.pools.iter().enumerate() {
            say(RankEvent::Pool { name: pool.name, banks: pool.banks, quantum: pool.quantum })?;
            let Some(id) = PoolId::new(index) else { break };
            pool.layout.iter().try_for_each(|&layout| say(RankEvent::BankLayout(id, layout)))?;
            pool.rules.iter().try_for_each(|&rules| say(RankEvent::AllocatorRules(id, rules)))?;
            pool.totals.iter().try_for_each(|&totals| say(RankEvent::PoolTotals(id, totals)))?;
            pool.sampled.iter().try_for_each(|&peak| say(RankEvent::Sampled(id, peak)))?;
            pool.replay(&mut |at, reading| match reading {
                Some(reading) => say(RankEvent::State(id, at, reading)),
                None => say(RankEvent::Unchanged(id, at)),
            })?;
            for map in &pool.maps {
                map.blocks.iter().try_for_each(|&block| say(RankEvent::Block(id, map.at, block)))?;
            }
        }
        self.tensors.iter().try_for_each(|tensor| say(RankEvent::Tensor(tensor)))?;
        self.aliases.iter().try_for_each(|alias| say(RankEvent::Alias(alias)))?;
        self.derivations.iter().try_for_each(|row| say(RankEvent::Derived(row)))?;
        self.origins.iter().try_for_each(|row| say(RankEvent::Origin(row)))?;
        self.carried.iter().try_for_each(|row| say(RankEvent::Carried(row)))?;
        self.cut_out.iter().try_for_each(|&cut_out| say(RankEvent::CutOut(cut_out)))?;
        self.process.iter().try_for_each(|&number| say(RankEvent::Process(number)))?;
        self.sessions.iter().try_for_each(|&session| say(RankEvent::Session(session)))?;
        self.phases.iter().try_for_each(|&phase| say(RankEvent::Phase(phase)))?;
        self.faults.iter().try_for_each(|&fault| say(RankEvent::Fault(fault)))?;
        for (&fault, &detail) in &self.fault_details {
            say(RankEvent::FaultDetail(fault, detail))?;
        }
        for (&fault, FaultLedger { ledger, context, processes, reported, settings }) in &self.ledgers {
            say(RankEvent::Ledger(fault, *ledger))?;
            if *context != FailureContext::default() {
                say(RankEvent::FailureContext(fault, *context))?;
            }
            processes.iter().try_for_each(|&process| say(RankEvent::ProcessUse(fault, process)))?;
            reported.iter().try_for_each(|&part| say(RankEvent::ReportedPart(fault, part)))?;
            settings.iter().try_for_each(|&setting| say(RankEvent::MemorySetting(fault, setting)))?;
        }
        self.core_memory.iter().try_for_each(|&memory| say(RankEvent::CoreMemory(memory)))?;
        self.ttnn_peaks.iter().try_for_each(|&peaks| say(RankEvent::TtnnPeaks(peaks)))?;
        self.placements.iter().try_for_each(|placement| say(RankEvent::Placed(placement)))?;
        self.program_buffers.iter().try_for_each(|buffer| say(RankEvent::ProgramBuffer(buffer)))?;
        self.usages.iter().try_for_each(|usage| say(RankEvent::Used(usage)))?;
        self.reserved.iter().try_for_each(|segment| say(RankEvent::Reserved(segment)))?;
        self.requires_grad
            .iter()
            .try_for_each(|(&tensor, &does)| say(RankEvent::RequiresGrad(tensor, does)))?;
        self.thinned.iter().try_for_each(|&thinned| say(RankEvent::Thinned(thinned)))?;
        for (&pool, &totals) in &self.further_allocations {
            say(RankEvent::AllocationTotals(pool, totals))?;
        }
        for (&tensor, &count) in &self.stands_for {
            say(RankEvent::StandsFor(tensor, count))?;
        }
        for (&tensor, &made) in &self.restored {
            say(RankEvent::Restored(tensor, made))?;
        }
        self.calls_since.iter().try_for_each(|&time| say(RankEvent::CallsSince(time)))?;
        self.op_totals.iter().try_for_each(|&totals| say(RankEvent::OpTotals(totals)))?;
        self.expected.iter().try_for_each(|&expected| say(RankEvent::Expected(expected)))?;
        self.not_watched.iter().try_for_each(|&(pool, what)| say(RankEvent::NotWatched(pool, what)))?;
        self.replay_in_time(say)
    }

    fn replay_in_time(&self, say: &mut dyn FnMut(RankEvent) -> Result<()>) -> Result<()> {
        self.began.iter().try_for_each(|&unix| say(RankEvent::Began(unix)))?;
        self.launch.iter().try_for_each(|&launch| say(RankEvent::Launch(launch)))?;
        self.launch_arguments.iter().try_for_each(|&argument| say(RankEvent::LaunchArgument(argument)))?;
        self.lanes.iter().try_for_each(|&name| say(RankEvent::Lane { name }))?;
        self.scopes.iter().try_for_each(|scope| say(RankEvent::Scope(scope)))?;
        self.calls.iter().try_for_each(|call| say(RankEvent::Call(call)))?;
        self.seen.iter().try_for_each(|(&call, &seen)| say(RankEvent::Seen(call, seen)))?;
        for (&scope, &totals) in &self.further_calls {
            say(RankEvent::CallTotals(scope, totals))?;
        }
        self.several_outputs.iter().try_for_each(|&scope| say(RankEvent::SeveralOutputs(scope)))?;
        self.times.iter().try_for_each(|(step, time)| say(RankEvent::Time(step, time)))?;
        self.within.iter().try_for_each(|(step, call)| say(RankEvent::Within(step, call)))?;
        self.snapshots.iter().try_for_each(|&snapshot| say(RankEvent::Snapshot(snapshot)))?;
        self.history.iter().try_for_each(|row| say(RankEvent::History(row)))?;
        self.labels.iter().try_for_each(|label| say(RankEvent::Label(label)))?;
        self.holders.iter().try_for_each(|(&tensor, &holder)| say(RankEvent::HeldBy(tensor, holder)))?;
        let mut at_addresses = self.address_holders.iter();
        at_addresses.try_for_each(|&(pool, at, holder)| say(RankEvent::AddressHeldBy(pool, at, holder)))
    }
}

impl Pool {
    /// Replays the changes of all curves, and the moments without changes.
    pub fn replay(&self, say: &mut dyn FnMut(Moment, Option<Reading>) -> Result<()>) -> Result<()> {
        let mut next: Vec<_> =
            self.curves.iter().map(|(kind, curve)| (*kind, curve.changes().peekable())).collect();
        for at in self.observed.iter() {
            loop {
                // A reading has at most one change per curve, so that several changes at a moment stay separate.
                let mut reading = Reading::default();
                let mut more = false;
                for (kind, changes) in &mut next {
                    if let Some((_, value)) = changes.next_if(|(moment, _)| *moment == at) {
                        reading.set(*kind, Some(value));
                        more |= changes.peek().is_some_and(|(moment, _)| *moment == at);
                    }
                }
                say(at, (reading != Reading::default()).then_some(reading))?;
                if !more {
                    break;
                }
            }
        }
        Ok(())
    }
}
