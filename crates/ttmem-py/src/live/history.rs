//! Records the history of a PyTorch caching allocator.
//!
//! A drain records the entries that are new since the last one. It is slow, because PyTorch creates an object for every
//! entry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use ttmem::history::snapshot::{
    ALLOCATION, HistoryCursor, Line, LiveOrigin, Mark, OTHER, RowContext, StackIndex, Stacks, Trace, Update,
};
use ttmem::model::OpId;
use ttmem::record::live::Recorder;

use super::gil_cell::GilCell;
use super::snapshot::{PythonStacks, PythonTrace, contents, list};
use super::state::State;
use super::watch::Watch;

/// The memory history of one kind of device.
#[pyclass(frozen, module = "ttmem._native")]
pub(crate) struct History {
    watch: Py<Watch>,
    kind: String,
    /// How far the history of each device is recorded.
    drained: GilCell<Vec<HistoryCursor>>,
    rows: AtomicU64,
}

#[pymethods]
impl History {
    #[new]
    fn new(py: Python<'_>, watch: Py<Watch>, kind: String) -> Self {
        watch.get().state.with(py, |state| state.trust_history(&kind));
        Self { watch, kind, drained: GilCell::new(Vec::new()), rows: AtomicU64::new(0) }
    }

    /// Records the new entries of a snapshot; returns their number. `allocations` is the total number of allocations of
    /// each device, and `now_us` the Unix time of the snapshot in microseconds (now by default).
    #[pyo3(signature = (snapshot, allocations, now_us = None))]
    #[allow(clippy::needless_pass_by_value, reason = "PyO3 converts a list to this")]
    fn drain(
        &self,
        py: Python<'_>,
        snapshot: &Bound<'_, PyDict>,
        allocations: Vec<u64>,
        now_us: Option<u64>,
    ) -> PyResult<u64> {
        let (mut stacks, mut rows) = (PythonStacks::default(), 0);
        let segments = list(snapshot, "segments")?;
        for (device, trace) in list(snapshot, "device_traces")?.iter().enumerate() {
            let trace = PythonTrace(trace.cast_into::<PyList>()?);
            let end = contents(&segments, device)?;
            if trace.is_empty() && end.is_empty() {
                continue;
            }
            let drained = self.drained.with(py, |all| all.get(device).cloned());
            let mut progress = drained.flatten().unwrap_or_default();
            let entries = trace.entries(progress.first_new(&trace)?, &mut stacks)?;
            let (mark, counted) = (Mark::end_of(&trace)?, allocations.get(device).copied());
            let update = progress.advance(entries, end, mark, counted);
            rows += update.len() as u64;
            self.record(py, device, update, &stacks.stacks, now_us);
            self.drained.with(py, |all| {
                if all.len() <= device {
                    all.resize_with(device + 1, HistoryCursor::default);
                }
                all[device] = progress;
            });
        }
        self.rows.fetch_add(rows, Ordering::Relaxed);
        Ok(rows)
    }

    /// Number of recorded rows.
    #[getter]
    fn drained(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

impl History {
    /// Records the new entries of a device.
    fn record(
        &self,
        py: Python<'_>,
        device: usize,
        update: Update<LiveOrigin>,
        stacks: &Stacks,
        now_us: Option<u64>,
    ) {
        // The CPU device has no number.
        let pool = if self.kind == "cpu" { self.kind.clone() } else { format!("{}:{device}", self.kind) };
        self.watch.get().state.with(py, |state| {
            let ids = row_context(state, &pool, now_us);
            let mut ops = vec![None; stacks.len()];
            for row in update.into_rows(ids) {
                let (stack, (mut row, call)) = (row.stack(), row.in_call());
                if let Some(stack) = stack {
                    row.op = *ops[stack.index()].get_or_insert_with(|| op_at(state, stacks, stack));
                }
                state.recorder.history(row, call);
            }
        });
    }
}

fn row_context(state: &mut State, pool: &str, now_us: Option<u64>) -> RowContext {
    let pool = state.recorder.pool(pool, true);
    let [other, allocation] = [OTHER, ALLOCATION].map(|name| {
        let name = state.recorder.text(name);
        state.recorder.op(name, None, None)
    });
    let (began, now) = (began_unix(&state.recorder, now_us), state.recorder.now());
    RowContext { pool, allocation, other, began, now }
}

/// The operation of an allocation's stack, named after its innermost line.
fn op_at(state: &mut State, stacks: &Stacks, stack: StackIndex) -> OpId {
    let lines: Vec<Line> = stacks.lines_of(stack).cloned().collect();
    let name = lines.first().map_or_else(|| ALLOCATION.to_owned(), Line::operation);
    let name = state.recorder.text(&name);
    state.op_at(name, &lines)
}

/// The start of a recording as Unix time in nanoseconds, by the current clock, which may have been adjusted since.
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
