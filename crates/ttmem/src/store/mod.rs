//! Stored reports: where they lie, what they are called, and which source each was made from.
//!
//! ```text
//! TTMEM_HOME/reports/<name>/     (TTMEM_HOME is ~/.ttmem by default)
//!   <name>.ttmem, <name>_memory.json …    see `report::files`
//!   source.json                           the source: path, size, hash of its head and tail
//! ```
//!
//! Here live the rule for names (`name`), the memory of sources (`source`), and the way files get into a
//! folder so that a report is whole or absent (`write`). What stands in the files is the business of
//! [`report`](crate::report).

mod name;
mod source;
mod write;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use name::{clean_name, name_of};
pub use source::SourceId;
pub use write::{replace_files, write_report};

use crate::error::{Error, Result};
use crate::model::Profile;
use crate::report::files;

/// The stored reports of a user.
#[derive(Clone, Debug)]
pub struct Store {
    reports: PathBuf,
}

/// A stored report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The whole profile; `None` in folders of the seeds' tool.
    pub profile: Option<PathBuf>,
    /// What it was made from, where that is remembered.
    pub source: Option<SourceId>,
    /// When it was last written.
    pub modified: Option<SystemTime>,
}

impl Store {
    /// The reports under `TTMEM_HOME`, or else under `~/.ttmem`.
    pub fn from_env() -> Result<Self> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let home = set("TTMEM_HOME").map(PathBuf::from);
        let home = home.or_else(|| {
            set("HOME").or_else(|| set("USERPROFILE")).map(|home| Path::new(&home).join(".ttmem"))
        });
        home.map(Self::at).ok_or_else(|| {
            Error::NotThere(
                "there is no home directory to keep reports in: set TTMEM_HOME, or name a folder".into(),
            )
        })
    }

    /// The reports under another home.
    pub fn at(home: impl AsRef<Path>) -> Self {
        Self { reports: home.as_ref().join("reports") }
    }

    /// Where the reports lie.
    pub fn folder(&self) -> &Path {
        &self.reports
    }

    /// Stores the report of a profile that was read from `file` (`-`: standard input).
    ///
    /// It replaces the report of the same source. Where another source has a report of that name, the name gets
    /// a number. Without a name, the file's is taken.
    pub fn save(&self, profile: &mut Profile, file: &str, name: Option<&str>) -> Result<Stored> {
        let source = SourceId::of(file);
        let wanted = name.map_or_else(|| name_of(file), clean_name);
        let name = self.free_name(&wanted, source.as_ref())?;
        let folder = self.reports.join(&name);
        write::write_with(profile, &folder, &name, |staged| match &source {
            Some(source) => source.write(staged),
            None => Ok(()),
        })?;
        Stored::read(name, folder)
            .ok_or_else(|| Error::Bug("a report is not there after it was written".into()))
    }

    /// `vae`, `vae-2`, `vae-3` …: the first that nobody has, or that this source has already.
    fn free_name(&self, wanted: &str, source: Option<&SourceId>) -> Result<String> {
        const MOST: usize = 100_000;
        for number in 1..MOST {
            let name = if number == 1 { wanted.to_owned() } else { format!("{wanted}-{number}") };
            let folder = self.reports.join(&name);
            // Not `exists`: a link that leads nowhere has the name, too.
            let is_free = fs::symlink_metadata(&folder).is_err();
            if is_free
                || write::is_empty(&folder)
                || source.is_some() && SourceId::read(&folder).as_ref() == source
            {
                return Ok(name);
            }
        }
        Err(Error::NotThere(format!("there are too many reports called {wanted}; remove some")))
    }

    /// All reports, the newest first. A folder that holds none is none.
    pub fn list(&self) -> Result<Vec<Stored>> {
        let failed = |source| Error::Read { path: self.reports.clone(), source };
        let entries = match fs::read_dir(&self.reports) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut reports = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().into_string();
            reports.extend(name.ok().and_then(|name| Stored::read(name, entry.path())));
        }
        reports.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.name.cmp(&b.name)));
        Ok(reports)
    }

    /// The report of that name.
    pub fn find(&self, name: &str) -> Result<Stored> {
        // Looked up in the list, not joined to a path: a name cannot lead out of the folder.
        let reports = self.list()?;
        let known: Vec<&str> = reports.iter().map(|report| report.name.as_str()).take(10).collect();
        let message = match known.len() {
            0 => format!("there is no report {name:?}: none is stored yet"),
            _ => format!("there is no report {name:?}: there are {}", known.join(", ")),
        };
        reports.into_iter().find(|report| report.name == name).ok_or(Error::NotThere(message))
    }

    /// Removes the report of that name with all that lies in its folder.
    pub fn remove(&self, name: &str) -> Result<()> {
        let folder = self.find(name)?.folder;
        let is_link = fs::symlink_metadata(&folder).is_ok_and(|metadata| metadata.is_symlink());
        // What a link leads to is not ours.
        let removed = if is_link { fs::remove_file(&folder) } else { fs::remove_dir_all(&folder) };
        removed.map_err(|source| Error::Write { path: folder, source })
    }
}

impl Stored {
    /// The report in a folder, if there is one.
    fn read(name: String, folder: PathBuf) -> Option<Self> {
        if name.starts_with('.') {
            return None;
        }
        // What cannot be finished now (a folder that is not ours to write) is finished later.
        let _ = write::finish(&folder);
        let mut names: Vec<String> = fs::read_dir(&folder)
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|file| files::is_profile(file) || files::is_memory_file(file))
            .collect();
        names.sort_unstable();
        let own = format!("{name}.ttmem");
        let profile = names
            .iter()
            .find(|file| **file == own)
            .or_else(|| names.iter().find(|file| files::is_profile(file)));
        let first = profile.or(names.first())?;
        let modified = fs::metadata(folder.join(first)).and_then(|metadata| metadata.modified()).ok();
        let profile = profile.map(|file| folder.join(file));
        Some(Self { source: SourceId::read(&folder), profile, modified, name, folder })
    }
}
