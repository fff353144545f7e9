//! Styles, as in `ttmem summary`, and drawing helpers that the screens share.

use std::ops::Range;

use anstream::adapter::WinconBytes;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ttmem::report;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::field::Field;
use super::screens::Note;

/// The style of the screens, with or without colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// Whether colors are used.
    pub has_color: bool,
}

impl Look {
    /// Ordinary text.
    pub fn plain() -> Style {
        Style::new()
    }

    /// Important text.
    pub fn strong() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Labels and hints.
    pub fn faint() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The selected row.
    pub fn chosen() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Errors.
    pub fn bad(self) -> Style {
        self.colored(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Warnings.
    pub fn warning(self) -> Style {
        self.colored(Color::Yellow)
    }

    /// Progress.
    pub fn good(self) -> Style {
        self.colored(Color::Green)
    }

    /// The style of a span of the summary. Without colors it is plain, as in `ttmem summary`.
    pub fn span(self, style: report::Style) -> Style {
        match style {
            _ if !self.has_color => Self::plain(),
            report::Style::Plain => Self::plain(),
            report::Style::Heading => Self::strong(),
            report::Style::TableHead => Self::faint(),
            report::Style::Failure => self.bad(),
            report::Style::Good => self.good(),
            report::Style::Warning => self.warning(),
            report::Style::Critical => self.colored(Color::Red),
        }
    }

    /// The style of a note.
    pub fn note(self, note: &Note) -> Style {
        if note.is_bad { self.bad() } else { Self::strong() }
    }

    fn colored(self, color: Color) -> Style {
        if self.has_color { Style::new().fg(color) } else { Style::new() }
    }
}

/// Draws a line at a row of an area; rows below the area are skipped.
pub(super) fn put<'a>(frame: &mut Frame<'_>, area: Rect, row: usize, line: impl Into<Line<'a>>) {
    let Some(row) = u16::try_from(row).ok().filter(|row| *row < area.height) else { return };
    frame.render_widget(line.into(), Rect { y: area.y + row, height: 1, ..area });
}

/// Draws the selected row, highlighted over its full width.
pub(super) fn put_chosen<'a>(frame: &mut Frame<'_>, area: Rect, row: usize, line: impl Into<Line<'a>>) {
    let Some(at) = u16::try_from(row).ok().filter(|row| *row < area.height) else { return };
    put(frame, area, row, line);
    frame.buffer_mut().set_style(Rect { y: area.y + at, height: 1, ..area }, Look::chosen());
}

/// Draws a text field, with the cursor in view.
pub(super) fn put_field(frame: &mut Frame<'_>, area: Rect, row: usize, label: &str, field: &Field) {
    let label = format!("{label}  ");
    let room = usize::from(area.width).saturating_sub(label.width() + 1);
    let before = field.before_cursor();
    // Of a long text, show the part before the cursor.
    let hidden = before.len() - last_columns(before, room).len();
    let shown = &field.text()[hidden..];
    let column = label.width() + before[hidden..].width();
    put(frame, area, row, Line::from(vec![Span::styled(label, Look::faint()), Span::raw(shown.to_owned())]));
    let (Ok(column), Ok(row)) = (u16::try_from(column), u16::try_from(row)) else { return };
    if column < area.width && row < area.height {
        frame.set_cursor_position(Position::new(area.x + column, area.y + row));
    }
}

/// Draws a question at the bottom of an area; returns the rest of the area.
pub(super) fn ask(frame: &mut Frame<'_>, area: Rect, question: &str) -> Rect {
    let lines = wrap(question, usize::from(area.width));
    let (rest, bottom) = bottom_of(area, lines.len());
    for (row, line) in lines.into_iter().enumerate() {
        put(frame, bottom, row, Line::styled(line, Look::strong()));
    }
    rest
}

/// Draws a text field at the bottom of an area; returns the rest of the area.
pub(super) fn ask_for(frame: &mut Frame<'_>, area: Rect, label: &str, field: &Field) -> Rect {
    let (rest, bottom) = bottom_of(area, 1);
    put_field(frame, bottom, 0, label, field);
    rest
}

/// Splits an area into its last rows and the rows above them, separated by an empty row.
fn bottom_of(area: Rect, rows: usize) -> (Rect, Rect) {
    let rows = u16::try_from(rows).unwrap_or(u16::MAX).min(area.height);
    let bottom = Rect { y: area.bottom() - rows, height: rows, ..area };
    (Rect { height: (area.height - rows).saturating_sub(1), ..area }, bottom)
}

/// The visible rows of a list, with the selected one in the middle if possible.
pub(super) fn window(rows: usize, chosen: usize, height: usize) -> Range<usize> {
    let first = chosen.saturating_sub(height / 2).min(rows.saturating_sub(height));
    first..(first + height).min(rows)
}

