//! Text for terminals as lines of styled spans. A style expresses a span's meaning; front ends choose colors and wrap
//! long lines.

use std::fmt;

use ttmem_query::Level;
use unicode_width::UnicodeWidthStr;

use super::table::{Table, cut, cut_end, one_line};

/// The meaning of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// No specific meaning.
    #[default]
    Plain,
    /// The title of a section, or the file it is about.
    Heading,
    /// The column names of a table.
    TableHead,
    /// A verdict that something failed or does not fit.
    Failure,
    /// Enough memory is free.
    Good,
    /// Memory is getting scarce, or it is unknown whether it is enough.
    Warning,
    /// Almost no memory is free.
    Critical,
}

impl Style {
    /// The style of a figure at a level.
    pub(super) fn of_level(level: Option<Level>) -> Self {
        match level {
            Some(Level::Full) => Self::Critical,
            Some(Level::High) => Self::Warning,
            Some(Level::Ok) => Self::Good,
            None => Self::Plain,
        }
    }
}

/// Part of a line with one style. It contains no control characters: names come from logs, and must not reach the
/// terminal as escape sequences or line breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    text: String,
    style: Style,
}

impl Span {
    pub(super) fn new(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: one_line(text.as_ref()), style }
    }

    pub(super) fn plain(text: impl AsRef<str>) -> Self {
        Self::new(text, Style::Plain)
    }

    /// The text, without control characters.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The meaning of the text.
    pub fn style(&self) -> Style {
        self.style
    }
}

/// A line of a [`Text`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    spans: Vec<Span>,
    is_row: bool,
}

impl Line {
    /// The spans, from left to right.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Whether the line is a table row, with columns that line up with other lines. Such a line must not be wrapped.
    pub fn is_row(&self) -> bool {
        self.is_row
    }
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spans.iter().try_for_each(|span| out.write_str(&span.text))
    }
}

/// Lines of styled spans, laid out for a width. Displays as plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    width: usize,
    lines: Vec<Line>,
}

impl Text {
    pub(super) fn new(width: usize) -> Self {
        Self { width, lines: Vec::new() }
    }

    /// The lines, from top to bottom.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Keeps the first lines.
    pub(super) fn truncate(&mut self, lines: usize) {
        self.lines.truncate(lines);
    }

    /// Removes empty lines at the end.
    pub(super) fn trim_end(&mut self) {
        while self.lines.last().is_some_and(|line| line.spans.is_empty()) {
            self.lines.pop();
        }
    }

    /// The width that the lines are laid out for.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Adds an empty line.
    pub(super) fn blank(&mut self) {
        self.spans([]);
    }

