//! A stored report as a list shows it.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use ttmem_query::{About, AboutPeak, ShownPeak};
use ttmem_read::Among;

use super::{SourceId, write};
use crate::files;

/// A stored report. As JSON it is a row of `ttmem list --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Stored {
    /// Its name.
    pub name: String,
    /// How it came about.
    pub kind: Kind,
    /// Its folder.
    #[serde(serialize_with = "as_text")]
    pub folder: PathBuf,
    /// When it was last written.
    #[cfg_attr(feature = "typescript", ts(as = "Option<String>"))]
    pub written: Option<Timestamp>,
    /// The format of the evidence; not known of folders that the seeds' tool wrote, as all that follows.
    pub format: Option<String>,
    /// How many ranks there are.
    pub ranks: Option<usize>,
    /// The operations, without deallocate and get_device.
    pub operations: Option<u64>,
    /// The peak that matters most.
    pub peak: Option<AboutPeak>,
    /// That peak as a list shows it.
    pub shown: Option<ShownPeak>,
    /// Why memory ran out, where it did.
    pub oom: Option<String>,
    /// The same as a sentence.
    pub oom_headline: Option<String>,
    /// What its files take.
    pub bytes: u64,
    /// What it was made from, where that is remembered.
    pub source: Option<SourceId>,
    /// How the names of its files begin.
    #[serde(skip)]
    stem: String,
}

/// How a report came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "StoredKind"))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It was made from a file.
    Report,
    /// It lies in the folder of a run.
    Run,
}

impl Stored {
    /// The report in a folder, whatever it is called.
    pub fn in_folder(folder: &Path) -> Option<Self> {
        let name = fs::canonicalize(folder).ok()?.file_name()?.to_str()?.to_owned();
        Self::read(&name, folder)
    }

    /// The report in a folder of that name, if there is one.
    pub(super) fn read(name: &str, folder: &Path) -> Option<Self> {
        if name.starts_with('.') {
            return None;
        }
        let is_link = fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_symlink());
        let folder = if is_link { fs::canonicalize(folder).ok()? } else { folder.to_owned() };
        // What cannot be finished now (a folder that is not ours to write) is finished later.
        let _ = write::finish(&folder);
        let entries: Vec<(String, fs::Metadata)> = fs::read_dir(&folder)
            .ok()?
            .filter_map(|entry| {
                let entry = entry.ok()?;
                Some((entry.file_name().into_string().ok()?, entry.metadata().ok()?))
            })
            .filter(|(_, metadata)| metadata.is_file())
            .collect();
        let (stem, main) = main_file(&folder, &entries)?;
        let about: Option<About> =
            fs::read(folder.join(files::about_of(&stem))).ok().and_then(|text| About::parse(&text));
        let (format, ranks, operations, peak, oom, oom_headline) = match about {
            Some(about) => (
                Some(about.format),
                Some(about.ranks),
                Some(about.operations),
                about.peak,
                about.oom,
                about.oom_headline,
            ),
            None => (None, None, None, None, None, None),
        };
        Some(Self {
            name: name.to_owned(),
            kind: if is_link { Kind::Run } else { Kind::Report },
            written: main.modified().ok().and_then(|at| Timestamp::try_from(at).ok()),
            bytes: entries.iter().map(|(_, metadata)| metadata.len()).sum(),
            source: SourceId::read(&folder),
            format,
            ranks,
            operations,
            shown: peak.as_ref().and_then(AboutPeak::shown),
            peak,
            oom,
            oom_headline,
            folder,
            stem,
        })
    }

    /// The whole profile; folders of the seeds' tool have none.
    pub fn profile(&self) -> Option<PathBuf> {
        self.file(&files::profile_of(&self.stem))
    }

    /// The page.
    pub fn page(&self) -> Option<PathBuf> {
        self.file(&files::page_of(&self.stem))
    }

    /// The summary as Markdown.
    pub fn markdown(&self) -> Option<PathBuf> {
        self.file(&files::markdown_of(&self.stem))
    }

    /// The summary as JSON.
    pub fn summary(&self) -> Option<PathBuf> {
        self.file(&files::summary_of(&self.stem))
    }

    /// The memory file, which the seeds' tool writes too.
    pub fn memory(&self) -> Option<PathBuf> {
        self.file(&files::memory_of(&self.stem))
    }

    /// How the names of its files begin.
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// A file of its own: a link may lead to anything.
    fn file(&self, name: &str) -> Option<PathBuf> {
        let is_own = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
        Some(self.folder.join(name)).filter(is_own)
    }
}

/// The file that makes a folder a report, and how its name begins: the one that is read for the folder. Of several
/// that nobody can choose from, a list shows the first.
fn main_file<'a>(folder: &Path, entries: &'a [(String, fs::Metadata)]) -> Option<(String, &'a fs::Metadata)> {
    let folder = fs::canonicalize(folder).ok()?;
    let name = folder.file_name()?.to_string_lossy();
    let files: Vec<&str> = entries.iter().map(|(file, _)| file.as_str()).collect();
    let found = match ttmem_read::report_among(&name, &files) {
        Among::None => return None,
        Among::One(found) => found,
        Among::Several(found) => *found.first()?,
    };
    let (_, metadata) = entries.iter().find(|(file, _)| file == found.file)?;
    Some((found.stem.to_owned(), metadata))
}

fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
