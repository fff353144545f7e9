//! The state that is carried into the next file of a recording: live allocations and calls, and totals of the past.
//!
//! Its size depends on the number of live allocations, calls and names and on the limits of `past`, not on the run time
//! of the program. It belongs to the writer thread. Allocations and calls are identified by their slots, as in the
//! recorder.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use ttmem_model::rules::allocator::Contents;
use ttmem_model::rules::calls::CallRef;
use ttmem_model::{
    AllocationTotals, CallId, CallTotals, Class, CurveKind, Error, Event, Expected, Fault, HistoryAction,
    HistoryRow, Holder, Label, LaneId, Launch, Moment, Nanoseconds, OpId, OpTotals, Outcome, PoolId,
    RankEvent, Reading, Result, ScopeId, ScopeKind, StrId, TensorId, TypeId, Warning,
};

use super::examples::Examples;
use super::past::{After, KeptSnapshot, Point, Series, Snapshots, Value};
use super::rounds::{Round, Rounds};
use crate::level::Level;
use crate::live::record::Record;
use crate::live::{KeptSizes, Place};

/// The maximum number of carried warnings. Further ones are counted.
const MAX_WARNINGS: usize = 256;
/// The maximum number of carried expectations, the latest ones.
const MAX_EXPECTED: usize = 256;
/// The maximum number of carried notes on memory outside a pool's figures.
const MAX_NOT_WATCHED: usize = 256;
/// The maximum number of carried errors, the latest ones.
const MAX_FAULTS: usize = 256;
/// The maximum number of labels of addresses, and of their holders.
const MAX_LABELS: usize = 1 << 18;

/// The contents of an allocator's memory, according to its history so far.
#[derive(Debug, Default)]
pub(in crate::live) struct AllocatorMemory {
    pub contents: Contents,
    /// The time of the last row.
    pub until: Nanoseconds,
    /// The highest value of its counter.
    pub highest: Option<HistoryRow>,
    /// The sum of the blocks, and its highest value with the time.
    level: u64,
    peak: Option<(u64, Nanoseconds)>,
    /// Whether the peak is in the current file.
    has_new_peak: bool,
}

impl AllocatorMemory {
    fn apply(&mut self, row: &HistoryRow) {
        if row.action == HistoryAction::Highest {
            let known = self.highest.filter(|highest| highest.bytes >= row.bytes);
            self.highest = known.or(Some(*row));
            return;
        }
        let before = self.contents.allocated_at(row.address);
        self.contents.apply(row);
        self.until = row.time;
        self.level = if row.action == HistoryAction::Forgotten {
            0
        } else {
            self.level.saturating_sub(before).saturating_add(self.contents.allocated_at(row.address))
        };
        if self.peak.is_none_or(|(bytes, _)| self.level > bytes) {
            self.peak = Some((self.level, row.time));
            self.has_new_peak = true;
        }
    }
}

/// The highest use of a pool so far.
#[derive(Clone, Copy, Debug)]
pub(in crate::live) struct HighestUse<'a> {
    pub pool: &'a str,
    pub bytes: u64,
    pub time: Nanoseconds,
    /// Whether it was in the current file.
    pub is_new: bool,
}

/// A live allocation.
#[derive(Clone, Copy, Debug)]
pub(in crate::live) struct Live {
    /// The row in the current file.
    pub tensor: TensorId,
    pub pool: PoolId,
    pub bytes: u64,
    pub ty: Option<TypeId>,
    pub class: Class,
    pub name: Option<StrId>,
    pub requires_grad: Option<bool>,
    pub holder: Option<Holder>,
    /// The call that allocated it.
    pub within: Option<CallRef>,
    /// The step that allocated it.
    pub born: After,
    /// The level of its pool at that time, and the number of allocations.
    pub level: u64,
    pub count: u64,
}

/// A running call, or one with live allocations.
#[derive(Clone, Copy, Debug)]
pub(in crate::live) struct KeptCall {
    /// The number in the whole recording, counted from 0.
    pub number: u64,
    /// The row in the current file.
    pub call: CallId,
    pub scope: ScopeId,
    pub lane: LaneId,
    pub parent: Option<CallRef>,
    pub op: Option<OpId>,
    pub began: Nanoseconds,
    /// The start position in the whole recording.
    pub first: u64,
    /// The outcome, and the end position.
    pub outcome: Option<(Outcome, u64)>,
}

