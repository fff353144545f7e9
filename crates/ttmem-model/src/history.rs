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

/// One action of an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRow {
    /// The pool.
    pub pool: PoolId,
    /// The action.
    pub action: HistoryAction,
    /// The address.
    pub address: u64,
    /// The requested bytes.
    pub bytes: u64,
    /// The size of the block, if known.
    pub block: Bytes,
    /// The operation, with its call stack.
    pub op: OpId,
    /// The call.
    pub during: During,
    /// The time.
    pub time: Nanoseconds,
}

/// The number of rows in a chunk.
const CHUNK: usize = 1 << 14;

/// The actions of a rank's allocators, in order for each pool. There may be millions, so they are kept in chunks, which
/// are released one by one while the rows are placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    chunks: Vec<Chunk>,
}

/// Consecutive rows of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryChunk(Chunk);

impl HistoryChunk {
    /// The rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = HistoryRow> + '_ {
        self.0.iter()
    }
}

/// Rows of one kind. All fields of a row are used together, so they are stored together.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Chunk {
    Usual(Vec<UsualRow>),
    /// Any rows, so that rows of both kinds that alternate do not make a chunk each.
    Any(Vec<HistoryRow>),
}

/// A row with an unknown block size, whose call follows from its time: 32 bytes instead of 56.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UsualRow {
    address: u64,
    bytes: u64,
    time: Nanoseconds,
    op: OpId,
    pool: u16,
    action: HistoryAction,
}

impl UsualRow {
    fn new(row: &HistoryRow) -> Option<Self> {
        let HistoryRow { pool, action, address, bytes, block, op, during, time } = *row;
        let pool = u16::try_from(pool.index()).ok()?;
        let is_usual = block == Bytes::UNKNOWN && during == During::ByTime;
        is_usual.then_some(Self { address, bytes, time, op, pool, action })
    }

    fn row(self) -> Option<HistoryRow> {
        let Self { address, bytes, time, op, pool, action } = self;
        let (pool, block, during) = (PoolId::new(pool.into())?, Bytes::UNKNOWN, During::ByTime);
        Some(HistoryRow { pool, action, address, bytes, block, op, during, time })
    }
}

impl Chunk {
    fn len(&self) -> usize {
        match self {
            Self::Usual(rows) => rows.len(),
            Self::Any(rows) => rows.len(),
        }
    }

    /// The rows of both kinds; one of the iterators is empty.
    fn iter(&self) -> impl Iterator<Item = HistoryRow> + '_ {
        let (usual, any): (&[UsualRow], &[HistoryRow]) = match self {
            Self::Usual(rows) => (rows, &[]),
            Self::Any(rows) => (&[], rows),
        };
        usual.iter().filter_map(|row| row.row()).chain(any.iter().copied())
    }
}

impl History {
    /// Adds a row.
    pub fn push(&mut self, row: HistoryRow) {
        // The first chunk grows, because most histories are short.
        let capacity = if self.chunks.is_empty() { 0 } else { CHUNK };
        let last = self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK);
        match (UsualRow::new(&row), last) {
            (Some(row), Some(Chunk::Usual(rows))) => rows.push(row),
            (_, Some(Chunk::Any(rows))) => rows.push(row),
            (Some(row), _) => {
                let mut rows = Vec::with_capacity(capacity);
                rows.push(row);
                self.chunks.push(Chunk::Usual(rows));
            }
            (None, _) => self.chunks.push(Chunk::Any(vec![row])),
        }
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = HistoryRow> + '_ {
        self.chunks.iter().flat_map(Chunk::iter)
    }

    /// The calls of the rows whose call does not follow from their time.
    pub fn during_mut(&mut self) -> impl Iterator<Item = &mut During> {
        self.chunks
            .iter_mut()
            .flat_map(|chunk| match chunk {
                Chunk::Usual(_) => [].iter_mut(),
                Chunk::Any(rows) => rows.iter_mut(),
            })
            .map(|row| &mut row.during)
    }

    /// Passes all rows to a function, in order. Each chunk is released after its last row.
    pub fn consume(self, mut take: impl FnMut(&HistoryRow)) {
        for chunk in self.chunks {
            chunk.iter().for_each(|row| take(&row));
        }
    }

    /// The rows in chunks, in order.
    pub fn into_chunks(self) -> impl Iterator<Item = HistoryChunk> {
        self.chunks.into_iter().map(HistoryChunk)
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(Chunk::len).sum()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both_kinds_stay_in_order() {
        let usual = HistoryRow {
            pool: PoolId::new(3).unwrap(),
            action: HistoryAction::Freed,
            address: u64::MAX,
            bytes: 7,
            block: Bytes::UNKNOWN,
            op: OpId::new(9).unwrap(),
            during: During::ByTime,
            time: 11,
        };
        let in_call = HistoryRow { during: During::NoCall, ..usual };
        let known = HistoryRow { block: Bytes::known(512), ..usual };
        let far = HistoryRow { pool: PoolId::new(1 << 20).unwrap(), ..usual };
        let rows: Vec<HistoryRow> =
            [usual, in_call, known, usual, usual, far].into_iter().cycle().take(3 * CHUNK).collect();
        let mut history = History::default();
        for row in &rows {
            history.push(*row);
        }
        assert_eq!((history.len(), history.iter().collect::<Vec<_>>()), (rows.len(), rows.clone()));
        let mut found = Vec::new();
        history.consume(|row| found.push(*row));
        assert_eq!(found, rows);
        assert_eq!(size_of::<UsualRow>(), 32);
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
