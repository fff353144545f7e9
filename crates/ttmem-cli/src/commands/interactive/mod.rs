//! `ttmem` alone: on a terminal it asks what to look at.

use std::io::IsTerminal;

use clap::CommandFactory;
use ttmem::{Error, Result};

use crate::args::Args;
use crate::console;

/// Asks; off a terminal, prints help and exits with 2.
pub(crate) fn run() -> Result<u8> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        console::say(&Args::command().render_help().ansi().to_string());
        return Ok(2);
    }
    Err(Error::Bug("not there yet".into()))
}
