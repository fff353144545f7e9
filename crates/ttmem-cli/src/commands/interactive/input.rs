//! What comes in from outside: keys, signals, and the end of the terminal. Each is waited for on a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossterm::event::{self, Event, KeyEventKind};

use super::message::Message;

/// So often the listener looks whether it is still wanted.
const LOOK_UP: Duration = Duration::from_millis(50);
/// A listener that is in the middle of a key may take a while.
const TRIES: usize = 20;

/// Keys are listened for while this lives. What is typed for another program must not be taken from it.
pub(super) struct Keys {
    is_over: Arc<AtomicBool>,
    listener: JoinHandle<()>,
}

impl Keys {
    /// Begins to listen.
    pub fn listen(sender: Sender<Message>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let listener = thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                match event::poll(LOOK_UP).and_then(|is_there| is_there.then(event::read).transpose()) {
                    Ok(None) => {}
                    Ok(Some(event)) => {
                        if message(event).is_some_and(|message| sender.send(message).is_err()) {
                            return;
                        }
                    }
                    Err(_) => {
                        let _ = sender.send(Message::Gone);
                        return;
                    }
                }
            }
        });
        Self { is_over, listener }
    }

    /// Listens no more.
    pub fn stop(self) {
        self.is_over.store(true, Ordering::SeqCst);
        for _ in 0..TRIES {
            if self.listener.is_finished() {
                return;
            }
            thread::sleep(LOOK_UP / 4);
        }
    }
}

fn message(event: Event) -> Option<Message> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(Message::Key(key)),
        Event::Paste(text) => Some(Message::Paste(text)),
        Event::Resize(..) => Some(Message::Resized),
        _ => None,
    }
}

/// Watches for signals, and for the end of the terminal.
#[cfg(unix)]
pub(super) fn watch(sender: &Sender<Message>) -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};

    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM, SIGWINCH])?;
    let to_session = sender.clone();
    thread::spawn(move || {
        for signal in signals.forever() {
            // The listener for keys tells of sizes, too, but not before it has begun.
            let message = if signal == SIGWINCH { Message::Resized } else { Message::Signal(signal) };
            if to_session.send(message).is_err() {
                return;
            }
        }
    });
    let to_session = sender.clone();
    thread::spawn(move || {
        wait_for_hangup();
        // Nobody is there to be told, if this fails.
        let _ = to_session.send(Message::Gone);
    });
    Ok(())
}

/// Returns when nobody is at the other end of the terminal any more. A reader of keys would not notice.
#[cfg(unix)]
fn wait_for_hangup() {
    use rustix::event::{PollFd, PollFlags, poll};

    let terminal = rustix::stdio::stdin();
    loop {
        // Nothing is asked for; a hangup is always told.
        let mut watched = [PollFd::new(&terminal, PollFlags::empty())];
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) | Ok(0) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

#[cfg(not(unix))]
pub(super) fn watch(_sender: &Sender<Message>) -> std::io::Result<()> {
    Ok(())
}
