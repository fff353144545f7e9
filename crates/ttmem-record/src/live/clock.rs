//! The clock of a recorder: the system's monotonic clock, or a manual one for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ttmem_model::Nanoseconds;

/// A clock. Times count from its creation.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System(Instant),
    Manual(Arc<AtomicU64>),
}

/// Advances a manual clock, so that a day can pass in a second.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl Default for Clock {
    /// The system's clock.
    fn default() -> Self {
        Self(Source::System(Instant::now()))
    }
}

impl Clock {
    /// A clock that stands still until it is advanced.
    pub fn manual() -> (Self, ManualClock) {
        let time = Arc::new(AtomicU64::new(0));
        (Self(Source::Manual(Arc::clone(&time))), ManualClock(time))
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> Nanoseconds {
        match &self.0 {
            Source::System(began) => u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Source::Manual(time) => time.load(Ordering::Relaxed),
        }
    }
}

impl ManualClock {
    /// Advances the clock.
    pub fn advance(&self, by: Nanoseconds) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }
}
