//! Records the history of a PyTorch caching allocator.
//!
//! A drain records the entries that are new since the last one. It is slow, because PyTorch creates an object for every
//! entry.

use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use ttmem::history::Contents;
use ttmem::history::snapshot::{
    ALLOCATION, HistoryCursor, Line, LiveOrigin, Mark, OTHER, Reported, RowContext, StackIndex, Stacks,
    Trace, Update,
};
use ttmem::model::{HistoryRow, OpId};
use ttmem::record::live::Recorder;

use super::feed;
use super::gil_cell::GilCell;
use super::snapshot::{PythonStacks, PythonTrace, contents, list};
use super::state::State;
use super::watch::Watch;

/// The memory history of one kind of device.
#[pyclass(frozen, module = "ttmem._native")]
pub(crate) struct History {
    watch: Py<Watch>,
    kind: String,
    devices: GilCell<Vec<Device>>,
    follows: GilCell<Follows>,
    rows: AtomicU64,
}

/// How far the history of a device is recorded, and what was received beyond that.
#[derive(Debug, Default)]
struct Device {
    cursor: HistoryCursor,
    reported: Reported,
}

/// Whether the actions of the allocator are received as they happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Follows {
    #[default]
    No,
    /// They are received, and compared with the history.
    Compares,
    /// They are those of the history.
    Yes,
}

#[pymethods]
impl History {
    #[new]
    fn new(py: Python<'_>, watch: Py<Watch>, kind: String) -> Self {
        watch.get().state.with(py, |state| state.trust_history(&kind));
        let (devices, follows) = (GilCell::new(Vec::new()), GilCell::new(Follows::No));
        Self { watch, kind, devices, follows, rows: AtomicU64::new(0) }
    }

    /// Receives the actions of the allocator as they happen, in addition to its history. Must be called before the
    /// history begins. `library` contains the allocator. Returns why that is not possible.
    #[pyo3(signature = (library = "libc10_cuda.so"))]
    fn follow(&self, py: Python<'_>, library: &str) -> Option<String> {
        let begun = match CString::new(library) {
            Ok(library) if self.kind == "cuda" => feed::begin(&library),
            _ => Err(format!("not possible for {}", self.kind)),
        };
        self.follows
            .with(py, |follows| *follows = if begun.is_ok() { Follows::Compares } else { Follows::No });
        begun.err()
    }

    /// Ends what `follow` began.
    fn unfollow(&self, py: Python<'_>) {
        if self.follows.with(py, std::mem::take).is_some_and(|follows| follows != Follows::No) {
            feed::end();
        }
    }

    /// Whether actions are received.
    #[getter]
    fn is_following(&self, py: Python<'_>) -> bool {
        self.follows(py) != Follows::No
    }

    /// Whether the actions that were received are those of the history, so that it is only needed for stacks. From then
    /// on, the history must be empty after each drain.
    #[getter]
    fn is_fed(&self, py: Python<'_>) -> bool {
        self.follows(py) == Follows::Yes
    }

    /// The number of actions that were received and not yet recorded.
    #[getter]
    fn received(&self, py: Python<'_>) -> usize {
        if self.follows(py) == Follows::No { 0 } else { feed::queued() }
    }

    /// The number of allocations that were received; `None` if they are not.
    #[getter]
    fn allocations(&self, py: Python<'_>) -> Option<u64> {
        (self.follows(py) != Follows::No).then(feed::allocations)
    }

