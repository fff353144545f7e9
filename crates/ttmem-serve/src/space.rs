//! Temporary storage for uploads: `TTMEM_HOME/uploads` has a folder per server with a room per upload.
//!
//! A room is deleted with its owner: the request that is aborted, or the job that is done. Leftovers of a killed
//! server, including its workers' partial files, are removed by the next server. A folder counts as a leftover only if
//! its name has a server's pattern and its lock is not held. The lock file appears only once its server holds it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ttmem::store::Store;

use crate::random;

const LOCK: &str = ".lock";
/// A lock file that is not locked yet.
const NEW_LOCK: &str = ".lock-new";
/// In a room: the process id of its worker.
const WORKER: &str = ".worker";
/// The prefix of folders in the system's temporary folder.
const ELSEWHERE: &str = "ttmem-serve-";

/// A server's folder, while the server runs.
pub(crate) struct Space {
    folder: PathBuf,
    _lock: Option<File>,
}

impl Space {
    /// Creates a folder in the store's home, or in the temporary folder if the home belongs to another user. In that
    /// case reports can be read, but not stored.
    pub(crate) fn of(store: &Store) -> io::Result<Self> {
        let uploads = store.folder().with_file_name("uploads");
        let made = fs::create_dir_all(store.folder().parent().unwrap_or(&uploads));
        made.and_then(|()| create_private(&uploads))
            .and_then(|()| Self::among(&uploads, "", store))
            .or_else(|_| Self::among(&std::env::temp_dir(), ELSEWHERE, store))
    }

    /// Creates a folder among `others`, and removes those of dead servers.
    fn among(others: &Path, begin: &str, store: &Store) -> io::Result<Self> {
        let folder = others.join(format!("{begin}{}", random::secret()?));
        create_private(&folder)?;
        // Without locks in the file system, folders are never removed.
        let lock = hold_lock(&folder).ok();
        sweep(others, begin, &folder, store);
        Ok(Self { folder, _lock: lock })
    }

    /// A new room for a file with this name.
    pub(crate) fn room(&self, file: &str) -> io::Result<Room> {
        let folder = self.folder.join(random::secret()?);
        create_private(&folder)?;
        Ok(Room { folder, file: file.to_owned() })
    }

