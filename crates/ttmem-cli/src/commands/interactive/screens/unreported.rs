//! A run without a report: how the command ended, why there is no report, and the end of its log, which often has the
//! reason.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::path::PathPrompt;
use super::{Next, Scene, Screen};
use crate::commands::interactive::inventory::Inventory;
use crate::commands::interactive::look::{Look, output_lines, put, wrap};
use crate::commands::interactive::message::RunLog;
use crate::commands::interactive::scroll::Scroll;

/// A run without a report.
#[derive(Debug)]
pub(in crate::commands::interactive) struct Unreported {
    how: String,
    log: RunLog,
    scroll: Scroll,
}

impl Unreported {
    /// The screen for how a command ended, and its log.
    pub fn of(how: String, log: RunLog) -> Self {
        Self { how, log, scroll: Scroll::at_the_end() }
    }

    /// The lines above the log.
    fn head(&self, width: usize, look: Look) -> Vec<Line<'static>> {
        let styled =
            |text: &str, style| wrap(text, width).into_iter().map(move |line| Line::styled(line, style));
        let is_silent = self.log.end.is_empty();
        let heading = if is_silent { "The command printed nothing." } else { "The end of its output:" };
        let how = styled(&self.how, Look::strong());
        let why = styled(&self.log.why, look.warning());
        how.chain(why).chain([Line::default()]).chain(styled(heading, Look::plain())).collect()
    }
}

impl Screen for Unreported {
    fn title(&self) -> String {
        "no report for this run".into()
    }

    fn status(&self, _known: &Inventory) -> String {
        self.scroll.status()
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        vec![("Esc", "back to the command"), ("↑↓", "scroll"), ("l", "choose a log"), ("q", "quit")]
    }

    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
        let width = usize::from(area.width);
        let mut head = self.head(width, scene.look);
        // On a small terminal, half of the area is for the log.
        head.truncate(usize::from(area.height / 2).max(1));
        let taken = u16::try_from(head.len()).unwrap_or(u16::MAX).min(area.height);
        for (row, line) in head.into_iter().enumerate() {
            put(frame, area, row, line);
        }
        let rest = Rect { y: area.y + taken, height: area.height - taken, ..area };
        self.scroll.draw(frame, rest, &output_lines(&self.log.end, width, scene.look));
    }

    fn key(&mut self, key: KeyEvent, _known: &Inventory) -> Next {
        if self.scroll.key(key) {
            return Next::Stay;
        }
        match key.code {
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('r') => Next::Back(None),
            KeyCode::Char('l') => Next::Become(Box::new(PathPrompt::default())),
            _ => Next::Stay,
        }
    }
}