/// A pool.
#[derive(Clone, Debug)]
pub(in crate::live) struct KeptPool {
    pub name: StrId,
    pub text: String,
    /// The level, if it is the sum of the allocations.
    pub level: Option<Level>,
    /// The current number of allocations.
    pub count: u64,
    pub totals: AllocationTotals,
    /// The curve of allocated bytes.
    allocated: Series,
    /// The curves of other counters.
    read: BTreeMap<CurveKind, Series>,
}

/// The events that define names, in their compact encoded form.
#[derive(Debug, Default)]
pub(in crate::live) struct Names(Vec<u8>);

impl Names {
    fn add(&mut self, event: &Event<'_>) -> Result<()> {
        let names = postcard::to_extend(event, std::mem::take(&mut self.0));
        self.0 = names.map_err(|error| Error::Bug(format!("cannot keep a name: {error}")))?;
        Ok(())
    }

    /// Calls a function with each event, in order.
    pub fn each(&self, mut each: impl FnMut(Event<'_>) -> Result<()>) -> Result<()> {
        let mut rest = self.0.as_slice();
        while !rest.is_empty() {
            let (event, behind) = postcard::take_from_bytes::<Event<'_>>(rest)
                .map_err(|error| Error::Bug(format!("cannot read a kept name: {error}")))?;
            each(event)?;
            rest = behind;
        }
        Ok(())
    }
}

/// Everything that is carried into the next file.
#[derive(Debug)]
pub(in crate::live) struct Kept {
    pub names: Names,
    pub pools: Vec<KeptPool>,
    /// By slot.
    pub live: Vec<Option<Live>>,
    /// By slot. Some have ended and are no longer needed.
    pub calls: Vec<Option<KeptCall>>,
    /// The number of calls so far.
    pub entered: u64,
    /// The totals of ended calls, by scope.
    pub totals: Vec<CallTotals>,
    pub snapshots: Snapshots,
    pub rounds: Rounds,
    pub examples: Examples,
    /// By scope: whether the program named it.
    named_scopes: Vec<bool>,
    pub op_totals: BTreeMap<(StrId, Option<StrId>), OpTotals>,
    /// The memory of allocators with a history, and the labels of addresses.
    pub allocators: BTreeMap<PoolId, AllocatorMemory>,
    pub labels: BTreeMap<(PoolId, u64), Label>,
    /// What keeps the allocations at addresses alive.
    pub address_holders: BTreeMap<(PoolId, u64), Holder>,
    pub launch: Option<Launch>,
    pub launch_arguments: Vec<StrId>,
    pub expected: Vec<Expected>,
    pub not_watched: Vec<(PoolId, StrId)>,
    /// The errors of the program, in order, each with its step, if any.
    pub faults: VecDeque<(Option<After>, Fault)>,
    pub warnings: Vec<Warning>,
    pub further_warnings: u64,
    /// The last step.
    pub last: After,
    /// The time and the call of the following records.
    pub time: Nanoseconds,
    pub within: Option<CallRef>,
}

impl Kept {
    /// The initial state. `free` is the first operation.
    pub fn new(free: OpId) -> Self {
        Self {
            names: Names::default(),
            pools: Vec::new(),
            live: Vec::new(),
            calls: Vec::new(),
            entered: 0,
            totals: Vec::new(),
            snapshots: Snapshots::default(),
            rounds: Rounds::default(),
            examples: Examples::default(),
            named_scopes: Vec::new(),
            op_totals: BTreeMap::new(),
            allocators: BTreeMap::new(),
            labels: BTreeMap::new(),
            address_holders: BTreeMap::new(),
            launch: None,
            launch_arguments: Vec::new(),
            expected: Vec::new(),
            not_watched: Vec::new(),
            faults: VecDeque::new(),
            warnings: Vec::new(),
            further_warnings: 0,
            last: After { position: 0, time: 0, op: free },
            time: 0,
            within: None,
        }
    }

