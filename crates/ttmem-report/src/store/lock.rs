//! Locks: one writer at a time per name and per folder, across processes.
//!
//! Without them, two logs with the same name that are stored at the same time would both find the name free, and the
//! second would replace the report of the first; and two writers to one folder could commit at the same time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// Next to the reports; the leading dot keeps it off the list.
const FOLDER: &str = ".locks";

/// Holds a lock until dropped. The system releases it if the process is killed.
pub(super) struct Lock {
    file: Option<File>,
}

impl Lock {
    /// Waits for the lock on a name. Does nothing on a file system without locks.
    pub(super) fn on(reports: &Path, name: &str) -> Self {
        Self { file: locked(reports, name).ok() }
    }

    /// Waits for the lock on a folder. The folder itself is locked, so no lock file is left in it.
    pub(super) fn of_folder(folder: &Path) -> Self {
        let lock = |folder: File| folder.lock().map(|()| folder);
        Self { file: File::open(folder).and_then(lock).ok() }
    }

    /// Whether the lock is held; false on a file system without locks.
    pub(super) fn is_held(&self) -> bool {
        self.file.is_some()
    }

    /// Tries to lock a folder; `None` while another writer holds the lock.
    pub(super) fn try_of_folder(folder: &Path) -> Option<Self> {
        let Ok(folder) = File::open(folder) else { return Some(Self { file: None }) };
        match folder.try_lock() {
            Ok(()) => Some(Self { file: Some(folder) }),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Error(_)) => Some(Self { file: None }),
        }
    }
}

fn locked(reports: &Path, name: &str) -> io::Result<File> {
    let folder = reports.join(FOLDER);
    fs::create_dir_all(&folder)?;
    // Never removed: a process waiting for a deleted lock file would not notice the holder of the next one.
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join(name))?;
    file.lock()?;
    Ok(file)
}
