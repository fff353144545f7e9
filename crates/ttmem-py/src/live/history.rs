//! The history of a caching allocator of PyTorch's, taken down.
//!
//! A drain takes down what was not taken down before. It is slow (PyTorch makes an object for everything that happened), so
//! whoever asks for one knows why.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use ttmem::history::Contents;
use ttmem::model::{Bytes, During, HistoryAction, HistoryRow, Nanoseconds, OpId, PoolId};
use ttmem::record::live::Recorder;

use super::gil_cell::GilCell;
use super::lines::Line;
use super::snapshot::{Entry, Mark, Stacks, end_of, join_frees, last_of, list, new_entries};
use super::state::State;
use super::watch::Watch;

/// What "does" what no line of Python is known of.
const NO_LINE: &str = "alloc";

/// The history of the allocators of one kind of device.
#[pyclass(frozen, module = "ttmem._native")]
pub(crate) struct History {
    watch: Py<Watch>,
    kind: String,
    drained: GilCell<Vec<Drained>>,
    rows: AtomicU64,
}

/// What was taken down of a device's history.
#[derive(Clone, Debug, Default)]
struct Drained {
    is_begun: bool,
    mark: Mark,
    /// How many allocations there had been.
    allocations: u64,
}

#[pymethods]
impl History {
    #[new]
    fn new(py: Python<'_>, watch: Py<Watch>, kind: String) -> Self {
        watch.get().state.with(py, |state| state.trust_history(&kind));
        Self { watch, kind, drained: GilCell::new(Vec::new()), rows: AtomicU64::new(0) }
    }

    /// Takes down what is new in a snapshot. `allocations` says for each device how many there have been, and `now_us` when
    /// the snapshot was taken, in Unix time, if that was not now. Returns how many rows were new.
    #[pyo3(signature = (snapshot, allocations, now_us = None))]
    #[allow(clippy::needless_pass_by_value, reason = "a list of Python's comes as this")]
    fn drain(
        &self,
        py: Python<'_>,
        snapshot: &Bound<'_, PyDict>,
        allocations: Vec<u64>,
        now_us: Option<u64>,
    ) -> PyResult<u64> {
        let (mut stacks, mut rows) = (Stacks::default(), 0);
        let segments = list(snapshot, "segments")?;
        for (device, trace) in list(snapshot, "device_traces")?.iter().enumerate() {
            let before = self.drained.with(py, |all| all.get(device).cloned()).flatten().unwrap_or_default();
            let trace = trace.cast_into::<PyList>()?;
            let (end, counted) = (end_of(&segments, device)?, allocations.get(device).copied());
            if trace.is_empty() && end.is_empty() {
                continue;
            }
            let entries = new_entries(&trace, &before.mark, &mut stacks)?;
            let seen = entries.iter().filter(|entry| entry.action == HistoryAction::Allocated).count() as u64;
            rows += self.take_down(py, device, entries, end, (&before, counted), (&stacks, now_us));
            // Other threads may have gone on between the count and the snapshot.
            let allocations =
                counted.map_or(before.allocations, |count| count.max(before.allocations + seen));
            let mark = last_of(&trace)?.unwrap_or(before.mark);
            self.drained.with(py, |all| {
                if all.len() <= device {
                    all.resize(device + 1, Drained::default());
                }
                all[device] = Drained { is_begun: true, mark, allocations };
            });
        }
        self.rows.fetch_add(rows, Ordering::Relaxed);
        Ok(rows)
    }

