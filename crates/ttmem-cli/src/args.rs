//! The arguments of `ttmem` as people type them. Those of each command stand with the command.

use std::path::PathBuf;

use clap::{Args as Arguments, Parser, Subcommand};

use crate::commands::{
    chart::Chart, completions::Completions, config::Config, gantt::Gantt, last_run::LastRun, list::List,
    man::Man, phases::Phases, remove::Remove, report::Report, run::Run, serve::Serve, show::Show,
    summary::Summary,
};

/// Where did the device memory go?
///
/// ttmem reads what a run left behind, rebuilds what was in memory at every step, and says where it went, who
/// holds it, and what to change. Without arguments, on a terminal, it asks what to look at.
#[derive(Debug, Parser)]
#[command(name = "ttmem", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to do; nothing, on a terminal, asks.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The spelling that agents know.
    #[command(flatten)]
    pub llm: Llm,

    /// How much is said on standard error.
    #[command(flatten)]
    pub loudness: Loudness,
}

const EXAMPLES: &str = "\
Examples:
  ttmem summary model_profile.log          where the memory went, on one screen
  ttmem report model_profile.log --open    the page
  ttmem run model.py                       run it, capture its log, and report
  ttmem serve                              the reports in a browser, here or over SSH
  ttmem                                    choose from what is there";

/// `ttmem --llm --logfile F`: Markdown for an agent.
#[derive(Debug, Arguments)]
pub(crate) struct Llm {
    /// Markdown for an agent, and the report besides (`ttmem summary --markdown` prints the same).
    #[arg(long = "llm", requires = "logfile")]
    pub wanted: bool,

    /// The log.
    #[arg(long, value_name = "FILE", requires = "wanted")]
    pub logfile: Option<String>,

    /// Write the Markdown to a file instead of standard output.
    #[arg(short, long, value_name = "FILE", requires = "wanted")]
    pub output: Option<PathBuf>,

    /// Replace an existing file, unless it is a log, recording or profile.
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// How much is said besides results.
#[derive(Clone, Copy, Debug, Arguments)]
pub(crate) struct Loudness {
    /// Say nothing but results and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Say more: which reader was chosen, how long it took, what was written.
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The answer on one screen.
    Summary(Summary),
    /// A report: a page that opens anywhere, the whole profile, JSON files and Markdown.
    Report(Report),
    /// Run a script or command, capture its log, and report.
    Run(Run),
    /// The last pass of a log, warm-up removed.
    LastRun(LastRun),
    /// Phases of training sessions: expected against measured, and whether they fit.
    Phases(Phases),
    /// Memory over time as a picture.
    Chart(Chart),
    /// What ran when, with memory under it, as a page that opens anywhere.
    Gantt(Gantt),
    /// Stored reports in a browser, with upload of logs.
    Serve(Serve),
    /// The stored reports.
    List(List),
    /// A stored report: its summary, or its page.
    Show(Show),
    /// Remove stored reports.
    Remove(Remove),
    /// The file that switches the tracker for PyTorch on: what it says, and how to change it.
    Config(Config),
    /// What can be read, and how to make such files.
    Formats,
    /// Completions for a shell.
    Completions(Completions),
    /// Manual pages.
    Man(Man),
}
