//! The state of one rank while the log is read: nested programs, their steps, and the effect of each step on memory.
//!
//! A step begins when the runtime logs its execution, but its effect is only known later: a deallocation may turn out
//! to be of a retained tensor, and a cached load may run a whole program. A step is therefore settled when the next one
//! begins, or when its program ends.
//!
//! [`RankState`] interprets lines (here, `states`, `settle`, `ending`) and decides whether the next program can belong
//! to the same process (`continuity`). Its data is kept by types with one concern each:
//!
//! | type | content |
//! |---|---|
//! | `Graphs`, `Lives` | compiled graphs; allocations and the accounts of pools |
//! | `Programs`, `Frame`, `Current` | running programs, their names and arguments, the current step of each |
//! | `Pools` | banks, the last states, the expected usage between programs |
//! | `Detail` | the level of detail of operations in the log |
//! | `Cache`, `Residents` | memory that stays on the device: cached results; arguments and unfreed results |
//! | `Faults`, `Inconsistencies` | errors; inconsistencies |
//! | `Begins` | the lines where programs begin |

mod begins;
mod cache;
mod continuity;
mod detail;
mod ending;
mod faults;
mod frame;
mod inconsistencies;
mod pools;
mod programs;
mod residents;
mod settle;
mod states;

use ttmem_model::{
    ByteRange, Class, Fault, FaultDetail, Moment, OpKind, PoolId, RankEvent, RankId, Reading, Result, Run,
    RunId, Step, StepMarks, StepRow, StrId,
};

use self::begins::Begins;
use self::cache::Cache;
use self::detail::Detail;
use self::faults::{Faults, Printed};
use self::frame::Frame;
use self::inconsistencies::Inconsistencies;
use self::pools::{Pool, Pools};
use self::programs::Programs;
use self::residents::Residents;
use super::graphs::Graphs;
use super::life::{AllocRef, Lives};
use super::processes::EndedDump;
use super::tables::{OpFacts, OpRef, Tables, TypeRef};
use super::view::QUANTUM;
use crate::tt_metal::Failure;

/// The result of an operation line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Began {
    /// A step has begun.
    Yes,
    /// The line repeats the previous one.
    Repeated,
    /// Its text could not be parsed.
    Unreadable,
}

/// The position of a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct At {
    pub line: u64,
    pub offset: u64,
    pub next: u64,
}

/// A rank.
pub(super) struct RankState {
    id: RankId,
    graphs: Graphs,
    lives: Lives,
    programs: Programs,
    pools: Pools,
    detail: Detail,
    cache: Cache,
    residents: Residents,
    faults: Faults,
    inconsistencies: Inconsistencies,
    begins: Begins,
}

impl RankState {
    pub fn new(id: RankId) -> Self {
        Self::rounded_to(QUANTUM, id)
    }

    /// A rank whose states are not rounded.
    pub fn exact(id: RankId) -> Self {
        Self::rounded_to(0, id)
    }

    fn rounded_to(quantum: u64, id: RankId) -> Self {
        Self {
            id,
            graphs: Graphs::default(),
            lives: Lives::default(),
            programs: Programs::default(),
            pools: Pools::new(id, quantum),
            detail: Detail::default(),
            cache: Cache::default(),
            residents: Residents::default(),
            faults: Faults::default(),
            inconsistencies: Inconsistencies::default(),
            begins: Begins::default(),
        }
    }

    pub fn id(&self) -> RankId {
        self.id
    }

    pub fn has_states(&self) -> bool {
        self.pools.iter().any(Pool::has_banks)
    }

    pub fn has_steps(&self) -> bool {
        self.programs.steps() > 0
    }

    /// The number of steps so far.
    pub fn steps(&self) -> Step {
        self.programs.steps()
    }

    /// The first line of each top-level run: its submit or its start.
    pub fn begins(&self) -> &[At] {
        self.begins.runs()
    }

    /// The first activity outside programs since the last call.
    pub fn take_nameless(&mut self) -> Option<At> {
        self.begins.take_nameless()
    }

    /// Adds a module dump.
    pub fn add_dump(&mut self, dump: EndedDump, tables: &mut Tables<'_>) -> Result<()> {
        self.graphs.add(dump, self.id, tables)
    }

    /// `Executing operation: …`
    pub fn executing(&mut self, text: &[u8], at: At, tables: &mut Tables<'_>) -> Result<Began> {
        let Some(op) = tables.operation(text)? else { return Ok(self.skip_operation()) };
        if self.programs.current_mut().is_some_and(|current| current.repeats(op, at.line)) {
            self.detail.repeated_text();
            return Ok(Began::Repeated);
        }
        self.detail.text();
        self.begin_step(op, at, tables)?;
        Ok(Began::Yes)
    }

