//! Atomic replacement of a report's files.
//!
//! 1. The files are written into a hidden folder inside the report folder. A writer killed here leaves the old report
//!    as it was; the leftovers are removed when the folder is next written or listed.
//! 2. The hidden folder is renamed to the commit's name. This is atomic: from here on, the new report is valid.
//! 3. Its files are moved to their places. If the writer is killed here, the next access moves the rest.
//!
//! Other files in the folder (raw logs) are never touched. (Nothing here calls `fsync`, so this does not protect
//! against a system crash.)

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ttmem_model::{Error, Profile, Result};
use ttmem_query::{Request, summary};

use super::lock::Lock;
use crate::files::{self, JsonFiles};

const STAGED: &str = ".ttmem-staged-";
const COMMIT: &str = ".ttmem-commit";
/// No report takes this long to write.
const ABANDONED: Duration = Duration::from_secs(60 * 60);
/// Folders may be shared between machines, so an unknown process may still be running on another one.
const SHARED: Duration = Duration::from_secs(10 * 60);

/// Writes the report of a profile into a folder, creating it if needed. Returns the files.
///
/// Texts are embedded in the profile first. `name` is the prefix of the file names, restricted to plain characters.
/// `read_from` is the file that the profile was read from, if known. Files of an earlier report with that name are
/// replaced. Input files are not: the file that the profile was read from stays as it is, and any other log, recording
/// or profile with the name of an output file is an error.
pub fn write_report(
    profile: &mut Profile,
    read_from: Option<&Path>,
    folder: &Path,
    name: &str,
) -> Result<Vec<PathBuf>> {
    write_report_with(profile, read_from, folder, name, JsonFiles::default())
}

/// Like [`write_report`], with a choice of JSON files.
pub fn write_report_with(
    profile: &mut Profile,
    read_from: Option<&Path>,
    folder: &Path,
    name: &str,
    json: JsonFiles,
) -> Result<Vec<PathBuf>> {
    write_with(profile, read_from, (folder, &super::plain_name(name)), json, |_| Ok(()))
}

/// Like [`write_report`], with additional files.
pub(super) fn write_with(
    profile: &mut Profile,
    read_from: Option<&Path>,
    (folder, name): (&Path, &str),
    json: JsonFiles,
    more: impl FnOnce(&Path) -> Result<()>,
) -> Result<Vec<PathBuf>> {
    ttmem_read::embed_texts(profile);
    let place = Place::take(folder)?;
    let kept = kept_evidence(profile, read_from, (folder, name), json).inspect_err(|_| place.give_up())?;
    let before = files::listed_in(folder, name).unwrap_or_default();
    let is_among = |path: &Path, files: &[String]| is_named(path, |file| files.iter().any(|one| one == file));
    let written = place.replace_files(|staged| {
        let answer = summary(std::slice::from_ref(profile), &Request::default())?;
        files::write(profile, &answer, name, staged, &kept, json)?;
        remove_all(&entries(staged)?, |path| is_among(path, &kept))?;
        more(staged)
    })?;
    // Files of the previous report that the new one does not have, such as those of another rank.
    let is_source = ttmem_read::is_evidence(profile, &folder.join(files::memory_of(name)));
    let is_kept = |path: &Path| {
        let is_evidence = is_source && is_named(path, |file| files::is_of_rank(name, file));
        is_evidence || is_among(path, &kept) || written.iter().any(|file| file == path)
    };
    remove_all(&entries(folder)?, |path| is_among(path, &before) && !is_kept(path))?;
    Ok(written)
}

/// The input files in a folder that a report would otherwise replace with derived files. Other input files with such
/// names are an error.
fn kept_evidence(
    profile: &Profile,
    read_from: Option<&Path>,
    (folder, name): (&Path, &str),
    json: JsonFiles,
) -> Result<Vec<String>> {
    let is_source = ttmem_read::is_evidence(profile, &folder.join(files::memory_of(name)));
    let ours = files::listed_in(folder, name);
    let mut kept = Vec::new();
    for file in files::names(profile, name, json) {
        let path = folder.join(&file);
        if is_source && files::is_of_rank(name, &file) {
            kept.push(file);
            continue;
        }
        // Reports of earlier versions do not list their files; then all of them belong to the report.
        let is_ours = ours.as_ref().is_some_and(|ours| ours.is_empty() || ours.contains(&file));
        if is_ours || !path.is_file() {
            continue;
        }
        if read_from.is_some_and(|source| ttmem_read::is_same_file(source, &path)) {
            kept.push(file);
        } else if let Some(format) = ttmem_read::evidence_in(&path)? {
            let what = format!("a log, recording or profile (format: {format}) that is not part of a report");
            return Err(Error::Evidence { path, what });
        }
    }
    Ok(kept)
}

fn is_named(path: &Path, is_it: impl Fn(&str) -> bool) -> bool {
    path.file_name().and_then(|file| file.to_str()).is_some_and(is_it)
}

fn remove_all(files: &[PathBuf], is_one: impl Fn(&Path) -> bool) -> Result<()> {
    let remove =
        |path: &PathBuf| fs::remove_file(path).map_err(|source| Error::Write { path: path.clone(), source });
    files.iter().filter(|path| is_one(path)).try_for_each(remove)
}

