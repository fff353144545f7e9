//! The phase tracker: divides a program into phases and measures the memory use of each.
//!
//! A program reports every allocation and free, and calls [`snapshot`](MemoryUsageTracker::snapshot) at the end of each
//! phase. The tracker has exact figures at any time, and can write a recording with every allocation, the phases and the
//! peak. [`Segment`](ttmem_model::Segment) defines the figures of a phase.
//!
//! This file is the interface. `account` keeps the figures, `narrator` turns records into the events of the file, and
//! `usage_text` prints.
//!
//! ```
//! use ttmem_record::tracker::{MemoryUsageTracker, Pool, RunMode};
//!
//! let tracker = MemoryUsageTracker::new();
//! let guard = tracker.begin_capture(RunMode::Normal)?;
//! tracker.record_alloc(1, 3 << 20, Pool::Dram);
//! tracker.snapshot("MODEL_CREATION")?;
//! tracker.record_alloc(2, 1 << 20, Pool::Dram);
//! tracker.record_free(2);
//! tracker.end_capture("FORWARD_PASS")?;
//! assert_eq!(tracker.get_dram_usage("FORWARD_PASS")?.peak, 1 << 20);
//! tracker.print_memory_usage(&mut std::io::stdout())?;
//! guard.release();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
mod error;
mod guard;
mod narrator;
mod record;
mod usage_text;

pub use error::TrackerError;
pub use guard::{CaptureGuard, DEFAULT_TRACE_NAME};

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use ttmem_model::{Change, DramUsage, L1Usage};

use super::recording::{Finishing, Recording};
use account::Account;
use narrator::Narrator;

/// Whether a program's operations run while it is captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunMode {
    /// Operations run.
    #[default]
    Normal,
    /// Operations don't run, and nothing is allocated: the program only reports sizes. The figures are estimates.
    NoDispatch,
}

impl fmt::Display for RunMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "NORMAL",
            Self::NoDispatch => "NO_DISPATCH",
        })
    }
}

/// The pool of an allocation. Sizes in DRAM and TRACE are totals for the device, sizes in L1 and L1_SMALL are per core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Pool {
    /// Device memory.
    Dram,
    /// Core-local memory.
    L1,
    /// The part of L1 reserved for small buffers. Phases count it as L1.
    L1Small,
    /// The part of DRAM reserved for traces. Phases count it as DRAM.
    Trace,
}

impl Pool {
    const ALL: [Self; 4] = [Self::Dram, Self::L1, Self::L1Small, Self::Trace];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dram => "DRAM",
            Self::L1 => "L1",
            Self::L1Small => "L1_SMALL",
            Self::Trace => "TRACE",
        }
    }

    fn is_dram(self) -> bool {
        matches!(self, Self::Dram | Self::Trace)
    }
}

/// Divides a program into phases and measures the memory use of each.
///
/// Clones are handles of the same tracker, and any thread may use them.
#[derive(Clone, Debug)]
pub struct MemoryUsageTracker(Arc<Tracker>);

#[derive(Debug)]
struct Tracker {
    /// The account's flag, readable without its lock: outside a capture there is nothing to do.
    is_capturing: AtomicBool,
    account: Mutex<Account>,
}

impl Default for MemoryUsageTracker {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryUsageTracker {
    /// A tracker without a recording.
    pub fn new() -> Self {
        Self(Arc::new(Tracker { is_capturing: AtomicBool::new(false), account: Mutex::default() }))
    }

    /// A tracker that also writes its captures to a `.ttmem` file while the program runs.
    ///
    /// An existing recording is replaced; any other existing file is an error. The recording is finished by
    /// [`finish`](Self::finish), or when the last handle is dropped.
    pub fn recording_to(path: impl AsRef<Path>) -> Result<Self, TrackerError> {
        let tracker = Self::new();
        tracker.record_to(path)?;
        Ok(tracker)
    }

