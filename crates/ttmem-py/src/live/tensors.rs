//! Finds the storages of tensors: results of operations, and tensors that hooks report.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use ttmem::model::{Class, Holder, Label, OpId, PoolId, StrId};
use ttmem::record::live::Place;

use super::lines::{lines, number_of_lines};
use super::state::{Memory, Seen, address};
use super::watch::{Watch, Within, busy};

/// Tensors with more dimensions have no type.
const MAX_DIMS: usize = 16;
/// Tensors are searched in containers to this depth.
pub(super) const MAX_DEPTH: usize = 4;

/// A tensor and its storage.
type WithStorage<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

impl Watch {
    /// Records the results of an operation.
    pub(super) fn results(
        &self,
        this: &Bound<'_, Self>,
        func: &Bound<'_, PyAny>,
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if self.is_plain_tensor(result) {
            return self.result(this, func, result);
        }
        if let Ok(results) = result.cast::<PyTuple>() {
            return results.iter().try_for_each(|result| self.results(this, func, &result));
        }
        if let Ok(results) = result.cast::<PyList>() {
            return results.iter().try_for_each(|result| self.results(this, func, &result));
        }
        if self.is_tensor(result)? {
            return self.result(this, func, result);
        }
        Ok(())
    }

    /// Records the plain tensors that a result consists of.
    fn result(
        &self,
        this: &Bound<'_, Self>,
        func: &Bound<'_, PyAny>,
        tensor: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if self.is_plain_tensor(tensor)
            && let Ok(storage) = tensor.call_method0(intern!(this.py(), "untyped_storage"))
        {
            return self.plain_result(this, func, tensor, &storage);
        }
        for part in self.inner.bind(this.py()).call1((tensor,))?.try_iter()? {
            let part = part?;
            let storage = part.call_method0(intern!(this.py(), "untyped_storage"))?;
            self.plain_result(this, func, &part, &storage)?;
        }
        Ok(())
    }

    /// Records the storage of a result if it is new or was resized.
    fn plain_result(
        &self,
        this: &Bound<'_, Self>,
        func: &Bound<'_, PyAny>,
        tensor: &Bound<'_, PyAny>,
        storage: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = this.py();
        let known = self.state.with(py, |state| {
            let storage = state.storage(address(storage));
            storage.map(|(_, bytes)| (bytes, state.op(address(func)).is_none_or(|op| op.is_mutable)))
        });
        match known {
            Some(Some((_, false))) | None => Ok(()),
            Some(Some((before, true))) => {
                let bytes = size(storage)?;
                if bytes != before {
                    let (op, within) = (self.op(py, func)?, self.within(py));
                    self.state.with(py, |state| {
                        state.resized(address(storage), bytes, op, within.as_ref().map(Within::at));
                    });
                }
                Ok(())
            }
            Some(None) => {
                let op = self.op(py, func)?;
                // A view or in-place operation did not allocate its result: that allocation was not tracked.
                let makes_new =
                    self.state.with(py, |state| state.op(address(func)).is_none_or(|op| op.makes_new));
                let is_new = makes_new != Some(false);
                if self.estimates && !is_new && !self.is_plain_tensor(tensor) {
                    // A stand-in for a real tensor, which existed before and outlives it.
                    return Ok(());
                }
                let within = self.within(py).filter(|_| is_new);
                self.storage(this, tensor, storage, op, None, within.as_ref(), is_new).map(drop)
            }
        }
    }

    /// The places of a tensor's storages, and whether each was unknown. Unknown ones are recorded, outside any call.
    pub(super) fn places(
        &self,
        this: &Bound<'_, Self>,
        tensor: &Bound<'_, PyAny>,
        name: &str,
        class: Option<Class>,
    ) -> PyResult<Vec<(Place, bool)>> {
        let py = this.py();
        let mut places = Vec::new();
        for (tensor, storage) in self.parts_of(tensor)? {
            let known = self.state.with(py, |state| state.storage(address(&storage))).flatten();
            places.extend(match known {
                Some((place, _)) => Some((place, false)),
                None => {
                    let op = self.op_here(py, name)?;
                    let place = self.storage(this, &tensor, &storage, op, class, None, false)?;
                    place.map(|place| (place, true))
                }
            });
        }
        Ok(places)
    }

