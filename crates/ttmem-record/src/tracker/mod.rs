//! The tracker: cuts a program into phases and says what each of them used.
//!
//! A program tells it of every allocation and free, and calls [`snapshot`](MemoryUsageTracker::snapshot) at the end of
//! each phase. The tracker has exact figures at any time; and, if asked to, a recording in which every allocation is
//! found again, with the phases and the peak. What a phase comes to is [`model::Segment`](ttmem_model::Segment)'s rule.
//!
//! Here lives the interface. `account` is what the tracker knows; `recording` and `narrator` make the file; `usage_text`
//! prints.
//!
//! ```
//! use ttmem::record::tracker::{MemoryUsageTracker, Pool, RunMode};
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
mod recording;
mod usage_text;

pub use error::TrackerError;
pub use guard::{CaptureGuard, DEFAULT_TRACE_NAME};

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use account::Account;
use recording::Recording;

use ttmem_model::{Change, DramUsage, L1Usage};

/// What is done with the operations of a program while it is captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunMode {
    /// They run.
    #[default]
    Normal,
    /// They do not run, and nothing is allocated: only sizes are told. The figures are estimates.
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

/// Where an allocation lies. Sizes in DRAM and TRACE are of the whole device, in L1 and L1_SMALL of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Pool {
    /// The device's memory.
    Dram,
    /// The memory of the cores.
    L1,
    /// The part of L1 that is kept for small buffers; it counts as L1 in the figures of phases.
    L1Small,
    /// The part of DRAM that is kept for traces; it counts as DRAM in the figures of phases.
    Trace,
}

impl Pool {
    const ALL: [Self; 4] = [Self::Dram, Self::L1, Self::L1Small, Self::Trace];

    /// Its name in reports.
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

/// Cuts a program into phases and says what each of them used.
///
/// It is a handle: clones are the same tracker, and any thread may use any of them.
#[derive(Clone, Debug)]
pub struct MemoryUsageTracker(Arc<Tracker>);

#[derive(Debug)]
struct Tracker {
    /// What the account says, without locking it: outside of a capture nothing is to be done.
    is_capturing: AtomicBool,
    account: Arc<Mutex<Account>>,
    recording: Mutex<Option<Recording>>,
}

impl Default for MemoryUsageTracker {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryUsageTracker {
    /// A tracker that keeps figures only.
    pub fn new() -> Self {
        Self(Arc::new(Tracker {
            is_capturing: AtomicBool::new(false),
            account: Arc::default(),
            recording: Mutex::new(None),
        }))
    }

    /// A tracker whose captures also go into a `.ttmem` file, as they happen.
    ///
    /// An earlier recording of that name is replaced; any other file is an error. The recording is finished by
    /// [`finish`](Self::finish), or when the last handle is dropped.
    pub fn recording_to(path: impl AsRef<Path>) -> Result<Self, TrackerError> {
        let tracker = Self::new();
        tracker.record_to(path)?;
        Ok(tracker)
    }

    /// Begins a recording of the captures to come; an earlier one is finished.
    ///
    /// That must happen outside of a capture, and forgets the phases so far: a recording has whole sessions.
    pub fn record_to(&self, path: impl AsRef<Path>) -> Result<(), TrackerError> {
        if self.is_capturing() {
            return Err(TrackerError::AlreadyCapturing);
        }
        self.finish()?;
        let mut recording = lock(&self.0.recording);
        let (begun, outlet) = Recording::begin(path.as_ref(), &self.0.account)?;
        match self.lock().attach(outlet) {
            Ok(()) => *recording = Some(begun),
            // Another thread was faster.
            Err(outlet) => {
                begun.finish(Some(outlet))?;
                return Err(TrackerError::AlreadyCapturing);
            }
        }
        Ok(())
    }

    /// Begins a capture, and its first phase. It ends when the guard is dropped, at the latest.
    pub fn begin_capture(&self, mode: RunMode) -> Result<CaptureGuard, TrackerError> {
        let mut account = self.lock();
        account.begin(mode)?;
        self.0.is_capturing.store(true, Ordering::Release);
        Ok(CaptureGuard::new(self.clone(), account.capture))
    }

    /// Ends the phase, which gets its name now, and begins the next. Names may repeat.
    pub fn snapshot(&self, name: &str) -> Result<(), TrackerError> {
        self.lock().end_phase(name, false, "snapshot")?;
        Recording::flush(&self.0.account);
        Ok(())
    }

    /// Ends the last phase, and the capture with it.
    pub fn end_capture(&self, name: &str) -> Result<(), TrackerError> {
        let mut account = self.lock();
        account.end_phase(name, true, "end_capture")?;
        self.0.is_capturing.store(false, Ordering::Release);
        drop(account);
        Recording::flush(&self.0.account);
        Ok(())
    }

    /// Forgets the phases and everything that is known of allocations. A capture that runs is over.
    pub fn clear(&self) {
        let mut account = self.lock();
        self.0.is_capturing.store(false, Ordering::Release);
        account.clear();
    }

    /// What the guard of a capture does in the end; nothing if another capture has begun since.
    pub fn end_and_clear(&self, capture: u64) {
        let mut account = self.lock();
        if account.capture != capture {
            return;
        }
        // Outside of a capture there is no phase to end.
        let _ = account.end_phase(DEFAULT_TRACE_NAME, true, "end_capture");
        self.0.is_capturing.store(false, Ordering::Release);
        account.clear();
        drop(account);
        Recording::flush(&self.0.account);
    }

