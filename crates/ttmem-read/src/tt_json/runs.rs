//! Reconstructs the program runs from the rows, which name their programs.
//!
//! A program starts when a row has a different name than the previous one, and continues when that name occurs again.
//! tt-memory-profiler 0.x only names const-eval programs. All other rows belong to an unnamed program, which starts a
//! new run when its result numbers (`%0`, `%1` …) start again.

use rustc_hash::FxHashMap;
use ttmem_model::{
    ByteRange, Error, ModuleId, OpId, OpKind, RankEvent, RankId, Result, Run, RunId, Step, StepMarks, StrId,
};

use crate::tt_log::tables::{OpFacts, Tables};

/// The name of a program that the files do not name.
const UNNAMED: &str = "unnamed program";

/// The maximum nesting depth of programs.
const MAX_DEPTH: usize = 64;

/// Where a row's operation ran.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// The program, and the number of the top-level run.
    pub program: Option<StrId>,
    pub number: Option<u32>,
    /// The const-eval program that it belongs to.
    pub const_eval: Option<StrId>,
    /// The graph of the top-level run.
    pub module: Option<ModuleId>,
    /// The number of its first result: 7 for `%7`.
    pub result: Option<u32>,
}

/// The runs of a rank.
#[derive(Debug)]
pub(super) struct Runs {
    rank: RankId,
    count: usize,
    /// The running programs, innermost last.
    frames: Vec<Frame>,
    /// The number of the current top-level run, and whether its graph was emitted.
    number: Option<u32>,
    has_module: bool,
    results: Results,
    /// The unnamed programs, by their first operation.
    unnamed: FxHashMap<OpId, StrId>,
}

/// The result numbers of an unnamed program and of the functions that it calls.
///
/// They increase from step to step. If one does not, a function was called or has returned, or the program starts
/// again.
#[derive(Debug, Default)]
struct Results(Vec<u32>);

impl Results {
    /// Whether the program starts again with this result.
    fn start_again(&mut self, result: u32, after_call: bool) -> bool {
        if after_call && self.0.len() < MAX_DEPTH && self.0.last().is_some_and(|last| result <= *last) {
            self.0.push(result);
            return false;
        }
        let is_first = self.0.is_empty();
        while self.0.pop_if(|last| result <= *last).is_some() {}
        let starts = self.0.is_empty() && !is_first;
        self.0.pop();
        self.0.push(result);
        starts
    }

    /// Discards the numbers of a program that has ended. Returns whether there were any.
    fn end(&mut self) -> bool {
        let were_any = !self.0.is_empty();
        self.0.clear();
        were_any
    }
}

#[derive(Debug)]
struct Frame {
    run: RunId,
    program: StrId,
    last: Option<Last>,
}

/// The last step of a program.
#[derive(Clone, Copy, Debug)]
struct Last {
    step: Step,
    op: OpFacts,
}

impl Last {
    /// Whether it starts a program.
    fn calls(&self) -> bool {
        matches!(self.op.kind, OpKind::LoadCached | OpKind::Call)
    }
}

impl Runs {
    pub fn new(rank: RankId) -> Self {
        Self {
            rank,
            count: 0,
            frames: Vec::new(),
            number: None,
            has_module: false,
            results: Results::default(),
            unnamed: FxHashMap::default(),
        }
    }

    /// The run of a step.
    pub fn of(&mut self, step: Step, place: Place, op: OpFacts, tables: &mut Tables<'_>) -> Result<RunId> {
        if self.starts(place, op) {
            self.end(step, true, tables)?;
            let program = place.program.map_or_else(|| self.unnamed(op, tables), Ok)?;
            self.start(program, false, step, tables)?;
            (self.number, self.has_module) = (place.number, false);
        }
        let program = place.program.or(place.const_eval);
        let inner = program.or_else(|| self.frames.first().map(|frame| frame.program));
        if let Some(inner) = inner {
            self.enter(inner, place, step, tables)?;
        }
        if let (Some(module), false, Some(top)) = (place.module, self.has_module, self.frames.first()) {
            tables.say(self.rank, RankEvent::RunModule(top.run, module))?;
            self.has_module = true;
        }
        let frame = self.frames.last_mut().ok_or_else(|| Error::Bug("a step without a program".into()))?;
        frame.last = Some(Last { step, op });
        Ok(frame.run)
    }

