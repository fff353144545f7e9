//! One rank's run through the log: programs that nest, the steps in them, and what each does to the memory.
//!
//! A step is known when the runtime says that it executes it, but what came of it only later: a deallocation
//! may turn out to be of a retained tensor, a cached load may run a whole program. So a step is settled when
//! the next one begins, or when its program ends.

mod doubts;
mod ending;
pub(super) mod handover;
mod resident;
mod settle;
mod states;

use rustc_hash::{FxHashMap, FxHashSet};

use self::doubts::Doubts;
use self::handover::TakenUp;
use super::fault::ParsedFault;
use super::graphs::{FunctionRef, Graphs, RunTraits};
use super::life::{AllocRef, Lives};
use super::tables::{OpFacts, OpRef, Tables, TypeRef};
use super::view::{QUANTUM, View};
use ttmem_model::{
    ByteRange, Class, Fault, Moment, OpKind, PoolId, RankEvent, RankId, Run, RunId, Step, StepMarks, StepRow,
    StrId,
};
use ttmem_model::{Error, Result};

/// What became of the line of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Began {
    /// A step has begun.
    Yes,
    /// It repeats the line before.
    Repeated,
    /// Its text could not be parsed.
    Unreadable,
}

/// Where a line stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct At {
    pub line: u64,
    pub offset: u64,
    pub next: u64,
}

/// A rank.
#[allow(clippy::struct_excessive_bools, reason = "each is a kind of line that was or was not seen")]
pub(super) struct RankState {
    id: RankId,
    pub graphs: Graphs,
    lives: Lives,
    pools: Vec<PoolState>,
    /// The step in which states are rounded.
    quantum: u64,
    last_pool: Option<usize>,
    frames: Vec<Frame>,
    steps: Step,
    runs: usize,
    /// The last step was given by its OpType alone.
    types_only: bool,
    /// The operation that runs has a text that could not be understood.
    skipped_operation: bool,
    /// How many steps before the current one lack a state, although operations have states.
    stateless: u32,
    /// Whether states are printed before operations that have texts.
    has_operation_states: bool,
    /// Whether the last top-level program ended without finishing.
    aborted: bool,
    doubts: Doubts,
    /// The line that ended a program last, and the program's name.
    last_end: Option<(u64, Vec<u8>)>,
    /// The step that the last submit came before.
    submitted: Option<Step>,
    /// Whether any operation was given by its text.
    has_texts: bool,
    /// Where the text of each top-level run begins: with its submit, or with its start.
    begins: Vec<At>,
    /// Where a submit was announced whose program has not started.
    submit: Option<At>,
    /// Where something began that belongs to no program, the first since somebody looked.
    nameless: Option<At>,
    /// What const-eval programs and traces have left behind, by what asks for it.
    cache: FxHashMap<CacheKey, Kept>,
    /// For const-eval runs whose results were asked for later, the number of the last top-level run that did.
    asked: FxHashMap<RunId, usize>,
    /// The texts of operations that capture traces.
    traces: FxHashMap<OpRef, Box<[u8]>>,
    /// What was taken up from the head of a cut-out.
    taken_up: TakenUp,
    /// What const-eval programs made in this run, and the numbers of the arguments they made it from.
    constants: Vec<(AllocRef, Vec<u32>)>,
    /// Arguments that are on the device, by the function and number they were given as.
    resident: FxHashMap<(Owner, u32, TypeRef), AllocRef>,
    /// What finished programs returned, program by program, as long as it may be there.
    outputs: Vec<Vec<AllocRef>>,
    /// What the pools should hold since the last program ended.
    levels: Vec<Option<u64>>,
    faults: Vec<PendingFault>,
    /// The errors so far, by step and by text alone.
    fault_messages: FxHashSet<(Option<Step>, StrId)>,
    told_messages: FxHashSet<StrId>,
    ambiguous: Vec<u64>,
    unmatched: u64,
}

/// What asks for a cached result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CacheKey {
    /// A const-eval program's name, the hash that the runtime prints, and the operation that loads it.
    Constants(Option<StrId>, Option<StrId>),
    /// An operation that captures a trace.
    Trace(OpRef),
}

/// What is kept for whoever asks for it.
#[derive(Clone, Debug)]
struct Kept {
    results: Vec<Option<AllocRef>>,
    /// The const-eval run that made them, where it was seen.
    maker: Option<RunId>,
}

