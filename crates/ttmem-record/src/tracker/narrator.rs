//! Turns the tracker's records into events: steps, tensors with their lifetimes, pool levels, sessions and phases.

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

/// The texts at the beginning of every file: the operations and the pools.
pub(super) fn first_texts() -> impl Iterator<Item = &'static str> {
    OPS.into_iter().map(|(name, _)| name).chain(Pool::ALL.into_iter().map(Pool::name))
}

/// The maximum number of records between two states of a pool: changes without a tensor only show in its states.
const LEVELS_EVERY: usize = 4096;
/// The maximum number of steps in a file.
const MAX_STEPS: Step = Moment::MAX_STEPS - 1;

/// Writes a tracker's file.
pub(super) struct Narrator {
    file: EventFile,
    ops: [OpId; OPS.len()],
    levels: [Option<Level>; Pool::ALL.len()],
    /// The device of the session; `None` for a Tenstorrent device.
    device: Option<StrId>,
    /// The main pools of other sessions' devices.
    other_devices: Vec<(Option<StrId>, Level)>,
    records_since_levels: usize,
    /// The live circular buffers.
    circular: Vec<(TensorId, u64)>,
    /// Program bytes without a tensor.
    nameless: u64,
    /// The tensors that are freed by the next step.
    replaced: Vec<TensorId>,
    sessions: usize,
    session: Option<SessionId>,
    totals: Cumulative,
    phase_begins: Step,
    /// Whether the file has the maximum number of steps.
    is_full: bool,
}

impl Narrator {
    /// Creates the file, replacing an existing recording.
    pub fn create(path: &Path) -> Result<Self> {
        let file = EventFile::begin(replace::create(path)?, path, "tracker")?;
        let mut narrator = Self {
            file,
            ops: [id(OpId::new, 0)?; OPS.len()],
            levels: [None; Pool::ALL.len()],
            device: None,
            other_devices: Vec::new(),
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
        narrator.file.flush()?;
        Ok(narrator)
    }

    /// Begins a session with empty pools.
    fn begin_session(&mut self, estimated: bool, device: Option<StrId>, forgotten: &[u32]) -> Result<()> {
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
        self.use_device(device)?;
        self.file.write_rank(RankEvent::Session(Session {
            name: device,
            estimated,
            ..Session::default()
        }))?;
        self.session = SessionId::new(self.sessions);
        self.sessions += 1;
        self.totals = Cumulative::default();
        self.phase_begins = self.file.steps();
        Ok(())
    }

    fn end_phase(&mut self, name: StrId, segment: &Segment) -> Result<()> {
        // Every pool has a state at a phase boundary, even if it has not changed.
        self.levels.iter_mut().flatten().for_each(Level::touch);
        self.write_levels()?;
        let Some(session) = self.session else { return Ok(()) };
        let steps = (!self.is_full).then_some((self.phase_begins, self.file.steps()));
        self.phase_begins = self.file.steps();
        let mut phase = segment.phase(session, name, steps, &mut self.totals);
        if self.device.is_some() {
            (phase.l1_peak_cb, phase.l1_peak_buffer, phase.l1_peak_total) = (None, None, None);
        }
        self.file.write_rank(RankEvent::Phase(phase))
    }

    /// Switches to the main pool of a device: the one with its name, or DRAM.
    fn use_device(&mut self, device: Option<StrId>) -> Result<()> {
        if device != self.device {
            let before = self.levels[Pool::Dram as usize].take();
            self.other_devices.extend(before.map(|level| (self.device, level)));
            self.device = device;
            let known = self.other_devices.iter().position(|(of, _)| *of == device);
            self.levels[Pool::Dram as usize] = known.map(|at| self.other_devices.swap_remove(at).1);
        }
        self.level(Pool::Dram)?;
        Ok(())
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

    /// Writes a step. Its effects apply from the returned moment on.
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
                "the recording has {MAX_STEPS} steps, the maximum; later allocations appear only in the totals of \
                 their phases"
            ))?;
        }
        Ok(self.file.now())
    }

    /// Writes the tensor allocated by the last step; `None` if the file is full.
    fn tensor(&mut self, pool: Pool, bytes: u64, name: Option<StrId>) -> Result<Option<TensorId>> {
        if self.is_full {
            return Ok(None);
        }
        let pool = self.level(pool)?.id;
        self.file.tensor(NewTensor { pool, bytes, ty: None, class: Class::Unknown, name }).map(Some)
    }

    /// Writes the end of a tensor's lifetime, unless the file was full when it was allocated.
    fn dies(&mut self, tensor: u32, at: Moment) -> Result<()> {
        let id = TensorId::new(tensor as usize).filter(|id| id.index() < self.file.tensors());
        id.map_or(Ok(()), |id| self.file.dies(id, at))
    }

    /// The level of a pool. A pool is defined on first use, and was empty until then.
    #[inline]
    fn level(&mut self, pool: Pool) -> Result<&mut Level> {
        if self.levels[pool as usize].is_none() {
            self.define(pool)?;
        }
        self.levels[pool as usize].as_mut().ok_or_else(|| Error::Bug("a pool is missing".into()))
    }

    #[cold]
    fn define(&mut self, pool: Pool) -> Result<()> {
        let device = self.device.filter(|_| pool == Pool::Dram);
        let name = device.map_or_else(|| id(StrId::new, OPS.len() + pool as usize), Ok)?;
        // Sizes in DRAM are totals for the device, as if it had one bank; sizes in L1 are per core.
        let banks = pool.is_dram().then_some(1);
        let id = self.file.pool(name, banks, true)?;
        self.levels[pool as usize] = Some(Level::new(id));
        Ok(())
    }

    fn write_levels(&mut self) -> Result<()> {
        // A replaced tensor is only freed by the following step.
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

    // A flush ends a compressed frame, so more flushes would make the file larger.
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
            Message::Session { estimated, device, forgotten } => {
                self.begin_session(estimated, device, &forgotten)
            }
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
        // A recording without a session also has a pool.
        if self.session.is_none() {
            self.level(Pool::Dram)?;
        }
        self.write_levels()?;
        self.file.end()
    }
}
