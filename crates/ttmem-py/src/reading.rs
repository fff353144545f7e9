//! `ttmem.load` and `ttmem.export`: they read on their own thread, so that other Python threads run and Ctrl-C cancels them.

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

/// Interval of checks for Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Reads a log, a capture, a recording, a profile, or a report folder. `"-"` is standard input.
///
/// `format` is the name of the reader to use, instead of detecting the format. `estimate` is a capture of the same program
/// without dispatch, which completes a ttnn capture of a run.
#[pyfunction]
#[pyo3(signature = (path, *, format = None, estimate = None))]
pub(crate) fn load(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    estimate: Option<PathBuf>,
) -> PyResult<Profile> {
    let path = text_of(path)?;
    let estimate = estimate.map(text_of).transpose()?;
    let progress = Arc::new(Progress::default());
    let options = Options { format, progress: Some(Arc::clone(&progress)), ..Options::default() };
    let work = move || match estimate {
        Some(estimate) => read_with_estimate(path, estimate, &options),
        None => read(path, &options),
    };
    let (file, profile) =
        interruptible(py, || progress.stop(), "ttmem.load", work)?.map_err(|error| raised(py, error))?;
    Ok(Profile::new(file, profile))
}

/// Reads a capture of a run, and completes it with a capture of the same program without dispatch.
fn read_with_estimate(
    path: String,
    estimate: String,
    options: &Options,
) -> ttmem::Result<(String, model::Profile)> {
    let (file, run) = read(path, options)?;
    let (name, estimate) = read(estimate, options)?;
    let mut completed = read::complete(vec![run, estimate]).into_iter();
    match (completed.next().flatten(), completed.next().flatten()) {
        (Some(run), None) => Ok((file, run)),
        (_, other) => {
            let why = other.and_then(|other| other.warnings.last().map(|warning| warning.message.clone()));
            let why = why.unwrap_or_else(|| {
                format!("cannot complete {file}: pass a capture with RunMode.NO_DISPATCH")
            });
            Err(ttmem::Error::NotFound(format!("{name} {why}")))
        }
    }
}

/// The number of ranks, of rows, and of files that could not be read.
type Exported = (usize, usize, usize);

/// Exports inputs as tables of a dataset.
#[pyfunction]
#[pyo3(signature = (inputs, dataset, *, run, labels, host, format))]
pub(crate) fn export(
    py: Python<'_>,
    inputs: Vec<PathBuf>,
    dataset: PathBuf,
    run: Option<String>,
    labels: Vec<(String, String)>,
    host: Option<String>,
    format: Option<String>,
) -> PyResult<Exported> {
    // As in the command, a file whose name is not valid UTF-8 is one that cannot be read.
    let inputs = inputs.into_iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let request = ttmem_export::Request { dataset, run, labels, host, format, quiet: true, inputs };
    let progress = Arc::new(Progress::default());
    let stopping = Arc::clone(&progress);
    let work = move || ttmem_export::export(&request, &progress, |_| ());
    let done =
        interruptible(py, || stopping.stop(), "ttmem.export", work)?.map_err(|error| raised(py, error))?;
    Ok((done.ranks, done.rows, done.errors))
}

/// Converts a path to text, as the library expects.
pub(crate) fn text_of(path: PathBuf) -> PyResult<String> {
    path.into_os_string().into_string().map_err(|path| {
        PyValueError::new_err(format!("{}: file name is not valid UTF-8; rename the file", path.display()))
    })
}

/// Reads a file, or the report in a folder; returns the name of the file that was read, and the profile.
fn read(path: String, options: &Options) -> ttmem::Result<(String, model::Profile)> {
    let folder = PathBuf::from(&path);
    let file = if folder.is_dir() { read::report_in(&folder)?.display().to_string() } else { path };
    let profile = read::open_with(&file, options)?;
    Ok((file, profile))
}

/// Runs `work` on its own thread, which has this name, without Python's GIL, until it is done or a signal handler raises
/// (`KeyboardInterrupt`). Then calls `stop` and does not wait for the thread, which may be blocked on a pipe.
fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    stop: impl Fn() + Send,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (done, wait) = sync_channel(1);
    // Sending fails if the caller was interrupted.
    let working = thread::Builder::new().name(name.into()).spawn(move || drop(done.send(work())))?;
    py.detach(move || {
        loop {
            match wait.recv_timeout(SIGNAL_INTERVAL) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) => {
                    Python::attach(interrupted).inspect_err(|_| stop())?;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(ended(working)),
            }
        }
    })
}

/// Runs pending signal handlers; returns the exception that they raise.
fn interrupted(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}

/// Propagates the panic of a thread that ended without a result. PyO3 turns it into an exception.
fn ended(working: JoinHandle<()>) -> PyErr {
    match working.join() {
        Err(panic) => resume_unwind(panic),
        Ok(()) => Error::new_err("this is a bug in ttmem: a thread ended without a result"),
    }
}