/// Whose arguments they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Function(FunctionRef),
    /// Of a program whose graph is not known.
    Program(StrId),
}

#[derive(Debug)]
struct PoolState {
    id: PoolId,
    name: Vec<u8>,
    banks: Option<u32>,
    capacity: u64,
    /// The last view as text: most lines repeat the one before.
    text: Vec<u8>,
    view: View,
    /// What it held when it was first seen.
    first: Option<u64>,
    /// What happened between the last program and this one, if both ends are known.
    gap: Option<i64>,
}

/// A program that is running.
#[derive(Debug)]
struct Frame {
    /// The line that started it.
    line: u64,
    /// Operations of it are missing from the log, or could not be read.
    has_gaps: bool,
    run: Option<RunId>,
    program: StrId,
    program_text: String,
    names: FxHashMap<StrId, Option<AllocRef>>,
    /// Names in the order they came to be, for programs whose return is not known.
    order: Vec<StrId>,
    /// The operands of the operation that computed last.
    used: Vec<AllocRef>,
    current: Option<Current>,
    first: Step,
    operations: u32,
    fingerprint: u64,
    const_eval: bool,
    /// It ran in a pass that was cut away: its steps are told again, but what it left is told elsewhere.
    retold: bool,
    /// In a const-eval program: the caller's arguments that each name was computed from, by their numbers.
    sources: FxHashMap<StrId, Vec<u32>>,
    /// Arguments in use: number, type, allocation. Of top-level programs only.
    arguments: Vec<(u32, Option<TypeRef>)>,
    slots: FxHashMap<u32, AllocRef>,
}

/// A step that has begun.
#[allow(clippy::struct_excessive_bools, reason = "each is a line that the log may or may not have")]
#[derive(Debug)]
struct Current {
    step: Step,
    /// The line that began it.
    line: u64,
    op: OpRef,
    has_state: bool,
    retained: bool,
    hit: bool,
    miss: bool,
    failed: bool,
    key: Option<StrId>,
    /// What a program that ran inside it returned.
    returned: Option<Vec<Option<AllocRef>>>,
    /// The const-eval run that ran inside it.
    maker: Option<RunId>,
}

#[derive(Debug)]
struct PendingFault {
    fault: Fault,
    /// How many programs were running, nested ones counted.
    frames: usize,
    /// How many runs there had been.
    runs: usize,
}

impl RankState {
    pub fn new(id: RankId) -> Self {
        Self {
            id,
            graphs: Graphs::default(),
            lives: Lives::default(),
            pools: Vec::new(),
            quantum: QUANTUM,
            last_pool: None,
            frames: Vec::new(),
            steps: 0,
            runs: 0,
            types_only: false,
            skipped_operation: false,
            stateless: 0,
            has_operation_states: false,
            aborted: false,
            doubts: Doubts::default(),
            last_end: None,
            submitted: None,
            has_texts: false,
            begins: Vec::new(),
            submit: None,
            nameless: None,
            cache: FxHashMap::default(),
            asked: FxHashMap::default(),
            traces: FxHashMap::default(),
            taken_up: TakenUp::default(),
            constants: Vec::new(),
            resident: FxHashMap::default(),
            outputs: Vec::new(),
            levels: Vec::new(),
            faults: Vec::new(),
            fault_messages: FxHashSet::default(),
            told_messages: FxHashSet::default(),
            ambiguous: Vec::new(),
            unmatched: 0,
        }
    }

    /// A rank whose states are not rounded.
    pub fn exact(id: RankId) -> Self {
        Self { quantum: 0, ..Self::new(id) }
    }

    pub fn id(&self) -> RankId {
        self.id
    }

    pub fn has_states(&self) -> bool {
        // A pool without banks is only named by a layout.
        self.pools.iter().any(|pool| pool.banks.is_some())
    }

    pub fn has_steps(&self) -> bool {
        self.steps > 0
    }

    /// How many steps there were.
    pub fn steps(&self) -> Step {
        self.steps
    }

    /// Where the text of each top-level run begins: with its submit, or with its start.
    pub fn begins(&self) -> &[At] {
        &self.begins
    }

    /// Where something began that belongs to no program: the first since this was asked last.
    pub fn take_nameless(&mut self) -> Option<At> {
        self.nameless.take()
    }

