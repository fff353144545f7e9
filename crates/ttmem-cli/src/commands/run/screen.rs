//! The output of a run: the command's output as it is printed and, on a terminal, a status line below it.
//!
//! A separate thread writes to standard error, so a stopped terminal (or a reader that stopped reading) blocks neither
//! the log nor signals. The caller limits how much may be queued, see [`Screen::has_room`].
//!
//! The status line is drawn only while the output is at the start of a line, and erased before more is written. Nothing
//! else on the terminal is changed.

use std::io::{self, IsTerminal, Stderr, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use anstyle::{AnsiColor, Style};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

/// The number of bytes that may be queued.
const MAX_WAITING: usize = 1 << 20;

const STATUS: Style = AnsiColor::Cyan.on_default();

/// An entry of the queue: the output as is, or a status line that the next entry replaces.
enum Shown {
    Output(Vec<u8>),
    Live(String),
}

/// The screen of a run, on standard error.
#[derive(Debug)]
pub(super) struct Screen {
    shows_output: bool,
    shows_live: bool,
    sender: Option<Sender<Shown>>,
    waiting: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    /// Standard error, without the output if `quiet`, and with a status line if it is a terminal.
    pub fn new(quiet: bool) -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let waiting = Arc::new(AtomicUsize::new(0));
        let shown = Arc::clone(&waiting);
        let (sender, receiver) = channel();
        let thread = thread::Builder::new().name("screen".into());
        // If no thread can be started, nothing is shown; the log is more important.
        let thread = thread.spawn(move || write_all(&receiver, &shown)).ok();
        let is_there = thread.is_some();
        Self {
            shows_output: is_there && !quiet,
            shows_live: is_there && !is_dumb && io::stderr().is_terminal(),
            sender: Some(sender),
            waiting,
            thread,
        }
    }

    /// Whether the queue has room; a command that prints faster than it can be shown has to wait, as on any terminal.
    pub fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Acquire) < MAX_WAITING
    }

    /// Shows the command's output.
    pub fn show(&self, bytes: &[u8]) {
        if self.shows_output {
            self.waiting.fetch_add(bytes.len(), Ordering::AcqRel);
            self.send(Shown::Output(bytes.to_vec()));
        }
    }

    /// Shows the status line, if there is a terminal for it.
    pub fn live(&self, text: impl FnOnce() -> String) {
        if self.shows_live && self.has_room() {
            self.send(Shown::Live(text()));
        }
    }

    fn send(&self, shown: Shown) {
        if let Some(sender) = &self.sender {
            // The thread outlives the sender.
            let _ = sender.send(shown);
        }
    }
}

impl Drop for Screen {
    /// Waits until everything is shown.
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Shows everything that is sent until the sender is dropped.
fn write_all(receiver: &Receiver<Shown>, waiting: &AtomicUsize) {
    let mut lines = Lines::new(Terminal::new());
    for shown in receiver {
        match shown {
            Shown::Output(bytes) => {
                lines.output(&bytes);
                waiting.fetch_sub(bytes.len(), Ordering::AcqRel);
            }
            Shown::Live(text) => {
                let line = lines.out.fit(&text);
                lines.live(line);
            }
        }
    }
    lines.end();
}

/// The output, and the status line below it.
struct Lines<W> {
    out: W,
    /// The status line, drawn whenever the output is at the start of a line.
    live: Option<Vec<u8>>,
    is_drawn: bool,
    at_line_start: bool,
    /// Each change is written at once to avoid flicker.
    piece: Vec<u8>,
}

impl<W: Write> Lines<W> {
    fn new(out: W) -> Self {
        Self { out, live: None, is_drawn: false, at_line_start: true, piece: Vec::new() }
    }

    fn output(&mut self, bytes: &[u8]) {
        self.erase();
        self.piece.extend_from_slice(bytes);
        self.at_line_start = bytes.last().map_or(self.at_line_start, |last| *last == b'\n');
        self.draw();
        self.write();
    }

    /// Sets the status line; `None` removes it.
    fn live(&mut self, line: Option<Vec<u8>>) {
        self.erase();
        self.live = line;
        self.draw();
        self.write();
    }

    /// Removes the status line and leaves the cursor at the start of a line.
    fn end(&mut self) {
        self.erase();
        if !self.at_line_start {
            self.piece.push(b'\n');
        }
        self.write();
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            // Typed text is echoed over the line, so return to its start first.
            self.piece.extend_from_slice(b"\r\x1b[K");
        }
    }

    fn draw(&mut self) {
        if let Some(line) = self.live.as_ref().filter(|_| self.at_line_start) {
            // Save and restore the output's cursor and colors.
            self.piece.extend_from_slice(b"\x1b7\x1b[0m");
            self.piece.extend_from_slice(line);
            self.piece.extend_from_slice(b"\x1b8");
            self.is_drawn = true;
        }
    }

