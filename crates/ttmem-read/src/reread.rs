//! Inputs that are read twice.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use ttmem_model::{Error, Result};

use super::input::{Progress, Unpacked, content, counted};

/// A file, or a copy of a pipe's content.
#[derive(Debug)]
pub(super) struct Reread {
    name: String,
    file: File,
    /// The length for both passes: a log may grow while it is read.
    length: u64,
    progress: Option<Arc<Progress>>,
}

impl Reread {
    /// Opens a file (`-` is standard input). A pipe is copied to a temporary file first.
    pub fn open(name: &str, progress: Option<Arc<Progress>>) -> Result<Self> {
        let failed = |source| Error::Read { path: name.into(), source };
        let file = if name == "-" {
            copy_of(io::stdin().lock(), name)?
        } else {
            let path = Path::new(name);
            let file = File::open(path).map_err(failed)?;
            let metadata = file.metadata().map_err(failed)?;
            if metadata.is_dir() {
                return Err(Error::Directory { path: path.into() });
            }
            if metadata.is_file() { file } else { copy_of(file, name)? }
        };
        let length = file.metadata().map_err(failed)?.len();
        if let Some(progress) = &progress {
            progress.expect(length.saturating_mul(2));
        }
        Ok(Self { name: name.to_owned(), file, length, progress })
    }

    /// The content, from its beginning. The stream of an earlier call must have been read to its end.
    pub fn content(&mut self) -> Result<Unpacked> {
        let failed = |source| Error::Read { path: self.name.clone().into(), source };
        let mut file = self.file.try_clone().map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        content(&self.name, counted(file.take(self.length), self.progress.as_ref()))
    }
}

/// Copies a stream to an unnamed temporary file, which is deleted when it is closed.
fn copy_of(mut stream: impl Read, name: &str) -> Result<File> {
    let mut copy =
        tempfile::tempfile().map_err(|source| Error::Write { path: std::env::temp_dir(), source })?;
    io::copy(&mut stream, &mut copy).map_err(|source| Error::Read { path: name.into(), source })?;
    Ok(copy)
}
