//! What keeps allocations alive, as found by a search of the running program.

use serde::{Deserialize, Serialize};

use super::{Nanoseconds, StrId};

/// The references from a variable of the program to an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The references as text. Allocations that are kept alive in the same way have the same text.
    pub chain: StrId,
    /// The time of the search, which all of its results share.
    pub time: Nanoseconds,
}