    /// Records at most `limit` actions of each device that were received, most of the time without the GIL. Returns whether
    /// there are more. Must not run at the same time as another `take` or `drain`.
    fn take(&self, py: Python<'_>, limit: usize) -> bool {
        if self.follows(py) != Follows::Yes {
            return false;
        }
        let devices = self.devices.with(py, |devices| devices.len()).unwrap_or(0);
        let mut has_more = false;
        for device in 0..devices {
            let of = self.take_device(py, device);
            let Some(ids) = self.row_context(py, device).filter(|_| of.cursor.is_begun()) else {
                self.put_device(py, device, of);
                continue;
            };
            let (of, rows, is_complete) = py.detach(|| taken(device, of, limit, ids));
            has_more |= !of.reported.is_empty();
            self.put_device(py, device, of);
            self.rows.fetch_add(rows.len() as u64, Ordering::Relaxed);
            self.watch.get().state.with(py, |state| state.recorder.history_rows(rows));
            if !is_complete {
                self.unfollow(py);
                return false;
            }
        }
        has_more
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
            let mut of = self.take_device(py, device);
            let is_unused = trace.is_empty() && end.is_empty() && !of.cursor.is_begun();
            if !is_unused {
                let counted = allocations.get(device).copied();
                let update = self.update(py, device, &mut of, &trace, end, counted, &mut stacks);
                self.put_device(py, device, of);
                let update = update?;
                rows += update.len() as u64;
                self.record(py, device, update, &stacks.stacks, now_us);
            }
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
    fn follows(&self, py: Python<'_>) -> Follows {
        self.follows.with(py, |follows| *follows).unwrap_or_default()
    }

    fn take_device(&self, py: Python<'_>, device: usize) -> Device {
        let taken = self.devices.with(py, |all| all.get_mut(device).map(std::mem::take));
        taken.flatten().unwrap_or_default()
    }

    fn put_device(&self, py: Python<'_>, device: usize, of: Device) {
        self.devices.with(py, |all| {
            if all.len() <= device {
                all.resize_with(device + 1, Device::default);
            }
            all[device] = of;
        });
    }

    /// The new entries of a device. What was received is compared with the trace, and completes it.
    #[allow(clippy::too_many_arguments, reason = "of one caller")]
    fn update(
        &self,
        py: Python<'_>,
        device: usize,
        of: &mut Device,
        trace: &PythonTrace<'_>,
        end: Contents,
        counted: Option<u64>,
        stacks: &mut PythonStacks,
    ) -> PyResult<Update<LiveOrigin>> {
        let Device { cursor, reported } = of;
        let (first, mark) = (cursor.first_new(trace)?, Mark::end_of(trace)?);
        let entries = trace.entries(first, stacks)?;
        if self.follows(py) == Follows::No {
            return Ok(cursor.advance(entries, end, mark, counted));
        }
        let is_complete = feed::receive(device, reported);
        // The received actions replace the trace once they are proven to be the same.
        let Some(joined) =
            Some(entries.clone()).filter(|_| is_complete).and_then(|trace| reported.join(trace))
        else {
            *reported = Reported::default();
            self.unfollow(py);
            return Ok(cursor.advance(entries, end, mark, counted));
        };
        if reported.is_proven() {
            self.follows.with(py, |follows| *follows = Follows::Yes);
        }
        if self.follows(py) == Follows::Yes && cursor.is_begun() {
            return Ok(cursor.advance_directly(joined));
        }
        Ok(cursor.advance(entries, end, mark, counted))
    }

    /// Records the new entries of a device.
    fn record(
        &self,
        py: Python<'_>,
        device: usize,
        update: Update<LiveOrigin>,
        stacks: &Stacks,
        now_us: Option<u64>,
    ) {
        let pool = self.pool(device);
        self.watch.get().state.with(py, |state| {
            let ids = row_context(state, &pool, now_us);
            let mut ops = vec![None; stacks.len()];
            let mut rows = Vec::with_capacity(update.len());
            for row in update.into_rows(ids) {
                let (stack, (mut row, call)) = (row.stack(), row.in_call());
                if let Some(stack) = stack {
                    row.op = *ops[stack.index()].get_or_insert_with(|| op_at(state, stacks, stack));
                }
                rows.push((row, call));
            }
            state.recorder.history_rows(rows);
        });
    }

    fn row_context(&self, py: Python<'_>, device: usize) -> Option<RowContext> {
        let pool = self.pool(device);
        self.watch.get().state.with(py, |state| row_context(state, &pool, None))
    }

    /// The name of a device's pool. The CPU has no number.
    fn pool(&self, device: usize) -> String {
        if self.kind == "cpu" { self.kind.clone() } else { format!("{}:{device}", self.kind) }
    }
}

/// Receives the actions of a device. Returns at most `limit` of them as rows, and whether none is missing.
fn taken(
    device: usize,
    mut of: Device,
    limit: usize,
    ids: RowContext,
) -> (Device, Vec<(HistoryRow, Option<u64>)>, bool) {
    let is_complete = feed::receive(device, &mut of.reported);
    let update = of.cursor.advance_directly(of.reported.take(limit));
    let rows = update.into_rows(ids).map(|row| row.in_call()).collect();
    (of, rows, is_complete)
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
