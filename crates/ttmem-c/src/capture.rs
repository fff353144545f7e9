//! Trackers, captures, and what is recorded in them.

#![allow(unsafe_code, reason = "names that C can find")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "the callers are C, where every call is unsafe")]

use std::ffi::c_char;
use std::sync::OnceLock;

use ttmem_read::graph_changes;
use ttmem_record::tracker::{MemoryUsageTracker, Pool, RunMode};

use crate::crossing::{
    Failure, attempt, behind, hand_out, put, take_back, text, ttmem_status, ttmem_tracker,
};

/// What is done with the operations of a program while it is captured.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum ttmem_run_mode {
    /// They run.
    TTMEM_NORMAL = 0,
    /// They do not run, and nothing is allocated: only sizes are told. The figures are estimates.
    TTMEM_NO_DISPATCH = 1,
}

/// Where an allocation lies.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum ttmem_pool {
    /// The device's memory; sizes are those of the whole device.
    TTMEM_DRAM = 0,
    /// The memory of the cores; sizes are those of one core.
    TTMEM_L1 = 1,
    /// The part of L1 for small buffers; it counts as L1 in the figures of phases.
    TTMEM_L1_SMALL = 2,
    /// The part of DRAM for traces; it counts as DRAM in the figures of phases.
    TTMEM_TRACE = 3,
}

/// A handle that lives as long as the program.
static DEFAULT: OnceLock<ttmem_tracker> = OnceLock::new();

/// Makes a tracker that keeps figures only.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_tracker_new(out: *mut *mut ttmem_tracker) -> ttmem_status {
    attempt(|| made(out, MemoryUsageTracker::new()))
}

/// Makes a tracker whose captures also go into a .ttmem file, as they happen. An earlier recording of that name is
/// replaced; any other file is an error.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_tracker_recording_to(
    path: *const c_char,
    out: *mut *mut ttmem_tracker,
) -> ttmem_status {
    attempt(|| made(out, MemoryUsageTracker::recording_to(text("the path", path)?)?))
}

/// Hands a tracker out, if there is a place for it.
fn made(out: *mut *mut ttmem_tracker, tracker: MemoryUsageTracker) -> Result<(), Failure> {
    put("the tracker", out, std::ptr::null_mut())?;
    put("the tracker", out, hand_out(tracker))
}

/// The tracker of the process: always the same, never NULL. It is there until the process ends; call ttmem_finish() before
/// that if it records.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_default_tracker() -> *mut ttmem_tracker {
    let tracker = DEFAULT.get_or_init(|| ttmem_tracker(MemoryUsageTracker::new()));
    std::ptr::from_ref(tracker).cast_mut()
}

/// Frees a tracker, and finishes its recording. NULL and the tracker of the process are left alone.
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

/// Begins a recording of the captures to come into a .ttmem file; an earlier one is finished. It must happen outside of a
/// capture, and forgets the phases so far.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_record_to(tracker: *mut ttmem_tracker, path: *const c_char) -> ttmem_status {
    attempt(|| Ok(behind(tracker)?.record_to(text("the path", path)?)?))
}

/// Finishes the recording, if there is one, and says what went wrong with it: nothing else is disturbed by that.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_finish(tracker: *mut ttmem_tracker) -> ttmem_status {
    attempt(|| Ok(behind(tracker)?.finish()?))
}

/// Begins a capture, and its first phase. `mode` is a ttmem_run_mode. The number of the capture goes to `capture`, which
/// may be NULL; ttmem_end_and_clear() takes it.
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
            _ => return Err(Failure::invalid(format!("there is no run mode {mode}: it is 0 or 1"))),
        };
        let number = behind(tracker)?.begin_capture(mode)?.into_capture();
        if capture.is_null() { Ok(()) } else { put("the number of the capture", capture, number) }
    })
}

/// Ends the phase, which gets its name now, and begins the next. Names may repeat.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_snapshot(tracker: *mut ttmem_tracker, name: *const c_char) -> ttmem_status {
    attempt(|| Ok(behind(tracker)?.snapshot(text("the name", name)?)?))
}

/// Ends the last phase, and the capture with it.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_end_capture(tracker: *mut ttmem_tracker, name: *const c_char) -> ttmem_status {
    attempt(|| Ok(behind(tracker)?.end_capture(text("the name", name)?)?))
}

/// Ends a capture, if it is running, with a phase END_TRACE, and forgets the phases; nothing if another capture has begun
/// since. What a guard does in the end.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_end_and_clear(tracker: *mut ttmem_tracker, capture: u64) -> ttmem_status {
    attempt(|| {
        behind(tracker)?.end_and_clear(capture);
        Ok(())
    })
}

/// Forgets the phases and everything that is known of allocations. A capture that runs is over.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_clear(tracker: *mut ttmem_tracker) -> ttmem_status {
    attempt(|| {
        behind(tracker)?.clear();
        Ok(())
    })
}

/// Takes an allocation down. `id` is its own until it is freed: an address, a buffer's number. `pool` is a ttmem_pool.
/// Outside of a capture nothing happens, here and in all that records.
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
            _ => return Err(Failure::invalid(format!("there is no pool {pool}: they are 0 to 3"))),
        };
        behind(tracker)?.record_alloc(id, bytes, pool);
        Ok(())
    })
}

/// Takes down that an allocation is gone. One that is not known is no error, but counted: ttmem_unknown_frees().
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_record_free(tracker: *mut ttmem_tracker, id: u64) -> ttmem_status {
    attempt(|| {
        behind(tracker)?.record_free(id);
        Ok(())
    })
}

/// Takes a circular buffer of a program down: what it takes of a core, and on which cores it is (may be NULL). One that
/// lies in a buffer that is there already (`globally_allocated`) takes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_record_circular_buffer(
    tracker: *mut ttmem_tracker,
    bytes: u64,
    cores: *const c_char,
    globally_allocated: bool,
) -> ttmem_status {
    attempt(|| {
        let cores = if cores.is_null() { "" } else { text("the text of the cores", cores)? };
        behind(tracker)?.record_circular_buffer(bytes, cores, globally_allocated);
        Ok(())
    })
}

/// Takes down that all circular buffers are gone: a program begins, or is over.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_record_circular_buffers_gone(tracker: *mut ttmem_tracker) -> ttmem_status {
    attempt(|| {
        behind(tracker)?.record_circular_buffers_gone();
        Ok(())
    })
}

/// Takes down what a graph capture of ttnn says, as JSON that ends with a zero byte: the list of nodes, or the report that
/// wraps it. It belongs to the phase that runs. If it cannot be read, nothing of it is taken down.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_record_graph(tracker: *mut ttmem_tracker, json: *const c_char) -> ttmem_status {
    attempt(|| {
        let json = text("the graph capture", json)?;
        Ok(behind(tracker)?.record_graph(|| graph_changes(json.as_bytes()))?)
    })
}