    /// Starts recording future captures. Finishes an earlier recording.
    ///
    /// Returns an error during a capture. Discards the phases so far, because a recording contains whole sessions.
    pub fn record_to(&self, path: impl AsRef<Path>) -> Result<(), TrackerError> {
        if self.is_capturing() {
            return Err(TrackerError::AlreadyCapturing);
        }
        self.finish()?;
        let mut recording = Recording::start(path.as_ref(), Narrator::create(path.as_ref())?)?;
        let exchanged = self.lock().exchange_recording(&mut recording);
        // Another thread may have started a recording or a capture in the meantime: then one of the two recordings is
        // unused.
        recording.finish()?;
        exchanged
    }

    /// Begins a capture and its first phase. The capture ends at the latest when the guard is dropped.
    pub fn begin_capture(&self, mode: RunMode) -> Result<CaptureGuard, TrackerError> {
        self.begin(mode, None)
    }

    /// Begins a capture of a device that is not a Tenstorrent device, such as PyTorch's `cuda:0`. It has no L1, and texts
    /// and recordings have its name instead of DRAM.
    pub fn begin_capture_on(&self, mode: RunMode, device: &str) -> Result<CaptureGuard, TrackerError> {
        self.begin(mode, Some(device))
    }

    fn begin(&self, mode: RunMode, device: Option<&str>) -> Result<CaptureGuard, TrackerError> {
        let mut account = self.lock();
        account.begin(mode, device)?;
        self.0.is_capturing.store(true, Ordering::Release);
        Ok(CaptureGuard::new(self.clone(), account.capture))
    }

    /// Ends the current phase, gives it a name, and begins the next one. Names may repeat.
    pub fn snapshot(&self, name: &str) -> Result<(), TrackerError> {
        self.lock().end_phase(name, false, "snapshot")?;
        self.flush();
        Ok(())
    }

    /// Ends the last phase and the capture.
    pub fn end_capture(&self, name: &str) -> Result<(), TrackerError> {
        let mut account = self.lock();
        account.end_phase(name, true, "end_capture")?;
        self.0.is_capturing.store(false, Ordering::Release);
        drop(account);
        self.flush();
        Ok(())
    }

    /// Discards the phases and all allocations. Ends the current capture.
    pub fn clear(&self) {
        let mut account = self.lock();
        self.0.is_capturing.store(false, Ordering::Release);
        account.clear();
    }

    /// Ends a capture and clears the tracker, as its guard does. Does nothing if another capture has begun since.
    pub fn end_and_clear(&self, capture: u64) {
        let mut account = self.lock();
        if account.capture != capture {
            return;
        }
        // Fails outside a capture, because there is no phase to end.
        let _ = account.end_phase(DEFAULT_TRACE_NAME, true, "end_capture");
        self.0.is_capturing.store(false, Ordering::Release);
        account.clear();
        drop(account);
        self.flush();
    }

    /// Records an allocation. `bytes` is the total for the device in DRAM, and per core in L1.
    ///
    /// The id identifies the allocation until it is freed; it may be an address. Outside a capture, this and the
    /// following functions do nothing.
    #[inline]
    pub fn record_alloc(&self, id: u64, bytes: u64, pool: Pool) {
        self.record(|account| account.allocated(id, bytes, pool));
    }

    /// Records that an allocation was freed. Unknown ids are counted: [`unknown_frees`](Self::unknown_frees).
    #[inline]
    pub fn record_free(&self, id: u64) {
        self.record(|account| account.freed(id));
    }

    /// Records a program's circular buffer, with its bytes per core and its cores. A buffer inside another one
    /// (`globally_allocated`) takes no additional memory.
    pub fn record_circular_buffer(&self, bytes: u64, cores: &str, globally_allocated: bool) {
        if !globally_allocated {
            self.record(|account| account.circular_buffer(bytes, cores));
        }
    }

    /// Records that all circular buffers were freed, because a program begins or ends.
    pub fn record_circular_buffers_gone(&self) {
        self.record(Account::program_buffers_gone);
    }

    /// Records changes of known size without ids, for example those of a graph capture.
    pub fn record_changes(&self, changes: impl IntoIterator<Item = Change>) {
        self.record(|account| changes.into_iter().for_each(|change| account.changed(change)));
    }

    /// Records a ttnn graph capture as part of the current phase. `changes` reads it (`ttmem_read::graph_changes`) and
    /// is only called during a capture. If it fails, nothing is recorded.
    pub fn record_graph(
        &self,
        changes: impl FnOnce() -> Result<Vec<Change>, ttmem_model::Error>,
    ) -> Result<(), TrackerError> {
        if self.is_capturing() {
            self.record_changes(changes().map_err(TrackerError::Graph)?);
        }
        Ok(())
    }