/// Replaces files in a folder, all of them or none.
///
/// `fill` writes them into the folder that it receives. Returns their paths.
pub fn replace_files(folder: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<Vec<PathBuf>> {
    Place::take(folder)?.replace_files(fill)
}

/// A folder with exclusive write access.
struct Place<'a> {
    folder: &'a Path,
    was_there: bool,
    _lock: Lock,
}

impl<'a> Place<'a> {
    /// Waits for other writers, and finishes their commits.
    fn take(folder: &'a Path) -> Result<Self> {
        let was_there = folder.is_dir();
        fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.to_owned(), source })?;
        let lock = Lock::of_folder(folder);
        finish(folder)?;
        sweep_with(&lock, folder);
        Ok(Self { folder, was_there, _lock: lock })
    }

    /// Removes the folder if it is new and empty. Another writer may be using it by now.
    fn give_up(&self) {
        if !self.was_there {
            let _ = fs::remove_dir(self.folder);
        }
    }

    fn replace_files(&self, fill: impl FnOnce(&Path) -> Result<()>) -> Result<Vec<PathBuf>> {
        let failed = |source| Error::Write { path: self.folder.to_owned(), source };
        let staged = staging(self.folder).map_err(failed)?;
        let filled = fill(&staged).and_then(|()| entries(&staged)).and_then(|files| {
            commit(self.folder, &staged).map_err(failed)?;
            Ok(files)
        });
        let files = filled.inspect_err(|_| {
            let _ = fs::remove_dir_all(&staged);
            self.give_up();
        })?;
        finish(self.folder)?;
        Ok(files.iter().filter_map(|file| Some(self.folder.join(file.file_name()?))).collect())
    }
}

fn staging(folder: &Path) -> io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("{STAGED}{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir(&path)?;
    Ok(path)
}

fn commit(folder: &Path, staged: &Path) -> io::Result<()> {
    let target = folder.join(COMMIT);
    fs::rename(staged, &target).or_else(|_| {
        // Another writer has just committed; that commit comes first.
        finish(folder).map_err(io::Error::other)?;
        fs::rename(staged, &target)
    })
}

/// Moves the files of a commit to their places, if there is one.
pub(super) fn finish(folder: &Path) -> Result<()> {
    let commit = folder.join(COMMIT);
    if !commit.is_dir() {
        return Ok(());
    }
    for path in entries(&commit)? {
        let Some(name) = path.file_name() else { continue };
        let target = folder.join(name);
        match fs::rename(&path, &target) {
            // Another process is finishing the same commit.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved.map_err(|source| Error::Write { path: target, source })?,
        }
    }
    match fs::remove_dir(&commit) {
        // Another process has removed it, or put the next commit in its place and will finish that one.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
            Ok(())
        }
        removed => removed.map_err(|source| Error::Write { path: commit, source }),
    }
}

/// Removes leftovers of killed writers, unless a writer is active in the folder. Returns whether there were any.
pub(super) fn sweep(folder: &Path) -> bool {
    let has_staged =
        entries(folder).is_ok_and(|entries| entries.iter().any(|path| writer_of(path).is_some()));
    has_staged && Lock::try_of_folder(folder).is_some_and(|lock| sweep_with(&lock, folder))
}

/// Like [`sweep`], for the holder of the folder's lock. Writers hold the lock while they need their staged files, so
/// everything staged is a leftover. On a file system without locks, age decides.
fn sweep_with(lock: &Lock, folder: &Path) -> bool {
    let is_left = |path: &PathBuf| match writer_of(path) {
        Some(writer) => lock.is_held() || is_abandoned(path, writer),
        None => false,
    };
    let left: Vec<PathBuf> = entries(folder).unwrap_or_default().into_iter().filter(is_left).collect();
    for path in &left {
        let _ = fs::remove_dir_all(path);
    }
    !left.is_empty()
}

/// Whether a staged folder is so old that its writer must have ended.
fn is_abandoned(staged: &Path, writer: u32) -> bool {
    let age = fs::metadata(staged).and_then(|metadata| metadata.modified()).map(|at| at.elapsed());
    let age = age.ok().and_then(std::result::Result::ok).unwrap_or_default();
    age > ABANDONED || age > SHARED && is_gone(writer)
}

/// The process id of the writer of a staged folder.
fn writer_of(staged: &Path) -> Option<u32> {
    let rest = staged.file_name()?.to_str()?.strip_prefix(STAGED)?;
    rest.split('-').next()?.parse().ok()
}

/// Whether a process is known to have ended.
fn is_gone(process: u32) -> bool {
    let known = Path::new("/proc/self").exists();
    known && !Path::new("/proc").join(process.to_string()).exists()
}

/// Removes a killed process's leftovers in a folder, and the folder if it is empty then.
pub(super) fn sweep_after(process: u32, folder: &Path) {
    let begin = format!("{STAGED}{process}-");
    let is_its =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begin));
    let left: Vec<PathBuf> = entries(folder).unwrap_or_default().into_iter().filter(is_its).collect();
    for path in &left {
        let _ = fs::remove_dir_all(path);
    }
    if !left.is_empty() {
        let _ = fs::remove_dir(folder);
    }
}

/// Whether a folder contains only leftovers of killed writers.
pub(super) fn is_empty(folder: &Path) -> bool {
    let is_ours =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(STAGED));
    entries(folder).is_ok_and(|entries| entries.iter().all(is_ours))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |source| Error::Read { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut paths = entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort_unstable();
    Ok(paths)
}
