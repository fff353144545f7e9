//! Stored reports: their location, names and sources.
//!
//! ```text
//! TTMEM_HOME/reports/<name>/     (TTMEM_HOME is ~/.ttmem by default)
//!   <name>.ttmem, <name>_memory.json …    see `report::files`
//!   source.json                           the source: path, size, hash of its head and tail
//! TTMEM_HOME/reports/<name>  ->  a folder that `ttmem run` created elsewhere
//! ```
//!
//! The modules contain the rules for names (`name`), the identity of sources (`source`), a report's row in a list
//! (`stored`), atomic replacement of a report's files (`write`), locks on names and folders (`lock`), and the list as
//! text and JSON (`list`). [`files`](crate::files) decides the contents of the files.

mod list;
mod lock;
mod name;
mod source;
mod stored;
mod write;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use list::{list, list_json};
use lock::Lock;
pub use name::{clean_name, name_of, plain_name, run_of};
pub use source::SourceId;
pub use stored::{Kind, Stored};
pub use write::{replace_files, write_report, write_report_with};

use ttmem_model::{Error, Profile, Result, home_folder};

use crate::files::JsonFiles;

/// A user's stored reports.
#[derive(Clone, Debug)]
pub struct Store {
    reports: PathBuf,
    json: JsonFiles,
}

impl Store {
    /// The reports in `TTMEM_HOME`, or in `~/.ttmem` by default.
    pub fn from_env() -> Result<Self> {
        let home = home_folder(|name| std::env::var_os(name));
        home.map(Self::at).ok_or_else(|| {
            Error::NotFound("no home directory for reports; set TTMEM_HOME or specify a folder".into())
        })
    }

    /// The reports in another home. A relative path is resolved against the current folder now, not later.
    pub fn at(home: impl AsRef<Path>) -> Self {
        let home = home.as_ref();
        let home = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
        Self { reports: home.join("reports"), json: JsonFiles::default() }
    }

    /// Sets the JSON files that new reports have.
    #[must_use]
    pub fn with_json(self, json: JsonFiles) -> Self {
        Self { json, ..self }
    }

    /// The folder with the reports.
    pub fn folder(&self) -> &Path {
        &self.reports
    }

    /// Creates the folder with the reports if it does not exist. A read-only folder is enough to view reports.
    pub fn prepare(&self) -> Result<()> {
        let made = fs::create_dir_all(&self.reports).and_then(|()| fs::read_dir(&self.reports));
        made.map(drop).map_err(|error| {
            let folder = self.reports.display();
            Error::NotFound(format!(
                "{folder}: cannot store reports ({error}); set TTMEM_HOME to a writable folder"
            ))
        })
    }

    /// Stores the report of a profile that was read from `file` (`-`: standard input).
    ///
    /// The report of the same source is replaced. If another source has a report with that name, a number is appended
    /// to the name. Without a name, the file's name is used.
    pub fn save(&self, profile: &mut Profile, file: &str, name: Option<&str>) -> Result<Stored> {
        let wanted = name.map_or_else(|| name_of(file), clean_name);
        self.save_from(profile, SourceId::of(file).as_ref(), &wanted)
    }

    /// Like [`save`](Self::save), with an explicit source, as for an upload.
    pub fn save_from(&self, profile: &mut Profile, source: Option<&SourceId>, name: &str) -> Result<Stored> {
        let (name, _lock) = self.free_name(&clean_name(name), source)?;
        let folder = self.reports.join(&name);
        write::write_with(profile, None, (&folder, &name), self.json, |staged| match source {
            Some(source) => source.write(staged),
            None => Ok(()),
        })?;
        Stored::read(&name, &folder).ok_or_else(|| lost(&folder))
    }

