//! Shared by all functions: the handle, status codes, the last error, and strings. All unsafe code for handles and
//! strings is here.

#![allow(unsafe_code, reason = "raw pointers from C; each use is justified")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "the callers are C, where every call is unsafe")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ttmem_record::tracker::{MemoryUsageTracker, TrackerError};

/// A tracker. Opaque.
pub struct ttmem_tracker(pub(crate) MemoryUsageTracker);

/// The result of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ttmem_status {
    /// Success.
    TTMEM_OK = 0,
    /// A pointer is NULL, a string is not valid UTF-8 or not a graph capture, or a number is out of range.
    TTMEM_INVALID_ARGUMENT = 1,
    /// A capture is already running.
    TTMEM_ALREADY_CAPTURING = 2,
    /// No capture is running.
    TTMEM_NOT_CAPTURING = 3,
    /// No phase has that name.
    TTMEM_NO_SUCH_PHASE = 4,
    /// Several phases have that name.
    TTMEM_AMBIGUOUS_PHASE = 5,
    /// The existing phases were captured in another mode.
    TTMEM_OTHER_MODE = 6,
    /// The recording cannot be written.
    TTMEM_RECORDING_FAILED = 7,
    /// A bug in ttmem.
    TTMEM_BUG = 70,
}

/// A status and an error message.
pub(crate) struct Failure(pub ttmem_status, pub String);

impl Failure {
    pub fn invalid(words: impl Into<String>) -> Self {
        Self(ttmem_status::TTMEM_INVALID_ARGUMENT, words.into())
    }
}

impl From<TrackerError> for Failure {
    fn from(error: TrackerError) -> Self {
        let status = match &error {
            TrackerError::AlreadyCapturing => ttmem_status::TTMEM_ALREADY_CAPTURING,
            TrackerError::NotCapturing { .. } => ttmem_status::TTMEM_NOT_CAPTURING,
            TrackerError::OtherMode { .. } => ttmem_status::TTMEM_OTHER_MODE,
            TrackerError::NoSuchPhase { .. } => ttmem_status::TTMEM_NO_SUCH_PHASE,
            TrackerError::Ambiguous { .. } => ttmem_status::TTMEM_AMBIGUOUS_PHASE,
            TrackerError::Graph(_) => ttmem_status::TTMEM_INVALID_ARGUMENT,
            TrackerError::Recording(_) => ttmem_status::TTMEM_RECORDING_FAILED,
            _ => ttmem_status::TTMEM_BUG,
        };
        Self(status, error.to_string())
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Returns the message of this thread's last error, with advice; an empty string if there was none. Valid until the
/// next error in this thread. Must not be freed.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Runs a function that may fail, and turns a panic into an error, because a panic must not reach C.
pub(crate) fn attempt(what: impl FnOnce() -> Result<(), Failure>) -> ttmem_status {
    let result = catch_unwind(AssertUnwindSafe(what)).unwrap_or_else(|_| {
        Err(Failure(ttmem_status::TTMEM_BUG, "this is a bug in ttmem: unexpected panic".into()))
    });
    match result {
        Ok(()) => ttmem_status::TTMEM_OK,
        Err(Failure(status, words)) => {
            // When a thread ends, its last error may be destroyed before its last call.
            let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = c_text(&words));
            status
        }
    }
}

/// The tracker of a handle.
pub(crate) fn tracker_of<'a>(handle: *const ttmem_tracker) -> Result<&'a MemoryUsageTracker, Failure> {
    // SAFETY: the header requires a handle that this library created and that was not freed. Such a pointer is valid
    // and aligned, and its target is only modified under its own locks.
    let handle = unsafe { handle.as_ref() };
    handle.map(|handle| &handle.0).ok_or_else(|| Failure::invalid("the tracker is NULL; create one first"))
}

/// A string from C.
pub(crate) fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::invalid(format!("{what} is NULL")));
    }
    // SAFETY: the pointer is not NULL, and the header requires a zero-terminated string that does not change during the
    // call, which outlives the borrow.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|error| Failure::invalid(format!("{what} is not valid UTF-8: {error}")))
}

/// Writes a value to an output pointer.
pub(crate) fn put<T>(what: &str, place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::invalid(format!("the output pointer for {what} is NULL")));
    }
    // SAFETY: the pointer is not NULL, and the header requires that a value of this type may be written to it. The old
    // value is not read.
    unsafe { place.write(value) };
    Ok(())
}

/// A string for C. Zero bytes, which would end it, become spaces.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Frees a string that this library returned. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the header requires a string that this library returned, which was created by `CString::into_raw` and
        // not freed.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Frees a handle that `hand_out` created.
pub(crate) fn take_back(handle: *mut ttmem_tracker) {
    // SAFETY: the header requires a handle that this library created by `Box::into_raw` and that was not freed.
    drop(unsafe { Box::from_raw(handle) });
}

/// A handle for C.
pub(crate) fn hand_out(tracker: MemoryUsageTracker) -> *mut ttmem_tracker {
    Box::into_raw(Box::new(ttmem_tracker(tracker)))
}
