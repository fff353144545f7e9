//! Reading evidence: how far it is, and a way out.

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
use crate::commands::interactive::message::{Answer, Effect, Evidence};

const BAR_WIDTH: u64 = 60;

/// Reading evidence.
#[derive(Debug)]
pub(in crate::commands::interactive) struct Reading {
    evidence: Evidence,
    progress: Arc<Progress>,
}

impl Reading {
    /// Begins to read.
    pub fn of(evidence: Evidence) -> Self {
        Self { evidence, progress: Arc::default() }
    }
}

/// `▓▓▓▓░░░░  45 %   123.4 MiB of 274.2 MiB`; a pipe has no size to compare with.
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

/// Whether it is a log that would have memory data in it, had it been captured with the right settings: also text
/// without any line of the runtime.
fn lacks_settings(error: &Error) -> bool {
    match error {
        Error::NoMemoryData { .. } => true,
        Error::UnknownFormat { what, .. } => what.starts_with("text"),
        _ => false,
    }
}

/// What went wrong, and what to do about it.
fn in_words(error: &Error) -> String {
    match error {
        Error::Read { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            format!("{} is not there", path.display())
        }
        Error::Read { path, source } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            format!("{} may not be read by you: ask its owner, or chmod +r", path.display())
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
        put(frame, area, 0, Line::raw(fit(self.evidence.name(), usize::from(area.width))));
        let (read, all) = (self.progress.read(), self.progress.size());
        put(frame, area, 2, bar(read, all, area.width, scene.look));
        if all.is_some_and(|all| read >= all) {
            put(frame, area, 4, Line::styled("All is read; working out who held the memory.", Look::faint()));
        }
    }

    fn is_moving(&self) -> bool {
        true
    }

    fn begin(&mut self, _known: &Inventory) -> Option<Effect> {
        Some(Effect::Read { evidence: self.evidence.clone(), progress: Arc::clone(&self.progress) })
    }

    fn key(&mut self, key: KeyEvent, _known: &Inventory) -> Next {
        match key.code {
            KeyCode::Esc => Next::Back(Some(Note::said("The reading was cancelled."))),
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
    fn the_bar_says_bytes_and_share_and_fits() {
        let look = Look { has_colour: false };
        let draw = |read, all, width| bar(read, all, width, look).to_string();
        assert_eq!(draw(512 << 20, Some(1 << 30), 42), "▓▓▓▓▓▓░░░░░░  50 %   512.0 MiB of 1.00 GiB");
        assert_eq!(draw(0, Some(1000), 34), "░░░░░░░░░░░░   0 %   0 B of 1000 B");
        assert_eq!(draw(5 << 10, None, 40), "5.0 KiB read");
        // A file that grows while it is read.
        assert!(draw(3000, Some(1000), 60).contains("100 %   2.9 KiB of 1000 B"));
        for width in 30..200 {
            for read in [0, 1, 999, 1000] {
                assert!(bar(read, Some(1000), width, look).width() <= usize::from(width));
            }
        }
    }
}
