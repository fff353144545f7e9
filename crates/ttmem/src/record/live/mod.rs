//! The live recorder: what a binding to a framework tells of a program that runs, while it runs.
//!
//! It has exact figures at any time (what is there, how high it was, what each scope came to), and writes a recording in
//! which every allocation is found again, with the call that made it, the line of the program and the time. Nothing here
//! knows a framework: whoever watches one says what it sees.
//!
//! Here lives the interface. `names` gives out ids; `calls` knows what runs; `queue`, `scribe` and `narrator` make the
//! file. The recorder is told by one thread at a time (it is `&mut`), and never waits for the file unless it is told more
//! than can be written.

pub(crate) mod calls;
mod names;
mod narrator;
mod queue;
mod scribe;

pub use calls::CallRef;
pub use names::TypeOf;

use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use slab::Slab;

use self::calls::Calls;
use self::names::Names;
use self::queue::{Outlet, Parcel, Record};
use super::replace;
use crate::error::{Error, Result};
use crate::model::{
    Bytes, CallId, CallTotals, Class, During, Event, Expected, Frame, FrameId, HistoryAction, HistoryRow,
    Label, LaneId, Nanoseconds, OpId, OpTotals, PoolId, RankEvent, RankId, Reading, Scope, ScopeId,
    ScopeKind, StackId, StrId, TensorId, TypeId, Warning,
};

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
    tensor: TensorId,
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