    /// An operation whose text could not be parsed.
    pub fn skip_operation(&mut self) -> Began {
        self.detail.unreadable_text();
        Began::Unreadable
    }

    /// An operation that is only known by its name.
    pub fn named(&mut self, name: &[u8], at: At, tables: &mut Tables<'_>) -> Result<()> {
        let op = tables.op_type(name)?;
        self.begin_step(op, at, tables)
    }

    fn begin_step(&mut self, op: OpRef, at: At, tables: &mut Tables<'_>) -> Result<()> {
        if self.programs.is_idle() {
            let program = (tables.text(b"")?, String::new());
            self.programs.push(Frame::new(None, program, false, self.programs.steps(), 0));
        }
        if self.programs.innermost().is_some_and(Frame::is_nameless) {
            self.begins.nameless(at);
        }
        self.detail.step(self.awaits_state());
        self.settle_current(tables)?;
        let facts = tables.op_facts(op);
        let step = self.programs.next_step()?;
        let Some(frame) = self.programs.innermost_mut() else { return Ok(()) };
        frame.begin(step, op, facts.fingerprint, at.line);
        let row = StepRow { op: facts.id, run: frame.run(), offset: at.offset, marks: StepMarks::default() };
        tables.say(self.id, RankEvent::Step(row))
    }

    /// `Running LoadCachedOp …`
    pub fn cache_key(&mut self, hash: &[u8], tables: &mut Tables<'_>) -> Result<()> {
        let hash = tables.text(hash)?;
        if let Some(current) = self.programs.current_mut() {
            current.set_key(hash);
        }
        Ok(())
    }

    /// Adds a mark to the current step.
    pub fn mark(&mut self, mark: StepMarks) {
        if let Some(current) = self.programs.current_mut() {
            current.mark(mark);
        }
    }

    /// `Starting execution of program: …`. `false` if the line repeats the previous one.
    pub fn starting(&mut self, name: &[u8], at: At, tables: &mut Tables<'_>) -> Result<bool> {
        let program = tables.text(name)?;
        if self.repeats_start(name, at) {
            self.programs.innermost_mut().into_iter().for_each(|frame| frame.started_again(at.line));
            return Ok(false);
        }
        let caller = self.caller(tables).filter(|(_, facts)| self.calls(facts, program));
        if caller.is_none() {
            // The current step does not start programs, so the running program was abandoned, for example after an
            // exception.
            if let Some(message) = self.end_programs(at, tables)? {
                tables.warn(Some(at.line), message)?;
            }
        }
        let run = self.programs.next_run()?;
        let steps = self.programs.steps();
        let row = Run {
            program,
            parent: self.programs.innermost().and_then(Frame::run),
            module: None,
            const_eval: caller.is_some_and(|(_, facts)| facts.kind == OpKind::LoadCached),
            first: steps,
            end: steps,
            finished: false,
            source: ByteRange { start: at.offset, end: at.offset },
        };
        tables.say(self.id, RankEvent::Run(row))?;
        if row.is_top_level() {
            self.begins.run(at);
        }
        let operands =
            caller.map(|(_, facts)| self.operands(&facts, tables)).transpose()?.unwrap_or_default();
        let numbers = caller.map(|(_, facts)| argument_numbers(&facts, tables)).unwrap_or_default();
        let program = (program, String::from_utf8_lossy(name).into_owned());
        self.programs.push(Frame::new(Some(run), program, row.const_eval, steps, at.line));
        self.bind_arguments(&operands, &numbers, tables)?;
        Ok(true)
    }

    /// Whether a line that starts a program repeats the previous one.
    pub fn repeats_start(&self, name: &[u8], at: At) -> bool {
        self.programs.innermost().is_some_and(|frame| frame.repeats_start(name, at.line))
    }

    /// Whether a step starts a program of this name. A trace runs several programs, which its text names; none of them
    /// is already running.
    fn calls(&self, facts: &OpFacts, program: StrId) -> bool {
        match facts.callee {
            Some(callee) => callee == program,
            None => !self.programs.runs_program(program),
        }
    }

    /// The step that may start a program.
    fn caller(&self, tables: &Tables<'_>) -> Option<(Step, OpFacts)> {
        let current = self.programs.current()?;
        let facts = tables.op_facts(current.op());
        matches!(facts.kind, OpKind::LoadCached | OpKind::Call).then_some((current.step(), facts))
    }

    /// Binds the arguments of a nested program, which are its caller's operands under other names.
    fn bind_arguments(
        &mut self,
        operands: &[Option<AllocRef>],
        numbers: &[Option<u32>],
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        for (index, &operand) in operands.iter().enumerate() {
            let name = tables.text(format!("%arg{index}").as_bytes())?;
            if let Some(frame) = self.programs.innermost_mut() {
                let number = numbers.get(index).copied().flatten();
                frame.pass_argument(name, operand, number, &mut self.lives);
            }
        }
        Ok(())
    }