    /// The const-eval runs whose results were asked for later, each with the number of the last top-level run
    /// that did, from 1.
    pub fn asked(&self) -> impl Iterator<Item = (RunId, usize)> {
        self.asked.iter().map(|(maker, number)| (*maker, *number))
    }

    /// `Executing operation: …`
    pub fn executing(&mut self, text: &[u8], at: At, tables: &mut Tables<'_>) -> Result<Began> {
        let Some(op) = tables.operation(text)? else { return Ok(self.skip_operation()) };
        let current = self.frames.last_mut().and_then(|frame| frame.current.as_mut());
        if let Some(current) = current
            && (current.op == op && !current.has_state && current.line + 1 == at.line)
        {
            current.line = at.line;
            self.stateless += 1;
            return Ok(Began::Repeated);
        }
        self.skipped_operation = false;
        self.has_texts = true;
        self.types_only = false;
        let facts = tables.op_facts(op);
        if facts.kind == OpKind::Call && facts.callee.is_none() {
            self.traces.entry(op).or_insert_with(|| text.into());
        }
        self.begin_step(op, at, tables)?;
        Ok(Began::Yes)
    }

    /// An operation whose text could not be parsed.
    pub fn skip_operation(&mut self) -> Began {
        self.skipped_operation = true;
        Began::Unreadable
    }

    /// An operation of which only the name is known.
    pub fn named(&mut self, name: &[u8], at: At, tables: &mut Tables<'_>) -> Result<()> {
        let op = tables.op_type(name)?;
        self.begin_step(op, at, tables)
    }

    fn begin_step(&mut self, op: OpRef, at: At, tables: &mut Tables<'_>) -> Result<()> {
        if self.frames.is_empty() {
            self.push_frame(None, tables.text(b"")?, String::new(), false);
        }
        if self.frames.last().is_some_and(|frame| frame.run.is_none()) {
            self.nameless.get_or_insert(at);
        }
        let waits = self.awaits_state() && self.has_operation_states;
        self.stateless = if waits { self.stateless + 1 } else { 0 };
        self.settle_current(tables)?;
        let facts = tables.op_facts(op);
        let step = self.steps;
        if step >= Moment::MAX_STEPS {
            return Err(Error::NotThere("the log has more steps than can be numbered; split it".into()));
        }
        self.steps += 1;
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        frame.operations += 1;
        frame.fingerprint = super::module::extend(frame.fingerprint, facts.fingerprint);
        frame.current = Some(Current {
            step,
            line: at.line,
            op,
            has_state: false,
            retained: false,
            hit: false,
            miss: false,
            failed: false,
            key: None,
            returned: None,
            maker: None,
        });
        let run = frame.run;
        if frame.retold {
            self.taken_up.steps.push(run);
        }
        let row = StepRow { op: facts.id, run, offset: at.offset, marks: StepMarks::default() };
        tables.say(self.id, RankEvent::Step(row))
    }

    pub fn cache_key(&mut self, hash: &[u8], tables: &mut Tables<'_>) -> Result<()> {
        let hash = tables.text(hash)?;
        self.mark(|current| current.key = Some(hash));
        Ok(())
    }

    pub fn cache_hit(&mut self) {
        self.mark(|current| current.hit = true);
    }

    pub fn cache_miss(&mut self) {
        self.mark(|current| current.miss = true);
    }

    pub fn retained(&mut self) {
        self.mark(|current| current.retained = true);
    }

    fn mark(&mut self, change: impl FnOnce(&mut Current)) {
        if let Some(current) = self.frames.last_mut().and_then(|frame| frame.current.as_mut()) {
            change(current);
        }
    }