    /// Keeps an event that is written unchanged, unless it is a detail.
    pub fn event(&mut self, event: &Event<'_>) -> Result<()> {
        self.examples.event(event);
        match event {
            Event::Warning(warning) => self.warn(warning),
            Event::Of(_, RankEvent::OpTotals(totals)) => {
                let have = self.op_totals.entry((totals.name, totals.shapes));
                have.and_modify(|have| have.add(totals)).or_insert(*totals);
            }
            Event::Of(_, RankEvent::Label(label)) => {
                let key = (label.pool, label.address);
                if self.labels.len() < MAX_LABELS || self.labels.contains_key(&key) {
                    self.labels.insert(key, *label);
                }
            }
            Event::Of(_, RankEvent::AddressHeldBy(pool, address, holder)) => {
                let key = (*pool, *address);
                if self.address_holders.len() < MAX_LABELS || self.address_holders.contains_key(&key) {
                    self.address_holders.insert(key, *holder);
                }
            }
            Event::Of(_, RankEvent::AllocatorRules(pool, rules)) => {
                self.allocators.entry(*pool).or_default().contents.set_rules(*rules);
            }
            Event::Of(_, RankEvent::Launch(launch)) => self.launch = Some(*launch),
            Event::Of(_, RankEvent::LaunchArgument(argument)) => self.launch_arguments.push(*argument),
            Event::Of(_, RankEvent::Expected(expected)) => {
                self.expected.retain(|have| have != expected);
                self.expected.push(*expected);
                let surplus = self.expected.len().saturating_sub(MAX_EXPECTED);
                self.expected.drain(..surplus);
            }
            Event::Of(_, RankEvent::NotWatched(pool, what))
                if self.not_watched.len() < MAX_NOT_WATCHED
                    && !self.not_watched.contains(&(*pool, *what)) =>
            {
                self.not_watched.push((*pool, *what));
            }
            Event::Of(_, RankEvent::Scope(scope)) => {
                self.named_scopes.push(scope.kind != ScopeKind::Framework);
                self.names.add(event)?;
            }
            Event::Text(_)
            | Event::Type(_)
            | Event::Op(_)
            | Event::Frame(_)
            | Event::Stack(_)
            | Event::OpStack(_)
            | Event::Of(_, RankEvent::Lane { .. } | RankEvent::SeveralOutputs(_)) => {
                self.names.add(event)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The highest use of all pools whose allocations are recorded. The current file begins after `since` steps.
    pub fn highest_use(&self, since: u64) -> Option<HighestUse<'_>> {
        let of_pool = |index: usize, pool: &KeptPool| {
            let of_history = PoolId::new(index).and_then(|id| self.allocators.get(&id));
            let in_history = of_history.and_then(|memory| Some((memory.peak?, memory.has_new_peak)));
            let in_steps = pool.peak().filter(|_| pool.level.is_some());
            let in_steps = in_steps.map(|peak| ((peak.value, peak.after.time), peak.after.position > since));
            in_history.into_iter().chain(in_steps).max_by_key(|((bytes, _), _)| *bytes)
        };
        let uses = self.pools.iter().enumerate().filter_map(|(index, pool)| {
            let ((bytes, time), is_new) = of_pool(index, pool)?;
            Some(HighestUse { pool: &pool.text, bytes, time, is_new })
        });
        uses.reduce(|most, next| if next.bytes > most.bytes { next } else { most })
    }

    /// The time until which everything was recorded: that of the last record or row.
    pub fn until(&self) -> Nanoseconds {
        self.allocators.values().map(|memory| memory.until).fold(self.time, Nanoseconds::max)
    }

    /// Notes that another file begins.
    pub fn next_file(&mut self) {
        self.allocators.values_mut().for_each(|memory| memory.has_new_peak = false);
    }

    /// Applies a row of an allocator's history.
    pub fn history(&mut self, row: &HistoryRow) {
        self.allocators.entry(row.pool).or_default().apply(row);
        // A label belongs to the previous block at that address.
        let is_other = !matches!(row.action, HistoryAction::There | HistoryAction::Highest);
        if is_other
            && let Entry::Occupied(label) = self.labels.entry((row.pool, row.address))
            && label.get().time < row.time
        {
            label.remove();
        }
        if is_other
            && let Entry::Occupied(holder) = self.address_holders.entry((row.pool, row.address))
            && holder.get().time < row.time
        {
            holder.remove();
        }
    }

    /// Keeps an error of the program.
    pub fn fault(&mut self, after: Option<After>, fault: Fault) {
        if self.faults.len() == MAX_FAULTS {
            self.faults.pop_front();
        }
        self.faults.push_back((after, fault));
    }

    fn warn(&mut self, warning: &Warning) {
        if self.warnings.contains(warning) {
            return;
        }
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(warning.clone());
        } else {
            self.further_warnings += 1;
        }
    }

    /// Counts a step.
    #[inline]
    pub fn step(&mut self, op: OpId) {
        self.last = After { position: self.last.position + 1, time: self.time, op };
    }

    /// Adds an allocation of the last step; `tensor` is its row. Returns `None` if the pool is unknown.
    #[inline]
    pub fn allocated(&mut self, record: &Record, tensor: TensorId, at: Moment) -> Option<()> {
        let &Record::Allocated { place: Place(place), pool, bytes, ty, class, .. } = record else {
            return None;
        };
        let (born, within) = (self.last, self.within);
        let kept = self.pools.get_mut(pool.index())?;
        kept.count += 1;
        kept.totals.allocations += 1;
        kept.totals.allocated = kept.totals.allocated.saturating_add(bytes);
        let level = kept.change(born, |level| level.add(bytes, at));
        let place = place as usize;
        if self.live.len() <= place {
            self.live.resize(place + 1, None);
        }
        let (name, requires_grad, holder, count) = (None, None, None, kept.count);
        let live =
            Live { tensor, pool, bytes, ty, class, name, requires_grad, holder, within, born, level, count };
        self.live[place] = Some(live);
        Some(())
    }

    /// Removes and returns the allocation in a slot, which was freed by the last step.
    #[inline]
    pub fn freed(&mut self, Place(place): Place, at: Moment) -> Option<Live> {
        let live = self.live.get_mut(place as usize)?.take()?;
        let after = self.last;
        let kept = self.pools.get_mut(live.pool.index())?;
        kept.count = kept.count.saturating_sub(1);
        kept.totals.frees += 1;
        kept.totals.freed = kept.totals.freed.saturating_add(live.bytes);
        kept.change(after, |level| level.remove(live.bytes, at));
        Some(live)
    }

    pub fn at(&mut self, Place(place): Place) -> Option<&mut Live> {
        self.live.get_mut(place as usize)?.as_mut()
    }

    /// The row of the call in a slot.
    #[inline]
    pub fn call(&self, at: Option<CallRef>) -> Option<CallId> {
        self.calls.get(at?.index())?.as_ref().map(|call| call.call)
    }

    pub fn entered(&mut self, at: CallRef, call: KeptCall) {
        self.entered += 1;
        let parent = call.parent.and_then(|parent| self.calls.get(parent.index())?.as_ref());
        self.examples.entered(call, parent.map(|parent| parent.number));
        if self.calls.len() <= at.index() {
            self.calls.resize(at.index() + 1, None);
        }
        self.calls[at.index()] = Some(call);
        let is_named = self.named_scopes.get(call.scope.index()).copied().unwrap_or(false);
        if call.parent.is_none() && is_named && self.rounds.are_kept() {
            let (after, values) = (self.last, self.values());
            self.rounds.began(Round { call, after, values });
        }
    }

    /// Ends a call. Returns its row.
    pub fn returned(&mut self, at: CallRef, outcome: Outcome) -> Option<CallId> {
        let position = self.last.position;
        let call = self.calls.get_mut(at.index())?.as_mut()?;
        call.outcome = Some((outcome, position));
        self.rounds.ended(call);
        self.examples.returned(call);
        let (id, scope, took) = (call.call, call.scope, outcome.ended.saturating_sub(call.began));
        self.add_up(scope, &outcome, took);
        Some(id)
    }

    /// Adds a call that had ended when it was reported, and has no slot.
    pub fn late_call(&mut self, scope: ScopeId, outcome: &Outcome, took: Nanoseconds) {
        self.entered += 1;
        self.add_up(scope, outcome, took);
    }

    fn add_up(&mut self, scope: ScopeId, outcome: &Outcome, took: Nanoseconds) {
        if self.totals.len() <= scope.index() {
            self.totals.resize(scope.index() + 1, CallTotals::default());
        }
        self.totals[scope.index()].add(outcome, took);
    }

    /// Keeps a snapshot.
    pub fn snapshot(&mut self, name: Option<StrId>, time: Nanoseconds) {
        let values = self.values();
        self.snapshots.add(KeptSnapshot { name, time, after: self.last, values });
    }

    /// The current levels of all pools.
    pub fn values(&self) -> Vec<Value> {
        let mut values = Vec::new();
        for (index, pool) in self.pools.iter().enumerate() {
            let Some(id) = PoolId::new(index) else { break };
            for (kind, curve) in pool.curves() {
                let now = curve.now();
                values.extend(now.map(|now| Value { pool: id, kind, bytes: now.value, count: pool.count }));
            }
        }
        values
    }

    /// Keeps counters of a pool.
    pub fn reading(&mut self, pool: PoolId, reading: &Reading) {
        let (after, seen) = (self.last, self.time);
        let Some(pool) = self.pools.get_mut(pool.index()) else { return };
        for (kind, value) in reading.values() {
            if let Some(value) = value {
                let point = Point { after, seen, value, count: pool.count };
                pool.curve_mut(kind).add(point);
            }
        }
    }

    /// The sizes of everything that is kept.
    pub fn sizes(&self) -> KeptSizes {
        KeptSizes {
            name_bytes: self.names.0.len(),
            allocations: self.live.len(),
            calls: self.calls.len(),
            snapshots: self.snapshots.len(),
            points: self.pools.iter().flat_map(KeptPool::curves).map(|(_, curve)| curve.len()).sum(),
        }
    }
}

impl KeptPool {
    pub fn new(name: StrId, text: String, level: Option<Level>) -> Self {
        Self {
            name,
            text,
            level,
            count: 0,
            totals: AllocationTotals::default(),
            allocated: Series::default(),
            read: BTreeMap::new(),
        }
    }

