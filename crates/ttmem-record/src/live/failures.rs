//! Errors of the program: failed allocations, and the exception that ended it.

use ttmem_model::{Fault, FaultKind, OpId, StrId};

use super::record::Message;
use super::{CallRef, Recorder};

/// A failed allocation.
#[derive(Clone, Copy, Debug)]
pub struct FailedAllocation<'a> {
    /// The pool.
    pub pool: &'a str,
    /// The requested bytes, if known.
    pub bytes: Option<u64>,
    /// The free bytes at that time, if known.
    pub free: Option<u64>,
    /// The operation, which becomes a step; `None` if unknown.
    pub op: Option<OpId>,
    /// The enclosing call.
    pub within: Option<CallRef>,
    /// The error message.
    pub message: &'a str,
}

impl Recorder {
    /// Reports a failed allocation. The program may continue; if it does not, call
    /// [`last_failure_ended_program`](Self::last_failure_ended_program).
    pub fn allocation_failed(&mut self, failed: FailedAllocation<'_>) {
        let pool = self.pool(failed.pool, false);
        let allocated = self.pools.get(pool.index()).filter(|figures| figures.allocations > 0);
        // Below level `tensors`, allocations are unknown.
        let allocated = allocated.map(|figures| figures.now);
        let (name, message) = (self.text(failed.pool), self.text(failed.message));
        let within = self.calls.running(failed.within);
        self.write_position(within);
        let fault = Fault {
            pool: Some(name),
            requested_total: failed.bytes,
            requested_per_bank: failed.bytes,
            banks: Some(1),
            allocated,
            free: failed.free,
            ..fault(FaultKind::OutOfMemory, message)
        };
        self.recording.send(Message::Fault(fault, failed.op));
    }

    /// Reports that the last failed allocation ended the program.
    pub fn last_failure_ended_program(&mut self) {
        self.recording.send(Message::FaultEnded);
    }

    /// Reports that an exception other than a failed allocation ended the program.
    pub fn ended_by(&mut self, message: &str) {
        let message = self.text(message);
        let fault = Fault { ended_program: true, ..fault(FaultKind::Exception, message) };
        self.recording.send(Message::Fault(fault, None));
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
