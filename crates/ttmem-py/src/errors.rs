//! Errors as exceptions.
//!
//! What the system says of a file is an `OSError`, as everywhere in Python. All else is a `ttmem.Error`, whose text is
//! what the command says, and whose `exit_code` is what it exits with.

use std::io;
use std::path::Path;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyFileExistsError, PyOSError};
use pyo3::prelude::*;

create_exception!(
    ttmem,
    Error,
    PyException,
    "Why there is no answer. `exit_code` is what the command exits with."
);
create_exception!(ttmem, UnknownFormat, Error, "No reader knows the format, or there is none of that name.");
create_exception!(
    ttmem,
    NoMemoryData,
    Error,
    "The format is known, but there is no memory data in it; the text says which setting is missing."
);

const EXIT_CODE: &str = "exit_code";

/// Gives the classes the exit codes that their errors have as a rule, so that everything raised has one.
pub(crate) fn give_exit_codes(py: Python<'_>) -> PyResult<()> {
    py.get_type::<Error>().setattr(EXIT_CODE, 2)?;
    py.get_type::<NoMemoryData>().setattr(EXIT_CODE, 4)
}

/// An error as the exception that it is.
pub(crate) fn raised(py: Python<'_>, error: ttmem::Error) -> PyErr {
    let (text, exit_code) = (error.to_string(), error.exit_code());
    let raised = match error {
        ttmem::Error::Read { path, source } | ttmem::Error::Write { path, source } => {
            return of_system(&path, &source)
                .unwrap_or_else(|| with_code(py, Error::new_err(text), exit_code));
        }
        ttmem::Error::UnknownFormat { .. } | ttmem::Error::NoSuchFormat { .. } => {
            UnknownFormat::new_err(text)
        }
        ttmem::Error::NoMemoryData { .. } => NoMemoryData::new_err(text),
        _ => Error::new_err(text),
    };
    with_code(py, raised, exit_code)
}

/// A file that is there already and may not be replaced.
pub(crate) fn exists(path: &Path) -> PyErr {
    PyFileExistsError::new_err(format!("{} is there already; force=True replaces it", path.display()))
}

/// What the system says of a file. (Python picks the class by the number: `FileNotFoundError` …)
fn of_system(path: &Path, source: &io::Error) -> Option<PyErr> {
    let number = source.raw_os_error()?;
    let said = source.to_string();
    // The library's words end with the number, which Python says itself.
    let words = said.split(" (os error").next().unwrap_or(&said).to_owned();
    Some(PyOSError::new_err((number, words, path.as_os_str().to_owned())))
}

/// An exception with an exit code of its own.
fn with_code(py: Python<'_>, raised: PyErr, exit_code: u8) -> PyErr {
    match raised.value(py).setattr(EXIT_CODE, exit_code) {
        Ok(()) => raised,
        Err(error) => error,
    }
}
