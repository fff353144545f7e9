//! How files get into a report folder: all of them or none.
//!
//! 1. They are written into a hidden folder inside of the report folder. Whoever is killed here leaves the old
//!    report as it was; what is left over is removed by the next who writes there or lists the reports.
//! 2. The hidden folder gets the name of a commit. That is one step: from here on the new report counts.
//! 3. Its files are moved to their places. Whoever is killed here has the rest moved by the next who looks.
//!
//! Other files in the folder (raw logs) are never touched. (Nothing here calls `fsync`: against a machine that
//! dies this is no help.)

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ttmem_model::{Error, Profile, Result};
use ttmem_query::{Request, summary};

use super::lock::Lock;
use crate::files;

const STAGED: &str = ".ttmem-staged-";
const COMMIT: &str = ".ttmem-commit";
/// Nobody writes a report for so long.
const ABANDONED: Duration = Duration::from_secs(60 * 60);
/// Folders are shared between machines, and processes are not: who is not known here may still be at work.
const SHARED: Duration = Duration::from_secs(10 * 60);

/// Writes the report of a profile into a folder, which need not be there; returns the files.
///
/// The profile takes its texts along first. The files' names begin with the name, as far as it is a plain one. `read_from`
/// is the file that the profile was read from, where it is known. Files of an earlier report of that name are replaced.
/// Evidence is not: what the profile was read from stays as it is, and any other log, recording or profile that has the
/// name of one of the files is an error.
pub fn write_report(
    profile: &mut Profile,
    read_from: Option<&Path>,
    folder: &Path,
    name: &str,
) -> Result<Vec<PathBuf>> {
    write_with(profile, read_from, folder, &super::plain_name(name), |_| Ok(()))
}

/// As [`write_report`], with something more for the folder.
pub(super) fn write_with(
    profile: &mut Profile,
    read_from: Option<&Path>,
    folder: &Path,
    name: &str,
    more: impl FnOnce(&Path) -> Result<()>,
) -> Result<Vec<PathBuf>> {
    ttmem_read::embed_texts(profile);
    let place = Place::take(folder)?;
    let kept = kept_evidence(profile, read_from, folder, name).inspect_err(|_| place.give_up())?;
    let before = files::listed_in(folder, name).unwrap_or_default();
    let is_among = |path: &Path, files: &[String]| is_named(path, |file| files.iter().any(|one| one == file));
    let written = place.replace_files(|staged| {
        let answer = summary(std::slice::from_ref(profile), &Request::default())?;
        files::write(profile, &answer, name, staged, &kept)?;
        remove_all(&entries(staged)?, |path| is_among(path, &kept))?;
        more(staged)
    })?;
    // What an earlier report had and this one has not: another rank.
    let is_source = ttmem_read::is_evidence(profile, &folder.join(files::memory_of(name)));
    let is_kept = |path: &Path| {
        let is_evidence = is_source && is_named(path, |file| files::is_of_rank(name, file));
        is_evidence || is_among(path, &kept) || written.iter().any(|file| file == path)
    };
    remove_all(&entries(folder)?, |path| is_among(path, &before) && !is_kept(path))?;
    Ok(written)
}

/// The evidence in a folder that a report would replace with files derived from it. Evidence of something else is an error.
fn kept_evidence(
    profile: &Profile,
    read_from: Option<&Path>,
    folder: &Path,
    name: &str,
) -> Result<Vec<String>> {
    let is_source = ttmem_read::is_evidence(profile, &folder.join(files::memory_of(name)));
    let ours = files::listed_in(folder, name);
    let mut kept = Vec::new();
    for file in files::names(profile, name) {
        let path = folder.join(&file);
        if is_source && files::is_of_rank(name, &file) {
            kept.push(file);
            continue;
        }
        // Reports have said which files are theirs from some time on; before, all of them were.
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

/// Fills a folder with files, replacing those of the same names: all of them or none.
///
/// `fill` writes them into a folder that it is given. Returns where they are.
pub fn replace_files(folder: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<Vec<PathBuf>> {
    Place::take(folder)?.replace_files(fill)
}

/// A folder that nobody else writes to.
struct Place<'a> {
    folder: &'a Path,
    was_there: bool,
    _lock: Lock,
}

impl<'a> Place<'a> {
    /// Waits for others, and finishes what they have begun.
    fn take(folder: &'a Path) -> Result<Self> {
        let was_there = folder.is_dir();
        fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.to_owned(), source })?;
        let lock = Lock::of_folder(folder);
        finish(folder)?;
        sweep_with(&lock, folder);
        Ok(Self { folder, was_there, _lock: lock })
    }

    /// Removes the folder, if it is new and empty: it may have become somebody else's meanwhile.
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
        // Somebody else has committed just now; theirs comes first.
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
            // Somebody else is finishing it, too.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved.map_err(|source| Error::Write { path: target, source })?,
        }
    }
    match fs::remove_dir(&commit) {
        // Somebody else has removed it, or has put the next commit in its place, which is for them to finish.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
            Ok(())
        }
        removed => removed.map_err(|source| Error::Write { path: commit, source }),
    }
}

/// Removes what writers left that were killed; says whether there was anything. A folder that somebody writes into right
/// now stays as it is.
pub(super) fn sweep(folder: &Path) -> bool {
    let has_staged =
        entries(folder).is_ok_and(|entries| entries.iter().any(|path| writer_of(path).is_some()));
    has_staged && Lock::try_of_folder(folder).is_some_and(|lock| sweep_with(&lock, folder))
}

/// As [`sweep`], for the holder of the folder's lock. Writers hold it for as long as they need what they have staged, so
/// with the lock held everything staged is left over. Only where the file system has no locks does age decide.
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

/// Whether a staged folder is so old that nobody works on it.
fn is_abandoned(staged: &Path, writer: u32) -> bool {
    let age = fs::metadata(staged).and_then(|metadata| metadata.modified()).map(|at| at.elapsed());
    let age = age.ok().and_then(std::result::Result::ok).unwrap_or_default();
    age > ABANDONED || age > SHARED && is_gone(writer)
}

/// The number of the process that writes a report here.
fn writer_of(staged: &Path) -> Option<u32> {
    let rest = staged.file_name()?.to_str()?.strip_prefix(STAGED)?;
    rest.split('-').next()?.parse().ok()
}

/// Whether a process is known to be gone.
fn is_gone(process: u32) -> bool {
    let known = Path::new("/proc/self").exists();
    known && !Path::new("/proc").join(process.to_string()).exists()
}

/// Removes what a process left in a folder that was killed, and the folder if nothing else is in it.
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

/// Whether a folder has nothing in it but what writers left that were killed.
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
