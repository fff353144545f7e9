//! `ttmem run`: runs a script or command with the right environment, captures its output, then reports.
//!
//! `launch` starts the command, `folder` creates the output folder, and `capture` copies its output to the log (`log`)
//! and the screen (`screen`) and passes signals on (`signals`). This module combines them and prints the outcome;
//! `account` writes the same for the process that started the run.

mod account;
mod capture;
mod folder;
mod launch;
mod log;
mod screen;
mod signals;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use clap::Args;
use signal_hook::low_level::signal_name;
use ttmem::model::Profile;
use ttmem::query::{self, Request};
use ttmem::read::{Options, Seen};
use ttmem::report::{self, files::page_of, headline};
use ttmem::store::{Store, Stored, plain_name, write_report};
use ttmem::{Error, Result};

pub(crate) use self::account::{ACCOUNT, Account};
use self::capture::capture;
use self::folder::RunFolder;
use self::launch::Launch;
use self::signals::Signals;
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem run model.py --batch 4             run a script; write to ./logs/model_20261115_081250
  ttmem run -- pytest -s tests/test_x.py   run any command
  ttmem run -q model.py                    show a status line instead of the output
  ttmem run --log-only model.py            capture only; run `ttmem report` later
  ttmem run --output-dir /data model.py    write to /data instead of ./logs

Everything after the command is passed to it. The log is written while the command runs, so runs
that crash, are killed or run out of memory are reported, too. Prints the path of the page.

Exit codes: the command's own, 128 + n if signal n killed it; 2 if that is 0 and there is no report.";

/// `ttmem run`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// Stop after capturing the log.
    #[arg(long)]
    pub log_only: bool,

    /// Create the run's folder here instead of in `./logs`.
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,

    /// Set the name of the run, instead of the script's.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Script (`.py` files run with `python -u`) or command, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The exit code: the command's own, or 2 if that was 0 and ttmem itself failed.
    pub code: u8,
    /// The log.
    pub log: PathBuf,
    /// The report, unless there is none.
    pub report: Option<Reported>,
}

/// A report of a run.
#[derive(Debug)]
pub(crate) struct Reported {
    /// Its page.
    pub page: PathBuf,
    /// Its name in `ttmem list`; `None` if it could not be added.
    name: Option<String>,
    summary: query::Summary,
}

impl Outcome {
    /// The page, if there is a report.
    pub fn page(&self) -> Option<&PathBuf> {
        self.report.as_ref().map(|report| &report.page)
    }
}

/// Runs the command and prints the path of its page, or of its log; the exit code is the command's.
pub(crate) fn run(args: &Run) -> Result<u8> {
    let outcome = run_and_report(args)?;
    if let Some(report) = &outcome.report {
        summarize(report);
    }
    let result = if args.log_only { Some(&outcome.log) } else { outcome.page() };
    let Some(path) = result else { return Ok(outcome.code) };
    match console::print(|out| writeln!(out, "{}", path.display())) {
        Ok(()) => Ok(outcome.code),
        Err(error) => {
            console::complain(&error);
            Ok(failed(outcome.code))
        }
    }
}

/// Prints the summary, and how to see more: over SSH, the path of the page is of no use.
fn summarize(report: &Reported) {
    console::note("");
    console::note_text(&report::text(&report.summary, console::screen_of_notes()));
    let Some(name) = &report.name else { return };
    console::note(&format!("\nttmem show {name}    prints this summary again"));
    console::note("ttmem serve         serves its page to a browser, also over SSH");
}

/// Runs the command, prints the outcome on standard error, and returns it.
///
/// An error means that the command was not started.
pub(crate) fn run_and_report(args: &Run) -> Result<Outcome> {
    let launch = Launch::of(&args.command)?;
    let name = plain_name(args.name.as_deref().unwrap_or(launch.name()));
    let signals = Signals::hold()?;
    let parent = args.output_dir.as_deref().unwrap_or(Path::new("logs"));
    if parent.to_str().is_none() {
        return Err(Error::Usage("--output-dir: not valid UTF-8; choose another folder".into()));
    }
    let (folder, log) = RunFolder::create(parent, &name)?;
    launch.warn_about_settings();
    console::note(&format!("capturing output to {}", folder.log().display()));
    let (child, output) = match launch.start(folder.path()) {
        Ok(started) => started,
        Err(error) => {
            folder.undo();
            return Err(error);
        }
    };
    let mut account = Account::of(folder.log());
    account.write();
    let captured = capture(child, output, log, signals)?;
    account.ended = Some(ending(captured.status));
    account.write();
    if !captured.status.success() {
        console::say(&format!("{} {}", launch.name(), ending(captured.status)));
    }
    if let Some(others) = captured.others {
        console::say(&format!(
            "a process that the command started is still running; its further output {others}"
        ));
    }
    let code = exit_code(captured.status);
    let mut outcome = Outcome { code, log: folder.log(), report: None };
    if let Some(source) = captured.log_error {
        console::complain(&Error::Write { path: folder.log(), source });
        console::say("the log is incomplete; the command was not affected");
        outcome.code = failed(code);
    }
    if !args.log_only {
        match write_and_list(&folder, &name, captured.seen) {
            Ok(report) => {
                outcome.report = Some(report);
                account.is_reported = true;
            }
            Err(error) => {
                console::complain(&error);
                outcome.code = failed(code);
                account.problem = Some(error.to_string());
            }
        }
        account.write();
    }
    Ok(outcome)
}

