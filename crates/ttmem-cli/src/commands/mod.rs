//! The commands, one file each.

mod formats;
mod report;
mod summary;

use ttmem::Result;

use crate::args::{Args, Command};

/// Does what the arguments say; the exit code is 0 unless part of it failed.
pub(crate) fn run(args: &Args) -> Result<u8> {
    match &args.command {
        Command::Summary(args) => summary::run(args),
        Command::Report(args) => report::run(args).map(|()| 0),
        Command::Formats => formats::run().map(|()| 0),
    }
}
