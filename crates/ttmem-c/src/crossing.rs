//! What every function needs: the handle, status codes, the last error, texts in and out. All that is unsafe about
//! handles and texts is here.

#![allow(unsafe_code, reason = "pointers of C; each place says why it may follow them")]
#![allow(clippy::not_unsafe_ptr_arg_deref, reason = "the callers are C, where every call is unsafe")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ttmem_record::tracker::{MemoryUsageTracker, TrackerError};

/// A tracker. What is in it is nobody's business but the library's.
pub struct ttmem_tracker(pub(crate) MemoryUsageTracker);

/// Whether a call did what it was asked to, or why not.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ttmem_status {
    /// It did.
    TTMEM_OK = 0,
    /// A pointer is NULL, a text is no UTF-8 or no graph capture, or a number stands for nothing.
    TTMEM_INVALID_ARGUMENT = 1,
    /// A capture is running already.
    TTMEM_ALREADY_CAPTURING = 2,
    /// No capture is running.
    TTMEM_NOT_CAPTURING = 3,
    /// No phase has that name.
    TTMEM_NO_SUCH_PHASE = 4,
    /// Several phases have that name.
    TTMEM_AMBIGUOUS_PHASE = 5,
    /// The phases so far are of another mode.
    TTMEM_OTHER_MODE = 6,
    /// The recording cannot be written.
    TTMEM_RECORDING_FAILED = 7,
    /// A bug in ttmem.
    TTMEM_BUG = 70,
}

/// A status and its words.
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

/// Why the last call of this thread that failed did, and what to do about it; an empty text where none did. It is valid
/// until the next call of this thread that fails, and is not the caller's to free.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Does something that may fail or, if there is a bug, panic: no panic may reach C.
pub(crate) fn attempt(what: impl FnOnce() -> Result<(), Failure>) -> ttmem_status {
    let result = catch_unwind(AssertUnwindSafe(what)).unwrap_or_else(|_| {
        Err(Failure(ttmem_status::TTMEM_BUG, "this is a bug in ttmem: it has panicked".into()))
    });
    match result {
        Ok(()) => ttmem_status::TTMEM_OK,
        Err(Failure(status, words)) => {
            // When a thread ends, its last error may be gone before its last call.
            let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = c_text(&words));
            status
        }
    }
}

/// The tracker behind a handle.
pub(crate) fn behind<'a>(handle: *const ttmem_tracker) -> Result<&'a MemoryUsageTracker, Failure> {
    // SAFETY: the header asks for a handle that this library has made and that was not freed: such a pointer is valid
    // and aligned, and what it points to is never changed but through its own locks.
    let handle = unsafe { handle.as_ref() };
    handle.map(|handle| &handle.0).ok_or_else(|| Failure::invalid("the tracker is NULL: make one first"))
}

/// A text of C.
pub(crate) fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::invalid(format!("{what} is NULL")));
    }
    // SAFETY: it is not NULL, and the header asks for a text that ends with a zero byte and stays as it is during the
    // call, which is as long as the borrow is used.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|error| Failure::invalid(format!("{what} is no UTF-8: {error}")))
}

/// Puts a value where C wants it.
pub(crate) fn put<T>(what: &str, place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::invalid(format!("the place for {what} is NULL")));
    }
    // SAFETY: it is not NULL, and the header asks for a place that a value of this type may be written to. What was there
    // is not read.
    unsafe { place.write(value) };
    Ok(())
}

/// A text for C; zero bytes, which would end it, become spaces.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Frees a text that a function of this library has handed out. NULL is fine.
#[unsafe(no_mangle)]
pub extern "C" fn ttmem_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the header asks for a text that this library has handed out, which are all made by
        // `CString::into_raw`, and that was not freed.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Takes a handle back that `hand_out` has made.
pub(crate) fn take_back(handle: *mut ttmem_tracker) {
    // SAFETY: the header asks for a handle that this library has made by `Box::into_raw` and that was not freed.
    drop(unsafe { Box::from_raw(handle) });
}

/// A handle for C.
pub(crate) fn hand_out(tracker: MemoryUsageTracker) -> *mut ttmem_tracker {
    Box::into_raw(Box::new(ttmem_tracker(tracker)))
}
