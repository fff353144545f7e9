//! The arguments of every command, as people type them.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args as Arguments, Parser, Subcommand};
use ttmem::query::RunFilter;

/// Where did the device memory go?
///
/// ttmem reads what a run left behind, rebuilds what was in memory at every step, and says where it went, who
/// holds it, and what to change.
#[derive(Debug, Parser)]
#[command(name = "ttmem", version, arg_required_else_help = true)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The answer on one screen.
    #[command(after_help = SUMMARY_EXAMPLES)]
    Summary(Summary),
    /// A report: a page that opens anywhere, the whole profile, JSON files and Markdown.
    #[command(after_help = REPORT_EXAMPLES)]
    Report(Report),
    /// What can be read, and how to make such files.
    Formats,
}

const SUMMARY_EXAMPLES: &str = "\
Examples:
  ttmem summary model.log                  the screen
  ttmem summary model.log --at 1517        what was in memory before step 1517
  ttmem summary model.log --run last       the last program run alone
  python model.py 2>&1 | ttmem summary -   from a pipe
  ttmem summary rank*.log --json           for scripts: every field is in docs/json.md

Exit codes: 0 answered; 2 wrong usage or unreadable input; 4 no memory data in it.";

const REPORT_EXAMPLES: &str = "\
Examples:
  ttmem report model.log                   into ~/.ttmem/reports/model
  ttmem report model.log -o out            into the folder out
  ttmem report model.log --open            and show the page in a browser

It prints where the page is: one file that needs no network, to be opened here or sent to somebody.";

/// `ttmem summary`
#[derive(Debug, Arguments)]
pub(crate) struct Summary {
    /// Logs and profiles; `-` is standard input. Packed files (gzip, zstd) are unpacked.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<String>,

    /// As JSON.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,

    /// As Markdown, for agents and issues.
    #[arg(long)]
    pub markdown: bool,

    /// What was in memory before this step, instead of at the peak (in JSON: besides).
    #[arg(long, value_name = "STEP")]
    pub at: Option<u32>,

    /// How many rows lists have.
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,

    /// Which program run: `all`, `last` or a number from 1.
    #[arg(long, value_name = "RUN", default_value = "all")]
    pub run: Run,

    /// Which rank: `0` or `1,0`.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<String>,

    /// The format, instead of looking at the content (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// Write to a file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Replace the file if it is there.
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// `ttmem report`
#[derive(Debug, Arguments)]
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

/// `all`, `last` or a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run(pub RunFilter);

impl FromStr for Run {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self(RunFilter::All)),
            "last" => Ok(Self(RunFilter::Last)),
            number => match number.parse() {
                Ok(number) if number > 0 => Ok(Self(RunFilter::Number(number))),
                _ => Err("`all`, `last` or a number from 1 is wanted".into()),
            },
        }
    }
}
