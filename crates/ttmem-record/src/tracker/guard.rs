//! The guard of a capture.

use super::MemoryUsageTracker;

/// The name of a phase ended by a guard.
pub const DEFAULT_TRACE_NAME: &str = "END_TRACE";

/// Ends its capture and clears the tracker when it is dropped, unless it is released.
///
/// Does nothing if another capture has begun since.
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

    /// Releases the capture and returns its number, for callers with their own guards.
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
