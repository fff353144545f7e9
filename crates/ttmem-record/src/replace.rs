//! Creates the file of a recording, and only ever replaces an existing recording.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use ttmem_model::{Error, Result, frame};

/// Creates the file. An existing recording is replaced; any other existing file is an error.
pub(super) fn create(path: &Path) -> Result<File> {
    clear(path)?;
    File::create_new(path).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Removes an existing recording; any other existing file is an error.
pub(super) fn clear(path: &Path) -> Result<()> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let mut head = [0; 16];
    match File::open(path).and_then(|mut file| Ok((file.metadata()?.is_file(), file.read(&mut head)?))) {
        Ok((true, read)) if read == 0 || frame::is_ttmem(&head[..read]) => {
            // Removed rather than truncated, so that processes that still use the old file are not disturbed.
            fs::remove_file(path).map_err(failed)
        }
        Ok(_) => {
            let what = "the file exists and is not a recording; choose another name";
            Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, what)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
