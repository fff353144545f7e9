//! The thinned beginning of a recording that grew too large: totals, and some moments.
//!
//! The moments are ordinary steps with times, operations and readings, but fewer than there were. Allocations that were
//! live at such a moment and have been freed since have no rows: one row per pool represents all of them.

use serde::{Deserialize, Serialize};

use super::{Nanoseconds, OpId, Position, ScopeId};

/// Full detail is only available from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinned {
    /// The time since everything is available.
    pub since: Nanoseconds,
    /// The position of that time; everything before it is thinned.
    pub until: Position,
    /// The number of steps before it.
    pub steps: u64,
}

/// The origin of an allocation whose step is in another file of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The operation that made it.
    pub op: Option<OpId>,
    /// The scope it was allocated in.
    pub scope: Option<ScopeId>,
}

/// Totals of allocations that are not stored individually.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationTotals {
    /// The number of allocations.
    pub allocations: u64,
    /// Their bytes.
    pub allocated: u64,
    /// The number of frees, including those of individually stored allocations.
    pub frees: u64,
    /// Their bytes.
    pub freed: u64,
}

impl AllocationTotals {
    /// Adds other totals.
    pub fn add(&mut self, other: &Self) {
        self.allocations = self.allocations.saturating_add(other.allocations);
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.frees = self.frees.saturating_add(other.frees);
        self.freed = self.freed.saturating_add(other.freed);
    }
}
