//! The stack of running programs, and the numbers of steps and runs.

use ttmem_model::{Error, Moment, Result, RunId, Step, StrId};

use super::frame::{Current, Frame};

/// The stack of programs.
#[derive(Debug, Default)]
pub(super) struct Programs {
    frames: Vec<Frame>,
    steps: Step,
    runs: usize,
    /// The number of steps before the last submit.
    submitted: Option<Step>,
    /// The last line that ended a program, and the program's name.
    last_end: Option<(u64, Vec<u8>)>,
    /// The last top-level program did not finish.
    aborted: bool,
}

impl Programs {
    /// The number of steps so far.
    pub fn steps(&self) -> Step {
        self.steps
    }

    /// The number of runs so far.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// The number of running programs.
    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    pub fn is_idle(&self) -> bool {
        self.frames.is_empty()
    }

    pub fn innermost(&self) -> Option<&Frame> {
        self.frames.last()
    }

    pub fn innermost_mut(&mut self) -> Option<&mut Frame> {
        self.frames.last_mut()
    }

    pub fn outermost(&self) -> Option<&Frame> {
        self.frames.first()
    }

    /// The current step of the innermost program.
    pub fn current(&self) -> Option<&Current> {
        self.innermost().and_then(Frame::current)
    }

    pub fn current_mut(&mut self) -> Option<&mut Current> {
        self.innermost_mut().and_then(Frame::current_mut)
    }

    /// The current step of the innermost program that has one.
    pub fn running_step(&self) -> Option<Step> {
        self.frames.iter().rev().find_map(Frame::current).map(Current::step)
    }

    /// Whether a program of this name is running.
    pub fn runs_program(&self, program: StrId) -> bool {
        self.frames.iter().any(|frame| frame.program() == program)
    }

    /// The depth of the program that a line ends, and whether it has this name: the innermost one with the name,
    /// otherwise the unnamed one.
    pub fn find(&self, name: &[u8]) -> Option<(usize, bool)> {
        let named = self.frames.iter().rposition(|frame| frame.program_text().as_bytes() == name);
        let nameless = || self.outermost().is_some_and(Frame::is_nameless).then_some((0, false));
        named.map(|depth| (depth, true)).or_else(nameless)
    }

    /// Starts a program inside the innermost one.
    pub fn push(&mut self, frame: Frame) {
        self.frames.push(frame);
    }

    /// Ends the innermost program.
    pub fn pop(&mut self, finished: bool) -> Option<Frame> {
        let frame = self.frames.pop()?;
        if self.frames.is_empty() {
            self.aborted = !finished;
        }
        Some(frame)
    }

    /// Assigns the next step number.
    pub fn next_step(&mut self) -> Result<Step> {
        let step = self.steps;
        if step >= Moment::MAX_STEPS {
            return Err(Error::NotFound("the log has too many steps; split it".into()));
        }
        self.steps += 1;
        Ok(step)
    }

    /// Assigns the next run ID.
    pub fn next_run(&mut self) -> Result<RunId> {
        let run = RunId::new(self.runs).ok_or_else(|| Error::NotFound("too many program runs".into()))?;
        self.runs += 1;
        Ok(run)
    }

    /// Records a submit.
    pub fn submit(&mut self) {
        self.submitted = Some(self.steps);
    }

    /// Whether no step was printed since the last submit.
    pub fn is_submit_empty(&self) -> bool {
        self.submitted == Some(self.steps)
    }

    /// Whether a line that ends a program repeats the previous one.
    pub fn repeats_end(&self, name: &[u8], line: u64) -> bool {
        self.last_end.as_ref().is_some_and(|(before, of)| before + 1 == line && of == name)
    }

    /// Records the line that ends a program.
    pub fn end_at(&mut self, name: &[u8], line: u64) {
        self.last_end = Some((line, name.to_vec()));
    }

    /// Whether the last top-level program ended without finishing.
    pub fn was_aborted(&self) -> bool {
        self.aborted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_top_level_programs_are_aborted_or_finished() {
        let mut programs = Programs::default();
        let name = StrId::new(0).unwrap();
        let start = |programs: &mut Programs| {
            programs.push(Frame::new(None, (name, String::new()), false, 0, 0));
        };
        start(&mut programs);
        programs.pop(false);
        assert!(programs.was_aborted());
        // The end of a nested program does not affect the outer one.
        start(&mut programs);
        start(&mut programs);
        programs.pop(true);
        assert!(programs.was_aborted());
        programs.pop(true);
        assert!(!programs.was_aborted());
        start(&mut programs);
        start(&mut programs);
        programs.pop(false);
        assert!(!programs.was_aborted());
    }
}