    /// `Starting execution of program: …`. `false` when the line repeats the one before.
    pub fn starting(&mut self, name: &[u8], at: At, tables: &mut Tables<'_>) -> Result<bool> {
        let program = tables.text(name)?;
        if self.repeats_start(name, at) {
            self.frames.last_mut().into_iter().for_each(|frame| frame.line = at.line);
            return Ok(false);
        }
        let caller = self.caller(tables).filter(|(_, facts)| self.calls(facts, program));
        if caller.is_none() {
            // Nothing that runs here starts programs: the one before was abandoned, as after an exception.
            if let Some(message) = self.end_programs(at, tables)? {
                tables.warn(Some(at.line), message)?;
            }
        }
        let parent = self.frames.last().and_then(|frame| frame.run);
        let retold = match self.frames.last() {
            Some(frame) => frame.retold,
            None => std::mem::take(&mut self.taken_up.const_eval_follows),
        };
        let const_eval = match &caller {
            Some((_, facts)) => facts.kind == OpKind::LoadCached,
            None => retold,
        };
        let run = RunId::new(self.runs).ok_or_else(|| Error::NotThere("too many program runs".into()))?;
        self.runs += 1;
        let row = Run {
            program,
            parent,
            module: None,
            const_eval,
            first: self.steps,
            end: self.steps,
            finished: false,
            source: ByteRange { start: at.offset, end: at.offset },
        };
        tables.say(self.id, RankEvent::Run(row))?;
        if row.is_top_level() {
            self.begins.push(self.submit.take().unwrap_or(at));
        }
        let program_text = String::from_utf8_lossy(name).into_owned();
        if retold {
            self.retell(run, program, program_text, const_eval);
            return Ok(true);
        }
        let operands =
            caller.map(|(_, facts)| self.operands(&facts, tables)).transpose()?.unwrap_or_default();
        let numbers = caller.map(|(_, facts)| argument_numbers(&facts, tables)).unwrap_or_default();
        self.push_frame(Some(run), program, program_text, const_eval);
        if let Some(frame) = self.frames.last_mut() {
            frame.line = at.line;
        }
        self.bind_arguments(&operands, &numbers, tables)?;
        Ok(true)
    }

    /// Whether a line that starts a program repeats the one before.
    pub fn repeats_start(&self, name: &[u8], at: At) -> bool {
        let is_it = |frame: &Frame| frame.operations == 0 && frame.program_text.as_bytes() == name;
        self.frames.last().is_some_and(|frame| is_it(frame) && frame.line + 1 == at.line)
    }

    /// Whether a step starts a program of that name. A trace runs several, whose names its text has; none of them
    /// is one that runs already.
    fn calls(&self, facts: &OpFacts, program: StrId) -> bool {
        match facts.callee {
            Some(callee) => callee == program,
            None => self.frames.iter().all(|frame| frame.program != program),
        }
    }

    /// The step that a program may be started by.
    fn caller(&self, tables: &Tables<'_>) -> Option<(Step, OpFacts)> {
        let current = self.frames.last()?.current.as_ref()?;
        let facts = tables.op_facts(current.op);
        matches!(facts.kind, OpKind::LoadCached | OpKind::Call).then_some((current.step, facts))
    }

    fn push_frame(&mut self, run: Option<RunId>, program: StrId, program_text: String, const_eval: bool) {
        self.frames.push(Frame {
            line: 0,
            has_gaps: false,
            run,
            program,
            program_text,
            names: FxHashMap::default(),
            order: Vec::new(),
            used: Vec::new(),
            current: None,
            first: self.steps,
            operations: 0,
            fingerprint: 0,
            const_eval,
            retold: false,
            sources: FxHashMap::default(),
            arguments: Vec::new(),
            slots: FxHashMap::default(),
        });
    }

    /// The arguments of a nested program are its caller's operands, under other names.
    fn bind_arguments(
        &mut self,
        operands: &[Option<AllocRef>],
        numbers: &[Option<u32>],
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        for (index, &operand) in operands.iter().enumerate() {
            let name = tables.text(format!("%arg{index}").as_bytes())?;
            if let Some(operand) = operand {
                self.lives.hold(operand);
            }
            if let Some(frame) = self.frames.last_mut() {
                frame.names.insert(name, operand);
                frame
                    .sources
                    .extend(numbers.get(index).copied().flatten().map(|number| (name, vec![number])));
            }
        }
        Ok(())
    }

    /// `Finished execution of program: …`. `false` when no such program runs.
    pub fn finished(&mut self, name: &[u8], at: At, tables: &mut Tables<'_>) -> Result<bool> {
        let is_repeated = |(line, of): &(u64, Vec<u8>)| line + 1 == at.line && of == name;
        let repeats = self.last_end.as_ref().is_some_and(is_repeated);
        let is_it = |frame: &Frame| frame.program_text.as_bytes() == name;
        // The end of a program whose start the log does not have ends what ran without a name.
        let nameless = self.frames.first().filter(|frame| frame.run.is_none()).map(|_| 0);
        let found = self.frames.iter().rposition(is_it);
        let Some(depth) = found.or(nameless) else {
            return Ok(repeats);
        };
        self.last_end = Some((at.line, name.to_vec()));
        while self.frames.len() > depth + 1 {
            let inner = self.frames.last().map_or("", |frame| &frame.program_text);
            let message =
                format!("the end of program {inner} is missing; it is taken to end with its caller here");
            tables.warn(Some(at.line), message)?;
            self.end_innermost(false, at.offset, tables)?;
        }
        self.end_innermost(true, at.next, tables)?;
        self.aborted = false;
        Ok(found.is_some())
    }

