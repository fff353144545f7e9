//! Threads for as long as a report is written.
//!
//! Not rayon's own: those stay, and a process that forks afterwards (Python does) would wait for threads that its
//! child does not have.

use rayon::ThreadPoolBuilder;

/// Does work with as many threads as there are cores; with this one alone where no more can be started.
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
