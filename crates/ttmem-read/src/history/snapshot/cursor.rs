//! Turns new snapshot entries into history rows.

use ttmem_model::rules::allocator::Contents;
use ttmem_model::{Bytes, During, HistoryAction, HistoryRow, Nanoseconds, OpId, PoolId};

use super::entry::{Entries, Entry, Within};
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
    pub fn advance(
        &mut self,
        entries: Entries,
        end: Contents,
        mark: Option<Mark>,
        counted: Option<u64>,
    ) -> Update {
        let seen = entries.allocations();
        let since = counted.unwrap_or(0).saturating_sub(self.allocations);
        let forgotten = if self.is_begun { since.saturating_sub(seen) } else { 0 };
        let start = (!self.is_begun || forgotten > 0).then(|| {
            let actions = entries.as_slice().iter().map(|entry| (entry.action, entry.address, entry.bytes));
            end.before(actions)
        });
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
}

/// New entries in a device's history.
#[derive(Debug)]
pub struct Update {
    /// The number of allocations that the ring buffer has lost since the last snapshot.
    forgotten: u64,
    /// The contents of memory before the first entry, unless known from an earlier snapshot.
    start: Option<Contents>,
    entries: Entries,
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
        time_us.saturating_mul(1000).saturating_add(500).saturating_sub(self.began)
    }
}

/// A history row, with the data to fill in its IDs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateRow {
    /// The row.
    pub row: HistoryRow,
    /// The stack of an allocation: set `row.op` to the operation that allocates there.
    pub stack: Option<StackIndex>,
    /// The number of the call: set `row.during` to that call. If there is no such call, `row.during` is already
    /// correct.
    pub call: Option<u64>,
}

impl Update {
    /// The number of new entries.
    pub fn len(&self) -> usize {
        self.entries.as_slice().len()
    }

    /// Whether there are no new entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The new entries as rows, in order.
    pub fn rows(&self, ids: RowContext) -> impl Iterator<Item = UpdateRow> + '_ {
        let entries = self.entries.as_slice();
        let began = entries.first().map_or(ids.now, |entry| ids.time(entry.time_us));
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
        let start = self.start.iter().flat_map(move |start| start.rows(ids.pool, began));
        let before = forgotten.into_iter().chain(start).map(|row| UpdateRow { row, stack: None, call: None });
        before.chain(entries.iter().map(move |entry| row_of(entry, ids)))
    }
}

fn row_of(entry: &Entry, ids: RowContext) -> UpdateRow {
    let Entry { action, address, bytes, time_us, stack, within } = *entry;
    let is_allocation = matches!(action, HistoryAction::Allocated | HistoryAction::OutOfMemory);
    let (during, call) = match within {
        Within::Call(number) => (During::ByTime, Some(number)),
        Within::NoCall => (During::NoCall, None),
        Within::Unknown => (During::ByTime, None),
    };
    let row = HistoryRow {
        pool: ids.pool,
        action,
        address,
        bytes,
        block: Bytes::UNKNOWN,
        op: if is_allocation { ids.allocation } else { ids.other },
        during,
        time: ids.time(time_us),
    };
    UpdateRow { row, stack: stack.filter(|_| is_allocation), call }
}

#[cfg(test)]
mod tests;
