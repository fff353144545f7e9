//! The level of detail of a log: operation texts or only types, and whether each operation has a memory state.

/// The observations so far.
#[derive(Debug, Default)]
pub(super) struct Detail {
    /// An operation with a text was read.
    has_texts: bool,
    /// An operation with a text had a state.
    has_states: bool,
    /// The text of the current operation could not be parsed.
    is_unreadable: bool,
    /// The number of steps directly before the current one without a state, although operations have states.
    stateless: u32,
}

/// The meaning of a state header that no step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orphan {
    /// The only line of its operation, or the only readable one.
    Operation,
    /// The line of its operation is missing.
    LostOperation,
    /// A step before lacks its state: lines of two processes are interleaved.
    Interleaved,
}

impl Detail {
    pub fn has_texts(&self) -> bool {
        self.has_texts
    }

    /// Records the text of an operation.
    pub fn text(&mut self) {
        (self.has_texts, self.is_unreadable) = (true, false);
    }

    /// Records the text of an operation that could not be parsed.
    pub fn unreadable_text(&mut self) {
        self.is_unreadable = true;
    }

    /// Records a repeated line of an operation that has no state yet.
    pub fn repeated_text(&mut self) {
        self.stateless += 1;
    }

    /// Records the beginning of a step; `waits` if the previous step had no state.
    pub fn step(&mut self, waits: bool) {
        self.stateless = if waits && self.has_states { self.stateless + 1 } else { 0 };
    }

    /// Records the state of a step that waited for it.
    pub fn state(&mut self) {
        self.has_states |= self.has_texts;
    }

    /// Records a state header that no step waits for.
    pub fn header(&mut self) -> Orphan {
        let is_unreadable = std::mem::take(&mut self.is_unreadable);
        if !self.has_texts || is_unreadable {
            Orphan::Operation
        } else if self.stateless > 0 {
            Orphan::Interleaved
        } else {
            Orphan::LostOperation
        }
    }
}
