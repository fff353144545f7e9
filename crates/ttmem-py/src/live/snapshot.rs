//! What PyTorch's `_snapshot()` gives: objects of Python, read into what happened, in order.

use std::hash::{Hash, Hasher};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyStringMethods};
use rustc_hash::FxHashMap;
use ttmem::history::{Block, Contents};
use ttmem::model::HistoryAction;

use super::lines::Line;
use super::state::address;
use super::watch::METADATA;

/// Something that an allocator did.
pub(super) struct Entry {
    pub action: HistoryAction,
    pub address: u64,
    pub bytes: u64,
    /// Unix time, in microseconds.
    pub time: u64,
    pub stack: Option<usize>,
    /// The number of the call that it says it happened in.
    pub call: Option<u64>,
    /// It says that it happened in no call.
    pub is_outside: bool,
}

/// The stacks of a snapshot, each once.
#[derive(Default)]
pub(super) struct Stacks {
    lines: Vec<Line>,
    /// The lines by the objects that PyTorch has for them: it has one for each.
    by_object: FxHashMap<usize, u32>,
    all: Vec<Vec<u32>>,
    by_lines: FxHashMap<Vec<u32>, usize>,
    /// A stack that several entries share.
    by_list: FxHashMap<usize, usize>,
}

impl Stacks {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The lines of a stack, innermost first.
    pub fn lines_of(&self, stack: usize) -> impl Iterator<Item = &Line> {
        let lines = self.all.get(stack).into_iter().flatten();
        lines.filter_map(|&line| self.lines.get(line as usize))
    }

    fn stack(&mut self, frames: &Bound<'_, PyList>) -> PyResult<Option<usize>> {
        if frames.is_empty() {
            return Ok(None);
        }
        if let Some(&known) = self.by_list.get(&address(frames)) {
            return Ok(Some(known));
        }
        let lines = frames.iter().map(|frame| self.line(&frame)).collect::<PyResult<Vec<_>>>()?;
        let next = self.all.len();
        let stack = *self.by_lines.entry(lines).or_insert_with_key(|lines| {
            self.all.push(lines.clone());
            next
        });
        self.by_list.insert(address(frames), stack);
        Ok(Some(stack))
    }

    fn line(&mut self, frame: &Bound<'_, PyAny>) -> PyResult<u32> {
        if let Some(&known) = self.by_object.get(&address(frame)) {
            return Ok(known);
        }
        let number = u32::try_from(self.lines.len()).unwrap_or(u32::MAX);
        self.lines.push(Line {
            function: frame.get_item(intern!(frame.py(), "name"))?.extract()?,
            file: frame.get_item(intern!(frame.py(), "filename"))?.extract()?,
            number: frame.get_item(intern!(frame.py(), "line"))?.extract().unwrap_or(0),
        });
        self.by_object.insert(address(frame), number);
        Ok(number)
    }
}

/// How far a trace was read: its last entries. Their times are no more than a hint: they are computed anew every time.
#[derive(Clone, Debug, Default)]
pub(super) struct Mark {
    until: u64,
    last: Vec<Fingerprint>,
}

/// What an entry is known by: what was done, where, and how much.
type Fingerprint = (u64, u64, u64);

/// So many entries are known again.
const KNOWN_AGAIN: usize = 32;
/// The times of an entry differ by less than this, in microseconds.
const NEAR: u64 = 10_000;

/// How far a trace is read when all of it is; `None` where there is nothing.
pub(super) fn last_of(trace: &Bound<'_, PyList>) -> PyResult<Option<Mark>> {
    let Some(last) = trace.len().checked_sub(1) else { return Ok(None) };
    let until = time_of(&trace.get_item(last)?)?;
    let first = trace.len().saturating_sub(KNOWN_AGAIN);
    let last =
        (first..trace.len()).map(|index| fingerprint(&trace.get_item(index)?)).collect::<PyResult<_>>()?;
    Ok(Some(Mark { until, last }))
}

/// The entries of a trace behind a mark.
pub(super) fn new_entries(
    trace: &Bound<'_, PyList>,
    mark: &Mark,
    stacks: &mut Stacks,
) -> PyResult<Vec<Entry>> {
    let first = if mark.last.is_empty() { 0 } else { behind(trace, mark)? };
    let mut entries = Vec::with_capacity(trace.len() - first);
    for index in first..trace.len() {
        entries.extend(entry(&trace.get_item(index)?, stacks)?);
    }
    Ok(entries)
}

/// The first entry behind a mark: that of the last place where the same entries stand, else the first that is later.
fn behind(trace: &Bound<'_, PyList>, mark: &Mark) -> PyResult<usize> {
    let mut later = trace.len();
    for end in (1..=trace.len()).rev() {
        let time = time_of(&trace.get_item(end - 1)?)?;
        if time.saturating_add(NEAR) < mark.until {
            break;
        }
        if time > mark.until {
            later = end - 1;
        }
        if time <= mark.until.saturating_add(NEAR) && ends_with(trace, end, &mark.last)? {
            return Ok(end);
        }
    }
    Ok(later)
}

/// Whether the entries before `end` are these; the ring may have lost the first of them.
fn ends_with(trace: &Bound<'_, PyList>, end: usize, last: &[Fingerprint]) -> PyResult<bool> {
    for (back, wanted) in last.iter().rev().enumerate() {
        let Some(index) = end.checked_sub(back + 1) else { break };
        if fingerprint(&trace.get_item(index)?)? != *wanted {
            return Ok(false);
        }
    }
    Ok(true)
}

