//! Passes the running call of each thread, including backward passes, to allocators with a history.
//!
//! A PyTorch allocator has a text for each thread and adds it to each of its entries. In threads of the autograd
//! engine, a hook on every module's output sets the text.

use pyo3::prelude::*;
use ttmem::history::snapshot::call_metadata;
use ttmem::model::ScopeKind;
use ttmem::record::live::CallRef;

use super::call::{self, Call};
use super::feed;
use super::watch::{Watch, Within};

impl Watch {
    /// Makes another call, or none, the context's current one again.
    pub(super) fn back_to(&self, py: Python<'_>, call: Option<&Bound<'_, Call>>) -> PyResult<()> {
        self.hold.bind(py).call1((call,))?;
        self.pass_on(py, call.map(|call| call.get().at()));
        Ok(())
    }

    /// Passes the running call of this thread to the allocators.
    pub(super) fn pass_on(&self, py: Python<'_>, call: Option<CallRef>) {
        let pass = self.pass.with(py, |pass| pass.as_ref().map(|pass| pass.clone_ref(py))).flatten();
        if pass.is_none() && !feed::is_on() {
            return;
        }
        let running = self.state.with(py, |state| {
            let number = state.recorder.call_number(call?)?;
            let name = || state.recorder.scope_of(call).map_or("", |scope| state.recorder.scope_name(scope));
            Some((number, pass.as_ref().map(|_| call_metadata(number, name()))))
        });
        let (number, text) = running.flatten().unzip();
        feed::runs(number);
        let (Some(pass), text) = (pass, text.flatten()) else { return };
        if let Err(error) = pass.call1(py, (text.unwrap_or_default(),)) {
            self.failed(py, error);
        }
    }

    /// Begins a part of a backward pass in this thread, and ends the previous part.
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

    /// The backward pass that this thread has begun; with `any` (a thread of the autograd engine), else the latest one.
    pub(super) fn backward_pass(&self, py: Python<'_>, any: bool) -> Option<Py<Call>> {
        let pass = self.backward.with(py, |passes| {
            let own = passes.iter().find(|(thread, _)| *thread == call::thread());
            own.or_else(|| passes.last().filter(|_| any)).map(|(_, pass)| pass.clone_ref(py))
        });
        pass.flatten()
    }

    /// Sets the backward pass of this thread; `None` when it has ended.
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

    /// Ends all parts of backward passes.
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
