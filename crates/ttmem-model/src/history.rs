//! What an allocator says afterwards of what it did: its history, and what is known of addresses.
//!
//! Whoever watches such an allocator does not see allocations as they happen. So these rows have times and no place
//! among the steps of a rank; `history::place` gives them one when the evidence is read.

use serde::{Deserialize, Serialize};

use super::columns::columns;
use super::{Bytes, CallId, Class, Nanoseconds, OpId, PoolId, StrId, TypeId};

/// What an allocator did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryAction {
    /// It took memory from the driver.
    Reserved,
    /// It gave memory back to the driver.
    Released,
    /// It took memory from the driver that continues what it has: a segment that grows.
    Mapped,
    /// It gave back memory of a segment that grows and shrinks.
    Unmapped,
    /// Something was there when the history began.
    There,
    /// Something was allocated.
    Allocated,
    /// It was given back by the program; a stream may still use it.
    FreeRequested,
    /// No stream uses it any more.
    FreeCompleted,
    /// It was given back, and no stream used it.
    Freed,
    /// There was no memory left: `bytes` were asked for, and `address` says how many the driver had left.
    OutOfMemory,
    /// What happened before this is not known: `bytes` allocations were forgotten. All that is there is said anew.
    Forgotten,
    /// A counter: the most that was allocated at a time since the row of this kind before was `bytes`.
    Highest,
}

impl HistoryAction {
    /// All of them, in order.
    pub const ALL: [Self; 12] = [
        Self::Reserved,
        Self::Released,
        Self::Mapped,
        Self::Unmapped,
        Self::There,
        Self::Allocated,
        Self::FreeRequested,
        Self::FreeCompleted,
        Self::Freed,
        Self::OutOfMemory,
        Self::Forgotten,
        Self::Highest,
    ];
}

/// In which call something happened that was learned of afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum During {
    /// In this one.
    Call(CallId),
    /// In none.
    NoCall,
    /// In the one that ran at that time: nobody has said which.
    ByTime,
}

columns! {
    /// One thing that an allocator did.
    row HistoryRow;
    /// What the allocators of a rank did, those of one pool in order.
    table History;
    /// Whose memory.
    pool: PoolId,
    /// What it did.
    action: HistoryAction,
    /// Where.
    address: u64,
    /// How much: as the program asked for it.
    bytes: u64,
    /// The size of the block that it got, where that is known.
    block: Bytes,
    /// By which operation, called from where.
    op: OpId,
    /// In which call.
    during: During,
    /// When.
    time: Nanoseconds,
}

columns! {
    /// What lies at an address, as somebody saw who came by.
    row Label;
    /// What was seen at addresses, in order.
    table Labels;
    /// In whose memory.
    pool: PoolId,
    /// Where it begins.
    address: u64,
    /// Its bytes.
    bytes: u64,
    /// When.
    time: Nanoseconds,
    /// Of what type.
    ty: Option<TypeId>,
    /// What it is to the model.
    class: Class,
    /// What people call it.
    name: Option<StrId>,
    /// Whether gradients are computed for it.
    requires_grad: Option<bool>,
}
