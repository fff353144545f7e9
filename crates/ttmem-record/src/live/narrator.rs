//! Makes events of what happened: steps, lives and states out of records, for one file.
//!
//! Every allocation and every free is a step of its own, so a peak has the step that caused it. States are said where
//! they are needed: at snapshots, before every flush, and at the highest point since. What happened is kept beside, as far
//! as the next file needs it (`kept`), and said there again (`retold`).

use std::borrow::Cow;
use std::io::Write;

use super::LateCall;
use super::kept::{Kept, KeptCall, KeptPool};
use super::queue::Record;
use crate::level::{EMPTY, Level};
use ttmem_model::frame::Writer;
use ttmem_model::rules::calls::CallRef;
use ttmem_model::{
    Bytes, Call, CallId, During, Event, Fault, HistoryRow, Moment, Op, OpId, OpKind, Outcome, PoolId,
    RankEvent, RankId, Reading, Sink, Snapshot, Source, Step, StepMarks, StepNumber, StepRow, StrId, Tensor,
    TensorId,
};
use ttmem_model::{Error, Result};

/// The first texts of every recording. The first operation is called by the first of them.
pub(super) const TEXTS: [&str; 3] = ["free", "(further names)", "(no longer told apart)"];
/// What steps are of that give memory back.
pub(super) const FREE: usize = 0;
/// What names stand for that are too many to be told apart.
pub(super) const FURTHER: usize = 1;
/// What those allocations are called that are gone, and no longer told apart.
pub(super) const THINNED: usize = 2;

/// No file has more rows of anything than this: ids and moments reach further.
const MOST_ROWS: usize = 1 << 30;
/// What the end of a file takes, and for each pool: the states that are said last.
const END: u64 = 256;
const END_OF_POOL: u64 = 96;

/// Says what happened to a file.
pub(super) struct Narrator<W: Write> {
    sink: Writer<W>,
    rank: RankId,
    free: OpId,
    /// How many rows the file has.
    pub(super) steps: Step,
    tensors: usize,
    calls: usize,
    faults: u32,
    /// How many calls had begun before this file, and how many of them are said in it.
    calls_before: (u64, usize),
    pub(super) kept: Kept,
}

impl<W: Write> Narrator<W> {
    pub fn new(sink: Writer<W>, file: &str, began: u64) -> Result<Self> {
        let mut narrator = Self::of(sink, Kept::new(row(OpId::new(0))?))?;
        narrator.begin(file, began)?;
        for text in TEXTS {
            narrator.take(Event::Text(Cow::Borrowed(text)))?;
        }
        narrator.take(Event::Op(free_op(row(StrId::new(FREE))?)))?;
        Ok(narrator)
    }

    /// A narrator that goes on in another file; what was kept has to be said there.
    pub fn of(sink: Writer<W>, kept: Kept) -> Result<Self> {
        let (rank, free) = (row(RankId::new(0))?, row(OpId::new(0))?);
        let calls_before = (kept.entered, 0);
        Ok(Self { sink, rank, free, steps: 0, tensors: 0, calls: 0, faults: 0, calls_before, kept })
    }

    /// Says what every file begins with.
    pub fn begin(&mut self, file: &str, began: u64) -> Result<()> {
        self.say(Event::Source(Source { format: "recording".into(), file: file.to_owned() }))?;
        self.say(Event::Rank { label: None })?;
        self.of_rank(RankEvent::Began(began))
    }

    /// The rank that all is said of.
    pub fn of_rank(&mut self, event: RankEvent) -> Result<()> {
        self.say(Event::Of(self.rank, event))
    }

    /// Says an event, which the next file need not have.
    pub fn say(&mut self, event: Event<'_>) -> Result<()> {
        self.sink.take(event)
    }

    /// Says an event as it is.
    pub fn take(&mut self, event: Event<'_>) -> Result<()> {
        self.kept.hear(&event)?;
        self.say(event)
    }

