//! Turns the tracker's records into events: steps, tensors with their lifetimes, the levels of pools, sessions and phases.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use ttmem_model::{
    Change, Class, Cumulative, Error, Event, Moment, Op, OpId, OpKind, RankEvent, Result, Segment, Session,
    SessionId, Step, StrId, TensorId,
};

use super::Pool;
use super::record::{Message, Record};
use crate::event_file::{EventFile, NewTensor, id};
use crate::level::{EMPTY, Level};
use crate::recording::RecordSink;
use crate::replace;

/// The operations of steps.
const OPS: [(&str, OpKind); 5] = [
    ("alloc", OpKind::Compute),
    ("free", OpKind::Deallocate),
    ("circular_buffer", OpKind::Compute),
    ("circular_buffers_gone", OpKind::Deallocate),
    ("program_buffer", OpKind::Compute),
];
const ALLOC: usize = 0;
const FREE: usize = 1;
const CIRCULAR_BUFFER: usize = 2;
const CIRCULAR_BUFFERS_GONE: usize = 3;
const PROGRAM_BUFFER: usize = 4;

/// The texts that every file begins with: the operations, and the pools.
pub(super) fn first_texts() -> impl Iterator<Item = &'static str> {
    OPS.into_iter().map(|(name, _)| name).chain(Pool::ALL.into_iter().map(Pool::name))
}

/// Levels are written after this many records, at the latest: changes without a tensor are seen by them alone.
const LEVELS_EVERY: usize = 4096;
/// A file has no more steps than this.
const MAX_STEPS: Step = Moment::MAX_STEPS - 1;

/// Writes the file of a tracker.
pub(super) struct Narrator {
    file: EventFile,
    ops: [OpId; OPS.len()],
    levels: [Option<Level>; Pool::ALL.len()],
    records_since_levels: usize,
    /// The circular buffers that are there.
    circular: Vec<(TensorId, u64)>,
    /// Bytes of programs without a tensor.
    nameless: u64,
    /// The tensors that are gone when the next step is done.
    replaced: Vec<TensorId>,
    sessions: usize,
    session: Option<SessionId>,
    totals: Cumulative,
    phase_begins: Step,
    /// The file has as many steps as it can have.
    is_full: bool,
}

impl Narrator {
    /// Begins a file; an earlier recording of that name is replaced.
    pub fn create(path: &Path) -> Result<Self> {
        let file = EventFile::begin(replace::create(path)?, path, "tracker")?;
        let mut narrator = Self {
            file,
            ops: [id(OpId::new, 0)?; OPS.len()],
            levels: [None; Pool::ALL.len()],
            records_since_levels: 0,
            circular: Vec::new(),
            nameless: 0,
            replaced: Vec::new(),
            sessions: 0,
            session: None,
            totals: Cumulative::default(),
            phase_begins: 0,
            is_full: false,
        };
        for text in first_texts() {
            narrator.file.write(Event::Text(text.into()))?;
        }
        for (index, (_, kind)) in OPS.into_iter().enumerate() {
            narrator.file.write(Event::Op(Op::new(id(StrId::new, index)?, kind)))?;
            narrator.ops[index] = id(OpId::new, index)?;
        }
        narrator.level(Pool::Dram)?;
        narrator.file.flush()?;
        Ok(narrator)
    }

    /// Begins a session, in which nothing is there.
    fn begin_session(&mut self, estimated: bool, forgotten: &[u32]) -> Result<()> {
        self.write_levels()?;
        let now = Moment::late(self.file.steps());
        self.replaced.clear();
        for (tensor, _) in std::mem::take(&mut self.circular) {
            self.file.dies(tensor, now)?;
        }
        for tensor in forgotten {
            self.dies(*tensor, now)?;
        }
        self.nameless = 0;
        for level in self.levels.iter_mut().flatten() {
            level.empty(now);
            self.file.write_rank(RankEvent::State(level.id, now, EMPTY))?;
        }
        self.file.write_rank(RankEvent::Session(Session { estimated, ..Session::default() }))?;
        self.session = SessionId::new(self.sessions);
        self.sessions += 1;
        self.totals = Cumulative::default();
        self.phase_begins = self.file.steps();
        Ok(())
    }

