//! Forward passes of modules, and their outputs.
//!
//! Every forward pass of every module calls this twice, so it must be fast: Python is only called for unknown modules,
//! and for the passes of whole models.

use std::cell::Cell;
use std::hash::Hasher;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyWeakrefMethods, PyWeakrefReference};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use ttmem::model::{Class, ScopeKind};

use super::gil_cell::GilCell;
use super::state::{Address, address};
use super::tensors::MAX_DEPTH;
use super::watch::{Watch, busy};

/// The class that `torch.compile` wraps a module in.
const WRAPPER: &str = "OptimizedModule";
/// Freed modules are removed each time the number of modules has doubled since the last removal, from this number on.
const MIN_CLEANUP: usize = 1024;

/// A registered module.
struct KnownModule {
    /// Detects that another module has the same address after this one was freed.
    weak: Py<PyWeakrefReference>,
    name: Arc<str>,
    is_model: bool,
}

#[derive(Default)]
struct Known {
    modules: FxHashMap<Address, KnownModule>,
    next_cleanup: usize,
}

/// Enters a scope for the forward pass of every module.
#[pyclass(frozen, module = "ttmem._native")]
pub(crate) struct Forward {
    watch: Py<Watch>,
    /// `ttmem._torch.modules`: `learn` registers a model and its modules; `enters`, `keeps` and `leaves` are called for
    /// the passes of models.
    models: Py<PyAny>,
    known: GilCell<Known>,
}

#[pymethods]
impl Forward {
    #[new]
    fn new(watch: Py<Watch>, models: Py<PyAny>) -> Self {
        Self { watch, models, known: GilCell::new(Known::default()) }
    }

    /// Sets the name of a module. A module that is a model stays a model.
    fn know(&self, py: Python<'_>, module: &Bound<'_, PyAny>, name: &str, is_model: bool) -> PyResult<()> {
        self.remove_freed(py);
        let weak = PyWeakrefReference::new(module)?.unbind();
        let is_model = is_model || self.known(py, module).is_some_and(|(_, was_model)| was_model);
        let module_now = KnownModule { weak, name: name.into(), is_model };
        let before = self.known.with(py, |known| known.modules.insert(address(module), module_now));
        drop(before);
        Ok(())
    }

    /// Called when the forward pass of a module begins.
    fn begins(&self, py: Python<'_>, module: &Bound<'_, PyAny>, args: &Bound<'_, PyAny>) -> PyResult<()> {
        let watch = self.watch.get();
        if !watch.is_on() || !watch.has_details() && watch.is_in_forward(py) {
            return Ok(());
        }
        watch.kept_from_program(py, self.enter(py, module, args))
    }

    /// Called when the forward pass of a module ends, even with an exception.
    fn ends(&self, py: Python<'_>, module: &Bound<'_, PyAny>, output: &Bound<'_, PyAny>) -> PyResult<()> {
        let watch = self.watch.get();
        if !watch.has_details() && !watch.is_innermost(py, tag(module)) {
            return Ok(());
        }
        watch.kept_from_program(py, self.leave(py, module, output))
    }

    /// Enters the forward pass of a model, without looking at its modules.
    fn begins_alone(&self, py: Python<'_>, model: &Bound<'_, PyAny>) -> PyResult<()> {
        let entered = self.known_or_learned(py, model).and_then(|(name, _)| {
            Watch::begin_scope(self.watch.bind(py), &name, ScopeKind::Forward, tag(model)).map(drop)
        });
        self.watch.get().kept_from_program(py, entered)
    }

    /// Leaves a forward pass that `begins_alone` has entered.
    fn ends_alone(&self, py: Python<'_>, model: &Bound<'_, PyAny>) -> PyResult<()> {
        let watch = self.watch.get();
        watch.kept_from_program(py, watch.end_innermost(py, tag(model)))
    }

    /// Two hashes: the first changes when modules get other submodules, the second when their parameters or buffers are
    /// replaced or moved.
    fn fingerprint(&self, py: Python<'_>, modules: &Bound<'_, PyList>) -> PyResult<(u64, u64)> {
        self.watch.get().without_torch_function(py, || self.fingerprint_of(py, modules))
    }

