//! The tracker's settings when a program starts, from the environment and the configuration file.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ttmem::config::Settings;

/// Returns the settings as a dictionary.
#[pyfunction]
pub(crate) fn tracker_settings(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let settings = py.detach(Settings::here);
    let dict = PyDict::new(py);
    dict.set_item("enabled", settings.enable_memory_profiling.value)?;
    dict.set_item("output_dir", settings.output_dir.value)?;
    dict.set_item("interval", settings.interval.value)?;
    dict.set_item("level", settings.level.value)?;
    dict.set_item("limit", settings.limit.value)?;
    dict.set_item("problems", settings.problems)?;
    Ok(dict)
}
