//! Other commands of ours, as processes: `ttmem serve` in the background, `ttmem run` on the terminal.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::message::{Answer, Message};
use super::words::CommandLine;

/// So often it is looked whether a process has ended.
const LOOK_UP: Duration = Duration::from_millis(20);
/// A server that does not stop in so many looks is ended.
const LOOKS: usize = 250;

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
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--no-open"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let process = Arc::new(Process { child: Mutex::new(child), is_stopped: AtomicBool::new(false) });
        let on_error = err.map(|err| {
            let (process, sender) = (Arc::clone(&process), sender.clone());
            thread::spawn(move || process.pass_on(err, &sender, |line| Answer::ServerSaid { line }))
        });
        let on_output = out.map(|out| {
            let (process, sender) = (Arc::clone(&process), sender.clone());
            thread::spawn(move || {
                process.pass_on(out, &sender, |address| Answer::Serving { address });
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

    fn pass_on(&self, stream: impl Read, sender: &Sender<Message>, answer: impl Fn(String) -> Answer) {
        for line in BufReader::new(stream).lines() {
            match line {
                Ok(line) => self.send(sender, answer(line)),
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

/// Starts `ttmem run` on the terminal.
pub(super) fn run(command: &CommandLine) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["run", "--"])
        .args(&command.words)
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .spawn()
}

/// `ended with exit code 3`.
pub(super) fn in_words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        // The system says which signal it was.
        None => format!("was ended ({status})"),
    }
}
