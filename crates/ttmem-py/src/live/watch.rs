//! The native tracker: PyTorch calls it for every operation, and Python for every freed storage.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ttmem::model::words::counted;
use ttmem::model::{AllocatorRules, Class, Expected, Launch, OpTotals, Reading, ScopeKind};
use ttmem::query::Expectations;
use ttmem::record::live::{CallRef, Finishing, Flushing, Options, Recorder};

use super::call::{self, Call};
use super::gil_cell::GilCell;
use super::state::{State, address};
use super::tensors::size;
use crate::errors::raised;

/// The operation of storages whose allocation was not tracked.
const NOT_TRACKED: &str = "(allocation not tracked)";

static WATCHES: AtomicU64 = AtomicU64::new(0);

/// Tracks the tensors of a program. `python/ttmem` makes a dispatch mode of it.
#[pyclass(frozen, subclass, module = "ttmem._native")]
pub(crate) struct Watch {
    number: u64,
    pub(super) state: GilCell<State>,
    /// Whether anything is recorded.
    is_on: AtomicBool,
    /// Whether to count tensors without memory on the device they claim to be on.
    pub(super) estimates: bool,
    /// `torch.Tensor` and `torch.nn.Parameter`: objects of other classes may consist of several tensors.
    pub(super) tensor: Py<PyAny>,
    pub(super) parameter: Py<PyAny>,
    /// `ContextVar.get` and `ContextVar.set` of the variable that holds the running call.
    current: Py<PyAny>,
    pub(super) hold: Py<PyAny>,
    /// Python function: the plain tensors inside a tensor that has no storage.
    pub(super) inner: Py<PyAny>,
    /// Python function: called with the first internal error.
    complain: Py<PyAny>,
    /// Python function: whether one of the program's signal handlers raised an error.
    is_programs: Py<PyAny>,
    /// `torch._C.DisableTorchFunction`: turns off `__torch_function__` overrides while it is entered.
    disable_torch_function: Py<PyAny>,
    /// `self.gone`, the shared callback of all weak references, until `finish`.
    gone: GilCell<Option<Py<PyAny>>>,
    /// Python function: passes a text to allocators with a history, for their entries in this thread.
    pub(super) pass: GilCell<Option<Py<PyAny>>>,
    /// Whether allocators with a history need the running call and the outputs of modules.
    tells_allocators: AtomicBool,
    /// Whether modules inside models are recorded.
    has_details: AtomicBool,
    /// Whether the outputs of all calls are labeled, not only those of the first ones.
    labels_all: AtomicBool,
    /// The running backward passes and their parts, each with the thread that began it.
    pub(super) backward: GilCell<Vec<(u64, Py<Call>)>>,
    pub(super) parts: GilCell<Vec<(u64, Py<Call>)>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("number", &self.number).finish_non_exhaustive()
    }
}

