//! `ttmem run`: runs a script or command with the right environment, captures its output, then reports.
//!
//! `launch` knows what is started and how, `folder` where things go, `capture` is what happens while it runs: from
//! the pipe into the log (`log`) and onto the screen (`screen`), and signals (`signals`) to the command. Here is the
//! order of all this, and what is said in the end; `account` says the same to a process that wants to know.

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
use ttmem::read::{Options, Seen};
use ttmem::report::{files::page_of, headline};
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
  ttmem run model.py --batch 4             under `python -u`, into ./logs/model_20261115_081250
  ttmem run -- pytest -s tests/test_x.py   any command
  ttmem run -q model.py                    without its output: a line that counts
  ttmem run --log-only model.py            the log alone; `ttmem report` makes its report later
  ttmem run --output-dir /data model.py    the folder goes there instead of ./logs

What stands behind the command is the command's. The log is written while it runs; a run that
crashes, is killed or runs out of memory is reported all the same. It prints where the page is.

Exit codes: the command's own, 128 + n if signal n killed it; 2 if that is 0 and there is no report.";

/// `ttmem run`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// Stop after capturing the log.
    #[arg(long)]
    pub log_only: bool,

    /// Where the folder of the run goes, instead of `./logs`.
    #[arg(long, value_name = "DIR")]
    pub output_dir: Option<PathBuf>,

    /// The name of the run, instead of the script's.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,

    /// A script (`.py` runs under `python -u`) or a command, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The exit code: the command's own, or 2 where that was 0 and something of ours failed.
    pub code: u8,
    /// The log.
    pub log: PathBuf,
    /// The page, where there is a report.
    pub page: Option<PathBuf>,
}

/// Runs the command and prints where its page is (or its log); the exit code is the command's.
pub(crate) fn run(args: &Run) -> Result<u8> {
    let outcome = run_and_report(args)?;
    let result = if args.log_only { Some(&outcome.log) } else { outcome.page.as_ref() };
    let Some(path) = result else { return Ok(outcome.code) };
    match console::print(|out| writeln!(out, "{}", path.display())) {
        Ok(()) => Ok(outcome.code),
        Err(error) => {
            console::complain(&error);
            Ok(failed(outcome.code))
        }
    }
}

/// Runs the command, says on standard error what came of it, and returns where things are.
///
/// An error means that the command was not run at all.
pub(crate) fn run_and_report(args: &Run) -> Result<Outcome> {
    let launch = Launch::of(&args.command)?;
    let name = plain_name(args.name.as_deref().unwrap_or(launch.name()));
    let signals = Signals::hold()?;
    let parent = args.output_dir.as_deref().unwrap_or(Path::new("logs"));
    if parent.to_str().is_none() {
        return Err(Error::Usage("the name of --output-dir is no UTF-8".into()));
    }
    let (folder, log) = RunFolder::create(parent, &name)?;
    launch.say_settings();
    console::note(&format!("capturing into {}", folder.log().display()));
    let (child, output) = match launch.start() {
        Ok(started) => started,
        Err(error) => {
            folder.undo();
            return Err(error);
        }
    };
    let mut account = Account::of(folder.log());
    account.tell();
    let captured = capture(child, output, log, signals)?;
    account.ended = Some(ending(captured.status));
    account.tell();
    if !captured.status.success() {
        console::say(&format!("{} {}", launch.name(), ending(captured.status)));
    }
    if let Some(others) = captured.others {
        console::say(&format!(
            "something that the command started still runs; what it prints from now on {others}"
        ));
    }
    let code = exit_code(captured.status);
    let mut outcome = Outcome { code, log: folder.log(), page: None };
    if let Some(source) = captured.log_error {
        console::complain(&Error::Write { path: folder.log(), source });
        console::say("the log ends there; the command was not disturbed");
        outcome.code = failed(code);
    }
    if !args.log_only {
        match report(&folder, &name, captured.seen) {
            Ok(page) => {
                outcome.page = Some(page);
                account.is_reported = true;
            }
            Err(error) => {
                console::complain(&error);
                outcome.code = failed(code);
                account.trouble = Some(error.to_string());
            }
        }
        account.tell();
    }
    Ok(outcome)
}

/// Reads the log, writes the report beside it and puts it on the list; returns where the page is.
fn report(folder: &RunFolder, name: &str, seen: Seen) -> Result<PathBuf> {
    let log = folder.log().display().to_string();
    // A log that begins with bytes of others is known by what was seen in it; and we have not packed it.
    let format = seen.dram.map(|_| "tt_log".to_owned());
    let options = Options { format, is_plain: true, ..Options::default() };
    let mut profile = reading::open_with(&log, options).map_err(|error| explained(error, &log))?;
    write_report(&mut profile, Some(&folder.log()), folder.path(), name)?;
    for warning in &profile.warnings {
        console::warning(&log, warning.line, &warning.message);
    }
    if let Err(error) = Store::from_env().and_then(|store| store.register(folder.path())) {
        console::warning(&log, None, &format!("`ttmem list` will not have this run: {error}"));
    }
    if let Some(stored) = Stored::in_folder(folder.path()) {
        let what = headline(stored.peak.as_ref(), stored.oom_headline.as_deref());
        console::note(format!("{what} The log is {log}").trim_start());
    }
    Ok(folder.path().join(page_of(name)))
}

/// What is wrong where a command printed nothing that the runtime prints: the settings are right, so it is the build.
fn explained(error: Error, log: &str) -> Error {
    match error {
        Error::Empty { .. } | Error::UnknownFormat { .. } => Error::NoMemoryData {
            file: log.to_owned(),
            message: "the command printed no line of the Tenstorrent runtime. Did it run a model on a device, with a \
                      debug build (-DCMAKE_BUILD_TYPE=Debug -DTT_RUNTIME_DEBUG=ON)? See https://github.com/ttmem/ttmem/blob/main/docs/capturing.md"
                .to_owned(),
        },
        other => other,
    }
}

/// The command's own exit code, as shells tell it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The exit code where something of ours failed: the command's own comes first.
fn failed(code: u8) -> u8 {
    if code == 0 { 2 } else { code }
}

/// How a command ended, in words.
fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => {
            format!("was killed by signal {signal} ({})", signal_name(signal).unwrap_or("of no name"))
        }
        (None, None) => "ended in a way that is not known".to_owned(),
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
