//! The live recorder: what a binding to a framework tells of a program that runs, while it runs.
//!
//! It has exact figures at any time (what is there, how high it was, what each scope came to), and writes a recording in
//! which every allocation is found again, with the call that made it, the line of the program and the time. Nothing here
//! knows a framework: whoever watches one says what it sees.
//!
//! Here lives the interface. `names` gives out ids; `calls` knows what runs; `queue`, `scribe` and `narrator` make the
//! file. The recorder is told by one thread at a time (it is `&mut`), and never waits for the file unless it is told more
//! than can be written.
//!
//! A recording may have a limit. Then `files` goes on in a new file whenever one is full, which begins with what `kept` and
//! `past` have of all before (`retold` says it): so a program may run for as long as it likes.

mod clock;
mod failures;
mod files;
mod kept;
mod names;
mod narrator;
mod past;
mod queue;
mod retold;
mod rounds;
mod scribe;

pub use clock::{Clock, Hands};
pub use failures::FailedAllocation;
pub use names::TypeOf;
pub use queue::Behind;
pub use ttmem_model::rules::calls::CallRef;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use slab::Slab;

use self::names::Names;
use self::narrator::{FURTHER, TEXTS};
use self::queue::{Gauge, Outlet, PATIENCE, Parcel, Record};
use ttmem_model::rules::calls::RunningCalls;
use ttmem_model::{
    Bytes, CallTotals, Class, During, Event, Expected, Frame, FrameId, HistoryAction, HistoryRow, Label,
    LaneId, Nanoseconds, OpId, OpTotals, PoolId, RankEvent, RankId, Reading, Scope, ScopeId, ScopeKind,
    StackId, StrId, TypeId, Warning,
};
use ttmem_model::{Error, Result};

/// The operation of a step at which counters were read.
const READING: &str = "reading";
/// Times that differ by less than this are one.
const TICK: Nanoseconds = 1000;

/// An allocation that is there: its place, for as long as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// Something that was allocated.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    /// Where.
    pub pool: PoolId,
    /// How much.
    pub bytes: u64,
    /// By which operation.
    pub op: OpId,
    /// Of what type, where that is known.
    pub ty: Option<TypeId>,
    /// What it is, as far as that is known yet.
    pub class: Class,
    /// In which call.
    pub within: Option<CallRef>,
}

/// A call that was learned of when it was over.
#[derive(Clone, Copy, Debug)]
pub struct LateCall {
    /// Of which scope.
    pub scope: ScopeId,
    /// On which thread or stream.
    pub lane: LaneId,
    /// Inside of which call, by its number; `None`: of the one that ran then.
    pub parent: Option<u64>,
    /// What it was, with the types of its arguments.
    pub op: Option<OpId>,
    /// When it began.
    pub began: Nanoseconds,
    /// When it ended.
    pub ended: Nanoseconds,
}

/// An allocation that is there.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Where.
    pub pool: PoolId,
    /// How much.
    pub bytes: u64,
    /// By which operation it was made.
    pub op: OpId,
    /// Of what type.
    pub ty: Option<TypeId>,
    /// What it is.
    pub class: Class,
    /// In which scope it was made.
    pub scope: Option<ScopeId>,
    owner: Option<CallRef>,
}

/// What a pool has and had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolFigures {
    /// What is there.
    pub now: u64,
    /// The most that was there at a time.
    pub peak: u64,
    /// How many allocations there are.
    pub count: u64,
    /// How many there were in all.
    pub allocations: u64,
}

/// How a recording is made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How many bytes all its files may have together. Beyond that, the oldest detail goes. `None`: as many as it takes.
    pub limit: Option<u64>,
    /// Where the time is from.
    pub clock: Clock,
}

/// How far a recording has come, as of its last flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingStatus {
    /// How large its newest file is, at most.
    pub size: u64,
    /// How often a new file has followed.
    pub rotations: u64,
    /// The most that all files took whenever one followed another.
    pub most_on_disk: u64,
    /// What the newest file began with.
    pub carried: u64,
    /// What is kept in memory for the next one.
    pub kept: KeptSizes,
}

/// What is kept of a recording in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptSizes {
    /// The bytes of all names.
    pub name_bytes: usize,
    /// Places of allocations, used or not.
    pub allocations: usize,
    /// Places of calls, used or not.
    pub calls: usize,
    /// Snapshots.
    pub snapshots: usize,
    /// Stretches of curves.
    pub points: usize,
}

