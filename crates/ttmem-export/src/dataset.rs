//! The files of a dataset: how an export becomes visible as a whole, and how it replaces earlier ones.
//!
//! An export of a run writes one file per table, `TABLE/run=RUN/EXPORT.parquet`. The file in `runs` is renamed into its
//! place last, so a row of another table counts only if `runs` has its `rank_id`. While an export is running, it holds a
//! lock on a claim, `runs/run=RUN/.EXPORT.claim`. The kernel releases the lock if the process is killed. Files without a
//! file in `runs` and without a lock are then removed by the next export of the run.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use parquet::file::reader::{FileReader, SerializedFileReader};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ttmem::{Error, Result};

use crate::cells::Column;
use crate::table::{Table, write_error};

/// The version of the tables.
pub(crate) const SCHEMA: i64 = 1;
/// The table that decides which exports count.
pub(crate) const RUNS: &str = "runs";
/// All tables; `runs` is last.
pub(crate) const TABLES: [&str; 12] = [
    "labels",
    "pools",
    "classes",
    "curves",
    "tensors",
    "stacks",
    "operations",
    "phases",
    "faults",
    "findings",
    "warnings",
    RUNS,
];
/// The key of the metadata with the sources of an export, one per line.
const SOURCES: &str = "ttmem.sources";
/// The length of a folder's name. File systems allow 255 bytes.
const MAX_FOLDER: usize = 200;
/// The characters that the name of a folder keeps.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// An export of a run that is being written.
pub(crate) struct Export<'a> {
    dataset: &'a Path,
    folder: String,
    id: String,
    sources: String,
    /// Locked until the export is complete.
    claim: Option<File>,
    tables: Vec<(&'static str, Table)>,
    rows: usize,
}

impl<'a> Export<'a> {
    /// Starts an export of sources, which are given by their ids.
    pub(crate) fn start(dataset: &'a Path, run: &str, sources: &[String]) -> Result<Self> {
        let folder = folder_of(run);
        let runs = dataset.join(RUNS).join(&folder);
        fs::create_dir_all(&runs).map_err(write_error(&runs))?;
        let (id, claim) = loop {
            let id = next_id(&runs)?;
            if let Some(claim) = claimed(&claim_path(&runs, &id))? {
                break (id, claim);
            }
        };
        Ok(Self {
            dataset,
            folder,
            id,
            sources: sources.join("\n"),
            claim: Some(claim),
            tables: Vec::new(),
            rows: 0,
        })
    }

    /// The id of the export. Later exports of the run have greater ids.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The number of rows in all tables.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row to a table.
    pub(crate) fn push(&mut self, table: &'static str, row: Vec<Column>) -> Result<()> {
        let position = self.tables.iter().position(|(name, _)| *name == table);
        let position = match position {
            Some(position) => position,
            None => {
                let folder = self.dataset.join(table).join(&self.folder);
                fs::create_dir_all(&folder).map_err(write_error(&folder))?;
                let path = folder.join(format!(".{}.tmp", self.id));
                let schema = SCHEMA.to_string();
                let metadata =
                    [("ttmem.schema", schema.as_str()), ("ttmem.export", &self.id), (SOURCES, &self.sources)];
                self.tables.push((table, Table::create(path, &row, &metadata)?));
                self.tables.len() - 1
            }
        };
        self.rows += 1;
        self.tables[position].1.push(row)
    }

    /// Makes the export visible, and removes what it replaces.
    pub(crate) fn commit(mut self) -> Result<()> {
        let tables = std::mem::take(&mut self.tables);
        let mut written = tables
            .into_iter()
            .map(|(name, table)| Ok((name, table.finish()?)))
            .collect::<Result<Vec<(&str, PathBuf)>>>()?;
        // The export counts from the moment when this table is there.
        written.sort_by_key(|(name, _)| *name == RUNS);
        for (table, temporary) in written {
            let folder = self.dataset.join(table).join(&self.folder);
            let path = folder.join(format!("{}.parquet", self.id));
            fs::rename(&temporary, &path).map_err(write_error(&path))?;
            sync(&folder).map_err(write_error(&folder))?;
        }
        self.release();
        // The export is complete. What cannot be removed now is ignored by readers and removed by the next export.
        let _ = remove_replaced(self.dataset, &self.folder);
        Ok(())
    }

    fn release(&mut self) {
        if self.claim.take().is_some() {
            let _ = fs::remove_file(claim_path(&self.dataset.join(RUNS).join(&self.folder), &self.id));
        }
    }
}

impl Drop for Export<'_> {
    /// Removes the files of an export that failed.
    fn drop(&mut self) {
        if self.claim.is_some() {
            remove_files(self.dataset, &self.folder, &self.id);
            self.release();
        }
    }
}

/// The name of a run's folder. That of a long name ends with a hash.
fn folder_of(run: &str) -> String {
    let mut folder = format!("run={}", utf8_percent_encode(run, PLAIN));
    if folder.len() > MAX_FOLDER {
        folder.truncate(MAX_FOLDER);
        // An encoded byte has three characters.
        if let Some(cut) = folder.rfind('%').filter(|at| at + 3 > MAX_FOLDER) {
            folder.truncate(cut);
        }
        let _ = write!(folder, "-{:016x}", xxhash_rust::xxh3::xxh3_64(run.as_bytes()));
    }
    folder
}

/// An id greater than those of all exports of the run, so that the order of exports does not depend on clocks.
fn next_id(runs: &Path) -> Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let latest = exports(runs).map_err(read_error(runs))?.into_iter().next_back();
    let latest = latest.and_then(|id| id.get(..20)?.parse::<u128>().ok()).unwrap_or(0);
    let random = xxhash_rust::xxh3::xxh3_64(format!("{} {now} {}", host(), std::process::id()).as_bytes());
    Ok(format!("{:020}-{:08x}", now.max(latest + 1), random >> 32))
}