    fn write(&mut self) {
        // If standard error is closed, there is no way to report it; the log is complete.
        let _ = self.out.write_all(&self.piece);
        self.piece.clear();
    }
}

/// Standard error. After a failure, further output is discarded.
struct Terminal {
    stream: Stderr,
    is_gone: bool,
    color: bool,
}

impl Terminal {
    fn new() -> Self {
        let stream = io::stderr();
        let color = anstream::AutoStream::choice(&stream) != anstream::ColorChoice::Never;
        Self { stream, is_gone: false, color }
    }

    /// A line that fits the terminal; `None` while another job is in the foreground.
    fn fit(&self, text: &str) -> Option<Vec<u8>> {
        let in_front = tcgetpgrp(&self.stream).is_ok_and(|group| group == getpgrp());
        let (width, _) = terminal_size::terminal_size_of(&self.stream).filter(|_| in_front)?;
        // Some terminals start a new line after the last column.
        let text: String = text.chars().take(usize::from(width.0).saturating_sub(1)).collect();
        Some(if self.color { format!("{STATUS}{text}{STATUS:#}") } else { text }.into_bytes())
    }

    fn wait_for_room(&self) {
        let mut fds = [PollFd::new(&self.stream, PollFlags::OUT)];
        let _ = poll(&mut fds, None);
    }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_gone {
            return Ok(bytes.len());
        }
        match self.stream.write(bytes) {
            Ok(written) if written > 0 => Ok(written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            // Another process made the shared stream non-blocking; wait for it here.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.wait_for_room();
                Err(io::ErrorKind::Interrupted.into())
            }
            Ok(_) | Err(_) => {
                self.is_gone = true;
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::*;

    /// A terminal with the result.
    fn terminal(play: impl FnOnce(&mut Lines<Vec<u8>>)) -> vt100::Parser {
        let mut lines = Lines::new(Vec::new());
        play(&mut lines);
        let size = |cells| NonZero::new(cells).unwrap();
        let mut terminal = vt100::Parser::new(size(10), size(40), 0);
        // A terminal turns a line feed into a carriage return and a line feed.
        for byte in lines.out {
            terminal.process(if byte == b'\n' { b"\r\n" } else { std::slice::from_ref(&byte) });
        }
        terminal
    }

    fn seen(play: impl FnOnce(&mut Lines<Vec<u8>>)) -> String {
        terminal(play).screen().contents().trim_end().to_owned()
    }

    #[test]
    fn the_status_line_is_below_the_output() {
        let play = |lines: &mut Lines<Vec<u8>>| {
            lines.output(b"one\n");
            lines.live(Some(b"counting 1".to_vec()));
            lines.output(b"two\nthree\n");
            lines.live(Some(b"count 2".to_vec()));
        };
        assert_eq!(seen(play), "one\ntwo\nthree\ncount 2");
    }

    #[test]
    fn the_status_line_waits_for_the_end_of_a_line() {
        let play = |lines: &mut Lines<Vec<u8>>| {
            lines.live(Some(b"counting".to_vec()));
            lines.output(b"half");
            lines.live(Some(b"counting on".to_vec()));
        };
        assert_eq!(seen(play), "half");
        let more = |lines: &mut Lines<Vec<u8>>| {
            play(lines);
            lines.output(b" of it\n");
        };
        assert_eq!(seen(more), "half of it\ncounting on");
    }

    #[test]
    fn the_status_line_is_removed_completely() {
        let play = |lines: &mut Lines<Vec<u8>>| {
            lines.output(b"one\n");
            lines.live(Some(b"counting".to_vec()));
            lines.output(b"two");
            lines.end();
            lines.out.extend_from_slice(b"next");
        };
        assert_eq!(seen(play), "one\ntwo\nnext");
        let quiet = |lines: &mut Lines<Vec<u8>>| {
            lines.live(Some(b"counting".to_vec()));
            lines.end();
            lines.out.extend_from_slice(b"$");
        };
        assert_eq!(seen(quiet), "$");
    }

    #[test]
    fn colors_of_the_output_continue_after_the_status_line() {
        let terminal = terminal(|lines| {
            lines.output(b"\x1b[31mred\n");
            lines.live(Some(b"plain".to_vec()));
            lines.output(b"still red\n");
        });
        let color = |row| terminal.screen().cell(row, 0).unwrap().fgcolor();
        assert_eq!((color(1), color(2)), (vt100::Color::Idx(1), vt100::Color::Default));
    }

    #[test]
    fn without_a_status_line_bytes_are_unchanged() {
        let mut lines = Lines::new(Vec::new());
        for piece in [&b"\xff\x00"[..], b"", b"a\r\n", b"\x1b[", b"K"] {
            lines.output(piece);
        }
        assert_eq!(lines.out, b"\xff\x00a\r\n\x1b[K");
    }
}
