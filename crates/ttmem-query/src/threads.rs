//! Runs two analyses at the same time.
//!
//! Not with rayon's global pool: its threads stay, and a process that forks afterwards (as Python may) would wait for them
//! forever.

use std::thread::{Builder, scope};

/// From this number of steps on, a second thread is worth it for most analyses.
pub(crate) const MANY_STEPS: usize = 100_000;

/// Runs both functions and returns their results. A second thread is worth it only if there is much to do.
pub(crate) fn both<A: Send, B>(
    is_large: bool,
    one: impl Fn() -> A + Sync,
    other: impl FnOnce() -> B,
) -> (A, B) {
    if !is_large {
        return (one(), other());
    }
    scope(|scope| {
        // Without a second thread, this one does both.
        let running = Builder::new().spawn_scoped(scope, &one);
        let other = other();
        let one = match running {
            Ok(running) => running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => one(),
        };
        (one, other)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_results_are_returned() {
        for is_large in [false, true] {
            assert_eq!(both(is_large, || 1, || "two"), (1, "two"));
        }
    }
}
