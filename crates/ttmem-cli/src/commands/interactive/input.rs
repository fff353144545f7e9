//! Keys and signals. A thread waits for each, without polling.

use std::io::{self, PipeReader, PipeWriter};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;

use super::message::Message;

/// The shortest timeout that returns all keys that were read together; with a timeout of zero, only the first is
/// returned.
const A_MOMENT: Duration = Duration::from_millis(1);
/// How often to ask for further keys after input, and how long to wait in between.
const LOOKS: usize = 5;
const BETWEEN_LOOKS: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// The signals that end or stop a program, and SIGWINCH. The terminal is restored before they take effect.
const SIGNALS: [i32; 9] = [SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH];
/// How often to check whether the listener has ended; it may be in the middle of a key.
const TRIES: usize = 100;

/// Listens for keys until dropped, so that keys typed for another program are not consumed.
pub(super) struct Keys {
    /// Closing it wakes the listener.
    stop: Option<PipeWriter>,
    listener: JoinHandle<()>,
}

impl Keys {
    /// Starts listening.
    pub fn listen(sender: Sender<Message>) -> io::Result<Self> {
        let (end, stop) = io::pipe()?;
        let listener = thread::spawn(move || {
            if listen(&end, &sender).is_err() {
                // The terminal is gone. If the session has also ended, there is nothing to report.
                let _ = sender.send(Message::Gone);
            }
        });
        Ok(Self { stop: Some(stop), listener })
    }
}

impl Drop for Keys {
    /// Stops listening.
    fn drop(&mut self) {
        self.stop = None;
        for _ in 0..TRIES {
            if self.listener.is_finished() {
                return;
            }
            thread::sleep(A_MOMENT);
        }
    }
}

/// Listens until the other end of the pipe is closed. A closed terminal is an error.
///
/// If this thread is interrupted for longer than a moment, crossterm keeps keys that it has read already, and the terminal has
/// nothing more to read. So after input, it is asked again a few times.
fn listen(end: &PipeReader, sender: &Sender<Message>) -> io::Result<()> {
    let terminal = rustix::stdio::stdin();
    let mut looks = 0_usize;
    loop {
        let mut watched = [PollFd::new(&terminal, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        match poll(&mut watched, (looks > 0).then_some(&BETWEEN_LOOKS)) {
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
        looks = if on_terminal.is_empty() { looks.saturating_sub(1) } else { LOOKS };
        while event::poll(A_MOMENT)? {
            looks = LOOKS;
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
