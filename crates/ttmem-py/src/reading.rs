//! `ttmem.open`: reading, beside which Python goes on, and which Ctrl-C ends.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ttmem::model;
use ttmem::read::{self, Options, Progress};

use crate::errors::{Error, raised};
use crate::profile::Profile;

/// So often it is looked whether somebody pressed Ctrl-C.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Reads what a run left behind: a log, a capture, a recording, a profile, or the folder of a report.
///
/// `format` is the name of a reader, instead of the one that knows the content. `"-"` is standard input.
#[pyfunction]
#[pyo3(signature = (path, *, format = None))]
pub(crate) fn open(py: Python<'_>, path: PathBuf, format: Option<String>) -> PyResult<Profile> {
    let path = text_of(path)?;
    let progress = Arc::new(Progress::default());
    let options = Options { format, progress: Some(Arc::clone(&progress)), ..Options::default() };
    let (file, profile) = interruptible(py, || progress.stop(), move || read(path, &options))?
        .map_err(|error| raised(py, error))?;
    Ok(Profile::new(file, profile))
}

/// The library's names of files are text.
pub(crate) fn text_of(path: PathBuf) -> PyResult<String> {
    path.into_os_string().into_string().map_err(|path| {
        PyValueError::new_err(format!("the name {} is no UTF-8: rename the file", path.display()))
    })
}

/// Reads a file; besides, its name: a folder stands for the report in it.
fn read(path: String, options: &Options) -> ttmem::Result<(String, model::Profile)> {
    let folder = PathBuf::from(&path);
    let file = if folder.is_dir() { read::report_in(&folder)?.display().to_string() } else { path };
    let profile = read::open_with(&file, options)?;
    Ok((file, profile))
}

/// Does something on a thread of its own, without Python's lock, until it is done or the handler of a signal raises
/// (`KeyboardInterrupt`): then it is told to stop, and not waited for. A pipe may be silent for ever.
fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    stop: impl Fn() + Send,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, wait) = sync_channel(1);
    // Whoever asked may have left meanwhile.
    let working = thread::Builder::new().name("ttmem.open".into()).spawn(move || drop(done.send(work())))?;
    py.detach(move || {
        loop {
            match wait.recv_timeout(LOOK_UP) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) => {
                    Python::attach(interrupted).inspect_err(|_| stop())?;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(ended(working)),
            }
        }
    })
}

/// Lets the handlers of signals run that have come; what they raise is an error.
fn interrupted(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}

/// A thread that ended without a result has panicked: so do we, and PyO3 makes an exception of it.
fn ended(working: JoinHandle<()>) -> PyErr {
    match working.join() {
        Err(panic) => resume_unwind(panic),
        Ok(()) => Error::new_err("this is a bug in ttmem: the reading ended without a result"),
    }
}
