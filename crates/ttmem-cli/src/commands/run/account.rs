//! The account of a run, for the process that started it: the path of the log, how the command ended, and why there is
//! no report. Exit codes and folders are ambiguous: ttmem's own failures also have exit codes, and several runs may be
//! active in one folder.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The environment variable with the path of the account. It is only for `ttmem run` and not passed to the command.
pub(crate) const ACCOUNT: &str = "TTMEM_RUN_ACCOUNT";

/// The account of a run so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// The log, which exists from the start.
    pub log: PathBuf,
    /// How the command ended, in words; `None` while it runs.
    pub ended: Option<String>,
    /// Whether there is a report in the log's folder.
    pub is_reported: bool,
    /// Why there is no report.
    pub problem: Option<String>,
}

impl Account {
    /// The account of a run that is starting.
    pub fn of(log: PathBuf) -> Self {
        Self { log, ended: None, is_reported: false, problem: None }
    }

    /// Writes the account if the environment names a file for it.
    pub fn write(&self) {
        if let Some((file, text)) = env::var_os(ACCOUNT).zip(serde_json::to_vec(self).ok()) {
            // A failure to write the account must not fail the run.
            let _ = fs::write(file, text);
        }
    }

    /// Reads an account; `None` if the command was never started.
    pub fn read(file: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }
}