/// Takes down what a program does to memory.
#[derive(Debug)]
pub struct Recorder {
    clock: Instant,
    /// When it began, in nanoseconds of Unix time.
    began: u64,
    names: Names,
    pools: Vec<PoolFigures>,
    held: Slab<Held>,
    calls: Calls,
    tensors: usize,
    entered: usize,
    /// The time and the call that the file knows.
    time: Nanoseconds,
    within: Option<CallId>,
    readings_are_steps: bool,
    file: Option<Writing>,
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
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            clock: Instant::now(),
            began: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX),
            names: Names::default(),
            pools: Vec::new(),
            held: Slab::new(),
            calls: Calls::default(),
            tensors: 0,
            entered: 0,
            time: 0,
            within: None,
            readings_are_steps: false,
            file: None,
        }
    }

    /// A recorder that writes a `.ttmem` file, as things happen. An earlier recording of that name is replaced; any
    /// other file is an error.
    pub fn recording_to(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut recorder = Self::new();
        let (outlet, thread) = scribe::begin(replace::create(path)?, path, recorder.began)?;
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
        u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX)
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
        let name = self.text(name);
        let (id, is_new) = self.names.pool(name);
        if is_new {
            self.pools.push(PoolFigures::default());
            self.send(Parcel::Pool { name, is_empty: !is_read });
        }
        id
    }

    /// The id of a tensor type.
    pub fn tensor_type(&mut self, ty: TypeOf<'_>) -> TypeId {
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

    /// The id of a thread or stream.
    pub fn lane(&mut self, name: &str) -> LaneId {
        let name = self.text(name);
        self.say_of_rank(RankEvent::Lane { name });
        self.names.lane()
    }

    /// The id of a scope. There are limits: a program that makes names up ends in a scope that stands for the rest, and
    /// one that goes ever deeper stays at a depth.
    pub fn scope(&mut self, parent: Option<ScopeId>, name: &str, kind: ScopeKind) -> ScopeId {
        let parent = self.names.room_in(parent);
        if let Some(id) = self.names.known_scope(parent, name, kind) {
            return id;
        }
        let has_room = self.names.has_room_for_scopes();
        let (parent, name) = if has_room { (parent, name) } else { (None, names::FURTHER) };
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
        let call = CallId::new(self.entered)?;
        self.entered += 1;
        let began = self.now();
        let outer = self.calls.running(parent).and_then(|parent| self.calls.id(parent));
        self.put(Record::Entered { scope, lane, parent: outer, op, began });
        Some(self.calls.enter(call, scope, parent, began))
    }

    /// A call ends; a second time is nothing.
    pub fn exit(&mut self, call: CallRef) {
        if let Some((id, outcome)) = self.calls.exit(call, self.now()) {
            self.put(Record::Returned(id, outcome));
        }
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

    /// Which call that is, of all that began.
    pub fn call_id(&self, call: CallRef) -> Option<CallId> {
        self.calls.id(call)
    }

    /// The call of a number, if so many have begun.
    pub fn call_numbered(&self, number: usize) -> Option<CallId> {
        CallId::new(number).filter(|_| number < self.entered)
    }

    /// What kind of scope that is.
    pub fn kind_of(&self, call: Option<CallRef>) -> Option<ScopeKind> {
        self.scope_of(call).and_then(|scope| self.names.scope_row(scope)).map(|scope| scope.kind)
    }

    /// Something was allocated.
    pub fn allocated(&mut self, allocation: Allocation) -> Option<Place> {
        let Allocation { pool, bytes, op, ty, class, within } = allocation;
        let tensor = TensorId::new(self.tensors)?;
        self.tensors += 1;
        let owner = self.calls.allocated(within, bytes);
        let scope = owner.and_then(|owner| self.calls.scope(owner));
        if let Some(figures) = self.pools.get_mut(pool.index()) {
            figures.now += bytes;
            figures.peak = figures.peak.max(figures.now);
            figures.count += 1;
            figures.allocations += 1;
        }
        self.say_where(owner);
        self.put(Record::Allocated { pool, bytes, op, ty, class });
        let held = Held { pool, bytes, op, ty, class, scope, tensor, owner };
        u32::try_from(self.held.insert(held)).ok().map(Place)
    }

    /// Something is gone; by which call's doing.
    pub fn freed(&mut self, place: Place, within: Option<CallRef>) {
        let Some(held) = self.held.try_remove(place.0 as usize) else { return };
        let Held { pool, bytes, tensor, owner, class, .. } = held;
        let within = self.calls.running(within);
        if matches!(class, Class::Unknown | Class::Activation) && self.calls.runs(owner) {
            // Gone before the call that made it has returned.
            self.put(Record::Classified { tensor, class: Class::Temporary, name: None });
        }
        self.calls.freed(owner, within, bytes);
        if let Some(figures) = self.pools.get_mut(pool.index()) {
            figures.now = figures.now.saturating_sub(bytes);
            figures.count = figures.count.saturating_sub(1);
        }
        self.say_where(within);
        self.put(Record::Freed { tensor, pool, bytes });
    }

    /// What an allocation turned out to be, and what people call it.
    pub fn classify(&mut self, place: Place, class: Class, name: Option<StrId>) {
        let Some(held) = self.held.get_mut(place.0 as usize) else { return };
        if held.class == class && name.is_none() {
            return;
        }
        held.class = class;
        let tensor = held.tensor;
        self.put(Record::Classified { tensor, class, name });
    }

    /// Whether gradients are computed for an allocation.
    pub fn requires_grad(&mut self, place: Place, does: bool) {
        if let Some(tensor) = self.held.get(place.0 as usize).map(|held| held.tensor) {
            self.say_of_rank(RankEvent::RequiresGrad(tensor, does));
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

    /// Something that an allocator did, learned of afterwards.
    pub fn history(&mut self, row: HistoryRow) {
        self.say_of_rank(RankEvent::History(row));
    }

    /// A counter of a pool says what the most was that was allocated at a time since it was read last.
    pub fn highest(&mut self, pool: PoolId, bytes: u64) {
        let name = self.text(READING);
        let (op, time) = (self.op(name, None, None), self.now());
        let (action, during, block) = (HistoryAction::Highest, During::NoCall, Bytes::UNKNOWN);
        self.history(HistoryRow { pool, action, address: 0, bytes, block, op, during, time });
    }

    /// What lies at an address of an allocator's memory.
    pub fn label(&mut self, label: Label) {
        self.say_of_rank(RankEvent::Label(label));
    }

    /// What a profiler says of an operation.
    pub fn op_totals(&mut self, totals: OpTotals) {
        self.say_of_rank(RankEvent::OpTotals(totals));
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
        let (done, wait) = sync_channel(1);
        if self.writing().is_none() {
            return;
        }
        self.send(Parcel::Flush(done));
        if let Some(writing) = self.writing() {
            writing.outlet.wake();
            // An error here is a thread that is gone: `finish` says why.
            let _ = wait.recv();
        }
    }

    /// Writes what is left, and the end; says what went wrong with the recording. The figures stay.
    pub fn finish(&mut self) -> Result<()> {
        if self.writing().is_none() {
            return Ok(());
        }
        self.send(Parcel::Finish);
        let Some(mut writing) = self.file.take() else { return Ok(()) };
        writing.outlet.wake();
        let joined = writing.thread.join();
        joined.unwrap_or_else(|_| Err(Error::Bug("the thread of a recording has panicked".into())))
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
        let within = within.and_then(|within| self.calls.id(within));
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

impl Drop for Recorder {
    fn drop(&mut self) {
        // Who wants to know what went wrong calls `finish`.
        let _ = self.finish();
    }
}
