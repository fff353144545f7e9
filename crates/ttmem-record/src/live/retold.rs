//! Says at the beginning of a file what came before it: what is there, in full, and the rest as `past` has it.
//!
//! Steps that are kept are said as they were, each with its operation and its time. What was there after such a step and is
//! gone now is one row for each pool, so that the rows add up to what the pool had.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use super::kept::{Kept, KeptCall, Live};
use super::narrator::{self, Narrator};
use super::past::{After, Look, Point, Value};
use ttmem_model::Result;
use ttmem_model::rules::calls::CallRef;
use ttmem_model::{
    AllocationTotals, Bytes, CallId, CallTotals, Class, CurveKind, During, Event, Fault, HistoryRow, Moment,
    Nanoseconds, Outcome, PoolId, RankEvent, Reading, ScopeId, Snapshot, Step, StepNumber, StrId, Tensor,
    TensorId, Thinned, Warning,
};

/// Something that is said again after a step.
#[derive(Clone, Copy, Debug)]
enum Item {
    /// What the step made, by its place.
    Born(usize),
    /// A point of a curve.
    Level(Value),
    /// A moment that somebody wanted to look at, by its number.
    Look(usize),
    /// Something that went wrong, by its number.
    Fault(usize),
    /// Where everything stands now.
    Now,
}

impl Item {
    /// What comes first at a position.
    fn rank(self) -> u8 {
        match self {
            Self::Born(_) => 0,
            Self::Level(_) => 1,
            Self::Look(_) => 2,
            Self::Fault(_) => 3,
            Self::Now => 4,
        }
    }
}

/// What the allocations of a pool add up to so far, and the row that stands for those that are gone.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    bytes: u64,
    count: u64,
    rest: Option<(TensorId, u64, u64)>,
}

/// Says everything that was kept to a new file, of a recording that began at `began`; `note` says to people where the rest
/// is.
pub(super) fn retell<W: Write>(narrator: &mut Narrator<W>, file: &str, began: u64, note: &str) -> Result<()> {
    narrator.begin(file, began)?;
    let names = std::mem::take(&mut narrator.kept.names);
    names.each(|event| narrator.say(event))?;
    narrator.kept.names = names;
    let mut retold = Retold::of(&narrator.kept);
    say_pools(narrator)?;
    say_calls(narrator, &retold)?;
    narrator.calls_are_said();
    say_histories(narrator)?;
    retold.say(narrator)?;
    let Kept { last, time, .. } = narrator.kept;
    let (since, until, steps) = (time.max(last.time), narrator.steps, last.position);
    narrator.of_rank(RankEvent::Thinned(Thinned { since, until, steps }))?;
    if let Some(since) = narrator.kept.rounds.since {
        narrator.of_rank(RankEvent::CallsSince(since))?;
    }
    say_sums(narrator)?;
    say_warnings(narrator, note)
}

/// What is there at the positions that are said again.
struct Retold {
    /// Each with when it was seen.
    items: Vec<(After, Nanoseconds, Item)>,
    /// Those that are steps of the new file, in order.
    positions: Vec<u64>,
    sums: Vec<Sum>,
    /// The time and the call that were said last.
    said: (Option<u64>, Option<CallId>),
}