    /// The name of an unnamed program. Programs with the same first operation are the same program.
    fn unnamed(&mut self, first: OpFacts, tables: &mut Tables<'_>) -> Result<StrId> {
        if let Some(&known) = self.unnamed.get(&first.id) {
            return Ok(known);
        }
        let name = match self.unnamed.len() {
            0 => UNNAMED.to_owned(),
            others => format!("{UNNAMED} {}", others + 1),
        };
        let name = tables.text(name.as_bytes())?;
        self.unnamed.insert(first.id, name);
        Ok(name)
    }

    /// Whether a top-level program starts with a step.
    fn starts(&mut self, place: Place, op: OpFacts) -> bool {
        let starts = if place.program.is_some() || place.const_eval.is_some() {
            place.number.is_some() && place.number != self.number
        } else if let Some(result) = place.result {
            // A named program has its own frame, and its numbers are ignored.
            let last = if let [only] = &self.frames[..] { only.last } else { None };
            self.results.start_again(result, last.is_some_and(|last| last.op.kind == OpKind::Call))
        } else {
            // tt-memory-profiler 0.x does not number multiple results, but an operation occurs only once in a program.
            self.unnamed.contains_key(&op.id) && self.results.end()
        };
        starts || self.frames.is_empty()
    }

    /// Enters the program that a step ran in. It may start, or end other programs.
    fn enter(&mut self, program: StrId, place: Place, step: Step, tables: &mut Tables<'_>) -> Result<()> {
        if let Some(depth) = self.frames.iter().rposition(|frame| frame.program == program) {
            return self.leave(depth + 1, step, true, tables);
        }
        // Only calls start programs, so programs whose last step was not a call have ended.
        let calls = |frame: &Frame| frame.last.is_some_and(|last| last.calls());
        let depth = self.frames.iter().rposition(calls).unwrap_or(0) + 1;
        self.leave(depth.min(MAX_DEPTH), step, true, tables)?;
        let last = self.frames.last().and_then(|frame| frame.last);
        let const_eval = match last.filter(|last| last.op.callee == Some(program)) {
            Some(Last { step: load, op }) if op.kind == OpKind::LoadCached => {
                // A cache hit runs no program.
                tables.say(self.rank, RankEvent::Marks(load, StepMarks::CACHE_MISS))?;
                true
            }
            // tt-memory-profiler 0.x only checked names, but a function may also be called `const_eval`.
            Some(_) => false,
            None => place.const_eval == Some(program),
        };
        self.start(program, const_eval, step, tables)
    }

    fn start(
        &mut self,
        program: StrId,
        const_eval: bool,
        first: Step,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let run = RunId::new(self.count).ok_or_else(|| Error::NotFound("too many program runs".into()))?;
        self.count += 1;
        let row = Run {
            program,
            parent: self.frames.last().map(|frame| frame.run),
            module: None,
            const_eval,
            first,
            end: first,
            finished: false,
            source: ByteRange::default(),
        };
        self.frames.push(Frame { run, program, last: None });
        tables.say(self.rank, RankEvent::Run(row))
    }

    /// Ends all programs except the `keep` outermost ones.
    fn leave(&mut self, keep: usize, end: Step, finished: bool, tables: &mut Tables<'_>) -> Result<()> {
        while self.frames.len() > keep {
            let Some(Frame { run, .. }) = self.frames.pop() else { break };
            tables.say(self.rank, RankEvent::RunEnded { run, end, finished, source_end: 0 })?;
        }
        Ok(())
    }

    /// Ends all programs.
    pub fn end(&mut self, end: Step, finished: bool, tables: &mut Tables<'_>) -> Result<()> {
        self.leave(0, end, finished, tables)
    }
}
