//! The stored reports are served: where, and how to reach that from another machine.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{Next, Scene, Screen};
use crate::commands::interactive::inventory::Inventory;
use crate::commands::interactive::look::{Look, wrap};
use crate::commands::interactive::message::{Answer, Effect};
use crate::commands::interactive::scroll::Scroll;

/// So many lines of the server are kept.
const MOST_LINES: usize = 200;

/// The stored reports are served.
#[derive(Debug, Default)]
pub(in crate::commands::interactive) struct Serving {
    address: Option<String>,
    /// What else the server says: how to reach it by SSH, and what goes wrong.
    said: Vec<String>,
    ended: Option<String>,
    scroll: Scroll,
}

impl Screen for Serving {
    fn title(&self) -> String {
        "serve the reports".into()
    }

    fn status(&self, _known: &Inventory) -> String {
        self.scroll.status()
    }

    fn keys(&self) -> Vec<(&'static str, &'static str)> {
        match self.ended {
            None => vec![("Esc", "stop and go back"), ("q", "stop and quit")],
            Some(_) => vec![("Esc", "back"), ("q", "quit")],
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>) {
        let width = usize::from(area.width);
        let mut lines: Vec<Line<'static>> = Vec::new();
        let mut add = |text: &str, style| {
            lines.extend(wrap(text, width).into_iter().map(|line| Line::styled(line, style)));
        };
        match (&self.address, &self.ended) {
            (_, Some(how)) => add(how, scene.look.bad()),
            (Some(_), None) => add("The reports are served, until you leave this screen, at", Look::plain()),
            (None, None) => add("Starting …", Look::plain()),
        }
        if let Some(address) = &self.address {
            add("\n", Look::plain());
            add(address, Look::strong());
        }
        if !self.said.is_empty() {
            add("\n", Look::plain());
        }
        for line in &self.said {
            add(line, Look::plain());
        }
        self.scroll.draw(frame, area, &lines);
    }

    fn begin(&mut self, _known: &Inventory) -> Option<Effect> {
        Some(Effect::Serve)
    }

    fn key(&mut self, key: KeyEvent, _known: &Inventory) -> Next {
        match key.code {
            KeyCode::Esc => return Next::Back(None),
            _ => self.scroll.key(key),
        };
        Next::Stay
    }

    fn answer(&mut self, answer: Answer, _known: &Inventory) -> Next {
        match answer {
            Answer::Serving { address } => self.address = Some(address),
            Answer::ServerSaid { line } => {
                self.said.push(line);
                let excess = self.said.len().saturating_sub(MOST_LINES);
                self.said.drain(..excess);
            }
            Answer::ServerEnded { how } => self.ended = Some(how),
            _ => {}
        }
        Next::Stay
    }

    fn end(&mut self) -> Option<Effect> {
        Some(Effect::StopServing)
    }
}