    /// Gives up all programs that run.
    fn abandon(&mut self, offset: u64, tables: &mut Tables<'_>) -> Result<()> {
        while !self.frames.is_empty() {
            self.end_innermost(false, offset, tables)?;
        }
        Ok(())
    }

    fn end_innermost(&mut self, finished: bool, offset: u64, tables: &mut Tables<'_>) -> Result<()> {
        if self.frames.last().is_some_and(|frame| frame.retold) {
            return self.end_retold(finished, offset, tables);
        }
        if self.frames.len() > 1 {
            self.end_nested(finished, offset, tables)?;
            if !finished {
                self.mark(|current| current.failed = true);
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
            let depth = self.frames.len();
            for pending in self.faults.iter_mut().filter(|pending| pending.frames > depth) {
                pending.fault.ended_program = true;
            }
        }
        let (Some(run), Some(source_end)) = (run, offset) else { return Ok(()) };
        tables.say(self.id, RankEvent::RunEnded { run, end: self.steps, finished, source_end })
    }

    /// Ends a nested program; what it returns goes to the step that started it.
    fn end_nested(&mut self, finished: bool, offset: u64, tables: &mut Tables<'_>) -> Result<()> {
        if !finished {
            self.fail_current(tables);
        }
        self.settle_current(tables)?;
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        self.say_end(frame.run, finished, Some(offset), tables)?;
        let wanted = match self.caller(tables) {
            Some((_, facts)) => tables.results(&facts).map(|(_, ty)| ty).collect(),
            None => Vec::new(),
        };
        let returned = self.returned(&frame, finished, &wanted);
        for alloc in returned.iter().flatten() {
            self.lives.hold(*alloc);
        }
        self.leave(&frame);
        let maker = frame.run.filter(|_| frame.const_eval && finished);
        if maker.is_some() {
            self.keep_constants(&frame, &returned, tables)?;
        }
        self.mark(|current| (current.returned, current.maker) = (Some(returned), maker));
        Ok(())
    }

    /// What a nested program returns: by the text of its function, or else what is left of the right types.
    fn returned(&self, frame: &Frame, finished: bool, wanted: &[Option<TypeRef>]) -> Vec<Option<AllocRef>> {
        let traits = frame.traits(finished);
        if let Some(names) = self.graphs.returns_of(&traits) {
            return names.iter().map(|name| frame.named(*name)).collect();
        }
        let mut left: Vec<AllocRef> = frame.order.iter().filter_map(|name| *frame.names.get(name)?).collect();
        let mut take = |ty: &Option<TypeRef>| {
            let at = left.iter().position(|alloc| Some(self.lives.get(*alloc).ty) == *ty)?;
            Some(left.remove(at))
        };
        wanted.iter().map(&mut take).collect()
    }

    /// The results of const-eval programs are weights, and stay.
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
            self.lives.get_mut(*alloc).class = Class::Weight;
            if self.frames.len() == 1 {
                self.constants.push((*alloc, frame.sources_of(*alloc)));
            }
            for source in sources.iter().flatten() {
                self.lives.derive(*alloc, *source);
            }
        }
        Ok(())
    }

    /// Lets go of all names of a program that has ended.
    fn leave(&mut self, frame: &Frame) {
        let at = Moment::early(self.steps);
        // In the order of their names' birth, so that the same log always gives the same events.
        let mut held: Vec<AllocRef> = frame.names.values().flatten().copied().collect();
        held.sort_unstable();
        for alloc in held {
            self.lives.release(alloc, at, false);
        }
    }

    /// An error. The same error is printed twice: by the logger, and in the text of the exception.
    pub fn fault(&mut self, parsed: &ParsedFault<'_>, at: At, tables: &mut Tables<'_>) -> Result<()> {
        // Between programs inputs are moved; an error there belongs to no step.
        let step =
            self.frames.iter().rev().find_map(|frame| frame.current.as_ref()).map(|current| current.step);
        let fault = parsed.fault(step, at.line, tables)?;
        // Outside of programs it is told again: by pytest at the end, by whoever caught it.
        let known = self.fault_messages.contains(&(step, fault.message));
        let told = step.is_none() && self.told_messages.contains(&fault.message);
        if !known && !told {
            self.fault_messages.insert((step, fault.message));
            self.told_messages.insert(fault.message);
            self.faults.push(PendingFault { fault, frames: self.frames.len(), runs: self.runs });
        }
        Ok(())
    }

    /// Says errors that no rank can be given: nothing is silent.
    pub fn warn_of_faults(&mut self, tables: &mut Tables<'_>) -> Result<()> {
        for pending in &self.faults {
            tables.warn(
                Some(pending.fault.line),
                "an error stands here without the tag of a rank; it is given to none",
            )?;
        }
        Ok(())
    }

    /// The end of the log: what still runs has crashed, or the log was cut.
    pub fn close(&mut self, end: At, tables: &mut Tables<'_>) -> Result<()> {
        let implicit = self.frames.first().is_some_and(|frame| frame.run.is_none());
        if implicit && self.has_texts {
            let message = "the last operations of this log belong to a program whose start is missing; they are not counted as \
                           a run";
            tables.warn(Some(end.line), message)?;
        }
        if implicit && self.faults.is_empty() {
            self.end_top(true, Some(end.next), tables)?;
        }
        self.warn_of_crash(end, tables)?;
        self.abandon(end.next, tables)?;
        // An error between programs after which none was started ended it all.
        for pending in
            self.faults.iter_mut().filter(|pending| pending.frames == 0 && pending.runs == self.runs)
        {
            pending.fault.ended_program = true;
        }
        self.graphs.say_arguments(self.id, tables)?;
        self.doubts.warn(tables)?;
        if self.unmatched > 0 {
            let runs = self.unmatched;
            let message = match runs {
                1 => {
                    "1 program run matches none of the dumped graphs; the names of its arguments are unknown"
                        .to_owned()
                }
                _ => format!(
                    "{runs} program runs match none of the dumped graphs; the names of their arguments are unknown"
                ),
            };
            tables.warn(None, message)?;
        }
        for pending in std::mem::take(&mut self.faults) {
            tables.say(self.id, RankEvent::Fault(pending.fault))?;
        }
        Ok(())
    }
}

