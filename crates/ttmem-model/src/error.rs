//! What can go wrong, said so that people know what to do about it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory was given that holds no report.
    #[error("{} is a directory without a report (NAME.ttmem or NAME_memory.json): name a file in it", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
    },
    /// There is nothing in the file.
    #[error("{file} is empty: nothing was captured")]
    Empty {
        /// Which file.
        file: String,
    },
    /// No reader knows the format.
    #[error("{file}: no reader knows this format ({what}); `ttmem formats` lists what can be read")]
    UnknownFormat {
        /// Which file.
        file: String,
        /// What it looks like.
        what: String,
    },
    /// There is no reader of that name.
    #[error("there is no format {name:?}; `ttmem formats` lists those that there are")]
    NoSuchFormat {
        /// The name.
        name: String,
    },
    /// The format is known, but there is no memory data in it.
    #[error("{file}: {message}")]
    NoMemoryData {
        /// Which file.
        file: String,
        /// What is missing and how to get it.
        message: String,
    },
    /// It is cut off or damaged so early that nothing could be read.
    #[error("{file}: {message}")]
    Damaged {
        /// Which file.
        file: String,
        /// What is wrong with it.
        message: String,
    },
    /// Lines of several ranks are mixed and nothing tells them apart.
    #[error("{file}, line {line}: {message}")]
    MixedRanks {
        /// Which file.
        file: String,
        /// Where it was noticed.
        line: u64,
        /// How it shows, and what to do.
        message: String,
    },
    /// A configuration cannot be read.
    #[error("{}, line {line}: {message}", path.display())]
    Config {
        /// Which file.
        path: PathBuf,
        /// Where it was noticed.
        line: usize,
        /// What is wrong, and what to do.
        message: String,
    },
    /// The arguments do not go together.
    #[error("{0}")]
    Usage(String),
    /// Something that the user asked for is not in the profile.
    #[error("{0}")]
    NotThere(String),
    /// A file is there already and may not be replaced.
    #[error("{} is there already; --force replaces it", path.display())]
    Exists {
        /// Which.
        path: PathBuf,
    },
    /// A file is evidence, which no output replaces.
    #[error("{}: not overwritten, because it is {what}; choose another output file", path.display())]
    Evidence {
        /// Which.
        path: PathBuf,
        /// What it is: an input, or evidence of some format.
        what: String,
    },
    /// A broken invariant of our own.
    #[error("this is a bug in ttmem: {0}")]
    Bug(String),
}

impl Error {
    /// The exit code that the contract promises for it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoMemoryData { .. } => 4,
            Self::Bug(_) => 70,
            _ => 2,
        }
    }
}