    /// Classifies the parameters and buffers of modules, given as weak references with name prefixes.
    fn contents(&self, py: Python<'_>, modules: &Bound<'_, PyList>) -> PyResult<()> {
        let mut seen = FxHashSet::default();
        for kind in [("_parameters", Class::Parameter), ("_buffers", Class::Buffer)] {
            self.in_each(py, modules, |module, prefix| {
                self.contents_of(py, module, kind, prefix, &mut seen)
            })?;
        }
        Ok(())
    }

    /// Classifies the gradients of the modules' parameters; modules are given as weak references with name prefixes.
    ///
    /// No other thread may use the modules meanwhile: PyTorch writes gradients without the GIL.
    fn gradients(&self, py: Python<'_>, modules: &Bound<'_, PyList>) -> PyResult<()> {
        let mut seen = FxHashSet::default();
        self.in_each(py, modules, |module, prefix| self.gradients_of(py, module, prefix, &mut seen))
    }
}

impl Forward {
    /// Calls `look` for each module that still exists. An error in one does not skip the others.
    fn in_each(
        &self,
        py: Python<'_>,
        modules: &Bound<'_, PyList>,
        mut look: impl FnMut(&Bound<'_, PyAny>, &Bound<'_, PyAny>) -> PyResult<()>,
    ) -> PyResult<()> {
        let watch = self.watch.get();
        watch.without_torch_function(py, || {
            for row in modules {
                let (module, prefix): (Bound<'_, PyWeakrefReference>, Bound<'_, PyAny>) = row.extract()?;
                let Some(module) = module.upgrade() else { continue };
                watch.kept_from_program(py, look(&module, &prefix))?;
            }
            Ok(())
        })
    }

    fn fingerprint_of(&self, py: Python<'_>, modules: &Bound<'_, PyList>) -> PyResult<(u64, u64)> {
        let (mut inside, mut tensors) = (FxHasher::default(), FxHasher::default());
        for row in modules {
            let (module, _): (Bound<'_, PyWeakrefReference>, Bound<'_, PyAny>) = row.extract()?;
            let Some(module) = module.upgrade() else { continue };
            for part in values_of(&module, intern!(py, "_modules"))? {
                inside.write_usize(address(&part));
            }
            for kind in [intern!(py, "_parameters"), intern!(py, "_buffers")] {
                for tensor in values_of(&module, kind)? {
                    tensors.write_usize(address(&tensor));
                    if self.watch.get().is_plain_tensor(&tensor) {
                        // A lazy parameter has no address yet.
                        let at = tensor.call_method0(intern!(py, "data_ptr")).and_then(|at| at.extract());
                        tensors.write_u64(at.unwrap_or(0));
                    }
                }
            }
        }
        Ok((inside.finish(), tensors.finish()))
    }

    fn contents_of(
        &self,
        py: Python<'_>,
        module: &Bound<'_, PyAny>,
        (kind, class): (&str, Class),
        prefix: &Bound<'_, PyAny>,
        seen: &mut FxHashSet<Address>,
    ) -> PyResult<()> {
        for row in items_of(module, &PyString::new(py, kind))?.try_iter()? {
            let (name, tensor): (Bound<'_, PyAny>, Bound<'_, PyAny>) = row?.extract()?;
            // A shared tensor keeps its first name.
            if tensor.is_none() || !seen.insert(address(&tensor)) {
                continue;
            }
            let does = tensor.getattr(intern!(py, "requires_grad"))?.is_truthy()?;
            let name = format!("{prefix}{name}");
            Watch::classify_as(self.watch.bind(py), &tensor, class, Some(&name), Some(does), false)?;
        }
        Ok(())
    }

    fn gradients_of(
        &self,
        py: Python<'_>,
        module: &Bound<'_, PyAny>,
        prefix: &Bound<'_, PyAny>,
        seen: &mut FxHashSet<Address>,
    ) -> PyResult<()> {
        for row in items_of(module, intern!(py, "_parameters"))?.try_iter()? {
            let (name, parameter): (Bound<'_, PyAny>, Bound<'_, PyAny>) = row?.extract()?;
            // PyTorch warns when the gradient of a non-leaf tensor is read.
            if parameter.is_none() || !parameter.getattr(intern!(py, "is_leaf"))?.is_truthy()? {
                continue;
            }
            let gradient = parameter.getattr(intern!(py, "grad"))?;
            if gradient.is_none() || !seen.insert(address(&gradient)) {
                continue;
            }
            let name = format!("{prefix}{name}.grad");
            let watch = self.watch.bind(py);
            Watch::classify_as(watch, &gradient, Class::Gradient, Some(&name), None, false)?;
        }
        Ok(())
    }

