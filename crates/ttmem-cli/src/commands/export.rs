//! `ttmem export`: writes tables that databases read.

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use ttmem::{Error, Result};

use crate::args::Verbosity;
use crate::companions;

const EXAMPLES: &str = "\
Examples:
  ttmem export model.log -o fleet                      add a log to the dataset `fleet`
  ttmem export ranks/ --run nightly-17 -o fleet        add the recordings of all ranks of a program, as one run
  ttmem export *.log --label commit=1a2b3c -o fleet    add labels, for comparisons
  duckdb -c \"SELECT run, rank, verdict FROM 'fleet/runs/**/*.parquet'\"

Each input is a run named after it, unless --run is given. An input that was exported before is replaced. An input that
cannot be read is a row of the table `runs` with its error. docs/fleet.md describes the tables.

Exit codes: 0 success, even if some inputs could not be read; 2 wrong usage, or the dataset could not be written. If no input
could be read, the code of the first error (2, or 4 for no memory data).";

/// `ttmem export`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Export {
    /// Logs, recordings, profiles, reports, and folders of these; `-` is standard input, with --run.
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<OsString>,

    /// The format of the tables.
    #[arg(long, value_name = "FORMAT", default_value = "parquet")]
    pub to: Format,

    /// The folder of the dataset. Several processes may export to it at the same time.
    #[arg(short, long, value_name = "DATASET")]
    pub output: OsString,

    /// The name of the run that the inputs are ranks of [default: one run per input, named after it].
    #[arg(long, value_name = "NAME", value_parser = run_name)]
    pub run: Option<String>,

    /// A label of the runs, such as `commit=1a2b3c`; may be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub labels: Vec<String>,

    /// The machine that the inputs are on. On a file system that several machines share, give all exports the same name, so
    /// that an export replaces that of another machine [default: the name of this machine].
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,

    /// Set the format of the inputs instead of detecting it (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
}

/// The format of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Parquet files.
    Parquet,
}

/// Runs `ttmem-export`.
pub(crate) fn run(args: &Export, verbosity: Verbosity) -> Result<u8> {
    let Format::Parquet = args.to;
    if let Some(key) = repeated_key(&args.labels) {
        return Err(Error::Usage(format!("--label {key}: given twice; pass each key once")));
    }
    let option = |name: &str, value: &str| OsString::from(format!("--{name}={value}"));
    let mut output = OsString::from("--output=");
    output.push(&args.output);
    let mut words = vec![output];
    words.extend(args.run.iter().map(|run| option("run", run)));
    words.extend(args.labels.iter().map(|label| option("label", label)));
    words.extend(args.host.iter().map(|host| option("host", host)));
    words.extend(args.format.iter().map(|format| option("format", format)));
    words.extend(verbosity.quiet.then(|| OsString::from("--quiet")));
    words.push("--".into());
    words.extend(args.inputs.iter().cloned());
    companions::run("ttmem-export", &words)
}

/// The key that several labels have.
fn repeated_key(labels: &[String]) -> Option<&str> {
    let keys = || labels.iter().filter_map(|label| Some(label.split_once('=')?.0));
    keys().enumerate().find(|(at, key)| keys().take(*at).any(|earlier| earlier == *key)).map(|(_, key)| key)
}

/// Parses the name of a run.
fn run_name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("expected a name".into()) } else { Ok(text.to_owned()) }
}

/// Parses a label.
fn label(text: &str) -> Result<String, String> {
    let is_label = text.split_once('=').is_some_and(|(key, _)| !key.is_empty());
    if is_label { Ok(text.to_owned()) } else { Err("expected KEY=VALUE, such as `commit=1a2b3c`".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_a_key() {
        for label_text in ["commit=1a2b3c", "a=", "a=b=c"] {
            assert_eq!(label(label_text), Ok(label_text.to_owned()));
        }
        let labels = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
        assert_eq!(repeated_key(&labels(&["a=1", "b=1", "a=2"])), Some("a"));
        assert_eq!(repeated_key(&labels(&["a=b", "b=1"])), None);
        assert!(label("commit").is_err() && label("=x").is_err() && label("").is_err());
    }
}
