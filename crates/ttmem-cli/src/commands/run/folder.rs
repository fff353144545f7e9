//! The folder of a run: `logs/<name>_YYYYMMDD_HHMMSS/`, always a new one, so that earlier runs are never changed.

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
    /// The parent folders that were created for it, innermost first.
    above: Vec<PathBuf>,
}

impl RunFolder {
    /// Creates the folder of a run that starts now, and its log.
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

    /// Removes what was created, for a command that was never started. Files of other processes are kept.
    pub fn undo(self) {
        let _ = fs::remove_file(self.log());
        for folder in [&self.path].into_iter().chain(&self.above) {
            // This fails for a folder that is not empty, which is then kept.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Creates a new folder with this name, or with a number appended if it already exists.
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
