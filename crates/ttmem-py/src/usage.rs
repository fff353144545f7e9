//! The tracker of phases: `ttmem.MemoryUsageTracker` is told by Python what happened, and answers.

use std::path::PathBuf;

use pyo3::exceptions::{PyLookupError, PyRuntimeError};
use pyo3::prelude::*;
use ttmem::model::{Change, DramUsage, L1Usage};
use ttmem::read::graph_changes;
use ttmem::record::tracker::{MemoryUsageTracker, RunMode, TrackerError};

use crate::errors::raised;

/// Peak, allocations and deallocations.
type Dram = (i64, u64, u64);
/// The peaks of circular buffers, of buffers, and of both.
type L1 = (u64, u64, u64);

/// Cuts a program into phases. `python/ttmem` has one, and tells it what PyTorch or ttnn did.
#[pyclass(frozen, module = "ttmem._native")]
#[derive(Debug)]
pub(crate) struct Usage(MemoryUsageTracker);

#[pymethods]
impl Usage {
    #[new]
    fn new() -> Self {
        Self(MemoryUsageTracker::new())
    }

    /// Begins a capture: its number. `estimated`: nothing runs.
    fn begin_capture(&self, py: Python<'_>, estimated: bool) -> PyResult<u64> {
        let mode = if estimated { RunMode::NoDispatch } else { RunMode::Normal };
        let guard = self.0.begin_capture(mode).map_err(|error| refused(py, error))?;
        Ok(guard.into_capture())
    }

    /// Ends the phase, and begins the next.
    fn snapshot(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.0.snapshot(name)).map_err(|error| refused(py, error))
    }

    /// Ends the last phase, and the capture.
    fn end_capture(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.0.end_capture(name)).map_err(|error| refused(py, error))
    }

    /// What a guard does in the end: nothing if another capture has begun since.
    fn end_and_clear(&self, py: Python<'_>, capture: u64) {
        py.detach(|| self.0.end_and_clear(capture));
    }

    /// Forgets the phases. A capture that runs is over.
    fn clear(&self) {
        self.0.clear();
    }

    /// Whether a capture runs.
    #[getter]
    fn is_capturing(&self) -> bool {
        self.0.is_capturing()
    }

    /// Takes down what happened in DRAM: how far it went above what was there, and the bytes of all allocations and
    /// frees.
    fn record(&self, peak: u64, allocations: u64, deallocations: u64) {
        self.0.record_changes(changes(peak, allocations, deallocations));
    }

    /// Takes a graph capture of ttnn down, as JSON.
    fn record_graph(&self, py: Python<'_>, json: &str) -> PyResult<()> {
        py.detach(|| self.0.record_graph(|| graph_changes(json.as_bytes())))
            .map_err(|error| refused(py, error))
    }

    /// What a phase did in DRAM.
    fn dram(&self, py: Python<'_>, name: &str) -> PyResult<Dram> {
        self.0.get_dram_usage(name).map(dram).map_err(|error| refused(py, error))
    }

    /// What a phase did in L1.
    fn l1(&self, py: Python<'_>, name: &str) -> PyResult<L1> {
        self.0.get_l1_usage(name).map(l1).map_err(|error| refused(py, error))
    }

    /// What all phases did, in order.
    fn phases(&self) -> Vec<(String, Dram, L1)> {
        let phases = self.0.get_usage_all().into_iter();
        phases.map(|(name, of_dram, of_l1)| (name, dram(of_dram), l1(of_l1))).collect()
    }

    /// The figures of all phases as text.
    fn text(&self) -> String {
        self.0.memory_usage_text()
    }

    /// Begins a recording of the captures to come.
    fn record_to(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.0.record_to(path)).map_err(|error| refused(py, error))
    }

    /// Finishes the recording.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.finish()).map_err(|error| refused(py, error))
    }
}

/// Changes that come to these figures. What was allocated beyond the peak, something else must have made room for.
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

/// What the tracker refuses, as an exception.
fn refused(py: Python<'_>, error: TrackerError) -> PyErr {
    match error {
        TrackerError::NoSuchPhase { .. } | TrackerError::Ambiguous { .. } => {
            PyLookupError::new_err(error.to_string())
        }
        TrackerError::Graph(error) | TrackerError::Recording(error) => raised(py, error),
        _ => PyRuntimeError::new_err(error.to_string()),
    }
}
