//! Scrolling in a text that is larger than the screen.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthChar;

use super::look::put;

/// The scroll position in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scroll {
    /// The first visible line.
    first: usize,
    /// The first visible column.
    left: usize,
    /// The number of visible lines, and of all lines: known after drawing.
    height: usize,
    lines: usize,
    /// The number of columns of the longest line that do not fit.
    hidden: usize,
}

/// The columns that left and right move by.
const SIDESTEP: usize = 8;

impl Scroll {
    /// Starts at the end of a text.
    pub fn at_the_end() -> Self {
        Self { first: usize::MAX, ..Self::default() }
    }

    /// Handles a key; returns whether it moves.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let page = self.height.saturating_sub(1).max(1);
        match key.code {
            KeyCode::Left => {
                self.left = self.left.saturating_sub(SIDESTEP);
                return true;
            }
            KeyCode::Right => {
                self.left = (self.left + SIDESTEP).min(self.hidden);
                return true;
            }
            _ => {}
        }
        let first = match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.first.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.first + 1,
            KeyCode::PageUp => self.first.saturating_sub(page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.first + page,
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => self.lines,
            _ => return false,
        };
        self.first = first.min(self.last());
        true
    }

    /// Draws the visible lines.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, lines: &[Line<'_>]) {
        self.height = usize::from(area.height);
        self.lines = lines.len();
        let width = usize::from(area.width);
        self.hidden = lines.iter().map(Line::width).max().unwrap_or(0).saturating_sub(width);
        self.first = self.first.min(self.last());
        self.left = self.left.min(self.hidden);
        let seen = lines.iter().skip(self.first).take(self.height);
        for (row, line) in seen.enumerate() {
            put(frame, area, row, from_column(line, self.left));
            if line.width() > self.left + width {
                put(frame, Rect { x: area.right() - 1, width: 1, ..area }, row, "…");
            }
        }
    }

    /// `lines 1–20 of 57, ← →`, if not everything is visible.
    pub fn status(&self) -> String {
        let end = self.first.saturating_add(self.height).min(self.lines);
        let lines = format!("lines {}–{end} of {}", self.first + 1, self.lines);
        match (self.lines > self.height, self.hidden > 0) {
            (true, true) => format!("{lines}, ← →"),
            (true, false) => lines,
            (false, true) => "← →".into(),
            (false, false) => String::new(),
        }
    }

    /// The first visible line at the end of the text.
    fn last(self) -> usize {
        self.lines.saturating_sub(self.height)
    }
}

/// A line without its first columns.
fn from_column(line: &Line<'_>, column: usize) -> Line<'static> {
    let mut skipped = 0;
    let mut rest = Line::default();
    for span in &line.spans {
        let is_seen = |letter: &char| {
            skipped += letter.width().unwrap_or(0);
            skipped > column
        };
        let text: String = span.content.chars().filter(is_seen).collect();
        rest.push_span(Span::styled(text, line.style.patch(span.style)));
    }
    rest
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyModifiers;

    use super::*;

    fn press(scroll: &mut Scroll, code: KeyCode) -> String {
        assert!(scroll.key(KeyEvent::new(code, KeyModifiers::NONE)));
        scroll.status()
    }

    #[test]
    fn keys_move_within_the_text() {
        let mut scroll = Scroll { height: 10, lines: 25, ..Scroll::default() };
        assert_eq!(press(&mut scroll, KeyCode::Up), "lines 1–10 of 25");
        assert_eq!(press(&mut scroll, KeyCode::Down), "lines 2–11 of 25");
        assert_eq!(press(&mut scroll, KeyCode::PageDown), "lines 11–20 of 25");
        assert_eq!(press(&mut scroll, KeyCode::PageDown), "lines 16–25 of 25");
        assert_eq!(press(&mut scroll, KeyCode::Char('j')), "lines 16–25 of 25");
        assert_eq!(press(&mut scroll, KeyCode::Char('k')), "lines 15–24 of 25");
        assert_eq!(press(&mut scroll, KeyCode::PageUp), "lines 6–15 of 25");
        assert_eq!(press(&mut scroll, KeyCode::End), "lines 16–25 of 25");
        assert_eq!(press(&mut scroll, KeyCode::Home), "lines 1–10 of 25");
        assert!(!scroll.key(KeyEvent::new(KeyCode::Char('x'), KeyModifiers::NONE)));
    }

    #[test]
    fn a_text_that_fits_does_not_move() {
        let mut scroll = Scroll { height: 10, lines: 4, ..Scroll::default() };
        for code in [KeyCode::Down, KeyCode::PageDown, KeyCode::End] {
            assert_eq!(press(&mut scroll, code), "");
            assert_eq!(scroll.first, 0);
        }
    }

    #[test]
    fn wide_lines_are_scrolled() {
        let mut scroll = Scroll { hidden: 10, ..Scroll::default() };
        for (code, left) in [
            (KeyCode::Left, 0),
            (KeyCode::Right, 8),
            (KeyCode::Right, 10),
            (KeyCode::Left, 2),
            (KeyCode::Left, 0),
        ] {
            assert_eq!(press(&mut scroll, code), "← →");
            assert_eq!(scroll.left, left);
        }
        let line =
            Line::from(vec![Span::raw("ab"), Span::styled("日cd", super::super::look::Look::strong())]);
        assert_eq!(from_column(&line, 0).to_string(), "ab日cd");
        assert_eq!(from_column(&line, 1).to_string(), "b日cd");
        assert_eq!(from_column(&line, 4).to_string(), "cd");
        assert_eq!(from_column(&line, 9).to_string(), "");
    }
}
