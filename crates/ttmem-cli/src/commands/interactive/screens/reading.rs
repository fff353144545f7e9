//! Reading an input: the progress, and a way to cancel.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ttmem::Error;
use ttmem::read::Progress;
use ttmem::report::{percent, size};

use super::no_memory::NoMemory;
use super::result::Answered;
use super::{Next, Note, Report, Scene, Screen};
use crate::commands::interactive::inventory::Inventory;
use crate::commands::interactive::look::{Look, fit, put};
use crate::commands::interactive::message::{Answer, Effect, Input};

const BAR_WIDTH: u64 = 60;

/// The progress of reading an input.
#[derive(Debug)]
pub(in crate::commands::interactive) struct Reading {
    input: Input,
    progress: Arc<Progress>,
}

impl Reading {
    /// Starts reading.
    pub fn of(input: Input) -> Self {
        Self { input, progress: Arc::default() }
    }
}

/// `▓▓▓▓░░░░   45%   123.4 MiB of 274.2 MiB`; only the bytes for a pipe, whose size is unknown.
fn bar(read: u64, all: Option<u64>, width: u16, look: Look) -> Line<'static> {
    let Some(all) = all else { return Line::raw(format!("{} read", size(read))) };
    let figures = format!(" {:>5}   {} of {}", percent(read.min(all), all), size(read), size(all));
    let room = u64::from(width).saturating_sub(figures.chars().count() as u64);
    let cells = room.min(BAR_WIDTH);
    let filled = read.min(all).saturating_mul(cells) / all.max(1);
    let repeat = |cell: &str, count: u64| cell.repeat(usize::try_from(count).unwrap_or(0));
    Line::from(vec![
        Span::styled(repeat("▓", filled), look.good()),
        Span::styled(repeat("░", cells - filled), Look::faint()),
        Span::raw(figures),
    ])
}

fn ended(outcome: ttmem::Result<Box<Report>>) -> Next {
    match outcome {
        Ok(report) => Next::Become(Box::new(Answered::new(*report))),
        Err(error) if lacks_settings(&error) => Next::Become(Box::new(NoMemory::of(&error))),
        Err(error) => Next::Back(Some(Note::bad(in_words(&error)))),
    }
}

/// Whether the log has no memory data because of the settings it was captured with. This includes text without any
/// runtime line.
fn lacks_settings(error: &Error) -> bool {
    match error {
        Error::NoMemoryData { .. } => true,
        Error::UnknownFormat { what, .. } => what.starts_with("text"),
        _ => false,
    }
}

/// The error, and what to do about it.
fn in_words(error: &Error) -> String {
    match error {
        Error::Read { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            format!("{}: not found", path.display())
        }
        Error::Read { path, source } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            format!("{}: permission denied; ask its owner, or run chmod +r", path.display())
        }
        error => error.to_string(),
    }
}

impl Screen for Reading {
    fn title(&self) -> String {
        "reading".into()
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        vec![("Esc", "cancel"), ("q", "quit")]
    }

    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
        put(frame, area, 0, Line::raw(fit(self.input.name(), usize::from(area.width))));
        let (read, all) = (self.progress.read(), self.progress.size());
        put(frame, area, 2, bar(read, all, area.width, scene.look));
        if all.is_some_and(|all| read >= all) {
            put(frame, area, 4, Line::styled("File read; attributing memory to tensors …", Look::faint()));
        }
    }

    fn is_moving(&self) -> bool {
        true
    }

    fn begin(&mut self, _known: &Inventory) -> Option<Effect> {
        Some(Effect::Read { input: self.input.clone(), progress: Arc::clone(&self.progress) })
    }

    fn key(&mut self, key: KeyEvent, _known: &Inventory) -> Next {
        match key.code {
            KeyCode::Esc => Next::Back(Some(Note::said("Reading canceled."))),
            _ => Next::Stay,
        }
    }

    fn answer(&mut self, answer: Answer, _known: &Inventory) -> Next {
        match answer {
            Answer::Read { progress, outcome } if Arc::ptr_eq(&progress, &self.progress) => ended(outcome),
            _ => Next::Stay,
        }
    }

    fn end(&mut self) -> Option<Effect> {
        self.progress.stop();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_shows_bytes_and_percent_and_fits() {
        let look = Look { has_color: false };
        let draw = |read, all, width| bar(read, all, width, look).to_string();
        assert_eq!(draw(512 << 20, Some(1 << 30), 42), "▓▓▓▓▓▓░░░░░░   50%   512.0 MiB of 1.00 GiB");
        assert_eq!(draw(0, Some(1000), 34), "░░░░░░░░░░░░    0%   0 B of 1000 B");
        assert_eq!(draw(5 << 10, None, 40), "5.0 KiB read");
        // A file that grows while it is read.
        assert!(draw(3000, Some(1000), 60).contains("100%   2.9 KiB of 1000 B"));
        for width in 30..200 {
            for read in [0, 1, 999, 1000] {
                assert!(bar(read, Some(1000), width, look).width() <= usize::from(width));
            }
        }
    }
}
