//! `tt-memory-profiler`: the flags of version 0.x, mapped to the current commands.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use ttmem::report::files::JsonFiles;
use ttmem::store::run_of;
use ttmem::{Error, Result};

use crate::args::Verbosity;
use crate::commands::report::{Target, report_on};
use crate::commands::run::{self, Run};
use crate::console;

const EXAMPLES: &str = "\
Examples:
  tt-memory-profiler path/to/model.py                  run a script, capture its log, and report
  tt-memory-profiler --log path/to/model.py            capture the log only
  tt-memory-profiler --analyze path/to/model_profile.log
  tt-memory-profiler --visualize ~/.ttmem/reports/model/

This is the same program as `ttmem`, which has more commands: see `ttmem --help`.";

/// Profile the memory of a model on Tenstorrent hardware.
///
/// Runs a script with the right environment, keeps its log, and writes a report. Has the flags of version 0.x.
#[derive(Debug, Parser)]
#[command(name = "tt-memory-profiler", version, after_help = EXAMPLES)]
pub(crate) struct Profiler {
    /// Capture the log only.
    #[arg(long, conflicts_with_all = ["analyze", "visualize"], requires = "script")]
    pub log: bool,

    /// Report on an existing log.
    #[arg(long, value_name = "LOG", conflicts_with_all = ["visualize", "script"])]
    pub analyze: Option<PathBuf>,

    /// Rewrite the page of a report folder.
    #[arg(long, value_name = "DIR", conflicts_with = "script")]
    pub visualize: Option<PathBuf>,

    /// Write to this folder instead of `./logs` (runs) or the stored reports (logs).
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,

    /// What is printed on standard error.
    #[command(flatten)]
    pub verbosity: Verbosity,

    /// Script to run, and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SCRIPT")]
    pub script: Vec<OsString>,
}

/// Runs the command that the arguments select.
pub(crate) fn run(args: Profiler) -> Result<u8> {
    console::set_verbosity(args.verbosity);
    if let Some(log) = args.analyze {
        // If the log is in its run's folder, the report also goes there.
        let folder = log.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let next_to_log = || Some(Target::OfRun(folder.to_owned(), run_of(&log)?));
        let target = args.output_dir.map(Target::In).or_else(next_to_log).unwrap_or(Target::Usual);
        return report_on(&log.to_string_lossy(), None, None, &target, JsonFiles::default()).map(|_| 0);
    }
    if let Some(folder) = args.visualize {
        let target = args.output_dir.map_or(Target::Usual, Target::In);
        return report_on(&folder.to_string_lossy(), None, None, &target, JsonFiles::default()).map(|_| 0);
    }
    if args.script.is_empty() {
        return Err(Error::Usage(
            "no script; pass a script to run, --analyze LOG or --visualize DIR (see --help)".into(),
        ));
    }
    run::run(&Run { log_only: args.log, output_dir: args.output_dir, name: None, command: args.script })
}
