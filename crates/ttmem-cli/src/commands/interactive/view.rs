//! A frame: the title, the screen, a note, and the keys at the bottom.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::app::App;
use super::look::{Look, fit, put, wrap};
use super::screens::{Scene, Screen};

/// Smaller terminals only show a message.
const MIN_WIDTH: u16 = 40;
const MIN_HEIGHT: u16 = 10;
/// Longer lines are hard to read.
const MAX_WIDTH: u16 = 160;
/// Terminals of at least this height have empty lines between the parts.
const ROOMY: u16 = 16;
/// The number of lines of a note.
const MAX_NOTE_LINES: usize = 8;

/// Draws the state.
pub(super) fn draw(app: &mut App, look: Look, frame: &mut Frame<'_>) {
    let all = frame.area();
    app.is_too_small = all.width < MIN_WIDTH || all.height < MIN_HEIGHT;
    if app.is_too_small {
        return too_small(frame, all);
    }
    let (screen, known, note) = app.scene();
    let scene = Scene { look, known, note };
    let inner = Rect { x: all.x + 1, width: (all.width - 1).min(MAX_WIDTH), ..all };
    let mut note = if screen.draws_notes() { Vec::new() } else { note_lines(&scene, inner.width) };
    let keys = key_lines(&screen.keys(), usize::from(inner.width));
    let gap = u16::from(all.height >= ROOMY);
    if !note.is_empty() && gap > 0 {
        note.insert(0, Line::default());
    }
    // The keys are always visible; a long note leaves at least one line for the screen.
    note.truncate(usize::from(all.height.saturating_sub(height(keys.len()) + gap + 3)));
    let [title, _, body, said, _, bar] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(height(note.len())),
        Constraint::Length(gap),
        Constraint::Length(height(keys.len())),
    ])
    .areas(inner);
    screen.draw(frame, body, &scene);
    // After the screen, which knows its scroll position only now.
    draw_title(screen, &scene, frame, title);
    for (row, line) in note.into_iter().enumerate() {
        put(frame, said, row, line);
    }
    for (row, line) in keys.into_iter().enumerate() {
        put(frame, bar, row, line);
    }
}

fn height(lines: usize) -> u16 {
    u16::try_from(lines).unwrap_or(u16::MAX)
}

fn too_small(frame: &mut Frame<'_>, area: Rect) {
    let text = format!(
        "ttmem needs {MIN_WIDTH}x{MIN_HEIGHT}; this is {}x{}. Enlarge the terminal or press q.",
        area.width, area.height
    );
    for (row, line) in wrap(&text, usize::from(area.width)).into_iter().enumerate() {
        put(frame, area, row, line);
    }
}

/// `ttmem › Stored reports                 12 reports`.
fn draw_title(screen: &dyn Screen, scene: &Scene<'_>, frame: &mut Frame<'_>, area: Rect) {
    let width = usize::from(area.width);
    let status = screen.status(scene.known);
    let title = screen.title();
    let room = width.saturating_sub("ttmem › ".width());
    let title = fit(&title, room);
    // The title takes precedence over the status.
    let status = if title.width() + 2 + status.width() <= room { status } else { String::new() };
    let padding = room - title.width() - status.width();
    let line = Line::from(vec![
        Span::styled("ttmem", Look::strong()),
        Span::styled(" › ", Look::faint()),
        Span::styled(title, Look::strong()),
        Span::raw(" ".repeat(padding)),
        Span::styled(status, Look::faint()),
    ]);
    put(frame, area, 0, line);
}

/// The lines of the note.
pub(super) fn note_lines(scene: &Scene<'_>, width: u16) -> Vec<Line<'static>> {
    let Some(note) = scene.note else { return Vec::new() };
    let style = scene.look.note(note);
    let lines = wrap(&note.text, usize::from(width));
    lines.into_iter().take(MAX_NOTE_LINES).map(|line| Line::styled(line, style)).collect()
}

/// The keys and what they do, in as few lines as possible.
fn key_lines(keys: &[(&'static str, &'static str)], width: usize) -> Vec<Line<'static>> {
    const GAP: &str = "   ";
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (key, does) in keys {
        let spans = [Span::styled(*key, Look::strong()), Span::styled(format!(" {does}"), Look::faint())];
        let needed: usize = spans.iter().map(Span::width).sum();
        match lines.last_mut().filter(|line| line.width() + GAP.width() + needed <= width) {
            Some(line) => {
                line.push_span(GAP);
                line.extend(spans);
            }
            None => lines.push(Line::from(spans.to_vec())),
        }
    }
    lines
}
