//! The records and messages that the live recorder sends to its writer thread.

use ttmem_model::rules::calls::CallRef;
use ttmem_model::{
    Class, Event, Fault, HistoryRow, Holder, LaneId, Nanoseconds, OpId, Outcome, PoolId, Reading, ScopeId,
    StrId, TypeId,
};

use super::{LateCall, Place};
use crate::queue::Entry;

/// Frequent events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The time of the following records.
    Time(Nanoseconds),
    /// The call that the following records belong to.
    Within(Option<CallRef>),
    /// An allocation, which has a slot until it is freed.
    Allocated { place: Place, pool: PoolId, bytes: u64, op: OpId, ty: Option<TypeId>, class: Class },
    /// The allocation in a slot was freed.
    Freed(Place),
    /// The class or the name of an allocation is known now.
    Classified { place: Place, class: Class, name: Option<StrId> },
    /// Whether gradients are computed for an allocation.
    RequiresGrad(Place, bool),
    /// What keeps the allocation in a slot alive.
    HeldBy(Place, Holder),
    /// A call begins.
    Entered {
        call: CallRef,
        scope: ScopeId,
        lane: LaneId,
        parent: Option<CallRef>,
        op: Option<OpId>,
        began: Nanoseconds,
    },
    /// A call ends. An [`Outcome`] without its position, which the file knows, so that a record fits into 64 bytes.
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

/// Rare or large events.
#[derive(Debug)]
pub(super) enum Message {
    /// An event that is written unchanged.
    Event(Event<'static>),
    /// The next pool. It is empty now, or its level is known only from readings.
    Pool { name: StrId, text: String, is_empty: bool },
    /// Counters of a pool, at a separate step if there is an operation.
    Reading(PoolId, Reading, Option<OpId>),
    /// A call that has already ended.
    LateCall(LateCall),
    /// Rows of an allocator's history, with the numbers of their calls.
    History(Vec<(HistoryRow, Option<u64>)>),
    /// An error of the program, at a separate step if there is an operation.
    Fault(Fault, Option<OpId>),
    /// The last error ended the program.
    FaultEnded,
}
