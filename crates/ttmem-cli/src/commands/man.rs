//! `ttmem man`: the manual pages, made from the same words as the help.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use ttmem::{Error, Result};

use crate::{args, console};

const EXAMPLES: &str = "\
Examples:
  ttmem man ~/.local/share/man/man1        then `man ttmem`, `man ttmem-summary` …
  ttmem man | man -l -                     to look at the first page";

/// `ttmem man`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// Write a page for every command into this folder; without it, print the page of `ttmem`.
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// Prints or writes them.
pub(crate) fn run(args: &Man) -> Result<()> {
    let command = args::Args::command();
    let Some(folder) = &args.folder else {
        return console::print(|out| clap_mangen::Man::new(command).render(out));
    };
    let failed = |source| Error::Write { path: folder.clone(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command, folder).map_err(failed)?;
    console::note(&format!("manual pages are in {}", folder.display()));
    Ok(())
}
