//! Turns the live recorder's records into the events of one file: steps, lifetimes, states and calls.
//!
//! Also updates the state that the next file will need (`kept`).

use ttmem_model::rules::calls::CallRef;
use ttmem_model::{
    Call, CallId, During, Error, Event, Fault, HistoryRow, Moment, Op, OpId, OpKind, Outcome, PoolId,
    RankEvent, Reading, Result, Snapshot, StrId, Warning,
};

use super::LateCall;
use super::record::{Message, Record};
use super::rotation::kept::{Kept, KeptCall, KeptPool};
use crate::event_file::{EventFile, NewTensor, id};
use crate::level::Level;

/// The first texts of every recording. The first is also the name of the first operation.
pub(super) const TEXTS: [&str; 3] = ["free", "(further names)", "(freed earlier)"];
/// The operation of steps that free memory.
pub(super) const FREE: usize = 0;
/// Represents all names above the limit.
pub(super) const FURTHER: usize = 1;
/// The name of rows that represent several freed allocations.
pub(super) const THINNED: usize = 2;

/// Writes records to a file.
pub(super) struct Narrator {
    pub file: EventFile,
    pub kept: Kept,
    free: OpId,
    /// The number of calls that began before this file, and the number of those that are in it.
    calls_before: (u64, usize),
}

impl Narrator {
    /// Begins a recording.
    pub fn new(file: EventFile) -> Result<Self> {
        let free = id(OpId::new, 0)?;
        let mut narrator = Self { file, kept: Kept::new(free), free, calls_before: (0, 0) };
        for text in TEXTS {
            narrator.event(Event::Text(text.into()))?;
        }
        narrator.event(Event::Op(Op::new(id(StrId::new, FREE)?, OpKind::Deallocate)))?;
        Ok(narrator)
    }

    /// Continues in another file, whose opening has been written.
    pub fn go_on_in(&mut self, file: EventFile) {
        self.calls_before = (self.kept.entered, file.calls());
        self.file = file;
    }

    /// Writes an event unchanged.
    pub fn event(&mut self, event: Event<'_>) -> Result<()> {
        self.kept.event(&event)?;
        self.file.write(event)
    }

    pub fn warn(&mut self, message: String) -> Result<()> {
        self.event(Event::Warning(Warning { line: None, message }))
    }

    pub fn record(&mut self, record: Record) -> Result<()> {
        match record {
            Record::Time(time) => {
                self.kept.time = time;
                self.file.write_rank(RankEvent::Time(self.file.steps(), time))
            }
            Record::Within(within) => {
                self.kept.within = within;
                let call = self.kept.call(within);
                self.file.write_rank(RankEvent::Within(self.file.steps(), call))
            }
            Record::Allocated { pool, bytes, op, ty, class, .. } => {
                let at = self.step(op)?;
                let tensor = self.file.tensor(NewTensor { pool, bytes, ty, class, name: None })?;
                self.kept.allocated(&record, tensor, at).ok_or_else(|| missing("pool"))
            }
            Record::Freed(place) => {
                let at = self.step(self.free)?;
                let live = self.kept.freed(place, at).ok_or_else(|| missing("allocation"))?;
                self.file.dies(live.tensor, at)
            }
            Record::Classified { place, class, name } => {
                let live = self.kept.at(place).ok_or_else(|| missing("allocation"))?;
                live.class = class;
                live.name = name.or(live.name);
                self.file.write_rank(RankEvent::Classified(live.tensor, class, name))
            }
            Record::RequiresGrad(place, does) => {
                let live = self.kept.at(place).ok_or_else(|| missing("allocation"))?;
                live.requires_grad = Some(does);
                self.file.write_rank(RankEvent::RequiresGrad(live.tensor, does))
            }
            Record::HeldBy(place, holder) => {
                let live = self.kept.at(place).ok_or_else(|| missing("allocation"))?;
                live.holder = Some(holder);
                self.file.write_rank(RankEvent::HeldBy(live.tensor, holder))
            }
            Record::Entered { call, scope, lane, parent, op, began } => {
                let (outer, first) = (self.kept.call(parent), self.file.steps());
                let row = Call { scope, lane, parent: outer, op, began, first, outcome: None };
                let (id, number) = (self.file.call(row)?, self.kept.entered);
                let first = self.kept.last.position;
                let kept =
                    KeptCall { number, call: id, scope, lane, parent, op, began, first, outcome: None };
                self.kept.entered(call, kept);
                Ok(())
            }
            Record::Returned { call, .. } => self.returned(call, record.outcome()),
            Record::Snapshot { name, time } => {
                self.write_levels()?;
                self.kept.snapshot(name, time);
                let at = self.file.now();
                self.file.write_rank(RankEvent::Snapshot(Snapshot { name, at, time }))
            }
        }
    }