    /// Adds a line of plain text, wrapped to its own indent if it is too long.
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref();
        if text.width() <= self.width {
            return self.spans([Span::plain(text)]);
        }
        let indent = " ".repeat(text.len() - text.trim_start().len());
        self.wrapped(text.trim_start(), Style::Plain, &indent, &indent);
    }

    /// Adds a heading, wrapped.
    pub(super) fn heading(&mut self, text: impl AsRef<str>) {
        self.wrapped(text.as_ref(), Style::Heading, "", INDENT);
    }

    /// Adds a line.
    pub(super) fn spans(&mut self, spans: impl IntoIterator<Item = Span>) {
        self.lines.push(Line { spans: spans.into_iter().collect(), is_row: false });
    }

    /// Adds a row of plain text. The caller aligns its columns.
    pub(super) fn row(&mut self, text: impl AsRef<str>) {
        self.row_spans([Span::plain(cut_end(text.as_ref(), self.width))]);
    }

    /// Adds a row. The caller aligns its columns.
    pub(super) fn row_spans(&mut self, spans: impl IntoIterator<Item = Span>) {
        self.lines.push(Line { spans: spans.into_iter().collect(), is_row: true });
    }

    /// Adds a table with the usual indent.
    pub(super) fn table(&mut self, table: &Table) {
        for (index, line) in table.lines(INDENT, self.width).iter().enumerate() {
            let style = if index == 0 { Style::TableHead } else { Style::Plain };
            self.row_spans([Span::new(line, style)]);
        }
    }

    /// Adds a table whose head looks like its rows.
    pub(super) fn plain_table(&mut self, table: &Table, indent: &str) {
        table.lines(indent, self.width).iter().for_each(|line| self.row(line));
    }

    /// Adds a wrapped sentence with the usual indent.
    pub(super) fn sentence(&mut self, text: &str, style: Style) {
        self.wrapped(text, style, INDENT, INDENT);
    }

    /// Adds a wrapped item of a numbered list.
    pub(super) fn item(&mut self, number: usize, text: &str) {
        let head = format!("{INDENT}{number}. ");
        self.wrapped(text, Style::Plain, &head, &" ".repeat(head.len()));
    }

    /// Adds a wrapped text after a label.
    pub(super) fn labeled(&mut self, label: &str, width: usize, text: &str) {
        let head = format!("{INDENT}{label:<width$}  ");
        self.wrapped(text, Style::Plain, &head, &" ".repeat(head.len()));
    }

    fn wrapped(&mut self, text: &str, style: Style, first: &str, next: &str) {
        let room = self.width.min(MAX_SENTENCE_WIDTH).saturating_sub(first.len().max(next.len()));
        for (index, line) in wrap(text, room).iter().enumerate() {
            let indent = if index == 0 { first } else { next };
            let indent = (!indent.is_empty()).then(|| Span::plain(indent));
            self.spans(indent.into_iter().chain([Span::new(line, style)]));
        }
    }
}

const INDENT: &str = "  ";
/// Tables may be wider, but longer lines of prose are hard to read.
const MAX_SENTENCE_WIDTH: usize = 100;

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(out, "{line}"))
    }
}

/// Wraps words to a width. A number stays with its unit, and a word that is too long is shortened.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let is_unit = |word: &str| ["KiB", "MiB", "GiB", "%"].iter().any(|unit| word.starts_with(unit));
    let mut lines: Vec<String> = Vec::new();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let word = match words.next_if(|next| is_unit(next)) {
            Some(unit) => format!("{word} {unit}"),
            None => word.to_owned(),
        };
        let word = cut(&word, width);
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Align;

    #[test]
    fn names_from_logs_cannot_add_lines_or_escape_sequences() {
        let name = "a\u{1b}[31m\r\nb\u{9b}0m\t";
        let mut text = Text::new(40);
        text.heading(name);
        text.line(name);
        text.row(name);
        text.sentence(name, Style::Failure);
        let mut table = Table::new([("name", Align::Left)]);
        table.row([name.to_owned()]);
        text.table(&table);
        let shown = text.to_string();
        assert!(shown.chars().all(|letter| letter == '\n' || !letter.is_control()), "{shown:?}");
        assert_eq!(shown.lines().count(), text.lines().len());
    }

    #[test]
    fn rows_and_their_styles_are_marked() {
        let mut text = Text::new(40);
        let mut table = Table::new([("name", Align::Left), ("size", Align::Right)]);
        table.row(["a".into(), "1.0 MiB".into()]);
        text.heading("Title");
        text.table(&table);
        text.plain_table(&table, "");
        text.row("  a   1");
        text.blank();
        let described: Vec<(bool, Option<Style>)> =
            text.lines().iter().map(|line| (line.is_row(), line.spans().first().map(Span::style))).collect();
        let (head, row) = ((true, Some(Style::TableHead)), (true, Some(Style::Plain)));
        assert_eq!(described, [(false, Some(Style::Heading)), head, row, row, row, row, (false, None)]);
    }

    #[test]
    fn sentences_fit_the_width_and_numbers_stay_with_their_units() {
        let mut text = Text::new(20);
        text.sentence("The peak takes 12.0 MiB in each bank.", Style::Plain);
        text.item(1, "Free what takes 12.0 MiB.");
        let lines: Vec<String> = text.lines().iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            ["  The peak takes", "  12.0 MiB in each", "  bank.", "  1. Free what takes", "     12.0 MiB."]
        );
    }
}