#[pymethods]
impl Watch {
    #[new]
    #[pyo3(signature = (path, *, tensor, parameter, current, inner, complain, is_programs, disable_torch_function,
        libraries, limit = None, estimates = false))]
    #[allow(clippy::too_many_arguments, reason = "they are named")]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        tensor: Py<PyAny>,
        parameter: Py<PyAny>,
        current: &Bound<'_, PyAny>,
        inner: Py<PyAny>,
        complain: Py<PyAny>,
        is_programs: Py<PyAny>,
        disable_torch_function: Py<PyAny>,
        libraries: Vec<String>,
        limit: Option<u64>,
        estimates: bool,
    ) -> PyResult<Self> {
        let recorder = match path {
            Some(path) => Recorder::recording_with(path, Options { limit, ..Options::default() })
                .map_err(|error| raised(py, error))?,
            None => Recorder::new(),
        };
        let number = WATCHES.fetch_add(1, Ordering::Relaxed);
        let (state, is_on) = (GilCell::new(State::new(recorder, libraries)), AtomicBool::new(true));
        let (current, hold) = (current.getattr("get")?.unbind(), current.getattr("set")?.unbind());
        let (gone, pass, tells_allocators) = (GilCell::new(None), GilCell::new(None), AtomicBool::new(false));
        let (has_details, labels_all) = (AtomicBool::new(true), AtomicBool::new(false));
        let (backward, parts) = (GilCell::new(Vec::new()), GilCell::new(Vec::new()));
        Ok(Self {
            number,
            state,
            is_on,
            estimates,
            tensor,
            parameter,
            current,
            hold,
            inner,
            complain,
            is_programs,
            disable_torch_function,
            gone,
            pass,
            tells_allocators,
            has_details,
            labels_all,
            backward,
            parts,
        })
    }

    /// Called by PyTorch for every operation while this is a dispatch mode.
    #[pyo3(signature = (func, types, args = None, kwargs = None))]
    fn __torch_dispatch__<'py>(
        slf: &Bound<'py, Self>,
        func: &Bound<'py, PyAny>,
        types: &Bound<'py, PyAny>,
        args: Option<&Bound<'py, PyTuple>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = types;
        let result = match args {
            Some(args) => func.call(args, kwargs),
            None => func.call((), kwargs),
        };
        let watch = slf.get();
        let result = result.inspect_err(|error| {
            if watch.is_on() {
                watch.operation_failed(slf.py(), func, error);
            }
        })?;
        if watch.is_on() {
            watch.kept_from_program(slf.py(), watch.results(slf, func, &result))?;
            watch.keep_pace(slf.py());
        }
        Ok(result)
    }

    /// Called by Python when a storage was freed.
    fn gone(&self, py: Python<'_>, weak: &Bound<'_, PyAny>) {
        let within = self.within(py);
        let weak = self.state.with(py, |state| state.freed(address(weak), within.as_ref().map(Within::at)));
        drop(weak);
    }

    /// Records a tensor whose allocation was not tracked; `name` is its operation.
    fn see(slf: &Bound<'_, Self>, tensor: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        let watch = slf.get();
        let seen = watch.without_torch_function(slf.py(), || watch.places(slf, tensor, name, None));
        watch.kept_from_program(slf.py(), seen.map(drop))
    }

    /// Records a tensor that was allocated outside PyTorch's dispatcher; `name` is the allocating function.
    fn made(slf: &Bound<'_, Self>, tensor: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        let (py, watch) = (slf.py(), slf.get());
        let made = watch.without_torch_function(py, || watch.made_by(slf, tensor, name));
        watch.kept_from_program(py, made)?;
        watch.keep_pace(py);
        Ok(())
    }

    /// Tracks the storage of `to`, a stand-in, in place of that of `tensor`, if that is known.
    fn moved(slf: &Bound<'_, Self>, tensor: &Bound<'_, PyAny>, to: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, watch) = (slf.py(), slf.get());
        let method = intern!(py, "untyped_storage");
        let (from, to) = (tensor.call_method0(method)?, to.call_method0(method)?);
        if watch.state.with(py, |state| state.storage(address(&from))).flatten().is_some() {
            let weak = watch.weak(slf, &to)?.unbind();
            let old = watch.state.with(py, |state| state.moved(address(&from), address(&to), weak));
            drop(old);
        }
        Ok(())
    }

    /// Sets the class and name of a tensor. `only_unknown`: only if it has no class yet.
    #[pyo3(signature = (tensor, class_, name = None, requires_grad = None, *, only_unknown = false))]
    fn classify(
        slf: &Bound<'_, Self>,
        tensor: &Bound<'_, PyAny>,
        class_: &str,
        name: Option<&str>,
        requires_grad: Option<bool>,
        only_unknown: bool,
    ) -> PyResult<()> {
        let class = class_of(class_)?;
        slf.get().without_torch_function(slf.py(), || {
            Self::classify_as(slf, tensor, class, name, requires_grad, only_unknown)
        })
    }

    /// Sets the class of all tensors in a container whose allocator has a history.
    fn label(slf: &Bound<'_, Self>, tensors: &Bound<'_, PyAny>, class_: &str) -> PyResult<()> {
        slf.get().label_all(tensors, class_of(class_)?, 0)
    }

    /// Records what keeps storages alive: pairs of a storage and the references to it. Storages that are not tracked are
    /// ignored.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 converts a list to this")]
    fn held_by(&self, py: Python<'_>, rows: Vec<(Bound<'_, PyAny>, String)>) {
        self.storages_held_by(py, &rows);
    }

    /// Passes the running call of each thread to allocators from now on, through the function `pass_on`.
    #[pyo3(signature = (pass_on))]
    fn pass_calls_to(&self, py: Python<'_>, pass_on: Option<Py<PyAny>>) {
        let before = self.pass.with(py, |pass| std::mem::replace(pass, pass_on));
        drop(before);
        let within = self.within(py);
        self.pass_on(py, within.as_ref().map(Within::at));
    }

    /// Whether allocators with a history need the running call and the outputs of modules.
    #[getter]
    fn get_tells_allocators(&self) -> bool {
        self.tells_allocators()
    }

    #[setter]
    fn set_tells_allocators(&self, tells: bool) {
        self.tells_allocators.store(tells, Ordering::Relaxed);
    }

    /// Whether modules inside models are recorded.
    #[getter]
    fn get_has_details(&self) -> bool {
        self.has_details()
    }

    #[setter]
    fn set_has_details(&self, has: bool) {
        self.has_details.store(has, Ordering::Relaxed);
    }

    /// Whether the outputs of all calls are labeled, not only those of the first ones.
    #[getter]
    fn get_labels_all(&self) -> bool {
        self.labels_all.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_labels_all(&self, all: bool) {
        self.labels_all.store(all, Ordering::Relaxed);
    }

    /// How often the recording has continued in a new file.
    #[getter]
    fn rotations(&self, py: Python<'_>) -> u64 {
        let status = self.state.with(py, |state| state.recorder.status()).flatten();
        status.map_or(0, |status| status.rotations)
    }

    /// How often the recording has continued in a new file without the complete iterations of earlier files.
    #[getter]
    fn forgotten(&self, py: Python<'_>) -> u64 {
        let status = self.state.with(py, |state| state.recorder.status()).flatten();
        status.map_or(0, |status| status.forgotten)
    }

    /// The backward pass that this thread has begun. The parts of all passes end when no thread has one.
    #[getter]
    fn get_backward(&self, py: Python<'_>) -> Option<Py<Call>> {
        self.backward_pass(py, false)
    }

    #[setter]
    fn set_backward(&self, py: Python<'_>, pass_: Option<Py<Call>>) {
        self.backward_is(py, pass_);
    }

    /// Records the size of a storage that may have been resized without an operation.
    fn resized(&self, py: Python<'_>, storage: &Bound<'_, PyAny>) -> PyResult<()> {
        let known = self.state.with(py, |state| state.storage(address(storage))).flatten();
        let Some((_, before)) = known else { return Ok(()) };
        let bytes = size(storage)?;
        if bytes != before {
            let (op, within) = (self.op_here(py, "resize")?, self.within(py));
            self.state.with(py, |state| {
                state.resized(address(storage), bytes, op, within.as_ref().map(Within::at));
            });
        }
        Ok(())
    }

    /// Begins a call inside the context's current one and makes it the current one. `tag` identifies it for
    /// `end_tagged`. Returns `None` if there are too many calls.
    #[pyo3(signature = (name, kind, tag = 0))]
    fn begin<'py>(
        slf: &Bound<'py, Self>,
        name: &str,
        kind: &str,
        tag: u64,
    ) -> PyResult<Option<Bound<'py, Call>>> {
        Self::begin_scope(slf, name, kind_of(kind)?, tag)
    }

    /// Ends a call and makes the enclosing one current. Also ends forward passes and steps inside it that an exception
    /// has left open.
    fn end(&self, py: Python<'_>, call: &Bound<'_, Call>) -> PyResult<()> {
        self.exit(py, call.get().at());
        let mut left = Vec::new();
        let mut next = self.within(py).map(|Within(call)| call);
        while let Some(inner) = next {
            if inner.is(call) {
                for at in left {
                    self.exit(py, at);
                }
                return self.back_to(py, call.get().outer(py).as_ref());
            }
            // The program ends its own operations itself; a suspended generator may still be inside one.
            if inner.get().tag() == 0 && self.runs(py, inner.get().at()) {
                Call::let_go(&inner, call);
                return Ok(());
            }
            left.push(inner.get().at());
            next = inner.get().outer(py);
        }
        Ok(())
    }

    /// Ends the innermost call with that tag, and calls inside it that an exception has left open.
    fn end_tagged(&self, py: Python<'_>, tag: u64) -> PyResult<()> {
        self.end_innermost(py, tag)
    }

    /// Counts an internal error and keeps it from the program. Raises it again if one of the program's signal handlers
    /// raised it.
    #[pyo3(name = "failed")]
    fn py_failed(&self, py: Python<'_>, error: &Bound<'_, PyAny>) -> PyResult<()> {
        self.kept_from_program(py, Err(PyErr::from_value(error.clone())))
    }

    /// Whether the context's current call is a forward pass or an optimizer step.
    #[getter]
    fn is_in_pass(&self, py: Python<'_>) -> bool {
        let within = self.within(py);
        let kind = within
            .and_then(|within| self.state.with(py, |state| state.recorder.kind_of(Some(within.at())))?);
        matches!(kind, Some(ScopeKind::Forward | ScopeKind::Optimizer))
    }

    /// The tags of the context's forward passes and optimizer steps that this thread has begun, innermost first.
    fn passes(&self, py: Python<'_>) -> Vec<u64> {
        let mut passes = Vec::new();
        let mut next = self.within(py).map(|Within(call)| call);
        while let Some(call) = next {
            let (at, is_here) = (call.get().at(), call.get().thread() == call::thread());
            let kind = self.state.with(py, |state| state.recorder.kind_of(Some(at))).flatten();
            let is_pass = matches!(kind, Some(ScopeKind::Forward | ScopeKind::Optimizer));
            if is_here && is_pass && self.runs(py, at) {
                passes.push(call.get().tag());
            }
            next = call.get().outer(py);
        }
        passes
    }

    /// Records a snapshot.
    #[pyo3(signature = (name = None))]
    fn snapshot(&self, py: Python<'_>, name: Option<&str>) {
        self.state.with(py, |state| state.recorder.snapshot(name));
    }

    /// Registers the tracked devices, in the order of summaries.
    fn devices(&self, py: Python<'_>, names: Vec<String>) {
        self.state.with(py, |state| {
            for name in names {
                state.recorder.pool(&name, false);
            }
        });
    }

    /// Records what the numbers of a device do not include.
    fn not_watched(&self, py: Python<'_>, device: &str, what: &str) {
        self.state.with(py, |state| {
            let pool = state.recorder.pool(device, false);
            state.recorder.not_watched(pool, what);
        });
    }

    /// Makes every reading of counters a step, because there are no others.
    fn only_counters(&self, py: Python<'_>) {
        self.state.with(py, |state| state.recorder.readings_are_steps());
    }

    /// Records the counters of a pool, in bytes.
    #[pyo3(signature = (pool, *, allocated = None, active = None, reserved = None, requested = None, free = None,
        capacity = None))]
    #[allow(clippy::too_many_arguments, reason = "they are named")]
    fn reading(
        &self,
        py: Python<'_>,
        pool: &str,
        allocated: Option<u64>,
        active: Option<u64>,
        reserved: Option<u64>,
        requested: Option<u64>,
        free: Option<u64>,
        capacity: Option<u64>,
    ) {
        let largest_free = None;
        let reading = Reading { allocated, active, reserved, requested, free, largest_free, capacity };
        self.state.with(py, |state| {
            let pool = state.recorder.pool(pool, true);
            state.recorder.reading(pool, reading);
        });
    }

    /// Records the peak that a pool's counter reports since it was last read.
    fn highest(&self, py: Python<'_>, pool: &str, size: u64) {
        self.state.with(py, |state| {
            let pool = state.recorder.pool(pool, true);
            state.recorder.highest(pool, size);
        });
    }

    /// Records the process that is tracked. `versions`: those of Python, PyTorch, the device runtime and the driver.
    #[pyo3(signature = (argv, *, pid, rank, local_rank, world_size, host, versions))]
    #[allow(clippy::too_many_arguments, reason = "they are named")]
    fn launch(
        &self,
        py: Python<'_>,
        argv: Vec<String>,
        pid: Option<u32>,
        rank: Option<u32>,
        local_rank: Option<u32>,
        world_size: Option<u32>,
        host: Option<String>,
        versions: [Option<String>; 4],
    ) {
        self.state.with(py, |state| {
            let recorder = &mut state.recorder;
            let is_one_of_several = world_size.is_some_and(|size| size > 1);
            let label = rank.filter(|_| is_one_of_several).map(|rank| recorder.text(&rank.to_string()));
            let host = host.map(|host| recorder.text(&host));
            let [python, torch, runtime, driver] =
                versions.map(|version| version.map(|version| recorder.text(&version)));
            let arguments: Vec<_> = argv.into_iter().map(|argument| recorder.text(&argument)).collect();
            let launch =
                Launch { label, pid, rank, local_rank, world_size, host, python, torch, runtime, driver };
            recorder.launch(launch, &arguments);
        });
    }

    /// Records the settings of a pool's allocator. `divisions`: sizes in MiB, and into how many parts they are divided for
    /// rounding.
    #[pyo3(signature = (pool, *, max_split, is_expandable, divisions, limit))]
    fn allocator_rules(
        &self,
        py: Python<'_>,
        pool: &str,
        max_split: Option<u64>,
        is_expandable: bool,
        divisions: Vec<(u64, u16)>,
        limit: Option<u64>,
    ) {
        let mut rules = AllocatorRules { max_split, is_expandable, limit, ..AllocatorRules::default() };
        for (mib, divisions) in divisions {
            rules.set_divisions(mib, divisions);
        }
        self.state.with(py, |state| {
            let pool = state.recorder.pool(pool, true);
            state.recorder.allocator_rules(pool, rules);
        });
    }

    /// Records a profiler's totals of an operation.
    #[pyo3(signature = (name, count, cpu_time, device_time, cpu_bytes, device_bytes, shapes))]
    #[allow(clippy::too_many_arguments, reason = "they are the columns of a row")]
    fn op_totals(
        &self,
        py: Python<'_>,
        name: &str,
        count: u64,
        cpu_time: u64,
        device_time: Option<u64>,
        cpu_bytes: i64,
        device_bytes: Option<i64>,
        shapes: Option<&str>,
    ) {
        self.state.with(py, |state| {
            let name = state.recorder.text(name);
            let shapes = shapes.map(|shapes| state.recorder.text(shapes));
            let totals = OpTotals { name, count, cpu_time, device_time, cpu_bytes, device_bytes, shapes };
            state.recorder.op_totals(totals);
        });
    }

    /// Records the expected sizes of tensor classes, given as keys and values.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 converts a list to this")]
    fn expect(&self, py: Python<'_>, words: Vec<(String, String)>) -> PyResult<()> {
        let expected = Expectations::of(&words).map_err(PyValueError::new_err)?;
        self.state.with(py, |state| {
            for one in expected.iter() {
                let how = state.recorder.text(&one.how);
                state.recorder.expected(Expected { class: one.class, bytes: one.bytes, how });
            }
        });
        Ok(())
    }

    /// Records a warning.
    fn warn(&self, py: Python<'_>, message: String) {
        self.state.with(py, |state| state.recorder.warn(message));
    }

    /// Records the exception that ends the program: its text, and the messages of its chain of causes.
    #[allow(clippy::needless_pass_by_value, reason = "Python's list is converted")]
    fn ended_by(&self, py: Python<'_>, text: &str, messages: Vec<String>) {
        self.program_ended_by(py, text, &messages);
    }

    /// For each device: current bytes, peak bytes, number of live storages, number of allocations.
    fn figures(&self, py: Python<'_>) -> Vec<(String, u64, u64, u64, u64)> {
        let figures = self.state.with(py, |state| {
            let pools = state.recorder.pools();
            pools.map(|(name, f)| (name.to_owned(), f.now, f.peak, f.count, f.allocations)).collect()
        });
        figures.unwrap_or_default()
    }

    /// For each device: the peak above the start, and the bytes allocated and freed since the last call. A storage
    /// whose allocation was not tracked does not count as allocated, but counts as freed.
    fn next_phase(&self, py: Python<'_>) -> Vec<(String, i64, u64, u64)> {
        let phases = self.state.with(py, State::next_phase).unwrap_or_default().into_iter();
        phases.map(|(name, of)| (name, of.peak, of.total_allocations, of.total_deallocations)).collect()
    }

    /// Number of internal errors that were kept from the program, including a recording that ended early.
    #[getter]
    fn errors(&self, py: Python<'_>) -> u64 {
        let errors = |state: &mut State| state.errors + u64::from(state.recorder.failure().is_some());
        self.state.with(py, errors).unwrap_or(0)
    }

    /// Why the recording is no longer written; `None` if it is.
    #[getter]
    fn failure(&self, py: Python<'_>) -> Option<String> {
        self.state.with(py, |state| state.recorder.failure().map(str::to_owned)).flatten()
    }

    /// Whether anything is recorded.
    #[getter]
    fn get_is_on(&self) -> bool {
        self.is_on()
    }

    #[setter]
    fn set_is_on(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Waits until all recorded events are written.
    fn flush(&self, py: Python<'_>) {
        let flushing = self.state.with(py, |state| state.recorder.begin_flush()).flatten();
        // Other threads run meanwhile.
        py.detach(|| flushing.map(Flushing::wait));
    }

    /// Completes the recording.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.is_on.store(false, Ordering::Relaxed);
        let finishing = self.state.with(py, |state| {
            let errors = state.errors;
            if errors > 0 {
                let events = counted(errors, "event");
                let message = format!("{events} could not be tracked, so the numbers may be incomplete");
                state.recorder.warn(message);
            }
            state.recorder.begin_finish()
        });
        let finished = py.detach(|| finishing.flatten().map(Finishing::wait));
        let gone = self.gone.with(py, Option::take);
        let state =
            self.state.with(py, |state| std::mem::replace(state, State::new(Recorder::new(), Vec::new())));
        // Dropped outside the cells, because dropping them calls into Python.
        drop((gone, state));
        finished.unwrap_or(Ok(())).map_err(|error| raised(py, error))
    }

    /// Leaves the recording to the process that began it: after a fork, in the child.
    fn abandon(&self, py: Python<'_>) {
        self.is_on.store(false, Ordering::Relaxed);
        self.state.with(py, |state| state.recorder.abandon());
    }
}