    /// `Finished execution of program: …`. `false` if no such program is running.
    pub fn finished(&mut self, name: &[u8], at: At, tables: &mut Tables<'_>) -> Result<bool> {
        let repeats = self.programs.repeats_end(name, at.line);
        // The end of a program whose start is missing ends the operations outside programs.
        let Some((depth, is_named)) = self.programs.find(name) else {
            return Ok(repeats);
        };
        self.programs.end_at(name, at.line);
        while self.programs.depth() > depth + 1 {
            let inner = self.programs.innermost().map_or("", Frame::program_text);
            let message =
                format!("the end of program {inner} is missing; it is assumed to end here, with its caller");
            tables.warn(Some(at.line), message)?;
            self.end_innermost(false, at.offset, tables)?;
        }
        self.end_innermost(true, at.next, tables)?;
        Ok(is_named)
    }

    /// Ends all running programs as unfinished.
    fn abandon(&mut self, offset: u64, tables: &mut Tables<'_>) -> Result<()> {
        while !self.programs.is_idle() {
            self.end_innermost(false, offset, tables)?;
        }
        Ok(())
    }

    fn end_innermost(&mut self, finished: bool, offset: u64, tables: &mut Tables<'_>) -> Result<()> {
        if self.programs.depth() > 1 {
            self.end_nested(finished, offset, tables)?;
            if !finished {
                self.mark(StepMarks::FAILED);
            }
            Ok(())
        } else {
            self.end_top(finished, Some(offset), tables)
        }
    }

    fn say_end(
        &mut self,
        run: Option<RunId>,
        finished: bool,
        offset: Option<u64>,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        if !finished {
            self.faults.end_program(self.programs.depth());
        }
        let (Some(run), Some(source_end)) = (run, offset) else { return Ok(()) };
        let end = self.programs.steps();
        tables.say(self.id, RankEvent::RunEnded { run, end, finished, source_end })
    }

    /// Ends a nested program; its results go to the step that started it.
    fn end_nested(&mut self, finished: bool, offset: u64, tables: &mut Tables<'_>) -> Result<()> {
        if !finished {
            self.fail_current(tables);
        }
        self.settle_current(tables)?;
        let Some(frame) = self.programs.pop(finished) else { return Ok(()) };
        self.say_end(frame.run(), finished, Some(offset), tables)?;
        let expected = match self.caller(tables) {
            Some((_, facts)) => tables.results(&facts).map(|(_, ty)| ty).collect(),
            None => Vec::new(),
        };
        let returned = self.returned(&frame, finished, &expected);
        for alloc in returned.iter().flatten() {
            self.lives.hold(*alloc);
        }
        frame.release_names(&mut self.lives, Moment::early(self.programs.steps()));
        if frame.is_const_eval() && finished {
            self.keep_constants(&frame, &returned, tables)?;
        }
        if let Some(current) = self.programs.current_mut() {
            current.set_returned(returned);
        }
        Ok(())
    }

    /// The results of a nested program: according to its function's text, otherwise the remaining values of the right
    /// types.
    fn returned(&self, frame: &Frame, finished: bool, expected: &[Option<TypeRef>]) -> Vec<Option<AllocRef>> {
        let traits = frame.traits(finished);
        if let Some(names) = self.graphs.returns_of(&traits) {
            return names.iter().map(|name| frame.named(*name)).collect();
        }
        let mut left: Vec<AllocRef> = frame.results().collect();
        let mut take = |ty: &Option<TypeRef>| {
            let at = left.iter().position(|alloc| Some(self.lives.get(*alloc).ty) == *ty)?;
            Some(left.remove(at))
        };
        expected.iter().map(&mut take).collect()
    }

    /// Keeps the results of a const-eval program, which are weights.
    fn keep_constants(
        &mut self,
        frame: &Frame,
        returned: &[Option<AllocRef>],
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let sources = match self.caller(tables) {
            Some((_, facts)) => self.operands(&facts, tables)?,
            None => Vec::new(),
        };
        for alloc in returned.iter().flatten() {
            self.lives.hold(*alloc);
            self.lives.set_class(*alloc, Class::Weight);
            if self.programs.depth() == 1
                && let Some(caller) = self.programs.innermost_mut()
            {
                caller.add_constant(*alloc, frame.sources_of(*alloc));
            }
            for source in sources.iter().flatten() {
                self.lives.derive(*alloc, *source);
            }
        }
        Ok(())
    }