impl Retold {
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
        let look = |(number, look): (usize, &Look)| (look.after, look.time, Item::Look(number));
        items.extend(kept.looks.iter().enumerate().map(look));
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
        Self { items, positions, sums, said: (None, None) }
    }

    /// The position in the new file of one since the beginning of all.
    fn position(&self, position: u64) -> Step {
        let steps = self.positions.partition_point(|have| *have <= position);
        Step::try_from(steps).unwrap_or(Step::MAX)
    }

    fn say<W: Write>(&mut self, narrator: &mut Narrator<W>) -> Result<()> {
        let items = std::mem::take(&mut self.items);
        for group in items.chunk_by(|a, b| a.0.position == b.0.position) {
            let Some((after, _, first)) = group.first() else { continue };
            let at = self.say_step(narrator, *after, *first)?;
            self.say_after(narrator, at, group)?;
        }
        let (time, within) = (narrator.kept.time, narrator.kept.call(narrator.kept.within));
        narrator.of_rank(RankEvent::Time(narrator.steps, time))?;
        narrator.of_rank(RankEvent::Within(narrator.steps, within))?;
        let now = Moment::early(narrator.steps);
        for pool in &mut narrator.kept.pools {
            pool.level = pool.level.map(|level| level.said_at(now));
        }
        Ok(())
    }

    /// The step itself. What made something that is still there has its call, too.
    fn say_step<W: Write>(
        &mut self,
        narrator: &mut Narrator<W>,
        after: After,
        first: Item,
    ) -> Result<Moment> {
        if after.position == 0 {
            return Ok(Moment::START);
        }
        if self.said.0 != Some(after.time) {
            self.said.0 = Some(after.time);
            narrator.of_rank(RankEvent::Time(narrator.steps, after.time))?;
        }
        let born = match first {
            Item::Born(place) => narrator.kept.live.get(place).copied().flatten(),
            _ => None,
        };
        let within = narrator.kept.call(born.and_then(|live| live.within));
        if self.said.1 != within {
            self.said.1 = within;
            narrator.of_rank(RankEvent::Within(narrator.steps, within))?;
        }
        narrator.say_step(after.op)
    }

    fn say_after<W: Write>(
        &mut self,
        narrator: &mut Narrator<W>,
        at: Moment,
        group: &[(After, Nanoseconds, Item)],
    ) -> Result<()> {
        for (index, (_, _, item)) in group.iter().enumerate() {
            match *item {
                Item::Born(place) => self.born(narrator, place, at)?,
                Item::Level(value) => {
                    if !is_looked_at(narrator, &group[index..], value) {
                        self.level(narrator, at, &[value])?;
                    }
                }
                Item::Look(number) => {
                    let Some(look) = narrator.kept.looks.get(number).cloned() else { continue };
                    self.level(narrator, at, &look.values)?;
                    let (name, time) = (look.name, look.time);
                    narrator.of_rank(RankEvent::Snapshot(Snapshot { name, at, time }))?;
                }
                Item::Fault(number) => {
                    if let Some(&(_, fault)) = narrator.kept.faults.get(number) {
                        narrator.say_fault(fault, true)?;
                    }
                }
                Item::Now => {
                    let values = narrator.kept.values();
                    self.level(narrator, at, &values)?;
                }
            }
        }
        Ok(())
    }

    /// Something that is still there.
    fn born<W: Write>(&mut self, narrator: &mut Narrator<W>, place: usize, at: Moment) -> Result<()> {
        let Some(live) = narrator.kept.live.get(place).copied().flatten() else { return Ok(()) };
        let Live { pool, ty, class, name, level, count, .. } = live;
        let (per_bank, dies, run, ssa) = (Bytes::known(live.bytes), Moment::NEVER, None, None);
        let step = narrator.steps.checked_sub(1).and_then(StepNumber::new);
        let row = Tensor { ty, pool, per_bank, born: at, dies, class, run, ssa, step, name };
        let tensor = narrator.tensor(row)?;
        if let Some(does) = live.requires_grad {
            narrator.of_rank(RankEvent::RequiresGrad(tensor, does))?;
        }
        if let Some(Some(live)) = narrator.kept.live.get_mut(place) {
            live.tensor = tensor;
        }
        if let Some(sum) = self.sums.get_mut(pool.index()) {
            sum.bytes = sum.bytes.saturating_add(live.bytes);
            sum.count += 1;
        }
        if self.add_up(narrator, at, pool, level, count)? {
            let reading = Reading { allocated: Some(level), ..Reading::default() };
            narrator.of_rank(RankEvent::State(pool, at, reading))?;
        }
        Ok(())
    }

    /// What pools were at; those of one pool follow each other.
    fn level<W: Write>(&mut self, narrator: &mut Narrator<W>, at: Moment, values: &[Value]) -> Result<()> {
        for of_pool in values.chunk_by(|a, b| a.pool == b.pool) {
            let mut reading = Reading::default();
            for &Value { pool, kind, bytes, count } in of_pool {
                reading.set(kind, Some(bytes));
                if kind == CurveKind::Allocated {
                    self.add_up(narrator, at, pool, bytes, count)?;
                }
            }
            if let Some(value) = of_pool.first() {
                narrator.of_rank(RankEvent::State(value.pool, at, reading))?;
            }
        }
        Ok(())
    }

    /// Has the rows of a pool add up to a level, where that is what levels are; whether anything was to be done.
    fn add_up<W: Write>(
        &mut self,
        narrator: &mut Narrator<W>,
        at: Moment,
        pool: PoolId,
        level: u64,
        count: u64,
    ) -> Result<bool> {
        let is_added_up = narrator.kept.pools.get(pool.index()).is_some_and(|pool| pool.level.is_some());
        let Some(sum) = self.sums.get_mut(pool.index()).filter(|_| is_added_up) else { return Ok(false) };
        let wanted = (level.saturating_sub(sum.bytes), count.saturating_sub(sum.count));
        let have = sum.rest.map_or((0, 0), |(_, bytes, count)| (bytes, count));
        if wanted == have {
            return Ok(false);
        }
        if let Some((tensor, ..)) = sum.rest.take() {
            narrator.of_rank(RankEvent::Dies(tensor, at))?;
        }
        if wanted != (0, 0) {
            let (bytes, count) = wanted;
            let tensor = narrator.tensor(rest(pool, bytes, at))?;
            narrator.of_rank(RankEvent::StandsFor(tensor, count))?;
            sum.rest = Some((tensor, bytes, count));
        }
        Ok(true)
    }
}

