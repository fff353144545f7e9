//! Errors, with messages that say what to do.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The result of fallible functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error type of all crates. The message says what failed, why, and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A folder that does not contain a report.
    #[error("{}: folder without a report (NAME.ttmem, NAME_memory.json or db.sqlite); pass a file", path.display())]
    Directory {
        /// The folder.
        path: PathBuf,
    },
    /// The file is empty.
    #[error("{file}: empty file; capture the output again")]
    Empty {
        /// The file.
        file: String,
    },
    /// The format is unknown.
    #[error("{file}: unknown format ({what}); `ttmem formats` lists the supported formats")]
    UnknownFormat {
        /// The file.
        file: String,
        /// A description of the contents.
        what: String,
    },
    /// There is no format with that name.
    #[error("unknown format {name:?}; `ttmem formats` lists the supported formats")]
    NoSuchFormat {
        /// The name.
        name: String,
    },
    /// The format is known, but the file contains no memory data.
    #[error("{file}: {message}")]
    NoMemoryData {
        /// The file.
        file: String,
        /// What is missing and how to get it.
        message: String,
    },
    /// The file is truncated or corrupt so early that nothing could be read.
    #[error("{file}: {message}")]
    Corrupt {
        /// The file.
        file: String,
        /// What is wrong.
        message: String,
    },
    /// Lines of several ranks are mixed without tags.
    #[error("{file}, line {line}: {message}")]
    MixedRanks {
        /// The file.
        file: String,
        /// The line of the problem.
        line: u64,
        /// What is wrong, and what to do.
        message: String,
    },
    /// A configuration cannot be read.
    #[error("{}, line {line}: {message}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The line of the problem.
        line: usize,
        /// What is wrong, and what to do.
        message: String,
    },
    /// Invalid arguments.
    #[error("{0}")]
    Usage(String),
    /// A requested item does not exist.
    #[error("{0}")]
    NotFound(String),
    /// A file already exists, and ttmem did not write it.
    #[error("{}: already exists, and ttmem did not write it; use --force to replace it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file is an input, which no output replaces.
    #[error("{}: not overwritten, because it is {what}; choose another output file", path.display())]
    Evidence {
        /// The file.
        path: PathBuf,
        /// A description of the file, such as its format.
        what: String,
    },
    /// A bug in ttmem.
    #[error("this is a bug in ttmem: {0}")]
    Bug(String),
}

impl Error {
    /// The documented exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoMemoryData { .. } => 4,
            Self::Bug(_) => 70,
            _ => 2,
        }
    }
}
