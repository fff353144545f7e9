//! How files get into a report folder: all of them or none.
//!
//! 1. They are written into a hidden folder inside of the report folder. Whoever is killed here leaves the old
//!    report as it was; what is left over is swept away later.
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

use crate::error::{Error, Result};
use crate::model::Profile;
use crate::read;
use crate::report::files;

const STAGED: &str = ".ttmem-staged-";
const COMMIT: &str = ".ttmem-commit";
/// Nobody writes a report for so long.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// Writes the report of a profile into a folder, which need not be there; returns the files.
///
/// The profile takes its texts along first. The files' names begin with the name, as far as it is a plain one.
/// Files of an earlier report of that name are replaced, but for those that the profile was read from.
pub fn write_report(profile: &mut Profile, folder: &Path, name: &str) -> Result<Vec<PathBuf>> {
    write_with(profile, folder, &super::plain_name(name), |_| Ok(()))
}

/// As [`write_report`], with something more for the folder.
pub(super) fn write_with(
    profile: &mut Profile,
    folder: &Path,
    name: &str,
    more: impl FnOnce(&Path) -> Result<()>,
) -> Result<Vec<PathBuf>> {
    read::embed_texts(profile);
    let has_evidence = read::is_evidence(profile, &folder.join(files::memory_of(name)));
    let is_evidence = |path: &Path| has_evidence && is_named(path, |file| files::is_of_rank(name, file));
    let written = replace_files(folder, |staged| {
        files::write(profile, name, staged)?;
        remove_all(&entries(staged)?, is_evidence)?;
        more(staged)
    })?;
    // What an earlier report had and this one has not: another rank, a page.
    let is_old = |path: &Path| is_named(path, |file| files::is_derived(name, file)) && !is_evidence(path);
    remove_all(&entries(folder)?, |path| is_old(path) && !written.iter().any(|file| file == path))?;
    Ok(written)
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
    let failed = |source| Error::Write { path: folder.to_owned(), source };
    let was_there = folder.is_dir();
    fs::create_dir_all(folder).map_err(failed)?;
    finish(folder)?;
    sweep(folder);
    let staged = staging(folder).map_err(failed)?;
    let filled = fill(&staged).and_then(|()| entries(&staged)).and_then(|files| {
        commit(folder, &staged).map_err(failed)?;
        Ok(files)
    });
    let files = filled.inspect_err(|_| {
        let _ = fs::remove_dir_all(&staged);
        if !was_there {
            // Only where it is empty: it may have become somebody else's meanwhile.
            let _ = fs::remove_dir(folder);
        }
    })?;
    finish(folder)?;
    Ok(files.iter().filter_map(|file| Some(folder.join(file.file_name()?))).collect())
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
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|source| Error::Write { path: commit, source }),
    }
}

/// Removes what writers left that were killed.
fn sweep(folder: &Path) {
    let is_abandoned = |path: &PathBuf| {
        let is_staged = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(STAGED));
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
        is_staged && modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED))
    };
    for path in entries(folder).unwrap_or_default().iter().filter(|path| is_abandoned(path)) {
        let _ = fs::remove_dir_all(path);
    }
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