    /// The DRAM usage of a phase. Returns an error if several phases have that name.
    pub fn get_dram_usage(&self, name: &str) -> Result<DramUsage, TrackerError> {
        Ok(self.lock().phase(name)?.segment.dram())
    }

    /// The L1 usage of a phase. Returns an error if several phases have that name.
    pub fn get_l1_usage(&self, name: &str) -> Result<L1Usage, TrackerError> {
        Ok(self.lock().phase(name)?.segment.l1())
    }

    /// The DRAM usage of all phases, in order.
    pub fn get_dram_usage_all(&self) -> Vec<(String, DramUsage)> {
        self.lock().phases.iter().map(|phase| (phase.name.clone(), phase.segment.dram())).collect()
    }

    /// The L1 usage of all phases, in order.
    pub fn get_l1_usage_all(&self) -> Vec<(String, L1Usage)> {
        self.lock().phases.iter().map(|phase| (phase.name.clone(), phase.segment.l1())).collect()
    }

    /// The DRAM and L1 usage of all phases, in order.
    pub fn get_usage_all(&self) -> Vec<(String, DramUsage, L1Usage)> {
        let account = self.lock();
        let phases = account.phases.iter();
        phases.map(|phase| (phase.name.clone(), phase.segment.dram(), phase.segment.l1())).collect()
    }

    /// The names of the phases, in order. They may repeat.
    pub fn get_trace_names(&self) -> Vec<String> {
        self.lock().phases.iter().map(|phase| phase.name.clone()).collect()
    }

    /// The number of frees of unknown ids. Usually, these were allocated before the capture.
    pub fn unknown_frees(&self) -> u64 {
        self.lock().unknown_frees()
    }

    /// The number of allocations with an id that had not been freed. The earlier allocation counts as freed.
    pub fn repeated_allocations(&self) -> u64 {
        self.lock().repeated_allocations()
    }

    /// Whether a capture is running.
    pub fn is_capturing(&self) -> bool {
        self.0.is_capturing.load(Ordering::Acquire)
    }

    /// The figures of all phases as text. For a Tenstorrent device, the format is that of tt-train's tracker.
    pub fn memory_usage_text(&self) -> String {
        let account = self.lock();
        let (phases, device) = (account.phases.clone(), account.device.clone());
        drop(account);
        match device {
            Some(device) => usage_text::memory_usage_on(&device, &phases),
            None => usage_text::memory_usage(&phases),
        }
    }

    /// Prints the text of [`memory_usage_text`](Self::memory_usage_text).
    pub fn print_memory_usage(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(self.memory_usage_text().as_bytes())
    }

    /// Finishes the recording, if there is one. Returns the error that ended it early; such an error does not affect
    /// the program while it runs. The tracker continues without a recording.
    pub fn finish(&self) -> Result<(), TrackerError> {
        Ok(self.0.finish()?)
    }

    /// Waits until everything so far is in the file.
    fn flush(&self) {
        let flushing = self.lock().recording.begin_flush();
        if let Some(flushing) = flushing {
            flushing.wait();
        }
    }

    #[inline]
    fn record(&self, what: impl FnOnce(&mut Account)) {
        if !self.0.is_capturing.load(Ordering::Relaxed) {
            return;
        }
        let mut account = self.lock();
        if account.is_capturing {
            what(&mut account);
        }
    }

    /// Tries several times before it sleeps: the lock is held for nanoseconds, and waking a thread takes longer.
    fn lock(&self) -> MutexGuard<'_, Account> {
        for _ in 0..8 {
            match self.0.account.try_lock() {
                Ok(account) => return account,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => thread::yield_now(),
            }
        }
        lock(&self.0.account)
    }
}

impl Tracker {
    fn finish(&self) -> ttmem_model::Result<()> {
        let finishing = lock(&self.account).recording.begin_finish();
        finishing.map_or(Ok(()), Finishing::wait)
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        // Errors are only returned by `finish`.
        let _ = self.finish();
    }
}

/// Ignores poisoning: the account is consistent after every call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
