//! Makes events of what happened: steps, tensors with their lives, calls, the pools' levels.
//!
//! Ids are those that the recorder gave out: here they are only counted along.

use std::borrow::Cow;
use std::io::Write;

use super::queue::Record;
use crate::error::{Error, Result};
use crate::model::{
    Bytes, Call, CallId, Event, Moment, Op, OpId, OpKind, Outcome, PoolId, RankEvent, RankId, Reading, Sink,
    Snapshot, Source, Step, StepMarks, StepNumber, StepRow, StrId, Tensor,
};
use crate::record::frame::Writer;
use crate::record::level::{EMPTY, Level};

/// What the first text and the first operation are: what steps are of that give memory back.
pub(super) const FREE: &str = "free";

/// Says what happened to a file.
pub(super) struct Narrator<W: Write> {
    sink: Writer<W>,
    rank: RankId,
    free: OpId,
    steps: Step,
    /// Those whose level is what the tensors in them add up to.
    levels: Vec<Option<Level>>,
    /// There are more steps than can be told apart: none is said any more.
    is_full: bool,
}

impl<W: Write> Narrator<W> {
    pub fn new(sink: Writer<W>, file: &str, began: u64) -> Result<Self> {
        let (rank, free) = (row(RankId::new(0))?, row(OpId::new(0))?);
        let mut narrator = Self { sink, rank, free, steps: 0, levels: Vec::new(), is_full: false };
        narrator.take(Event::Source(Source { format: "recording".into(), file: file.to_owned() }))?;
        narrator.take(Event::Rank { label: None })?;
        narrator.take(Event::Text(Cow::Borrowed(FREE)))?;
        narrator.take(Event::Op(free_op(row(StrId::new(0))?)))?;
        narrator.of_rank(RankEvent::Began(began))?;
        Ok(narrator)
    }

    /// The rank that all is said of.
    pub fn of_rank(&mut self, event: RankEvent) -> Result<()> {
        self.take(Event::Of(self.rank, event))
    }

    pub fn take(&mut self, event: Event<'_>) -> Result<()> {
        self.sink.take(event)
    }

    /// Says a record that is no parcel.
    pub fn tell(&mut self, record: Record) -> Result<()> {
        match record {
            Record::Parcel => Ok(()),
            Record::Time(time) => self.of_rank(RankEvent::Time(self.steps, time)),
            Record::Within(call) => self.of_rank(RankEvent::Within(self.steps, call)),
            Record::Allocated { pool, bytes, op, ty, class } => {
                let at = self.step(op)?;
                self.of_rank(RankEvent::Tensor(Tensor {
                    ty,
                    pool,
                    per_bank: Bytes::known(bytes),
                    born: at,
                    dies: Moment::NEVER,
                    class,
                    run: None,
                    ssa: None,
                    step: self.steps.checked_sub(1).and_then(StepNumber::new),
                    name: None,
                }))?;
                self.change(pool, signed(bytes), at);
                Ok(())
            }
            Record::Freed { tensor, pool, bytes } => {
                let at = self.step(self.free)?;
                self.of_rank(RankEvent::Dies(tensor, at))?;
                self.change(pool, -signed(bytes), at);
                Ok(())
            }
            Record::Classified { tensor, class, name } => {
                self.of_rank(RankEvent::Classified(tensor, class, name))
            }
            Record::Entered { scope, lane, parent, op, began } => {
                let first = self.steps;
                self.of_rank(RankEvent::Call(Call { scope, lane, parent, op, began, first, outcome: None }))
            }
            Record::Returned(call, outcome) => self.returned(call, outcome),
            Record::Snapshot { name, time } => {
                self.say_levels()?;
                let at = Moment::early(self.steps);
                self.of_rank(RankEvent::Snapshot(Snapshot { name, at, time }))
            }
        }
    }

    fn returned(&mut self, call: CallId, outcome: Outcome) -> Result<()> {
        self.of_rank(RankEvent::Returned(call, Outcome { end: self.steps, ..outcome }))
    }

    /// The next pool. One that is not empty, or is not added up from tensors, has only readings.
    pub fn pool(&mut self, name: StrId, is_empty: bool) -> Result<()> {
        let id = row(PoolId::new(self.levels.len()))?;
        self.of_rank(RankEvent::Pool { name, banks: Some(1), quantum: 0 })?;
        if is_empty {
            self.of_rank(RankEvent::State(id, Moment::START, EMPTY))?;
        }
        self.levels.push(is_empty.then(|| Level::new(id)));
        Ok(())
    }

    /// What a pool was seen to have; that somebody looked is a step of that operation, if there is one.
    pub fn reading(&mut self, pool: PoolId, reading: Reading, op: Option<OpId>) -> Result<()> {
        let at = match op {
            Some(op) => self.step(op)?,
            None => Moment::early(self.steps),
        };
        self.of_rank(RankEvent::State(pool, at, reading))
    }

    /// Says where the pools stand that have changed, and how high they were.
    pub fn say_levels(&mut self) -> Result<()> {
        for index in 0..self.levels.len() {
            let Some(level) = &mut self.levels[index] else { continue };
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
        self.take(Event::End)?;
        self.sink.flush()
    }

    /// Says a step; what follows from it is there at the moment that is returned.
    fn step(&mut self, op: OpId) -> Result<Moment> {
        if self.steps >= Moment::MAX_STEPS - 1 {
            return self.too_many();
        }
        self.of_rank(RankEvent::Step(StepRow { op, run: None, offset: 0, marks: StepMarks::default() }))?;
        self.steps += 1;
        Ok(Moment::early(self.steps))
    }

    #[cold]
    fn too_many(&mut self) -> Result<Moment> {
        if !std::mem::replace(&mut self.is_full, true) {
            let message =
                format!("there are more than {} steps: those that follow are not told apart", self.steps);
            self.take(Event::Warning(crate::model::Warning { line: None, message }))?;
        }
        Ok(Moment::early(self.steps))
    }

    fn change(&mut self, pool: PoolId, by: i64, at: Moment) {
        if let Some(Some(level)) = self.levels.get_mut(pool.index()) {
            level.change(by, at);
        }
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

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn row<T>(id: Option<T>) -> Result<T> {
    id.ok_or_else(|| Error::NotThere("there are more rows than can be counted".into()))
}
