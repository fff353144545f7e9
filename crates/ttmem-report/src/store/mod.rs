//! Stored reports: where they lie, what they are called, and which source each was made from.
//!
//! ```text
//! TTMEM_HOME/reports/<name>/     (TTMEM_HOME is ~/.ttmem by default)
//!   <name>.ttmem, <name>_memory.json …    see `report::files`
//!   source.json                           the source: path, size, hash of its head and tail
//! TTMEM_HOME/reports/<name>  ->  a folder that `ttmem run` made elsewhere
//! ```
//!
//! Here live the rules for names (`name`), the memory of sources (`source`), what a list says of a report
//! (`stored`), the way files get into a folder so that a report is whole or absent (`write`), and who may use a
//! name (`lock`). The list of reports is written by `list`. The contents of the files are decided in [`files`](crate::files).

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
pub use write::{replace_files, write_report};

use ttmem_model::{Error, Profile, Result, home_folder};

/// The stored reports of a user.
#[derive(Clone, Debug)]
pub struct Store {
    reports: PathBuf,
}

impl Store {
    /// The reports under `TTMEM_HOME`, or else under `~/.ttmem`.
    pub fn from_env() -> Result<Self> {
        let home = home_folder(|name| std::env::var_os(name));
        home.map(Self::at).ok_or_else(|| {
            Error::NotThere(
                "there is no home directory to keep reports in: set TTMEM_HOME, or name a folder".into(),
            )
        })
    }

    /// The reports under another home. A relative path counts from here, whatever folder is worked in later.
    pub fn at(home: impl AsRef<Path>) -> Self {
        let home = home.as_ref();
        let home = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
        Self { reports: home.join("reports") }
    }

    /// Where the reports lie.
    pub fn folder(&self) -> &Path {
        &self.reports
    }

    /// Makes the folder of the reports, if it is not there. A folder that can be read but not written is enough to look
    /// at reports.
    pub fn prepare(&self) -> Result<()> {
        let made = fs::create_dir_all(&self.reports).and_then(|()| fs::read_dir(&self.reports));
        made.map(drop).map_err(|error| {
            let folder = self.reports.display();
            Error::NotThere(format!(
                "{folder}: cannot be used for reports ({error}); set TTMEM_HOME to a folder that you can write to"
            ))
        })
    }

    /// Stores the report of a profile that was read from `file` (`-`: standard input).
    ///
    /// It replaces the report of the same source. Where another source has a report of that name, the name gets
    /// a number. Without a name, the file's is taken.
    pub fn save(&self, profile: &mut Profile, file: &str, name: Option<&str>) -> Result<Stored> {
        let wanted = name.map_or_else(|| name_of(file), clean_name);
        self.save_from(profile, SourceId::of(file).as_ref(), &wanted)
    }

    /// As [`save`](Self::save), of a source that the caller knows better than its path tells: an upload.
    pub fn save_from(&self, profile: &mut Profile, source: Option<&SourceId>, name: &str) -> Result<Stored> {
        let (name, _lock) = self.free_name(&clean_name(name), source)?;
        let folder = self.reports.join(&name);
        write::write_with(profile, None, &folder, &name, |staged| match source {
            Some(source) => source.write(staged),
            None => Ok(()),
        })?;
        Stored::read(&name, &folder).ok_or_else(|| lost(&folder))
    }

    /// Puts a folder that lies elsewhere (of a run) on the list, under its own name or one with a number.
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
            // A link that leads nowhere is of a run that somebody has removed.
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

    /// `vae`, `vae-2`, `vae-3` …: the first that nobody has, or that this source has already. It stays so for as
    /// long as the lock is held.
    fn free_name(&self, wanted: &str, source: Option<&SourceId>) -> Result<(String, Lock)> {
        let is_ours = |name: &String| {
            let folder = self.reports.join(name);
            match fs::symlink_metadata(&folder) {
                Err(_) => true,
                // What a link leads to was made by a run; and one that leads nowhere has the name, too.
                Ok(metadata) if metadata.is_symlink() => false,
                Ok(_) => {
                    // What was committed counts, even if whoever did it was killed right then.
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

    /// All reports, the newest first. A folder that holds none is none.
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
            // What a writer left that was killed. Where it was to be the first report of that name, the folder is empty then.
            if entry.path().is_dir() && write::sweep(&entry.path()) && report.is_none() {
                let _ = fs::remove_dir(entry.path());
            }
            reports.extend(report);
        }
        reports.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| a.name.cmp(&b.name)));
        Ok(reports)
    }

    /// The report of that name.
    pub fn find(&self, name: &str) -> Result<Stored> {
        // Looked up among what is there, not joined to a path: a name cannot lead out of the folder.
        let entries = fs::read_dir(&self.reports).into_iter().flatten().flatten();
        let found = entries.filter(|entry| entry.file_name() == name).map(|entry| entry.path()).next();
        if let Some(report) = found.and_then(|folder| Stored::read(name, &folder)) {
            return Ok(report);
        }
        let reports = self.list()?;
        let known: Vec<&str> = reports.iter().map(|report| report.name.as_str()).take(10).collect();
        let message = match known.len() {
            0 => format!("there is no report {name:?}: none is stored yet"),
            _ => format!("there is no report {name:?}: there are {}", known.join(", ")),
        };
        Err(Error::NotThere(message))
    }

    /// Removes what a process left half written that was killed. Its reports are whole or absent even without this;
    /// but what it had begun takes room.
    pub fn sweep_after(&self, process: u32) {
        for entry in fs::read_dir(&self.reports).into_iter().flatten().flatten() {
            // What lies elsewhere (a run) is not written by others.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                write::sweep_after(process, &entry.path());
            }
        }
    }

    /// Removes the report of that name with all that lies in its folder. A run is only taken off the list: its
    /// folder, with the log, lies elsewhere and stays.
    pub fn remove(&self, name: &str) -> Result<()> {
        let link = self.reports.join(self.find(name)?.name);
        let is_link = fs::symlink_metadata(&link).is_ok_and(|metadata| metadata.is_symlink());
        let removed = if is_link { fs::remove_file(&link) } else { fs::remove_dir_all(&link) };
        removed.map_err(|source| Error::Write { path: link, source })
    }
}

/// A name, and the same with numbers.
fn numbered(name: &str) -> impl Iterator<Item = String> {
    const MOST: usize = 100_000;
    let numbered = move |number| if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
    (1..MOST).map(numbered)
}

fn too_many(name: &str) -> Error {
    Error::NotThere(format!("there are too many reports called {name}; remove some"))
}

fn lost(folder: &Path) -> Error {
    Error::Bug(format!("there is no report in {} after it was written", folder.display()))
}

#[cfg(unix)]
fn link_to(folder: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(folder, link)
}

#[cfg(windows)]
fn link_to(folder: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_dir(folder, link)
}
