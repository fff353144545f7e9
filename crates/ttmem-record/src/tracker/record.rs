//! What the tracker tells the thread that writes its recording.

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
    /// A tensor was freed unseen: its id is allocated again by the next record.
    Replaced { tensor: u32, pool: Pool, bytes: u64 },
    /// A buffer was freed that was not allocated in this capture.
    UnknownFreed,
    /// The next tensor is a circular buffer, named by its cores.
    CircularBuffer { bytes: u64, cores: Option<StrId> },
    /// All buffers of programs are gone.
    ProgramBuffersGone,
    /// A change of which only the size is known.
    Nameless(Change),
}

const _: () = assert!(size_of::<Entry<Record>>() <= 24, "a record costs the watched program time and memory");

/// What happens rarely.
#[derive(Debug)]
pub(super) enum Message {
    /// The next text.
    Text(Box<str>),
    /// A session begins, and everything before it is forgotten: `forgotten` are the tensors that were still there.
    Session { estimated: bool, forgotten: Vec<u32> },
    /// A phase ends.
    Phase { name: StrId, segment: Segment },
    /// The capture ends.
    Ended,
    /// Something that people should know.
    Warning(String),
}
