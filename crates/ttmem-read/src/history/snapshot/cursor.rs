//! Turns new snapshot entries into history rows.

use ttmem_model::rules::allocator::Contents;
use ttmem_model::{Bytes, During, HistoryAction, HistoryRow, Nanoseconds, OpId, PoolId};

use super::entry::{Entries, Entry, LiveOrigin, Within};
use super::mark::{Mark, Trace};
use super::stacks::StackIndex;

/// The operation name of an allocation with an unknown stack.
pub const ALLOCATION: &str = "alloc";
/// The operation name of everything that is not an allocation.
pub const OTHER: &str = "free";

/// The position in a device's history, kept between snapshots.
#[derive(Clone, Debug, Default)]
pub struct HistoryCursor {
    is_begun: bool,
    mark: Mark,
    /// The number of allocations that the device had made up to this position.
    allocations: u64,
}

impl HistoryCursor {
    /// The first entry of a trace that was not read before.
    pub fn first_new<T: Trace>(&self, trace: &T) -> Result<usize, T::Error> {
        self.mark.find(trace)
    }

    /// Adds the `entries` that were not read before. `mark` is the end of their trace, `end` is the content of the
    /// device's memory after it, and `counted` is the number of allocations made by the device, if its allocator counts
    /// them.
    pub fn advance<O>(
        &mut self,
        entries: Entries<O>,
        end: Contents,
        mark: Option<Mark>,
        counted: Option<u64>,
    ) -> Update<O> {
        let seen = entries.allocations();
        let since = counted.unwrap_or(0).saturating_sub(self.allocations);
        let forgotten = if self.is_begun { since.saturating_sub(seen) } else { 0 };
        let start = (!self.is_begun || forgotten > 0)
            .then(|| end.before(entries.iter().map(|entry| (entry.action, entry.address, entry.bytes))));
        self.is_begun = true;
        if let Some(mark) = mark {
            self.mark = mark;
        }
        if let Some(counted) = counted {
            // Other threads may have allocated between the count and the snapshot.
            self.allocations = counted.max(self.allocations.saturating_add(seen));
        }
        Update { forgotten, start, entries }
    }

    /// Adds entries that follow those added before, without a gap. The next trace begins after them.
    pub fn advance_directly<O>(&mut self, entries: Entries<O>) -> Update<O> {
        self.allocations = self.allocations.saturating_add(entries.allocations());
        self.mark = Mark::default();
        Update { forgotten: 0, start: None, entries }
    }

    /// Whether a snapshot was added.
    pub fn is_begun(&self) -> bool {
        self.is_begun
    }
}

/// New entries in a device's history.
#[derive(Debug)]
pub struct Update<O> {
    /// The number of allocations that the ring buffer has lost since the last snapshot.
    forgotten: u64,
    /// The contents of memory before the first entry, unless known from an earlier snapshot.
    start: Option<Contents>,
    entries: Entries<O>,
}

/// IDs and times from the recording that rows need.
#[derive(Clone, Copy, Debug)]
pub struct RowContext {
    /// The pool of the device.
    pub pool: PoolId,
    /// The operation called [`ALLOCATION`].
    pub allocation: OpId,
    /// The operation called [`OTHER`].
    pub other: OpId,
    /// The start of the recording as Unix time, in nanoseconds.
    pub began: u64,
    /// The time since then, for rows that do not have a time.
    pub now: Nanoseconds,
}

impl RowContext {
    /// The time of an entry: the middle of its microsecond, because the exact time is unknown.
    fn time(&self, time_us: u64) -> Nanoseconds {
        Self::time_since(self.began, time_us)
    }

    /// The same for any start.
    pub(crate) fn time_since(began: u64, time_us: u64) -> Nanoseconds {
        time_us.saturating_mul(1000).saturating_add(500).saturating_sub(began)
    }
}

/// A history row, with the data to fill in its IDs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateRow<O> {
    /// The row. `op` and `during` do not consider the origin.
    pub row: HistoryRow,
    /// The origin of an entry.
    pub origin: Option<O>,
    /// The origin of a block that existed before the first entry, if the snapshot has it: [`SegmentBlock::origin`].
    ///
    /// [`SegmentBlock::origin`]: super::SegmentBlock::origin
    pub block_origin: Option<u32>,
}

impl<O> UpdateRow<O> {
    /// Whether the row needs the operation that allocates.
    pub fn is_allocation(&self) -> bool {
        matches!(self.row.action, HistoryAction::Allocated | HistoryAction::OutOfMemory)
    }
}

impl UpdateRow<LiveOrigin> {
    /// The stack of an allocation: set `row.op` to the operation that allocates there.
    pub fn stack(&self) -> Option<StackIndex> {
        self.origin.filter(|_| self.is_allocation()).and_then(|origin| origin.stack)
    }

    /// The row with its call, and the number of the call, if it has one: set `row.during` to that call. If there is no
    /// such call, `row.during` is already correct.
    pub fn in_call(&self) -> (HistoryRow, Option<u64>) {
        let (during, call) = match self.origin.map(|origin| origin.within) {
            Some(Within::Call(number)) => (During::ByTime, Some(number)),
            Some(Within::NoCall) => (During::NoCall, None),
            Some(Within::Unknown) => (During::ByTime, None),
            None => (self.row.during, None),
        };
        (HistoryRow { during, ..self.row }, call)
    }
}

impl<O> Update<O> {
    /// The number of new entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no new entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The contents of memory before the first entry, unless known from an earlier snapshot.
    pub fn start(&self) -> Option<&Contents> {
        self.start.as_ref()
    }

    /// The new entries as rows, in order.
    pub fn into_rows(self, ids: RowContext) -> impl Iterator<Item = UpdateRow<O>> {
        let began = self.entries.iter().next().map_or(ids.now, |entry| ids.time(entry.time_us));
        let forgotten = (self.forgotten > 0).then_some(HistoryRow {
            pool: ids.pool,
            action: HistoryAction::Forgotten,
            address: 0,
            bytes: self.forgotten,
            block: Bytes::UNKNOWN,
            op: ids.other,
            during: During::NoCall,
            time: began,
        });
        let forgotten = forgotten.map(|row| (row, None));
        let start = self.start.map(|start| start.rows(ids.pool, began)).into_iter().flatten();
        let before = forgotten.into_iter().chain(start);
        let before = before.map(|(row, block_origin)| UpdateRow { row, origin: None, block_origin });
        before.chain(self.entries.into_iter().map(move |entry| row_of(entry, ids)))
    }
}

fn row_of<O>(entry: Entry<O>, ids: RowContext) -> UpdateRow<O> {
    let Entry { action, address, bytes, time_us, origin } = entry;
    let row = HistoryRow {
        pool: ids.pool,
        action,
        address,
        bytes,
        block: Bytes::UNKNOWN,
        op: ids.other,
        during: During::ByTime,
        time: ids.time(time_us),
    };
    let mut row = UpdateRow { row, origin: Some(origin), block_origin: None };
    if row.is_allocation() {
        row.row.op = ids.allocation;
    }
    row
}

#[cfg(test)]
mod tests;
