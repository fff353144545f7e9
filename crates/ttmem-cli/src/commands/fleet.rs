//! `ttmem fleet`: questions about a dataset, answered by the Python package.

use std::ffi::OsString;

use clap::Args;
use ttmem::Result;

use super::track::run_in_python;

const EXAMPLES: &str = "\
Examples:
  ttmem fleet closest fleet                     ranks that are closest to the limit
  ttmem fleet outliers fleet --run nightly-17   ranks that differ most from the median of their run
  ttmem fleet growth fleet --label commit --before 1a2b3c --after 4d5e6f
                                                what grew between two commits

The active Python environment needs the package with DuckDB (pip install 'ttmem[fleet]').
`python -m ttmem fleet --help` lists all questions and options.";

/// `ttmem fleet`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Fleet {
    /// The question, the folder of the dataset, and options.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "QUESTION")]
    pub words: Vec<OsString>,
}

/// Replaces this process with `python -m ttmem fleet`.
pub(crate) fn run(args: &Fleet) -> Result<u8> {
    run_in_python("fleet", &args.words)
}