impl Watch {
    /// A number that identifies this tracker.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(super) fn has_details(&self) -> bool {
        self.has_details.load(Ordering::Relaxed)
    }

    pub(super) fn tells_allocators(&self) -> bool {
        self.tells_allocators.load(Ordering::Relaxed)
    }

    /// Sets the class and name of a tensor.
    pub(super) fn classify_as(
        slf: &Bound<'_, Self>,
        tensor: &Bound<'_, PyAny>,
        class: Class,
        name: Option<&str>,
        requires_grad: Option<bool>,
        only_unknown: bool,
    ) -> PyResult<()> {
        let (py, watch) = (slf.py(), slf.get());
        watch.label_tensor(tensor, class, name, requires_grad)?;
        for (place, is_new) in watch.places(slf, tensor, NOT_TRACKED, Some(class))? {
            watch.state.with(py, |state| {
                let (known, is_named) = state
                    .recorder
                    .held_at(place)
                    .map_or((Class::Unknown, false), |held| (held.class, held.is_named));
                let says_nothing = known == class && (is_named || name.is_none());
                // A storage that was unknown has its class now, but no name yet.
                if !is_new && (says_nothing || only_unknown && known != Class::Unknown) {
                    return;
                }
                let name = name.map(|name| state.recorder.text(name));
                state.recorder.classify(place, class, name);
                if let Some(does) = requires_grad {
                    state.recorder.requires_grad(place, does);
                }
            });
        }
        Ok(())
    }

    /// Begins a call inside the context's current one and makes it the current one.
    pub(super) fn begin_scope<'py>(
        slf: &Bound<'py, Self>,
        name: &str,
        kind: ScopeKind,
        tag: u64,
    ) -> PyResult<Option<Bound<'py, Call>>> {
        let (py, watch) = (slf.py(), slf.get());
        // Skips ended calls: tasks that start each other would build an endless chain.
        let mut outer = watch.within(py);
        while let Some(Within(call)) = outer.take_if(|outer| !watch.runs(py, outer.at())) {
            outer = call.get().outer(py).map(Within);
        }
        let parent = outer.as_ref().map(Within::at);
        let Some(lane) = watch.lane(py)? else { return Ok(None) };
        let at = watch.state.with(py, |state| {
            state.has_calls = true;
            let outer = state.recorder.scope_of(parent);
            let scope = state.recorder.scope(outer, name, kind);
            state.recorder.enter(scope, lane, parent, None)
        });
        let Some(at) = at.flatten() else { return Ok(None) };
        let outer = outer.map(|Within(call)| call.unbind());
        let call = Bound::new(py, Call::new(slf.clone().unbind(), at, outer, tag))?;
        watch.hold.bind(py).call1((&call,))?;
        watch.pass_on(py, Some(at));
        Ok(Some(call))
    }

    /// Ends the context's innermost call with that tag, and calls inside it.
    pub(super) fn end_innermost(&self, py: Python<'_>, tag: u64) -> PyResult<()> {
        let mut inside = Vec::new();
        let mut next = self.within(py).map(|Within(call)| call);
        while let Some(call) = next {
            inside.push(call.get().at());
            let outer = call.get().outer(py);
            if call.get().tag() == tag {
                for at in inside {
                    self.exit(py, at);
                }
                return self.back_to(py, outer.as_ref());
            }
            next = outer;
        }
        Ok(())
    }

    /// Whether the context's current call has this tag.
    pub(super) fn is_innermost(&self, py: Python<'_>, tag: u64) -> bool {
        self.within(py).is_some_and(|Within(call)| call.get().tag() == tag)
    }

    /// Reports that the context's current call returns several tensors, or an object that may contain several.
    pub(super) fn several_outputs(&self, py: Python<'_>) {
        if let Some(Within(call)) = self.within(py) {
            let at = call.get().at();
            self.state.with(py, |state| state.recorder.several_outputs(at));
        }
    }

    /// Whether the context's current call is a forward pass.
    pub(super) fn is_in_forward(&self, py: Python<'_>) -> bool {
        let Some(within) = self.within(py) else { return false };
        let kind = self.state.with(py, |state| state.recorder.kind_of(Some(within.at()))).flatten();
        kind == Some(ScopeKind::Forward)
    }

    /// Whether to label the output of this call: that of the 1st, 2nd, 3rd, 5th, 9th … call of a scope.
    pub(super) fn labels_are_wanted(&self, py: Python<'_>) -> bool {
        let Some(within) = self.within(py) else { return false };
        if self.labels_all.load(Ordering::Relaxed) {
            return true;
        }
        let before = self.state.with(py, |state| {
            let scope = state.recorder.scope_of(Some(within.at()));
            scope.map_or(0, |scope| state.recorder.totals_of(scope).count)
        });
        before.is_some_and(|before| before & before.wrapping_sub(1) == 0)
    }

    /// Waits for the disk if the program is far ahead of it. Called when nothing is locked; releases the GIL.
    #[inline]
    fn keep_pace(&self, py: Python<'_>) {
        if let Some(backlog) = self.state.with(py, |state| state.recorder.backlog()).flatten() {
            py.detach(|| backlog.wait());
        }
    }

    pub fn exit(&self, py: Python<'_>, at: CallRef) {
        self.state.with(py, |state| state.recorder.exit(at));
    }

    pub(super) fn runs(&self, py: Python<'_>, at: CallRef) -> bool {
        self.state.with(py, |state| state.recorder.runs(at)).unwrap_or(false)
    }

    pub fn release(&self, py: Python<'_>, at: CallRef) {
        self.state.with(py, |state| state.recorder.release(at));
    }

    /// The context's current call.
    pub(super) fn within<'py>(&self, py: Python<'py>) -> Option<Within<'py>> {
        if !self.state.with(py, |state| state.has_calls).unwrap_or(false) {
            return None;
        }
        let call = self.current.bind(py).call0().ok()?;
        let call = call.cast_into::<Call>().ok()?;
        call.get().is_of(self).then_some(Within(call))
    }

    /// The lane of this thread.
    pub(super) fn lane(&self, py: Python<'_>) -> PyResult<Option<ttmem::model::LaneId>> {
        let mut error = None;
        let lane = call::lane(self.number, || {
            let name = thread_name(py).map_err(|why| error = Some(why)).ok()?;
            self.state.with(py, |state| state.recorder.lane(&name))
        });
        error.map_or(Ok(lane), Err)
    }

    /// A weak reference to a storage, with `gone` as its callback.
    #[allow(unsafe_code)]
    pub(super) fn weak<'py>(
        &self,
        this: &Bound<'py, Self>,
        storage: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let gone = self.gone_of(this)?;
        // SAFETY: both are live Python objects, and the GIL is held. The result is a new reference, or null with an
        // exception set.
        unsafe {
            Bound::from_owned_ptr_or_err(this.py(), ffi::PyWeakref_NewRef(storage.as_ptr(), gone.as_ptr()))
        }
    }

    /// `self.gone`, created on first use.
    pub(super) fn gone_of<'py>(&self, this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let known = self.gone.with(py, |gone| gone.as_ref().map(|gone| gone.bind(py).clone()));
        if let Some(gone) = known.flatten() {
            return Ok(gone);
        }
        let gone = this.getattr(intern!(py, "gone"))?;
        self.gone.with(py, |slot| *slot = Some(gone.clone().unbind()));
        Ok(gone)
    }

    /// Counts an internal error. Returns errors of the program: Ctrl-C and other signal handlers may raise while our
    /// Python code runs.
    pub(super) fn kept_from_program(&self, py: Python<'_>, result: PyResult<()>) -> PyResult<()> {
        let Err(error) = result else { return Ok(()) };
        if !error.is_instance_of::<PyException>(py) || self.is_programs(py, &error) {
            return Err(error);
        }
        self.failed(py, error);
        Ok(())
    }

    fn is_programs(&self, py: Python<'_>, error: &PyErr) -> bool {
        // An exception object with its traceback, which `value` lacks in older versions of Python.
        let error = error.clone_ref(py);
        self.is_programs.call1(py, (error,)).is_ok_and(|is| is.is_truthy(py).unwrap_or(false))
    }

    /// Runs `act` without calling the program's `__torch_function__` overrides, of modes and classes.
    pub(super) fn without_torch_function<R>(
        &self,
        py: Python<'_>,
        act: impl FnOnce() -> PyResult<R>,
    ) -> PyResult<R> {
        let guard = self.disable_torch_function.bind(py).call0()?;
        guard.call_method0(intern!(py, "__enter__"))?;
        let done = act();
        let none = py.None();
        guard.call_method1(intern!(py, "__exit__"), (&none, &none, &none))?;
        done
    }

    /// Counts an internal error; logs the first one.
    pub(super) fn failed(&self, py: Python<'_>, error: PyErr) {
        let first = self.state.with(py, |state| {
            state.errors += 1;
            state.errors == 1
        });
        if first == Some(true) {
            // An error while logging is ignored.
            let _ = self.complain.call1(py, (error,));
        }
    }
}

/// The current call of a context, kept alive while it is used.
pub(super) struct Within<'py>(pub Bound<'py, Call>);

fn thread_name(py: Python<'_>) -> PyResult<String> {
    py.import("threading")?.call_method0("current_thread")?.getattr("name")?.extract()
}

fn class_of(name: &str) -> PyResult<Class> {
    let found = Class::ALL.into_iter().find(|class| class.as_str() == name);
    found.ok_or_else(|| {
        let known = Class::ALL.map(Class::as_str).join(", ");
        PyValueError::new_err(format!("invalid class {name:?}: expected one of {known}"))
    })
}

fn kind_of(name: &str) -> PyResult<ScopeKind> {
    let found = ScopeKind::ALL.into_iter().find(|kind| kind.as_str() == name);
    found.ok_or_else(|| {
        let known = ScopeKind::ALL.map(ScopeKind::as_str).join(", ");
        PyValueError::new_err(format!("invalid kind {name:?}: expected one of {known}"))
    })
}

pub(super) fn busy() -> PyErr {
    PyRuntimeError::new_err("nested call into the tracker")
}