    /// Says a record that is no parcel.
    pub fn tell(&mut self, record: Record) -> Result<()> {
        match record {
            Record::Parcel => Ok(()),
            Record::Time(time) => {
                self.kept.time = time;
                self.of_rank(RankEvent::Time(self.steps, time))
            }
            Record::Within(within) => {
                self.kept.within = within;
                let call = self.kept.call(within);
                self.of_rank(RankEvent::Within(self.steps, call))
            }
            Record::Allocated { pool, bytes, op, ty, class, .. } => {
                let at = self.step(op)?;
                let per_bank = Bytes::known(bytes);
                let step = self.steps.checked_sub(1).and_then(StepNumber::new);
                let (born, dies, run, ssa, name) = (at, Moment::NEVER, None, None, None);
                let row = Tensor { ty, pool, per_bank, born, dies, class, run, ssa, step, name };
                let tensor = self.tensor(row)?;
                self.kept.allocated(&record, tensor, at).ok_or_else(|| missing("pool"))
            }
            Record::Freed(place) => {
                let at = self.step(self.free)?;
                let live = self.kept.freed(place, at).ok_or_else(|| missing("allocation"))?;
                self.of_rank(RankEvent::Dies(live.tensor, at))
            }
            Record::Classified { place, class, name } => {
                let live = self.kept.at(place).ok_or_else(|| missing("allocation"))?;
                live.class = class;
                live.name = name.or(live.name);
                let tensor = live.tensor;
                self.of_rank(RankEvent::Classified(tensor, class, name))
            }
            Record::RequiresGrad(place, does) => {
                let live = self.kept.at(place).ok_or_else(|| missing("allocation"))?;
                live.requires_grad = Some(does);
                let tensor = live.tensor;
                self.of_rank(RankEvent::RequiresGrad(tensor, does))
            }
            Record::Entered { call, scope, lane, parent, op, began } => {
                let id = row(CallId::new(self.calls))?;
                let first = self.kept.last.position;
                let number = self.kept.entered;
                let kept =
                    KeptCall { number, call: id, scope, lane, parent, op, began, first, outcome: None };
                self.kept.entered(call, kept);
                self.call(&kept, self.steps)?;
                Ok(())
            }
            Record::Returned { call, .. } => self.returned(call, record.outcome()),
            Record::Snapshot { name, time } => {
                self.say_levels()?;
                self.kept.look(name, time);
                let at = Moment::early(self.steps);
                self.of_rank(RankEvent::Snapshot(Snapshot { name, at, time }))
            }
        }
    }

    /// A call that is over already.
    pub fn late_call(&mut self, late: &LateCall) -> Result<()> {
        let &LateCall { scope, lane, op, began, ended, .. } = late;
        let (parent, first) = (late.parent.and_then(|number| self.call_numbered(number)), self.steps);
        let id = row(CallId::new(self.calls))?;
        self.of_rank(RankEvent::Call(Call { scope, lane, parent, op, began, first, outcome: None }))?;
        self.calls += 1;
        let outcome = Outcome { ended, end: self.steps, ..Outcome::default() };
        self.of_rank(RankEvent::Returned(id, outcome))?;
        self.kept.late_call(scope, &outcome, ended.saturating_sub(began));
        Ok(())
    }

    /// What an allocator did, in the call of a number.
    pub fn history(&mut self, row: HistoryRow, call: Option<u64>) -> Result<()> {
        let call = call.and_then(|number| self.call_numbered(number));
        let during = call.map_or(row.during, During::Call);
        self.take(Event::Of(self.rank, RankEvent::History(HistoryRow { during, ..row })))
    }

    /// The row of the call of a number, if this file has it.
    fn call_numbered(&self, number: u64) -> Option<CallId> {
        let (before, said) = self.calls_before;
        match number.checked_sub(before) {
            Some(since) => {
                let row = said.checked_add(usize::try_from(since).ok()?)?;
                CallId::new(row).filter(|_| row < self.calls)
            }
            None => self.kept.calls.iter().flatten().find(|call| call.number == number).map(|call| call.call),
        }
    }

    /// The calls from before that are to be said in this file have been.
    pub fn calls_are_said(&mut self) {
        self.calls_before.1 = self.calls;
    }

    fn returned(&mut self, call: CallRef, outcome: Outcome) -> Result<()> {
        let id = self.kept.returned(call, outcome).ok_or_else(|| missing("call"))?;
        self.of_rank(RankEvent::Returned(id, Outcome { end: self.steps, ..outcome }))
    }

    /// Says the next allocation: its row.
    pub fn tensor(&mut self, tensor: Tensor) -> Result<TensorId> {
        let id = row(TensorId::new(self.tensors))?;
        self.of_rank(RankEvent::Tensor(tensor))?;
        self.tensors += 1;
        Ok(id)
    }

    /// Says the next call, which began at a position of this file: its row.
    pub fn call(&mut self, call: &KeptCall, first: Step) -> Result<CallId> {
        let id = row(CallId::new(self.calls))?;
        let &KeptCall { scope, lane, op, began, .. } = call;
        let parent = self.kept.call(call.parent);
        self.of_rank(RankEvent::Call(Call { scope, lane, parent, op, began, first, outcome: None }))?;
        self.calls += 1;
        Ok(id)
    }