    fn enter(&self, py: Python<'_>, module: &Bound<'_, PyAny>, args: &Bound<'_, PyAny>) -> PyResult<()> {
        let (name, is_model) = self.known_or_learned(py, module)?;
        let is_outermost = !self.watch.get().is_in_forward(py);
        if is_outermost {
            self.models.call_method1(py, intern!(py, "iterates"), (module,))?;
        }
        if is_model {
            let model = compiled_in(module)?.unwrap_or_else(|| module.clone());
            let enters = || self.models.call_method1(py, intern!(py, "enters"), (model, args));
            self.watch.get().without_torch_function(py, enters)?;
        } else if is_outermost {
            self.models.call_method1(py, intern!(py, "enters_part"), (module,))?;
        }
        Watch::begin_scope(self.watch.bind(py), &name, ScopeKind::Forward, tag(module))?;
        Ok(())
    }

    fn leave(&self, py: Python<'_>, module: &Bound<'_, PyAny>, output: &Bound<'_, PyAny>) -> PyResult<()> {
        let (watch, known) = (self.watch.get(), self.known_inside(py, module)?);
        let is_model = known.as_ref().is_some_and(|(_, is_model)| *is_model);
        let labeled = match known {
            Some((name, _)) if watch.tells_allocators() && watch.has_details() && watch.is_on() => {
                watch.without_torch_function(py, || self.label_output(py, &name, is_model, output))
            }
            _ => Ok(()),
        };
        if watch.is_innermost(py, tag(module)) && !watch.is_at_most_one_tensor(output).unwrap_or(false) {
            watch.several_outputs(py);
        }
        watch.end_innermost(py, tag(module))?;
        if !watch.has_details() {
            self.models.call_method0(py, intern!(py, "left_alone"))?;
        }
        if is_model {
            let leaves = || self.models.call_method1(py, intern!(py, "leaves"), (output,));
            watch.without_torch_function(py, leaves)?;
        }
        labeled
    }

    /// Labels a module's output and the tensors it keeps, for allocators with a history, which know only addresses.
    fn label_output(
        &self,
        py: Python<'_>,
        name: &Arc<str>,
        is_model: bool,
        output: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let watch = self.watch.get();
        self.mark(py, name, output, 0)?;
        if watch.labels_are_wanted(py) {
            watch.label_all(output, Class::Activation, 0)?;
            if is_model {
                self.models.call_method1(py, intern!(py, "keeps"), (output,))?;
            }
        }
        Ok(())
    }

