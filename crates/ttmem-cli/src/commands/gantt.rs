//! `ttmem gantt`: what ran when, as a page that opens anywhere.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use ttmem::query::{self, GanttRequest};
use ttmem::store::name_of;
use ttmem::{Error, Result, report};

use super::report::show_page;
use crate::replacing::Output;
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem gantt run.ttmem                               into run_gantt.html
  ttmem gantt memory_profile_20251014_141129.json out.html --open
  ttmem gantt run.ttmem --json                        the numbers behind it: docs/gantt.md

It prints where the page is: one file that needs no network, to be opened here or sent to somebody. A page of an
earlier chart is replaced, any other file only with --force, and a log, recording or profile never.

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

    /// Replace an existing file that is not a page of an earlier chart. A log, recording or profile is never replaced.
    #[arg(long)]
    pub force: bool,
}

/// Reads the file and writes its page.
pub(crate) fn run(args: &Gantt) -> Result<()> {
    let path = args.output.clone().unwrap_or_else(|| usual(&args.file));
    let inputs = [&args.file];
    let output = if args.json { None } else { output(args, &path, &inputs)? };
    let profile = reading::open(&args.file, args.format.as_deref())?;
    console::warn_of(&profile.source.file, &profile.warnings);
    let answer = query::gantt(&profile, &GanttRequest { rank: args.rank.clone() })?;
    if args.json {
        return console::print(|out| report::gantt_json(&answer, out));
    }
    let name = name_of(&args.file);
    console::write(output.as_ref(), |out| report::gantt_page(&profile, &answer, &name, out))?;
    if output.is_none() {
        return Ok(());
    }
    console::print(|out| writeln!(out, "{}", path.display()))?;
    if args.open {
        show_page(&path);
    }
    Ok(())
}

/// The page to write, `None` for standard output. A file that may not be replaced is an error before anything is read.
fn output<'a>(args: &Gantt, path: &'a Path, inputs: &'a [&String]) -> Result<Option<Output<'a>>> {
    if is_standard_output(path) {
        let can_be_shown = !args.open;
        return can_be_shown
            .then_some(None)
            .ok_or_else(|| Error::Usage("--open shows a file: name one instead of `-`".into()));
    }
    let checked = Output::at(path, args.force || is_earlier_page(path), inputs);
    checked.map(Some).map_err(|error| match error {
        // As a rule, a pattern of the shell that stands for several recordings.
        Error::Evidence { path, what } if args.output.is_some() => Error::Usage(format!(
            "{}: not overwritten, because it is {what}; gantt draws one file into OUT.html: run it once per file",
            path.display()
        )),
        error => error,
    })
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