/// Reads the log, writes the report to the same folder and adds it to the list.
fn write_and_list(folder: &RunFolder, name: &str, seen: Seen) -> Result<Reported> {
    let log = folder.log().display().to_string();
    // The log may start with arbitrary bytes, so the format comes from the captured output; it is never compressed.
    let format = seen.dram.map(|_| "tt_log".to_owned());
    let options = Options { format, is_plain: true, ..Options::default() };
    let (mut profile, source) = match reading::open_with(&log, options) {
        Ok(profile) => (profile, folder.log()),
        Err(error)
            if error.exit_code() == NO_DATA
                || matches!(error, Error::Empty { .. } | Error::UnknownFormat { .. }) =>
        {
            recorded_in(folder.path()).ok_or_else(|| explained(error, &log))?
        }
        Err(error) => return Err(error),
    };
    write_report(&mut profile, Some(&source), folder.path(), name)?;
    for warning in &profile.warnings {
        console::warning(&profile.source.file, warning.line, &warning.message);
    }
    if let Err(error) = Store::from_env().and_then(|store| store.register(folder.path())) {
        console::warning(&log, None, &format!("this run is not in `ttmem list`: {error}"));
    }
    let stored = Stored::in_folder(folder.path());
    if let Some(stored) = &stored {
        let what = headline(stored.peak.as_ref(), stored.oom_headline.as_deref());
        console::note(format!("{what} Log: {log}").trim_start());
    }
    let summary = query::summary(std::slice::from_ref(&profile), &Request::default())?;
    let page = folder.path().join(page_of(name));
    Ok(Reported { page, name: stored.map(|stored| stored.name), summary })
}

/// The exit code of files without memory data.
const NO_DATA: u8 = 4;

/// The recording of the PyTorch tracker in a folder that used the most device memory, or, if none used any, the most
/// memory. Every process has one.
fn recorded_in(folder: &Path) -> Option<(Profile, PathBuf)> {
    let files = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_recording = |path: &PathBuf| path.extension().is_some_and(|end| end == "ttmem");
    let opened = files.filter(is_recording).filter_map(|path| {
        let profile = reading::open(&path.to_string_lossy(), None).ok()?;
        let summary = query::summary(std::slice::from_ref(&profile), &Request::default()).ok()?;
        let peak = |of_device: bool| {
            let pools = summary.ranks.iter().flat_map(|rank| rank.pools.iter());
            pools
                .filter(|(name, _)| (*name != "cpu") == of_device)
                .filter_map(|(_, pool)| pool.peak_total)
                .max()
        };
        Some(((peak(true), peak(false)), profile, path))
    });
    opened.max_by_key(|(peaks, _, _)| *peaks).map(|(_, profile, path)| (profile, path))
}

/// Explains a log without runtime output. ttmem has set the variables, so the cause is the build or the command.
fn explained(error: Error, log: &str) -> Error {
    match error {
        Error::Empty { .. } | Error::UnknownFormat { .. } => Error::NoMemoryData {
            file: log.to_owned(),
            message: "no output of the Tenstorrent runtime and no recording of a PyTorch program. Tenstorrent: run a \
                      model on a device with a debug build (-DCMAKE_BUILD_TYPE=Debug -DTT_RUNTIME_DEBUG=ON). \
                      PyTorch: install the tracker into the program's environment (pip install ttmem). See \
                      https://github.com/ttmem/ttmem/blob/main/docs/capturing.md"
                .to_owned(),
        },
        other => other,
    }
}

/// The command's exit code as shells report it: 128 + n for signal n.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The exit code if ttmem itself failed: the command's own takes precedence.
fn failed(code: u8) -> u8 {
    if code == 0 { 2 } else { code }
}

/// How a command ended, in words.
fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => {
            format!("was killed by signal {signal} ({})", signal_name(signal).unwrap_or("unnamed"))
        }
        (None, None) => "ended with an unknown status".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_the_command() {
        for (raw, code, words) in [
            (0, 0, "ended with exit code 0"),
            (3 << 8, 3, "ended with exit code 3"),
            (255 << 8, 255, "ended with exit code 255"),
            (9, 137, "was killed by signal 9 (SIGKILL)"),
            (0x8b, 139, "was killed by signal 11 (SIGSEGV)"),
        ] {
            let status = ExitStatus::from_raw(raw);
            assert_eq!((exit_code(status), ending(status)), (code, words.to_owned()));
        }
        assert_eq!((failed(0), failed(3)), (2, 3));
    }
}
