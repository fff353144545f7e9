//! What the live recorder tells the thread that writes its recording.

use ttmem_model::rules::calls::CallRef;
use ttmem_model::{
    Class, Event, Fault, HistoryRow, LaneId, Nanoseconds, OpId, Outcome, PoolId, Reading, ScopeId, StrId,
    TypeId,
};

use super::{LateCall, Place};
use crate::queue::Entry;

/// What happens often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The time of what follows.
    Time(Nanoseconds),
    /// The call that what follows belongs to.
    Within(Option<CallRef>),
    /// An allocation, which has a place until it is freed.
    Allocated { place: Place, pool: PoolId, bytes: u64, op: OpId, ty: Option<TypeId>, class: Class },
    /// The allocation at a place was freed.
    Freed(Place),
    /// The class of an allocation has become known, or its name.
    Classified { place: Place, class: Class, name: Option<StrId> },
    /// Whether gradients are computed for an allocation.
    RequiresGrad(Place, bool),
    /// A call begins.
    Entered {
        call: CallRef,
        scope: ScopeId,
        lane: LaneId,
        parent: Option<CallRef>,
        op: Option<OpId>,
        began: Nanoseconds,
    },
    /// A call ends. This is an [`Outcome`] without its position, which the file has: so a record has 64 bytes.
    Returned {
        call: CallRef,
        ended: Nanoseconds,
        allocated: u64,
        freed: u64,
        peak: u64,
        kept: u64,
        allocations: u64,
        frees: u64,
    },
    /// A snapshot.
    Snapshot { name: Option<StrId>, time: Nanoseconds },
}

const _: () = assert!(size_of::<Entry<Record>>() <= 64, "a record does not fit into a cache line");

impl Record {
    /// The end of a call.
    pub fn returned(call: CallRef, outcome: &Outcome) -> Self {
        let &Outcome { ended, end: _, allocated, freed, peak, kept, allocations, frees } = outcome;
        Self::Returned { call, ended, allocated, freed, peak, kept, allocations, frees }
    }

    /// The outcome of a call that ends.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Returned { call: _, ended, allocated, freed, peak, kept, allocations, frees } => {
                Outcome { ended, end: 0, allocated, freed, peak, kept, allocations, frees }
            }
            _ => Outcome::default(),
        }
    }
}

/// What happens rarely, or is large.
#[derive(Debug)]
pub(super) enum Message {
    /// An event that is written as it is.
    Event(Event<'static>),
    /// The next pool. It is empty now, or only readings say what it holds.
    Pool { name: StrId, text: String, is_empty: bool },
    /// Counters of a pool; at a step of their own if there is an operation.
    Reading(PoolId, Reading, Option<OpId>),
    /// A call that is over already.
    LateCall(LateCall),
    /// A row of an allocator's history, and the number of the call that it belongs to.
    History(HistoryRow, Option<u64>),
    /// An error of the program; at a step of its own if there is an operation.
    Fault(Fault, Option<OpId>),
    /// The last error has ended the program.
    FaultEnded,
}
