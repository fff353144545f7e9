//! What holds for the tracker when a program starts: the environment, and the file that it names.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ttmem::config::Settings;

/// What the environment and the file say.
#[pyfunction]
pub(crate) fn tracker_settings(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let settings = py.detach(Settings::here);
    let said = PyDict::new(py);
    said.set_item("enabled", settings.enable_memory_profiling.value)?;
    said.set_item("output_dir", settings.output_dir.value)?;
    said.set_item("interval", settings.interval.value)?;
    said.set_item("level", settings.level.value)?;
    said.set_item("limit", settings.limit.value)?;
    said.set_item("problems", settings.problems)?;
    Ok(said)
}
