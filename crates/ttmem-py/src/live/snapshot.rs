//! Converts PyTorch's `_snapshot()` from Python objects to the types of [`ttmem::history::snapshot`].

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyStringMethods};
use rustc_hash::FxHashMap;
use ttmem::history::Contents;
use ttmem::history::snapshot::{
    AddressKey, BlockState, Entries, Entry, Fingerprint, Line, LineIndex, LiveOrigin, Segment, SegmentBlock,
    Segments, StackIndex, Stacks, Trace, Within, action_of,
};

use super::state::{Address, address};

/// The tracker's own files, with functions that call the program's.
const TRACKER: &str = "/ttmem/_torch/";

/// The stacks of a snapshot. PyTorch shares one object for equal lines, and one list for entries with the same stack.
#[derive(Default)]
pub(super) struct PythonStacks {
    pub stacks: Stacks,
    by_frame: FxHashMap<Address, LineIndex>,
    by_list: FxHashMap<Address, Option<StackIndex>>,
    /// The lines of the stack being read.
    lines: Vec<LineIndex>,
}

impl PythonStacks {
    fn stack(&mut self, frames: &Bound<'_, PyList>) -> PyResult<Option<StackIndex>> {
        if frames.is_empty() {
            return Ok(None);
        }
        if let Some(&known) = self.by_list.get(&address(frames)) {
            return Ok(known);
        }
        self.lines.clear();
        for frame in frames.iter() {
            let line = self.line(&frame)?;
            self.lines.extend(line);
        }
        let stack = self.stacks.add(&self.lines);
        self.by_list.insert(address(frames), stack);
        Ok(stack)
    }

    fn line(&mut self, frame: &Bound<'_, PyAny>) -> PyResult<Option<LineIndex>> {
        if let Some(&known) = self.by_frame.get(&address(frame)) {
            return Ok(Some(known));
        }
        let file: String = frame.get_item(intern!(frame.py(), "filename"))?.extract()?;
        if file.contains(TRACKER) {
            return Ok(None);
        }
        let line = self.stacks.add_line(Line {
            function: frame.get_item(intern!(frame.py(), "name"))?.extract()?,
            file,
            number: frame.get_item(intern!(frame.py(), "line"))?.extract().unwrap_or(0),
        });
        self.by_frame.extend(line.map(|line| (address(frame), line)));
        Ok(line)
    }
}

/// The trace of a device: a list of entries, which are dictionaries.
pub(super) struct PythonTrace<'py>(pub Bound<'py, PyList>);

impl Trace for PythonTrace<'_> {
    type Error = PyErr;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn time_us(&self, index: usize) -> PyResult<u64> {
        let entry = self.0.get_item(index)?;
        bits(&entry.get_item(intern!(entry.py(), "time_us"))?)
    }

    fn fingerprint(&self, index: usize) -> PyResult<Fingerprint> {
        let entry = self.0.get_item(index)?;
        let (py, entry) = (entry.py(), entry.cast::<PyDict>()?);
        let (address, bytes) = (number(entry, intern!(py, "addr"))?, number(entry, intern!(py, "size"))?);
        match entry.get_item(intern!(py, "action"))? {
            Some(action) => Ok(Fingerprint::new(&action.str()?.to_cow()?, address, bytes)),
            None => Ok(Fingerprint::new("", address, bytes)),
        }
    }
}

impl PythonTrace<'_> {
    /// The entries starting at `first`.
    pub fn entries(&self, first: usize, stacks: &mut PythonStacks) -> PyResult<Entries<LiveOrigin>> {
        let mut entries = Entries::default();
        for index in first..self.len() {
            if let Some(entry) = entry(&self.0.get_item(index)?, stacks)? {
                entries.push(entry);
            }
        }
        Ok(entries)
    }
}

/// Converts an entry; `None` if it is unrelated to memory.
fn entry(entry: &Bound<'_, PyAny>, stacks: &mut PythonStacks) -> PyResult<Option<Entry<LiveOrigin>>> {
    let py = entry.py();
    let entry = entry.cast::<PyDict>()?;
    let action = entry.get_item(intern!(py, "action"))?;
    let Some(action) = action.and_then(|action| action_of(&action.str().ok()?.to_cow().ok()?)) else {
        return Ok(None);
    };
    let frames = entry.get_item(intern!(py, "frames"))?;
    let stack = match frames.as_ref().map(|frames| frames.cast::<PyList>()) {
        Some(Ok(frames)) => stacks.stack(frames)?,
        _ => None,
    };
    let metadata = entry.get_item(intern!(py, "user_metadata"))?;
    let metadata = metadata.as_ref().and_then(|text| text.cast::<PyString>().ok());
    let metadata = metadata.map(PyStringMethods::to_cow).transpose()?;
    let address = match AddressKey::of(action) {
        AddressKey::Addr => intern!(py, "addr"),
        AddressKey::DeviceFree => intern!(py, "device_free"),
    };
    Ok(Some(Entry {
        action,
        address: number(entry, address)?,
        bytes: number(entry, intern!(py, "size"))?,
        time_us: number(entry, intern!(py, "time_us"))?,
        origin: LiveOrigin { stack, within: Within::new(metadata.as_deref(), stack.is_some()) },
    }))
}

/// The contents of a device's memory at the time of a snapshot.
pub(super) fn contents(segments: &Bound<'_, PyList>, device: usize) -> PyResult<Contents> {
    let py = segments.py();
    let mut found = Segments::default();
    for segment in segments.iter() {
        if segment.get_item(intern!(py, "device"))?.extract::<usize>()? != device {
            continue;
        }
        let grows = segment.get_item(intern!(py, "is_expandable"));
        found.segment(Segment {
            address: bits(&segment.get_item(intern!(py, "address"))?)?,
            total_size: bits(&segment.get_item(intern!(py, "total_size"))?)?,
            is_expandable: grows.is_ok_and(|grows| grows.is_truthy().unwrap_or(false)),
        });
        for block in segment.get_item(intern!(py, "blocks"))?.try_iter()? {
            let block = block?;
            let optional = |key| block.get_item(key).ok().map(|value| bits(&value)).transpose();
            found.block(SegmentBlock {
                address: optional(intern!(py, "address"))?,
                size: bits(&block.get_item(intern!(py, "size"))?)?,
                requested_size: optional(intern!(py, "requested_size"))?,
                state: BlockState::new(&block.get_item(intern!(py, "state"))?.str()?.to_cow()?),
                origin: None,
            });
        }
    }
    Ok(found.finish())
}

/// A number in an entry; 0 if it is missing.
fn number(entry: &Bound<'_, PyDict>, key: &Bound<'_, PyString>) -> PyResult<u64> {
    entry.get_item(key)?.map_or(Ok(0), |value| bits(&value))
}

/// The bits of a number: addresses and streams may be signed.
#[allow(clippy::cast_sign_loss, reason = "only the bits matter")]
fn bits(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    value.extract::<u64>().or_else(|_| value.extract::<i64>().map(|signed| signed as u64))
}

pub(super) fn list<'py>(snapshot: &Bound<'py, PyDict>, key: &str) -> PyResult<Bound<'py, PyList>> {
    match snapshot.get_item(key)? {
        Some(list) => Ok(list.cast_into::<PyList>()?),
        None => Ok(PyList::empty(snapshot.py())),
    }
}
