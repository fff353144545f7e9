//! The commands, in the process of the interpreter.
//!
//! They do what the binaries do. What an interpreter changes in a process (signals) has been put back when they are
//! called: `python/ttmem/__main__.py` sees to that.

use std::ffi::OsString;
use std::io::{self, Write};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Runs the command `ttmem` and returns its exit code.
///
/// `words` is `sys.argv`; the words of `again` start the command another time.
#[pyfunction]
pub(crate) fn ttmem(py: Python<'_>, words: Vec<OsString>, again: Vec<OsString>) -> u8 {
    run(py, again, || ttmem_cli::ttmem(words))
}

/// Runs the command `tt-memory-profiler` and returns its exit code.
#[pyfunction]
pub(crate) fn tt_memory_profiler(py: Python<'_>, words: Vec<OsString>, again: Vec<OsString>) -> u8 {
    run(py, again, || ttmem_cli::tt_memory_profiler(words))
}

/// The bytes of a size as people type it.
#[pyfunction]
pub(crate) fn memory_size(text: &str) -> PyResult<u64> {
    ttmem_cli::memory_size(text).map_err(PyValueError::new_err)
}

fn run(py: Python<'_>, again: Vec<OsString>, command: impl FnOnce() -> u8 + Send) -> u8 {
    ttmem_cli::started_by(again);
    py.detach(|| {
        let code = command();
        // At the end of a program Rust does so itself; an interpreter knows nothing of it. As there, nobody can be told
        // that it failed.
        let _ = io::stdout().flush();
        code
    })
}
