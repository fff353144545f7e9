//! `ttmem run`: runs a script or command with the right environment, captures its output, then reports.
//!
//! `launch` starts the command, `folder` creates the output folder, and `capture` copies its output to the log (`log`)
//! and the screen (`screen`) and passes signals on (`signals`). `recordings` finds what the PyTorch tracker wrote. This
//! module combines them and prints the outcome; `account` writes the same for the process that started the run.

mod account;
mod capture;
mod folder;
mod launch;
mod log;
mod recordings;
mod screen;
mod signals;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use clap::Args;
use signal_hook::low_level::signal_name;
use ttmem::model::Profile;
use ttmem::query::{self, DeviceUse, Request};
use ttmem::read::{Options, Seen};
use ttmem::report::files::{page_of, profile_of};
use ttmem::report::{self, Hints, Screen, headline};
use ttmem::store::{Store, Stored, plain_name, write_report};
use ttmem::{Error, Result};

pub(crate) use self::account::{ACCOUNT, Account};
use self::capture::{Captured, capture};
use self::folder::RunFolder;
use self::launch::{Launch, is_tracking_off, recordings_folder};
use self::recordings::Recordings;
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
that crash, are killed or run out of memory also get a report. Prints the path of the page.

Exit codes: the command's, or 128 + n if signal n killed it; 2 if the command succeeded without a report.";

/// `ttmem run`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// Only capture the log; do not write a report.
    #[arg(long)]
    pub log_only: bool,

    /// Create the run's folder here instead of in `./logs`.
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,

    /// Set the name of the run [default: the name of the script or command].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// Script (`.py` files run with `python -u`) or command, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The exit code: the command's, or 2 if the command succeeded but ttmem itself failed.
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
    /// Its profile.
    profile: PathBuf,
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
    let show = match &report.name {
        Some(name) => format!("ttmem show {name}"),
        None => format!("ttmem summary {}", report.profile.display()),
    };
    let (rows, lines) = (format!("`{show} --top N` shows more"), format!("`{show} --full` shows them"));
    let footer = match &report.name {
        Some(_) => {
            let width = show.chars().count();
            format!(
                "\n{show}  prints this summary again\n{:width$}  opens its page in a browser, locally or over SSH",
                "ttmem serve"
            )
        }
        None => format!("\n{show}  prints this summary again"),
    };
    let screen = console::screen_of_notes();
    let below = console::lines_of_note(&format!("{footer}\n{}", report.page.display()));
    let height = screen.height.map(|height| height.saturating_sub(below));
    let hints = Hints { rows: &rows, lines: &lines };
    console::note("");
    console::note_text(&report::text(&report.summary, Screen { height, hints, ..screen }));
    console::note(&footer);
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
    launch.warn_about_settings(folder.path());
    let recordings = Recordings::from_now_on(recordings_folder(folder.path()));
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
    report_ending(&launch, &captured);
    let code = exit_code(captured.status);
    let mut outcome = Outcome { code, log: folder.log(), report: None };
    if let Some(source) = captured.log_error {
        console::complain(&Error::Write { path: folder.log(), source });
        console::say("the log is incomplete; the command was not affected");
        outcome.code = failed(code);
    }
    if !args.log_only {
        match write_and_list(&folder, &name, captured.seen, &recordings) {
            Ok(report) => outcome.report = Some(report),
            Err(error) => {
                console::complain(&error);
                outcome.code = failed(code);
                account.problem = Some(error.to_string());
            }
        }
        account.is_reported = outcome.report.is_some();
        account.write();
    }
    Ok(outcome)
}

/// Prints how the command ended, unless it succeeded, and whether one of its processes is still running.
fn report_ending(launch: &Launch, captured: &Captured) {
    if !captured.status.success() {
        console::say(&format!("{} {}", launch.name(), ending(captured.status)));
    }
    if let Some(others) = &captured.others {
        console::say(&format!(
            "a process that the command started is still running; its further output {others}"
        ));
    }
}