    /// Records the storages of a tensor as new, allocated in the call that runs.
    pub(super) fn made_by(
        &self,
        this: &Bound<'_, Self>,
        tensor: &Bound<'_, PyAny>,
        name: &str,
    ) -> PyResult<()> {
        let py = this.py();
        let (op, within) = (self.op_here(py, name)?, self.within(py));
        for (tensor, storage) in self.parts_of(tensor)? {
            let known = self.state.with(py, |state| state.storage(address(&storage))).flatten();
            if known.is_none() {
                self.storage(this, &tensor, &storage, op, None, within.as_ref(), true)?;
            }
        }
        Ok(())
    }

    /// Records a storage. Returns `None` if it has no memory.
    #[allow(clippy::too_many_arguments, reason = "they describe the storage")]
    fn storage(
        &self,
        this: &Bound<'_, Self>,
        tensor: &Bound<'_, PyAny>,
        storage: &Bound<'_, PyAny>,
        op: OpId,
        class: Option<Class>,
        within: Option<&Within<'_>>,
        is_new: bool,
    ) -> PyResult<Option<Place>> {
        let py = this.py();
        let Memory::In(pool) = self.memory(py, if self.estimates { tensor } else { storage })? else {
            return Ok(None);
        };
        let bytes = size(storage)?;
        // A tensor may have no readable shape.
        let (element, shape, sides) = self.element_and_shape(py, tensor).unwrap_or((0, [0; MAX_DIMS], None));
        let weak = self.weak(this, storage)?;
        let (storage, weak) = (address(storage), weak.unbind());
        let place = self.state.with(py, |state| {
            let shape = sides.and_then(|sides| shape.get(..sides));
            let ty = shape.and_then(|shape| state.tensor_type(element, shape));
            let seen = Seen { storage, bytes, pool, weak, op, ty, class, is_new };
            state.allocated(seen, within.map(Within::at))
        });
        Ok(place.and_then(|(place, _not_needed)| place))
    }

