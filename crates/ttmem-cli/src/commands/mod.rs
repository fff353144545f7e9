//! The commands, one file each, with their arguments.

pub(crate) mod chart;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod diff;
pub(crate) mod export;
pub(crate) mod fleet;
pub(crate) mod formats;
pub(crate) mod gantt;
pub(crate) mod interactive;
pub(crate) mod last_run;
pub(crate) mod list;
pub(crate) mod llm;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod phases;
pub(crate) mod remove;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod summary;
pub(crate) mod track;

use ttmem::{Error, Result};

use crate::args::{Args, Command};
use crate::console;

/// Runs the command; the exit code is 0 unless part of it failed.
pub(crate) fn run(args: Args) -> Result<u8> {
    let verbosity = args.verbosity;
    console::set_verbosity(verbosity);
    let Some(command) = args.command else {
        return if args.llm.wanted { llm::run(&args.llm) } else { interactive::run() };
    };
    if args.llm.wanted {
        return Err(Error::Usage(
            "--llm cannot be used with a command; run `ttmem --llm --logfile FILE`".into(),
        ));
    }
    match command {
        Command::Summary(args) => summary::run(&args),
        Command::Report(args) => report::run(&args).map(|()| 0),
        Command::Run(args) => run::run(&args),
        Command::Track(args) => track::run(&args),
        Command::LastRun(args) => last_run::run(&args).map(|()| 0),
        Command::Phases(args) => phases::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Export(args) => export::run(&args, verbosity),
        Command::Fleet(args) => fleet::run(&args),
        Command::Chart(args) => chart::run(&args).map(|()| 0),
        Command::Gantt(args) => gantt::run(&args).map(|()| 0),
        Command::Serve(args) => serve::run(&args).map(|()| 0),
        Command::Mcp(args) => mcp::run(&args),
        Command::List(args) => list::run(&args).map(|()| 0),
        Command::Show(args) => show::run(&args).map(|()| 0),
        Command::Remove(args) => remove::run(&args).map(|()| 0),
        Command::Config(args) => config::run(&args).map(|()| 0),
        Command::Formats => formats::run().map(|()| 0),
        Command::Completions(args) => completions::run(&args).map(|()| 0),
        Command::Man(args) => man::run(&args).map(|()| 0),
    }
}