    fn end_phase(&mut self, name: StrId, segment: &Segment) -> Result<()> {
        // Every pool has a state where phases meet, whether it has changed or not.
        self.levels.iter_mut().flatten().for_each(Level::touch);
        self.write_levels()?;
        let Some(session) = self.session else { return Ok(()) };
        let steps = (!self.is_full).then_some((self.phase_begins, self.file.steps()));
        self.phase_begins = self.file.steps();
        let phase = segment.phase(session, name, steps, &mut self.totals);
        self.file.write_rank(RankEvent::Phase(phase))
    }

    fn end_session(&mut self) -> Result<()> {
        let Some(session) = self.session else { return Ok(()) };
        self.file.write_rank(RankEvent::SessionEnded(session, self.totals.into()))
    }

    fn write_record(&mut self, record: Record) -> Result<()> {
        match record {
            Record::Allocated { pool, bytes } => {
                let at = self.step(ALLOC)?;
                self.tensor(pool, bytes, None)?;
                self.level(pool)?.add(bytes, at);
            }
            Record::Freed { tensor, pool, bytes } => {
                let at = self.step(FREE)?;
                self.dies(tensor, at)?;
                self.level(pool)?.remove(bytes, at);
            }
            Record::Replaced { tensor, pool, bytes } => {
                self.replaced.extend(TensorId::new(tensor as usize));
                self.level(pool)?.remove_with_next_step(bytes);
            }
            Record::UnknownFreed => {
                self.step(FREE)?;
            }
            Record::CircularBuffer { bytes, cores } => {
                let at = self.step(CIRCULAR_BUFFER)?;
                let tensor = self.tensor(Pool::L1, bytes, cores)?;
                self.circular.extend(tensor.map(|tensor| (tensor, bytes)));
                self.level(Pool::L1)?.add(bytes, at);
            }
            Record::ProgramBuffersGone => self.program_buffers_gone()?,
            Record::Nameless(change) => self.nameless(change)?,
        }
        Ok(())
    }

    fn program_buffers_gone(&mut self) -> Result<()> {
        let at = self.step(CIRCULAR_BUFFERS_GONE)?;
        let mut gone = std::mem::take(&mut self.nameless);
        for (tensor, bytes) in std::mem::take(&mut self.circular) {
            self.file.dies(tensor, at)?;
            gone = gone.saturating_add(bytes);
        }
        self.level(Pool::L1)?.remove(gone, at);
        Ok(())
    }

    fn nameless(&mut self, change: Change) -> Result<()> {
        let (op, pool, bytes) = match change {
            Change::DramAllocated(bytes) => (ALLOC, Pool::Dram, bytes),
            Change::DramFreed(bytes) => (FREE, Pool::Dram, bytes),
            Change::L1Allocated(bytes) => (ALLOC, Pool::L1, bytes),
            Change::L1Freed(bytes) => (FREE, Pool::L1, bytes),
            Change::CircularBuffer(bytes) => (CIRCULAR_BUFFER, Pool::L1, bytes),
            Change::ProgramBuffer(bytes) => (PROGRAM_BUFFER, Pool::L1, bytes),
            Change::ProgramBuffersGone => return self.program_buffers_gone(),
        };
        if let CIRCULAR_BUFFER | PROGRAM_BUFFER = op {
            self.nameless = self.nameless.saturating_add(bytes);
        }
        let at = self.step(op)?;
        let level = self.level(pool)?;
        if op == FREE {
            level.remove(bytes, at);
        } else {
            level.add(bytes, at);
        }
        Ok(())
    }

