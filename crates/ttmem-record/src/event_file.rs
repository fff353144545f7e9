//! The events of one file, with numbers assigned to the rows they define. Shared by all recordings.
//!
//! Every allocation and every free is a step, so a peak has the step that caused it.

use std::fs::File;
use std::path::Path;

use ttmem_model::frame::Writer;
use ttmem_model::{
    Bytes, Call, CallId, Class, Error, Event, Fault, Moment, OpId, PoolId, RankEvent, RankId, Result, Sink,
    Source, Step, StepMarks, StepNumber, StepRow, StrId, Tensor, TensorId, TypeId, Warning,
};

use super::level::{EMPTY, Level};

/// The maximum number of rows of each kind in a file. Ids and moments can represent more.
const MAX_ROWS: usize = 1 << 30;
/// The size of the end of a file, and the size of a pool's last states in it.
const END_SIZE: u64 = 256;
const END_SIZE_PER_POOL: u64 = 96;

/// An allocation made by the last step.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewTensor {
    pub pool: PoolId,
    pub bytes: u64,
    pub ty: Option<TypeId>,
    pub class: Class,
    pub name: Option<StrId>,
}

/// A file that events are written to, all for one rank.
pub(super) struct EventFile {
    out: Writer<File>,
    rank: RankId,
    steps: Step,
    tensors: usize,
    calls: usize,
    pools: usize,
    faults: u32,
}

impl EventFile {
    /// Begins a file. `path` is the name used in messages.
    pub fn begin(file: File, path: &Path, format: &str) -> Result<Self> {
        let (out, rank) = (Writer::create(file, path)?.quick()?, id(RankId::new, 0)?);
        let mut file = Self { out, rank, steps: 0, tensors: 0, calls: 0, pools: 0, faults: 0 };
        let source = Source { format: format.into(), file: path.display().to_string() };
        file.write(Event::Source(source))?;
        file.write(Event::Rank { label: None })?;
        Ok(file)
    }

    pub fn write(&mut self, event: Event<'_>) -> Result<()> {
        self.out.take(event)
    }

    /// Writes an event of the rank.
    #[inline]
    pub fn write_rank(&mut self, event: RankEvent) -> Result<()> {
        self.out.take(Event::Of(self.rank, event))
    }

    pub fn warn(&mut self, message: String) -> Result<()> {
        self.write(Event::Warning(Warning { line: None, message }))
    }

    /// The number of steps so far, which is the position of the next.
    #[inline]
    pub fn steps(&self) -> Step {
        self.steps
    }

    /// The moment after the last step.
    #[inline]
    pub fn now(&self) -> Moment {
        Moment::early(self.steps)
    }

    /// The number of tensors so far.
    pub fn tensors(&self) -> usize {
        self.tensors
    }

    /// The number of calls so far.
    pub fn calls(&self) -> usize {
        self.calls
    }

    /// Writes a step. Its effects apply from the returned moment on.
    #[inline]
    pub fn step(&mut self, op: OpId) -> Result<Moment> {
        self.write_rank(RankEvent::Step(StepRow { op, run: None, offset: 0, marks: StepMarks::default() }))?;
        self.steps += 1;
        Ok(self.now())
    }

    /// Writes an allocation of the last step.
    #[inline]
    pub fn tensor(&mut self, new: NewTensor) -> Result<TensorId> {
        self.write_tensor(new, self.now(), self.steps.checked_sub(1).and_then(StepNumber::new))
    }

    /// Writes an allocation that was not made by a step in this file.
    pub fn tensor_without_step(&mut self, new: NewTensor, born: Moment) -> Result<TensorId> {
        self.write_tensor(new, born, None)
    }

    #[inline]
    fn write_tensor(&mut self, new: NewTensor, born: Moment, step: Option<StepNumber>) -> Result<TensorId> {
        let NewTensor { pool, bytes, ty, class, name } = new;
        let (per_bank, dies, run, ssa) = (Bytes::known(bytes), Moment::NEVER, None, None);
        let id = id(TensorId::new, self.tensors)?;
        let row = Tensor { ty, pool, per_bank, born, dies, class, run, ssa, step, name };
        self.write_rank(RankEvent::Tensor(row))?;
        self.tensors += 1;
        Ok(id)
    }

    #[inline]
    pub fn dies(&mut self, tensor: TensorId, at: Moment) -> Result<()> {
        self.write_rank(RankEvent::Dies(tensor, at))
    }

    /// Writes the start of a call.
    pub fn call(&mut self, call: Call) -> Result<CallId> {
        let id = id(CallId::new, self.calls)?;
        self.write_rank(RankEvent::Call(call))?;
        self.calls += 1;
        Ok(id)
    }

    /// Writes a pool. If it `is_empty` at the start, its level is the sum of its allocations.
    pub fn pool(&mut self, name: StrId, banks: Option<u32>, is_empty: bool) -> Result<PoolId> {
        let id = id(PoolId::new, self.pools)?;
        self.write_rank(RankEvent::Pool { name, banks, quantum: 0 })?;
        if is_empty {
            self.write_rank(RankEvent::State(id, Moment::START, EMPTY))?;
        }
        self.pools += 1;
        Ok(id)
    }

    /// Writes the level of a pool if it has changed, and the highest level since the last write.
    pub fn level(&mut self, level: &mut Level) -> Result<()> {
        let (id, now) = (level.id, self.now());
        level.states(now).try_for_each(|(at, reading)| self.write_rank(RankEvent::State(id, at, reading)))
    }

    /// Writes an error of the program, at the last step or without a step.
    pub fn fault(&mut self, fault: Fault, has_step: bool) -> Result<()> {
        let step = self.steps.checked_sub(1).filter(|_| has_step);
        self.faults += 1;
        self.write_rank(RankEvent::Fault(Fault { step, ..fault }))
    }

    /// Writes that the last error ended the program.
    pub fn fault_ended(&mut self) -> Result<()> {
        self.faults.checked_sub(1).map_or(Ok(()), |last| self.write_rank(RankEvent::FaultEnded(last)))
    }

    /// Writes all events to the disk.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }

    /// Marks the file as complete, and writes all events to the disk.
    pub fn end(&mut self) -> Result<()> {
        self.write(Event::End)?;
        self.flush()
    }

    /// The maximum size of the file if it ended now.
    #[inline]
    pub fn max_size(&self) -> u64 {
        self.out.size_at_most() + END_SIZE + END_SIZE_PER_POOL * self.pools as u64
    }

    /// Whether there is no room for further rows.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.steps as usize >= MAX_ROWS || self.tensors >= MAX_ROWS || self.calls >= MAX_ROWS
    }
}

/// The id of row `index`.
pub(super) fn id<T>(new: impl FnOnce(usize) -> Option<T>, index: usize) -> Result<T> {
    new(index).ok_or_else(|| Error::NotFound("the recording has too many rows".into()))
}
