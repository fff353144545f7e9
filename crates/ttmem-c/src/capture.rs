//! Trackers, captures, and recording functions.

#![allow(unsafe_code, reason = "exported symbols for C")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "the callers are C, where every call is unsafe")]

use std::ffi::c_char;
use std::sync::OnceLock;

use ttmem_read::graph_changes;
use ttmem_record::tracker::{MemoryUsageTracker, Pool, RunMode};

use crate::crossing::{
    Failure, attempt, hand_out, put, take_back, text, tracker_of, ttmem_status, ttmem_tracker,
};

/// Whether a program's operations run while it is captured.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum ttmem_run_mode {
    /// Operations run.
    TTMEM_NORMAL = 0,
    /// Operations don't run, and nothing is allocated: the program only reports sizes. The figures are estimates.
    TTMEM_NO_DISPATCH = 1,
}

/// The memory pool of an allocation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum ttmem_pool {
    /// Device memory. Sizes are totals for the device.
    TTMEM_DRAM = 0,
    /// Core-local memory. Sizes are per core.
    TTMEM_L1 = 1,
    /// The part of L1 reserved for small buffers. Phases count it as L1.
    TTMEM_L1_SMALL = 2,
    /// The part of DRAM reserved for traces. Phases count it as DRAM.
    TTMEM_TRACE = 3,
}

/// Lives until the program ends.
static DEFAULT: OnceLock<ttmem_tracker> = OnceLock::new();

/// Creates a tracker without a recording.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_tracker_new(out: *mut *mut ttmem_tracker) -> ttmem_status {
    attempt(|| store(out, MemoryUsageTracker::new()))
}

/// Creates a tracker that also writes its captures to a .ttmem file while the program runs. An existing recording is
/// replaced; any other existing file is an error.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_tracker_recording_to(
    path: *const c_char,
    out: *mut *mut ttmem_tracker,
) -> ttmem_status {
    attempt(|| store(out, MemoryUsageTracker::recording_to(text("the path", path)?)?))
}

/// Stores a new tracker in `out`.
fn store(out: *mut *mut ttmem_tracker, tracker: MemoryUsageTracker) -> Result<(), Failure> {
    put("the tracker", out, std::ptr::null_mut())?;
    put("the tracker", out, hand_out(tracker))
}

/// Returns the process-wide tracker: always the same one, never NULL. It exists until the process ends. If it records,
/// call ttmem_finish() before that.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_default_tracker() -> *mut ttmem_tracker {
    let tracker = DEFAULT.get_or_init(|| ttmem_tracker(MemoryUsageTracker::new()));
    std::ptr::from_ref(tracker).cast_mut()
}

/// Frees a tracker and finishes its recording. Does nothing for NULL and the process-wide tracker.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_tracker_free(tracker: *mut ttmem_tracker) {
    let is_default = DEFAULT.get().is_some_and(|default| std::ptr::eq(default, tracker));
    if !tracker.is_null() && !is_default {
        attempt(|| {
            take_back(tracker);
            Ok(())
        });
    }
}

/// Starts recording future captures to a .ttmem file. Finishes an earlier recording and discards the phases so far.
/// Fails during a capture.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_record_to(tracker: *mut ttmem_tracker, path: *const c_char) -> ttmem_status {
    attempt(|| Ok(tracker_of(tracker)?.record_to(text("the path", path)?)?))
}

/// Finishes the recording, if there is one. Returns the error that ended it early; such an error affects nothing else.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_finish(tracker: *mut ttmem_tracker) -> ttmem_status {
    attempt(|| Ok(tracker_of(tracker)?.finish()?))
}

