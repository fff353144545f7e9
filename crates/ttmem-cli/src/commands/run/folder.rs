//! The folder of a run: `logs/<name>_YYYYMMDD_HHMMSS/`, made so that nothing of an earlier run is ever touched.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Zoned;
use ttmem::{Error, Result};

/// The folder of a run.
#[derive(Debug)]
pub(super) struct RunFolder {
    path: PathBuf,
    name: String,
    /// The folders above it that were not there before, the innermost first.
    above: Vec<PathBuf>,
}

impl RunFolder {
    /// Makes the folder of a run that begins now, and its log.
    pub fn create(parent: &Path, name: &str) -> Result<(Self, File)> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Write { path, source }
        };
        let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let above = parent.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        fs::create_dir_all(parent).map_err(failed(parent))?;
        let stamp = Zoned::now().strftime("%Y%m%d_%H%M%S");
        let path = first_free(&parent.join(format!("{name}_{stamp}"))).map_err(failed(parent))?;
        let folder = Self { path, name: name.to_owned(), above };
        match OpenOptions::new().append(true).create_new(true).open(folder.log()) {
            Ok(file) => Ok((folder, file)),
            Err(error) => {
                let log = folder.log();
                folder.undo();
                Err(failed(&log)(error))
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn log(&self) -> PathBuf {
        self.path.join(format!("{}_profile.log", self.name))
    }

    /// Removes what was made, for a command that was never started. What others put there meanwhile stays.
    pub fn undo(self) {
        let _ = fs::remove_file(self.log());
        for folder in [&self.path].into_iter().chain(&self.above) {
            // Only an empty folder is removed.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Makes a folder that is not there yet: under this name, or with a number behind it.
fn first_free(wanted: &Path) -> io::Result<PathBuf> {
    for number in 1.. {
        let mut path = wanted.as_os_str().to_owned();
        if number > 1 {
            path.push(format!("-{number}"));
        }
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