    /// The next pool. One that is not empty, or is not added up from tensors, has only readings.
    pub fn pool(&mut self, name: StrId, text: String, is_empty: bool) -> Result<()> {
        let id = row(PoolId::new(self.kept.pools.len()))?;
        self.say_pool(id, name, is_empty)?;
        self.kept.pools.push(KeptPool::new(name, text, is_empty.then(|| Level::new(id))));
        Ok(())
    }

    pub fn say_pool(&mut self, id: PoolId, name: StrId, is_empty: bool) -> Result<()> {
        self.of_rank(RankEvent::Pool { name, banks: Some(1), quantum: 0 })?;
        if is_empty {
            self.of_rank(RankEvent::State(id, Moment::START, EMPTY))?;
        }
        Ok(())
    }

    /// What a pool was seen to have; that somebody looked is a step of that operation, if there is one.
    pub fn reading(&mut self, pool: PoolId, reading: Reading, op: Option<OpId>) -> Result<()> {
        let at = match op {
            Some(op) => self.step(op)?,
            None => Moment::early(self.steps),
        };
        self.kept.reading(pool, &reading);
        self.of_rank(RankEvent::State(pool, at, reading))
    }

    /// Something went wrong in the program, at a step of its own if it was an operation.
    pub fn fault(&mut self, fault: Fault, op: Option<OpId>) -> Result<()> {
        self.say_levels()?;
        let after = op.map(|op| self.step(op).map(|_| self.kept.last)).transpose()?;
        self.kept.fault(after, fault);
        self.say_fault(fault, after.is_some())
    }

    /// Says what went wrong, at the last step or at none.
    pub fn say_fault(&mut self, fault: Fault, has_step: bool) -> Result<()> {
        let step = self.steps.checked_sub(1).filter(|_| has_step);
        self.faults += 1;
        self.of_rank(RankEvent::Fault(Fault { step, ..fault }))
    }

    /// What went wrong last has ended the program.
    pub fn fault_ended(&mut self) -> Result<()> {
        let (Some(last), Some((_, fault))) = (self.faults.checked_sub(1), self.kept.faults.back_mut()) else {
            return Ok(());
        };
        fault.ended_program = true;
        self.of_rank(RankEvent::FaultEnded(last))
    }

    /// Says where the pools stand that have changed, and how high they were.
    pub fn say_levels(&mut self) -> Result<()> {
        for index in 0..self.kept.pools.len() {
            let Some(level) = &mut self.kept.pools[index].level else { continue };
            let (id, states) = (level.id, level.states(Moment::early(self.steps)));
            for (at, reading) in states {
                self.of_rank(RankEvent::State(id, at, reading))?;
            }
        }
        Ok(())
    }

    /// Writes what was said.
    pub fn flush(&mut self) -> Result<()> {
        self.say_levels()?;
        self.sink.flush()
    }

    /// Says the end.
    pub fn finish(&mut self) -> Result<()> {
        self.say_levels()?;
        self.say(Event::End)?;
        self.sink.flush()
    }

    /// What was kept, for another file, and this one, which has no end yet.
    pub fn into_parts(self) -> (Kept, Writer<W>) {
        (self.kept, self.sink)
    }

    /// How large the file is at most, when it ends now.
    pub fn size_at_most(&self) -> u64 {
        self.sink.size_at_most() + END + END_OF_POOL * self.kept.pools.len() as u64
    }

    /// There is no room for further rows in this file.
    pub fn is_full(&self) -> bool {
        self.steps as usize >= MOST_ROWS || self.tensors >= MOST_ROWS || self.calls >= MOST_ROWS
    }

    /// Says a step; what follows from it is there at the moment that is returned.
    fn step(&mut self, op: OpId) -> Result<Moment> {
        self.kept.step(op);
        self.say_step(op)
    }

    pub fn say_step(&mut self, op: OpId) -> Result<Moment> {
        self.of_rank(RankEvent::Step(StepRow { op, run: None, offset: 0, marks: StepMarks::default() }))?;
        self.steps += 1;
        Ok(Moment::early(self.steps))
    }
}

fn free_op(name: StrId) -> Op {
    Op {
        name,
        results: Vec::new(),
        operands: Vec::new(),
        operand_types: Vec::new(),
        result_types: Vec::new(),
        attributes: None,
        callee: None,
        loc: None,
        kind: OpKind::Deallocate,
    }
}

/// The queue has everything in order, so what it names is there.
fn missing(what: &str) -> Error {
    Error::Bug(format!("a recording was told of {what} that is not there"))
}

fn row<T>(id: Option<T>) -> Result<T> {
    id.ok_or_else(|| Error::NotThere("there are more rows than can be counted".into()))
}