    /// A file that only the owner can read.
    pub(crate) fn private_file(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Deletes the folder with its content.
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

    /// Records the worker's process id, for the cleanup after a killed server. If the disk is too full for that, the
    /// worker cannot leave partial files either.
    pub(crate) fn note_worker(&self, process: u32) {
        let _ = fs::write(self.folder.join(WORKER), process.to_string());
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Creates a folder that only its owner can read: logs may contain private data.
fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(_) if folder.is_dir() => Ok(()),
        created => created,
    }
}

fn hold_lock(folder: &Path) -> io::Result<File> {
    let new = folder.join(NEW_LOCK);
    let file = File::create_new(&new)?;
    file.try_lock()?;
    fs::rename(&new, folder.join(LOCK))?;
    Ok(file)
}

/// Removes the folders of dead servers and their workers' partial files.
fn sweep(others: &Path, begin: &str, own: &Path, store: &Store) {
    for entry in fs::read_dir(others).into_iter().flatten().flatten() {
        let folder = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_servers = name.strip_prefix(begin).is_some_and(random::is_secret) && is_of_same(own, &folder);
        if is_servers && is_left(&folder) {
            sweep_after_workers(&folder, store);
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

/// Whether a path is a folder, not a link, with the same owner as `own`.
fn is_of_same(own: &Path, folder: &Path) -> bool {
    let (Ok(own), Ok(other)) = (fs::symlink_metadata(own), fs::symlink_metadata(folder)) else {
        return false;
    };
    #[cfg(unix)]
    let is_ours = std::os::unix::fs::MetadataExt::uid(&own) == std::os::unix::fs::MetadataExt::uid(&other);
    #[cfg(not(unix))]
    let is_ours = own.is_dir();
    other.is_dir() && is_ours
}

/// Whether the lock exists and is not held. If this cannot be determined, the folder may be in use.
fn is_left(folder: &Path) -> bool {
    match OpenOptions::new().write(true).open(folder.join(LOCK)).map(|file| file.try_lock()) {
        Ok(Ok(())) => true,
        Ok(Err(TryLockError::WouldBlock | TryLockError::Error(_))) | Err(_) => false,
    }
}

fn sweep_after_workers(folder: &Path, store: &Store) {
    for room in fs::read_dir(folder).into_iter().flatten().flatten() {
        let process = fs::read_to_string(room.path().join(WORKER)).ok().and_then(|text| text.parse().ok());
        if let Some(process) = process.filter(|process| has_ended(*process)) {
            store.sweep_after(process);
        }
    }
}

/// Whether a worker whose server is gone has ended. It ends at once; a process that still has its id after a moment is
/// a different one.
fn has_ended(process: u32) -> bool {
    const MOMENT: Duration = Duration::from_millis(20);
    const MOMENTS: usize = 50;
    (0..MOMENTS).any(|_| {
        let ended = !runs(process);
        if !ended {
            thread::sleep(MOMENT);
        }
        ended
    })
}

/// Whether a process runs. A zombie keeps its id but has no working directory.
fn runs(process: u32) -> bool {
    let works_in = fs::read_link(format!("/proc/{process}/cwd"));
    !works_in.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder as a killed server leaves it.
    fn left(place: &Path, name: &str) -> PathBuf {
        let room = place.join(name).join("room");
        fs::create_dir_all(&room).unwrap();
        fs::write(room.join("half.log"), "half").unwrap();
        fs::write(place.join(name).join(LOCK), "").unwrap();
        place.join(name)
    }

    #[test]
    fn what_killed_servers_leave_is_swept_and_what_others_use_is_not() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::at(home.path());
        let dead = left(&home.path().join("uploads"), &random::secret().unwrap());
        let first = Space::of(&store).unwrap();
        assert!(!dead.exists());
        let room = first.room("a.log").unwrap();
        fs::write(room.file(), "a").unwrap();
        let second = Space::of(&store).unwrap();
        assert!(room.file().exists(), "the first server still runs");
        drop(first);
        assert!(!room.folder().exists());
        drop(second);
        assert_eq!(fs::read_dir(home.path().join("uploads")).unwrap().count(), 0);
    }

    #[test]
    fn what_no_server_made_stays() {
        let home = tempfile::tempdir().unwrap();
        let uploads = home.path().join("uploads");
        let secret = random::secret().unwrap();
        let without_lock = left(&uploads, &random::secret().unwrap());
        fs::remove_file(without_lock.join(LOCK)).unwrap();
        let mut kept = vec![without_lock];
        for name in
            ["my-logs", "dead", &secret[1..], &secret.replace(|_: char| true, "G"), &format!("{secret}0")]
        {
            kept.push(left(&uploads, name));
        }
        #[cfg(unix)]
        {
            let elsewhere = left(home.path(), "elsewhere");
            std::os::unix::fs::symlink(&elsewhere, uploads.join(random::secret().unwrap())).unwrap();
            kept.push(elsewhere);
        }
        drop(Space::of(&Store::at(home.path())).unwrap());
        for folder in kept {
            assert!(folder.join("room/half.log").exists(), "{}", folder.display());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_worker_of_a_killed_server_was_writing_is_swept_and_what_others_write_is_not() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::at(home.path());
        // An id that no process has, a zombie's id, and the id of this running process.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let (gone, ended, other) = (u32::MAX - 1, child.id(), std::process::id());
        while runs(ended) {
            thread::sleep(Duration::from_millis(1));
        }
        let staged = |process: u32| store.folder().join(format!("x-{process}/.ttmem-staged-{process}-0"));
        for process in [gone, ended, other] {
            fs::create_dir_all(staged(process)).unwrap();
            fs::write(staged(process).join("x.ttmem"), "half").unwrap();
            let dead = left(&home.path().join("uploads"), &random::secret().unwrap());
            fs::write(dead.join("room").join(WORKER), process.to_string()).unwrap();
        }
        drop(Space::of(&store).unwrap());
        for process in [gone, ended] {
            assert!(!store.folder().join(format!("x-{process}")).exists());
        }
        child.wait().unwrap();
        assert!(staged(other).join("x.ttmem").exists(), "the id belongs to another process");
        assert_eq!(fs::read_dir(home.path().join("uploads")).unwrap().count(), 0);
    }

    #[test]
    fn among_the_temporary_files_only_folders_of_servers_are_swept() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::at(place.path());
        let dead = left(place.path(), &format!("{ELSEWHERE}{}", random::secret().unwrap()));
        let others =
            [random::secret().unwrap(), format!("{ELSEWHERE}logs")].map(|name| left(place.path(), &name));
        let first = Space::among(place.path(), ELSEWHERE, &store).unwrap();
        let second = Space::among(place.path(), ELSEWHERE, &store).unwrap();
        assert!(!dead.exists() && others.iter().all(|folder| folder.exists()));
        assert!(first.folder.exists() && second.folder.exists());
    }

    #[test]
    fn a_room_goes_with_its_holder() {
        let home = tempfile::tempdir().unwrap();
        let space = Space::of(&Store::at(home.path())).unwrap();
        let room = space.room("a.log").unwrap();
        fs::write(room.file(), "a").unwrap();
        let folder = room.folder().to_owned();
        assert!(folder.starts_with(home.path()));
        drop(room);
        assert!(!folder.exists());
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_can_look_into_it_and_the_home_is_a_folder_as_any() {
        use std::os::unix::fs::PermissionsExt;

        let place = tempfile::tempdir().unwrap();
        let mode = |folder: &Path| fs::metadata(folder).unwrap().permissions().mode() & 0o777;
        let usual = place.path().join("usual");
        fs::create_dir(&usual).unwrap();
        let home = place.path().join("new/home");
        let space = Space::of(&Store::at(&home)).unwrap();
        let room = space.room("a.log").unwrap();
        for folder in [&home.join("uploads"), &space.folder, room.folder()] {
            assert_eq!(mode(folder) & 0o77, 0, "{}", folder.display());
        }
        assert_eq!(mode(&home), mode(&usual));
    }
}
