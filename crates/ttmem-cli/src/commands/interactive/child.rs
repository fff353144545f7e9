//! Child processes: `ttmem serve` in the background, `ttmem run` on the terminal.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgid, getpgrp, getsid, kill_current_process_group, kill_process};
use tempfile::TempPath;
use ttmem::store::Stored;

use super::command_line::CommandLine;
use super::message::{Answer, Input, Left, Message, RunLog};
use crate::again;
use crate::commands::run::{ACCOUNT, Account};
use crate::commands::serve::HOW_TO_STOP;

/// The interval of polling a process for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The number of polls after which a server that does not stop is killed.
const MAX_POLLS: usize = 250;
/// The number of bytes shown from the end of a log.
const END_OF_LOG: u64 = 16 << 10;

/// A running `ttmem serve`.
pub(super) struct Server {
    process: Arc<Process>,
    listeners: Vec<JoinHandle<()>>,
}

struct Process {
    child: Mutex<Child>,
    /// Whether it was stopped on purpose, so that its end is not reported.
    is_stopped: AtomicBool,
}

impl Server {
    /// Starts the server. Its output arrives as messages.
    pub fn start(sender: &Sender<Message>) -> io::Result<Self> {
        let mut child = again::command()?
            .args(["serve", "--no-open"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let process = Arc::new(Process { child: Mutex::new(child), is_stopped: AtomicBool::new(false) });
        let on_error = err.map(|err| {
            let (process, sender) = (Arc::clone(&process), sender.clone());
            thread::spawn(move || {
                process.pass_on(err, &sender, |line| {
                    // The screen has another key for that.
                    (line != HOW_TO_STOP).then_some(Answer::ServerSaid { line })
                });
            })
        });
        let on_output = out.map(|out| {
            let (process, sender) = (Arc::clone(&process), sender.clone());
            thread::spawn(move || {
                process.pass_on(out, &sender, |address| Some(Answer::Serving { address }));
                process.report_end(&sender);
            })
        });
        Ok(Self { process, listeners: on_error.into_iter().chain(on_output).collect() })
    }
}

impl Drop for Server {
    /// Stops the server and waits for its end.
    fn drop(&mut self) {
        self.process.is_stopped.store(true, Ordering::SeqCst);
        self.process.stop();
        for listener in self.listeners.drain(..) {
            // A panic was already reported.
            let _ = listener.join();
        }
    }
}

impl Process {
    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The exit status, if it has ended.
    fn ended(&self) -> Option<ExitStatus> {
        self.child().try_wait().ok().flatten()
    }

    fn send(&self, sender: &Sender<Message>, answer: Answer) {
        if !self.is_stopped.load(Ordering::SeqCst) {
            // The session may have ended meanwhile.
            let _ = sender.send(Message::Answer(answer));
        }
    }

    fn pass_on(
        &self,
        stream: impl Read,
        sender: &Sender<Message>,
        answer: impl Fn(String) -> Option<Answer>,
    ) {
        for line in BufReader::new(stream).lines() {
            match line {
                Ok(line) => {
                    if let Some(answer) = answer(line) {
                        self.send(sender, answer);
                    }
                }
                Err(_) => return,
            }
        }
    }

    fn report_end(&self, sender: &Sender<Message>) {
        loop {
            if let Some(status) = self.ended() {
                let how = format!("The server {}.", in_words(status));
                return self.send(sender, Answer::ServerEnded { how });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn stop(&self) {
        if self.ended().is_none() {
            ask_to_end(&self.child());
        }
        for _ in 0..MAX_POLLS {
            if self.ended().is_some() {
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
        // Kill a server that did not stop; it may also have just ended.
        let _ = self.child().kill();
        let _ = self.child().wait();
    }
}

/// Sends SIGTERM to a process.
pub(super) fn ask_to_end(child: &Child) {
    // It may have just ended.
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
}

/// Starts `ttmem run` on the terminal. Returns the process and the file for its account.
pub(super) fn run(command: &CommandLine) -> io::Result<(Child, TempPath)> {
    let account = tempfile::NamedTempFile::new()?.into_temp_path();
    let child = again::command()?
        .args(["run", "--"])
        .args(&command.words)
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .env(ACCOUNT, &account)
        .spawn()?;
    Ok((child, account))
}

/// How a command ended and what it left behind, from the account of `ttmem run`, which itself ended as `run_ended`
/// says.
pub(super) fn left_behind(account: &Path, run_ended: &str) -> (String, Left) {
    let Some(account) = Account::read(account) else {
        let how = format!("was not started: ttmem run {run_ended}. Quit to see its output.");
        return (how, Left::Nothing);
    };
    let how = account.ended.unwrap_or_else(|| "ended with an unknown status".into());
    let stored = account.log.parent().filter(|_| account.is_reported).and_then(Stored::in_folder);
    let left = match stored {
        Some(stored) => Left::Report(Input::Report(Box::new(stored))),
        None => {
            let why = account.problem.unwrap_or_else(|| format!("no report: ttmem run {run_ended}"));
            Left::Log(RunLog { why, end: end_of(&account.log) })
        }
    };
    (how, left)
}

/// The last lines of a log.
fn end_of(log: &Path) -> String {
    let read = || {
        let mut file = File::open(log)?;
        let from = file.metadata()?.len().saturating_sub(END_OF_LOG);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(END_OF_LOG).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // The first line is complete only at the start of the log.
        Ok(match text.split_once('\n').filter(|_| from > 0) {
            Some((_, rest)) => rest.to_owned(),
            None => text,
        })
    };
    let text = read().unwrap_or_else(|error: io::Error| format!("cannot read {}: {error}", log.display()));
    // A line that was redrawn (a progress bar) becomes several.
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ")
}

/// Stops the whole job until it is continued, as Ctrl-Z does. Does nothing if no shell could continue it: if ttmem is
/// in the process group of the session leader.
pub(super) fn stop_job() {
    let leader = getsid(None).and_then(|leader| getpgid(Some(leader)));
    if leader.is_ok_and(|leader| leader != getpgrp()) {
        // Not TSTP, which has a handler.
        let _ = kill_current_process_group(Signal::STOP);
    }
}

/// `ended with exit code 3`.
pub(super) fn in_words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        // `status` names the signal.
        None => format!("was terminated ({status})"),
    }
}
