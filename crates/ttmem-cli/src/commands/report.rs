//! `ttmem report`: writes a report folder with its page.

use std::path::{Path, PathBuf};

use clap::Args;
use ttmem::model::{self, Profile};
use ttmem::read::{self, RankFiles};
use ttmem::report::files::{JsonFiles, page_of};
use ttmem::store::{Store, clean_name, name_of, plain_name, write_report_with};
use ttmem::{Error, Result};

use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem report model.log                   write to ~/.ttmem/reports/model
  ttmem report model.log -o out            write to the folder out
  ttmem report model.log --open            also open the page in a browser

A ttnn capture of a real run and one with RunMode.NO_DISPATCH of the same program become one report.
Prints the path of the page: a single file that works offline and can be shared.";

/// `ttmem report`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Report {
    /// Logs, profiles and report folders; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<String>,

    /// Write to this folder instead of the stored reports.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Set the name of the report [default: the name of the file].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Open the page in a browser.
    #[arg(long)]
    pub open: bool,

    /// Also write the JSON files for Tenstorrent's tools if the program ran on other devices.
    #[arg(long)]
    pub all: bool,

    /// Set the format instead of detecting it (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
}

/// The destination of a report.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The default: the folder that is read, or the stored reports if a file is read.
    Usual,
    /// A folder.
    In(PathBuf),
    /// The folder of a run, and the name of the run.
    OfRun(PathBuf, String),
}

/// Reads each file, writes its report and prints the path of its page.
pub(crate) fn run(args: &Report) -> Result<()> {
    if args.name.is_some() && args.files.len() > 1 {
        return Err(Error::Usage("--name applies to a single report; pass one file".into()));
    }
    if args.output.as_deref() == Some(Path::new("-")) {
        return Err(Error::Usage("a report is a folder; pass the path of a folder instead of `-`".into()));
    }
    let target = args.output.clone().map_or(Target::Usual, Target::In);
    let names = names_in(&args.files);
    let json = if args.all { JsonFiles::Always } else { JsonFiles::IfUseful };
    let mut captures: Vec<(Source<'_>, Profile)> = Vec::new();
    for (file, own) in args.files.iter().zip(&names) {
        // Reports in one folder need different names; the store takes care of that on its own.
        let name = args.name.as_deref().or_else(|| own.as_deref().filter(|_| args.output.is_some()));
        let ranks = read::ranks_in(Path::new(file));
        if !ranks.files.is_empty() && ranks.have_different_ranks() {
            show(&report_on_ranks(file, &ranks, name, &target, json)?, args.open);
            continue;
        }
        let source = Source { file, path: source_of(file)?, name };
        let profile = reading::open(&source.path, args.format.as_deref())?;
        if args.files.len() > 1 && read::may_complete(&profile) {
            captures.push((source, profile));
        } else {
            show(&write(&source, profile, &target, json)?, args.open);
        }
    }
    let (sources, profiles): (Vec<_>, Vec<_>) = captures.into_iter().unzip();
    let all = sources.iter().zip(read::complete(profiles));
    for (source, profile) in all.filter_map(|(source, profile)| Some((source, profile?))) {
        show(&write(source, profile, &target, json)?, args.open);
    }
    Ok(())
}

/// An input of a report.
struct Source<'a> {
    /// The file or folder, as the user passed it.
    file: &'a str,
    /// The file to read.
    path: String,
    /// The name of the report.
    name: Option<&'a str>,
}

fn show(page: &Path, is_wanted: bool) {
    if is_wanted {
        show_page(page);
    }
}

/// Numbered names for files that would have the same name (`x-2` …); `None` for the first of each name.
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

/// Opens a page in a browser. Without one (usually over SSH), prints what to do instead.
pub(crate) fn show_page(page: &Path) {
    if open::that_detached(page).is_err() {
        console::say(&format!(
            "cannot start a browser; copy {} to a machine that has one (it is a single file)",
            page.display()
        ));
    }
}

/// Writes a report and prints the path of its page.
pub(crate) fn report_on(
    file: &str,
    format: Option<&str>,
    name: Option<&str>,
    target: &Target,
    json: JsonFiles,
) -> Result<PathBuf> {
    let source = Source { file, path: source_of(file)?, name };
    let profile = reading::open(&source.path, format)?;
    write(&source, profile, target, json)
}

/// Writes one report on the recordings or memory snapshots of several ranks.
fn report_on_ranks(
    folder: &str,
    ranks: &RankFiles,
    name: Option<&str>,
    target: &Target,
    json: JsonFiles,
) -> Result<PathBuf> {
    let open = |file: &PathBuf| reading::open(&file.to_string_lossy(), None);
    let profiles: Vec<Profile> = ranks.files.iter().map(open).collect::<Result<_>>()?;
    let format = profiles.first().map(|profile| profile.source.format.clone()).unwrap_or_default();
    // The folder may be `.`, and the report is named after it.
    let own = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.into()).display().to_string();
    let mut profile = Profile::merged(&profiles, model::Source { format, file: folder.into() })?;
    profile.warnings.extend(ranks.warnings(Path::new(folder)));
    write(&Source { file: &own, path: own.clone(), name }, profile, target, json)
}

fn write(source: &Source<'_>, mut profile: Profile, target: &Target, json: JsonFiles) -> Result<PathBuf> {
    let Source { file, path: source, name } = source;
    let page = match target {
        // The report on several ranks is not written next to them, where it would hide the next recordings.
        Target::Usual if Path::new(file).is_dir() && file != source => {
            let name = name.map_or_else(|| stem_of(source), plain_name);
            write_report_with(&mut profile, Some(Path::new(&source)), Path::new(file), &name, json)?;
            Path::new(file).join(page_of(&name))
        }
        Target::Usual => {
            let stored = Store::from_env()?.with_json(json).save(&mut profile, source, *name)?;
            stored.folder.join(page_of(stored.stem()))
        }
        Target::In(folder) => {
            let name = name.map_or_else(|| name_of(source), clean_name);
            write_report_with(&mut profile, Some(Path::new(&source)), folder, &name, json)?;
            folder.join(page_of(&name))
        }
        Target::OfRun(folder, name) => {
            write_report_with(&mut profile, Some(Path::new(&source)), folder, name, json)?;
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

/// The name that the files of a report start with, derived from the file it is read from, so that a rewritten report
/// keeps its name.
fn stem_of(source: &str) -> String {
    let file = Path::new(source).file_name().unwrap_or_default().to_string_lossy();
    let stem = file.strip_suffix(".ttmem").or_else(|| Some(file.split_once("_memory.json")?.0));
    plain_name(stem.unwrap_or(&file))
}

/// Adds the folder of a run to the list. An error is printed and does not fail the command.
pub(crate) fn register(folder: &Path) {
    if let Err(error) = Store::from_env().and_then(|store| store.register(folder)) {
        console::complain(&error);
    }
}

/// The file to read; for a folder, the report in it.
fn source_of(file: &str) -> Result<String> {
    let path = Path::new(file);
    if path.is_dir() { Ok(read::report_in(path)?.display().to_string()) } else { Ok(file.to_owned()) }
}
