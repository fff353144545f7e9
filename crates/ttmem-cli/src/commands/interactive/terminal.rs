//! The terminal: taken over, drawn on, and left as it was, whatever happens.

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

/// A frame goes out in one piece, so that nothing flickers.
const FRAME: usize = 64 << 10;

/// Whether the terminal is in our state. A panic on any thread must know.
static IS_OURS: AtomicBool = AtomicBool::new(false);

/// The terminal, while it is ours.
pub(super) struct Terminal {
    drawn: Option<Drawn>,
}

type Drawn = ratatui::Terminal<CrosstermBackend<BufWriter<Stdout>>>;

impl Terminal {
    /// Takes the terminal over.
    pub fn enter() -> io::Result<Self> {
        restore_at_panic();
        enable_raw_mode()?;
        IS_OURS.store(true, Ordering::SeqCst);
        let entered = execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All), EnableBracketedPaste);
        let out = BufWriter::with_capacity(FRAME, stdout());
        let drawn = entered.and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(out)));
        drawn.map(|drawn| Self { drawn: Some(drawn) }).inspect_err(|_| {
            // One error is enough.
            let _ = restore();
        })
    }

    /// Draws a frame; only what has changed is sent.
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
            // The terminal is gone. Dropped, this would complain on standard error, which is gone, too, and panic.
            std::mem::forget(drawn);
        }
    }
}

/// Leaves the terminal as it was.
fn restore() -> io::Result<()> {
    if !IS_OURS.swap(false, Ordering::SeqCst) {
        return Ok(());
    }
    let left = execute!(stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show);
    disable_raw_mode().and(left)
}

/// What a panic says must be readable: it comes after the terminal is as it was.
fn restore_at_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Where the terminal is gone, there is nobody to tell.
            let _ = restore();
            usual(info);
        }));
    });
}
