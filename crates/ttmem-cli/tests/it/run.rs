//! `ttmem run` with real programs, pipes, signals and a real terminal.
//!
//! The programs record what they print; the log must equal that record, byte for byte.

#![cfg(unix)]
mod endings;
mod options;
mod output;
mod recordings;
mod signals;
mod terminal;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A folder to run things in, and a home for reports.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `ttmem run` in this folder, without settings that change its behavior.
    fn run(&self) -> Command {
        let mut command = self.ttmem();
        command.arg("run");
        command
    }

    fn ttmem(&self) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("ttmem"));
        command.current_dir(self.folder.path()).env("TTMEM_HOME", self.path("home"));
        for variable in SETTINGS.into_iter().chain(["TTMEM_TRACK", "TTMEM_TRACK_DIR"]) {
            command.env_remove(variable);
        }
        command.stdin(Stdio::null());
        command
    }

    /// `ttmem run print_log.py` with a log of the corpus.
    fn print_log(&self, log: &str, end: &str) -> Command {
        let mut command = self.run();
        command.arg(program("print_log.py")).arg(corpus(log)).arg(self.path("record")).arg(end);
        command
    }

    /// The folders of all runs.
    fn runs(&self) -> Vec<PathBuf> {
        entries(&self.path("logs"))
    }

    /// The log of the only run.
    fn log(&self) -> PathBuf {
        let runs = self.runs();
        let [run] = &runs[..] else { panic!("one run is expected: {runs:?}") };
        let logs: Vec<PathBuf> = entries(run)
            .into_iter()
            .filter(|path| path.extension().is_some_and(|end| end == "log"))
            .collect();
        let [log] = &logs[..] else { panic!("one log is expected: {logs:?}") };
        log.clone()
    }

    /// Asserts that the log equals the program's record.
    #[track_caller]
    fn assert_log_is_record(&self) {
        let (log, record) = (fs::read(self.log()).unwrap(), fs::read(self.path("record")).unwrap());
        assert_same(&log, &record);
    }
}

const SETTINGS: [&str; 6] = [
    "TTMLIR_RUNTIME_LOGGER_LEVEL",
    "TT_RUNTIME_MEMORY_LOG_LEVEL",
    "TTXLA_LOGGER_LEVEL",
    "TTMLIR_RUNTIME_LOGGER_FILE",
    "PYTHONUNBUFFERED",
    "CLICOLOR_FORCE",
];

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log").join(name)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

/// Asserts that bytes are equal; on failure, only the position is shown.
#[track_caller]
fn assert_same(found: &[u8], wanted: &[u8]) {
    let at = found.iter().zip(wanted).position(|(a, b)| a != b);
    let at = at.unwrap_or(found.len().min(wanted.len()));
    assert!(
        found == wanted,
        "{} bytes, expected {}; they differ from byte {at} on: {:?}",
        found.len(),
        wanted.len(),
        String::from_utf8_lossy(&found[at..found.len().min(at + 80)])
    );
}

/// The position of bytes in others.
fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len().max(1)).position(|window| window == wanted)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The page that a run printed: the only line on standard output, and an existing file.
#[track_caller]
fn page(place: &Place, output: &Output) -> PathBuf {
    let printed = text(&output.stdout);
    let path = printed.strip_suffix('\n').unwrap_or_else(|| panic!("no path: {}", text(&output.stderr)));
    assert!(!path.contains('\n'), "more than a path: {printed}");
    let page = place.folder.path().join(path);
    assert!(page.is_file() && path.ends_with("_report.html"), "{path}");
    page
}

/// The summary of a file as JSON, without the names of files.
fn summary(place: &Place, file: &Path) -> serde_json::Value {
    let output = place.ttmem().args(["summary", "--json"]).arg(file).output().unwrap();
    let mut answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["source"] = serde_json::Value::Null;
    answer["ranks"][0]["file"] = serde_json::Value::Null;
    answer
}

/// Starts a command with both of its streams captured.
fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits until a value is available.
#[track_caller]
fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6000 {
        if let Some(found) = found() {
            return found;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("timed out waiting for {what}");
}

/// Waits until a file exists; returns its content.
#[track_caller]
fn until_there(path: &Path) -> String {
    until(&path.display().to_string(), || fs::read_to_string(path).ok())
}

/// A command as a shell command line.
fn line(command: &Command) -> String {
    let quote = |word: &OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', "'\\''"));
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(quote).collect::<Vec<_>>().join(" ")
}

/// The same command in a shell script, which has it in `$@`.
fn in_shell(place: &Place, script: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).arg("sh").arg(command.get_program()).args(command.get_args());
    shell.current_dir(place.folder.path()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}
