//! The account of one phase: the totals of the allocations and frees between two moments.
//!
//! The rules are those of ttnn's graph captures, so that a tracker and a capture of the same program agree. All figures
//! are relative to the start of the phase: earlier allocations are not included, and freeing them takes the account
//! below zero. DRAM is counted per device, and L1 per core; all circular buffers are assumed to be on the same core.

use super::{Phase, SessionId, Step, StrId, Totals};

/// A change of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A buffer in DRAM or its trace region.
    DramAllocated(u64),
    /// A buffer in DRAM was freed.
    DramFreed(u64),
    /// A buffer in L1 or its region for small buffers, in bytes per core.
    L1Allocated(u64),
    /// A buffer in L1 was freed.
    L1Freed(u64),
    /// A program's circular buffer with its own memory, in bytes per core.
    CircularBuffer(u64),
    /// Other program memory: a dataflow buffer with its own memory, or a scratchpad.
    ProgramBuffer(u64),
    /// All program buffers were freed.
    ProgramBuffersGone,
}

/// The account of a phase so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    dram: Running,
    allocations: u64,
    deallocations: u64,
    circular: Running,
    /// Program buffers other than circular buffers.
    other: i64,
    buffers: Running,
    core: Running,
}

/// DRAM usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DramUsage {
    /// The peak above the usage at the start; 0 if it was never exceeded.
    pub peak: i64,
    /// The total size of all allocations.
    pub total_allocations: u64,
    /// The total size of all frees.
    pub total_deallocations: u64,
}

impl DramUsage {
    /// The usage at the end minus the usage at the start.
    pub fn change(&self) -> i64 {
        signed(self.total_allocations).saturating_sub(signed(self.total_deallocations))
    }
}

/// L1 usage per core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct L1Usage {
    /// The peak of circular buffers.
    pub peak_cb: u64,
    /// The peak of other buffers.
    pub peak_buffer: u64,
    /// The peak of all together.
    pub peak_total: u64,
}

/// A sum and its peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Running {
    now: i64,
    peak: i64,
}

impl Running {
    fn add(&mut self, bytes: i64) {
        self.now = self.now.saturating_add(bytes);
        self.peak = self.peak.max(self.now);
    }
}

impl Segment {
    /// Applies a change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::DramAllocated(bytes) => {
                self.dram.add(signed(bytes));
                self.allocations = self.allocations.saturating_add(bytes);
            }
            Change::DramFreed(bytes) => {
                self.dram.add(-signed(bytes));
                self.deallocations = self.deallocations.saturating_add(bytes);
            }
            Change::L1Allocated(bytes) => {
                self.buffers.add(signed(bytes));
                self.core.add(signed(bytes));
            }
            Change::L1Freed(bytes) => {
                self.buffers.add(-signed(bytes));
                self.core.add(-signed(bytes));
            }
            Change::CircularBuffer(bytes) => {
                self.circular.add(signed(bytes));
                self.core.add(signed(bytes));
            }
            Change::ProgramBuffer(bytes) => {
                self.other = self.other.saturating_add(signed(bytes));
                self.core.add(signed(bytes));
            }
            Change::ProgramBuffersGone => {
                self.core.add(-self.circular.now.saturating_add(self.other));
                (self.circular.now, self.other) = (0, 0);
            }
        }
    }

    /// The DRAM usage.
    pub fn dram(&self) -> DramUsage {
        DramUsage {
            peak: self.dram.peak,
            total_allocations: self.allocations,
            total_deallocations: self.deallocations,
        }
    }

    /// The L1 usage.
    pub fn l1(&self) -> L1Usage {
        L1Usage {
            peak_cb: self.circular.peak.unsigned_abs(),
            peak_buffer: self.buffers.peak.unsigned_abs(),
            peak_total: self.core.peak.unsigned_abs(),
        }
    }

    /// The phase that ends here. `before` has the totals of the previous phases, and is updated to include this one.
    pub fn phase(
        &self,
        session: SessionId,
        name: StrId,
        steps: Option<(Step, Step)>,
        before: &mut Cumulative,
    ) -> Phase {
        let (dram, l1) = (self.dram(), self.l1());
        before.add(&dram);
        Phase {
            session,
            name,
            steps,
            line: None,
            segment_peak: Some(dram.peak),
            allocations: Some(dram.total_allocations),
            deallocations: Some(dram.total_deallocations),
            change: Some(dram.change()),
            cumulative_peak: Some(before.peak),
            cumulative_current: Some(before.current),
            l1_peak_cb: Some(l1.peak_cb),
            l1_peak_buffer: Some(l1.peak_buffer),
            l1_peak_total: Some(l1.peak_total),
        }
    }
}

/// The DRAM totals of all phases so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cumulative {
    /// The peak.
    pub peak: i64,
    /// The current usage.
    pub current: i64,
}

impl Cumulative {
    /// Adds a phase.
    pub fn add(&mut self, phase: &DramUsage) {
        self.peak = self.peak.max(self.current.saturating_add(phase.peak));
        self.current = self.current.saturating_add(phase.change());
    }
}

impl From<Cumulative> for Totals {
    fn from(all: Cumulative) -> Self {
        Self { peak: Some(all.peak), current: Some(all.current) }
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(changes: &[Change]) -> Segment {
        let mut segment = Segment::default();
        for change in changes {
            segment.apply(*change);
        }
        segment
    }

    #[test]
    fn what_was_there_before_takes_the_account_below_zero_but_not_its_peak() {
        let segment = after(&[Change::DramFreed(300), Change::DramAllocated(100)]);
        let dram = segment.dram();
        assert_eq!((dram.peak, dram.change()), (0, -200));
        assert_eq!((dram.total_allocations, dram.total_deallocations), (100, 300));
    }

    #[test]
    fn the_peak_of_a_core_is_that_of_one_moment_not_the_sum_of_peaks() {
        let segment = after(&[
            Change::L1Allocated(500),
            Change::L1Freed(500),
            Change::CircularBuffer(200),
            Change::ProgramBuffer(50),
            Change::ProgramBuffersGone,
            Change::CircularBuffer(100),
            Change::L1Allocated(300),
        ]);
        assert_eq!(segment.l1(), L1Usage { peak_cb: 200, peak_buffer: 500, peak_total: 500 });
    }

    #[test]
    fn absurd_sizes_stay_within_what_a_number_holds() {
        let most = Change::DramAllocated(u64::MAX);
        let segment = after(&[most, most, Change::DramFreed(u64::MAX)]);
        assert_eq!(segment.dram().peak, i64::MAX);
        let mut all = Cumulative::default();
        all.add(&segment.dram());
        all.add(&segment.dram());
        assert_eq!(all.peak, i64::MAX);
    }
}
