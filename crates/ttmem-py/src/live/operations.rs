//! Every operation of PyTorch, as its profiler tells of them afterwards: with the types of its arguments, its time, and
//! what it did to the memory of the processor, also inside of its kernels.

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

/// The device whose memory the profiler tells of.
const DEVICE: &str = "cpu";

/// Takes operations down.
#[pyclass(frozen, module = "ttmem._native")]
pub(crate) struct Operations {
    watch: Py<Watch>,
    /// The lanes of the profiler's threads; the first one is that which began it.
    lanes: GilCell<FxHashMap<u64, LaneId>>,
}

/// A tensor: its element type, the bytes of an element, and its shape.
type Argument = (String, u64, Vec<u64>);

/// An event of the profiler: the row that it is inside of, its name, when it began and ended (Unix time, in nanoseconds), its
/// thread; for memory the address and by how much there is more; for operations the tensors among the arguments, and the
/// shapes of all arguments as JSON.
type Row = (Option<usize>, String, u64, u64, u64, Option<(u64, i64)>, Vec<Argument>, Option<String>);

/// What became of a row: the number of its call, and its operation.
type Told = Option<(u64, OpId)>;

#[pymethods]
impl Operations {
    #[new]
    fn new(py: Python<'_>, watch: Py<Watch>) -> Self {
        watch.get().state.with(py, |state| {
            state.trust_history(DEVICE);
            // The first pool is what answers begin with.
            state.recorder.pool(DEVICE, true)
        });
        Self { watch, lanes: GilCell::new(FxHashMap::default()) }
    }

    /// Takes events down: rows that are inside of others come after them. Returns how many there were.
    #[allow(clippy::needless_pass_by_value, reason = "a list of Python's comes as this")]
    fn take(&self, py: Python<'_>, rows: Vec<Row>) -> PyResult<usize> {
        let here = self.watch.get().lane(py)?;
        let told = self.lanes.with(py, |lanes| {
            self.watch.get().state.with(py, |state| {
                let began = began_unix(&state.recorder, None);
                let told = operations(state, lanes, here, &rows, began);
                memory(state, &rows, &told, began);
                totals(state, &rows);
            })
        });
        told.flatten().ok_or_else(busy)?;
        Ok(rows.len())
    }
}

/// Tells of all operations: each is a call that is over.
fn operations(
    state: &mut State,
    lanes: &mut FxHashMap<u64, LaneId>,
    here: Option<LaneId>,
    rows: &[Row],
    began: u64,
) -> Vec<Told> {
    let mut told: Vec<Told> = Vec::with_capacity(rows.len());
    for (inside, name, start, end, thread, change, arguments, _) in rows {
        let outer = inside.and_then(|row| told.get(row).copied().flatten());
        if change.is_some() {
            told.push(outer);
            continue;
        }
        let known = lanes.get(thread).copied().or_else(|| here.filter(|_| lanes.is_empty()));
        let lane = known.unwrap_or_else(|| state.recorder.lane(&format!("profiler thread {thread}")));
        lanes.insert(*thread, lane);
        let op = operation(state, name, arguments);
        // Inside of what it is, is found when the recording is read: so scopes have no others around them here.
        let scope = state.recorder.scope(None, name, ScopeKind::Framework);
        let (began, ended) = (start.saturating_sub(began), end.saturating_sub(began));
        let parent = outer.map(|(number, _)| number);
        let number = state.recorder.late_call(LateCall { scope, lane, parent, op: Some(op), began, ended });
        told.push(Some((number, op)));
    }
    told
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

/// Tells of all changes of memory, in order: those of several threads come one thread after the other.
fn memory(state: &mut State, rows: &[Row], told: &[Told], began: u64) {
    let pool = state.recorder.pool(DEVICE, true);
    let free = state.recorder.text("free");
    let free = state.recorder.op(free, None, None);
    let change = |(row, told): (&Row, &Told)| row.5.map(|change| (row.2, change, *told));
    let mut changes: Vec<(u64, (u64, i64), Told)> = rows.iter().zip(told).filter_map(change).collect();
    changes.sort_by_key(|(time, ..)| *time);
    for (time, (address, by), told) in changes {
        let time: Nanoseconds = time.saturating_sub(began);
        let (bytes, during) = (by.unsigned_abs(), During::ByTime);
        let (action, op) = match by {
            0.. => (HistoryAction::Allocated, told.map_or(free, |(_, op)| op)),
            _ => (HistoryAction::Freed, free),
        };
        let block = Bytes::known(bytes);
        let row = HistoryRow { pool, action, address, bytes, block, op, during, time };
        state.recorder.history(row, told.map(|(number, _)| number));
    }
}

/// Records what the calls of each operation came to, by the shapes of their arguments, as PyTorch's profiler sums them up:
/// memory and time include those of the operations inside.
fn totals(state: &mut State, rows: &[Row]) {
    let mut changes: Vec<i64> = rows.iter().map(|row| row.5.map_or(0, |(_, by)| by)).collect();
    // Inner operations come later.
    for (index, row) in rows.iter().enumerate().rev() {
        let change = changes[index];
        if let Some(outer) = row.0.and_then(|outer| changes.get_mut(outer)) {
            *outer = outer.saturating_add(change);
        }
    }
    let mut sums: BTreeMap<(&str, Option<&str>), (u64, Nanoseconds, i64)> = BTreeMap::new();
    for ((_, name, start, end, _, change, _, shapes), bytes) in rows.iter().zip(changes) {
        // Others are ranges that the program or PyTorch has named.
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
