//! A call that runs: what a context holds, so that tasks and threads know where they are.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use ttmem::model::LaneId;
use ttmem::record::live::CallRef;

use super::gil_cell::GilCell;
use super::watch::Watch;

/// A call of a scope. It ends by `exit`; tasks that were begun in it may hold it for longer.
#[pyclass(frozen, module = "ttmem._native")]
#[derive(Debug)]
pub(crate) struct Call {
    watch: Py<Watch>,
    at: CallRef,
    /// What the context held before, without those that have ended since.
    outer: GilCell<Option<Py<Call>>>,
    tag: u64,
    /// Which thread has begun it.
    thread: u64,
}

impl Call {
    pub fn new(watch: Py<Watch>, at: CallRef, outer: Option<Py<Call>>, tag: u64) -> Self {
        Self { watch, at, outer: GilCell::new(outer), tag, thread: thread() }
    }

    pub fn outer<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Call>> {
        self.outer.with(py, |outer| outer.as_ref().map(|outer| outer.bind(py).clone())).flatten()
    }

    /// Lets go of a call that has ended, somewhere around this one. Generators that wait in calls of theirs end them in
    /// turns, each while the next one's runs: what is around the newest would grow with every turn.
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

    /// Takes what is around it.
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

    /// Whether it is a call of that watcher: another may have been there before.
    pub fn is_of(&self, watch: &Watch) -> bool {
        std::ptr::eq(self.watch.get(), watch)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // Objects of Python are given back while its lock is held; at the very end of the interpreter there is nothing
        // to be told any more.
        Python::try_attach(|py| {
            self.watch.get().release(py, self.at);
            // One after the other: thousands that would each drop the next need more stack than there is.
            let mut next = self.take_outer(py);
            while let Some(call) = next.take_if(|call| is_only_ours(call)) {
                next = call.get().take_outer(py);
            }
        });
    }
}

/// Whether this is the only reference to it.
#[allow(unsafe_code)]
fn is_only_ours(call: &Py<Call>) -> bool {
    // SAFETY: `call` is an object that is held, while Python's lock is.
    unsafe { ffi::Py_REFCNT(call.as_ptr()) == 1 }
}

thread_local! {
    /// The lane of this thread, and of which watcher.
    static LANE: Cell<Option<(u64, LaneId)>> = const { Cell::new(None) };
    /// The number of this thread.
    static THREAD: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
}

static THREADS: AtomicU64 = AtomicU64::new(0);

/// A number that no other thread has or had.
pub(super) fn thread() -> u64 {
    THREAD.with(|number| *number)
}

/// The lane of this thread, which is made the first time.
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
