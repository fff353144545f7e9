//! What comes in from outside: keys and signals. Each is waited for on a thread, which costs nothing while nothing
//! comes.

use std::io::{self, PipeReader, PipeWriter};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;

use super::message::Message;

/// The shortest time for which keys that were read together are all handed out; with none, only the first is.
const A_MOMENT: Duration = Duration::from_millis(1);
/// All that end or stop a program and that a person may send. Whatever comes, the terminal is left as it was first.
const SIGNALS: [i32; 9] = [SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH];
/// A listener that is in the middle of a key may take a while.
const TRIES: usize = 100;

/// Keys are listened for while this lives. What is typed for another program must not be taken from it.
pub(super) struct Keys {
    /// Closed, it wakes the listener.
    is_wanted: Option<PipeWriter>,
    listener: JoinHandle<()>,
}

impl Keys {
    /// Begins to listen.
    pub fn listen(sender: Sender<Message>) -> io::Result<Self> {
        let (end, is_wanted) = io::pipe()?;
        let listener = thread::spawn(move || {
            if listen(&end, &sender).is_err() {
                // Nobody is at the other end of the terminal any more; nobody is there to be told, if this fails.
                let _ = sender.send(Message::Gone);
            }
        });
        Ok(Self { is_wanted: Some(is_wanted), listener })
    }
}

impl Drop for Keys {
    /// Listens no more.
    fn drop(&mut self) {
        self.is_wanted = None;
        for _ in 0..TRIES {
            if self.listener.is_finished() {
                return;
            }
            thread::sleep(A_MOMENT);
        }
    }
}

/// Listens until the other end of the pipe is closed. It is an error if the terminal is.
fn listen(end: &PipeReader, sender: &Sender<Message>) -> io::Result<()> {
    let terminal = rustix::stdio::stdin();
    loop {
        let mut watched = [PollFd::new(&terminal, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        let [on_terminal, at_end] = watched.map(|watched| watched.revents());
        if !at_end.is_empty() {
            return Ok(());
        }
        if on_terminal.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        while event::poll(A_MOMENT)? {
            if message(event::read()?).is_some_and(|message| sender.send(message).is_err()) {
                return Ok(());
            }
        }
    }
}

fn message(event: Event) -> Option<Message> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(Message::Key(key)),
        Event::Paste(text) => Some(Message::Paste(text)),
        _ => None,
    }
}

/// Watches for signals.
pub(super) fn watch(sender: Sender<Message>) -> io::Result<()> {
    let mut signals = Signals::new(SIGNALS)?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let message = if signal == SIGWINCH { Message::Resized } else { Message::Signal(signal) };
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    Ok(())
}
