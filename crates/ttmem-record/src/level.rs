//! The level of a pool during a recording, and the decision which of its states to write.
//!
//! Between two states, readers compute a pool's level from the lifetimes of its tensors. So states are written only if
//! needed: before every flush and at the end of every phase, and at the highest point before that.

use ttmem_model::{Moment, PoolId, Reading};

/// The state of an empty pool.
pub(super) const EMPTY: Reading = Reading {
    allocated: Some(0),
    active: None,
    reserved: None,
    requested: None,
    free: None,
    largest_free: None,
    capacity: None,
};

/// The level of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub id: PoolId,
    now: i64,
    /// The highest level since the last state, and when it was first reached.
    highest: (i64, Moment),
    /// The moment of the last state.
    written: Moment,
    changed: bool,
}

impl Level {
    /// The level of a pool that was empty from the start; that state has been written.
    pub fn new(id: PoolId) -> Self {
        Self { id, now: 0, highest: (0, Moment::START), written: Moment::START, changed: false }
    }

    /// Adds an allocation.
    #[inline]
    pub fn add(&mut self, bytes: u64, at: Moment) {
        self.change(signed(bytes), at);
    }

    /// Subtracts freed bytes.
    #[inline]
    pub fn remove(&mut self, bytes: u64, at: Moment) {
        self.change(-signed(bytes), at);
    }

    /// Subtracts bytes that are freed by the next step. Until then, the level is not recorded.
    pub fn remove_with_next_step(&mut self, bytes: u64) {
        self.now = self.now.saturating_sub(signed(bytes));
        self.changed = true;
    }

    #[inline]
    fn change(&mut self, by: i64, at: Moment) {
        self.now = self.now.saturating_add(by);
        self.changed = true;
        if self.now > self.highest.0 {
            self.highest = (self.now, at);
        }
    }

    /// Marks the pool as empty from a moment on; that state has been written.
    pub fn empty(&mut self, at: Moment) {
        *self = Self { now: 0, highest: (0, at), written: at, changed: false, id: self.id };
    }

    /// The current level. The level is negative if a pool's first allocations are unknown; it is shown as 0.
    #[inline]
    pub fn now(&self) -> u64 {
        u64::try_from(self.now).unwrap_or(0)
    }

    /// The same level in another file, where its state was written for a moment.
    pub fn written_at(self, at: Moment) -> Self {
        Self { highest: (self.now, at), written: at, changed: false, ..self }
    }

    /// Forces the next state to be written even if the level has not changed.
    pub fn touch(&mut self) {
        self.changed = true;
    }

    /// The states to write up to a moment, in order: the highest since the last write, and the current one.
    pub fn states(&mut self, now: Moment) -> impl Iterator<Item = (Moment, Reading)> + use<> {
        if !self.changed {
            return None.into_iter().chain(None);
        }
        // A session begins on the late side of its position, so its first state must not be earlier.
        let now = now.max(self.written);
        let (highest, at) = self.highest;
        let highest = (self.written < at && at < now).then(|| (at, reading(highest)));
        *self = Self { highest: (self.now, now), written: now, changed: false, ..*self };
        highest.into_iter().chain(Some((now, reading(self.now))))
    }
}

fn reading(level: i64) -> Reading {
    Reading { allocated: Some(u64::try_from(level).unwrap_or(0)), ..Reading::default() }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
