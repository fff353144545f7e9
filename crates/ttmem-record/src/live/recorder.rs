//! The interface of the live recorder.
//!
//! Only one thread at a time can use it (it is `&mut`). It waits for the file only if the disk cannot keep up.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustc_hash::FxHashSet;
use slab::Slab;
use ttmem_model::rules::calls::RunningCalls;
use ttmem_model::{
    AllocatorRules, Bytes, CallTotals, Class, During, Event, Expected, Frame, FrameId, HistoryAction,
    HistoryRow, Holder, Label, LaneId, Launch, Nanoseconds, OpId, OpTotals, PoolId, RankEvent, RankId,
    Reading, Result, Scope, ScopeId, ScopeKind, StackId, StrId, TypeId, Warning,
};

use super::names::{Names, TypeOf};
use super::narrator::{FURTHER, TEXTS};
use super::record::{Message, Record};
use super::rotation::Files;
use super::{
    Allocation, Backlog, CallRef, Clock, Finishing, Flushing, Held, LateCall, Options, Place, PoolFigures,
    RecordingStatus,
};
use crate::recording::Recording;

/// The operation of steps that read counters.
const READING: &str = "reading";
/// The resolution of times.
const TICK: Nanoseconds = 1000;

/// Records memory events of a program.
#[derive(Debug)]
pub struct Recorder {
    clock: Clock,
    /// The start, in nanoseconds of Unix time.
    began: u64,
    names: Names,
    pub(super) pools: Vec<PoolFigures>,
    held: Slab<Held>,
    pub(super) calls: RunningCalls,
    /// The last time and call in the file.
    time: Nanoseconds,
    within: Option<CallRef>,
    /// The scopes whose calls return several tensors.
    several_outputs: FxHashSet<ScopeId>,
    readings_are_steps: bool,
    pub(super) recording: Recording<Record, Message>,
    /// The status of the recording; kept after it has finished.
    status: Option<Arc<Mutex<RecordingStatus>>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// A recorder without a file.
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
            several_outputs: FxHashSet::default(),
            readings_are_steps: false,
            recording: Recording::default(),
            status: None,
        }
    }

    /// A recorder that writes a `.ttmem` file while the program runs. An existing recording is replaced; any other
    /// existing file is an error.
    pub fn recording_to(path: impl AsRef<Path>) -> Result<Self> {
        Self::recording_with(path, Options::default())
    }

    /// The same, with options. With a limit, `NAME.ttmem` is the newest file, `NAME.before.ttmem` the previous one, and
    /// `NAME.peak.ttmem` the one with the highest peak so far, unless that is the newest.
    pub fn recording_with(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let mut recorder = Self::with(options.clock);
        let files = Files::create(path.as_ref(), recorder.began, options.limit)?;
        recorder.status = Some(files.status());
        recorder.recording = Recording::start(path.as_ref(), files)?;
        Ok(recorder)
    }

    /// The start of the recorder, in nanoseconds of Unix time.
    pub fn began(&self) -> u64 {
        self.began
    }

    /// The current time, in nanoseconds since the start.
    #[inline]
    pub fn now(&self) -> Nanoseconds {
        self.clock.now()
    }

    // Names: each is written once and then referred to by its id.

    /// The id of a text.
    pub fn text(&mut self, text: &str) -> StrId {
        let (id, new) = self.names.text(text);
        self.write_new(new);
        id
    }

    /// The id of a pool. Its level is the sum of its allocations, unless it `is_read`: then it is known only from
    /// readings.
    pub fn pool(&mut self, name: &str, is_read: bool) -> PoolId {
        let (text, name) = (name, self.text(name));
        let (id, is_new) = self.names.pool(name);
        if is_new {
            self.pools.push(PoolFigures::default());
            self.recording.send(Message::Pool { name, text: text.to_owned(), is_empty: !is_read });
        }
        id
    }

    /// The id of a tensor type; `None` if there are too many.
    pub fn tensor_type(&mut self, ty: TypeOf<'_>) -> Option<TypeId> {
        let (id, new) = self.names.tensor_type(ty);
        self.write_new(new);
        id
    }

    /// The id of a source line.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        let (id, new) = self.names.frame(frame);
        self.write_new(new);
        id
    }

    /// The id of a stack.
    pub fn stack(&mut self, frame: FrameId, caller: Option<StackId>) -> StackId {
        let (id, new) = self.names.stack(frame, caller);
        self.write_new(new);
        id
    }

    /// The id of an operation called from a stack; `loc` is the line to show.
    pub fn op(&mut self, name: StrId, stack: Option<StackId>, loc: Option<StrId>) -> OpId {
        let (id, new) = self.names.op(name, stack, loc);
        new.into_iter().flatten().for_each(|event| self.write(event));
        id
    }

    /// The id of an operation with the types of its arguments.
    pub fn op_of_types(&mut self, name: StrId, types: &[TypeId]) -> OpId {
        let (id, new) = self.names.op_of_types(name, types);
        self.write_new(new);
        id
    }

    /// The id of a thread or stream. Above a limit, one id is shared by all.
    pub fn lane(&mut self, name: &str) -> LaneId {
        let name = self.text(self.names.lane_name(name));
        let (id, is_new) = self.names.lane();
        if is_new {
            self.write_of_rank(RankEvent::Lane { name });
        }
        id
    }

    /// The id of a scope. Number and depth are limited: above the limits, one scope is shared by all, and deeper ones
    /// become siblings.
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
            self.write_of_rank(RankEvent::Scope(Scope { name, parent, kind }));
        }
        id
    }

    // Events of the program.

    /// Begins a call of a scope. The caller must [`exit`](Self::exit) and then [`release`](Self::release) it.
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
            // The slot belonged to an earlier call.
            self.within = None;
            self.recording.put(Record::Within(None));
        }
        self.recording.put(Record::Entered { call, scope, lane, parent: outer, op, began });
        Some(call)
    }

    /// Ends a call. Does nothing the second time.
    pub fn exit(&mut self, call: CallRef) {
        if let Some(outcome) = self.calls.exit(call, self.now()) {
            self.recording.put(Record::returned(call, &outcome));
        }
    }

    /// Reports that a running call returns several tensors, or an object that may contain several.
    pub fn several_outputs(&mut self, call: CallRef) {
        if let Some(scope) = self.scope_of(Some(call))
            && self.several_outputs.insert(scope)
        {
            self.write_of_rank(RankEvent::SeveralOutputs(scope));
        }
    }

    /// Reports a call that has already ended. Returns its number.
    pub fn late_call(&mut self, call: LateCall) -> u64 {
        self.recording.send(Message::LateCall(call));
        self.calls.take_number()
    }

    /// Whether a call is still running.
    pub fn runs(&self, call: CallRef) -> bool {
        self.calls.runs(Some(call))
    }

    /// Releases a call: the caller no longer refers to it.
    pub fn release(&mut self, call: CallRef) {
        self.calls.release(call);
    }

    /// The scope of a call, or of the innermost enclosing call that is still running.
    pub fn scope_of(&self, call: Option<CallRef>) -> Option<ScopeId> {
        self.calls.running(call).and_then(|call| self.calls.scope(call))
    }

    /// The number of a call, counted from 0.
    pub fn call_number(&self, call: CallRef) -> Option<u64> {
        self.calls.number(call)
    }

    /// The kind of a call's scope.
    pub fn kind_of(&self, call: Option<CallRef>) -> Option<ScopeKind> {
        self.scope_of(call).and_then(|scope| self.names.scope_row(scope)).map(|scope| scope.kind)
    }

    /// Reports an allocation.
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
        self.write_position(owner);
        self.recording.put(Record::Allocated { place, pool, bytes, op, ty, class });
        self.held.insert(Held { pool, bytes, op, ty, class, is_named: false, scope, owner });
        Some(place)
    }

    /// Reports that an allocation was freed, and the call that freed it.
    pub fn freed(&mut self, place: Place, within: Option<CallRef>) {
        let Some(held) = self.held.try_remove(place.0 as usize) else { return };
        let Held { pool, bytes, owner, class, .. } = held;
        let within = self.calls.running(within);
        if matches!(class, Class::Unknown | Class::Activation) && self.calls.runs(owner) {
            // Freed before the call that allocated it returned.
            self.recording.put(Record::Classified { place, class: Class::Temporary, name: None });
        }
        self.calls.freed(owner, within, bytes);
        if let Some(figures) = self.pools.get_mut(pool.index()) {
            figures.now = figures.now.saturating_sub(bytes);
            figures.count = figures.count.saturating_sub(1);
        }
        self.write_position(within);
        self.recording.put(Record::Freed(place));
    }

    /// Sets the class of an allocation, and its name.
    pub fn classify(&mut self, place: Place, class: Class, name: Option<StrId>) {
        let Some(held) = self.held.get_mut(place.0 as usize) else { return };
        if held.class == class && name.is_none() {
            return;
        }
        held.class = class;
        held.is_named |= name.is_some();
        self.recording.put(Record::Classified { place, class, name });
    }

    /// Sets whether gradients are computed for an allocation.
    pub fn requires_grad(&mut self, place: Place, does: bool) {
        if self.held.contains(place.0 as usize) {
            self.recording.put(Record::RequiresGrad(place, does));
        }
    }

    /// Sets what keeps an allocation alive.
    pub fn held_by(&mut self, place: Place, holder: Holder) {
        if self.held.contains(place.0 as usize) {
            self.recording.put(Record::HeldBy(place, holder));
        }
    }

    /// Sets what keeps the allocation at an address of an allocator's memory alive.
    pub fn address_held_by(&mut self, pool: PoolId, address: u64, holder: Holder) {
        self.write_of_rank(RankEvent::AddressHeldBy(pool, address, holder));
    }

    /// Takes a snapshot.
    pub fn snapshot(&mut self, name: Option<&str>) {
        let name = name.map(|name| self.text(name));
        let time = self.now();
        self.recording.put(Record::Snapshot { name, time });
    }

    /// From now on, each reading of counters is a step, for programs with few other steps.
    pub fn readings_are_steps(&mut self) {
        self.readings_are_steps = true;
    }

    /// Reports counters of a pool, for example those of a driver.
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
        self.write_position(None);
        self.recording.send(Message::Reading(pool, reading, op));
    }

    /// Reports a row of an allocator's history, and the number of its call if known. `during` applies if the call is no
    /// longer in the file.
    pub fn history(&mut self, row: HistoryRow, call: Option<u64>) {
        self.history_rows(vec![(row, call)]);
    }

    /// Reports several rows, like [`history`](Self::history).
    pub fn history_rows(&mut self, rows: Vec<(HistoryRow, Option<u64>)>) {
        self.recording.send(Message::History(rows));
    }

    /// Reports the peak of a pool since its counter was last read.
    pub fn highest(&mut self, pool: PoolId, bytes: u64) {
        let name = self.text(READING);
        let (op, time) = (self.op(name, None, None), self.now());
        let (action, during, block) = (HistoryAction::Highest, During::NoCall, Bytes::UNKNOWN);
        self.history(HistoryRow { pool, action, address: 0, bytes, block, op, during, time }, None);
    }

    /// Reports how the program was launched. The first argument is its name.
    pub fn launch(&mut self, launch: Launch, arguments: &[StrId]) {
        self.write_of_rank(RankEvent::Launch(launch));
        for &argument in arguments {
            self.write_of_rank(RankEvent::LaunchArgument(argument));
        }
    }

    /// Reports the settings of a pool's allocator.
    pub fn allocator_rules(&mut self, pool: PoolId, rules: AllocatorRules) {
        self.write_of_rank(RankEvent::AllocatorRules(pool, rules));
    }

    /// Reports what is at an address of an allocator's memory.
    pub fn label(&mut self, label: Label) {
        self.write_of_rank(RankEvent::Label(label));
    }

    /// Reports a profiler's totals of an operation.
    pub fn op_totals(&mut self, totals: OpTotals) {
        self.write_of_rank(RankEvent::OpTotals(totals));
    }

    /// Reports memory that the figures of a pool do not include.
    pub fn not_watched(&mut self, pool: PoolId, what: &str) {
        let what = self.text(what);
        self.write_of_rank(RankEvent::NotWatched(pool, what));
    }

    /// Reports the expected size of a class.
    pub fn expected(&mut self, expected: Expected) {
        self.write_of_rank(RankEvent::Expected(expected));
    }

    /// Adds a warning.
    pub fn warn(&mut self, message: String) {
        self.write(Event::Warning(Warning { line: None, message }));
    }

    // Figures.

    /// The pools, with their names.
    pub fn pools(&self) -> impl Iterator<Item = (&str, PoolFigures)> + '_ {
        self.pools.iter().enumerate().map(|(index, figures)| (self.names.pool_name(index), *figures))
    }

    /// The allocations that have not been freed.
    pub fn held(&self) -> impl Iterator<Item = (Place, &Held)> + '_ {
        self.held.iter().filter_map(|(index, held)| Some((Place(u32::try_from(index).ok()?), held)))
    }

    /// The allocation at a place.
    pub fn held_at(&self, place: Place) -> Option<&Held> {
        self.held.get(place.0 as usize)
    }

    /// The scopes, with the totals of their calls that have ended.
    pub fn scopes(&self) -> impl Iterator<Item = (ScopeId, Scope, CallTotals)> + '_ {
        self.names.scopes().map(|(id, scope)| (id, scope, self.calls.totals(id)))
    }

    /// The totals of a scope's calls that have ended.
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

    /// The number of calls that have not been released.
    pub fn held_calls(&self) -> usize {
        self.calls.held()
    }

    // The file.

    /// Waits until everything so far is in the file.
    pub fn flush(&mut self) {
        if let Some(flushing) = self.begin_flush() {
            flushing.wait();
        }
    }

    /// The same, but lets the caller wait without holding a lock.
    pub fn begin_flush(&mut self) -> Option<Flushing> {
        self.recording.begin_flush()
    }

    /// Writes the remaining records and the end of the file. Returns the error that ended the recording early. The
    /// figures stay.
    pub fn finish(&mut self) -> Result<()> {
        self.recording.finish()
    }

    /// The same, but lets the caller wait without holding a lock.
    pub fn begin_finish(&mut self) -> Option<Finishing> {
        self.recording.begin_finish()
    }

    /// Returns a backlog to wait for if the disk does not keep up with the program. A program that checks often, and
    /// waits without holding a lock, never has to wait elsewhere.
    #[inline]
    pub fn backlog(&mut self) -> Option<Backlog> {
        self.recording.backlog()
    }

    /// Why the recording ended early, for example because the disk is full. The figures stay exact.
    pub fn failure(&self) -> Option<&str> {
        self.recording.failure()
    }

    /// The status of the recording, if there is one.
    pub fn status(&self) -> Option<RecordingStatus> {
        let status = *self.status.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(RecordingStatus { lost: self.recording.lost(), ..status })
    }

    /// Leaves the recording to the process that started it: in a child after `fork`, no thread writes.
    pub fn abandon(&mut self) {
        self.recording.abandon();
    }

    /// Writes the time, and the call that the next record belongs to.
    #[inline]
    pub(super) fn write_position(&mut self, within: Option<CallRef>) {
        if !self.recording.is_open() {
            return;
        }
        self.tick();
        if within != self.within {
            self.within = within;
            self.recording.put(Record::Within(within));
        }
    }

    #[inline]
    fn tick(&mut self) {
        let now = self.now();
        if now >= self.time + TICK {
            self.time = now;
            self.recording.put(Record::Time(now));
        }
    }

    fn write_new(&mut self, new: Option<Event<'static>>) {
        if let Some(event) = new {
            self.write(event);
        }
    }

    fn write_of_rank(&mut self, event: RankEvent) {
        if let Some(rank) = RankId::new(0) {
            self.write(Event::Of(rank, event));
        }
    }

    fn write(&mut self, event: Event<'static>) {
        self.recording.send(Message::Event(event));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Errors are only returned by `finish`.
        let _ = self.finish();
    }
}
