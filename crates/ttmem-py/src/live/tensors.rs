//! What the watcher sees of tensors: their storages, as operations give them and as others point them out.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use ttmem::model::{Class, Label, OpId, StrId};
use ttmem::record::live::Place;

use super::lines::{lines, number_of_lines};
use super::state::{Memory, Seen, address};
use super::watch::{Watch, Within, busy};

/// Shapes with more sides than this have no type.
const MOST_SIDES: usize = 16;
/// Tensors are looked for in containers down to this depth.
pub(super) const DEEPEST: usize = 4;

/// A tensor, and its storage.
type WithStorage<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

impl Watch {
    /// Takes the results of an operation down.
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

    /// Takes a result of an operation down, by the plain tensors that it is made of.
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

    /// Takes a result down that has a storage, if that is new or has another size.
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
                // What shows or changes something that nobody saw come has not made it.
                let makes_new =
                    self.state.with(py, |state| state.op(address(func)).is_none_or(|op| op.makes_new));
                let is_new = makes_new != Some(false);
                if self.estimates && !is_new && !self.is_plain_tensor(tensor) {
                    // It stands for a real one, which was there before, and stays when this one goes.
                    return Ok(());
                }
                let within = self.within(py).filter(|_| is_new);
                self.storage(this, tensor, storage, op, None, within.as_ref(), is_new).map(drop)
            }
        }
    }

    /// The places of the storages of a tensor, and which of them were not known: those are taken down, as nobody's work.
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

    /// Takes a storage down that is new. `None` where it has no memory.
    #[allow(clippy::too_many_arguments, reason = "they are what is known of it")]
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
        // One without a shape that can be asked for is a tensor nevertheless.
        let (element, shape, sides) =
            self.element_and_shape(py, tensor).unwrap_or((0, [0; MOST_SIDES], None));
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

    /// What the device has for it that something is on.
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

    /// The element type of a tensor, and its shape, where it is one of plain numbers.
    fn element_and_shape(
        &self,
        py: Python<'_>,
        tensor: &Bound<'_, PyAny>,
    ) -> PyResult<(usize, [u64; MOST_SIDES], Option<usize>)> {
        let element = tensor.getattr(intern!(py, "dtype"))?;
        let known = self.state.with(py, |state| state.knows_element(address(&element)));
        if known == Some(false) {
            let name = element.str()?.to_string();
            let bytes = element.getattr(intern!(py, "itemsize"))?.extract()?;
            self.state.with(py, |state| state.learn_element(address(&element), &name, bytes));
        }
        let mut shape = [0; MOST_SIDES];
        let sides = tensor.getattr(intern!(py, "shape"))?;
        let sides = sides.cast::<PyTuple>()?;
        let is_plain = sides.len() <= MOST_SIDES
            && sides.iter().zip(&mut shape).all(|(from, to)| from.extract().map(|side| *to = side).is_ok());
        Ok((address(&element), shape, is_plain.then(|| sides.len())))
    }

    /// An operation of PyTorch, called from where the program is.
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

    /// Something else that has a name, called from where the program is.
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
        learned.map(|(op, _forgotten)| op).ok_or_else(busy)
    }

    /// Says what a tensor is, if its allocator has a history: there it is known by its address.
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
                self.element_and_shape(py, &part).unwrap_or((0, [0; MOST_SIDES], None));
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
        if depth > DEEPEST {
            return Ok(());
        }
        if self.is_plain_tensor(object) || self.is_tensor(object)? {
            return self.label_tensor(object, class, None, None);
        }
        if let Ok(several) = object.cast::<PyDict>() {
            // A copy: another thread may change it meanwhile.
            return several.values().iter().try_for_each(|value| self.label_all(&value, class, depth + 1));
        }
        if object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
            return object.try_iter()?.try_for_each(|value| self.label_all(&value?, class, depth + 1));
        }
        Ok(())
    }

    /// The tensors with storages of their own that one is made of, and these.
    fn parts_of<'py>(&self, tensor: &Bound<'py, PyAny>) -> PyResult<Vec<WithStorage<'py>>> {
        let py = tensor.py();
        let storage = |tensor: &Bound<'py, PyAny>| tensor.call_method0(intern!(py, "untyped_storage"));
        // A sparse one is plain, and has none.
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

    pub(super) fn is_plain_tensor(&self, object: &Bound<'_, PyAny>) -> bool {
        let class = object.get_type();
        class.as_ptr() == self.tensor.as_ptr() || class.as_ptr() == self.parameter.as_ptr()
    }

    pub(super) fn is_tensor(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(!object.is_none() && object.is_instance(self.tensor.bind(object.py()))?)
    }
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
    // Their results are as old as their arguments, which nothing has shown before: new numbers, and what was loaded.
    makes_new |= matches!(name.as_str(), "aten::lift_fresh" | "aten::set_");
    Ok((name, schema.getattr("is_mutable")?.extract()?, makes_new))
}