/// A text cut to a width at its start, because names differ at their ends.
pub(super) fn fit(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    format!("…{}", last_columns(text, width.saturating_sub(1)))
}

/// The first text that fits a width; if none does, the last one, cut at its end.
pub(super) fn first_fitting(texts: impl IntoIterator<Item = String>, width: usize) -> String {
    let mut shortest = String::new();
    for text in texts {
        if text.width() <= width {
            return text;
        }
        shortest = text;
    }
    let room = width.saturating_sub(1);
    while shortest.width() > room {
        shortest.pop();
    }
    shortest + "…"
}

/// A text cut or padded to a width, aligned left.
pub(super) fn fill(text: &str, width: usize) -> String {
    let text = fit(text, width);
    let padding = width.saturating_sub(text.width());
    text + &" ".repeat(padding)
}

/// A text cut or padded to a width, aligned right.
pub(super) fn fill_left(text: &str, width: usize) -> String {
    let text = fit(text, width);
    " ".repeat(width.saturating_sub(text.width())) + &text
}

/// The end of a text that fits a number of columns.
fn last_columns(text: &str, columns: usize) -> &str {
    let mut room = columns;
    let mut start = text.len();
    for (at, letter) in text.char_indices().rev() {
        let width = letter.width().unwrap_or(0);
        if width > room {
            break;
        }
        room -= width;
        start = at;
    }
    &text[start..]
}

/// Wraps text to a width. Line breaks are kept, and words that are too long are split.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let style = Style::new();
    let lines = text.lines().map(|line| Line::styled(line.to_owned(), style));
    lines.flat_map(|line| wrap_line(&line, width, 0)).map(|line| line.to_string()).collect()
}

/// Wraps a styled line to a width; continuation lines are indented.
pub(super) fn wrap_line(line: &Line<'_>, width: usize, indent: usize) -> Vec<Line<'static>> {
    let letters: Vec<(char, Style)> = line
        .spans
        .iter()
        .flat_map(|span| span.content.chars().map(|letter| (letter, line.style.patch(span.style))))
        .collect();
    let mut lines = Vec::new();
    let mut rest = letters.as_slice();
    let mut indent_now = 0;
    loop {
        let room = width.saturating_sub(indent_now).max(1);
        let (taken, skipped) = first_line(rest, room);
        lines.push(joined(&rest[..taken], indent_now));
        rest = &rest[skipped..];
        indent_now = indent;
        if rest.is_empty() {
            return lines;
        }
    }
}

/// The lines of a report. Sentences are wrapped; rows of tables keep their width.
pub(super) fn report_lines(text: &report::Text, width: usize, look: Look) -> Vec<Line<'static>> {
    let drawn = |line: &report::Line| {
        let styled = |span: &report::Span| Span::styled(span.text().to_owned(), look.span(span.style()));
        line.spans().iter().map(styled).collect::<Line<'static>>()
    };
    let set = |line: &report::Line| {
        let drawn = drawn(line);
        if line.is_row() { vec![drawn] } else { wrap_line(&drawn, width, hanging_indent(width)) }
    };
    text.lines().iter().flat_map(set).collect()
}

/// The lines of a program's output, wrapped, in the colors that its escape sequences ask for. Other escape sequences
/// have no effect.
pub(super) fn output_lines(text: &str, width: usize, look: Look) -> Vec<Line<'static>> {
    let mut parser = WinconBytes::new();
    let mut drawn = |line: &str| {
        let style = |style: anstyle::Style| if look.has_color { style.into() } else { Look::plain() };
        let spans = parser.extract_next(line.as_bytes()).map(|(of, text)| Span::styled(text, style(of)));
        spans.collect::<Line<'static>>()
    };
    text.lines().flat_map(|line| wrap_line(&drawn(line), width, hanging_indent(width))).collect()
}

/// The indent of continuation lines.
fn hanging_indent(width: usize) -> usize {
    4.min(width / 4)
}

/// The number of letters in the first line, and the number consumed, including the space at the break.
fn first_line(letters: &[(char, Style)], room: usize) -> (usize, usize) {
    let mut columns = 0;
    let mut end_of_word = None;
    let indent = letters.iter().take_while(|(letter, _)| *letter == ' ').count();
    for (at, (letter, _)) in letters.iter().enumerate() {
        columns += letter.width().unwrap_or(0);
        if *letter == ' ' && at > indent {
            end_of_word = Some(at);
        }
        if columns > room {
            return match end_of_word {
                Some(end) => (end, end + 1),
                None => (at.max(1), at.max(1)),
            };
        }
    }
    (letters.len(), letters.len())
}

