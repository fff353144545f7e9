//! A place for what only the holder of Python's lock may touch.

use std::cell::{Cell, UnsafeCell};

use pyo3::prelude::*;

/// Holds a value that is looked at only while Python's global lock is held: so there is no lock of its own.
///
/// Whoever looks at it must not call into Python meanwhile: that may hand the lock to another thread, or run a callback
/// of ours. Should it happen nevertheless, the second look is refused.
#[derive(Debug)]
pub(super) struct GilCell<T> {
    value: UnsafeCell<T>,
    is_used: Cell<bool>,
}

// SAFETY: `with` is the only way to the value, and asks for the token of Python's global lock, which one thread has at a
// time. (The module says that it needs that lock: an interpreter without one takes it on when it loads the module.)
#[allow(unsafe_code)]
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub fn new(value: T) -> Self {
        Self { value: UnsafeCell::new(value), is_used: Cell::new(false) }
    }

    /// Looks at the value; `None` where somebody is looking at it already.
    #[inline]
    #[allow(unsafe_code)]
    pub fn with<R>(&self, _lock: Python<'_>, look: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.is_used.replace(true) {
            return None;
        }
        let used = Used(&self.is_used);
        // SAFETY: the lock is held (`_lock`), so no other thread is here; and the mark says that this thread is not
        // either, further out. So this is the only reference, until `used` takes the mark back.
        let result = look(unsafe { &mut *self.value.get() });
        drop(used);
        Some(result)
    }
}

/// Takes the mark back, also when a panic passes.
struct Used<'a>(&'a Cell<bool>);

impl Drop for Used<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
