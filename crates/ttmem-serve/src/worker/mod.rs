//! The worker process: reads logs and computes summaries, so that their memory is freed with the process, and a crash
//! in a reader does not stop the server.
//!
//! The server starts its own program again. The task goes to the worker's standard input as a line of JSON; its
//! messages come back on standard output, one line of JSON each. The input stays open: when it closes, the server has
//! ended, and the worker exits. The worker runs in its own folder (`space::Room`), which contains the upload and
//! receives the summary.

mod child;
mod parent;

use std::path::PathBuf;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

pub use child::work;
pub use parent::Worker;

use crate::refusal;

/// A worker's task.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    /// Reads a file in its folder and stores the report in this home.
    Report { home: PathBuf, file: String },
    /// Creates the missing report of a folder from a memory file of tt-memory-profiler 0.x.
    Rebuild { memory: PathBuf, stem: String },
    /// Writes the summary of a profile, or of a memory file of tt-memory-profiler 0.x, to [`SUMMARY`].
    Summarize { evidence: PathBuf, question: Question },
}

/// The file with the summary.
pub(crate) const SUMMARY: &str = "summary.json";

/// The options of `ttmem summary`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) top: Option<usize>,
    pub(crate) at: Option<u32>,
    /// `all`, `last` or a run number, starting at 1.
    pub(crate) run: String,
    pub(crate) rank: Option<String>,
}

/// A worker's message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// The number of bytes read so far.
    Reading(u64),
    /// The report is being written.
    Writing,
    /// The task is done; for a report, with its name.
    Done(Option<String>),
    /// The task failed.
    Failed(Failure),
}

/// Why a task failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// The exit code of the command for the same failure.
    pub(crate) exit_code: u8,
    pub(crate) message: String,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailureKind {
    /// The format is known, but the file contains no memory data.
    NoMemoryData,
    /// The profile does not have the requested rank, run or step.
    #[serde(rename = "not_there")]
    NotFound,
    /// The file cannot be read, its format is unknown, or the report cannot be written.
    Unreadable,
    /// The disk is full.
    Full,
    /// A bug in ttmem.
    Bug,
    /// The worker was killed, by the system or because the server stops.
    Ended,
}

impl FailureKind {
    /// The HTTP status of this failure.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
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
            ttmem::Error::NotFound(_) => FailureKind::NotFound,
            ttmem::Error::Bug(_) => FailureKind::Bug,
            ttmem::Error::Write { source, .. } if refusal::is_full(source) => FailureKind::Full,
            _ => FailureKind::Unreadable,
        };
        Self { kind, exit_code: error.exit_code(), message: error.to_string() }
    }
}