/// Reads the log or the recording, writes the report to the run's folder and adds it to the list.
fn write_and_list(folder: &RunFolder, name: &str, seen: Seen, recordings: &Recordings) -> Result<Reported> {
    let log = folder.log().display().to_string();
    let (mut profile, source) = input(folder, seen, recordings)?;
    write_report(&mut profile, Some(&source), folder.path(), name)?;
    for warning in &profile.warnings {
        console::warning(&profile.source.file, warning.line, &warning.message);
    }
    let listed = Store::from_env().and_then(|store| store.register(folder.path()));
    if let Err(error) = &listed {
        console::warning(&log, None, &format!("this run is not in `ttmem list`: {error}"));
    }
    if let Some(stored) = Stored::in_folder(folder.path()) {
        let what = headline(stored.peak.as_ref(), stored.oom_headline.as_deref());
        let recording =
            if source == folder.log() { String::new() } else { format!("\nrecording: {}", source.display()) };
        console::note(format!("{what}{recording}\nlog: {log}").trim_start());
    }
    let summary = query::summary(std::slice::from_ref(&profile), &Request::default())?;
    let [page, profile] = [page_of(name), profile_of(name)].map(|file| folder.path().join(file));
    Ok(Reported { page, name: listed.ok().map(|stored| stored.name), profile, summary })
}

/// The input of the report, and its file: the log if the program printed device memory, otherwise a recording if there is
/// one. A recording has more detail than anything else that a program prints about its memory.
fn input(folder: &RunFolder, seen: Seen, recordings: &Recordings) -> Result<(Profile, PathBuf)> {
    let log = folder.log();
    // The log may start with arbitrary bytes, so the format comes from the captured output; it is never compressed.
    let format = seen.dram.map(|_| "tt_log".to_owned());
    let options = Options { format, is_plain: true, ..Options::default() };
    let open_log = || reading::open_with(&log.to_string_lossy(), options);
    let recording = if seen.dram.is_some() { None } else { recordings.main() };
    match recording {
        None => {
            let profile = open_log().map_err(|error| explained(error, &log))?;
            Ok((profile, log))
        }
        Some(recording) if recording.used.accelerator > 0 => Ok((recording.profile, recording.path)),
        // Any output may look like another format, so errors do not matter.
        Some(recording) => match open_log() {
            Ok(profile) if uses_accelerator(&profile) => Ok((profile, log)),
            _ => Ok((recording.profile, recording.path)),
        },
    }
}

/// Whether a log has the memory of an accelerator, or an error about it.
fn uses_accelerator(profile: &Profile) -> bool {
    query::summary(std::slice::from_ref(profile), &Request::default()).is_ok_and(|summary| {
        DeviceUse::of(&summary).accelerator > 0 || summary.ranks.iter().any(|rank| rank.oom.is_some())
    })
}

/// The exit code of files without memory data.
const NO_DATA: u8 = 4;

/// Explains a log without runtime output. ttmem has set the variables, so the cause is the build or the command.
fn explained(error: Error, log: &Path) -> Error {
    if !matches!(error, Error::Empty { .. } | Error::UnknownFormat { .. }) {
        return error;
    }
    let pytorch = if is_tracking_off() {
        "for PyTorch, unset TTMEM_TRACK: 0 disables the tracker"
    } else {
        "for PyTorch, run `pip install ttmem` in the program's environment"
    };
    Error::NoMemoryData {
        file: log.display().to_string(),
        message: format!(
            "no output from the Tenstorrent runtime and no PyTorch recording; for Tenstorrent, use a debug build \
             (-DCMAKE_BUILD_TYPE=Debug -DTT_RUNTIME_DEBUG=ON); {pytorch} (see \
             https://github.com/ttmem/ttmem/blob/main/docs/capturing.md)"
        ),
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
