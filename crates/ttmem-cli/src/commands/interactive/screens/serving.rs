//! The server: its address, and how to reach it from another machine.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{Next, Scene, Screen};
use crate::commands::interactive::inventory::Inventory;
use crate::commands::interactive::look::{Look, wrap};
use crate::commands::interactive::message::{Answer, Effect};
use crate::commands::interactive::scroll::Scroll;

/// The number of the server's lines that are kept.
const MAX_LINES: usize = 200;

/// The screen of the server.
#[derive(Debug, Default)]
pub(in crate::commands::interactive) struct Serving {
    address: Option<String>,
    /// Other lines that the server prints: how to reach it over SSH, and errors.
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
            (Some(_), None) => add("Serving the reports until you leave this screen:", Look::plain()),
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
                let excess = self.said.len().saturating_sub(MAX_LINES);
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
