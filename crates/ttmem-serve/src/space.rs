//! Where uploads lie until they are stored: `TTMEM_HOME/uploads`, a folder for each server, a room in it for each upload.
//!
//! A room goes with whoever holds it: with the request that breaks off, with the job that is done. What a server leaves
//! that was killed is swept away by the next one. It knows the folders of servers that still run by their locks.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::random;

const LOCK: &str = ".lock";

/// The folder of a server, as long as it runs.
pub(crate) struct Space {
    folder: PathBuf,
    _lock: Option<File>,
}

impl Space {
    /// Takes a folder under this home; or, where that belongs to somebody else, among the temporary files: then
    /// reports can be looked at, but not stored.
    pub(crate) fn under(home: &Path) -> io::Result<Self> {
        let id = random::secret()?;
        Self::among(&home.join("uploads"), &id).or_else(|_| {
            let folder = std::env::temp_dir().join(format!("ttmem-serve-{id}"));
            create_private(&folder)?;
            Ok(Self { folder, _lock: None })
        })
    }

    fn among(uploads: &Path, id: &str) -> io::Result<Self> {
        create_private(uploads)?;
        // Nobody sweeps while a folder has no lock yet.
        let _all = locked(uploads);
        sweep(uploads);
        let folder = uploads.join(id);
        create_private(&folder)?;
        let lock = locked(&folder);
        Ok(Self { folder, _lock: lock.ok() })
    }

    /// A new room for a file of that name.
    pub(crate) fn room(&self, file: &str) -> io::Result<Room> {
        let folder = self.folder.join(random::secret()?);
        create_private(&folder)?;
        Ok(Room { folder, file: file.to_owned() })
    }

    /// A file of the server's own, that nobody else can read.
    pub(crate) fn private_file(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Gives the folder back with all that is in it.
    pub(crate) fn clear(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A folder with one file.
pub(crate) struct Room {
    folder: PathBuf,
    file: String,
}

impl Room {
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join(&self.file)
    }

    pub(crate) fn file_name(&self) -> &str {
        &self.file
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Makes a folder that only its owner can look into: logs may tell more than their owner wants others to know.
fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn lock_file(folder: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(folder.join(LOCK))
}

fn locked(folder: &Path) -> io::Result<File> {
    let file = lock_file(folder)?;
    file.lock()?;
    Ok(file)
}

/// Removes the folders of servers that are gone.
fn sweep(uploads: &Path) {
    for entry in fs::read_dir(uploads).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_left(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether nobody holds a folder's lock. Where that cannot be known, somebody may.
fn is_left(folder: &Path) -> bool {
    match lock_file(folder).map(|file| file.try_lock()) {
        Ok(Ok(())) => true,
        Ok(Err(TryLockError::WouldBlock | TryLockError::Error(_))) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_servers_leave_is_swept_and_what_others_use_is_not() {
        let home = tempfile::tempdir().unwrap();
        let left = home.path().join("uploads/dead/room");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("half.log"), "half").unwrap();
        let first = Space::under(home.path()).unwrap();
        assert!(!left.exists());
        let room = first.room("a.log").unwrap();
        fs::write(room.file(), "a").unwrap();
        let second = Space::under(home.path()).unwrap();
        assert!(room.file().exists(), "the first still runs");
        drop(first);
        assert!(!room.folder().exists());
        drop(second);
        let names: Vec<_> = fs::read_dir(home.path().join("uploads")).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "the lock alone: {names:?}");
    }

    #[test]
    fn a_room_goes_with_its_holder() {
        let home = tempfile::tempdir().unwrap();
        let space = Space::under(home.path()).unwrap();
        let room = space.room("a.log").unwrap();
        fs::write(room.file(), "a").unwrap();
        let folder = room.folder().to_owned();
        assert!(folder.starts_with(home.path()));
        drop(room);
        assert!(!folder.exists());
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_look_into_it() {
        use std::os::unix::fs::PermissionsExt;

        let home = tempfile::tempdir().unwrap();
        let space = Space::under(home.path()).unwrap();
        let room = space.room("a.log").unwrap();
        for folder in [&home.path().join("uploads"), &space.folder, room.folder()] {
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o77, 0, "{}", folder.display());
        }
    }
}
