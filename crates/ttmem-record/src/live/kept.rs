//! What has to be said again when a recording goes on in a new file: what is there now, and sums of what was.
//!
//! It is as large as what is there (allocations, calls, names) and the limits of `past` make it, however long the program
//! has run. The thread that writes has it; allocations and calls are known by their places, as the recorder knows them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use super::Place;
use super::past::{After, Look, Looks, Point, Series, Value};
use super::queue::Record;
use super::rounds::{Round, Rounds};
use crate::level::Level;
use ttmem_model::rules::allocator::Contents;
use ttmem_model::rules::calls::CallRef;
use ttmem_model::{
    AllocationTotals, CallId, CallTotals, Class, CurveKind, Event, Expected, Fault, HistoryAction,
    HistoryRow, Label, LaneId, Moment, Nanoseconds, OpId, OpTotals, Outcome, PoolId, RankEvent, Reading,
    ScopeId, ScopeKind, StrId, TensorId, TypeId, Warning,
};
use ttmem_model::{Error, Result};

/// So many warnings are said again; of the others, how many there were.
const MOST_WARNINGS: usize = 256;
/// So many expectations are said again: the last ones.
const MOST_EXPECTED: usize = 256;
/// So many things are said again that are not watched.
const MOST_NOT_WATCHED: usize = 256;

/// So many failures are said again: the last ones.
const MAX_FAULTS: usize = 256;

/// So many addresses are remembered.
const MOST_LABELS: usize = 1 << 18;

/// What is in the memory of an allocator, as far as its history was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub contents: Contents,
    /// The time of the last row.
    pub until: Nanoseconds,
    /// The most that a counter has said.
    pub highest: Option<HistoryRow>,
}

impl Told {
    fn hear(&mut self, row: &HistoryRow) {
        if row.action == HistoryAction::Highest {
            let known = self.highest.filter(|highest| highest.bytes >= row.bytes);
            self.highest = known.or(Some(*row));
        } else {
            self.contents.apply(row);
            self.until = row.time;
        }
    }
}

/// An allocation that is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    /// Its row in this file.
    pub tensor: TensorId,
    pub pool: PoolId,
    pub bytes: u64,
    pub ty: Option<TypeId>,
    pub class: Class,
    pub name: Option<StrId>,
    pub requires_grad: Option<bool>,
    /// The call that made it.
    pub within: Option<CallRef>,
    /// The step that made it.
    pub born: After,
    /// What its pool was at then.
    pub level: u64,
    pub count: u64,
}

/// A call that runs, or that something was made in which is still there.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptCall {
    /// Which of all calls it is, from 0.
    pub number: u64,
    /// Its row in this file.
    pub call: CallId,
    pub scope: ScopeId,
    pub lane: LaneId,
    pub parent: Option<CallRef>,
    pub op: Option<OpId>,
    pub began: Nanoseconds,
    /// The position at which it began, since the beginning of all.
    pub first: u64,
    /// What it came to, and the position at which it ended.
    pub outcome: Option<(Outcome, u64)>,
}

/// A pool.
#[derive(Clone, Debug)]
pub(super) struct KeptPool {
    pub name: StrId,
    pub text: String,
    /// Where it stands, if that is what the allocations in it add up to.
    pub level: Option<Level>,
    /// How many allocations are there.
    pub count: u64,
    pub totals: AllocationTotals,
    /// What is allocated.
    allocated: Series,
    /// What else was read of it.
    read: BTreeMap<CurveKind, Series>,
}

/// The events that say names, one behind the other, encoded: so they take little room.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<u8>);

impl Names {
    fn add(&mut self, event: &Event<'_>) -> Result<()> {
        let names = postcard::to_extend(event, std::mem::take(&mut self.0));
        self.0 = names.map_err(|error| Error::Bug(format!("keeping a name: {error}")))?;
        Ok(())
    }

