//! Where a pool stands while a recording is made, and which of its levels have to be said.
//!
//! Between two states `analyze` rebuilds what a pool holds from the lives of its tensors. So states are said only where
//! they are needed: after every batch and phase, and at the highest point before that.

use ttmem_model::{Moment, PoolId, Reading};

/// The state of a pool in which nothing is.
pub(super) const EMPTY: Reading = Reading {
    allocated: Some(0),
    active: None,
    reserved: None,
    requested: None,
    free: None,
    largest_free: None,
    capacity: None,
};

/// Where a pool stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub id: PoolId,
    now: i64,
    /// The highest since a state was said, and when that was first reached.
    highest: (i64, Moment),
    /// When the last state was said.
    said: Moment,
    changed: bool,
}

impl Level {
    /// Of a pool that was empty from the beginning, and of which that was said.
    pub fn new(id: PoolId) -> Self {
        Self { id, now: 0, highest: (0, Moment::START), said: Moment::START, changed: false }
    }

    /// The pool holds more or less from a moment on.
    pub fn change(&mut self, by: i64, at: Moment) {
        self.change_unseen(by);
        if self.now > self.highest.0 {
            self.highest = (self.now, at);
        }
    }

    /// The same, on the way to a moment that is still to come: it is no level of its own.
    pub fn change_unseen(&mut self, by: i64) {
        self.now = self.now.saturating_add(by);
        self.changed = true;
    }

    /// The pool is empty from a moment on, and that was said.
    pub fn empty(&mut self, at: Moment) {
        *self = Self { now: 0, highest: (0, at), said: at, changed: false, id: self.id };
    }

    /// Where the pool stands. A level below zero is one of which the beginning was not seen.
    pub fn now(&self) -> u64 {
        u64::try_from(self.now).unwrap_or(0)
    }

    /// The same level in another recording, in which it was said at a moment.
    pub fn said_at(self, at: Moment) -> Self {
        Self { highest: (self.now, at), said: at, changed: false, ..self }
    }

    /// A state shall be said, whether there was a change or not.
    pub fn look(&mut self) {
        self.changed = true;
    }

    /// The states that have to be said up to a moment, in order: the highest since the last one, and the last.
    pub fn states(&mut self, now: Moment) -> impl Iterator<Item = (Moment, Reading)> + use<> {
        if !self.changed {
            return None.into_iter().chain(None);
        }
        // A session begins on the late side of its position: nothing of it is earlier.
        let now = now.max(self.said);
        let (highest, at) = self.highest;
        let highest = (self.said < at && at < now).then(|| (at, reading(highest)));
        *self = Self { highest: (self.now, now), said: now, changed: false, ..*self };
        highest.into_iter().chain(Some((now, reading(self.now))))
    }
}

/// A level below zero is one of which the beginning was not seen.
fn reading(level: i64) -> Reading {
    Reading { allocated: Some(u64::try_from(level).unwrap_or(0)), ..Reading::default() }
}
