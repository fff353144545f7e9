//! The recordings that the PyTorch trackers of a run wrote: one per process. The report is about one of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ttmem::model::Profile;
use ttmem::query::{self, DeviceUse, Request};
use ttmem::read;

use super::NO_DATA;
use crate::{console, reading};

/// The folder that trackers write to.
#[derive(Debug)]
pub(super) struct Recordings {
    folder: PathBuf,
    /// The recordings of earlier programs, with the time of their last change.
    earlier: BTreeMap<PathBuf, Option<SystemTime>>,
}

/// A recording.
#[derive(Debug)]
pub(super) struct Recording {
    pub path: PathBuf,
    pub profile: Profile,
    pub used: DeviceUse,
}

impl Recordings {
    /// The recordings that will be written to a folder from now on.
    pub fn from_now_on(folder: PathBuf) -> Self {
        let earlier = files(&folder);
        Self { folder, earlier }
    }

    /// The recording that used the most device memory, or, if none used any, the most CPU memory. Prints which other
    /// recordings there are, and which of them could not be read.
    pub fn main(&self) -> Option<Recording> {
        let mut main: Option<Recording> = None;
        let mut others = Vec::new();
        for (path, changed) in files(&self.folder) {
            if self.earlier.get(&path) == Some(&changed) {
                continue;
            }
            let Some(recording) = open(path) else { continue };
            let is_larger = main.as_ref().is_none_or(|main| recording.used > main.used);
            let smaller = if is_larger { main.replace(recording) } else { Some(recording) };
            others.extend(smaller.map(|recording| recording.path));
        }
        if let Some(main) = &main {
            mention(&main.path, &mut others);
        }
        main
    }
}

/// Opens a recording; `None` if it has no data. Warns if it cannot be read.
fn open(path: PathBuf) -> Option<Recording> {
    let opened = reading::open(&path.to_string_lossy(), None).and_then(|profile| {
        let summary = query::summary(std::slice::from_ref(&profile), &Request::default())?;
        Ok((DeviceUse::of(&summary), profile))
    });
    match opened {
        Ok((used, profile)) => (!used.is_empty()).then_some(Recording { path, profile, used }),
        Err(error) if error.exit_code() == NO_DATA => None,
        Err(error) => {
            console::caution(&format!("{error}; the report does not include this process"));
            None
        }
    }
}

/// Names the recordings that the report is not about.
fn mention(main: &Path, others: &mut [PathBuf]) {
    const SHOWN: usize = 5;
    if others.is_empty() {
        return;
    }
    others.sort();
    let names: Vec<String> = others.iter().take(SHOWN).map(|path| path.display().to_string()).collect();
    let more = if others.len() > SHOWN { ", …" } else { "" };
    let (main, count) = (main.display(), others.len());
    let processes = if count == 1 {
        "1 other process has a recording"
    } else {
        &format!("{count} other processes have recordings")
    };
    console::note(&format!(
        "the report is about {main}, the process that used the most memory; {processes} ({}{more})",
        names.join(", ")
    ));
}

/// The recordings in a folder, each with the time of its last change. The earlier files of a rotated recording belong to
/// its newest file.
fn files(folder: &Path) -> BTreeMap<PathBuf, Option<SystemTime>> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeMap::new() };
    let entries = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_recording =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "ttmem") && !read::is_earlier_file(path);
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    entries.filter(is_recording).map(|path| (path.clone(), changed(&path))).collect()
}
