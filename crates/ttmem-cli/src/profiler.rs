//! `tt-memory-profiler`: the name and the flags that the tool began with, for the commands of today.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use ttmem::store::run_of;
use ttmem::{Error, Result};

use crate::args::Loudness;
use crate::commands::report::{Target, report_on};
use crate::commands::run::{self, Run};
use crate::console;

const EXAMPLES: &str = "\
Examples:
  tt-memory-profiler path/to/model.py                  run it, capture its log, and report
  tt-memory-profiler --log path/to/model.py            capture only
  tt-memory-profiler --analyze path/to/model_profile.log
  tt-memory-profiler --visualize ~/.ttmem/reports/model/

The same program as `ttmem`, which can do more: see `ttmem --help`.";

/// Profiles the memory of a model on Tenstorrent hardware.
///
/// The first name of `ttmem`: it runs a script with the right environment, keeps its log, and reports.
#[derive(Debug, Parser)]
#[command(name = "tt-memory-profiler", version, after_help = EXAMPLES)]
pub(crate) struct Profiler {
    /// Only capture the log.
    #[arg(long, conflicts_with_all = ["analyze", "visualize"], requires = "script")]
    pub log: bool,

    /// Report on a log that is there.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["visualize", "script"])]
    pub analyze: Option<PathBuf>,

    /// Make the page of a report folder anew.
    #[arg(long, value_name = "DIR", conflicts_with = "script")]
    pub visualize: Option<PathBuf>,

    /// Where to write, instead of `./logs` (a run) or the stored reports (a log).
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,

    /// How much is said on standard error.
    #[command(flatten)]
    pub loudness: Loudness,

    /// The script to run, and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SCRIPT")]
    pub script: Vec<OsString>,
}

/// Does what the arguments say.
pub(crate) fn run(args: Profiler) -> Result<u8> {
    console::set_loudness(args.loudness);
    if let Some(log) = args.analyze {
        // Beside the log where that is the folder of its run.
        let folder = log.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let beside = || Some(Target::OfRun(folder.to_owned(), run_of(&log)?));
        let target = args.output_dir.map(Target::In).or_else(beside).unwrap_or(Target::Usual);
        return report_on(&log.to_string_lossy(), None, None, &target).map(|_| 0);
    }
    if let Some(folder) = args.visualize {
        let target = args.output_dir.map_or(Target::Usual, Target::In);
        return report_on(&folder.to_string_lossy(), None, None, &target).map(|_| 0);
    }
    if args.script.is_empty() {
        return Err(Error::Usage(
            "name a script to run, or --analyze LOG or --visualize DIR; --help shows examples".into(),
        ));
    }
    run::run(&Run { log_only: args.log, output_dir: args.output_dir, name: None, command: args.script })
}