/// Joins letters into a line, with one span per style.
fn joined(letters: &[(char, Style)], indent: usize) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    if indent > 0 {
        spans.push(Span::raw(" ".repeat(indent)));
    }
    for chunk in letters.chunk_by(|a, b| a.1 == b.1) {
        let text: String = chunk.iter().map(|(letter, _)| letter).collect();
        spans.push(Span::styled(text, chunk[0].1));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_their_width_and_keep_their_ends() {
        for (text, width, fitted) in [
            ("abc", 3, "abc"),
            ("abcdef", 4, "…def"),
            ("日本語", 5, "…本語"),
            ("日本語", 4, "…語"),
            ("ab", 1, "…"),
        ] {
            assert_eq!(fit(text, width), fitted);
        }
        let texts = || ["one, two", "one"].map(str::to_owned);
        assert_eq!(first_fitting(texts(), 8), "one, two");
        assert_eq!(first_fitting(texts(), 7), "one");
        assert_eq!(first_fitting(texts(), 2), "o…");
        assert_eq!(fill("ab", 4), "ab  ");
        assert_eq!(fill_left("ab", 4), "  ab");
    }

    #[test]
    fn output_keeps_its_text_and_colors() {
        let output = "a\u{1b}[1;31mb\u{1b}[0mc\n\u{1b}[2md\u{1b}[5Ae\u{1b}]0;title\u{7}\u{1b}[";
        let colored = output_lines(output, 80, Look { has_color: true });
        let plain = output_lines(output, 80, Look { has_color: false });
        for lines in [&colored, &plain] {
            assert_eq!(lines.iter().map(Line::to_string).collect::<Vec<_>>(), ["abc", "de"]);
        }
        let styles = |line: &Line<'_>| line.spans.iter().map(|span| span.style).collect::<Vec<_>>();
        let bold_red = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
        assert_eq!(styles(&colored[0]), [Style::new(), bold_red, Style::new()]);
        assert_eq!(styles(&plain[0]), [Style::new()]);
    }

    #[test]
    fn rows_of_a_report_keep_their_width_and_sentences_are_wrapped() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/tt_log/oom-capacity.log");
        let profile = ttmem::read::open(file).unwrap();
        let summary = ttmem::query::summary(&[profile], &ttmem::query::Request::default()).unwrap();
        let text = report::text(&summary, report::Screen::default());
        let printed: Vec<String> = text.lines().iter().map(ToString::to_string).collect();
        let drawn =
            |width, look| report_lines(&text, width, look).iter().map(Line::to_string).collect::<Vec<_>>();
        for has_color in [true, false] {
            assert_eq!(drawn(400, Look { has_color }), printed);
        }
        let narrow = drawn(40, Look { has_color: true });
        let wide_rows = text.lines().iter().filter(|line| line.is_row()).map(ToString::to_string);
        let wide_rows: Vec<String> = wide_rows.filter(|row| row.width() > 40).collect();
        assert!(wide_rows.len() > 5 && wide_rows.iter().all(|row| narrow.contains(row)), "{narrow:#?}");
        assert!(narrow.iter().all(|line| line.width() <= 40 || wide_rows.contains(line)), "{narrow:#?}");
    }

    #[test]
    fn the_selected_row_is_always_visible() {
        for rows in 1..30 {
            for height in 1..12 {
                for chosen in 0..rows {
                    let seen = window(rows, chosen, height);
                    assert!(seen.contains(&chosen), "{rows} {chosen} {height}");
                    assert_eq!(seen.len(), height.min(rows));
                }
            }
        }
    }

    #[test]
    fn wrapping_loses_nothing_but_spaces_and_keeps_the_width() {
        let text =
            "  Peak DRAM before step 101, caused by averyveryverylongwordthatfitsnowhere\n\nat 日本語 x";
        for width in 1..80 {
            let lines = wrap(text, width);
            let kept: String = lines.concat().chars().filter(|letter| !letter.is_whitespace()).collect();
            let all: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
            assert_eq!(kept, all, "{width}");
            assert!(lines.iter().all(|line| line.width() <= width.max(2)), "{width}: {lines:#?}");
        }
        assert_eq!(wrap("a b c", 3), ["a b", "c"]);
    }

    #[test]
    fn continuation_lines_are_indented_and_keep_their_style() {
        let line = Line::from(vec![Span::raw("  one "), Span::styled("two three", Look::strong())]);
        let lines = wrap_line(&line, 9, 4);
        assert_eq!(lines.iter().map(Line::to_string).collect::<Vec<_>>(), ["  one two", "    three"]);
        assert_eq!(lines[1].spans[1].style, Look::strong());
    }
}