    /// How the device of a tensor or storage is tracked.
    fn memory(&self, py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Memory> {
        let device = object.getattr(intern!(py, "device"))?;
        let hash = device.hash()?;
        let known = self.state.with(py, |state| state.memory(hash)).flatten();
        let memory = match known {
            Some(memory) => Some(memory),
            None => {
                let name = device.str()?.to_string();
                self.state.with(py, |state| state.learn_memory(hash, &name))
            }
        };
        Ok(memory.unwrap_or(Memory::None))
    }

    /// The element type of a tensor, its shape, and its number of dimensions if the shape consists of plain numbers.
    fn element_and_shape(
        &self,
        py: Python<'_>,
        tensor: &Bound<'_, PyAny>,
    ) -> PyResult<(usize, [u64; MAX_DIMS], Option<usize>)> {
        let element = tensor.getattr(intern!(py, "dtype"))?;
        let known = self.state.with(py, |state| state.knows_element(address(&element)));
        if known == Some(false) {
            let name = element.str()?.to_string();
            let bytes = element.getattr(intern!(py, "itemsize"))?.extract()?;
            self.state.with(py, |state| state.learn_element(address(&element), &name, bytes));
        }
        let mut shape = [0; MAX_DIMS];
        let sides = tensor.getattr(intern!(py, "shape"))?;
        let sides = sides.cast::<PyTuple>()?;
        let is_plain = sides.len() <= MAX_DIMS
            && sides.iter().zip(&mut shape).all(|(from, to)| from.extract().map(|side| *to = side).is_ok());
        Ok((address(&element), shape, is_plain.then(|| sides.len())))
    }

    /// The id of a PyTorch operation that is called from the current stack.
    pub(super) fn op(&self, py: Python<'_>, func: &Bound<'_, PyAny>) -> PyResult<OpId> {
        let known = self.state.with(py, |state| state.op(address(func)).map(|op| op.name));
        let name = match known.flatten() {
            Some(name) => name,
            None => {
                let (name, is_mutable, makes_new) = described(func)?;
                let learned = self.state.with(py, |state| state.learn_op(func, &name, is_mutable, makes_new));
                learned.ok_or_else(busy)?
            }
        };
        self.at_site(py, name)
    }

    /// The id of a named operation that is called from the current stack.
    pub(super) fn op_here(&self, py: Python<'_>, name: &str) -> PyResult<OpId> {
        let name = self.state.with(py, |state| state.recorder.text(name)).ok_or_else(busy)?;
        self.at_site(py, name)
    }

    fn at_site(&self, py: Python<'_>, name: StrId) -> PyResult<OpId> {
        let number = number_of_lines(py);
        if let Some(op) = self.state.with(py, |state| state.site(name, number)).flatten() {
            return Ok(op);
        }
        let (lines, codes) = lines(py)?;
        let learned = self.state.with(py, |state| state.learn_site(name, number, &lines, codes));
        learned.map(|(op, _dropped)| op).ok_or_else(busy)
    }

    /// Records what keeps storages alive. All rows have the same time.
    pub(super) fn storages_held_by(&self, py: Python<'_>, rows: &[(Bound<'_, PyAny>, String)]) {
        let known = self.state.with(py, |state| (state.recorder.now(), state.has_histories()));
        let Some((time, has_histories)) = known else { return };
        for (storage, chain) in rows {
            let at = has_histories.then(|| self.address_in_history(py, storage)).flatten();
            self.state.with(py, |state| {
                let held = state.storage(address(storage)).map(|(place, _)| place);
                if held.is_none() && at.is_none() {
                    return;
                }
                let holder = Holder { chain: state.recorder.text(chain), time };
                match (held, at) {
                    (Some(place), _) => state.recorder.held_by(place, holder),
                    (None, Some((pool, at))) => state.recorder.address_held_by(pool, at, holder),
                    (None, None) => {}
                }
            });
        }
    }

    /// The address of a storage whose allocator has a history. `None` also for storages without memory, such as those of
    /// fake tensors.
    fn address_in_history(&self, py: Python<'_>, storage: &Bound<'_, PyAny>) -> Option<(PoolId, u64)> {
        let Memory::ByHistory(pool) = self.memory(py, storage).ok()? else { return None };
        let at = storage.call_method0(intern!(py, "data_ptr")).ok()?;
        Some((pool, at.extract().ok()?))
    }

    /// Records the class of a tensor if its allocator has a history, which identifies tensors by their addresses.
    pub(super) fn label_tensor(
        &self,
        tensor: &Bound<'_, PyAny>,
        class: Class,
        name: Option<&str>,
        requires_grad: Option<bool>,
    ) -> PyResult<()> {
        let py = tensor.py();
        if !self.state.with(py, |state| state.has_histories()).unwrap_or(false) {
            return Ok(());
        }
        for (part, storage) in self.parts_of(tensor)? {
            let Memory::ByHistory(pool) = self.memory(py, &storage)? else { continue };
            let Ok(at) = storage.call_method0(intern!(py, "data_ptr")).and_then(|at| at.extract::<u64>())
            else {
                continue;
            };
            let bytes = size(&storage)?;
            let (element, shape, sides) =
                self.element_and_shape(py, &part).unwrap_or((0, [0; MAX_DIMS], None));
            self.state.with(py, |state| {
                let ty = sides.and_then(|sides| state.whole_type(element, &shape[..sides], bytes));
                let name = name.map(|name| state.recorder.text(name));
                let time = state.recorder.now();
                let label = Label { pool, address: at, bytes, time, ty, class, name, requires_grad };
                state.recorder.label(label);
            });
        }
        Ok(())
    }

    /// The same for all tensors in a container.
    pub(super) fn label_all(&self, object: &Bound<'_, PyAny>, class: Class, depth: usize) -> PyResult<()> {
        if depth > MAX_DEPTH {
            return Ok(());
        }
        if self.is_plain_tensor(object) || self.is_tensor(object)? {
            return self.label_tensor(object, class, None, None);
        }
        if let Ok(several) = object.cast::<PyDict>() {
            // `values` is a copy: another thread may change the dictionary.
            return several.values().iter().try_for_each(|value| self.label_all(&value, class, depth + 1));
        }
        if object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
            return object.try_iter()?.try_for_each(|value| self.label_all(&value?, class, depth + 1));
        }
        Ok(())
    }

    /// The tensors with their own storages that a tensor consists of, and these storages.
    fn parts_of<'py>(&self, tensor: &Bound<'py, PyAny>) -> PyResult<Vec<WithStorage<'py>>> {
        let py = tensor.py();
        let storage = |tensor: &Bound<'py, PyAny>| tensor.call_method0(intern!(py, "untyped_storage"));
        // A sparse tensor is of class `torch.Tensor` but has no storage.
        if self.is_plain_tensor(tensor)
            && let Ok(storage) = storage(tensor)
        {
            return Ok(vec![(tensor.clone(), storage)]);
        }
        let mut parts = Vec::new();
        for part in self.inner.bind(py).call1((tensor,))?.try_iter()? {
            let part = part?;
            let storage = storage(&part);
            parts.extend(storage.ok().map(|storage| (part, storage)));
        }
        Ok(parts)
    }

    /// Whether the result of a forward pass contains at most one tensor. `false` for objects of other classes, which may
    /// contain several.
    pub(super) fn is_at_most_one_tensor(&self, output: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.is_plain_tensor(output) || self.has_at_most(&mut 1, output, 0)?)
    }

    /// Whether an object contains at most this many tensors. Subtracts them.
    fn has_at_most(&self, left: &mut usize, object: &Bound<'_, PyAny>, depth: usize) -> PyResult<bool> {
        if self.is_plain_tensor(object) || self.is_tensor(object)? {
            let fits = *left > 0;
            *left = left.saturating_sub(1);
            return Ok(fits);
        }
        if object.is_none() || is_number_or_text(object) {
            return Ok(true);
        }
        if depth > MAX_DEPTH {
            return Ok(false);
        }
        let parts = if let Ok(several) = object.cast::<PyDict>() {
            several.values().into_any()
        } else if object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
            object.clone()
        } else {
            return Ok(false);
        };
        for part in parts.try_iter()? {
            if !self.has_at_most(left, &part?, depth + 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn is_plain_tensor(&self, object: &Bound<'_, PyAny>) -> bool {
        let class = object.get_type();
        class.as_ptr() == self.tensor.as_ptr() || class.as_ptr() == self.parameter.as_ptr()
    }

    pub(super) fn is_tensor(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(!object.is_none() && object.is_instance(self.tensor.bind(object.py()))?)
    }
}

fn is_number_or_text(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyInt>()
        || object.is_instance_of::<PyFloat>()
        || object.is_instance_of::<PyString>()
}

/// The bytes of a storage.
pub(super) fn size(storage: &Bound<'_, PyAny>) -> PyResult<u64> {
    storage.call_method0(intern!(storage.py(), "nbytes"))?.extract()
}

/// The name of an operation, without its overload; whether it changes its arguments; whether its results are new.
fn described(func: &Bound<'_, PyAny>) -> PyResult<(String, bool, bool)> {
    let Ok(schema) = func.getattr("_schema") else {
        return Ok((func.str()?.to_string(), true, true));
    };
    let mut makes_new = true;
    for result in schema.getattr("returns")?.try_iter()? {
        makes_new &= result?.getattr("alias_info")?.is_none();
    }
    let name: String = schema.getattr("name")?.extract()?;
    // Their results alias arguments whose allocation is not tracked otherwise: new scalars, and loaded tensors.
    makes_new |= matches!(name.as_str(), "aten::lift_fresh" | "aten::set_");
    Ok((name, schema.getattr("is_mutable")?.extract()?, makes_new))
}