/// Whether a text has the form of an id. Files of other programs have other names.
fn is_id(text: &str) -> bool {
    let parts = text.split_once('-');
    parts.is_some_and(|(time, random)| {
        let is_time = time.len() == 20 && time.bytes().all(|byte| byte.is_ascii_digit());
        is_time && random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// The name of this machine.
pub(crate) fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// The ids of the exports with a file in a folder, in order.
fn exports(folder: &Path) -> io::Result<BTreeSet<String>> {
    Ok(names(folder)?.iter().filter_map(|name| name.strip_suffix(".parquet")).map(str::to_owned).collect())
}

/// The names of the files in a folder that may not exist.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().into_string().unwrap_or_default());
    entries.map(name).collect()
}

fn claim_path(runs: &Path, id: &str) -> PathBuf {
    runs.join(format!(".{id}.claim"))
}

/// Creates a claim and locks it; `None` if another process has removed it in between.
fn claimed(path: &Path) -> Result<Option<File>> {
    let claim = match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        claim => claim.map_err(write_error(path))?,
    };
    match claim.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        // Without locks on this file system, files of killed exports stay.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    let own = claim.metadata().map_err(write_error(path))?.ino();
    Ok(fs::metadata(path).is_ok_and(|there| there.ino() == own).then_some(claim))
}

/// Removes exports of a run whose sources have all been exported again, and what killed exports left.
fn remove_replaced(dataset: &Path, folder: &str) -> io::Result<()> {
    let runs = dataset.join(RUNS).join(folder);
    let mut newer: BTreeSet<String> = BTreeSet::new();
    for id in exports(&runs)?.into_iter().rev() {
        let Some(sources) = sources(&runs.join(format!("{id}.parquet"))) else { continue };
        let is_replaced = sources.iter().all(|source| newer.contains(source));
        if is_replaced {
            remove_files(dataset, folder, &id);
        }
        newer.extend(sources);
    }
    let mut abandoned: BTreeSet<String> = BTreeSet::new();
    for table in TABLES {
        for name in names(&dataset.join(table).join(folder))? {
            let id = name.strip_suffix(".parquet");
            let hidden = || name.strip_prefix('.')?.rsplit_once('.').map(|(id, _)| id);
            abandoned.extend(id.or_else(hidden).filter(|id| is_id(id)).map(str::to_owned));
        }
    }
    for id in abandoned {
        let claim = claim_path(&runs, &id);
        let Claim::Free(lock) = Claim::of(&claim) else { continue };
        if !runs.join(format!("{id}.parquet")).exists() {
            remove_files(dataset, folder, &id);
            let _ = fs::remove_file(claim);
        }
        drop(lock);
    }
    Ok(())
}

/// The state of an export's claim.
enum Claim {
    /// The process that made it is running, or may be, if the file system has no locks.
    Taken,
    /// That process ended. While this lock is held, no process takes the claim that it has just created.
    Free(Option<File>),
}

impl Claim {
    fn of(path: &Path) -> Self {
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Free(None),
            Err(_) => Self::Taken,
            // Shared, so that several processes may remove the files of an export.
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => Self::Free(Some(file)),
                Err(_) => Self::Taken,
            },
        }
    }
}

/// The sources of an export; `None` if it was removed, or if another program wrote it.
fn sources(path: &Path) -> Option<BTreeSet<String>> {
    let reader = SerializedFileReader::new(File::open(path).ok()?).ok()?;
    let metadata = reader.metadata().file_metadata().key_value_metadata()?;
    let sources = metadata.iter().find(|pair| pair.key == SOURCES)?.value.as_ref()?;
    Some(sources.lines().map(str::to_owned).collect())
}

/// Removes the files of an export: first the file in `runs`, so that the others no longer count.
fn remove_files(dataset: &Path, folder: &str, id: &str) {
    for table in TABLES.iter().rev() {
        let folder = dataset.join(table).join(folder);
        for name in [format!("{id}.parquet"), format!(".{id}.tmp")] {
            let _ = fs::remove_file(folder.join(name));
        }
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn read_error(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    |source| Error::Read { path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_of_a_run_has_a_short_folder() {
        assert_eq!(folder_of("a/b 1"), "run=a%2Fb%201");
        for name in ["x".repeat(300), "é".repeat(300), format!("x{}", "é".repeat(300))] {
            let folder = folder_of(&name);
            assert!(folder.len() < 255, "{folder}");
            let (start, hash) = folder.rsplit_once('-').unwrap();
            assert_eq!(hash.len(), 16);
            let decoded = percent_encoding::percent_decode_str(start.trim_start_matches("run="));
            assert!(name.starts_with(decoded.decode_utf8_lossy().trim_end_matches('\u{fffd}')), "{folder}");
            assert_ne!(folder, folder_of(&format!("{name}y")));
        }
    }

    #[test]
    fn a_claim_cannot_be_taken_while_another_process_removes_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = claim_path(folder.path(), "1");
        assert!(matches!(Claim::of(&path), Claim::Free(None)));
        // An export that has created its claim, and is about to lock it.
        let created = File::create_new(&path).unwrap();
        let Claim::Free(lock) = Claim::of(&path) else { panic!("taken") };
        assert!(created.try_lock().is_err());
        fs::remove_file(&path).unwrap();
        drop(lock);
        let claim = claimed(&path).unwrap();
        assert!(claim.is_some());
        assert!(matches!(Claim::of(&path), Claim::Taken));
    }
}
