//! The history of a caching allocator, reported afterwards, and labels of addresses.
//!
//! A recorder does not see such an allocator's allocations as they happen. So these rows have times, but no position
//! among the steps of a rank; `history::place` assigns one when the input is read.

use serde::{Deserialize, Serialize};

use super::columns::columns;
use super::{Bytes, CallId, Class, Nanoseconds, OpId, PoolId, StrId, TypeId};

/// An action of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryAction {
    /// Memory was reserved from the driver.
    Reserved,
    /// Memory was released to the driver.
    Released,
    /// Memory was reserved from the driver that extends an expandable segment.
    Mapped,
    /// Memory of an expandable segment was released.
    Unmapped,
    /// A block existed when the history began.
    There,
    /// A block was allocated.
    Allocated,
    /// The program freed a block; a stream may still use it.
    FreeRequested,
    /// No stream uses the block any more.
    FreeCompleted,
    /// A block was freed, and no stream used it.
    Freed,
    /// An allocation of `bytes` failed; `address` is the free memory of the driver.
    OutOfMemory,
    /// The history before this is unknown: `bytes` allocations were dropped. All existing blocks are reported again.
    Forgotten,
    /// A counter: the peak of the allocated bytes since the previous row of this kind.
    Highest,
}

impl HistoryAction {
    /// All actions, in order.
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

/// The call of an action that was reported afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum During {
    /// A known call.
    Call(CallId),
    /// No call.
    NoCall,
    /// The call that was running at that time.
    ByTime,
}

columns! {
    /// One action of an allocator.
    row HistoryRow;
    /// Some of a rank's [`History`].
    table HistoryChunk;
    /// The pool.
    pool: PoolId,
    /// The action.
    action: HistoryAction,
    /// The address.
    address: u64,
    /// The requested bytes.
    bytes: u64,
    /// The size of the block, if known.
    block: Bytes,
    /// The operation, with its call stack.
    op: OpId,
    /// The call.
    during: During,
    /// The time.
    time: Nanoseconds,
}

/// The number of rows in a chunk.
const CHUNK: usize = 1 << 14;

/// The actions of a rank's allocators, in order for each pool. There may be millions, so they are kept in chunks, which
/// are released one by one while the rows are placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    chunks: Vec<HistoryChunk>,
}

impl History {
    /// Adds a row.
    pub fn push(&mut self, row: HistoryRow) {
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(row),
            None => {
                let mut chunk = HistoryChunk::default();
                chunk.push(row);
                self.chunks.push(chunk);
            }
        }
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = HistoryRow> + '_ {
        self.chunks.iter().flat_map(HistoryChunk::iter)
    }

    /// The calls of all rows, in order.
    pub fn during_mut(&mut self) -> impl Iterator<Item = &mut During> {
        self.chunks.iter_mut().flat_map(|chunk| &mut chunk.during)
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(HistoryChunk::len).sum()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

impl IntoIterator for History {
    type Item = HistoryRow;
    type IntoIter = Box<dyn Iterator<Item = HistoryRow>>;

    /// All rows, in order. Each chunk is released after its last row.
    fn into_iter(self) -> Self::IntoIter {
        let rows = |chunk: HistoryChunk| (0..chunk.len()).filter_map(move |index| chunk.get(index));
        Box::new(self.chunks.into_iter().flat_map(rows))
    }
}

columns! {
    /// The contents of an address, observed at a time.
    row Label;
    /// The observed contents of addresses, in order.
    table Labels;
    /// The pool.
    pool: PoolId,
    /// The start address.
    address: u64,
    /// The size.
    bytes: u64,
    /// The time.
    time: Nanoseconds,
    /// The type.
    ty: Option<TypeId>,
    /// The class.
    class: Class,
    /// The name.
    name: Option<StrId>,
    /// Whether gradients are computed for it.
    requires_grad: Option<bool>,
}
