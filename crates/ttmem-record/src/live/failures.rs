//! What went wrong in the program: allocations that failed, and the exception that ended it.

use super::queue::Parcel;
use super::{CallRef, Recorder};
use ttmem_model::{Fault, FaultKind, OpId, StrId};

/// An allocation that failed.
#[derive(Clone, Copy, Debug)]
pub struct FailedAllocation<'a> {
    /// The pool that it was to lie in.
    pub pool: &'a str,
    /// The bytes asked for, where the message says so.
    pub bytes: Option<u64>,
    /// What was free then, where that is known.
    pub free: Option<u64>,
    /// The operation that asked; it becomes a step. `None`: not known.
    pub op: Option<OpId>,
    /// The call it ran in.
    pub within: Option<CallRef>,
    /// The message of the error.
    pub message: &'a str,
}

impl Recorder {
    /// An allocation failed. The program may go on: [`last_failure_ended_program`](Self::last_failure_ended_program) says
    /// that it did not.
    pub fn allocation_failed(&mut self, failed: FailedAllocation<'_>) {
        let pool = self.pool(failed.pool, false);
        let allocated = self.pools.get(pool.index()).filter(|figures| figures.allocations > 0);
        // Below level `tensors`, none was seen.
        let allocated = allocated.map(|figures| figures.now);
        let (name, message) = (self.text(failed.pool), self.text(failed.message));
        let within = self.calls.running(failed.within);
        self.say_where(within);
        let fault = Fault {
            pool: Some(name),
            requested_total: failed.bytes,
            requested_per_bank: failed.bytes,
            banks: Some(1),
            allocated,
            free: failed.free,
            ..fault(FaultKind::OutOfMemory, message)
        };
        self.send(Parcel::Fault(fault, failed.op));
    }

    /// The allocation that failed last has ended the program.
    pub fn last_failure_ended_program(&mut self) {
        self.send(Parcel::FaultEnded);
    }

    /// An exception that is no failed allocation has ended the program.
    pub fn ended_by(&mut self, message: &str) {
        let message = self.text(message);
        let fault = Fault { ended_program: true, ..fault(FaultKind::Exception, message) };
        self.send(Parcel::Fault(fault, None));
    }
}

fn fault(kind: FaultKind, message: StrId) -> Fault {
    Fault {
        kind,
        pool: None,
        step: None,
        requested_total: None,
        requested_per_bank: None,
        banks: None,
        bank_size: None,
        allocated: None,
        free: None,
        largest_free: None,
        region_end: None,
        limit: None,
        message,
        line: 0,
        ended_program: false,
    }
}