    /// Takes an allocation down. `bytes` are those of the whole device in DRAM, and of one core in L1.
    ///
    /// The id is that of the allocation until it is freed: an address, a buffer's number. Outside of a capture nothing
    /// happens, here and in all that follows.
    #[inline]
    pub fn record_alloc(&self, id: u64, bytes: u64, pool: Pool) {
        self.record(|account| account.allocated(id, bytes, pool));
    }

    /// Takes down that an allocation is gone. One that is not known is counted: [`unknown_frees`](Self::unknown_frees).
    #[inline]
    pub fn record_free(&self, id: u64) {
        self.record(|account| account.freed(id));
    }

    /// Takes a circular buffer of a program down: what it takes of a core, and on which cores it is. One that lies in
    /// a buffer that is there already (`globally_allocated`) takes nothing.
    pub fn record_circular_buffer(&self, bytes: u64, cores: &str, globally_allocated: bool) {
        if !globally_allocated {
            self.record(|account| account.circular_buffer(bytes, cores));
        }
    }

    /// Takes down that all circular buffers are gone: a program begins, or is over.
    pub fn record_circular_buffers_gone(&self) {
        self.record(Account::program_buffers_gone);
    }

    /// Takes changes down of which only the sizes are known: evidence that is read phase by phase.
    pub fn record_changes(&self, changes: impl IntoIterator<Item = Change>) {
        self.record(|account| changes.into_iter().for_each(|change| account.changed(change)));
    }

    /// Records what a graph capture of ttnn did, which belongs to the current phase. `changes` reads it
    /// (`ttmem_read::graph_changes`); it is called only while a capture runs. If it fails, nothing is recorded.
    pub fn record_graph(
        &self,
        changes: impl FnOnce() -> Result<Vec<Change>, ttmem_model::Error>,
    ) -> Result<(), TrackerError> {
        if self.is_capturing() {
            self.record_changes(changes().map_err(TrackerError::Graph)?);
        }
        Ok(())
    }

    /// What a phase did in DRAM. A name that several phases have is an error.
    pub fn get_dram_usage(&self, name: &str) -> Result<DramUsage, TrackerError> {
        Ok(self.lock().phase(name)?.segment.dram())
    }

    /// What a phase did in L1. A name that several phases have is an error.
    pub fn get_l1_usage(&self, name: &str) -> Result<L1Usage, TrackerError> {
        Ok(self.lock().phase(name)?.segment.l1())
    }

    /// What all phases did in DRAM, in order.
    pub fn get_dram_usage_all(&self) -> Vec<(String, DramUsage)> {
        self.lock().phases.iter().map(|phase| (phase.name.clone(), phase.segment.dram())).collect()
    }

    /// What all phases did in L1, in order.
    pub fn get_l1_usage_all(&self) -> Vec<(String, L1Usage)> {
        self.lock().phases.iter().map(|phase| (phase.name.clone(), phase.segment.l1())).collect()
    }

    /// What all phases did in DRAM and in L1, in order.
    pub fn get_usage_all(&self) -> Vec<(String, DramUsage, L1Usage)> {
        let account = self.lock();
        let phases = account.phases.iter();
        phases.map(|phase| (phase.name.clone(), phase.segment.dram(), phase.segment.l1())).collect()
    }

    /// The names of the phases, in order; they may repeat.
    pub fn get_trace_names(&self) -> Vec<String> {
        self.lock().phases.iter().map(|phase| phase.name.clone()).collect()
    }

    /// How many frees were of ids that are not known: allocated before the capture, as a rule.
    pub fn unknown_frees(&self) -> u64 {
        self.lock().unknown_frees()
    }

    /// How often an id was allocated that was there already. What it was before is taken as freed then.
    pub fn repeated_allocations(&self) -> u64 {
        self.lock().repeated_allocations()
    }

    /// Whether a capture runs.
    pub fn is_capturing(&self) -> bool {
        self.0.is_capturing.load(Ordering::Acquire)
    }

    /// The figures of all phases as text, in the format of tt-train's tracker.
    pub fn memory_usage_text(&self) -> String {
        let phases = self.lock().phases.clone();
        usage_text::memory_usage(&phases)
    }

    /// Prints the figures of all phases, in the format of tt-train's tracker.
    pub fn print_memory_usage(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(self.memory_usage_text().as_bytes())
    }

    /// Finishes the recording, if there is one, and says what went wrong with it: a program is not disturbed by that
    /// while it runs. The tracker goes on without.
    pub fn finish(&self) -> Result<(), TrackerError> {
        Ok(self.0.finish()?)
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

    /// Who holds it is done within some nanoseconds: a thread that goes to sleep for it makes the other one wake it up,
    /// which takes longer than all that either of them does here. So it asks some times before.
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
        let Some(recording) = lock(&self.recording).take() else { return Ok(()) };
        let outlet = lock(&self.account).outlet.take();
        recording.finish(outlet)
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        // Who wants to know what went wrong calls `finish`.
        let _ = self.finish();
    }
}

/// A thread that panicked elsewhere is no reason to panic here: what it held is whole after every call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
