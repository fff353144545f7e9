//! What phases used: figures and text.

#![allow(unsafe_code, reason = "names that C can find, an array that is handed out, and C's own printf")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "the callers are C, where every call is unsafe")]

use std::ffi::{CString, c_char, c_int};

use ttmem_model::{DramUsage, L1Usage};
use ttmem_record::tracker::MemoryUsageTracker;

use crate::crossing::{Failure, attempt, behind, c_text, put, text, ttmem_status, ttmem_tracker};

/// What a phase did in DRAM, in bytes of the whole device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_dram_usage {
    /// The highest use above the start of the phase; 0 if it was never above.
    pub peak: i64,
    /// The bytes of all allocations.
    pub total_allocations: u64,
    /// The bytes of all frees.
    pub total_deallocations: u64,
}

/// What a phase did in L1, in bytes of one core.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ttmem_l1_usage {
    /// The most that circular buffers took.
    pub peak_cb: u64,
    /// The most that buffers took.
    pub peak_buffer: u64,
    /// The most that both took at once.
    pub peak_total: u64,
}

/// A phase.
#[repr(C)]
#[derive(Debug)]
pub struct ttmem_phase {
    /// Its name.
    pub name: *mut c_char,
    /// What it did in DRAM.
    pub dram: ttmem_dram_usage,
    /// What it did in L1.
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

/// What the phase of that name did in DRAM. A name that several phases have is an error.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_get_dram_usage(
    tracker: *mut ttmem_tracker,
    name: *const c_char,
    out: *mut ttmem_dram_usage,
) -> ttmem_status {
    attempt(|| put("the usage", out, behind(tracker)?.get_dram_usage(text("the name", name)?)?.into()))
}

/// What the phase of that name did in L1. A name that several phases have is an error.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_get_l1_usage(
    tracker: *mut ttmem_tracker,
    name: *const c_char,
    out: *mut ttmem_l1_usage,
) -> ttmem_status {
    attempt(|| put("the usage", out, behind(tracker)?.get_l1_usage(text("the name", name)?)?.into()))
}

/// All phases, in order. `out` gets an array of `count`, to be freed by ttmem_phases_free(); NULL where there are none.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_get_phases(
    tracker: *mut ttmem_tracker,
    out: *mut *mut ttmem_phase,
    count: *mut usize,
) -> ttmem_status {
    attempt(|| {
        let tracker = behind(tracker)?;
        put("the number of phases", count, 0)?;
        put("the phases", out, std::ptr::null_mut())?;
        // Taken at once, so that a phase that ends meanwhile is in both or in none.
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

/// Frees what ttmem_get_phases() has handed out. NULL is fine.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_phases_free(phases: *mut ttmem_phase, count: usize) {
    if phases.is_null() {
        return;
    }
    let phases = std::ptr::slice_from_raw_parts_mut(phases, count);
    // SAFETY: the header asks for an array of `ttmem_get_phases`, which is a box of that many, and that was not freed.
    for phase in unsafe { Box::from_raw(phases) } {
        // SAFETY: their names are made by `CString::into_raw`, and go with them.
        drop(unsafe { CString::from_raw(phase.name) });
    }
}

/// Whether a capture runs; false where the tracker is NULL.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_is_capturing(tracker: *mut ttmem_tracker) -> bool {
    behind(tracker).is_ok_and(MemoryUsageTracker::is_capturing)
}

/// How many frees were of ids that are not known: allocated before the capture, as a rule.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_unknown_frees(tracker: *mut ttmem_tracker, out: *mut u64) -> ttmem_status {
    attempt(|| put("the number", out, behind(tracker)?.unknown_frees()))
}

/// How often an id was allocated that was there already. What it was before is taken as freed then.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_repeated_allocations(tracker: *mut ttmem_tracker, out: *mut u64) -> ttmem_status {
    attempt(|| put("the number", out, behind(tracker)?.repeated_allocations()))
}

/// The figures of all phases as text, in the format of tt-train's tracker, to be freed by ttmem_string_free().
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_memory_usage_text(
    tracker: *mut ttmem_tracker,
    out: *mut *mut c_char,
) -> ttmem_status {
    attempt(|| {
        let tracker = behind(tracker)?;
        put("the text", out, std::ptr::null_mut())?;
        put("the text", out, c_text(&tracker.memory_usage_text()).into_raw())
    })
}

/// Prints the figures of all phases to C's standard output.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_print_memory_usage(tracker: *mut ttmem_tracker) -> ttmem_status {
    attempt(|| {
        let text = c_text(&behind(tracker)?.memory_usage_text());
        // SAFETY: both are texts that end with a zero byte, and the first asks for one text and nothing else. It is C's
        // own function, so that what the program has printed before comes before.
        let printed = unsafe { printf(c"%s".as_ptr(), text.as_ptr()) };
        if printed < 0 {
            return Err(Failure::invalid("standard output cannot be written to"));
        }
        Ok(())
    })
}

// SAFETY: this is how C's library declares it, on every platform.
unsafe extern "C" {
    fn printf(format: *const c_char, ...) -> c_int;
}
