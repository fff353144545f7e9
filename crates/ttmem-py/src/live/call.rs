//! A running call, held by a context variable of a thread or task.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use ttmem::model::LaneId;
use ttmem::record::live::CallRef;

use super::gil_cell::GilCell;
use super::watch::Watch;

/// A call of a scope. It ends with `exit`; tasks that were started in it may hold it for longer.
#[pyclass(frozen, module = "ttmem._native")]
#[derive(Debug)]
pub(crate) struct Call {
    watch: Py<Watch>,
    at: CallRef,
    /// The enclosing call in the context, without calls that have ended since.
    outer: GilCell<Option<Py<Call>>>,
    tag: u64,
    /// The thread that began it.
    thread: u64,
}

impl Call {
    pub fn new(watch: Py<Watch>, at: CallRef, outer: Option<Py<Call>>, tag: u64) -> Self {
        Self { watch, at, outer: GilCell::new(outer), tag, thread: thread() }
    }

    pub fn outer<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Call>> {
        self.outer.with(py, |outer| outer.as_ref().map(|outer| outer.bind(py).clone())).flatten()
    }

    /// Removes an ended call from the chain of enclosing calls. Without this, generators that take turns, each ending
    /// its call while the next one's runs, would make the chain longer with every turn.
    pub fn let_go<'py>(inner: &Bound<'py, Self>, ended: &Bound<'py, Self>) {
        let (py, mut inner) = (inner.py(), inner.clone());
        while let Some(outer) = inner.get().outer(py) {
            if outer.is(ended) {
                let beyond = ended.get().outer(py).map(Bound::unbind);
                let before = inner.get().outer.with(py, |outer| std::mem::replace(outer, beyond));
                drop(before);
                return;
            }
            inner = outer;
        }
    }

    /// Takes the enclosing call.
    fn take_outer(&self, py: Python<'_>) -> Option<Py<Call>> {
        self.outer.with(py, Option::take).flatten()
    }

    pub fn tag(&self) -> u64 {
        self.tag
    }

    pub fn thread(&self) -> u64 {
        self.thread
    }

    pub fn at(&self) -> CallRef {
        self.at
    }

    /// Whether the call belongs to this tracker, not to an earlier one.
    pub fn is_of(&self, watch: &Watch) -> bool {
        std::ptr::eq(self.watch.get(), watch)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // Python objects are released with the GIL held. At the end of the interpreter, nothing needs to be released.
        Python::try_attach(|py| {
            self.watch.get().release(py, self.at);
            // In a loop: a recursive drop of thousands of calls would overflow the stack.
            let mut next = self.take_outer(py);
            while let Some(call) = next.take_if(|call| is_only_ours(call)) {
                next = call.get().take_outer(py);
            }
        });
    }
}

/// Whether this is the only reference to the call.
#[allow(unsafe_code)]
fn is_only_ours(call: &Py<Call>) -> bool {
    // SAFETY: `call` is a live object, and the GIL is held.
    unsafe { ffi::Py_REFCNT(call.as_ptr()) == 1 }
}

thread_local! {
    /// The lane of this thread, and the tracker that it belongs to.
    static LANE: Cell<Option<(u64, LaneId)>> = const { Cell::new(None) };
    /// The number of this thread.
    static THREAD: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
}

static THREADS: AtomicU64 = AtomicU64::new(0);

/// A number that identifies this thread, and is never reused.
pub(super) fn thread() -> u64 {
    THREAD.with(|number| *number)
}

/// The lane of this thread, created on first use.
pub(super) fn lane(watch: u64, make: impl FnOnce() -> Option<LaneId>) -> Option<LaneId> {
    if let Some((of, lane)) = LANE.get()
        && of == watch
    {
        return Some(lane);
    }
    let lane = make()?;
    LANE.set(Some((watch, lane)));
    Some(lane)
}
