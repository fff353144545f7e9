//! Errors as Python exceptions.
//!
//! Errors of the operating system become `OSError`, as everywhere in Python. All others become `ttmem.Error`, with the
//! message and the exit code of the command.

use std::io;
use std::path::Path;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyFileExistsError, PyOSError};
use pyo3::prelude::*;

create_exception!(
    ttmem,
    Error,
    PyException,
    "An error of ttmem. `exit_code` is the exit code of the `ttmem` command."
);
create_exception!(
    ttmem,
    UnknownFormat,
    Error,
    "The format of a file is not recognized, or `format` names no reader."
);
create_exception!(
    ttmem,
    NoMemoryData,
    Error,
    "The file has a known format but no memory data; the message names the missing setting."
);

const EXIT_CODE: &str = "exit_code";

/// Sets the default exit code of each class, so that every exception has one.
pub(crate) fn give_exit_codes(py: Python<'_>) -> PyResult<()> {
    py.get_type::<Error>().setattr(EXIT_CODE, 2)?;
    py.get_type::<NoMemoryData>().setattr(EXIT_CODE, 4)
}

/// Converts an error to the matching exception.
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

/// A file already exists and may not be replaced.
pub(crate) fn exists(path: &Path) -> PyErr {
    PyFileExistsError::new_err(format!("{} already exists; pass force=True to replace it", path.display()))
}

/// Converts an error of the operating system. Python picks the class by the number (`FileNotFoundError` …).
fn of_system(path: &Path, source: &io::Error) -> Option<PyErr> {
    let number = source.raw_os_error()?;
    let message = source.to_string();
    // Rust appends the error number, which Python prints itself.
    let reason = message.split(" (os error").next().unwrap_or(&message).to_owned();
    Some(PyOSError::new_err((number, reason, path.as_os_str().to_owned())))
}

/// Sets the exit code of an exception.
fn with_code(py: Python<'_>, raised: PyErr, exit_code: u8) -> PyErr {
    match raised.value(py).setattr(EXIT_CODE, exit_code) {
        Ok(()) => raised,
        Err(error) => error,
    }
}
