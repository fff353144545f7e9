//! `ttmem gantt`: draws a timeline of operations, as a self-contained page.

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
  ttmem gantt run.ttmem                               write run_gantt.html
  ttmem gantt memory_profile_20251014_141129.json out.html --open
  ttmem gantt run.ttmem --json                        print JSON (see docs/gantt.md)

Prints the path of the page: a single file that works offline and can be shared. Files that ttmem
wrote are replaced, others only with --force. Logs, recordings and profiles are never replaced.

Exit codes: 0 success; 2 wrong usage or unreadable input; 4 no timed operations.";

/// `ttmem gantt`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Gantt {
    /// Recording or profile, optionally compressed (gzip, zstd); `-` is standard input.
    #[arg(value_name = "IN")]
    pub file: String,

    /// Page to write; `-` is standard output [default: the name of IN with `_gantt.html`].
    #[arg(value_name = "OUT.html")]
    pub output: Option<PathBuf>,

    /// Open the page in a browser.
    #[arg(long)]
    pub open: bool,

    /// Print JSON instead of writing a page.
    #[arg(long, conflicts_with_all = ["output", "open", "force"])]
    pub json: bool,

    /// Select a rank, such as `0` or `1,0`, instead of all.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<String>,

    /// Set the format instead of detecting it (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// Replace a file that ttmem did not write, unless it is a log, recording or profile.
    #[arg(long)]
    pub force: bool,
}

/// Reads the file and writes its page.
pub(crate) fn run(args: &Gantt) -> Result<()> {
    let path = args.output.clone().unwrap_or_else(|| default_page(&args.file));
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

/// The page to write, `None` for standard output. A file that must not be replaced is an error before anything is read.
fn output<'a>(args: &Gantt, path: &'a Path, inputs: &'a [&String]) -> Result<Option<Output<'a>>> {
    if is_standard_output(path) {
        let can_be_shown = !args.open;
        return can_be_shown
            .then_some(None)
            .ok_or_else(|| Error::Usage("--open needs a file; pass OUT.html instead of `-`".into()));
    }
    let checked = Output::at(path, args.force, inputs);
    checked.map(Some).map_err(|error| match error {
        // Usually a shell pattern that matches several recordings.
        Error::Evidence { path, what } if args.output.is_some() => Error::Usage(format!(
            "{}: not overwritten, because it is {what}; pass one input per `ttmem gantt` command",
            path.display()
        )),
        error => error,
    })
}

fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// The default page, in the same folder as the file: `run_gantt.html` for `run.ttmem`.
fn default_page(file: &str) -> PathBuf {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_written_next_to_its_file() {
        let page = |file: &str| default_page(file).display().to_string();
        assert_eq!(page("runs/a.b.ttmem"), "runs/a.b_gantt.html");
        assert_eq!(page("profile.json.gz"), "profile_gantt.html");
        assert_eq!(page("/x/.hidden"), "/x/.hidden_gantt.html");
        assert_eq!(page("-"), "stdin_gantt.html");
    }
}
