//! A log without memory data: why, and the settings to paste into a shell.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::path::PathPrompt;
use super::{Next, Scene, Screen};
use crate::commands::interactive::inventory::Inventory;
use crate::commands::interactive::look::{Look, wrap};
use crate::commands::interactive::scroll::Scroll;

/// Shell commands that capture a runtime log with memory data.
const BLOCK: [&str; 4] = [
    "export TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG",
    "export TT_RUNTIME_MEMORY_LOG_LEVEL=any",
    "export TTXLA_LOGGER_LEVEL=DEBUG",
    "ttmem run your_model.py",
];

/// A log without memory data.
#[derive(Debug)]
pub(in crate::commands::interactive) struct NoMemory {
    message: String,
    scroll: Scroll,
}

impl NoMemory {
    /// The screen for an error.
    pub fn of(error: &ttmem::Error) -> Self {
        Self { message: error.to_string(), scroll: Scroll::default() }
    }
}

impl Screen for NoMemory {
    fn title(&self) -> String {
        "no memory data in this log".into()
    }

    fn status(&self, _known: &Inventory) -> String {
        self.scroll.status()
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        vec![("Esc", "back"), ("l", "choose another log"), ("q", "quit and print these commands for copying")]
    }

    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
        let width = usize::from(area.width);
        let mut lines: Vec<Line<'static>> = Vec::new();
        lines.extend(BLOCK.iter().map(|line| Line::styled(*line, Look::strong())));
        lines.push(Line::default());
        let heading = "Run this in a shell, with your script in the last line, then open the new log:";
        let heading = wrap(heading, width).into_iter().map(Line::raw);
        let why = wrap(&self.message, width).into_iter().map(|line| Line::styled(line, scene.look.warning()));
        let lines: Vec<Line<'static>> = heading.chain([Line::default()]).chain(lines).chain(why).collect();
        self.scroll.draw(frame, area, &lines);
    }

    fn key(&mut self, key: KeyEvent, _known: &Inventory) -> Next {
        if self.scroll.key(key) {
            return Next::Stay;
        }
        match key.code {
            KeyCode::Esc | KeyCode::Enter => Next::Back(None),
            KeyCode::Char('l') => Next::Become(Box::new(PathPrompt::default())),
            _ => Next::Stay,
        }
    }

    fn farewell(&self) -> Option<String> {
        Some(format!("{}\n\n{}\n", self.message, BLOCK.join("\n")))
    }
}
