//! The records and messages that the tracker sends to its writer thread.

use ttmem_model::{Change, Segment, StrId};

use super::Pool;
use crate::queue::Entry;

/// A change of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The next tensor was allocated.
    Allocated { pool: Pool, bytes: u64 },
    /// A tensor was freed.
    Freed { tensor: u32, pool: Pool, bytes: u64 },
    /// A tensor was freed without a record: the next record reuses its id.
    Replaced { tensor: u32, pool: Pool, bytes: u64 },
    /// A buffer that was not allocated in this capture was freed.
    UnknownFreed,
    /// The next tensor is a circular buffer, named by its cores.
    CircularBuffer { bytes: u64, cores: Option<StrId> },
    /// All program buffers were freed.
    ProgramBuffersGone,
    /// A change of known size without an id.
    Nameless(Change),
}

const _: () = assert!(size_of::<Entry<Record>>() <= 24, "a record costs the tracked program time and memory");

/// Rare events.
#[derive(Debug)]
pub(super) enum Message {
    /// The next text.
    Text(Box<str>),
    /// A session begins, on a device that is not a Tenstorrent device if it has a name. `forgotten` are the tensors of
    /// the previous one that were still live.
    Session { estimated: bool, device: Option<StrId>, forgotten: Vec<u32> },
    /// A phase ends.
    Phase { name: StrId, segment: Segment },
    /// The capture ends.
    Ended,
    /// A warning for the user.
    Warning(String),
}