    /// How many rows were taken down.
    #[getter]
    fn drained(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

impl History {
    /// Tells the recorder the new entries of a device; how many they are.
    fn take_down(
        &self,
        py: Python<'_>,
        device: usize,
        mut entries: Vec<Entry>,
        end: Contents,
        (before, counted): (&Drained, Option<u64>),
        (stacks, now_us): (&Stacks, Option<u64>),
    ) -> u64 {
        let seen = entries.iter().filter(|entry| entry.action == HistoryAction::Allocated).count() as u64;
        let since = counted.unwrap_or(0).saturating_sub(before.allocations);
        let forgotten = if before.is_begun { since.saturating_sub(seen) } else { 0 };
        let start = (!before.is_begun || forgotten > 0)
            .then(|| end.before(entries.iter().map(|entry| (entry.action, entry.address, entry.bytes))));
        join_frees(&mut entries);
        // There is one processor, and its device has no number.
        let pool = if self.kind == "cpu" { self.kind.clone() } else { format!("{}:{device}", self.kind) };
        self.watch.get().state.with(py, |state| {
            let mut telling = Telling::new(state, &pool, stacks, now_us);
            let began = entries.first().map_or_else(|| telling.now(), |entry| telling.time(entry.time));
            if forgotten > 0 {
                telling.row(HistoryAction::Forgotten, began, (0, forgotten, None));
            }
            if let Some(start) = start {
                telling.start(&start, began);
            }
            for entry in &entries {
                telling.entry(entry);
            }
        });
        entries.len() as u64
    }
}

/// Tells the recorder what a device's history says.
struct Telling<'a> {
    state: &'a mut State,
    stacks: &'a Stacks,
    pool: PoolId,
    /// The operation of what is no allocation.
    other: OpId,
    ops: Vec<Option<OpId>>,
    no_line: OpId,
    /// Unix time at which the recording began, in nanoseconds, by the clock of today.
    began: u64,
}

impl<'a> Telling<'a> {
    fn new(state: &'a mut State, pool: &str, stacks: &'a Stacks, now_us: Option<u64>) -> Self {
        let pool = state.recorder.pool(pool, true);
        let (other, no_line) = (state.recorder.text("free"), state.recorder.text(NO_LINE));
        let (other, no_line) = (state.recorder.op(other, None, None), state.recorder.op(no_line, None, None));
        let began = began_unix(&state.recorder, now_us);
        Self { state, stacks, pool, other, ops: vec![None; stacks.len()], no_line, began }
    }

    fn now(&self) -> Nanoseconds {
        self.state.recorder.now()
    }

    /// The middle of a microsecond: what is cut off is not known.
    fn time(&self, unix_us: u64) -> Nanoseconds {
        unix_us.saturating_mul(1000).saturating_add(500).saturating_sub(self.began)
    }

    /// A row that belongs to no call: the address, the bytes, and the block where it is known.
    fn row(
        &mut self,
        action: HistoryAction,
        time: Nanoseconds,
        (address, bytes, block): (u64, u64, Option<u64>),
    ) {
        let (pool, op, during, block) = (self.pool, self.other, During::NoCall, Bytes::from(block));
        self.state
            .recorder
            .history(HistoryRow { pool, action, address, bytes, block, op, during, time }, None);
    }

    /// What was there before the first entry.
    fn start(&mut self, start: &Contents, time: Nanoseconds) {
        for row in start.rows(self.pool, time) {
            self.state.recorder.history(row, None);
        }
    }

    fn entry(&mut self, entry: &Entry) {
        let op = match entry.action {
            HistoryAction::Allocated | HistoryAction::OutOfMemory => {
                entry.stack.map_or(self.no_line, |stack| self.op(stack))
            }
            _ => self.other,
        };
        let during = if entry.is_outside { During::NoCall } else { During::ByTime };
        let Entry { action, address, bytes, .. } = *entry;
        let (pool, block, time) = (self.pool, Bytes::UNKNOWN, self.time(entry.time));
        let row = HistoryRow { pool, action, address, bytes, block, op, during, time };
        self.state.recorder.history(row, entry.call);
    }

    /// What allocates at a stack: named after the innermost function and its file.
    fn op(&mut self, stack: usize) -> OpId {
        if let Some(known) = self.ops[stack] {
            return known;
        }
        let lines: Vec<Line> = self.stacks.lines_of(stack).cloned().collect();
        let name = lines.first().map_or_else(|| NO_LINE.to_owned(), name_of);
        let name = self.state.recorder.text(&name);
        let op = self.state.op_at(name, &lines);
        self.ops[stack] = Some(op);
        op
    }
}

/// Unix time at which a recording began, in nanoseconds, by the clock of now: it may have been set since.
pub(super) fn began_unix(recorder: &Recorder, now_us: Option<u64>) -> u64 {
    let unix = now_us.map_or_else(
        || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
        },
        |now| now.saturating_mul(1000),
    );
    unix.saturating_sub(recorder.now())
}

/// `linear.forward`: the file of a line, without its ending, and the function.
fn name_of(line: &Line) -> String {
    let file = line.file.rsplit(['/', '\\']).next().unwrap_or(&line.file);
    let stem = file.strip_suffix(".py").unwrap_or(file);
    format!("{stem}.{}", line.function)
}
