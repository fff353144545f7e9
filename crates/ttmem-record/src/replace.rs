//! Creates the file of a recording, without replacing anything but an earlier recording.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use ttmem_model::{Error, Result, frame};

/// Creates the file. An earlier recording is replaced; any other file is an error.
pub(super) fn create(path: &Path) -> Result<File> {
    clear(path)?;
    File::create_new(path).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Removes an earlier recording, if there is one; anything else is an error.
pub(super) fn clear(path: &Path) -> Result<()> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let mut head = [0; 16];
    match File::open(path).and_then(|mut file| Ok((file.metadata()?.is_file(), file.read(&mut head)?))) {
        Ok((true, read)) if read == 0 || frame::is_ttmem(&head[..read]) => {
            // Removed rather than emptied: whoever still writes or reads the earlier one is not disturbed.
            fs::remove_file(path).map_err(failed)
        }
        Ok(_) => {
            let what = "there is something else than a recording: choose another name";
            Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, what)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
