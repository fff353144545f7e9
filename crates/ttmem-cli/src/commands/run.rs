//! `ttmem run`: runs a script or command with the right environment, captures its output, then reports.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use ttmem::{Error, Result};

/// `ttmem run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Stop after capturing the log.
    #[arg(long)]
    pub log_only: bool,

    /// Where the folder of the run goes, instead of `./logs`.
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,

    /// The name of the run, instead of the script's.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// A script (`.py` runs under `python -u`) or a command, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Runs the command; the exit code is its own.
pub(crate) fn run(_args: &Run) -> Result<u8> {
    Err(Error::Bug("not there yet".into()))
}
