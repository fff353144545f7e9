//! One writer at a time for each name and each folder, whichever process it is in.
//!
//! Without it, two logs of one name that are stored at the same moment would both find the name free, and the second
//! would replace the report of the first; and two that write into one folder would commit at once.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// Beside the reports; its name keeps it off the list.
const FOLDER: &str = ".locks";

/// Holds a name for as long as it lives. The system lets go of it for whoever is killed.
pub(super) struct Lock {
    file: Option<File>,
}

impl Lock {
    /// Waits until nobody else has that name. A file system without locks has none to wait for.
    pub(super) fn on(reports: &Path, name: &str) -> Self {
        Self { file: locked(reports, name).ok() }
    }

    /// Waits until nobody else writes into a folder. Nothing is left in it: the folder itself is what is locked.
    pub(super) fn of_folder(folder: &Path) -> Self {
        let lock = |folder: File| folder.lock().map(|()| folder);
        Self { file: File::open(folder).and_then(lock).ok() }
    }

    /// Whether it keeps others out. A file system without locks has none to hold.
    pub(super) fn is_held(&self) -> bool {
        self.file.is_some()
    }

    /// The lock of a folder, without waiting; `None` while somebody writes into it.
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
    // Never removed: who waits for a file that is gone would not see who has the next one.
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join(name))?;
    file.lock()?;
    Ok(file)
}
