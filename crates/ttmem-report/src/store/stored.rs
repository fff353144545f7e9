//! A stored report in a list.

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
    /// The name of the report.
    pub name: String,
    /// How the report was created.
    pub kind: Kind,
    /// The folder that contains its files.
    #[serde(serialize_with = "as_text")]
    pub folder: PathBuf,
    /// The time of the last write.
    #[cfg_attr(feature = "typescript", ts(as = "Option<String>"))]
    pub written: Option<Timestamp>,
    /// The log's format; unknown, like the fields below, for folders of tt-memory-profiler 0.x.
    pub format: Option<String>,
    /// The number of ranks.
    pub ranks: Option<usize>,
    /// The number of operations, without deallocate and get_device.
    pub operations: Option<u64>,
    /// The most important peak.
    pub peak: Option<AboutPeak>,
    /// The peak as a list shows it.
    pub shown: Option<ShownPeak>,
    /// The cause of the out-of-memory error, if there was one.
    pub oom: Option<String>,
    /// The same as a sentence.
    pub oom_headline: Option<String>,
    /// The size of its files.
    pub bytes: u64,
    /// The source, if it is recorded.
    pub source: Option<SourceId>,
    /// The common prefix of its file names.
    #[serde(skip)]
    stem: String,
}

/// How a report was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "StoredKind"))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// From a file.
    Report,
    /// By a run, in the run's folder.
    Run,
}

impl Stored {
    /// The report in a folder, with any name.
    pub fn in_folder(folder: &Path) -> Option<Self> {
        let name = fs::canonicalize(folder).ok()?.file_name()?.to_str()?.to_owned();
        Self::read(&name, folder)
    }

    /// The named report in a folder, if there is one.
    pub(super) fn read(name: &str, folder: &Path) -> Option<Self> {
        if name.starts_with('.') {
            return None;
        }
        let is_link = fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_symlink());
        let folder = if is_link { fs::canonicalize(folder).ok()? } else { folder.to_owned() };
        // A commit that cannot be finished now (in a read-only folder) is finished later.
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

    /// The whole profile; missing in folders of tt-memory-profiler 0.x.
    pub fn profile(&self) -> Option<PathBuf> {
        self.file(&files::profile_of(&self.stem))
    }

    /// The path of the page, if the report has one.
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

    /// The memory file, which tt-memory-profiler 0.x also writes.
    pub fn memory(&self) -> Option<PathBuf> {
        self.file(&files::memory_of(&self.stem))
    }

    /// The common prefix of its file names.
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// A regular file of the report. Links are ignored because they may point anywhere.
    fn file(&self, name: &str) -> Option<PathBuf> {
        let is_own = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
        Some(self.folder.join(name)).filter(is_own)
    }
}

/// The file that identifies a folder as a report, and its prefix. If there are several candidates, a list shows the
/// first.
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
