//! The commands, run inside the Python interpreter's process.
//!
//! They behave like the binaries. `python/ttmem/__main__.py` restores the default signal handling before it calls them.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ttmem_cli::Companion;

use crate::errors::raised;

/// The commands that have a separate program in an archive. The package has them in this module.
const COMPANIONS: &[Companion] = &[
    Companion { program: "ttmem-export", run: ttmem_export::run },
    Companion { program: "ttmem-mcp", run: ttmem_mcp::run },
];

/// Runs the command `ttmem` and returns its exit code.
///
/// `words` is `sys.argv`; `again` is the command line that starts the command again.
#[pyfunction]
pub(crate) fn ttmem(py: Python<'_>, words: Vec<OsString>, again: Vec<OsString>) -> u8 {
    run(py, again, || ttmem_cli::ttmem(words))
}

/// Runs the command `tt-memory-profiler` and returns its exit code.
#[pyfunction]
pub(crate) fn tt_memory_profiler(py: Python<'_>, words: Vec<OsString>, again: Vec<OsString>) -> u8 {
    run(py, again, || ttmem_cli::tt_memory_profiler(words))
}

/// Parses a size such as `200MB` into bytes.
#[pyfunction]
pub(crate) fn memory_size(text: &str) -> PyResult<u64> {
    ttmem_cli::memory_size(text).map_err(PyValueError::new_err)
}

/// Checks that a command may write a file.
#[pyfunction]
#[pyo3(signature = (path, *, force))]
pub(crate) fn check_output(py: Python<'_>, path: &str, force: bool) -> PyResult<()> {
    py.detach(|| ttmem_cli::check_output(Path::new(path), force)).map_err(|error| raised(py, error))
}

/// Checks and writes a file.
#[pyfunction]
#[pyo3(signature = (path, content, *, force))]
pub(crate) fn write_output(py: Python<'_>, path: &str, content: &str, force: bool) -> PyResult<()> {
    py.detach(|| ttmem_cli::write_output(Path::new(path), content.as_bytes(), force))
        .map_err(|error| raised(py, error))
}

fn run(py: Python<'_>, again: Vec<OsString>, command: impl FnOnce() -> u8 + Send) -> u8 {
    ttmem_cli::started_by(again);
    ttmem_cli::link(COMPANIONS);
    py.detach(|| {
        let code = command();
        // Rust flushes at the end of a program, but not at the end of an interpreter. Errors are ignored in both cases.
        let _ = io::stdout().flush();
        code
    })
}
