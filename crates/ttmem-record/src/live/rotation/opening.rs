//! Writes the opening of a follow-up file: the live state in full, and the past as `past` has it.
//!
//! Kept steps are written unchanged, each with its operation and time. Allocations that were live after such a step but
//! have been freed since become one row per pool, so that the rows add up to the pool's level.

use std::collections::{BTreeMap, BTreeSet};

use ttmem_model::rules::calls::CallRef;
use ttmem_model::words::counted_as;
use ttmem_model::{
    AllocationTotals, AllocatorRules, Call, CallId, CallTotals, Class, CurveKind, During, Event, HistoryRow,
    Moment, Nanoseconds, Outcome, PoolId, RankEvent, Reading, Result, ScopeId, Snapshot, Step, StrId,
    TensorId, Thinned,
};

use super::kept::{Kept, KeptCall, Live};
use super::past::{After, KeptSnapshot, Point, Value};
use crate::event_file::{EventFile, NewTensor};
use crate::live::narrator::THINNED;

/// An item that is written after a step.
#[derive(Clone, Copy, Debug)]
enum Item {
    /// The allocation made by the step, by its slot.
    Born(usize),
    /// A point of a curve.
    Level(Value),
    /// A snapshot, by number.
    Snapshot(usize),
    /// An error of the program, by number.
    Fault(usize),
    /// The current levels.
    Now,
}

impl Item {
    /// The order of items at one position.
    fn rank(self) -> u8 {
        match self {
            Self::Born(_) => 0,
            Self::Level(_) => 1,
            Self::Snapshot(_) => 2,
            Self::Fault(_) => 3,
            Self::Now => 4,
        }
    }
}

/// The sum of a pool's allocations so far, and the row for the freed ones.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    bytes: u64,
    count: u64,
    rest: Option<(TensorId, u64, u64)>,
}

/// Writes all kept state to a new file. `note` says where the rest is.
pub(in crate::live) fn write_opening(file: &mut EventFile, kept: &mut Kept, note: String) -> Result<()> {
    // First, so that it can be found without reading the rest.
    kept.launch.iter().try_for_each(|&launch| file.write_rank(RankEvent::Launch(launch)))?;
    let mut arguments = kept.launch_arguments.iter();
    arguments.try_for_each(|&argument| file.write_rank(RankEvent::LaunchArgument(argument)))?;
    kept.names.each(|event| file.write(event))?;
    let mut opening = Opening::of(kept);
    for pool in &kept.pools {
        file.pool(pool.name, Some(1), pool.level.is_some())?;
    }
    write_calls(file, kept, &opening)?;
    write_histories(file, kept)?;
    opening.write(file, kept)?;
    let Kept { last, time, .. } = *kept;
    let (since, until, steps) = (time.max(last.time), file.steps(), last.position);
    file.write_rank(RankEvent::Thinned(Thinned { since, until, steps }))?;
    if let Some(since) = kept.rounds.since {
        file.write_rank(RankEvent::CallsSince(since))?;
    }
    write_totals(file, kept)?;
    kept.examples.write(file)?;
    write_warnings(file, kept, note)
}

/// The steps of the opening, and the items after each of them.
struct Opening {
    /// Each with its time.
    items: Vec<(After, Nanoseconds, Item)>,
    /// The positions that become steps of the new file, in order.
    positions: Vec<u64>,
    sums: Vec<Sum>,
    /// The last time and call that were written.
    written: (Option<u64>, Option<CallId>),
}

impl Opening {
    fn of(kept: &Kept) -> Self {
        let mut items: Vec<(After, Nanoseconds, Item)> = Vec::new();
        let born = |(place, live): (usize, &Option<Live>)| {
            let born = live.as_ref()?.born;
            Some((born, born.time, Item::Born(place)))
        };
        items.extend(kept.live.iter().enumerate().filter_map(born));
        for (index, pool) in kept.pools.iter().enumerate() {
            let Some(id) = PoolId::new(index) else { break };
            for (kind, curve) in pool.curves() {
                let value = |p: Point| Value { pool: id, kind, bytes: p.value, count: p.count };
                let point = |p: Point| (p.after, p.seen, Item::Level(value(p)));
                items.extend(curve.points().map(point));
            }
        }
        let snapshot = |(number, snapshot): (usize, &KeptSnapshot)| {
            (snapshot.after, snapshot.time, Item::Snapshot(number))
        };
        items.extend(kept.snapshots.iter().enumerate().map(snapshot));
        for round in kept.rounds.iter() {
            let point = |value: &Value| (round.after, round.after.time, Item::Level(*value));
            items.extend(round.values.iter().map(point));
        }
        let fault = |(number, (after, _)): (usize, &(Option<After>, _))| {
            after.map(|after| (after, after.time, Item::Fault(number)))
        };
        items.extend(kept.faults.iter().enumerate().filter_map(fault));
        items.push((kept.last, Nanoseconds::MAX, Item::Now));
        items.sort_by_key(|(after, seen, item)| (after.position, *seen, item.rank()));
        let mut positions: Vec<u64> = items.iter().map(|(after, ..)| after.position).collect();
        positions.dedup();
        positions.retain(|position| *position > 0);
        let sums = vec![Sum::default(); kept.pools.len()];
        Self { items, positions, sums, written: (None, None) }
    }

