//! A cell protected by Python's GIL.

use std::cell::{Cell, UnsafeCell};

use pyo3::prelude::*;

/// A value that is only accessed with the GIL held, and so needs no other lock.
///
/// While accessing it, do not call into Python: that may release the GIL or run one of our callbacks. A nested access
/// is refused.
#[derive(Debug)]
pub(super) struct GilCell<T> {
    value: UnsafeCell<T>,
    is_used: Cell<bool>,
}

// SAFETY: `with` is the only access to the value, and needs the GIL token, which one thread has at a time. (The module
// declares `gil_used`: a free-threaded interpreter enables the GIL when it loads the module.)
#[allow(unsafe_code)]
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub fn new(value: T) -> Self {
        Self { value: UnsafeCell::new(value), is_used: Cell::new(false) }
    }

    /// Accesses the value; `None` if it is already being accessed.
    #[inline]
    #[allow(unsafe_code)]
    pub fn with<R>(&self, _lock: Python<'_>, look: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.is_used.replace(true) {
            return None;
        }
        let used = Used(&self.is_used);
        // SAFETY: the GIL is held (`_lock`), so no other thread is here, and `is_used` excludes a nested access of this
        // thread. So this is the only reference until `used` is dropped.
        let result = look(unsafe { &mut *self.value.get() });
        drop(used);
        Some(result)
    }
}

/// Resets `is_used`, even after a panic.
struct Used<'a>(&'a Cell<bool>);

impl Drop for Used<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
