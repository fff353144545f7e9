//! `memory_profile_….json`: the JSON profile of a recording, next to it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use ttmem::query::{MemoryProfile, memory_profile};
use ttmem::read::{self, Options};

use crate::errors::raised;
use crate::reading::text_of;

/// Writes the JSON profile of a recording next to it; returns its path. `is_running`: the recording is incomplete.
#[pyfunction]
#[pyo3(signature = (recording, *, is_running = false))]
pub(crate) fn save_memory_profile(py: Python<'_>, recording: PathBuf, is_running: bool) -> PyResult<String> {
    let recording = text_of(recording)?;
    py.detach(|| save(&recording, is_running)).map_err(|error| raised(py, error))
}

fn save(recording: &str, is_running: bool) -> ttmem::Result<String> {
    let profile = read::open_with(recording, &Options::default())?;
    let Some(answer) = memory_profile(&profile, is_running) else {
        return Err(ttmem::Error::NotFound(format!("{recording}: nothing was recorded yet")));
    };
    let path = Path::new(recording).with_extension("json");
    // Replaces the JSON profile of an earlier save, but not a log or a capture that happens to have this name.
    let is_other = |format: &&str| *format != "memory_profile";
    if let Some(format) =
        path.is_file().then(|| read::evidence_in(&path)).transpose()?.flatten().filter(is_other)
    {
        let what = format!("a log, recording or profile (format: {format})");
        return Err(ttmem::Error::Evidence { path, what });
    }
    let failed = |source| ttmem::Error::Write { path: path.clone(), source };
    write(&path, &answer).map_err(failed)?;
    Ok(path.display().to_string())
}

/// Writes to a temporary file and renames it when it is complete. Removes the file if writing fails.
fn write(path: &Path, answer: &MemoryProfile) -> io::Result<()> {
    let unfinished = path.with_extension("json.part");
    let written = write_whole(&unfinished, answer).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn write_whole(path: &Path, answer: &MemoryProfile) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    serde_json::to_writer_pretty(&mut file, answer)?;
    file.write_all(b"\n")?;
    file.into_inner()?;
    Ok(())
}
