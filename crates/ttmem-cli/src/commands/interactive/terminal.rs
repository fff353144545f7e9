//! The terminal: entered, drawn on, and always restored.

use std::io::{self, BufWriter, Stdout, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::Show;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Frame;
use ratatui::backend::CrosstermBackend;

/// The buffer for a frame, which is written at once to avoid flicker.
const FRAME: usize = 64 << 10;

/// Whether the terminal is in raw mode. Static, because a panic on any thread must restore it.
static IS_OURS: AtomicBool = AtomicBool::new(false);

/// The terminal in raw mode.
pub(super) struct Terminal {
    drawn: Option<Drawn>,
}

type Drawn = ratatui::Terminal<CrosstermBackend<BufWriter<Stdout>>>;

impl Terminal {
    /// Enters the alternate screen and raw mode.
    pub fn enter() -> io::Result<Self> {
        restore_at_panic();
        enable_raw_mode()?;
        IS_OURS.store(true, Ordering::SeqCst);
        let entered = execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste);
        let out = BufWriter::with_capacity(FRAME, stdout());
        let drawn = entered.and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(out)));
        drawn.map(|drawn| Self { drawn: Some(drawn) }).inspect_err(|_| {
            // The first error is reported.
            let _ = restore();
        })
    }

    /// Draws a frame; only changes are sent.
    pub fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if let Some(drawn) = self.drawn.as_mut().filter(|_| IS_OURS.load(Ordering::SeqCst)) {
            drawn.draw(view)?;
        }
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let drawn = self.drawn.take();
        if restore().is_err() {
            // The terminal is gone. Dropping this would print to standard error, which is also gone, and panic.
            std::mem::forget(drawn);
        }
    }
}

/// Restores the terminal.
fn restore() -> io::Result<()> {
    if !IS_OURS.swap(false, Ordering::SeqCst) {
        return Ok(());
    }
    let left = execute!(stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show);
    disable_raw_mode().and(left)
}

/// Restores the terminal before a panic message is printed, so that it is readable.
fn restore_at_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // If the terminal is gone, there is no way to report it.
            let _ = restore();
            previous(info);
        }));
    });
}
