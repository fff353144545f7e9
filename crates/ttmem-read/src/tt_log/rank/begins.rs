//! The lines where programs begin, for cutting the log there.

use super::At;

/// The lines where runs begin.
#[derive(Debug, Default)]
pub(super) struct Begins {
    /// The first line of each top-level run: its submit or its start.
    runs: Vec<At>,
    /// A submit whose program has not started yet.
    submit: Option<At>,
    /// The first activity outside programs since [`Begins::take_nameless`].
    nameless: Option<At>,
}

impl Begins {
    /// The lines of all top-level runs so far.
    pub fn runs(&self) -> &[At] {
        &self.runs
    }

    /// The first activity outside programs since the last call.
    pub fn take_nameless(&mut self) -> Option<At> {
        self.nameless.take()
    }

    /// Records a submit.
    pub fn submit(&mut self, at: At) {
        self.submit.get_or_insert(at);
        self.nameless(at);
    }

    /// Records the start of a top-level program.
    pub fn run(&mut self, at: At) {
        self.runs.push(self.submit.take().unwrap_or(at));
    }

    /// Records activity outside programs.
    pub fn nameless(&mut self, at: At) {
        self.nameless.get_or_insert(at);
    }
}
