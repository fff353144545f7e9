//! `ttmem track`: tracks a PyTorch program, with the Python package in the program's own environment.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use ttmem::{Error, Result};

const EXAMPLES: &str = "\
Examples:
  ttmem track train.py --epochs 1          record the memory of a script
  ttmem track -m package.train             record a module
  ttmem track --level ops train.py         record every operation

The program runs in the active Python environment, which needs the package (pip install ttmem).
`python -m ttmem track --help` lists all options.";

/// `ttmem track`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Track {
    /// Options of the tracker, the script, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "SCRIPT")]
    pub words: Vec<OsString>,
}

/// Replaces this process with `python -m ttmem track`.
pub(crate) fn run(args: &Track) -> Result<u8> {
    let mut error = None;
    for python in ["python", "python3"] {
        let mut command = Command::new(python);
        error = Some(command.args(["-m", "ttmem", "track"]).args(&args.words).exec());
        if error.as_ref().is_some_and(|error| error.kind() != std::io::ErrorKind::NotFound) {
            break;
        }
    }
    let why = error.map_or_else(String::new, |error| format!(": {error}"));
    Err(Error::NotThere(format!("cannot start python{why}; activate the program's environment")))
}