    /// Adds a run's folder to the list, under its own name or one with a number.
    pub fn register(&self, folder: &Path) -> Result<Stored> {
        let failed = |source| Error::Write { path: self.reports.clone(), source };
        let folder =
            fs::canonicalize(folder).map_err(|source| Error::Read { path: folder.into(), source })?;
        let wanted = folder.file_name().map(|name| plain_name(&name.to_string_lossy())).unwrap_or_default();
        fs::create_dir_all(&self.reports).map_err(failed)?;
        for name in numbered(&wanted) {
            let link = self.reports.join(&name);
            if fs::canonicalize(&link).is_ok_and(|target| target == folder) {
                return Stored::read(&name, &link).ok_or_else(|| lost(&folder));
            }
            // A dangling link belongs to a run that was deleted.
            if fs::symlink_metadata(&link).is_ok_and(|metadata| metadata.is_symlink()) && !link.exists() {
                fs::remove_file(&link).map_err(failed)?;
            }
            match link_to(&folder, &link) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
                Ok(()) => return Stored::read(&name, &link).ok_or_else(|| lost(&folder)),
            }
        }
        Err(too_many(&wanted))
    }

    /// `vae`, `vae-2`, `vae-3` …: the first name that is free or belongs to this source. It stays reserved while the
    /// lock is held.
    fn free_name(&self, wanted: &str, source: Option<&SourceId>) -> Result<(String, Lock)> {
        let is_ours = |name: &String| {
            let folder = self.reports.join(name);
            match fs::symlink_metadata(&folder) {
                Err(_) => true,
                // A link points to a run; a dangling one also occupies its name.
                Ok(metadata) if metadata.is_symlink() => false,
                Ok(_) => {
                    // A commit counts even if its writer was killed right after it.
                    let _ = write::finish(&folder);
                    write::is_empty(&folder) || source.is_some() && SourceId::read(&folder).as_ref() == source
                }
            }
        };
        numbered(wanted)
            .map(|name| {
                let lock = Lock::on(&self.reports, &name);
                (name, lock)
            })
            .find(|(name, _)| is_ours(name))
            .ok_or_else(|| too_many(wanted))
    }

    /// All reports, newest first. Folders without a report are skipped.
    pub fn list(&self) -> Result<Vec<Stored>> {
        let failed = |source| Error::Read { path: self.reports.clone(), source };
        let entries = match fs::read_dir(&self.reports) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut reports = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().into_string();
            let report = name.ok().and_then(|name| Stored::read(&name, &entry.path()));
            // Leftovers of a killed writer. If they were to become the first report with this name, the folder is now
            // empty.
            if entry.path().is_dir() && write::sweep(&entry.path()) && report.is_none() {
                let _ = fs::remove_dir(entry.path());
            }
            reports.extend(report);
        }
        reports.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| a.name.cmp(&b.name)));
        Ok(reports)
    }

    /// The named report.
    pub fn find(&self, name: &str) -> Result<Stored> {
        // Looked up in the list, not joined to a path: a name cannot point outside the folder.
        let entries = fs::read_dir(&self.reports).into_iter().flatten().flatten();
        let found = entries.filter(|entry| entry.file_name() == name).map(|entry| entry.path()).next();
        if let Some(report) = found.and_then(|folder| Stored::read(name, &folder)) {
            return Ok(report);
        }
        let reports = self.list()?;
        let known: Vec<&str> = reports.iter().map(|report| report.name.as_str()).take(10).collect();
        let message = match known.len() {
            0 => format!("no report named {name:?}: no reports are stored"),
            _ => format!("no report named {name:?}; stored reports: {}", known.join(", ")),
        };
        Err(Error::NotFound(message))
    }

    /// Removes partial files of a killed process. Reports are whole or absent even without this, but partial files take
    /// disk space.
    pub fn sweep_after(&self, process: u32) {
        for entry in fs::read_dir(&self.reports).into_iter().flatten().flatten() {
            // Folders elsewhere (runs) have no other writers.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                write::sweep_after(process, &entry.path());
            }
        }
    }

    /// Removes the named report with its folder. A run is only removed from the list: its folder, with the log, is
    /// elsewhere and stays.
    pub fn remove(&self, name: &str) -> Result<()> {
        let link = self.reports.join(self.find(name)?.name);
        let is_link = fs::symlink_metadata(&link).is_ok_and(|metadata| metadata.is_symlink());
        let removed = if is_link { fs::remove_file(&link) } else { fs::remove_dir_all(&link) };
        removed.map_err(|source| Error::Write { path: link, source })
    }
}

/// A name, then the same name with numbers.
fn numbered(name: &str) -> impl Iterator<Item = String> {
    const MOST: usize = 100_000;
    let numbered = move |number| if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
    (1..MOST).map(numbered)
}

fn too_many(name: &str) -> Error {
    Error::NotFound(format!("too many reports named {name}; remove some"))
}

fn lost(folder: &Path) -> Error {
    Error::Bug(format!("no report in {} after writing it", folder.display()))
}

#[cfg(unix)]
fn link_to(folder: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(folder, link)
}

#[cfg(windows)]
fn link_to(folder: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_dir(folder, link)
}