/// Takes down what a program does to memory.
#[derive(Debug)]
pub struct Recorder {
    clock: Clock,
    /// When it began, in nanoseconds of Unix time.
    began: u64,
    names: Names,
    pools: Vec<PoolFigures>,
    held: Slab<Held>,
    calls: RunningCalls,
    /// The time and the call that the file knows.
    time: Nanoseconds,
    within: Option<CallRef>,
    readings_are_steps: bool,
    file: Option<Writing>,
    /// What is known of the file, also when it is done.
    gauge: Option<Arc<Gauge>>,
}

#[derive(Debug)]
struct Writing {
    outlet: Outlet,
    thread: JoinHandle<Result<()>>,
    process: u32,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// A recorder that has figures only.
    pub fn new() -> Self {
        Self::with(Clock::default())
    }

    fn with(clock: Clock) -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            clock,
            began: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX),
            names: Names::default(),
            pools: Vec::new(),
            held: Slab::new(),
            calls: RunningCalls::default(),
            time: 0,
            within: None,
            readings_are_steps: false,
            file: None,
            gauge: None,
        }
    }

    /// A recorder that writes a `.ttmem` file, as things happen. An earlier recording of that name is replaced; any
    /// other file is an error.
    pub fn recording_to(path: impl AsRef<Path>) -> Result<Self> {
        Self::recording_with(path, Options::default())
    }

    /// The same, in files that have a limit together. `NAME.ttmem` is the newest of them; `NAME.before.ttmem` is the one
    /// before it, and `NAME.peak.ttmem` that with the highest peak so far, unless the newest has it.
    pub fn recording_with(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let mut recorder = Self::with(options.clock);
        let (outlet, thread) = scribe::begin(path.as_ref(), recorder.began, options.limit)?;
        recorder.gauge = Some(Arc::clone(&outlet.gauge));
        recorder.file = Some(Writing { outlet, thread, process: std::process::id() });
        Ok(recorder)
    }

    /// When the recorder began, in nanoseconds of Unix time.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// The time now: nanoseconds since the recorder began.
    #[inline]
    pub fn now(&self) -> Nanoseconds {
        self.clock.now()
    }

    // Names: each is said once, and meant by its id then.

    /// The id of a text.
    pub fn text(&mut self, text: &str) -> StrId {
        let (id, new) = self.names.text(text);
        self.say_new(new);
        id
    }

    /// The id of a pool. Its level is what is allocated in it, unless it `is_read`: then only readings say it.
    pub fn pool(&mut self, name: &str, is_read: bool) -> PoolId {
        let (text, name) = (name, self.text(name));
        let (id, is_new) = self.names.pool(name);
        if is_new {
            self.pools.push(PoolFigures::default());
            self.send(Parcel::Pool { name, text: text.to_owned(), is_empty: !is_read });
        }
        id
    }

    /// The id of a tensor type; `None` where a program has more of them than can be kept.
    pub fn tensor_type(&mut self, ty: TypeOf<'_>) -> Option<TypeId> {
        let (id, new) = self.names.tensor_type(ty);
        self.say_new(new);
        id
    }

    /// The id of a line of the program.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        let (id, new) = self.names.frame(frame);
        self.say_new(new);
        id
    }

    /// The id of a stack.
    pub fn stack(&mut self, frame: FrameId, caller: Option<StackId>) -> StackId {
        let (id, new) = self.names.stack(frame, caller);
        self.say_new(new);
        id
    }

    /// The id of an operation that is called from a place; `loc` is the line that people look for.
    pub fn op(&mut self, name: StrId, stack: Option<StackId>, loc: Option<StrId>) -> OpId {
        let (id, new) = self.names.op(name, stack, loc);
        new.into_iter().flatten().for_each(|event| self.say(event));
        id
    }

    /// The id of an operation with the types of its arguments.
    pub fn op_of_types(&mut self, name: StrId, types: &[TypeId]) -> OpId {
        let (id, new) = self.names.op_of_types(name, types);
        self.say_new(new);
        id
    }

    /// The id of a thread or stream. There is a limit: one stands for all beyond.
    pub fn lane(&mut self, name: &str) -> LaneId {
        let name = self.text(self.names.lane_name(name));
        let (id, is_new) = self.names.lane();
        if is_new {
            self.say_of_rank(RankEvent::Lane { name });
        }
        id
    }

    /// The id of a scope. There are limits: a program that makes names up ends in a scope that stands for the rest, and
    /// one that goes ever deeper stays at a depth.
    pub fn scope(&mut self, parent: Option<ScopeId>, name: &str, kind: ScopeKind) -> ScopeId {
        let parent = self.names.room_in(parent);
        if let Some(id) = self.names.known_scope(parent, name, kind) {
            return id;
        }
        let has_room = self.names.has_room_for_scopes();
        let (parent, name) = if has_room { (parent, name) } else { (None, TEXTS[FURTHER]) };
        let name = self.text(name);
        let (id, is_new) = self.names.scope(Scope { name, parent, kind });
        if is_new {
            self.say_of_rank(RankEvent::Scope(Scope { name, parent, kind }));
        }
        id
    }

    // What happens.

    /// A call of a scope begins. Who gets it must [`exit`](Self::exit) and then [`release`](Self::release) it.
    pub fn enter(
        &mut self,
        scope: ScopeId,
        lane: LaneId,
        parent: Option<CallRef>,
        op: Option<OpId>,
    ) -> Option<CallRef> {
        let began = self.now();
        let outer = self.calls.running(parent);
        let call = self.calls.enter(scope, parent, began)?;
        if self.within == Some(call) {
            // Another call was at that place.
            self.within = None;
            self.put(Record::Within(None));
        }
        self.put(Record::Entered { call, scope, lane, parent: outer, op, began });
        Some(call)
    }

    /// A call ends; a second time is nothing.
    pub fn exit(&mut self, call: CallRef) {
        if let Some(outcome) = self.calls.exit(call, self.now()) {
            self.put(Record::returned(call, &outcome));
        }
    }

    /// A call that was learned of when it was over: its number. Inside of which other it was may be left open.
    pub fn late_call(&mut self, call: LateCall) -> u64 {
        self.send(Parcel::Late(call));
        self.calls.take_number()
    }

    /// Whether a call has not ended yet.
    pub fn runs(&self, call: CallRef) -> bool {
        self.calls.runs(Some(call))
    }

    /// Who held a call means it no more.
    pub fn release(&mut self, call: CallRef) {
        self.calls.release(call);
    }

    /// The scope of a call that is held, or of the one around it that still runs.
    pub fn scope_of(&self, call: Option<CallRef>) -> Option<ScopeId> {
        self.calls.running(call).and_then(|call| self.calls.scope(call))
    }

    /// Which of all calls that is, from 0.
    pub fn call_number(&self, call: CallRef) -> Option<u64> {
        self.calls.number(call)
    }

    /// What kind of scope that is.
    pub fn kind_of(&self, call: Option<CallRef>) -> Option<ScopeKind> {
        self.scope_of(call).and_then(|scope| self.names.scope_row(scope)).map(|scope| scope.kind)
    }

    /// Something was allocated.
    pub fn allocated(&mut self, allocation: Allocation) -> Option<Place> {
        let Allocation { pool, bytes, op, ty, class, within } = allocation;
        let place = Place(u32::try_from(self.held.vacant_key()).ok()?);
        let owner = self.calls.allocated(within, bytes);
        let scope = owner.and_then(|owner| self.calls.scope(owner));
        if let Some(figures) = self.pools.get_mut(pool.index()) {
            figures.now += bytes;
            figures.peak = figures.peak.max(figures.now);
            figures.count += 1;
            figures.allocations += 1;
        }
        self.say_where(owner);
        self.put(Record::Allocated { place, pool, bytes, op, ty, class });
        self.held.insert(Held { pool, bytes, op, ty, class, scope, owner });
        Some(place)
    }

    /// Something is gone; by which call's doing.
    pub fn freed(&mut self, place: Place, within: Option<CallRef>) {
        let Some(held) = self.held.try_remove(place.0 as usize) else { return };
        let Held { pool, bytes, owner, class, .. } = held;
        let within = self.calls.running(within);
        if matches!(class, Class::Unknown | Class::Activation) && self.calls.runs(owner) {
            // Gone before the call that made it has returned.
            self.put(Record::Classified { place, class: Class::Temporary, name: None });
        }
        self.calls.freed(owner, within, bytes);
        if let Some(figures) = self.pools.get_mut(pool.index()) {
            figures.now = figures.now.saturating_sub(bytes);
            figures.count = figures.count.saturating_sub(1);
        }
        self.say_where(within);
        self.put(Record::Freed(place));
    }

    /// What an allocation turned out to be, and what people call it.
    pub fn classify(&mut self, place: Place, class: Class, name: Option<StrId>) {
        let Some(held) = self.held.get_mut(place.0 as usize) else { return };
        if held.class == class && name.is_none() {
            return;
        }
        held.class = class;
        self.put(Record::Classified { place, class, name });
    }

    /// Whether gradients are computed for an allocation.
    pub fn requires_grad(&mut self, place: Place, does: bool) {
        if self.held.contains(place.0 as usize) {
            self.put(Record::RequiresGrad(place, does));
        }
    }

    /// Somebody wants to look at this moment.
    pub fn snapshot(&mut self, name: Option<&str>) {
        let name = name.map(|name| self.text(name));
        let time = self.now();
        self.put(Record::Snapshot { name, time });
    }

    /// From now on, that counters are read is a step: where little else is seen as it happens, they give the time.
    pub fn readings_are_steps(&mut self) {
        self.readings_are_steps = true;
    }

    /// What a pool was seen to have. Counters of a driver, for example.
    pub fn reading(&mut self, pool: PoolId, reading: Reading) {
        if let (Some(figures), Some(now)) = (self.pools.get_mut(pool.index()), reading.allocated) {
            figures.now = now;
            figures.peak = figures.peak.max(now);
        }
        let mut op = None;
        if self.readings_are_steps {
            let name = self.text(READING);
            op = Some(self.op(name, None, None));
        }
        self.say_where(None);
        self.send(Parcel::Reading(pool, reading, op));
    }

    /// Something that an allocator did, learned of afterwards; and in which call, by its number, if that is known: then
    /// `during` says what holds if the file has no such call any more.
    pub fn history(&mut self, row: HistoryRow, call: Option<u64>) {
        self.send(Parcel::History(row, call));
    }

    /// A counter of a pool says what the most was that was allocated at a time since it was read last.
    pub fn highest(&mut self, pool: PoolId, bytes: u64) {
        let name = self.text(READING);
        let (op, time) = (self.op(name, None, None), self.now());
        let (action, during, block) = (HistoryAction::Highest, During::NoCall, Bytes::UNKNOWN);
        self.history(HistoryRow { pool, action, address: 0, bytes, block, op, during, time }, None);
    }

    /// What lies at an address of an allocator's memory.
    pub fn label(&mut self, label: Label) {
        self.say_of_rank(RankEvent::Label(label));
    }

    /// What a profiler says of an operation.
    pub fn op_totals(&mut self, totals: OpTotals) {
        self.say_of_rank(RankEvent::OpTotals(totals));
    }

    /// What is not in the figures of a pool.
    pub fn not_watched(&mut self, pool: PoolId, what: &str) {
        let what = self.text(what);
        self.say_of_rank(RankEvent::NotWatched(pool, what));
    }

    /// What a class should take.
    pub fn expected(&mut self, expected: Expected) {
        self.say_of_rank(RankEvent::Expected(expected));
    }

    /// What people should know.
    pub fn warn(&mut self, message: String) {
        self.say(Event::Warning(Warning { line: None, message }));
    }

    // Figures.

    /// The pools, with their names.
    pub fn pools(&self) -> impl Iterator<Item = (&str, PoolFigures)> + '_ {
        self.pools.iter().enumerate().map(|(index, figures)| (self.names.pool_name(index), *figures))
    }

    /// The allocations that are there.
    pub fn held(&self) -> impl Iterator<Item = (Place, &Held)> + '_ {
        self.held.iter().filter_map(|(index, held)| Some((Place(u32::try_from(index).ok()?), held)))
    }

    /// An allocation that is there.
    pub fn held_at(&self, place: Place) -> Option<&Held> {
        self.held.get(place.0 as usize)
    }

    /// The scopes, and what their calls came to that have ended.
    pub fn scopes(&self) -> impl Iterator<Item = (ScopeId, Scope, CallTotals)> + '_ {
        self.names.scopes().map(|(id, scope)| (id, scope, self.calls.totals(id)))
    }

    /// What the calls of a scope came to that have ended.
    pub fn totals_of(&self, scope: ScopeId) -> CallTotals {
        self.calls.totals(scope)
    }

    /// The name of a scope.
    pub fn scope_name(&self, scope: ScopeId) -> &str {
        self.names.scope_row(scope).map_or("", |scope| self.names.text_of(scope.name))
    }

    /// The text of an id.
    pub fn text_of(&self, id: StrId) -> &str {
        self.names.text_of(id)
    }

    /// The name of an operation.
    pub fn op_name(&self, op: OpId) -> &str {
        self.names.op_name(op)
    }

    /// How many calls are still held: none, when all was released.
    pub fn held_calls(&self) -> usize {
        self.calls.held()
    }

    // The file.

    /// Waits until all that was told is in the file.
    pub fn flush(&mut self) {
        if let Some(flushing) = self.begin_flush() {
            flushing.wait();
        }
    }

    /// The same, for who wants to wait elsewhere.
    pub fn begin_flush(&mut self) -> Option<Flushing> {
        self.writing()?;
        let (done, wait) = sync_channel(1);
        self.send(Parcel::Flush(done));
        let outlet = &mut self.writing()?.outlet;
        outlet.settle();
        outlet.wake();
        Some(Flushing(wait))
    }

    /// Writes what is left, and the end; says what went wrong with the recording. The figures stay.
    pub fn finish(&mut self) -> Result<()> {
        self.begin_finish().map_or(Ok(()), Finishing::wait)
    }

    /// The same, for who wants to wait elsewhere.
    pub fn begin_finish(&mut self) -> Option<Finishing> {
        self.writing()?;
        self.send(Parcel::Finish);
        let mut writing = self.file.take()?;
        writing.outlet.settle();
        writing.outlet.wake();
        Some(Finishing(writing))
    }

    /// Something to wait for, if the program is far ahead of the disk: who asks often, and waits where it holds nothing
    /// that others need, is never stopped elsewhere.
    #[inline]
    pub fn behind(&mut self) -> Option<Behind> {
        self.file.as_mut().and_then(|writing| writing.outlet.behind())
    }

    /// Why the recording is not written any more, though the program goes on: a disk that is full, for example. The
    /// figures are right nevertheless.
    pub fn failure(&self) -> Option<&str> {
        self.gauge.as_ref().and_then(|gauge| gauge.failure())
    }

    /// How far the recording has come; `None` where there is none.
    pub fn status(&self) -> Option<RecordingStatus> {
        self.gauge.as_ref().map(|gauge| gauge.status())
    }

    /// Leaves the recording to the process that began it: what a child does after `fork`, in which no thread writes.
    pub fn abandon(&mut self) {
        if let Some(writing) = self.file.take() {
            // The queue is the other process's too; here nobody reads it.
            std::mem::forget(writing);
        }
    }

    /// The time, and the call that what comes next belongs to.
    #[inline]
    fn say_where(&mut self, within: Option<CallRef>) {
        if self.file.is_none() {
            return;
        }
        self.tick();
        if within != self.within {
            self.within = within;
            self.put(Record::Within(within));
        }
    }

    #[inline]
    fn tick(&mut self) {
        let now = self.now();
        if now >= self.time + TICK {
            self.time = now;
            self.put(Record::Time(now));
        }
    }

    fn say_new(&mut self, new: Option<Event<'static>>) {
        if let Some(event) = new {
            self.say(event);
        }
    }

    fn say_of_rank(&mut self, event: RankEvent) {
        if let Some(rank) = RankId::new(0) {
            self.say(Event::Of(rank, event));
        }
    }

    fn say(&mut self, event: Event<'static>) {
        self.send(Parcel::Event(event));
    }

    fn send(&mut self, parcel: Parcel) {
        if let Some(writing) = &mut self.file {
            writing.outlet.send(parcel);
        }
    }

    #[inline]
    fn put(&mut self, record: Record) {
        if let Some(writing) = &mut self.file {
            writing.outlet.put(record);
        }
    }

    /// The recording, if this process makes it.
    fn writing(&mut self) -> Option<&mut Writing> {
        if self.file.as_ref().is_some_and(|writing| writing.process != std::process::id()) {
            self.abandon();
        }
        self.file.as_mut()
    }
}

/// A flush that is under way.
#[derive(Debug)]
pub struct Flushing(Receiver<()>);

impl Flushing {
    /// Waits for it.
    pub fn wait(self) {
        // An error here is a thread that is gone: `finish` says why.
        let _ = self.0.recv();
    }
}

/// A recording that is being ended.
#[derive(Debug)]
pub struct Finishing(Writing);

impl Finishing {
    /// Waits for it: what went wrong. A disk that takes nothing any more is not waited for without end.
    pub fn wait(self) -> Result<()> {
        let Writing { outlet, thread, .. } = self.0;
        let gauge = Arc::clone(&outlet.gauge);
        drop(outlet);
        let since = Instant::now();
        while gauge.failure().is_some() && !thread.is_finished() {
            if since.elapsed() > PATIENCE {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        if let Some(why) = gauge.failure().filter(|_| !thread.is_finished()) {
            return Err(Error::NotThere(why.to_owned()));
        }
        thread.thread().unpark();
        let joined = thread.join();
        joined.unwrap_or_else(|_| Err(Error::Bug("the thread of a recording has panicked".into())))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Who wants to know what went wrong calls `finish`.
        let _ = self.finish();
    }
}
