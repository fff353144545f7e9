//! `ttmem track`: tracks a PyTorch program, with the Python package in the program's own environment.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use clap::Args;
use ttmem::{Error, Result};

use crate::again;

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
    /// Tracker options, then the script and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "SCRIPT")]
    pub words: Vec<OsString>,
}

/// Fails if the package is missing. A folder named `ttmem` is not the package.
const FIND_PACKAGE: &str = "import importlib.util, sys\n\
                            found = importlib.util.find_spec('ttmem')\n\
                            sys.exit(not (found and found.origin))";

/// Replaces this process with `python -m ttmem track`.
pub(crate) fn run(args: &Track) -> Result<u8> {
    run_in_python("track", &args.words)
}

/// Replaces this process with a command of the Python package.
pub(crate) fn run_in_python(verb: &str, words: &[OsString]) -> Result<u8> {
    let python = python()?;
    let error = Command::new(&python).args(["-m", "ttmem", verb]).args(words).exec();
    Err(Error::NotFound(format!("cannot start {}: {error}", python.to_string_lossy())))
}

/// The interpreter that runs this command, or the first in PATH, which must have the package.
fn python() -> Result<OsString> {
    if let Some(python) = again::interpreter() {
        return Ok(python.clone());
    }
    for python in ["python", "python3"] {
        let found = Command::new(python).args(["-c", FIND_PACKAGE]).stdin(Stdio::null()).output();
        match found {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(output) if !output.status.success() => {
                return Err(Error::NotFound(format!(
                    "{python}: the Python package ttmem is not installed; run `{python} -m pip install ttmem` in the \
                     program's environment"
                )));
            }
            // Another error is reported when the program starts.
            _ => return Ok(python.into()),
        }
    }
    Err(Error::NotFound("python and python3: not found; activate the program's environment".into()))
}
