//! The guard of a capture.

use super::MemoryUsageTracker;

/// The name of the phase that a guard ends, where nobody else has.
pub const DEFAULT_TRACE_NAME: &str = "END_TRACE";

/// Ends its capture and clears the tracker when it is dropped, unless it is released.
///
/// It looks after its own capture only: once another has begun, it does nothing.
#[derive(Debug)]
#[must_use = "a capture ends when its guard is dropped"]
pub struct CaptureGuard {
    tracker: Option<MemoryUsageTracker>,
    capture: u64,
}

impl CaptureGuard {
    pub(super) fn new(tracker: MemoryUsageTracker, capture: u64) -> Self {
        Self { tracker: Some(tracker), capture }
    }

    /// Leaves the capture and the phases as they are.
    pub fn release(mut self) {
        self.tracker = None;
    }

    /// The number of its capture, for who keeps guards of another kind and lets this one go.
    pub fn into_capture(mut self) -> u64 {
        self.tracker = None;
        self.capture
    }
}

impl Drop for CaptureGuard {
    fn drop(&mut self) {
        if let Some(tracker) = self.tracker.take() {
            tracker.end_and_clear(self.capture);
        }
    }
}
