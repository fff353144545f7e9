//! Makes events of what happened: steps, tensors with their lives, the pools' levels, phases.

use std::borrow::Cow;
use std::io::Write;

use rustc_hash::FxHashMap;

use super::Pool;
use super::record::Record;
use crate::level::{EMPTY, Level};
use ttmem_model::frame::Writer;
use ttmem_model::{
    Bytes, Change, Class, Cumulative, Event, Moment, Op, OpId, OpKind, PoolId, RankEvent, RankId, Segment,
    Session, SessionId, Sink, Source, Step, StepMarks, StepNumber, StepRow, StrId, Tensor, TensorId, Warning,
};
use ttmem_model::{Error, Result};

/// The operations that steps are of.
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

/// Says what happened to a file.
pub(super) struct Narrator<W: Write> {
    sink: Writer<W>,
    rank: RankId,
    texts: FxHashMap<Box<str>, StrId>,
    /// Which texts records mean.
    texts_of_records: Vec<StrId>,
    ops: Vec<OpId>,
    steps: Step,
    tensors: usize,
    levels: [Option<Level>; Pool::ALL.len()],
    pools: usize,
    /// The circular buffers that are there.
    circular: Vec<(TensorId, u64)>,
    /// Bytes of programs that are no tensor.
    nameless: u64,
    /// The tensors that are gone when the next step is done.
    replaced: Vec<TensorId>,
    sessions: usize,
    session: Option<SessionId>,
    all: Cumulative,
    phase_begins: Step,
    /// There are more steps than can be told apart: none is said any more.
    is_full: bool,
}

impl<W: Write> Narrator<W> {
    pub fn new(sink: Writer<W>, file: &str) -> Result<Self> {
        let mut narrator = Self {
            sink,
            rank: row(RankId::new(0))?,
            texts: FxHashMap::default(),
            texts_of_records: Vec::new(),
            ops: Vec::new(),
            steps: 0,
            tensors: 0,
            levels: [None; Pool::ALL.len()],
            pools: 0,
            circular: Vec::new(),
            nameless: 0,
            replaced: Vec::new(),
            sessions: 0,
            session: None,
            all: Cumulative::default(),
            phase_begins: 0,
            is_full: false,
        };
        narrator.take(Event::Source(Source { format: "tracker".into(), file: file.to_owned() }))?;
        narrator.take(Event::Rank { label: None })?;
        for (index, (name, kind)) in OPS.into_iter().enumerate() {
            let name = narrator.text(name)?;
            narrator.take(Event::Op(op(name, kind)))?;
            narrator.ops.push(row(OpId::new(index))?);
        }
        narrator.level(Pool::Dram)?;
        Ok(narrator)
    }

    /// Says what happened, in order, and where the pools stand then.
    pub fn tell(&mut self, records: &[Record]) -> Result<()> {
        for record in records {
            self.one(*record)?;
        }
        self.say_levels()
    }

    /// A text that records name by its number: the next.
    pub fn text_of_records(&mut self, text: &str) -> Result<()> {
        let id = self.text(text)?;
        self.texts_of_records.push(id);
        Ok(())
    }

    /// Begins a session, in which nothing is there.
    pub fn begin_session(&mut self, estimated: bool, forgotten: &[u32]) -> Result<()> {
        let now = Moment::late(self.steps);
        self.replaced.clear();
        let circular = std::mem::take(&mut self.circular).into_iter().map(|(tensor, _)| tensor);
        let forgotten = forgotten.iter().filter_map(|tensor| TensorId::new(*tensor as usize));
        for tensor in circular.chain(forgotten) {
            // Later ones were not said, for want of steps.
            if tensor.index() < self.tensors {
                self.of_rank(RankEvent::Dies(tensor, now))?;
            }
        }
        self.nameless = 0;
        for index in 0..self.levels.len() {
            let Some(level) = &mut self.levels[index] else { continue };
            level.empty(now);
            let id = level.id;
            self.of_rank(RankEvent::State(id, now, EMPTY))?;
        }
        self.of_rank(RankEvent::Session(Session { estimated, ..Session::default() }))?;
        self.session = SessionId::new(self.sessions);
        self.sessions += 1;
        self.all = Cumulative::default();
        self.phase_begins = self.steps;
        Ok(())
    }