impl RankState {
    fn warn_of_crash(&self, end: At, tables: &mut Tables<'_>) -> Result<()> {
        let Some(frame) = self.frames.last().filter(|frame| frame.run.is_some()) else { return Ok(()) };
        // An error says better why.
        if self.faults.iter().any(|pending| pending.frames > 0 && pending.runs == self.runs) {
            return Ok(());
        }
        let step = self.steps.checked_sub(1).map_or_else(String::new, |step| format!(", in step {step}"));
        let message = format!(
            "the log ends while program {} runs{step}: it crashed, or the log was cut; the report covers what precedes it",
            frame.program_text
        );
        tables.warn(Some(end.line), message)
    }
}

impl Frame {
    fn traits(&self, finished: bool) -> RunTraits<'_> {
        RunTraits {
            program: &self.program_text,
            operations: self.operations,
            fingerprint: self.fingerprint,
            finished,
            has_gaps: self.has_gaps,
            arguments: &self.arguments,
        }
    }

    /// The arguments of the caller that an allocation was computed from.
    fn sources_of(&self, alloc: AllocRef) -> Vec<u32> {
        let mut names: Vec<&StrId> =
            self.names.iter().filter(|(_, held)| **held == Some(alloc)).map(|(name, _)| name).collect();
        names.sort_unstable();
        names.first().and_then(|name| self.sources.get(name)).cloned().unwrap_or_default()
    }

    fn named(&self, name: StrId) -> Option<AllocRef> {
        self.names.get(&name).copied().flatten()
    }
}

/// Which arguments of its own program a step passes on, operand by operand.
fn argument_numbers(facts: &OpFacts, tables: &Tables<'_>) -> Vec<Option<u32>> {
    let tensors = tables.operands(facts).filter(|(_, ty)| ty.is_some());
    tensors.map(|(name, _)| tables.argument_number(name)).collect()
}