    /// Writes a step. What it causes is there from the returned moment on.
    fn step(&mut self, op: usize) -> Result<Moment> {
        if self.file.steps() >= MAX_STEPS {
            return self.too_many_steps();
        }
        let at = self.file.step(self.ops[op])?;
        for index in 0..self.replaced.len() {
            let tensor = self.replaced[index];
            if tensor.index() < self.file.tensors() {
                self.file.dies(tensor, at)?;
            }
        }
        self.replaced.clear();
        Ok(at)
    }

    #[cold]
    fn too_many_steps(&mut self) -> Result<Moment> {
        if !std::mem::replace(&mut self.is_full, true) {
            self.file.warn(format!(
                "the recording has {MAX_STEPS} steps, the maximum: later allocations appear only in the totals of their phases"
            ))?;
        }
        Ok(self.file.now())
    }

    /// Writes the tensor that the last step has made; `None` if the file is full.
    fn tensor(&mut self, pool: Pool, bytes: u64, name: Option<StrId>) -> Result<Option<TensorId>> {
        if self.is_full {
            return Ok(None);
        }
        let pool = self.level(pool)?.id;
        self.file.tensor(NewTensor { pool, bytes, ty: None, class: Class::Unknown, name }).map(Some)
    }

    /// Writes the end of a tensor, unless the file was full when it was allocated.
    fn dies(&mut self, tensor: u32, at: Moment) -> Result<()> {
        let id = TensorId::new(tensor as usize).filter(|id| id.index() < self.file.tensors());
        id.map_or(Ok(()), |id| self.file.dies(id, at))
    }

    /// The level of a pool. A pool is defined when it is first used, and was empty from the start.
    #[inline]
    fn level(&mut self, pool: Pool) -> Result<&mut Level> {
        if self.levels[pool as usize].is_none() {
            self.define(pool)?;
        }
        self.levels[pool as usize].as_mut().ok_or_else(|| Error::Bug("a pool is missing".into()))
    }

    #[cold]
    fn define(&mut self, pool: Pool) -> Result<()> {
        let name = id(StrId::new, OPS.len() + pool as usize)?;
        // Sizes in DRAM are of the whole device, as if it had one bank; those in L1 are of a core.
        let banks = pool.is_dram().then_some(1);
        let id = self.file.pool(name, banks, true)?;
        self.levels[pool as usize] = Some(Level::new(id));
        Ok(())
    }

    fn write_levels(&mut self) -> Result<()> {
        // A tensor that was replaced is gone only with the step that follows.
        if self.replaced.is_empty() {
            self.records_since_levels = 0;
            self.levels.iter_mut().flatten().try_for_each(|level| self.file.level(level))?;
        }
        Ok(())
    }
}

impl RecordSink for Narrator {
    type Record = Record;
    type Message = Message;

    // A flush ends a compressed frame: more of them would make the file larger.
    const FLUSH_INTERVAL: Duration = Duration::from_millis(800);

    #[inline]
    fn record(&mut self, record: Record) -> Result<()> {
        self.write_record(record)?;
        self.records_since_levels += 1;
        if self.records_since_levels >= LEVELS_EVERY {
            self.write_levels()?;
        }
        Ok(())
    }

    fn message(&mut self, message: Message) -> Result<()> {
        match message {
            Message::Text(text) => self.file.write(Event::Text(Cow::Owned(text.into()))),
            Message::Session { estimated, forgotten } => self.begin_session(estimated, &forgotten),
            Message::Phase { name, segment } => self.end_phase(name, &segment),
            Message::Ended => self.end_session(),
            Message::Warning(message) => self.warn(message),
        }
    }

    fn warn(&mut self, message: String) -> Result<()> {
        self.file.warn(message)
    }

    fn flush(&mut self) -> Result<()> {
        self.write_levels()?;
        self.file.flush()
    }

    fn finish(&mut self) -> Result<()> {
        self.write_levels()?;
        self.file.end()
    }
}