    /// Ends a phase.
    pub fn end_phase(&mut self, name: &str, segment: &Segment) -> Result<()> {
        // Every pool is looked at where phases meet, whether it has changed or not.
        self.levels.iter_mut().flatten().for_each(Level::look);
        self.say_levels()?;
        let name = self.text(name)?;
        let Some(session) = self.session else { return Ok(()) };
        let steps = (!self.is_full).then_some((self.phase_begins, self.steps));
        self.phase_begins = self.steps;
        let phase = segment.phase(session, name, steps, &mut self.all);
        self.of_rank(RankEvent::Phase(phase))
    }

    /// Says what a session came to.
    pub fn end_session(&mut self) -> Result<()> {
        let Some(session) = self.session else { return Ok(()) };
        self.of_rank(RankEvent::SessionEnded(session, self.all.into()))
    }

    pub fn warn(&mut self, message: String) -> Result<()> {
        self.take(Event::Warning(Warning { line: None, message }))
    }

    fn one(&mut self, record: Record) -> Result<()> {
        match record {
            Record::Allocated { pool, bytes } => {
                let at = self.step(ALLOC)?;
                self.tensor(pool, bytes, None)?;
                self.changes(pool, signed(bytes), at)
            }
            Record::Freed { tensor, pool, bytes } => {
                let at = self.step(FREE)?;
                self.dies(tensor, at)?;
                self.changes(pool, -signed(bytes), at)
            }
            Record::Replaced { tensor, pool, bytes } => {
                self.replaced.extend(TensorId::new(tensor as usize));
                // The step that follows takes its place, and only then is there a level to be said.
                self.level(pool)?.change_unseen(-signed(bytes));
                Ok(())
            }
            Record::UnknownFreed => self.step(FREE).map(|_| ()),
            Record::CircularBuffer { bytes, cores } => {
                let at = self.step(CIRCULAR_BUFFER)?;
                let cores = cores.and_then(|cores| self.texts_of_records.get(cores as usize).copied());
                let tensor = self.tensor(Pool::L1, bytes, cores)?;
                self.circular.extend(tensor.map(|tensor| (tensor, bytes)));
                self.changes(Pool::L1, signed(bytes), at)
            }
            Record::ProgramBuffersGone => self.program_buffers_gone(),
            Record::Nameless(change) => self.nameless(change),
        }
    }

    fn program_buffers_gone(&mut self) -> Result<()> {
        let at = self.step(CIRCULAR_BUFFERS_GONE)?;
        let mut gone = std::mem::take(&mut self.nameless);
        for (tensor, bytes) in std::mem::take(&mut self.circular) {
            self.of_rank(RankEvent::Dies(tensor, at))?;
            gone = gone.saturating_add(bytes);
        }
        self.changes(Pool::L1, -signed(gone), at)
    }

    fn nameless(&mut self, change: Change) -> Result<()> {
        let (op, pool, bytes) = match change {
            Change::DramAllocated(bytes) => (ALLOC, Pool::Dram, signed(bytes)),
            Change::DramFreed(bytes) => (FREE, Pool::Dram, -signed(bytes)),
            Change::L1Allocated(bytes) => (ALLOC, Pool::L1, signed(bytes)),
            Change::L1Freed(bytes) => (FREE, Pool::L1, -signed(bytes)),
            Change::CircularBuffer(bytes) => (CIRCULAR_BUFFER, Pool::L1, signed(bytes)),
            Change::ProgramBuffer(bytes) => (PROGRAM_BUFFER, Pool::L1, signed(bytes)),
            Change::ProgramBuffersGone => return self.program_buffers_gone(),
        };
        if let CIRCULAR_BUFFER | PROGRAM_BUFFER = op {
            self.nameless = self.nameless.saturating_add(bytes.unsigned_abs());
        }
        let at = self.step(op)?;
        self.changes(pool, bytes, at)
    }

    /// Says a step; what follows from it is there at the moment that is returned.
    fn step(&mut self, op: usize) -> Result<Moment> {
        if self.steps >= Moment::MAX_STEPS - 1 {
            return self.too_many();
        }
        let step = StepRow { op: self.ops[op], run: None, offset: 0, marks: StepMarks::default() };
        self.of_rank(RankEvent::Step(step))?;
        self.steps += 1;
        let at = Moment::early(self.steps);
        if !self.replaced.is_empty() {
            for tensor in std::mem::take(&mut self.replaced) {
                if tensor.index() < self.tensors {
                    self.of_rank(RankEvent::Dies(tensor, at))?;
                }
            }
        }
        Ok(at)
    }

