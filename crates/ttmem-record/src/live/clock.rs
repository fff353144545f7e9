//! Where the recorder has the time from: the system's clock, which never goes back, or somebody who tells it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ttmem_model::Nanoseconds;

/// A clock. Its times are since it was made.
#[derive(Clone, Debug)]
pub struct Clock(Of);

#[derive(Clone, Debug)]
enum Of {
    System(Instant),
    Told(Arc<AtomicU64>),
}

/// Tells a clock what time it is: so a day passes in a second.
#[derive(Clone, Debug)]
pub struct Hands(Arc<AtomicU64>);

impl Default for Clock {
    /// The clock of the system.
    fn default() -> Self {
        Self(Of::System(Instant::now()))
    }
}

impl Clock {
    /// A clock that stands still unless its hands are moved.
    pub fn told() -> (Self, Hands) {
        let time = Arc::new(AtomicU64::new(0));
        (Self(Of::Told(Arc::clone(&time))), Hands(time))
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> Nanoseconds {
        match &self.0 {
            Of::System(began) => u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Of::Told(time) => time.load(Ordering::Relaxed),
        }
    }
}

impl Hands {
    /// Time passes.
    pub fn advance(&self, by: Nanoseconds) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }
}
