//! `ttmem.Profile`: a profile that was read, and its queries.

use std::cmp::Ordering;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyString};
use ttmem::query::{
    self, CheckLimits, CheckRequest, DiffRequest, Expectations, ProcessFilter, Request, RunFilter, Summary,
};
use ttmem::report::files::page_of;
use ttmem::report::{MarkdownSize, json, markdown, title_of};
use ttmem::store::{clean_name, name_of, write_report};
use ttmem::{Error, Result, model};

use crate::errors::{exists, raised};

/// The memory profile of a run, read by `ttmem.load`.
#[pyclass(frozen, module = "ttmem")]
pub(crate) struct Profile {
    /// The file that it was read from.
    file: String,
    /// Only `report` changes it, to include the source texts. Never locked while holding Python's GIL.
    profile: RwLock<model::Profile>,
}

impl Profile {
    /// A profile that was read from a file.
    pub(crate) fn new(file: String, profile: model::Profile) -> Self {
        Self { file, profile: RwLock::new(profile) }
    }

    /// Runs a query on the profile without Python's GIL.
    fn ask<T: Send>(&self, py: Python<'_>, query: impl Send + FnOnce(&model::Profile) -> T) -> T {
        // A query changes nothing, so the profile is valid even after a panic.
        py.detach(|| query(&self.read()))
    }

    /// Runs a query on two profiles, which are always locked in the same order.
    fn ask_both<T: Send>(
        &self,
        py: Python<'_>,
        other: &Self,
        query: impl Send + FnOnce(&model::Profile, &model::Profile) -> T,
    ) -> T {
        py.detach(|| match std::ptr::from_ref(self).cmp(&std::ptr::from_ref(other)) {
            Ordering::Equal => {
                let both = self.read();
                query(&both, &both)
            }
            Ordering::Less => {
                let (one, two) = (self.read(), other.read());
                query(&one, &two)
            }
            Ordering::Greater => {
                let (two, one) = (other.read(), self.read());
                query(&one, &two)
            }
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, model::Profile> {
        self.profile.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Profile {
    /// Returns the summary: the object that `ttmem summary --json` prints.
    ///
    /// `run` is `"all"`, `"last"` or a run number, starting at 1; `rank` is `0` or `"1,0"`; `process` is `"all"` or a
    /// process number, starting at 1; `top` is the maximum number of rows in each list; `at` is a step: `at` in the
    /// result describes the memory in use before it. `expect` has the expected sizes of tensor classes, as for
    /// `--expect`.
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
        check_rows(top)?;
        let request = Request { at, top, run, rank, process, expect, ..Request::default() };
        let text = self.ask(py, |profile| {
            let summary = answer(profile, &request)?;
            written(|out| json(&summary, out))
        });
        let text = text.map_err(|error| raised(py, error))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// The buffers of every pool before a step, with their addresses.
    #[pyo3(signature = (at=None, *, rank=0))]
    fn memory_map<'py>(&self, py: Python<'py>, at: Option<u32>, rank: usize) -> PyResult<Bound<'py, PyAny>> {
        let text = self.ask(py, |profile| {
            let map = query::memory_map(profile, rank, at)?;
            serde_json::to_string(&map).map_err(|error| Error::Bug(error.to_string()))
        });
        let text = text.map_err(|error| raised(py, error))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// Whether memory grows from iteration to iteration; `None` if fewer than six iterations are known.
    #[pyo3(signature = (*, rank=0))]
    fn growth<'py>(&self, py: Python<'py>, rank: usize) -> PyResult<Bound<'py, PyAny>> {
        let text = self.ask(py, |profile| {
            let found = query::growth(profile, rank)?;
            serde_json::to_string(&found).map_err(|error| Error::Bug(error.to_string()))
        });
        let text = text.map_err(|error| raised(py, error))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// Replays all allocations with the model of tt-metal's allocator, and compares their addresses.
    #[pyo3(signature = (*, rank=0))]
    fn replay<'py>(&self, py: Python<'py>, rank: usize) -> PyResult<Bound<'py, PyAny>> {
        let text = self.ask(py, |profile| {
            let found = query::replayed(profile, rank)?;
            serde_json::to_string(&found).map_err(|error| Error::Bug(error.to_string()))
        });
        let text = text.map_err(|error| raised(py, error))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// What changed between this profile and a later one, as printed by `ttmem diff --json`.
    #[pyo3(signature = (after, *, rank=None))]
    fn diff<'py>(
        &self,
        py: Python<'py>,
        after: &Self,
        rank: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rank = rank.map(|rank| word_of("rank", &rank)).transpose()?;
        let text = self.ask_both(py, after, |before, after| {
            let answer = query::diff(before, after, &DiffRequest { rank, top: None })?;
            serde_json::to_string(&answer).map_err(|error| Error::Bug(error.to_string()))
        });
        let text = text.map_err(|error| raised(py, error))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// Compares the profile with limits, and its peaks with those of another one, as printed by `ttmem check --json`.
    #[pyo3(signature = (limits=None, *, baseline=None, rank=None, run=None))]
    fn check<'py>(
        &self,
        py: Python<'py>,
        limits: Option<Bound<'py, PyDict>>,
        baseline: Option<&Self>,
        rank: Option<Bound<'py, PyAny>>,
        run: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let run = run
            .map_or(Ok(RunFilter::All), |run| word_of("run", &run)?.parse().map_err(PyValueError::new_err))?;
        if baseline.is_some() && run != RunFilter::All {
            return Err(PyValueError::new_err("run cannot be used with a baseline"));
        }
        let rank = rank.map(|rank| word_of("rank", &rank)).transpose()?;
        let limits = limits.map_or_else(|| Ok(CheckLimits::default()), |limits| check_limits(&limits))?;
        if limits.is_empty() && baseline.is_none() {
            return Err(PyValueError::new_err("no limits; pass one, such as {\"cuda:0\": \"40GiB\"}"));
        }
        let request = CheckRequest { limits, rank, run };
        let written = |answer| serde_json::to_string(&answer).map_err(|error| Error::Bug(error.to_string()));
        let one = std::slice::from_ref;
        let text = match baseline {
            None => self.ask(py, |profile| written(query::check(one(profile), &[], &request)?)),
            Some(before) => self.ask_both(py, before, |profile, before| {
                written(query::check(one(profile), one(before), &request)?)
            }),
        };
        let text = text.map_err(|error| raised(py, error))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// Returns the summary as Markdown, as printed by `ttmem summary --markdown`.
    ///
    /// `budget` limits its size in bytes, `top` the rows of its tables.
    #[pyo3(signature = (*, budget = None, top = None))]
    fn markdown(&self, py: Python<'_>, budget: Option<usize>, top: Option<usize>) -> PyResult<String> {
        check_rows(top)?;
        let standard = MarkdownSize::default();
        let size =
            MarkdownSize { budget: budget.unwrap_or(standard.budget), rows: top.unwrap_or(standard.rows) };
        let title = title_of(&self.file);
        let text = self.ask(py, |profile| {
            let summary = answer(profile, &Request::default())?;
            written(|out| markdown(&summary, &title, size, out))
        });
        text.map_err(|error| raised(py, error))
    }

    /// Writes a report into a folder, which is created if needed; returns the path of its page.
    ///
    /// `name` is the prefix of the file names, the name of the input by default. `force` replaces an existing report of
    /// that name.
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

    /// The name of the input's format: `tt_log` …
    #[getter]
    fn format(&self, py: Python<'_>) -> String {
        self.ask(py, |profile| profile.source.format.clone())
    }

    /// Problems found while reading: dictionaries with `file`, `line` (`None` if a warning does not belong to a line)
    /// and `message`.
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
            count => format!(", {}", model::words::counted(count, "warning")),
        };
        Ok(format!("<ttmem.Profile {file}, {format}{warnings}>"))
    }
}

