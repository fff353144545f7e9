//! The identity of a stored report's source, so that the same source is recognized again.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};
use ttmem_model::{Error, Result};
use xxhash_rust::xxh3::Xxh3;

const FILE: &str = "source.json";
/// The hashed size of the head and of the tail.
const PART: u64 = 64 << 10;

/// A source. Two are equal if they are the same file with the same content, judged by size and hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct SourceId {
    /// The file, as an absolute path.
    pub path: String,
    /// The size in bytes.
    pub size: u64,
    /// The XXH3 hash (128 bits, hexadecimal) of its first and its last 64 KiB.
    pub hash: String,
}

impl SourceId {
    /// The identity of a file; `None` for standard input and unreadable files, which never match.
    pub fn of(file: &str) -> Option<Self> {
        if file == "-" {
            return None;
        }
        Self::read_file(Path::new(file)).ok()
    }

    fn read_file(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        // Before opening: opening a pipe without a writer would block.
        if !fs::metadata(&path)?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut file = File::open(&path)?;
        let size = file.metadata()?.len();
        let mut hash = Xxh3::new();
        let mut part = Vec::new();
        for from in [0, size.saturating_sub(PART)] {
            part.clear();
            file.seek(SeekFrom::Start(from))?;
            file.by_ref().take(PART).read_to_end(&mut part)?;
            hash.update(&part);
        }
        let hash = format!("{:032x}", hash.digest128());
        Ok(Self { path: path.to_string_lossy().into_owned(), size, hash })
    }

    /// The source recorded in a report's folder.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        let mut text = Vec::new();
        File::open(folder.join(FILE)).ok()?.take(PART).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Records the source in a report's folder.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let written = serde_json::to_vec_pretty(self).map_err(io::Error::from).and_then(|mut text| {
            text.push(b'\n');
            fs::write(&path, text)
        });
        written.map_err(|source| Error::Write { path, source })
    }
}