/// Begins a capture and its first phase. `mode` is a ttmem_run_mode. Stores the number of the capture in `capture`,
/// which may be NULL, for ttmem_end_and_clear().
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_begin_capture(
    tracker: *mut ttmem_tracker,
    mode: i32,
    capture: *mut u64,
) -> ttmem_status {
    attempt(|| {
        let mode = match mode {
            0 => RunMode::Normal,
            1 => RunMode::NoDispatch,
            _ => return Err(Failure::invalid(format!("invalid run mode {mode}; expected 0 or 1"))),
        };
        let number = tracker_of(tracker)?.begin_capture(mode)?.into_capture();
        if capture.is_null() { Ok(()) } else { put("the capture number", capture, number) }
    })
}

/// Ends the current phase, gives it a name, and begins the next one. Names may repeat.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_snapshot(tracker: *mut ttmem_tracker, name: *const c_char) -> ttmem_status {
    attempt(|| Ok(tracker_of(tracker)?.snapshot(text("the name", name)?)?))
}

/// Ends the last phase and the capture.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_end_capture(tracker: *mut ttmem_tracker, name: *const c_char) -> ttmem_status {
    attempt(|| Ok(tracker_of(tracker)?.end_capture(text("the name", name)?)?))
}

/// Ends a capture with a phase END_TRACE if it is running, and discards the phases. Does nothing if another capture has
/// begun since. For the destructor of a guard.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_end_and_clear(tracker: *mut ttmem_tracker, capture: u64) -> ttmem_status {
    attempt(|| {
        tracker_of(tracker)?.end_and_clear(capture);
        Ok(())
    })
}

/// Discards the phases and all known allocations, and ends a running capture.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_clear(tracker: *mut ttmem_tracker) -> ttmem_status {
    attempt(|| {
        tracker_of(tracker)?.clear();
        Ok(())
    })
}

/// Records an allocation. `id` identifies it until it is freed: an address, or a buffer number. `pool` is a ttmem_pool.
/// Outside a capture, this and the other recording functions do nothing.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_record_alloc(
    tracker: *mut ttmem_tracker,
    id: u64,
    bytes: u64,
    pool: i32,
) -> ttmem_status {
    attempt(|| {
        let pool = match pool {
            0 => Pool::Dram,
            1 => Pool::L1,
            2 => Pool::L1Small,
            3 => Pool::Trace,
            _ => return Err(Failure::invalid(format!("invalid pool {pool}; expected 0 to 3"))),
        };
        tracker_of(tracker)?.record_alloc(id, bytes, pool);
        Ok(())
    })
}

/// Records that an allocation was freed. An unknown id is not an error; ttmem_unknown_frees() counts them.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_record_free(tracker: *mut ttmem_tracker, id: u64) -> ttmem_status {
    attempt(|| {
        tracker_of(tracker)?.record_free(id);
        Ok(())
    })
}

/// Records a program's circular buffer: its bytes per core, and its cores (may be NULL). A buffer inside another one
/// (`globally_allocated`) takes no additional memory.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_record_circular_buffer(
    tracker: *mut ttmem_tracker,
    bytes: u64,
    cores: *const c_char,
    globally_allocated: bool,
) -> ttmem_status {
    attempt(|| {
        let cores = if cores.is_null() { "" } else { text("the text with the cores", cores)? };
        tracker_of(tracker)?.record_circular_buffer(bytes, cores, globally_allocated);
        Ok(())
    })
}

/// Records that all circular buffers were freed, because a program begins or ends.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_record_circular_buffers_gone(tracker: *mut ttmem_tracker) -> ttmem_status {
    attempt(|| {
        tracker_of(tracker)?.record_circular_buffers_gone();
        Ok(())
    })
}

/// Records a ttnn graph capture as part of the current phase. `json` is a zero-terminated list of nodes, or the report
/// that contains it. If it is invalid, none of it is recorded.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_record_graph(tracker: *mut ttmem_tracker, json: *const c_char) -> ttmem_status {
    attempt(|| {
        let json = text("the graph capture", json)?;
        Ok(tracker_of(tracker)?.record_graph(|| graph_changes(json.as_bytes()))?)
    })
}