/// Converts an argument that may be a string or an integer.
fn word_of(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let is_number = value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>();
    if !is_number && !value.is_instance_of::<PyString>() {
        let kind = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{argument} must be a str or an int, not {kind}")));
    }
    value.str()?.extract()
}

/// Parses expected sizes from a dictionary.
fn expectations(words: &Bound<'_, PyDict>) -> PyResult<Expectations> {
    let word = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| -> PyResult<(String, String)> {
        Ok((key.str()?.extract()?, value.str()?.extract()?))
    };
    let words = words.iter().map(word).collect::<PyResult<Vec<_>>>()?;
    Expectations::of(&words).map_err(PyValueError::new_err)
}

/// Parses limits from a dictionary.
fn check_limits(limits: &Bound<'_, PyDict>) -> PyResult<CheckLimits> {
    let pair = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| -> PyResult<(String, String)> {
        let key: String = key.str()?.extract()?;
        let value = word_of(&key, &value)?;
        Ok((key, value))
    };
    let pairs = limits.iter().map(pair).collect::<PyResult<Vec<_>>>()?;
    CheckLimits::of_pairs(&pairs).map_err(PyValueError::new_err)
}

/// Summarizes a profile as the command does.
fn answer(profile: &model::Profile, request: &Request) -> Result<Summary> {
    query::summary(std::slice::from_ref(profile), request)
}

/// Collects the output of `write` as text.
fn written(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<String> {
    let mut bytes = Vec::new();
    let bug = |error: &dyn std::error::Error| Error::Bug(format!("the summary cannot be written: {error}"));
    write(&mut bytes).map_err(|error| bug(&error))?;
    String::from_utf8(bytes).map_err(|error| bug(&error))
}

/// Refuses lists without rows, as the command does.
fn check_rows(top: Option<usize>) -> PyResult<()> {
    if top == Some(0) { Err(PyValueError::new_err("top is 0; expected at least 1")) } else { Ok(()) }
}