    /// Maps a position in the whole recording to a position in the new file.
    fn position(&self, position: u64) -> Step {
        let steps = self.positions.partition_point(|have| *have <= position);
        Step::try_from(steps).unwrap_or(Step::MAX)
    }

    fn write(&mut self, file: &mut EventFile, kept: &mut Kept) -> Result<()> {
        let items = std::mem::take(&mut self.items);
        for group in items.chunk_by(|a, b| a.0.position == b.0.position) {
            let Some((after, _, first)) = group.first() else { continue };
            let at = self.write_step(file, kept, *after, *first)?;
            self.write_after(file, kept, at, group)?;
        }
        file.write_rank(RankEvent::Time(file.steps(), kept.time))?;
        file.write_rank(RankEvent::Within(file.steps(), kept.call(kept.within)))?;
        for pool in &mut kept.pools {
            pool.level = pool.level.map(|level| level.written_at(file.now()));
        }
        Ok(())
    }

    /// Writes the step. If its allocation is still live, also writes its call.
    fn write_step(&mut self, file: &mut EventFile, kept: &Kept, after: After, first: Item) -> Result<Moment> {
        if after.position == 0 {
            return Ok(Moment::START);
        }
        if self.written.0 != Some(after.time) {
            self.written.0 = Some(after.time);
            file.write_rank(RankEvent::Time(file.steps(), after.time))?;
        }
        let born = match first {
            Item::Born(place) => kept.live.get(place).copied().flatten(),
            _ => None,
        };
        let within = kept.call(born.and_then(|live| live.within));
        if self.written.1 != within {
            self.written.1 = within;
            file.write_rank(RankEvent::Within(file.steps(), within))?;
        }
        file.step(after.op)
    }

    fn write_after(
        &mut self,
        file: &mut EventFile,
        kept: &mut Kept,
        at: Moment,
        group: &[(After, Nanoseconds, Item)],
    ) -> Result<()> {
        for (index, (_, _, item)) in group.iter().enumerate() {
            match *item {
                Item::Born(place) => self.write_live(file, kept, place, at)?,
                Item::Level(value) => {
                    if !is_in_snapshot(kept, &group[index..], value) {
                        self.write_levels(file, kept, at, &[value])?;
                    }
                }
                Item::Snapshot(number) => {
                    let Some(snapshot) = kept.snapshots.get(number) else { continue };
                    self.write_levels(file, kept, at, &snapshot.values)?;
                    let (name, time) = (snapshot.name, snapshot.time);
                    file.write_rank(RankEvent::Snapshot(Snapshot { name, at, time }))?;
                }
                Item::Fault(number) => {
                    if let Some(&(_, fault)) = kept.faults.get(number) {
                        file.fault(fault, true)?;
                    }
                }
                Item::Now => self.write_levels(file, kept, at, &kept.values())?,
            }
        }
        Ok(())
    }

    /// Writes a live allocation.
    fn write_live(&mut self, file: &mut EventFile, kept: &mut Kept, place: usize, at: Moment) -> Result<()> {
        let Some(Some(live)) = kept.live.get_mut(place) else { return Ok(()) };
        let &mut Live { pool, bytes, ty, class, name, level, count, .. } = live;
        let tensor = file.tensor(NewTensor { pool, bytes, ty, class, name })?;
        live.tensor = tensor;
        if let Some(does) = live.requires_grad {
            file.write_rank(RankEvent::RequiresGrad(tensor, does))?;
        }
        if let Some(holder) = live.holder {
            file.write_rank(RankEvent::HeldBy(tensor, holder))?;
        }
        if let Some(sum) = self.sums.get_mut(pool.index()) {
            sum.bytes = sum.bytes.saturating_add(bytes);
            sum.count += 1;
        }
        if self.add_up(file, kept, at, pool, level, count)? {
            let reading = Reading { allocated: Some(level), ..Reading::default() };
            file.write_rank(RankEvent::State(pool, at, reading))?;
        }
        Ok(())
    }

