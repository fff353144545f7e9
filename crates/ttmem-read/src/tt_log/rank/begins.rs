//! The lines at which programs begin, for whoever cuts the log there.

use super::At;

/// Where the text of runs begins.
#[derive(Debug, Default)]
pub(super) struct Begins {
    /// The first line of each top-level run: that of its submit, or of its start.
    runs: Vec<At>,
    /// A submit whose program has not started.
    submit: Option<At>,
    /// The first activity outside programs since [`Begins::take_nameless`].
    nameless: Option<At>,
}

impl Begins {
    /// The lines of all top-level runs so far.
    pub fn runs(&self) -> &[At] {
        &self.runs
    }

    /// The first activity outside programs since this was called last.
    pub fn take_nameless(&mut self) -> Option<At> {
        self.nameless.take()
    }

    /// Notes a submit.
    pub fn submit(&mut self, at: At) {
        self.submit.get_or_insert(at);
        self.nameless(at);
    }

    /// Notes the start of a top-level program.
    pub fn run(&mut self, at: At) {
        self.runs.push(self.submit.take().unwrap_or(at));
    }

    /// Notes activity that belongs to no program.
    pub fn nameless(&mut self, at: At) {
        self.nameless.get_or_insert(at);
    }
}
