//! The account of a run, for the process that started it: where the log is, how the command ended, and why there is
//! no report. Exit codes and folders cannot tell it: our own failures have codes, too, and several runs may be under
//! way in one place.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Names the file for the account. It is for `ttmem run` alone, and not passed on to the command.
pub(crate) const ACCOUNT: &str = "TTMEM_RUN_ACCOUNT";

/// The account of a run, as far as the run has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// The log, which is there from the beginning.
    pub log: PathBuf,
    /// How the command ended, in words, once it has.
    pub ended: Option<String>,
    /// Whether there is a report beside the log.
    pub is_reported: bool,
    /// Why there is none.
    pub trouble: Option<String>,
}

impl Account {
    /// The account of a run that begins.
    pub fn of(log: PathBuf) -> Self {
        Self { log, ended: None, is_reported: false, trouble: None }
    }

    /// Gives it, if somebody wants it.
    pub fn tell(&self) {
        if let Some((file, text)) = env::var_os(ACCOUNT).zip(serde_json::to_vec(self).ok()) {
            // The run counts, not who hears of it.
            let _ = fs::write(file, text);
        }
    }

    /// What was told; nothing, if the command was never started.
    pub fn read(file: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }
}
