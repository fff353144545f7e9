//! What allocators with a history are told of the program: which call runs in a thread, backward passes included.
//!
//! An allocator of PyTorch's keeps a text for each thread, and writes it beside everything that it does there. Threads of
//! the autograd engine have none of their own: there, every module that the engine comes to says so.

use pyo3::prelude::*;
use ttmem::history::snapshot::call_metadata;
use ttmem::model::ScopeKind;
use ttmem::record::live::CallRef;

use super::call::{self, Call};
use super::watch::{Watch, Within};

impl Watch {
    /// The context is inside of another call again, or of none.
    pub(super) fn back_to(&self, py: Python<'_>, call: Option<&Bound<'_, Call>>) -> PyResult<()> {
        self.hold.bind(py).call1((call,))?;
        self.pass_on(py, call.map(|call| call.get().at()));
        Ok(())
    }

    /// Passes on which call runs in this thread.
    pub(super) fn pass_on(&self, py: Python<'_>, call: Option<CallRef>) {
        let pass = self.pass.with(py, |pass| pass.as_ref().map(|pass| pass.clone_ref(py))).flatten();
        let Some(pass) = pass else { return };
        let text = self.state.with(py, |state| {
            let number = state.recorder.call_number(call?)?;
            let name = state.recorder.scope_of(call).map_or("", |scope| state.recorder.scope_name(scope));
            Some(call_metadata(number, name))
        });
        if let Err(error) = pass.call1(py, (text.flatten().unwrap_or_default(),)) {
            self.failed(py, error);
        }
    }

    /// A part of a backward pass begins in a thread: the one before it is over.
    pub(super) fn part_begins(slf: &Bound<'_, Self>, name: &str) -> PyResult<()> {
        let (py, watch, thread) = (slf.py(), slf.get(), call::thread());
        let pass = watch.backward_pass(py, true);
        let Some(lane) = watch.lane(py)? else { return Ok(()) };
        let parent = pass.as_ref().map(|pass| pass.get().at()).filter(|at| watch.runs(py, *at));
        let at = watch.state.with(py, |state| {
            let outer = state.recorder.scope_of(parent);
            let scope = state.recorder.scope(outer, name, ScopeKind::Backward);
            state.recorder.enter(scope, lane, parent, None)
        });
        let Some(at) = at.flatten() else { return Ok(()) };
        let part = Bound::new(py, Call::new(slf.clone().unbind(), at, None, 0))?;
        let before = watch.parts.with(py, |parts| {
            let before = parts.iter().position(|(of, _)| *of == thread).map(|at| parts.swap_remove(at));
            parts.push((thread, part.clone().unbind()));
            before
        });
        if let Some((_, before)) = before.flatten() {
            watch.exit(py, before.get().at());
        }
        watch.pass_on(py, Some(at));
        Ok(())
    }

    /// The backward pass that this thread has begun. A thread of the engine may work for `any`: the last one.
    pub(super) fn backward_pass(&self, py: Python<'_>, any: bool) -> Option<Py<Call>> {
        let pass = self.backward.with(py, |passes| {
            let own = passes.iter().find(|(thread, _)| *thread == call::thread());
            own.or_else(|| passes.last().filter(|_| any)).map(|(_, pass)| pass.clone_ref(py))
        });
        pass.flatten()
    }

    /// This thread has begun a backward pass, or has ended it.
    pub(super) fn backward_is(&self, py: Python<'_>, pass: Option<Py<Call>>) {
        let thread = call::thread();
        let left = self.backward.with(py, |passes| {
            let before = passes.iter().position(|(of, _)| *of == thread).map(|at| passes.swap_remove(at));
            passes.extend(pass.map(|pass| (thread, pass)));
            (before, passes.is_empty())
        });
        if left.is_some_and(|(_, is_over)| is_over) {
            self.parts_end(py);
        }
    }

    /// All parts of backward passes are over.
    pub(super) fn parts_end(&self, py: Python<'_>) {
        for (_, part) in self.parts.with(py, std::mem::take).unwrap_or_default() {
            self.exit(py, part.get().at());
        }
    }
}

impl Within<'_> {
    /// The place of the call.
    pub fn at(&self) -> CallRef {
        self.0.get().at()
    }
}
