//! `ttmem report`: the report folder, and the page in it.

use std::path::{Path, PathBuf};

use clap::Args;
use ttmem::report::files::page_of;
use ttmem::store::{Store, clean_name, name_of, plain_name, write_report};
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

/// Where a report is written.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Where such a report belongs: a folder's in that folder, a file's among the stored ones.
    Usual,
    /// Into a folder.
    In(PathBuf),
    /// Into the folder of a run, whose files have its name.
    OfRun(PathBuf, String),
}

/// Reads each file, writes its report and says where its page is.
pub(crate) fn run(args: &Report) -> Result<()> {
    if args.name.is_some() && args.files.len() > 1 {
        return Err(Error::Usage("--name names one report: give one file".into()));
    }
    if args.output.as_deref() == Some(Path::new("-")) {
        return Err(Error::Usage("a report is a folder of files: name one, not `-`".into()));
    }
    let target = args.output.clone().map_or(Target::Usual, Target::In);
    let names = names_in(&args.files);
    for (file, own) in args.files.iter().zip(&names) {
        // Into one folder go reports of different names; the store sees to that itself.
        let name = args.name.as_deref().or_else(|| own.as_deref().filter(|_| args.output.is_some()));
        let page = report_on(file, args.format.as_deref(), name, &target)?;
        if args.open {
            show_page(&page);
        }
    }
    Ok(())
}

/// Names for the reports of files that have the same one: `x`, `x-2` …; `None` for those that have their own.
fn names_in(files: &[String]) -> Vec<Option<String>> {
    let mut used: Vec<String> = Vec::new();
    let mut number = |file: &String| {
        let own = name_of(file);
        let taken = used.iter().filter(|name| **name == own).count();
        used.push(own.clone());
        (taken > 0).then(|| format!("{own}-{}", taken + 1))
    };
    files.iter().map(&mut number).collect()
}

/// Shows a page in a browser. Where there is none (over SSH, as a rule) the report is still written.
pub(crate) fn show_page(page: &Path) {
    if open::that_detached(page).is_err() {
        console::say(&format!(
            "no browser could be started here; copy {} to a machine that has one: it is all in that file",
            page.display()
        ));
    }
}

/// Writes a report and prints where its page is.
pub(crate) fn report_on(
    file: &str,
    format: Option<&str>,
    name: Option<&str>,
    target: &Target,
) -> Result<PathBuf> {
    let source = source_of(file)?;
    let mut profile = reading::open(&source, format)?;
    let page = match target {
        Target::Usual if Path::new(file).is_dir() => {
            let name = name.map_or_else(|| stem_of(&source), plain_name);
            write_report(&mut profile, Some(Path::new(&source)), Path::new(file), &name)?;
            Path::new(file).join(page_of(&name))
        }
        Target::Usual => {
            let stored = Store::from_env()?.save(&mut profile, &source, name)?;
            stored.folder.join(page_of(stored.stem()))
        }
        Target::In(folder) => {
            let name = name.map_or_else(|| name_of(&source), clean_name);
            write_report(&mut profile, Some(Path::new(&source)), folder, &name)?;
            folder.join(page_of(&name))
        }
        Target::OfRun(folder, name) => {
            write_report(&mut profile, Some(Path::new(&source)), folder, name)?;
            register(folder);
            folder.join(page_of(name))
        }
    };
    for warning in &profile.warnings {
        console::warning(file, warning.line, &warning.message);
    }
    console::detail(|| {
        let folder = page.parent().unwrap_or(Path::new("")).display();
        format!("wrote the report {folder}")
    });
    console::print(|out| writeln!(out, "{}", page.display()))?;
    Ok(page)
}

/// How the names of a report's files begin, by the one of them that it is read from: a report that is made anew keeps
/// its name.
fn stem_of(source: &str) -> String {
    let file = Path::new(source).file_name().unwrap_or_default().to_string_lossy();
    let stem = file.strip_suffix(".ttmem").or_else(|| Some(file.split_once("_memory.json")?.0));
    plain_name(stem.unwrap_or(&file))
}

/// Puts the folder of a run on the list. That it cannot be is said, and no reason to fail.
pub(crate) fn register(folder: &Path) {
    if let Err(error) = Store::from_env().and_then(|store| store.register(folder)) {
        console::complain(&error);
    }
}

/// The file to read: a folder stands for the report in it.
fn source_of(file: &str) -> Result<String> {
    let path = Path::new(file);
    if path.is_dir() { Ok(read::report_in(path)?.display().to_string()) } else { Ok(file.to_owned()) }
}