fn fingerprint(entry: &Bound<'_, PyAny>) -> PyResult<Fingerprint> {
    let py = entry.py();
    let entry = entry.cast::<PyDict>()?;
    let number = |key: &Bound<'_, PyString>| entry.get_item(key)?.map_or(Ok(0), |value| bits(&value));
    let mut hasher = rustc_hash::FxHasher::default();
    if let Some(action) = entry.get_item(intern!(py, "action"))? {
        action.str()?.to_cow()?.hash(&mut hasher);
    }
    Ok((hasher.finish(), number(intern!(py, "addr"))?, number(intern!(py, "size"))?))
}

fn entry(entry: &Bound<'_, PyAny>, stacks: &mut Stacks) -> PyResult<Option<Entry>> {
    let py = entry.py();
    let entry = entry.cast::<PyDict>()?;
    let number = |key: &Bound<'_, PyString>| -> PyResult<u64> {
        entry.get_item(key)?.map_or(Ok(0), |value| bits(&value))
    };
    let action = entry.get_item(intern!(py, "action"))?;
    let Some(action) = action.and_then(|action| action_of(&action.str().ok()?.to_cow().ok()?)) else {
        // Snapshots, annotations, and what later versions bring: nothing of the memory.
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
    let call = metadata.as_deref().and_then(call_of);
    // Threads that run Python say where they are; those of the autograd engine do not.
    let is_outside = stack.is_some() && metadata.as_deref() == Some("");
    let key =
        if action == HistoryAction::OutOfMemory { intern!(py, "device_free") } else { intern!(py, "addr") };
    Ok(Some(Entry {
        action,
        address: number(key)?,
        bytes: number(intern!(py, "size"))?,
        time: number(intern!(py, "time_us"))?,
        stack,
        call,
        is_outside,
    }))
}

fn action_of(name: &str) -> Option<HistoryAction> {
    Some(match name {
        "alloc" => HistoryAction::Allocated,
        "free_requested" => HistoryAction::FreeRequested,
        "free_completed" => HistoryAction::FreeCompleted,
        "segment_alloc" => HistoryAction::Reserved,
        "segment_free" => HistoryAction::Released,
        "segment_map" => HistoryAction::Mapped,
        "segment_unmap" => HistoryAction::Unmapped,
        "oom" => HistoryAction::OutOfMemory,
        _ => return None,
    })
}

/// The number of the call in what the watcher has passed to the allocator.
fn call_of(metadata: &str) -> Option<u64> {
    metadata.strip_prefix(METADATA)?.split(':').next()?.parse().ok()
}

/// What is given back and waits for nothing is one thing that happens.
pub(super) fn join_frees(entries: &mut Vec<Entry>) {
    let mut kept: Vec<Entry> = Vec::with_capacity(entries.len());
    for entry in entries.drain(..) {
        match kept.last_mut() {
            Some(last)
                if last.action == HistoryAction::FreeRequested
                    && entry.action == HistoryAction::FreeCompleted
                    && last.address == entry.address =>
            {
                last.action = HistoryAction::Freed;
            }
            _ => kept.push(entry),
        }
    }
    *entries = kept;
}

/// What there is in a device's memory at the time of a snapshot.
pub(super) fn end_of(segments: &Bound<'_, PyList>, device: usize) -> PyResult<Contents> {
    let mut end = Contents::default();
    for segment in segments.iter() {
        if segment.get_item("device")?.extract::<usize>()? != device {
            continue;
        }
        let at = bits(&segment.get_item("address")?)?;
        let grows = segment.get_item("is_expandable").is_ok_and(|grows| grows.is_truthy().unwrap_or(false));
        end.add_segment(at, bits(&segment.get_item("total_size")?)?, grows);
        let mut next = at;
        for block in segment.get_item("blocks")?.try_iter()? {
            let block = block?;
            let size = bits(&block.get_item("size")?)?;
            let at = block.get_item("address").map_or(Ok(next), |at| bits(&at))?;
            next = at.saturating_add(size);
            let state = block.get_item("state")?.str()?.to_string();
            if state == "inactive" {
                continue;
            }
            let bytes = block.get_item("requested_size").map_or(Ok(size), |bytes| bits(&bytes))?;
            let is_waiting = state != "active_allocated";
            end.add_block(at, Block { bytes, block: Some(size), is_waiting });
        }
    }
    Ok(end)
}

/// A number as its bits: addresses and streams may come signed.
#[allow(clippy::cast_sign_loss, reason = "the bits are what is meant")]
fn bits(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    value.extract::<u64>().or_else(|_| value.extract::<i64>().map(|signed| signed as u64))
}

fn time_of(entry: &Bound<'_, PyAny>) -> PyResult<u64> {
    bits(&entry.get_item(intern!(entry.py(), "time_us"))?)
}

pub(super) fn list<'py>(snapshot: &Bound<'py, PyDict>, key: &str) -> PyResult<Bound<'py, PyList>> {
    match snapshot.get_item(key)? {
        Some(list) => Ok(list.cast_into::<PyList>()?),
        None => Ok(PyList::empty(snapshot.py())),
    }
}