    pub fn message(&mut self, message: Message) -> Result<()> {
        match message {
            Message::Event(event) => self.event(event),
            Message::Pool { name, text, is_empty } => self.pool(name, text, is_empty),
            Message::Reading(pool, reading, op) => self.reading(pool, reading, op),
            Message::LateCall(call) => self.late_call(&call),
            Message::History(rows) => rows.into_iter().try_for_each(|(row, call)| self.history(row, call)),
            Message::Fault(fault, op) => self.fault(fault, op),
            Message::FaultEnded => self.fault_ended(),
        }
    }

    /// Writes a call that has already ended.
    fn late_call(&mut self, late: &LateCall) -> Result<()> {
        let &LateCall { scope, lane, op, began, ended, .. } = late;
        let parent = late.parent.and_then(|number| self.call_numbered(number));
        let position = self.file.steps();
        let call = Call { scope, lane, parent, op, began, first: position, outcome: None };
        let id = self.file.call(call)?;
        let outcome = Outcome { ended, end: position, ..Outcome::default() };
        self.file.write_rank(RankEvent::Returned(id, outcome))?;
        self.kept.late_call(scope, &outcome, ended.saturating_sub(began));
        Ok(())
    }

    /// Writes a row of an allocator's history for the call with a number.
    pub fn history(&mut self, row: HistoryRow, number: Option<u64>) -> Result<()> {
        let call = number.and_then(|number| self.call_numbered(number));
        self.kept.examples.history(row, number);
        let row = HistoryRow { during: call.map_or(row.during, During::Call), ..row };
        self.kept.history(&row);
        self.file.write_rank(RankEvent::History(row))
    }

    /// The row of the call with a number, if it is in this file.
    fn call_numbered(&self, number: u64) -> Option<CallId> {
        let (before, carried) = self.calls_before;
        match number.checked_sub(before) {
            Some(since) => {
                let row = carried.checked_add(usize::try_from(since).ok()?)?;
                CallId::new(row).filter(|_| row < self.file.calls())
            }
            None => {
                let kept = || self.kept.calls.iter().flatten().find(|call| call.number == number);
                self.kept.examples.row_of(number).or_else(|| kept().map(|call| call.call))
            }
        }
    }

    fn returned(&mut self, call: CallRef, outcome: Outcome) -> Result<()> {
        let id = self.kept.returned(call, outcome).ok_or_else(|| missing("call"))?;
        self.file.write_rank(RankEvent::Returned(id, Outcome { end: self.file.steps(), ..outcome }))
    }

    /// Writes the next pool. If it is not empty, its level is known only from readings.
    fn pool(&mut self, name: StrId, text: String, is_empty: bool) -> Result<()> {
        let id = self.file.pool(name, Some(1), is_empty)?;
        self.kept.examples.pool(name);
        self.kept.pools.push(KeptPool::new(name, text, is_empty.then(|| Level::new(id))));
        Ok(())
    }

    /// Writes counters of a pool, at a separate step if there is an operation.
    fn reading(&mut self, pool: PoolId, reading: Reading, op: Option<OpId>) -> Result<()> {
        let at = match op {
            Some(op) => self.step(op)?,
            None => self.file.now(),
        };
        self.kept.reading(pool, &reading);
        self.file.write_rank(RankEvent::State(pool, at, reading))
    }

    /// Writes an error of the program, at a separate step if there is an operation.
    fn fault(&mut self, fault: Fault, op: Option<OpId>) -> Result<()> {
        self.write_levels()?;
        let after = op.map(|op| self.step(op).map(|_| self.kept.last)).transpose()?;
        self.kept.fault(after, fault);
        self.file.fault(fault, after.is_some())
    }

    /// Writes that the last error ended the program.
    fn fault_ended(&mut self) -> Result<()> {
        let Some((_, fault)) = self.kept.faults.back_mut() else { return Ok(()) };
        fault.ended_program = true;
        self.file.fault_ended()
    }

    /// Writes the levels of the pools that have changed, and their highest levels.
    fn write_levels(&mut self) -> Result<()> {
        let mut levels = self.kept.pools.iter_mut().filter_map(|pool| pool.level.as_mut());
        levels.try_for_each(|level| self.file.level(level))
    }

    pub fn flush(&mut self) -> Result<()> {
        self.write_levels()?;
        self.file.flush()
    }

    pub fn finish(&mut self) -> Result<()> {
        self.write_levels()?;
        self.file.end()
    }

    /// Writes a step. Its effects apply from the returned moment on.
    #[inline]
    fn step(&mut self, op: OpId) -> Result<Moment> {
        self.kept.step(op);
        self.file.step(op)
    }
}

/// The queue preserves order, so a record's references must exist.
fn missing(what: &str) -> Error {
    Error::Bug(format!("a recording refers to {what} that is missing"))
}