    /// Hooks a module's output in the autograd graph: the autograd engine's threads do not know the module. Returns
    /// whether there was a tensor to hook.
    fn mark(
        &self,
        py: Python<'_>,
        name: &Arc<str>,
        output: &Bound<'_, PyAny>,
        depth: usize,
    ) -> PyResult<bool> {
        let watch = self.watch.get();
        if watch.is_plain_tensor(output) || watch.is_tensor(output)? {
            return self.mark_tensor(py, name, output);
        }
        if depth > MAX_DEPTH {
            return Ok(false);
        }
        let parts = if let Ok(parts) = output.cast::<PyDict>() {
            parts.values()
        } else if output.is_instance_of::<PyTuple>() || output.is_instance_of::<PyList>() {
            output.try_iter()?.collect::<PyResult<Vec<_>>>().and_then(|parts| PyList::new(py, parts))?
        } else {
            return Ok(false);
        };
        for part in parts {
            if self.mark(py, name, &part, depth + 1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn mark_tensor(&self, py: Python<'_>, name: &Arc<str>, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        let node = tensor.getattr(intern!(py, "grad_fn"))?;
        if node.is_none() || tensor.getattr(intern!(py, "is_cpu"))?.is_truthy()? {
            return Ok(false);
        }
        // The output of a module is often that of its last submodule, which is already marked. Each thread numbers its
        // nodes.
        let number =
            node.call_method0(intern!(py, "_sequence_nr")).and_then(|number| number.extract::<u64>());
        let marked = number.ok().map(|number| (self.watch.get().number(), number));
        if marked.is_none() || MARKED.replace(marked) != marked {
            let reached = Reached { watch: self.watch.clone_ref(py), name: Arc::clone(name) };
            node.call_method1(intern!(py, "register_prehook"), (reached,))?;
        }
        Ok(true)
    }

    /// The name of a registered module, and whether it is a model.
    fn known(&self, py: Python<'_>, module: &Bound<'_, PyAny>) -> Option<(Arc<str>, bool)> {
        let known = self.known.with(py, |known| {
            let known = known.modules.get(&address(module))?;
            Some((known.weak.clone_ref(py), Arc::clone(&known.name), known.is_model))
        });
        let (weak, name, is_model) = known.flatten()?;
        let is_it = weak.bind(py).upgrade().is_some_and(|known| known.is(module));
        is_it.then_some((name, is_model))
    }

    /// The same; for a compiled module, that of the module inside.
    fn known_inside(&self, py: Python<'_>, module: &Bound<'_, PyAny>) -> PyResult<Option<(Arc<str>, bool)>> {
        if let Some(known) = self.known(py, module) {
            return Ok(Some(known));
        }
        Ok(compiled_in(module)?.and_then(|inside| self.known(py, &inside)))
    }

    /// The same; registers an unknown module as a model.
    fn known_or_learned(&self, py: Python<'_>, module: &Bound<'_, PyAny>) -> PyResult<(Arc<str>, bool)> {
        if let Some(known) = self.known_inside(py, module)? {
            return Ok(known);
        }
        let model = compiled_in(module)?.unwrap_or_else(|| module.clone());
        self.models.call_method1(py, intern!(py, "learn"), (&model,))?;
        self.known(py, &model).ok_or_else(busy)
    }

    fn remove_freed(&self, py: Python<'_>) {
        let full = self.known.with(py, |known| {
            let is_full = known.modules.len() >= known.next_cleanup.max(MIN_CLEANUP);
            is_full.then(|| std::mem::take(&mut known.modules))
        });
        // Outside the cell: this may drop the last reference to a module, which calls into Python.
        let Some(mut modules) = full.flatten() else { return };
        modules.retain(|_, module| module.weak.bind(py).upgrade().is_some());
        self.known.with(py, |known| {
            known.next_cleanup = modules.len() * 2;
            modules.extend(known.modules.drain());
            known.modules = modules;
        });
    }
}

/// The module that `torch.compile` wraps. If it is compiled completely, hooks of its submodules are not called.
fn compiled_in<'py>(module: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if module.get_type().name()? != WRAPPER {
        return Ok(None);
    }
    module.getattr(intern!(module.py(), "_orig_mod")).map(Some)
}

/// The items of a module's dictionary.
fn items_of<'py>(module: &Bound<'py, PyAny>, kind: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    let found = module.getattr(kind)?;
    // A TorchScript module has a mapping that is not a dictionary.
    match found.cast::<PyDict>() {
        Ok(found) => Ok(found.items().into_any()),
        Err(_) => found.call_method0(intern!(module.py(), "items")),
    }
}

/// The values of a module's dictionary; none for a TorchScript module, which does not change.
fn values_of<'py>(
    module: &Bound<'py, PyAny>,
    kind: &Bound<'py, PyString>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let found = module.getattr(kind)?;
    Ok(found.cast::<PyDict>().map(|found| found.values().iter().collect()).unwrap_or_default())
}

/// The tag of a module's calls.
fn tag(module: &Bound<'_, PyAny>) -> u64 {
    address(module) as u64
}

thread_local! {
    /// The tracker and autograd node that were marked last in this thread.
    static MARKED: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// Hook that the autograd engine calls when it reaches the output of a module.
#[pyclass(frozen, module = "ttmem._native")]
struct Reached {
    watch: Py<Watch>,
    name: Arc<str>,
}

#[pymethods]
impl Reached {
    fn __call__(&self, py: Python<'_>, gradients: &Bound<'_, PyAny>) {
        let _ = gradients;
        let watch = self.watch.bind(py);
        if watch.get().is_on()
            && let Err(error) = Watch::part_begins(watch, &self.name)
        {
            watch.get().failed(py, error);
        }
    }
}