    /// Writes the levels of pools. Those of the same pool must be consecutive.
    fn write_levels(
        &mut self,
        file: &mut EventFile,
        kept: &Kept,
        at: Moment,
        values: &[Value],
    ) -> Result<()> {
        for of_pool in values.chunk_by(|a, b| a.pool == b.pool) {
            let mut reading = Reading::default();
            for &Value { pool, kind, bytes, count } in of_pool {
                reading.set(kind, Some(bytes));
                if kind == CurveKind::Allocated {
                    self.add_up(file, kept, at, pool, bytes, count)?;
                }
            }
            if let Some(value) = of_pool.first() {
                file.write_rank(RankEvent::State(value.pool, at, reading))?;
            }
        }
        Ok(())
    }

    /// Makes the rows of a pool add up to its level, unless it is known only from readings. Returns whether a row was
    /// written.
    fn add_up(
        &mut self,
        file: &mut EventFile,
        kept: &Kept,
        at: Moment,
        pool: PoolId,
        level: u64,
        count: u64,
    ) -> Result<bool> {
        let is_added_up = kept.pools.get(pool.index()).is_some_and(|pool| pool.level.is_some());
        let Some(sum) = self.sums.get_mut(pool.index()).filter(|_| is_added_up) else { return Ok(false) };
        let expected = (level.saturating_sub(sum.bytes), count.saturating_sub(sum.count));
        let have = sum.rest.map_or((0, 0), |(_, bytes, count)| (bytes, count));
        if expected == have {
            return Ok(false);
        }
        if let Some((tensor, ..)) = sum.rest.take() {
            file.dies(tensor, at)?;
        }
        if expected != (0, 0) {
            let (bytes, count) = expected;
            let name = StrId::new(THINNED);
            let rest = NewTensor { pool, bytes, ty: None, class: Class::Unknown, name };
            let tensor = file.tensor_without_step(rest, at)?;
            file.write_rank(RankEvent::StandsFor(tensor, count))?;
            sum.rest = Some((tensor, bytes, count));
        }
        Ok(true)
    }
}

/// Whether the snapshot at the same position has the same point and will write it.
fn is_in_snapshot(kept: &Kept, following: &[(After, Nanoseconds, Item)], point: Value) -> bool {
    let snapshot = following.iter().find_map(|(_, _, item)| match item {
        Item::Snapshot(number) => kept.snapshots.get(*number),
        _ => None,
    });
    snapshot.is_some_and(|snapshot| snapshot.values.contains(&point))
}

/// Writes the running calls and those with live allocations, in order of their start.
fn write_calls(file: &mut EventFile, kept: &mut Kept, opening: &Opening) -> Result<()> {
    let mut needed = vec![false; kept.calls.len()];
    let open =
        |(place, call): (usize, &Option<KeptCall>)| call.filter(|call| call.outcome.is_none()).map(|_| place);
    let makers = kept.live.iter().flatten().filter_map(|live| live.within);
    let from: Vec<usize> =
        (kept.calls.iter().enumerate().filter_map(open)).chain(makers.map(CallRef::index)).collect();
    for place in from {
        let mut next = Some(place);
        while let Some(place) = next.filter(|place| needed.get(*place) == Some(&false)) {
            needed[place] = true;
            next = kept.calls[place].and_then(|call| call.parent).map(CallRef::index);
        }
    }
    for (call, is_needed) in kept.calls.iter_mut().zip(needed) {
        *call = call.filter(|_| is_needed);
    }
    let places = kept.calls.iter().enumerate();
    let mut calls: Vec<(Option<usize>, Option<u64>, KeptCall)> =
        places.filter_map(|(place, call)| Some((Some(place), None, (*call)?))).collect();
    calls.extend(ended_alone(kept).into_iter().map(|(parent, call)| (None, parent, call)));
    calls.sort_unstable_by_key(|(_, _, call)| call.number);
    let mut rows: BTreeMap<u64, CallId> = BTreeMap::new();
    for (place, outer, call) in calls {
        let KeptCall { scope, lane, op, began, .. } = call;
        let parent = match outer {
            Some(number) => rows.get(&number).copied(),
            None => kept.call(call.parent.filter(|_| place.is_some())),
        };
        let first = opening.position(call.first);
        let id = file.call(Call { scope, lane, parent, op, began, first, outcome: None })?;
        rows.insert(call.number, id);
        if let Some(place) = place {
            kept.calls[place] = Some(KeptCall { call: id, ..call });
        }
        if let Some((outcome, end)) = call.outcome {
            let outcome = Outcome { end: opening.position(end), ..outcome };
            file.write_rank(RankEvent::Returned(id, outcome))?;
        }
    }
    for call in kept.rounds.calls_mut() {
        call.call = rows.get(&call.number).copied().unwrap_or(call.call);
    }
    kept.examples.forget_file();
    for call in kept.examples.since_iteration() {
        call.row = rows.get(&call.call.number).copied();
    }
    Ok(())
}

