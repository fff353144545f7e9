//! The functions of a capture: which are running, and the steps that they become.

use ttmem_model::{Moment, OpKind, RankEvent, Result, Step, StepMarks, StepRow};

use super::super::lives::Buffer;
use super::super::node::Node;
use super::super::program::{Program, ProgramBuffer, ProgramKey};
use super::Capture;
use crate::json::Number;

/// The maximum number of enclosing calls searched for the function that ends. The calls inside it have ended or failed.
const MAX_END_DISTANCE: usize = 64;

/// A running function.
pub(super) struct Call {
    pub name: String,
    pub number: u64,
    /// The number of steps when it began.
    pub steps: Step,
    /// The node that begins it.
    pub node: u64,
    /// The last step inside it that allocated memory or ran a program; only tracked for outermost calls.
    pub last_compute: Option<Step>,
    pub offset: u64,
    /// The line of the user's program, for an outermost call.
    pub line: Option<String>,
    /// The error that ended it, for an outermost call.
    pub error: Option<CallError>,
    /// Identifies the program that it runs.
    pub program: Option<ProgramKey>,
}

/// The error that ended a call.
pub(super) enum CallError {
    /// The capture only shows that there was one.
    Unknown,
    Message {
        text: String,
        /// Whether no call came after it.
        is_last: bool,
    },
}

/// A call from Python that failed.
pub(super) struct FailedCall {
    pub name: String,
    pub step: Option<Step>,
    /// Its first step.
    pub first: Option<Step>,
    pub line: Option<String>,
    pub message: String,
    pub is_last: bool,
}

/// A part of a call that first frees and then allocates memory, and may then run a program. It becomes a step.
#[derive(Default)]
pub(super) struct Stretch {
    /// The call's number; `None` between calls.
    pub call: Option<u64>,
    pub offset: u64,
    pub took: bool,
    /// The freed buffers, with the tensors in them.
    pub gone: Vec<(Buffer, Vec<u64>)>,
    pub program: Option<Program>,
}

