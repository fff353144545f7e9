//! Records PyTorch's operations from its profiler: argument types, times, and changes of CPU memory, including those
//! inside kernels.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use rustc_hash::FxHashMap;
use ttmem::model::{
    Bytes, During, HistoryAction, HistoryRow, LaneId, Nanoseconds, OpId, OpTotals, ScopeKind, TypeId,
};
use ttmem::record::live::{LateCall, TypeOf};

use super::gil_cell::GilCell;
use super::history::began_unix;
use super::state::State;
use super::watch::{Watch, busy};

/// The device whose memory the profiler reports.
const DEVICE: &str = "cpu";

/// Records the operations that PyTorch's profiler reports.
#[pyclass(frozen, module = "ttmem._native")]
pub(crate) struct Operations {
    watch: Py<Watch>,
    /// The lanes of the profiler's threads. The first is the thread that started it.
    lanes: GilCell<FxHashMap<u64, LaneId>>,
}

/// A tensor: its element type, bytes per element, and shape.
type Argument = (String, u64, Vec<u64>);

/// A profiler event: its parent row, its name, its start and end (Unix time in nanoseconds), its thread, the address
/// and size change of a memory event, the tensor arguments of an operation, and the shapes of all arguments as JSON.
type Row = (Option<usize>, String, u64, u64, u64, Option<(u64, i64)>, Vec<Argument>, Option<String>);

/// The number of a row's call, and its operation.
type Recorded = Option<(u64, OpId)>;

#[pymethods]
impl Operations {
    #[new]
    fn new(py: Python<'_>, watch: Py<Watch>) -> Self {
        watch.get().state.with(py, |state| {
            state.trust_history(DEVICE);
            // The first pool comes first in summaries.
            state.recorder.pool(DEVICE, true)
        });
        Self { watch, lanes: GilCell::new(FxHashMap::default()) }
    }

    /// Records events; returns their number. Parents must come before their children.
    #[allow(clippy::needless_pass_by_value, reason = "PyO3 converts a list to this")]
    fn record(&self, py: Python<'_>, rows: Vec<Row>) -> PyResult<usize> {
        let here = self.watch.get().lane(py)?;
        let done = self.lanes.with(py, |lanes| {
            self.watch.get().state.with(py, |state| {
                let began = began_unix(&state.recorder, None);
                let recorded = operations(state, lanes, here, &rows, began);
                memory(state, &rows, &recorded, began);
                totals(state, &rows);
            })
        });
        done.flatten().ok_or_else(busy)?;
        Ok(rows.len())
    }
}

/// Records all operations: each is a completed call.
fn operations(
    state: &mut State,
    lanes: &mut FxHashMap<u64, LaneId>,
    here: Option<LaneId>,
    rows: &[Row],
    began: u64,
) -> Vec<Recorded> {
    let mut recorded: Vec<Recorded> = Vec::with_capacity(rows.len());
    for (inside, name, start, end, thread, change, arguments, _) in rows {
        let outer = inside.and_then(|row| recorded.get(row).copied().flatten());
        if change.is_some() {
            recorded.push(outer);
            continue;
        }
        let known = lanes.get(thread).copied().or_else(|| here.filter(|_| lanes.is_empty()));
        let lane = known.unwrap_or_else(|| state.recorder.lane(&format!("profiler thread {thread}")));
        lanes.insert(*thread, lane);
        let op = operation(state, name, arguments);
        // Scopes are not nested here: the enclosing scope is determined when the recording is read.
        let scope = state.recorder.scope(None, name, ScopeKind::Framework);
        let (began, ended) = (start.saturating_sub(began), end.saturating_sub(began));
        let parent = outer.map(|(number, _)| number);
        let number = state.recorder.late_call(LateCall { scope, lane, parent, op: Some(op), began, ended });
        recorded.push(Some((number, op)));
    }
    recorded
}

fn operation(state: &mut State, name: &str, arguments: &[Argument]) -> OpId {
    let mut types: Vec<TypeId> = Vec::with_capacity(arguments.len());
    for (dtype, element, shape) in arguments {
        let dtype = state.recorder.text(dtype);
        let bytes = shape.iter().try_fold(*element, |bytes, side| bytes.checked_mul(*side));
        let of = TypeOf { shape, dtype, bytes: bytes.unwrap_or(u64::MAX) };
        types.extend(state.recorder.tensor_type(of));
    }
    let name = state.recorder.text(name);
    state.recorder.op_of_types(name, &types)
}

/// Records all memory changes, sorted by time: the rows of several threads come one thread after another.
fn memory(state: &mut State, rows: &[Row], recorded: &[Recorded], began: u64) {
    let pool = state.recorder.pool(DEVICE, true);
    let free = state.recorder.text("free");
    let free = state.recorder.op(free, None, None);
    let change = |(row, call): (&Row, &Recorded)| row.5.map(|change| (row.2, change, *call));
    let mut changes: Vec<(u64, (u64, i64), Recorded)> =
        rows.iter().zip(recorded).filter_map(change).collect();
    changes.sort_by_key(|(time, ..)| *time);
    for (time, (address, by), call) in changes {
        let time: Nanoseconds = time.saturating_sub(began);
        let (bytes, during) = (by.unsigned_abs(), During::ByTime);
        let (action, op) = match by {
            0.. => (HistoryAction::Allocated, call.map_or(free, |(_, op)| op)),
            _ => (HistoryAction::Freed, free),
        };
        let block = Bytes::known(bytes);
        let row = HistoryRow { pool, action, address, bytes, block, op, during, time };
        state.recorder.history(row, call.map(|(number, _)| number));
    }
}

/// Records the totals of each operation and its argument shapes, as PyTorch's profiler computes them: memory and time
/// include nested operations.
fn totals(state: &mut State, rows: &[Row]) {
    let mut changes: Vec<i64> = rows.iter().map(|row| row.5.map_or(0, |(_, by)| by)).collect();
    // Children come after their parents.
    for (index, row) in rows.iter().enumerate().rev() {
        let change = changes[index];
        if let Some(outer) = row.0.and_then(|outer| changes.get_mut(outer)) {
            *outer = outer.saturating_add(change);
        }
    }
    let mut sums: BTreeMap<(&str, Option<&str>), (u64, Nanoseconds, i64)> = BTreeMap::new();
    for ((_, name, start, end, _, change, _, shapes), bytes) in rows.iter().zip(changes) {
        // Skips ranges named by the program or PyTorch.
        if change.is_none() && name.contains("::") {
            let sum = sums.entry((name, shapes.as_deref())).or_default();
            sum.0 += 1;
            sum.1 = sum.1.saturating_add(end.saturating_sub(*start));
            sum.2 = sum.2.saturating_add(bytes);
        }
    }
    for ((name, shapes), (count, cpu_time, cpu_bytes)) in sums {
        let (name, shapes) = (state.recorder.text(name), shapes.map(|shapes| state.recorder.text(shapes)));
        let (device_time, device_bytes) = (None, None);
        state.recorder.op_totals(OpTotals {
            name,
            count,
            cpu_time,
            device_time,
            cpu_bytes,
            device_bytes,
            shapes,
        });
    }
}
