//! The arguments of `ttmem`. Each command's own arguments are in the command's file.

use std::path::PathBuf;

use clap::{Args as Arguments, Parser, Subcommand};

use crate::commands::{
    chart::Chart, check::Check, completions::Completions, config::Config, diff::Diff, export::Export,
    fleet::Fleet, gantt::Gantt, last_run::LastRun, list::List, man::Man, mcp::Mcp, phases::Phases,
    remove::Remove, report::Report, run::Run, serve::Serve, show::Show, summary::Summary, track::Track,
};

/// Show where device memory went.
///
/// ttmem reads logs, recordings and profiles, reconstructs memory use at every step, and shows where memory went, which
/// tensors hold it, and what to change. Run it without arguments in a terminal to choose interactively.
#[derive(Debug, Parser)]
#[command(name = "ttmem", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The command; without one, `ttmem` is interactive.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// The options for agents.
    #[command(flatten)]
    pub llm: Llm,

    /// What is printed on standard error.
    #[command(flatten)]
    pub verbosity: Verbosity,
}

const EXAMPLES: &str = "\
Examples:
  ttmem model_profile.log                  summarize memory use (ttmem summary)
  ttmem report model_profile.log --open    write a report and open its page
  ttmem run model.py                       run a script, capture its log, and report
  ttmem serve                              browse reports, locally or over SSH
  ttmem                                    choose a log or report interactively";

/// `ttmem --llm --logfile F`: Markdown for an agent.
#[derive(Debug, Arguments)]
pub(crate) struct Llm {
    /// Print Markdown for an agent and store the report (`ttmem summary --markdown` only prints).
    #[arg(long = "llm", requires = "logfile")]
    pub wanted: bool,

    /// Read this log.
    #[arg(long, value_name = "FILE", requires = "wanted")]
    pub logfile: Option<String>,

    /// Write the Markdown to a file instead of standard output.
    #[arg(short, long, value_name = "FILE", requires = "wanted")]
    pub output: Option<PathBuf>,

    /// Replace a file that ttmem did not write, unless it is a log, recording or profile.
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// What is printed in addition to results.
#[derive(Clone, Copy, Debug, Arguments)]
pub(crate) struct Verbosity {
    /// Print only results and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Print details: the reader used, timings and files written.
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Summarize memory use.
    Summary(Summary),
    /// Write a report: a self-contained page, the full profile, JSON files and Markdown.
    Report(Report),
    /// Run a script or command, capture its log, and report.
    Run(Run),
    /// Track the memory of a PyTorch program while it runs.
    Track(Track),
    /// Extract the last pass of a log, without warm-up.
    LastRun(LastRun),
    /// Show training phases: expected and measured memory, and whether it fits.
    Phases(Phases),
    /// Show what changed between two profiles.
    Diff(Diff),
    /// Check memory limits, for CI.
    Check(Check),
    /// Export tables for SQL questions on many ranks and runs.
    Export(Export),
    /// Answer questions about many ranks and runs with SQL.
    Fleet(Fleet),
    /// Draw memory over time.
    Chart(Chart),
    /// Draw a timeline of operations and memory, as a self-contained page.
    Gantt(Gantt),
    /// Serve stored reports to a browser and accept log uploads.
    Serve(Serve),
    /// Let agents query profiles, over the Model Context Protocol.
    Mcp(Mcp),
    /// List stored reports.
    List(List),
    /// Show a stored report: its summary or its page.
    Show(Show),
    /// Remove stored reports.
    Remove(Remove),
    /// Show or change the configuration of the PyTorch tracker.
    Config(Config),
    /// List the supported formats and how to capture each.
    Formats,
    /// Generate shell completions.
    Completions(Completions),
    /// Generate manual pages.
    Man(Man),
}
