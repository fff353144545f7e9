//! The second process: it reads logs and answers questions, so that what takes memory is given back with it, and so
//! that a log which breaks the reader breaks no server.
//!
//! The server starts its own program again. The task goes to the standard input of the worker as a line of JSON; what
//! it has to say comes from its standard output, a line of JSON each. The input stays open: when it ends, the server is
//! gone, and so is the worker. It works in a folder of its own (`space::Room`), where the upload lies, and where a
//! summary is written to.

mod child;
mod parent;

use std::path::PathBuf;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

pub use child::work;
pub use parent::Worker;

use crate::refusal;

/// What a worker has to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    /// Reads a file of its folder and stores the report under this home.
    Report { home: PathBuf, file: String },
    /// Makes the report that a folder lacks, from the memory file that an earlier tool wrote into it.
    Rebuild { memory: PathBuf, stem: String },
    /// Answers a question on a profile, or on what an earlier tool wrote, into [`SUMMARY`].
    Summarize { evidence: PathBuf, question: Question },
}

/// The file that a summary is written to.
pub(crate) const SUMMARY: &str = "summary.json";

/// What is asked of a profile: the options of `ttmem summary`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) top: Option<usize>,
    pub(crate) at: Option<u32>,
    /// `all`, `last` or a number from 1.
    pub(crate) run: String,
    pub(crate) rank: Option<String>,
}

/// What a worker has to say.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// So many bytes of the file are read.
    Reading(u64),
    /// The report is being written.
    Writing,
    /// It is done; a report has this name.
    Done(Option<String>),
    /// It came to nothing.
    Failed(Failure),
}

/// Why a task came to nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// What the command exits with after the same.
    pub(crate) exit_code: u8,
    pub(crate) message: String,
}

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailureKind {
    /// The format is known, but there is no memory data in it.
    NoMemoryData,
    /// What was asked for is not in the profile.
    NotThere,
    /// It cannot be read, or no reader knows it, or it cannot be written.
    Unreadable,
    /// The disk is full.
    Full,
    /// A bug of ours.
    Bug,
    /// The worker was ended: by the system, or because the server stops.
    Ended,
}

impl FailureKind {
    /// What is answered to a question that ends so.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::NotThere => StatusCode::NOT_FOUND,
            Self::Full => StatusCode::INSUFFICIENT_STORAGE,
            Self::NoMemoryData | Self::Unreadable | Self::Bug | Self::Ended => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }
}

impl From<ttmem::Error> for Failure {
    fn from(error: ttmem::Error) -> Self {
        let kind = match &error {
            ttmem::Error::NoMemoryData { .. } => FailureKind::NoMemoryData,
            ttmem::Error::NotThere(_) => FailureKind::NotThere,
            ttmem::Error::Bug(_) => FailureKind::Bug,
            ttmem::Error::Write { source, .. } if refusal::is_full(source) => FailureKind::Full,
            _ => FailureKind::Unreadable,
        };
        Self { kind, exit_code: error.exit_code(), message: error.to_string() }
    }
}
