//! What is left of the beginning of a recording that has grown too large: sums, and a few moments.
//!
//! The moments are steps like others, with their times, operations and readings; there are only fewer of them than there
//! were. Allocations that were there then and are gone now are no rows: one row of each pool stands for all of them.

use serde::{Deserialize, Serialize};

use super::{Nanoseconds, OpId, Position, ScopeId};

/// That detail is there only from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinned {
    /// From when on everything is there.
    pub since: Nanoseconds,
    /// The position of that time: what lies before is thinned.
    pub until: Position,
    /// How many steps there were before it.
    pub steps: u64,
}

/// What is known of the making of an allocation that is from another file of the recording, where its step is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The operation that made it.
    pub op: Option<OpId>,
    /// The scope that it was made in.
    pub scope: Option<ScopeId>,
}

/// Allocations that are not kept one by one, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationTotals {
    /// How many.
    pub allocations: u64,
    /// Their bytes.
    pub allocated: u64,
    /// How many were given back; of those that are kept one by one, too.
    pub frees: u64,
    /// Their bytes.
    pub freed: u64,
}

impl AllocationTotals {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.allocations = self.allocations.saturating_add(other.allocations);
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.frees = self.frees.saturating_add(other.frees);
        self.freed = self.freed.saturating_add(other.freed);
    }
}
