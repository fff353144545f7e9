//! What happened, as small as it can be said: the tracker's threads leave these behind, and the recording's thread makes
//! events of them.

use super::Pool;
use ttmem_model::Change;

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The next tensor is there.
    Allocated { pool: Pool, bytes: u64 },
    /// A tensor is gone.
    Freed { tensor: u32, pool: Pool, bytes: u64 },
    /// A tensor was gone already, unseen: its id is about to be allocated again.
    Replaced { tensor: u32, pool: Pool, bytes: u64 },
    /// Something is gone that nobody saw come.
    UnknownFreed,
    /// The next tensor is a circular buffer; the number is that of the text that says on which cores.
    CircularBuffer { bytes: u64, cores: Option<u32> },
    /// All that belongs to programs is gone.
    ProgramBuffersGone,
    /// Bytes of nobody's.
    Nameless(Change),
}
