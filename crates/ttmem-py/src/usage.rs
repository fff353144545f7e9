//! The phase tracker of `ttmem.MemoryUsageTracker`. Python reports what happens in a phase.

use std::path::PathBuf;

use pyo3::exceptions::{PyLookupError, PyRuntimeError};
use pyo3::prelude::*;
use ttmem::model::{Change, DramUsage, L1Usage};
use ttmem::read::graph_changes;
use ttmem::record::tracker::{MemoryUsageTracker, RunMode, TrackerError};

use crate::errors::raised;

/// Peak, total allocations and total deallocations.
type Dram = (i64, u64, u64);
/// Peaks of circular buffers, of buffers, and of both together.
type L1 = (u64, u64, u64);

/// Divides a program into phases. `python/ttmem` has one instance and reports to it what PyTorch or ttnn do.
#[pyclass(frozen, module = "ttmem._native")]
#[derive(Debug)]
pub(crate) struct Usage(MemoryUsageTracker);

#[pymethods]
impl Usage {
    #[new]
    fn new() -> Self {
        Self(MemoryUsageTracker::new())
    }

    /// Begins a capture; returns its number. `estimated`: operations do not run. `device`: the PyTorch device.
    #[pyo3(signature = (estimated, device = None))]
    fn begin_capture(&self, py: Python<'_>, estimated: bool, device: Option<&str>) -> PyResult<u64> {
        let mode = if estimated { RunMode::NoDispatch } else { RunMode::Normal };
        let guard = match device {
            Some(device) => self.0.begin_capture_on(mode, device),
            None => self.0.begin_capture(mode),
        };
        Ok(guard.map_err(|error| refused(py, error))?.into_capture())
    }

    /// Ends the current phase and begins the next.
    fn snapshot(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.0.snapshot(name)).map_err(|error| refused(py, error))
    }

    /// Ends the last phase and the capture.
    fn end_capture(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.0.end_capture(name)).map_err(|error| refused(py, error))
    }

    /// Ends a capture and removes its phases, for its guard; does nothing if another capture has begun.
    fn end_and_clear(&self, py: Python<'_>, capture: u64) {
        py.detach(|| self.0.end_and_clear(capture));
    }

    /// Removes all phases and ends a running capture.
    fn clear(&self) {
        self.0.clear();
    }

    /// Whether a capture is running.
    #[getter]
    fn is_capturing(&self) -> bool {
        self.0.is_capturing()
    }

    /// Records DRAM use: the peak above current memory, and the bytes allocated and freed.
    fn record(&self, peak: u64, allocations: u64, deallocations: u64) {
        self.0.record_changes(changes(peak, allocations, deallocations));
    }

    /// Records a ttnn graph capture, given as JSON.
    fn record_graph(&self, py: Python<'_>, json: &str) -> PyResult<()> {
        py.detach(|| self.0.record_graph(|| graph_changes(json.as_bytes())))
            .map_err(|error| refused(py, error))
    }

    /// Returns the DRAM use of a phase.
    fn dram(&self, py: Python<'_>, name: &str) -> PyResult<Dram> {
        self.0.get_dram_usage(name).map(dram).map_err(|error| refused(py, error))
    }

    /// Returns the L1 use of a phase.
    fn l1(&self, py: Python<'_>, name: &str) -> PyResult<L1> {
        self.0.get_l1_usage(name).map(l1).map_err(|error| refused(py, error))
    }

    /// Returns all phases, in order.
    fn phases(&self) -> Vec<(String, Dram, L1)> {
        let phases = self.0.get_usage_all().into_iter();
        phases.map(|(name, of_dram, of_l1)| (name, dram(of_dram), l1(of_l1))).collect()
    }

    /// Returns the numbers of all phases as text.
    fn text(&self) -> String {
        self.0.memory_usage_text()
    }

    /// Starts a recording of later captures.
    fn record_to(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.0.record_to(path)).map_err(|error| refused(py, error))
    }

    /// Completes the recording.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.finish()).map_err(|error| refused(py, error))
    }
}

/// Builds changes with these totals. Allocations beyond the peak must follow a free, which is the first change.
fn changes(peak: u64, allocations: u64, deallocations: u64) -> [Change; 3] {
    let before = allocations.saturating_sub(peak).min(deallocations);
    [Change::DramFreed(before), Change::DramAllocated(allocations), Change::DramFreed(deallocations - before)]
}

fn dram(of: DramUsage) -> Dram {
    (of.peak, of.total_allocations, of.total_deallocations)
}

fn l1(of: L1Usage) -> L1 {
    (of.peak_cb, of.peak_buffer, of.peak_total)
}

/// Converts an error of the tracker to an exception.
fn refused(py: Python<'_>, error: TrackerError) -> PyErr {
    match error {
        TrackerError::NoSuchPhase { .. } | TrackerError::Ambiguous { .. } => {
            PyLookupError::new_err(error.to_string())
        }
        TrackerError::Graph(error) | TrackerError::Recording(error) => raised(py, error),
        _ => PyRuntimeError::new_err(error.to_string()),
    }
}
