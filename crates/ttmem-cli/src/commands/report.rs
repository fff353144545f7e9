//! `ttmem report`: the report folder, and the page in it.

use std::path::{Path, PathBuf};

use clap::Args;
use ttmem::report::files::{name_in, page_of};
use ttmem::store::{self, Store, plain_name, write_report};
use ttmem::{Error, Result, read};

use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem report model.log                   into ~/.ttmem/reports/model
  ttmem report model.log -o out            into the folder out
  ttmem report model.log --open            and show the page in a browser

It prints where the page is: one file that needs no network, to be opened here or sent to somebody.";

/// `ttmem report`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Report {
    /// Logs, profiles and report folders; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<String>,

    /// The folder to write into, instead of the stored reports.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// The name of the report, instead of the file's.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Show the page in a browser.
    #[arg(long)]
    pub open: bool,

    /// The format, instead of looking at the content.
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
}

/// Reads each file, writes its report and says where its page is.
pub(crate) fn run(args: &Report) -> Result<()> {
    if args.name.is_some() && args.files.len() > 1 {
        return Err(Error::NotThere("--name names one report: give one file".into()));
    }
    for file in &args.files {
        let page = report(file, args)?;
        console::write(None, false, |out| writeln!(out, "{}", page.display()))?;
        if args.open {
            show(&page);
        }
    }
    Ok(())
}

/// Shows a page in a browser. Where there is none (over SSH, as a rule) the report is still written.
fn show(page: &Path) {
    if open::that_detached(page).is_err() {
        console::say(&format!(
            "no browser could be started here; copy {} to a machine that has one: it is all in that file",
            page.display()
        ));
    }
}

/// Writes a report; returns where its page is.
fn report(file: &str, args: &Report) -> Result<PathBuf> {
    let source = source_of(file)?;
    let mut profile = reading::open(&source, args.format.as_deref())?;
    let name = args.name.clone().unwrap_or_else(|| name_of(&source));
    // A report folder is made anew where it is.
    let here = Path::new(file).is_dir().then(|| PathBuf::from(file));
    let page = match args.output.clone().or(here) {
        Some(folder) => {
            write_report(&mut profile, &folder, &name)?;
            folder.join(page_of(&plain_name(&name)))
        }
        None => {
            let stored = Store::from_env()?.save(&mut profile, &source, Some(&name))?;
            stored.folder.join(page_of(&stored.name))
        }
    };
    for warning in &profile.warnings {
        console::warning(file, warning.line, &warning.message);
    }
    Ok(page)
}

/// The file to read: a folder stands for the report in it.
fn source_of(file: &str) -> Result<String> {
    let path = Path::new(file);
    if path.is_dir() { Ok(read::report_in(path)?.display().to_string()) } else { Ok(file.to_owned()) }
}

/// What the report of a file is called. The files of a report keep their names.
fn name_of(source: &str) -> String {
    let file = Path::new(source).file_name().and_then(|name| name.to_str());
    file.and_then(name_in).map_or_else(|| store::name_of(source), str::to_owned)
}
