//! Other commands of ours, as processes: `ttmem serve` in the background, `ttmem run` on the terminal.

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
use super::message::{Answer, Evidence, Left, Message, RunLog};
use crate::again;
use crate::commands::run::{ACCOUNT, Account};
use crate::commands::serve::HOW_TO_STOP;

/// So often it is looked whether a process has ended.
const LOOK_UP: Duration = Duration::from_millis(20);
/// A server that does not stop in so many looks is ended.
const LOOKS: usize = 250;
/// So much of the end of a log is shown.
const END_OF_LOG: u64 = 16 << 10;

/// `ttmem serve`, while it serves.
pub(super) struct Server {
    process: Arc<Process>,
    listeners: Vec<JoinHandle<()>>,
}

struct Process {
    child: Mutex<Child>,
    /// Whether its end is our wish, and nothing to tell.
    is_stopped: AtomicBool,
}

impl Server {
    /// Starts it. What it says comes as messages.
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
                    // On our screen another key does.
                    (line != HOW_TO_STOP).then_some(Answer::ServerSaid { line })
                });
            })
        });
        let on_output = out.map(|out| {
            let (process, sender) = (Arc::clone(&process), sender.clone());
            thread::spawn(move || {
                process.pass_on(out, &sender, |address| Some(Answer::Serving { address }));
                process.tell_the_end(&sender);
            })
        });
        Ok(Self { process, listeners: on_error.into_iter().chain(on_output).collect() })
    }
}

impl Drop for Server {
    /// Stops it, and waits until it has.
    fn drop(&mut self) {
        self.process.is_stopped.store(true, Ordering::SeqCst);
        self.process.stop();
        for listener in self.listeners.drain(..) {
            // One that panicked has said so.
            let _ = listener.join();
        }
    }
}

impl Process {
    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it ended, if it has.
    fn ended(&self) -> Option<ExitStatus> {
        self.child().try_wait().ok().flatten()
    }

    fn send(&self, sender: &Sender<Message>, answer: Answer) {
        if !self.is_stopped.load(Ordering::SeqCst) {
            // Whoever asked may have left meanwhile.
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

    fn tell_the_end(&self, sender: &Sender<Message>) {
        loop {
            if let Some(status) = self.ended() {
                let how = format!("The server {}.", in_words(status));
                return self.send(sender, Answer::ServerEnded { how });
            }
            thread::sleep(LOOK_UP);
        }
    }

    fn stop(&self) {
        if self.ended().is_none() {
            ask_to_end(&self.child());
        }
        for _ in 0..LOOKS {
            if self.ended().is_some() {
                return;
            }
            thread::sleep(LOOK_UP);
        }
        // What does not end by itself is ended; that it has just done so is no error.
        let _ = self.child().kill();
        let _ = self.child().wait();
    }
}

/// Asks a process to end, as `kill` does.
pub(super) fn ask_to_end(child: &Child) {
    // One that has ended just now has done what it was asked.
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
}

/// Starts `ttmem run` on the terminal. Besides the process, the file for its account.
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

/// How a command ended and what it has left behind, by the account of `ttmem run`, which itself ended in some way.
pub(super) fn left_behind(account: &Path, run_ended: &str) -> (String, Left) {
    let Some(account) = Account::read(account) else {
        let how =
            format!("was not started: ttmem run {run_ended}. What it said is on the screen behind this.");
        return (how, Left::Nothing);
    };
    let how = account.ended.unwrap_or_else(|| "ended in a way that is not known".into());
    let stored = account.log.parent().filter(|_| account.is_reported).and_then(Stored::in_folder);
    let left = match stored {
        Some(stored) => Left::Report(Evidence::Report(Box::new(stored))),
        None => {
            let why = account.trouble.unwrap_or_else(|| format!("no report was made: ttmem run {run_ended}"));
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
        // The first line is a whole one only where the log begins.
        Ok(match text.split_once('\n').filter(|_| from > 0) {
            Some((_, rest)) => rest.to_owned(),
            None => text,
        })
    };
    let text = read().unwrap_or_else(|error: io::Error| format!("{} cannot be read: {error}", log.display()));
    // A line that was drawn over and over (a progress bar) becomes several.
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', "    ")
}

/// Stops all of our job until somebody wakes it, as the system does at Ctrl-Z. It goes on at once where nobody could:
/// where no shell leads the terminal that has put us into a group of our own.
pub(super) fn stop_job() {
    let leader = getsid(None).and_then(|leader| getpgid(Some(leader)));
    if leader.is_ok_and(|leader| leader != getpgrp()) {
        // Not TSTP: that is the one that we have caught.
        let _ = kill_current_process_group(Signal::STOP);
    }
}

/// `ended with exit code 3`.
pub(super) fn in_words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        // The system says which signal it was.
        None => format!("was ended ({status})"),
    }
}