/// The ended calls that are only kept as rounds, or because rows of the history may belong to them. Each with the number of
/// the enclosing call.
fn ended_alone(kept: &mut Kept) -> Vec<(Option<u64>, KeptCall)> {
    let mut others: BTreeSet<u64> = kept.calls.iter().flatten().map(|call| call.number).collect();
    let mut alone: Vec<(Option<u64>, KeptCall)> =
        kept.rounds.iter().map(|round| (None, round.call)).collect();
    let recent = kept.examples.since_iteration().iter();
    alone.extend(recent.filter(|one| one.call.outcome.is_some()).map(|one| (one.parent, one.call)));
    alone.retain(|(_, call)| others.insert(call.number));
    alone
}

/// Writes the known contents of allocators with a history, and the labels of addresses.
fn write_histories(file: &mut EventFile, kept: &Kept) -> Result<()> {
    for (&pool, memory) in &kept.allocators {
        let rules = memory.contents.rules();
        if rules != AllocatorRules::default() {
            file.write_rank(RankEvent::AllocatorRules(pool, rules))?;
        }
        let highest = memory.highest.map(|row| HistoryRow { during: During::NoCall, ..row });
        let there = memory.contents.rows(pool, memory.until).map(|(row, _)| row);
        for row in highest.into_iter().chain(there) {
            file.write_rank(RankEvent::History(row))?;
        }
    }
    kept.labels.values().try_for_each(|label| file.write_rank(RankEvent::Label(*label)))?;
    let mut holders = kept.address_holders.iter();
    holders.try_for_each(|(&(pool, at), &holder)| file.write_rank(RankEvent::AddressHeldBy(pool, at, holder)))
}

/// Writes the totals of calls and allocations without rows in this file, and everything else without a step.
fn write_totals(file: &mut EventFile, kept: &mut Kept) -> Result<()> {
    let mut further = kept.totals.clone();
    let alone: Vec<KeptCall> = ended_alone(kept).into_iter().map(|(_, call)| call).collect();
    for call in kept.calls.iter().flatten().copied().chain(alone) {
        if let (Some((outcome, _)), Some(totals)) = (call.outcome, further.get_mut(call.scope.index())) {
            take_out(totals, &outcome, outcome.ended.saturating_sub(call.began));
        }
    }
    for (index, totals) in further.into_iter().enumerate() {
        if let Some(scope) = ScopeId::new(index).filter(|_| totals.count > 0) {
            file.write_rank(RankEvent::CallTotals(scope, totals))?;
        }
    }
    let mut further: Vec<AllocationTotals> = kept.pools.iter().map(|pool| pool.totals).collect();
    for live in kept.live.iter().flatten() {
        if let Some(totals) = further.get_mut(live.pool.index()) {
            totals.allocations = totals.allocations.saturating_sub(1);
            totals.allocated = totals.allocated.saturating_sub(live.bytes);
        }
    }
    for (index, totals) in further.into_iter().enumerate() {
        if let Some(pool) = PoolId::new(index) {
            file.write_rank(RankEvent::AllocationTotals(pool, totals))?;
        }
    }
    kept.op_totals.values().try_for_each(|totals| file.write_rank(RankEvent::OpTotals(*totals)))?;
    kept.expected.iter().try_for_each(|expected| file.write_rank(RankEvent::Expected(*expected)))?;
    let mut without_step = kept.faults.iter().filter(|(after, _)| after.is_none());
    without_step.try_for_each(|(_, fault)| file.fault(*fault, false))?;
    let mut not_watched = kept.not_watched.iter();
    not_watched.try_for_each(|(pool, what)| file.write_rank(RankEvent::NotWatched(*pool, *what)))
}

/// Subtracts a call from totals. The peak and the longest duration may stay: readers of the file have the call too.
fn take_out(totals: &mut CallTotals, outcome: &Outcome, took: u64) {
    totals.count = totals.count.saturating_sub(1);
    totals.time = totals.time.saturating_sub(took);
    totals.allocated = totals.allocated.saturating_sub(outcome.allocated);
    totals.freed = totals.freed.saturating_sub(outcome.freed);
    totals.kept = totals.kept.saturating_sub(outcome.kept);
}

fn write_warnings(file: &mut EventFile, kept: &Kept, note: String) -> Result<()> {
    kept.warnings.iter().try_for_each(|warning| file.write(Event::Warning(warning.clone())))?;
    file.warn(note)?;
    match kept.further_warnings {
        0 => Ok(()),
        further => file.warn(counted_as(further, "more warning was dropped", "more warnings were dropped")),
    }
}
