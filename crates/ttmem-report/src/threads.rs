//! A temporary thread pool for writing a report.
//!
//! Not rayon's global pool: its threads stay, and a process that forks afterwards (as Python may) would wait for
//! threads that do not exist in the child.

use rayon::ThreadPoolBuilder;

/// Runs `work` with a thread per core, or on this thread alone if no threads can be started.
pub(super) fn with_threads<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if rayon::current_thread_index().is_some() {
        return work();
    }
    let alone = || ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    match ThreadPoolBuilder::new().build().or_else(|_| alone()) {
        Ok(threads) => threads.install(work),
        Err(_) => work(),
    }
}
