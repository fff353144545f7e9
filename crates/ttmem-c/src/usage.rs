//! The memory usage of phases: figures and text.

#![allow(unsafe_code, reason = "exported symbols for C, a returned array, and C's printf")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "the callers are C, where every call is unsafe")]

use std::ffi::{CString, c_char, c_int};

use ttmem_model::{DramUsage, L1Usage};
use ttmem_record::tracker::MemoryUsageTracker;

use crate::crossing::{Failure, attempt, c_text, put, text, tracker_of, ttmem_status, ttmem_tracker};

/// A phase's DRAM usage, in bytes for the whole device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_dram_usage {
    /// The peak above the usage at the start of the phase; 0 if it was never exceeded.
    pub peak: i64,
    /// The total size of all allocations.
    pub total_allocations: u64,
    /// The total size of all frees.
    pub total_deallocations: u64,
}

/// A phase's L1 usage, in bytes per core.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_l1_usage {
    /// The peak of circular buffers.
    pub peak_cb: u64,
    /// The peak of other buffers.
    pub peak_buffer: u64,
    /// The peak of both together.
    pub peak_total: u64,
}

/// A phase.
#[repr(C)]
#[derive(Debug)]
pub struct ttmem_phase {
    /// The name.
    pub name: *mut c_char,
    /// The DRAM usage.
    pub dram: ttmem_dram_usage,
    /// The L1 usage.
    pub l1: ttmem_l1_usage,
}

impl From<DramUsage> for ttmem_dram_usage {
    fn from(usage: DramUsage) -> Self {
        let DramUsage { peak, total_allocations, total_deallocations } = usage;
        Self { peak, total_allocations, total_deallocations }
    }
}

impl From<L1Usage> for ttmem_l1_usage {
    fn from(usage: L1Usage) -> Self {
        let L1Usage { peak_cb, peak_buffer, peak_total } = usage;
        Self { peak_cb, peak_buffer, peak_total }
    }
}

/// Returns the DRAM usage of the named phase. Fails if several phases have that name.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_get_dram_usage(
    tracker: *mut ttmem_tracker,
    name: *const c_char,
    out: *mut ttmem_dram_usage,
) -> ttmem_status {
    attempt(|| put("the usage", out, tracker_of(tracker)?.get_dram_usage(text("the name", name)?)?.into()))
}

/// Returns the L1 usage of the named phase. Fails if several phases have that name.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_get_l1_usage(
    tracker: *mut ttmem_tracker,
    name: *const c_char,
    out: *mut ttmem_l1_usage,
) -> ttmem_status {
    attempt(|| put("the usage", out, tracker_of(tracker)?.get_l1_usage(text("the name", name)?)?.into()))
}

/// Returns all phases, in order. Stores an array of `count` phases in `out`, or NULL if there are none. Free it with
/// ttmem_phases_free().
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_get_phases(
    tracker: *mut ttmem_tracker,
    out: *mut *mut ttmem_phase,
    count: *mut usize,
) -> ttmem_status {
    attempt(|| {
        let tracker = tracker_of(tracker)?;
        put("the number of phases", count, 0)?;
        put("the phases", out, std::ptr::null_mut())?;
        // Read at once, so that both outputs are consistent if a phase ends meanwhile.
        let phases = tracker.get_usage_all();
        if phases.is_empty() {
            return Ok(());
        }
        let phases = phases.into_iter().map(|(name, dram, l1)| ttmem_phase {
            name: c_text(&name).into_raw(),
            dram: dram.into(),
            l1: l1.into(),
        });
        let phases = phases.collect::<Box<[ttmem_phase]>>();
        put("the number of phases", count, phases.len())?;
        put("the phases", out, Box::into_raw(phases).cast())
    })
}

/// Frees an array that ttmem_get_phases() returned. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_phases_free(phases: *mut ttmem_phase, count: usize) {
    if phases.is_null() {
        return;
    }
    let phases = std::ptr::slice_from_raw_parts_mut(phases, count);
    // SAFETY: the header requires an array from `ttmem_get_phases`, which is a box of `count` elements, and that was
    // not freed.
    for phase in unsafe { Box::from_raw(phases) } {
        // SAFETY: the names were created by `CString::into_raw` and are freed with their phases.
        drop(unsafe { CString::from_raw(phase.name) });
    }
}

/// Whether a capture is running; false if the tracker is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_is_capturing(tracker: *mut ttmem_tracker) -> bool {
    tracker_of(tracker).is_ok_and(MemoryUsageTracker::is_capturing)
}

/// Stores the number of frees of unknown ids. Usually, these were allocated before the capture.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_unknown_frees(tracker: *mut ttmem_tracker, out: *mut u64) -> ttmem_status {
    attempt(|| put("the number", out, tracker_of(tracker)?.unknown_frees()))
}

/// Stores the number of allocations with an id that had not been freed. The earlier allocation counts as freed.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_repeated_allocations(tracker: *mut ttmem_tracker, out: *mut u64) -> ttmem_status {
    attempt(|| put("the number", out, tracker_of(tracker)?.repeated_allocations()))
}

/// Returns the figures of all phases as text in the format of tt-train's tracker. Free it with ttmem_string_free().
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_memory_usage_text(
    tracker: *mut ttmem_tracker,
    out: *mut *mut c_char,
) -> ttmem_status {
    attempt(|| {
        let tracker = tracker_of(tracker)?;
        put("the text", out, std::ptr::null_mut())?;
        put("the text", out, c_text(&tracker.memory_usage_text()).into_raw())
    })
}

/// Prints the figures of all phases to C's standard output.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_print_memory_usage(tracker: *mut ttmem_tracker) -> ttmem_status {
    attempt(|| {
        let text = c_text(&tracker_of(tracker)?.memory_usage_text());
        // SAFETY: both are zero-terminated strings, and the format expects exactly one string. C's printf keeps the
        // order with the program's own output.
        let printed = unsafe { printf(c"%s".as_ptr(), text.as_ptr()) };
        if printed < 0 {
            return Err(Failure::invalid("cannot write to standard output"));
        }
        Ok(())
    })
}

// SAFETY: this is how the C library declares it, on every platform.
unsafe extern "C" {
    fn printf(format: *const c_char, ...) -> c_int;
}
