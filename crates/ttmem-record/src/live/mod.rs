//! The live recorder: records what a running program does to memory, as reported by a binding to a framework.
//!
//! The [`Recorder`] has exact figures at any time (what is allocated, the peak, the totals of each scope), and writes a
//! recording with every allocation, the call that made it, the line of the program and the time. It does not depend on a
//! framework.
//!
//! `names` assigns ids, and `narrator` turns records into the events of the file. A recording may have a limit: then
//! `rotation` goes on in a new file whenever one is full, so a program may run for days.

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

/// The place of an allocation, until it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

/// A new allocation.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    /// Its pool.
    pub pool: PoolId,
    /// Its size.
    pub bytes: u64,
    /// The operation that made it.
    pub op: OpId,
    /// Its type, if known.
    pub ty: Option<TypeId>,
    /// Its class, as far as it is known yet.
    pub class: Class,
    /// The call that made it.
    pub within: Option<CallRef>,
}

/// A call that is reported when it is over.
#[derive(Clone, Copy, Debug)]
pub struct LateCall {
    /// Its scope.
    pub scope: ScopeId,
    /// Its thread or stream.
    pub lane: LaneId,
    /// The number of the call around it; `None`: the one that ran then.
    pub parent: Option<u64>,
    /// Its operation, with the types of its arguments.
    pub op: Option<OpId>,
    /// When it began.
    pub began: Nanoseconds,
    /// When it ended.
    pub ended: Nanoseconds,
}

/// An allocation that has not been freed.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Its pool.
    pub pool: PoolId,
    /// Its size.
    pub bytes: u64,
    /// The operation that made it.
    pub op: OpId,
    /// Its type, if known.
    pub ty: Option<TypeId>,
    /// Its class.
    pub class: Class,
    /// The scope that it was made in.
    pub scope: Option<ScopeId>,
    owner: Option<CallRef>,
}

/// The figures of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolFigures {
    /// The bytes that are allocated.
    pub now: u64,
    /// The most bytes that were allocated at a time.
    pub peak: u64,
    /// The current number of allocations.
    pub count: u64,
    /// The number of all allocations so far.
    pub allocations: u64,
}

/// The options of a recording.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The maximum size of all its files together. Beyond that, the oldest detail is dropped. `None`: unlimited.
    pub limit: Option<u64>,
    /// The clock.
    pub clock: Clock,
}

/// The status of a recording at its last flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingStatus {
    /// The maximum size of its newest file.
    pub size: u64,
    /// The number of times that a file was followed by another.
    pub rotations: u64,
    /// The largest size of all files together, at any of those times.
    pub most_on_disk: u64,
    /// The size of the newest file's opening.
    pub carried: u64,
    /// The state that is kept in memory for the next file.
    pub kept: KeptSizes,
    /// How many records came after the recording had ended early, and are in no file.
    pub lost: u64,
}

/// The size of the state that is kept in memory for the next file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptSizes {
    /// The bytes of all names.
    pub name_bytes: usize,
    /// The places of allocations, used or not.
    pub allocations: usize,
    /// The places of calls, used or not.
    pub calls: usize,
    /// The number of snapshots.
    pub snapshots: usize,
    /// The intervals of all curves.
    pub points: usize,
}
