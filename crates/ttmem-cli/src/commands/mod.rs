//! The commands, one file each.

mod formats;
mod report;
mod summary;

use ttmem::Result;

use crate::args::{Args, Command};

/// Does what the arguments say.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Summary(args) => summary::run(args),
        Command::Report(args) => report::run(args),
        Command::Formats => formats::run(),
    }
}
