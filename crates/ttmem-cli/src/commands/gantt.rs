//! `ttmem gantt`: what ran when, as a page that opens anywhere.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use ttmem::query::{self, GanttRequest};
use ttmem::store::name_of;
use ttmem::{Error, Result, report};

use super::report::show_page;
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem gantt run.ttmem                               into run_gantt.html
  ttmem gantt memory_profile_20251014_141129.json out.html --open
  ttmem gantt run.ttmem --json                        the numbers behind it: docs/gantt.md

It prints where the page is: one file that needs no network, to be opened here or sent to somebody. A page of an
earlier chart is replaced; any other file is not, but with --force.

Exit codes: 0 drawn; 2 wrong usage or unreadable input; 4 no operations with times in it.";

/// `ttmem gantt`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Gantt {
    /// A recording or profile; `-` is standard input. A packed file (gzip, zstd) is unpacked.
    #[arg(value_name = "IN")]
    pub file: String,

    /// The page to write [default: the name of IN with `_gantt.html`]; `-` is standard output.
    #[arg(value_name = "OUT.html")]
    pub output: Option<PathBuf>,

    /// Show the page in a browser.
    #[arg(long)]
    pub open: bool,

    /// Print the answer as JSON instead of writing a page.
    #[arg(long, conflicts_with_all = ["output", "open", "force"])]
    pub json: bool,

    /// Which rank: `0` or `1,0`; all unless told.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<String>,

    /// The format, instead of looking at the content (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// Replace the file even if it is no page of an earlier chart.
    #[arg(long)]
    pub force: bool,
}

/// Reads the file and writes its page.
pub(crate) fn run(args: &Gantt) -> Result<()> {
    let target = if args.json { None } else { Some(target(args)?) };
    let profile = reading::open(&args.file, args.format.as_deref())?;
    console::warn_of(&profile.source.file, &profile.warnings);
    let answer = query::gantt(&profile, &GanttRequest { rank: args.rank.clone() })?;
    let Some(Target { path, replaces }) = target else {
        return console::write(None, false, |out| report::gantt_json(&answer, out));
    };
    let name = name_of(&args.file);
    console::write(Some(&path), replaces, |out| report::gantt_page(&profile, &answer, &name, out))?;
    if is_standard_output(&path) {
        return Ok(());
    }
    console::write(None, false, |out| writeln!(out, "{}", path.display()))?;
    if args.open {
        show_page(&path);
    }
    Ok(())
}

/// Where the page goes.
struct Target {
    path: PathBuf,
    /// Whether what is there may be replaced.
    replaces: bool,
}

/// Where the page goes; an error where something is there that may not be replaced, before anything is read.
fn target(args: &Gantt) -> Result<Target> {
    let path = args.output.clone().unwrap_or_else(|| usual(&args.file));
    if is_standard_output(&path) {
        let can_be_shown = !args.open;
        return can_be_shown
            .then_some(Target { path, replaces: false })
            .ok_or_else(|| Error::Usage("--open shows a file: name one instead of `-`".into()));
    }
    let is_there = path.symlink_metadata().is_ok() && !console::is_device(&path);
    let replaces = args.force || (is_there && is_earlier_page(&path));
    if is_there && !replaces {
        return Err(Error::Exists { path });
    }
    Ok(Target { path, replaces })
}

fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// The page of a file, beside where one is: `run.ttmem` has `run_gantt.html`.
fn usual(file: &str) -> PathBuf {
    if file == "-" {
        return PathBuf::from("stdin_gantt.html");
    }
    let path = Path::new(file);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let packed = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    let stem =
        packed.rsplit_once('.').map_or(packed, |(stem, _)| if stem.is_empty() { packed } else { stem });
    path.with_file_name(format!("{stem}_gantt.html"))
}

/// Whether a file is a page of an earlier chart.
fn is_earlier_page(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(2048).read_to_end(&mut head));
    read.is_ok() && report::is_gantt_page(&head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lies_beside_its_file() {
        let page = |file: &str| usual(file).display().to_string();
        assert_eq!(page("runs/a.b.ttmem"), "runs/a.b_gantt.html");
        assert_eq!(page("profile.json.gz"), "profile_gantt.html");
        assert_eq!(page("/x/.hidden"), "/x/.hidden_gantt.html");
        assert_eq!(page("-"), "stdin_gantt.html");
    }
}
