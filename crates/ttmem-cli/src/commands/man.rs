//! `ttmem man`: manual pages, generated from the help texts.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, Command, CommandFactory};
use ttmem::{Error, Result};

use crate::{args, console};

const EXAMPLES: &str = "\
Examples:
  ttmem man ~/.local/share/man/man1        install for `man ttmem`, `man ttmem-summary`, …
  ttmem man | man -l -                     view the page of `ttmem`";

/// `ttmem man`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// Folder to write a page per command to; without it, the page of `ttmem` is printed.
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// Prints one page, or writes all pages.
pub(crate) fn run(args: &Man) -> Result<()> {
    let mut command = args::Args::command();
    command.build();
    let Some(folder) = &args.folder else {
        let page = page(command).map_err(|source| Error::Write { path: "ttmem.1".into(), source })?;
        return console::print(|out| out.write_all(page.as_bytes()));
    };
    fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.clone(), source })?;
    write_pages(command, folder)?;
    console::note(&format!("wrote the manual pages to {}", folder.display()));
    Ok(())
}

/// Writes the page of a command and of each of its subcommands.
fn write_pages(command: Command, folder: &Path) -> Result<()> {
    let subcommands = command.get_subcommands().filter(|command| !command.is_hide_set());
    for subcommand in subcommands {
        write_pages(subcommand.clone(), folder)?;
    }
    let path = folder.join(clap_mangen::Man::new(command.clone()).get_filename());
    page(command)
        .and_then(|page| fs::write(&path, page))
        .map_err(|source| Error::Write { path: path.clone(), source })
}

/// Renders a page. `clap_mangen` puts the examples into a section `EXTRA` and fills them like prose; this undoes both.
fn page(command: Command) -> io::Result<String> {
    let mut rendered = Vec::new();
    clap_mangen::Man::new(command).render(&mut rendered)?;
    let rendered = String::from_utf8_lossy(&rendered);
    let Some((before, after)) = rendered.split_once(".SH EXTRA\n") else {
        return Ok(rendered.into_owned());
    };
    let (extra, sections) = match after.find("\n.SH ") {
        Some(end) => after.split_at(end + 1),
        None => (after, ""),
    };
    let (name, text) = match extra.strip_prefix("Examples:\n") {
        Some(examples) => ("EXAMPLES", examples),
        None => ("NOTES", extra),
    };
    Ok(format!("{before}.SH {name}\n.nf\n{}\n.fi\n{sections}", text.trim_end()))
}
