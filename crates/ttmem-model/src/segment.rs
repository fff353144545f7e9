//! The account of one phase: what allocations and frees between two moments add up to.
//!
//! The rules are those of ttnn's graph captures, so that a tracker that is told of each allocation, and a capture of the
//! same program, say the same. All figures are relative to the start of the phase: what was there before is not seen, and
//! giving it back takes the account below zero. DRAM counts whole devices, L1 counts one core, on which all circular
//! buffers are taken to lie.

use super::{Phase, SessionId, Step, StrId, Totals};

/// Something that changes what is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A buffer in DRAM, its trace region included.
    DramAllocated(u64),
    /// A buffer in DRAM is gone.
    DramFreed(u64),
    /// A buffer in L1, its region for small ones included: what it takes of a core.
    L1Allocated(u64),
    /// A buffer in L1 is gone.
    L1Freed(u64),
    /// A circular buffer of a program that has memory of its own: what it takes of a core.
    CircularBuffer(u64),
    /// Other memory of a program: a dataflow buffer that borrows nothing, or a scratchpad.
    ProgramBuffer(u64),
    /// All that belongs to programs is gone.
    ProgramBuffersGone,
}

/// The account of a phase, as far as it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    dram: Running,
    allocations: u64,
    deallocations: u64,
    circular: Running,
    /// What belongs to programs and is no circular buffer.
    other: i64,
    buffers: Running,
    core: Running,
}

/// What happened in DRAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DramUsage {
    /// The highest use above the start; 0 if it was never above.
    pub peak: i64,
    /// The bytes of all allocations.
    pub total_allocations: u64,
    /// The bytes of all frees.
    pub total_deallocations: u64,
}

impl DramUsage {
    /// How much more is in use at the end than at the start.
    pub fn change(&self) -> i64 {
        signed(self.total_allocations).saturating_sub(signed(self.total_deallocations))
    }
}

/// What happened in L1, on a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct L1Usage {
    /// The most that circular buffers took.
    pub peak_cb: u64,
    /// The most that buffers took.
    pub peak_buffer: u64,
    /// The most that all took at once.
    pub peak_total: u64,
}

/// A sum and the highest it was.
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
    /// Takes a change down.
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

    /// What happened in DRAM.
    pub fn dram(&self) -> DramUsage {
        DramUsage {
            peak: self.dram.peak,
            total_allocations: self.allocations,
            total_deallocations: self.deallocations,
        }
    }

    /// What happened in L1.
    pub fn l1(&self) -> L1Usage {
        L1Usage {
            peak_cb: self.circular.peak.unsigned_abs(),
            peak_buffer: self.buffers.peak.unsigned_abs(),
            peak_total: self.core.peak.unsigned_abs(),
        }
    }

    /// The phase that ends here. `before` is what the phases before it came to, and comes to include it.
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

/// What all phases so far came to, in DRAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cumulative {
    /// The highest use.
    pub peak: i64,
    /// The use now.
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