/// The row of what is gone.
fn rest(pool: PoolId, bytes: u64, at: Moment) -> Tensor {
    Tensor {
        ty: None,
        pool,
        per_bank: Bytes::known(bytes),
        born: at,
        dies: Moment::NEVER,
        class: Class::Unknown,
        run: None,
        ssa: None,
        step: None,
        name: StrId::new(narrator::THINNED),
    }
}

/// Whether a point is also what the snapshot that follows at the same position has: then it is said with that.
fn is_looked_at<W: Write>(
    narrator: &Narrator<W>,
    following: &[(After, Nanoseconds, Item)],
    point: Value,
) -> bool {
    let look = following.iter().find_map(|(_, _, item)| match item {
        Item::Look(number) => narrator.kept.looks.get(*number),
        _ => None,
    });
    look.is_some_and(|look| look.values.contains(&point))
}

fn say_pools<W: Write>(narrator: &mut Narrator<W>) -> Result<()> {
    for index in 0..narrator.kept.pools.len() {
        let (name, is_empty) = (narrator.kept.pools[index].name, narrator.kept.pools[index].level.is_some());
        let Some(id) = PoolId::new(index) else { break };
        narrator.say_pool(id, name, is_empty)?;
    }
    Ok(())
}

/// Says the calls that run, and those that made something that is still there, in the order that they began.
fn say_calls<W: Write>(narrator: &mut Narrator<W>, retold: &Retold) -> Result<()> {
    let mut needed = vec![false; narrator.kept.calls.len()];
    let open =
        |(place, call): (usize, &Option<KeptCall>)| call.filter(|call| call.outcome.is_none()).map(|_| place);
    let makers = narrator.kept.live.iter().flatten().filter_map(|live| live.within);
    let from: Vec<usize> =
        (narrator.kept.calls.iter().enumerate().filter_map(open)).chain(makers.map(CallRef::index)).collect();
    for place in from {
        let mut next = Some(place);
        while let Some(place) = next.filter(|place| needed.get(*place) == Some(&false)) {
            needed[place] = true;
            let call = narrator.kept.calls[place];
            next = call.and_then(|call| call.parent).map(CallRef::index);
        }
    }
    for (call, is_needed) in narrator.kept.calls.iter_mut().zip(needed) {
        *call = call.filter(|_| is_needed);
    }
    let places = narrator.kept.calls.iter().enumerate();
    let mut calls: Vec<(Option<usize>, KeptCall)> =
        places.filter_map(|(place, call)| Some((Some(place), (*call)?))).collect();
    calls.extend(rounds_alone(&narrator.kept).into_iter().map(|round| (None, round)));
    calls.sort_unstable_by_key(|(_, call)| call.number);
    let mut rows: BTreeMap<u64, CallId> = BTreeMap::new();
    for (place, call) in calls {
        let id = narrator.call(&call, retold.position(call.first))?;
        rows.insert(call.number, id);
        if let Some(place) = place {
            narrator.kept.calls[place] = Some(KeptCall { call: id, ..call });
        }
        if let Some((outcome, end)) = call.outcome {
            let outcome = Outcome { end: retold.position(end), ..outcome };
            narrator.of_rank(RankEvent::Returned(id, outcome))?;
        }
    }
    for call in narrator.kept.rounds.calls_mut() {
        call.call = rows.get(&call.number).copied().unwrap_or(call.call);
    }
    Ok(())
}