    #[cold]
    fn too_many(&mut self) -> Result<Moment> {
        if !std::mem::replace(&mut self.is_full, true) {
            let most = self.steps;
            self.warn(format!("there are more than {most} steps: those that follow are not told apart"))?;
        }
        Ok(Moment::early(self.steps))
    }

    /// Says the tensor that the last step made.
    fn tensor(&mut self, pool: Pool, bytes: u64, name: Option<StrId>) -> Result<Option<TensorId>> {
        let Some(id) = TensorId::new(self.tensors).filter(|_| !self.is_full) else { return Ok(None) };
        let pool = self.level(pool)?.id;
        let tensor = Tensor {
            ty: None,
            pool,
            per_bank: Bytes::known(bytes),
            born: Moment::early(self.steps),
            dies: Moment::NEVER,
            class: Class::Unknown,
            run: None,
            ssa: None,
            step: self.steps.checked_sub(1).and_then(StepNumber::new),
            name,
        };
        self.of_rank(RankEvent::Tensor(tensor))?;
        self.tensors += 1;
        Ok(Some(id))
    }

    fn dies(&mut self, tensor: u32, at: Moment) -> Result<()> {
        let id = TensorId::new(tensor as usize).filter(|id| id.index() < self.tensors);
        id.map_or(Ok(()), |id| self.of_rank(RankEvent::Dies(id, at)))
    }

    fn changes(&mut self, pool: Pool, by: i64, at: Moment) -> Result<()> {
        self.level(pool)?.change(by, at);
        Ok(())
    }

    /// Where a pool stands. It is defined when it is first used, and was empty from the beginning.
    fn level(&mut self, pool: Pool) -> Result<&mut Level> {
        let index = pool as usize;
        if self.levels[index].is_none() {
            let name = self.text(pool.name())?;
            // Sizes in DRAM are those of the whole device, as if it had one bank; those in L1 are of a core.
            let banks = pool.is_dram().then_some(1);
            let id = row(PoolId::new(self.pools))?;
            self.pools += 1;
            self.of_rank(RankEvent::Pool { name, banks, quantum: 0 })?;
            self.of_rank(RankEvent::State(id, Moment::START, EMPTY))?;
            self.levels[index] = Some(Level::new(id));
        }
        self.levels[index].as_mut().ok_or_else(|| Error::Bug("a pool is not there".into()))
    }

    /// Says where the pools stand that have changed, and how high they were.
    fn say_levels(&mut self) -> Result<()> {
        // What was replaced is gone with the step that follows.
        if !self.replaced.is_empty() {
            return Ok(());
        }
        for index in 0..self.levels.len() {
            let Some(level) = &mut self.levels[index] else { continue };
            let (id, states) = (level.id, level.states(Moment::early(self.steps)));
            for (at, reading) in states {
                self.of_rank(RankEvent::State(id, at, reading))?;
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<StrId> {
        if let Some(id) = self.texts.get(text) {
            return Ok(*id);
        }
        let id = row(StrId::new(self.texts.len()))?;
        self.take(Event::Text(Cow::Borrowed(text)))?;
        self.texts.insert(text.into(), id);
        Ok(id)
    }

    /// Writes what was said.
    pub fn flush(&mut self) -> Result<()> {
        self.sink.flush()
    }

    /// Says the end.
    pub fn finish(&mut self) -> Result<()> {
        self.take(Event::End)?;
        self.flush()
    }

    fn of_rank(&mut self, event: RankEvent) -> Result<()> {
        self.take(Event::Of(self.rank, event))
    }

    fn take(&mut self, event: Event<'_>) -> Result<()> {
        self.sink.take(event)
    }
}

fn op(name: StrId, kind: OpKind) -> Op {
    Op {
        name,
        results: Vec::new(),
        operands: Vec::new(),
        operand_types: Vec::new(),
        result_types: Vec::new(),
        attributes: None,
        callee: None,
        loc: None,
        kind,
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn row<T>(id: Option<T>) -> Result<T> {
    id.ok_or_else(|| Error::NotThere("there are more rows than can be counted".into()))
}