    /// The usage curves of a pool, each with its kind.
    pub fn curves(&self) -> impl Iterator<Item = (CurveKind, &Series)> {
        let read = self.read.iter().map(|(kind, curve)| (*kind, curve));
        [(CurveKind::Allocated, &self.allocated)].into_iter().chain(read)
    }

    fn curve_mut(&mut self, kind: CurveKind) -> &mut Series {
        match kind {
            CurveKind::Allocated => &mut self.allocated,
            kind => self.read.entry(kind).or_default(),
        }
    }

    /// The peak of allocated bytes.
    pub fn peak(&self) -> Option<Point> {
        self.allocated.peak()
    }

    /// Changes the level at a step. Returns the new level, or 0 if it is known only from readings.
    #[inline]
    fn change(&mut self, after: After, change: impl FnOnce(&mut Level)) -> u64 {
        let Some(level) = &mut self.level else { return 0 };
        change(level);
        let (value, count, seen) = (level.now(), self.count, after.time);
        self.allocated.add(Point { after, seen, value, count });
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_model::{Bytes, During};

    #[test]
    fn blocks_that_wait_for_a_stream_are_not_in_use() {
        let mut memory = AllocatorMemory::default();
        let mut apply = |action, address, time| {
            let (pool, op) = (PoolId::new(0).unwrap(), OpId::new(0).unwrap());
            let (bytes, block, during) = (20, Bytes::known(20), During::ByTime);
            memory.apply(&HistoryRow { pool, action, address, bytes, block, op, during, time });
        };
        apply(HistoryAction::Allocated, 0, 1);
        apply(HistoryAction::FreeRequested, 0, 2);
        apply(HistoryAction::Allocated, 1 << 20, 3);
        apply(HistoryAction::FreeCompleted, 0, 4);
        assert_eq!((memory.level, memory.peak), (20, Some((20, 1))));
    }
}
