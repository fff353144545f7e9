//! `ttmem.Profile`: what was read, and the questions to it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyString};
use ttmem::query::{self, Expectations, ProcessFilter, Request, RunFilter, Summary};
use ttmem::report::files::page_of;
use ttmem::report::{json, markdown, title_of};
use ttmem::store::{clean_name, name_of, write_report};
use ttmem::{Error, Result, model};

use crate::errors::{exists, raised};

/// What a run left behind, read. `ttmem.open` makes it.
#[pyclass(frozen, module = "ttmem")]
pub(crate) struct Profile {
    /// The file that it was read from.
    file: String,
    /// Changed by a report alone, which takes the texts of the source along. It is never waited for with Python's lock.
    profile: RwLock<model::Profile>,
}

impl Profile {
    /// A profile that was read from a file.
    pub(crate) fn new(file: String, profile: model::Profile) -> Self {
        Self { file, profile: RwLock::new(profile) }
    }

    /// Asks the profile something, without Python's lock.
    fn ask<T: Send>(&self, py: Python<'_>, question: impl Send + FnOnce(&model::Profile) -> T) -> T {
        // A question changes nothing, so one that panicked has left nothing half done.
        py.detach(|| question(&self.profile.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl Profile {
    /// Where the memory went: the object that `ttmem summary --json` prints.
    ///
    /// `run` is `"all"`, `"last"` or a number from 1; `rank` is `0` or `"1,0"`; `process` is `"all"` or a number from 1; `top` is how many rows lists have; `at`
    /// is a step: what was in memory before it stands in `at`, besides the peaks.
    /// `expect` is what is expected of classes, as `--expect` of the command takes it.
    #[pyo3(signature = (*, run = None, rank = None, process = None, top = None, at = None, expect = None))]
    #[allow(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn summary<'py>(
        &self,
        py: Python<'py>,
        run: Option<Bound<'py, PyAny>>,
        rank: Option<Bound<'py, PyAny>>,
        process: Option<Bound<'py, PyAny>>,
        top: Option<usize>,
        at: Option<u32>,
        expect: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let run = run
            .map_or(Ok(RunFilter::All), |run| word_of("run", &run)?.parse().map_err(PyValueError::new_err))?;
        let rank = rank.map(|rank| word_of("rank", &rank)).transpose()?;
        let process = process.map_or(Ok(ProcessFilter::All), |process| {
            word_of("process", &process)?.parse().map_err(PyValueError::new_err)
        })?;
        let expect = expect.map(|expect| expectations(&expect)).transpose()?;
        let request = Request { at, top, run, rank, process, expect, ..Request::default() };
        let text = self.ask(py, |profile| {
            let summary = answer(profile, &request)?;
            written(|out| json(&summary, out))
        });
        let text = text.map_err(|error| raised(py, error))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// The answer as Markdown, for agents and issues: what `ttmem summary --markdown` prints.
    fn markdown(&self, py: Python<'_>) -> PyResult<String> {
        let title = title_of(&self.file);
        let text = self.ask(py, |profile| {
            let summary = answer(profile, &Request::default())?;
            written(|out| markdown(&summary, &title, out))
        });
        text.map_err(|error| raised(py, error))
    }

    /// Writes the report into a folder, which need not be there; returns where its page is.
    ///
    /// The files' names begin with `name`; without one, with the name of what was read. Where there is a report of that
    /// name already, `force` replaces it.
    #[pyo3(signature = (directory, name = None, force = false))]
    #[expect(clippy::needless_pass_by_value, reason = "Python lends no paths")]
    fn report(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        name: Option<&str>,
        force: bool,
    ) -> PyResult<PathBuf> {
        let name = name.map_or_else(|| name_of(&self.file), clean_name);
        let page = directory.join(page_of(&name));
        if !force && page.exists() {
            return Err(exists(&page));
        }
        let written = py.detach(|| {
            let mut profile = self.profile.write().unwrap_or_else(PoisonError::into_inner);
            write_report(&mut profile, Some(Path::new(&self.file)), &directory, &name)
        });
        written.map(|_| page).map_err(|error| raised(py, error))
    }

    /// The name of the format: `tt_log` …
    #[getter]
    fn format(&self, py: Python<'_>) -> String {
        self.ask(py, |profile| profile.source.format.clone())
    }

    /// What people should know about the reading: dictionaries with `file`, `line` (`None` where it is of no line) and
    /// `message`.
    #[getter]
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (file, warnings) =
            self.ask(py, |profile| (profile.source.file.clone(), profile.warnings.clone()));
        let warnings = warnings.into_iter().map(|warning| {
            let entry = PyDict::new(py);
            entry.set_item("file", &file)?;
            entry.set_item("line", warning.line)?;
            entry.set_item("message", warning.message)?;
            Ok(entry)
        });
        PyList::new(py, warnings.collect::<PyResult<Vec<_>>>()?)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (format, warnings) =
            self.ask(py, |profile| (profile.source.format.clone(), profile.warnings.len()));
        let file = PyString::new(py, &self.file).repr()?;
        let warnings = match warnings {
            0 => String::new(),
            1 => ", 1 warning".into(),
            count => format!(", {count} warnings"),
        };
        Ok(format!("<ttmem.Profile {file}, {format}{warnings}>"))
    }
}

/// What people write as a word or as a number.
fn word_of(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let is_number = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    if !is_number && !value.is_instance_of::<PyString>() {
        let kind = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{argument} is a str or an int, not {kind}")));
    }
    value.str()?.extract()
}

/// What is expected: keys and what Python says of their values.
fn expectations(words: &Bound<'_, PyDict>) -> PyResult<Expectations> {
    let word = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| -> PyResult<(String, String)> {
        Ok((key.str()?.extract()?, value.str()?.extract()?))
    };
    let words = words.iter().map(word).collect::<PyResult<Vec<_>>>()?;
    Expectations::of(&words).map_err(PyValueError::new_err)
}

/// Answers as the command does.
fn answer(profile: &model::Profile, request: &Request) -> Result<Summary> {
    query::summary(std::slice::from_ref(profile), request)
}

/// What is written, as text.
fn written(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<String> {
    let mut bytes = Vec::new();
    let bug = |error: &dyn std::error::Error| Error::Bug(format!("an answer cannot be written: {error}"));
    write(&mut bytes).map_err(|error| bug(&error))?;
    String::from_utf8(bytes).map_err(|error| bug(&error))
}