impl Capture<'_> {
    /// Begins a function. Its level is the number of enclosing functions: a function that failed has no end node.
    pub(super) fn call(&mut self, index: u64, node: &Node<'_>, offset: u64) -> Result<()> {
        self.close()?;
        let around = node.stacking_level.get().and_then(|level| usize::try_from(level.checked_sub(1)?).ok());
        while around.is_some_and(|around| around < self.calls.len()) {
            self.pop()?;
        }
        self.begun += 1;
        let name = node.params.name.0.clone().into_owned();
        // Only outermost calls come from Python.
        let python = self.calls.is_empty().then(|| self.sidecar.call_of(&name)).flatten();
        let error = python.and_then(|call| {
            let text = call.error.clone()?;
            Some(CallError::Message { text, is_last: call.is_last })
        });
        let line = python.and_then(|call| call.line.clone());
        // The nodes of an operation in a database have other numbers.
        if let Some(inputs) = node.input_tensors.as_ref().filter(|_| self.operation.is_none()) {
            self.lists_uses = true;
            self.inputs.extend(inputs.iter().filter_map(|tensor| tensor.get()));
        }
        let program = ProgramKey::of(node);
        let (number, steps) = (self.begun, self.steps);
        self.calls.push(Call {
            name,
            number,
            steps,
            node: index,
            last_compute: None,
            offset,
            line,
            error,
            program,
        });
        Ok(())
    }

    /// Ends a function, and the functions inside it that have no end node.
    pub(super) fn leave(&mut self, node: &Node<'_>) -> Result<()> {
        let is_aborted = node.params.aborted == Number::Is(1);
        if let Some(outermost) = self.calls.first_mut().filter(|_| is_aborted) {
            outermost.error.get_or_insert(CallError::Unknown);
        }
        if !is_aborted {
            self.begin_next_program()?;
        }
        let is_it = |call: &Call| call.name == node.params.name.0;
        let near = self.calls.len().saturating_sub(MAX_END_DISTANCE);
        let found = self.calls[near..].iter().rposition(is_it).map(|found| near + found);
        let found = found.or(self.calls.len().checked_sub(1));
        while found.is_some_and(|found| found < self.calls.len()) {
            self.pop()?;
        }
        Ok(())
    }

    /// Ends the innermost function.
    fn pop(&mut self) -> Result<()> {
        match self.calls.as_slice() {
            [] => return Ok(()),
            [_] => return self.pop_outermost(),
            [.., outer, inner] => {
                // A function that allocates the result of the enclosing function is part of the same step.
                let (is_part, outer) = (inner.name.ends_with("create_device_tensor"), outer.number);
                match &mut self.stretch {
                    Some(stretch) if is_part && stretch.took && stretch.call == Some(inner.number) => {
                        stretch.call = Some(outer);
                    }
                    _ => self.close()?,
                }
            }
        }
        self.calls.pop();
        Ok(())
    }

    /// An outermost function that did not allocate memory also becomes a step. One that only frees memory already is
    /// one.
    fn pop_outermost(&mut self) -> Result<()> {
        self.close()?;
        let Some(only) = self.calls.first() else { return Ok(()) };
        let gives_back = only.name.ends_with("deallocate");
        if only.last_compute.is_none() && (!gives_back || only.steps == self.steps) {
            let (took, offset) = (!gives_back, only.offset);
            self.stretch = Some(Stretch { offset, took, ..Stretch::default() });
            self.close()?;
        }
        let Some(only) = self.calls.pop() else { return Ok(()) };
        let inputs = std::mem::take(&mut self.inputs);
        self.used(&inputs);
        self.ends.push((only.node, self.steps));
        let step = only.last_compute.unwrap_or(self.steps.saturating_sub(1));
        match only.error {
            Some(CallError::Message { text, is_last }) => {
                let (name, line, first) = (only.name, only.line, Some(only.steps.min(step)));
                let step = Some(step);
                self.failures.push(FailedCall { name, step, first, line, message: text, is_last });
            }
            Some(CallError::Unknown) => self.notes.failed.add(|| format!("{} (step {step})", only.name)),
            None => return Ok(()),
        }
        let rank = self.rank()?;
        self.tables.say(rank, RankEvent::Marks(step, StepMarks::FAILED))
    }

    /// Records a memory change. A new step begins with another call, and when memory is freed after an allocation.
    pub(super) fn touch(&mut self, takes: bool, offset: u64) -> Result<&mut Stretch> {
        let call = self.calls.last().map(|call| call.number);
        let goes_on = |stretch: &Stretch| stretch.call == call && (takes || !stretch.took);
        if !self.stretch.as_ref().is_some_and(goes_on) {
            self.close()?;
        }
        let stretch = self.stretch.get_or_insert_with(|| Stretch { call, offset, ..Stretch::default() });
        stretch.took |= takes;
        Ok(stretch)
    }

    /// Ends the current step, if there is one.
    pub(super) fn close(&mut self) -> Result<()> {
        self.next_program = None;
        let Some(stretch) = self.stretch.take() else { return Ok(()) };
        let rank = self.rank()?;
        // A program without buffers has unknown buffers, unless nothing ran: then all of them are listed.
        let mut marks = StepMarks::default();
        let has_program = stretch.program.is_some();
        let program = stretch.program.and_then(|program| self.programs.buffers(program));
        if has_program && program.is_none() && !self.notes.is_estimate() {
            marks.add(StepMarks::UNKNOWN_PROGRAM);
        }
        let row = StepRow { op: self.step_op(stretch.took)?, run: None, offset: stretch.offset, marks };
        self.tables.say(rank, RankEvent::Step(row))?;
        for ProgramBuffer { kind, bytes, address, cores, borrowed } in program.into_iter().flatten() {
            let step = self.steps;
            let buffer = ttmem_model::ProgramBuffer { step, kind, bytes, address, cores, borrowed };
            self.tables.say(rank, RankEvent::ProgramBuffer(buffer))?;
        }
        self.lives.step_done(self.steps);
        let dies = Moment::after(self.steps);
        if let Some(outermost) = self.calls.first_mut().filter(|_| stretch.took) {
            outermost.last_compute = Some(self.steps);
        }
        self.steps += 1;
        for (buffer, tensors) in stretch.gone {
            self.say_life(&buffer, &tensors, dies)?;
            for tensor in tensors {
                self.forget_tensor(tensor);
            }
        }
        Ok(())
    }

    /// The operation of a step. Its location is the line of the user's program, or else the chain of functions. The
    /// chain is recorded for steps that free memory, even in an outermost call.
    fn step_op(&mut self, took: bool) -> Result<ttmem_model::OpId> {
        let outermost = self.calls.first();
        let name = match outermost {
            Some(call) if took => call.name.as_str(),
            None if took => "buffer_allocate",
            _ => "deallocate",
        };
        // A step that only frees memory computes nothing.
        let kind = if took { OpKind::Compute } else { OpKind::Deallocate };
        let has_chain = self.calls.len() > usize::from(took);
        let line = outermost.and_then(|call| call.line.clone());
        let loc = line.or_else(|| has_chain.then(|| chain(&self.calls)));
        self.tables.plain_op(name.as_bytes(), loc.as_deref().map(str::as_bytes), kind)
    }

    pub(super) fn end_calls(&mut self) -> Result<()> {
        self.close()?;
        while !self.calls.is_empty() {
            self.pop()?;
        }
        Ok(())
    }
}

/// The running functions, outermost first. The middle of a deep stack is omitted to limit the length.
fn chain(calls: &[Call]) -> String {
    /// The number of functions shown at each end.
    const ENDS: usize = 8;
    let names = |calls: &[Call]| calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join(" > ");
    if calls.len() <= 2 * ENDS {
        return names(calls);
    }
    format!("{} > … > {}", names(&calls[..ENDS]), names(&calls[calls.len() - ENDS..]))
}
