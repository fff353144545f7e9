//! The live recorder: records memory events of a running program, as reported by a framework binding.
//!
//! The [`Recorder`] has exact figures at any time (allocated bytes, the peak, the totals of each scope), and writes a
//! recording with every allocation, the call that made it, the source line and the time. It does not depend on a
//! framework.
//!
//! `names` assigns ids, and `narrator` turns records into the events of the file. A recording may have a size limit:
//! then `rotation` continues in a new file whenever one is full, so a program can run for days.

mod clock;
mod failures;
mod names;
mod narrator;
mod record;
mod recorder;
mod rotation;

pub use clock::{Clock, ManualClock};
pub use failures::FailedAllocation;
pub use names::TypeOf;
pub use recorder::Recorder;
pub use ttmem_model::rules::calls::CallRef;

pub use crate::queue::Backlog;
pub use crate::recording::{Finishing, Flushing};

use ttmem_model::{Class, LaneId, Nanoseconds, OpId, PoolId, ScopeId, TypeId};

/// The slot of an allocation, until it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// A new allocation.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    /// The pool.
    pub pool: PoolId,
    /// The size.
    pub bytes: u64,
    /// The operation that made it.
    pub op: OpId,
    /// The type, if known.
    pub ty: Option<TypeId>,
    /// The class, if known yet.
    pub class: Class,
    /// The call that made it.
    pub within: Option<CallRef>,
}

/// A call that is reported after it ended.
#[derive(Clone, Copy, Debug)]
pub struct LateCall {
    /// The scope.
    pub scope: ScopeId,
    /// The thread or stream.
    pub lane: LaneId,
    /// The number of the enclosing call; `None`: the call that was running at that time.
    pub parent: Option<u64>,
    /// The operation, with the types of its arguments.
    pub op: Option<OpId>,
    /// The start time.
    pub began: Nanoseconds,
    /// The end time.
    pub ended: Nanoseconds,
}

/// An allocation that has not been freed.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The pool.
    pub pool: PoolId,
    /// The size.
    pub bytes: u64,
    /// The operation that made it.
    pub op: OpId,
    /// The type, if known.
    pub ty: Option<TypeId>,
    /// The class.
    pub class: Class,
    /// Whether it has a name.
    pub is_named: bool,
    /// The scope it was allocated in.
    pub scope: Option<ScopeId>,
    owner: Option<CallRef>,
}

/// The figures of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolFigures {
    /// The currently allocated bytes.
    pub now: u64,
    /// The peak of the allocated bytes.
    pub peak: u64,
    /// The current number of allocations.
    pub count: u64,
    /// The total number of allocations so far.
    pub allocations: u64,
}

/// The options of a recording.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The maximum total size of its files. When it is reached, the oldest details are dropped. `None`: unlimited.
    pub limit: Option<u64>,
    /// The clock.
    pub clock: Clock,
}

/// The status of a recording at its last flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingStatus {
    /// The maximum size of the newest file.
    pub size: u64,
    /// The number of file changes.
    pub rotations: u64,
    /// The number of file changes after which the newest file does not have all complete iterations of earlier ones.
    pub forgotten: u64,
    /// The peak of the total size of all files.
    pub peak_on_disk: u64,
    /// The size of the newest file's opening.
    pub carried: u64,
    /// The sizes of the state kept in memory for the next file.
    pub kept: KeptSizes,
    /// The number of records that were lost because the recording had ended early.
    pub lost: u64,
}

/// The sizes of the state kept in memory for the next file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptSizes {
    /// The bytes of all names.
    pub name_bytes: usize,
    /// The allocation slots, used or not.
    pub allocations: usize,
    /// The call slots, used or not.
    pub calls: usize,
    /// The number of snapshots.
    pub snapshots: usize,
    /// The number of intervals in all curves.
    pub points: usize,
}