/// The calls of rounds that are kept for nothing else.
fn rounds_alone(kept: &Kept) -> Vec<KeptCall> {
    let others: BTreeSet<u64> = kept.calls.iter().flatten().map(|call| call.number).collect();
    kept.rounds.iter().map(|round| round.call).filter(|call| !others.contains(&call.number)).collect()
}

/// Says what is in the memory of allocators with a history, as far as that was told, and what is known of addresses.
fn say_histories<W: Write>(narrator: &mut Narrator<W>) -> Result<()> {
    let mut rows = Vec::new();
    for (&pool, told) in &narrator.kept.told {
        rows.extend(told.highest.map(|row| HistoryRow { during: During::NoCall, ..row }));
        rows.extend(told.contents.rows(pool, told.until));
    }
    rows.into_iter().try_for_each(|row| narrator.of_rank(RankEvent::History(row)))?;
    let labels: Vec<_> = narrator.kept.labels.values().copied().collect();
    labels.into_iter().try_for_each(|label| narrator.of_rank(RankEvent::Label(label)))
}

/// Says what calls and allocations came to that have no rows here.
fn say_sums<W: Write>(narrator: &mut Narrator<W>) -> Result<()> {
    let mut further = narrator.kept.totals.clone();
    for call in narrator.kept.calls.iter().flatten().copied().chain(rounds_alone(&narrator.kept)) {
        if let (Some((outcome, _)), Some(totals)) = (call.outcome, further.get_mut(call.scope.index())) {
            take_out(totals, &outcome, outcome.ended.saturating_sub(call.began));
        }
    }
    for (index, totals) in further.into_iter().enumerate() {
        if let Some(scope) = ScopeId::new(index).filter(|_| totals.count > 0) {
            narrator.of_rank(RankEvent::CallTotals(scope, totals))?;
        }
    }
    let mut further: Vec<AllocationTotals> = narrator.kept.pools.iter().map(|pool| pool.totals).collect();
    for live in narrator.kept.live.iter().flatten() {
        if let Some(totals) = further.get_mut(live.pool.index()) {
            totals.allocations = totals.allocations.saturating_sub(1);
            totals.allocated = totals.allocated.saturating_sub(live.bytes);
        }
    }
    for (index, totals) in further.into_iter().enumerate() {
        if let Some(pool) = PoolId::new(index) {
            narrator.of_rank(RankEvent::AllocationTotals(pool, totals))?;
        }
    }
    let (op_totals, expected) = (narrator.kept.op_totals.clone(), narrator.kept.expected.clone());
    op_totals.into_values().try_for_each(|totals| narrator.of_rank(RankEvent::OpTotals(totals)))?;
    expected.into_iter().try_for_each(|expected| narrator.of_rank(RankEvent::Expected(expected)))?;
    let without_step: Vec<Fault> =
        narrator.kept.faults.iter().filter(|(after, _)| after.is_none()).map(|(_, fault)| *fault).collect();
    without_step.into_iter().try_for_each(|fault| narrator.say_fault(fault, false))?;
    let not_watched = narrator.kept.not_watched.clone();
    not_watched.into_iter().try_for_each(|(pool, what)| narrator.of_rank(RankEvent::NotWatched(pool, what)))
}

/// Takes a call out of sums. The highest and the longest may stay: who reads the file has the call beside them.
fn take_out(totals: &mut CallTotals, outcome: &Outcome, took: u64) {
    totals.count = totals.count.saturating_sub(1);
    totals.time = totals.time.saturating_sub(took);
    totals.allocated = totals.allocated.saturating_sub(outcome.allocated);
    totals.freed = totals.freed.saturating_sub(outcome.freed);
    totals.kept = totals.kept.saturating_sub(outcome.kept);
}

fn say_warnings<W: Write>(narrator: &mut Narrator<W>, note: &str) -> Result<()> {
    let further = narrator.kept.further_warnings;
    let further = (further > 0).then(|| format!("{further} further warnings are no longer there"));
    let warnings = narrator.kept.warnings.clone();
    let notes = [Some(note.to_owned()), further].into_iter().flatten();
    let notes = notes.map(|message| Warning { line: None, message });
    warnings.into_iter().chain(notes).try_for_each(|warning| narrator.say(Event::Warning(warning)))
}