    /// All of them, in order.
    pub fn each(&self, mut each: impl FnMut(Event<'_>) -> Result<()>) -> Result<()> {
        let mut rest = self.0.as_slice();
        while !rest.is_empty() {
            let (event, behind) = postcard::take_from_bytes::<Event<'_>>(rest)
                .map_err(|error| Error::Bug(format!("a name that was kept: {error}")))?;
            each(event)?;
            rest = behind;
        }
        Ok(())
    }
}

/// Everything that has to be said again.
#[derive(Debug)]
pub(super) struct Kept {
    pub names: Names,
    pub pools: Vec<KeptPool>,
    /// By their places.
    pub live: Vec<Option<Live>>,
    /// By their places. Some are over and of no use any more.
    pub calls: Vec<Option<KeptCall>>,
    /// How many calls began.
    pub entered: u64,
    /// What the calls came to that have ended, by scope.
    pub totals: Vec<CallTotals>,
    pub looks: Looks,
    pub rounds: Rounds,
    /// By scope: whether it has a name of the program's.
    named_scopes: Vec<bool>,
    pub op_totals: BTreeMap<(StrId, Option<StrId>), OpTotals>,
    /// What is in the memory of allocators that say afterwards what they did, as far as they have; and what is known of
    /// addresses.
    pub told: BTreeMap<PoolId, Told>,
    pub labels: BTreeMap<(PoolId, u64), Label>,
    pub expected: Vec<Expected>,
    pub not_watched: Vec<(PoolId, StrId)>,
    /// What went wrong, in order, each with its step if it has one.
    pub faults: VecDeque<(Option<After>, Fault)>,
    pub warnings: Vec<Warning>,
    pub further_warnings: u64,
    /// The last step.
    pub last: After,
    /// The time and the call of what comes next.
    pub time: Nanoseconds,
    pub within: Option<CallRef>,
}

impl Kept {
    /// Of a program that has done nothing yet; `free` is the first operation.
    pub fn new(free: OpId) -> Self {
        Self {
            names: Names::default(),
            pools: Vec::new(),
            live: Vec::new(),
            calls: Vec::new(),
            entered: 0,
            totals: Vec::new(),
            looks: Looks::default(),
            rounds: Rounds::default(),
            named_scopes: Vec::new(),
            op_totals: BTreeMap::new(),
            told: BTreeMap::new(),
            labels: BTreeMap::new(),
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

    /// Keeps an event that is written as it is, if it is more than a detail.
    pub fn hear(&mut self, event: &Event<'_>) -> Result<()> {
        match event {
            Event::Warning(warning) => self.warn(warning),
            Event::Of(_, RankEvent::OpTotals(totals)) => {
                let have = self.op_totals.entry((totals.name, totals.shapes));
                have.and_modify(|have| have.add(totals)).or_insert(*totals);
            }
            Event::Of(_, RankEvent::History(row)) => {
                self.told.entry(row.pool).or_default().hear(row);
                // What lies there now is something else. (What was there all the time is not.)
                let is_other = !matches!(row.action, HistoryAction::There | HistoryAction::Highest);
                if is_other
                    && let Entry::Occupied(label) = self.labels.entry((row.pool, row.address))
                    && label.get().time < row.time
                {
                    label.remove();
                }
            }
            Event::Of(_, RankEvent::Label(label)) => {
                let key = (label.pool, label.address);
                if self.labels.len() < MOST_LABELS || self.labels.contains_key(&key) {
                    self.labels.insert(key, *label);
                }
            }
            Event::Of(_, RankEvent::Expected(expected)) => {
                self.expected.retain(|have| have != expected);
                self.expected.push(*expected);
                let surplus = self.expected.len().saturating_sub(MOST_EXPECTED);
                self.expected.drain(..surplus);
            }
            Event::Of(_, RankEvent::NotWatched(pool, what))
                if self.not_watched.len() < MOST_NOT_WATCHED
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
            | Event::Of(_, RankEvent::Lane { .. }) => {
                self.names.add(event)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Something went wrong in the program.
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
        if self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(warning.clone());
        } else {
            self.further_warnings += 1;
        }
    }

    /// A step was made.
    #[inline]
    pub fn step(&mut self, op: OpId) {
        self.last = After { position: self.last.position + 1, time: self.time, op };
    }

    /// Something was allocated by the last step; `tensor` is its row. `None`: there is no such pool.
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
        let level = kept.change(signed(bytes), at, born);
        let place = place as usize;
        if self.live.len() <= place {
            self.live.resize(place + 1, None);
        }
        let (name, requires_grad, count) = (None, None, kept.count);
        let live = Live { tensor, pool, bytes, ty, class, name, requires_grad, within, born, level, count };
        self.live[place] = Some(live);
        Some(())
    }

    /// What is at a place, which is gone by the last step.
    #[inline]
    pub fn freed(&mut self, Place(place): Place, at: Moment) -> Option<Live> {
        let live = self.live.get_mut(place as usize)?.take()?;
        let after = self.last;
        let kept = self.pools.get_mut(live.pool.index())?;
        kept.count = kept.count.saturating_sub(1);
        kept.totals.frees += 1;
        kept.totals.freed = kept.totals.freed.saturating_add(live.bytes);
        kept.change(-signed(live.bytes), at, after);
        Some(live)
    }

    pub fn at(&mut self, Place(place): Place) -> Option<&mut Live> {
        self.live.get_mut(place as usize)?.as_mut()
    }

    /// The row of the call at a place.
    #[inline]
    pub fn call(&self, at: Option<CallRef>) -> Option<CallId> {
        self.calls.get(at?.index())?.as_ref().map(|call| call.call)
    }

    pub fn entered(&mut self, at: CallRef, call: KeptCall) {
        self.entered += 1;
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

    /// A call ended: its row.
    pub fn returned(&mut self, at: CallRef, outcome: Outcome) -> Option<CallId> {
        let position = self.last.position;
        let call = self.calls.get_mut(at.index())?.as_mut()?;
        call.outcome = Some((outcome, position));
        self.rounds.ended(call);
        let (id, scope, took) = (call.call, call.scope, outcome.ended.saturating_sub(call.began));
        self.add_up(scope, &outcome, took);
        Some(id)
    }

    /// A call that is over already, which has no place.
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

    /// Somebody wants to look at this moment.
    pub fn look(&mut self, name: Option<StrId>, time: Nanoseconds) {
        let values = self.values();
        self.looks.add(Look { name, time, after: self.last, values });
    }

    /// What all pools are at.
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

    /// What a pool was seen to have.
    pub fn reading(&mut self, pool: PoolId, reading: &Reading) {
        let (after, seen) = (self.last, self.time);
        let Some(pool) = self.pools.get_mut(pool.index()) else { return };
        for (kind, value) in reading.values() {
            if let Some(value) = value {
                let point = Point { after, seen, value, count: pool.count };
                pool.curve_mut(kind).see(point);
            }
        }
    }

    /// How many rows it has, of everything.
    pub fn sizes(&self) -> super::KeptSizes {
        super::KeptSizes {
            name_bytes: self.names.0.len(),
            allocations: self.live.len(),
            calls: self.calls.len(),
            snapshots: self.looks.len(),
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

    /// What there is of it in time.
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

    /// When most was allocated in it.
    pub fn peak(&self) -> Option<Point> {
        self.allocated.peak()
    }

    /// The pool holds more or less after a step, which is a moment of this file: how much then.
    #[inline]
    fn change(&mut self, by: i64, at: Moment, after: After) -> u64 {
        let Some(level) = &mut self.level else { return 0 };
        level.change(by, at);
        let (value, count, seen) = (level.now(), self.count, after.time);
        self.allocated.see(Point { after, seen, value, count });
        value
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
