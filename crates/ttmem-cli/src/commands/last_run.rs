//! `ttmem last-run`: the last pass of a log, warm-up removed.

use std::path::PathBuf;

use clap::Args;
use ttmem::{Error, Result};

/// `ttmem last-run`
#[derive(Debug, Args)]
pub(crate) struct LastRun {
    /// The log.
    #[arg(value_name = "LOG")]
    pub log: String,

    /// Write to a file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// A pass ends at a line with this text.
    #[arg(long, value_name = "TEXT")]
    pub marker: Option<String>,

    /// Replace the log itself.
    #[arg(long, conflicts_with = "output")]
    pub in_place: bool,

    /// Replace the file if it is there.
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// Cuts the last pass out.
pub(crate) fn run(_args: &LastRun) -> Result<()> {
    Err(Error::Bug("not there yet".into()))
}