    /// Records an error, with the line of the user's program that caused it.
    pub fn fault(
        &mut self,
        failure: &Failure<'_>,
        is_framed: bool,
        loc: Option<&str>,
        at: At,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        // Inputs are moved between programs; an error there does not belong to a step.
        let fault = failure.fault(self.programs.running_step(), at.line, tables)?;
        let loc = loc.map(|loc| tables.text(loc.as_bytes())).transpose()?;
        let printed = Printed {
            fault,
            detail: FaultDetail { loc, ..failure.detail(tables)? },
            is_complete: failure.is_complete(),
            is_framed,
            has_frames: failure.has_frames,
        };
        self.faults.add(&printed, self.programs.depth(), self.programs.runs());
        Ok(())
    }

    /// Keeps only errors that the program certainly printed. Returns whether there are any.
    pub fn keep_printed_faults(&mut self, is_document: bool) -> bool {
        self.faults.keep_printed(is_document);
        !self.faults.is_empty()
    }

    /// Ends a log without memory states: reports its errors, and the pools that their messages describe.
    pub fn close_with_faults(&mut self, has_continued: bool, tables: &mut Tables<'_>) -> Result<()> {
        let faults = self.faults.close_without_programs(has_continued);
        let mut pools: Vec<StrId> = Vec::new();
        // The last error about a pool has its latest state.
        for (fault, _) in faults.iter().rev() {
            let (Some(name), Some(allocated)) = (fault.pool, fault.allocated) else { continue };
            let Some(pool) = PoolId::new(pools.len()).filter(|_| !pools.contains(&name)) else { continue };
            pools.push(name);
            let reading = Reading {
                allocated: Some(allocated),
                free: fault.free,
                largest_free: fault.largest_free,
                capacity: fault.bank_size,
                ..Reading::default()
            };
            tables.say(self.id, RankEvent::Pool { name, banks: fault.banks, quantum: 0 })?;
            tables.say(self.id, RankEvent::State(pool, Moment::START, reading))?;
            tables.say(self.id, RankEvent::Sampled(pool, None))?;
        }
        self.say_faults(faults, true, tables)
    }

    fn say_faults(
        &self,
        faults: Vec<(Fault, FaultDetail)>,
        with_all_details: bool,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        for (index, (fault, detail)) in (0..).zip(faults) {
            tables.say(self.id, RankEvent::Fault(fault))?;
            if with_all_details || detail != FaultDetail::default() {
                tables.say(self.id, RankEvent::FaultDetail(index, detail))?;
            }
        }
        Ok(())
    }

    /// Warns about errors that cannot be attributed to a rank.
    pub fn warn_of_faults(&mut self, tables: &mut Tables<'_>) -> Result<()> {
        for line in self.faults.lines() {
            let message = "this error has no rank tag and is not attributed to any rank";
            tables.warn(Some(line), message)?;
        }
        self.faults.clear();
        Ok(())
    }

    /// Ends the log: a program that is still running has crashed, or the log is truncated.
    pub fn close(&mut self, end: At, tables: &mut Tables<'_>) -> Result<()> {
        let is_nameless = self.programs.outermost().is_some_and(Frame::is_nameless);
        if is_nameless && self.detail.has_texts() {
            let message = "the last operations of this log belong to a program whose start is missing; they are not \
                           counted as a run";
            tables.warn(Some(end.line), message)?;
        }
        if is_nameless && self.faults.is_empty() {
            self.end_top(true, Some(end.next), tables)?;
        }
        self.warn_of_crash(end, tables)?;
        self.abandon(end.next, tables)?;
        self.graphs.say_arguments(self.id, tables)?;
        self.inconsistencies.warn(tables)?;
        let faults = self.faults.close(self.programs.runs());
        self.say_faults(faults, false, tables)
    }

    fn warn_of_crash(&self, end: At, tables: &mut Tables<'_>) -> Result<()> {
        let Some(frame) = self.programs.innermost().filter(|frame| !frame.is_nameless()) else {
            return Ok(());
        };
        // The error already explains it.
        if self.faults.has_failed(self.programs.runs()) {
            return Ok(());
        }
        let step = self.programs.steps().checked_sub(1);
        let step = step.map_or_else(String::new, |step| format!(", in step {step}"));
        let message = format!(
            "the log ends while program {} is running{step}; the program crashed or the log is truncated, and the \
             report covers the lines up to here",
            frame.program_text()
        );
        tables.warn(Some(end.line), message)
    }
}

/// The numbers of the program's own arguments that a step passes on, per operand.
fn argument_numbers(facts: &OpFacts, tables: &Tables<'_>) -> Vec<Option<u32>> {
    let tensors = tables.operands(facts).filter(|(_, ty)| ty.is_some());
    tensors.map(|(name, _)| tables.argument_number(name)).collect()
}
