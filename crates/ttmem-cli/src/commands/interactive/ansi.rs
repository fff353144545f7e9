//! The library's text for terminals as lines that can be drawn: its few styles are read, and sentences are set to
//! the width.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::look::wrap_line;

/// What is carried over to the next line stands that far to the right.
const INDENT: usize = 4;

/// The lines of a text. Sentences are set to the width; rows of tables are as wide as they are.
pub(super) fn lines(text: &str, width: usize) -> Vec<Line<'static>> {
    let indent = INDENT.min(width / 4);
    let set = |line| if is_row(line) { vec![styled(line)] } else { wrap_line(&styled(line), width, indent) };
    text.lines().flat_map(set).collect()
}

/// Whether a line is a row of a table: indented, and with columns. It would not be one if it were broken.
fn is_row(line: &str) -> bool {
    let plain: String = styled(line).to_string();
    plain.starts_with("  ") && plain.trim().contains("  ")
}

/// A line with its styles. Other sequences than those for styles are dropped.
fn styled(text: &str) -> Line<'static> {
    let mut spans = Vec::new();
    let mut style = Style::new();
    let mut parts = text.split("\u{1b}[");
    spans.extend(parts.next().map(|plain| Span::raw(plain.to_owned())));
    for part in parts {
        let end = part.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(part.len());
        let (codes, rest) = part.split_at(end);
        if rest.starts_with('m') {
            style = codes.split(';').fold(style, with);
        }
        spans.push(Span::styled(rest.get(1..).unwrap_or_default().to_owned(), style));
    }
    Line::from(spans)
}

fn with(style: Style, code: &str) -> Style {
    match code {
        "1" => style.add_modifier(Modifier::BOLD),
        "2" => style.add_modifier(Modifier::DIM),
        "31" => style.fg(Color::Red),
        "32" => style.fg(Color::Green),
        "33" => style.fg(Color::Yellow),
        "" | "0" => Style::new(),
        _ => style,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_are_read_and_texts_are_kept() {
        let found = lines("a\u{1b}[1;31mb\u{1b}[0mc\n\u{1b}[2md\u{1b}[5Ae\u{1b}[", 80);
        assert_eq!(found.iter().map(Line::to_string).collect::<Vec<_>>(), ["abc", "de"]);
        let bold_red = Style::new().add_modifier(Modifier::BOLD).fg(Color::Red);
        let styles: Vec<Style> = found[0].spans.iter().map(|span| span.style).collect();
        assert_eq!(styles, [Style::new(), bold_red, Style::new()]);
    }

    #[test]
    fn every_style_of_the_summary_is_known() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/tt_log/oom-capacity.log");
        let profile = ttmem::read::open(file).unwrap();
        let summary = ttmem::query::summary(&[profile], &ttmem::query::Request::default()).unwrap();
        let draw = |colour| {
            let mut text = Vec::new();
            let screen = ttmem::report::Screen { colour, ..ttmem::report::Screen::default() };
            ttmem::report::text(&summary, screen, &mut text).unwrap();
            lines(&String::from_utf8(text).unwrap(), 100)
        };
        let plain: Vec<String> = draw(false).iter().map(Line::to_string).collect();
        let coloured: Vec<String> = draw(true).iter().map(Line::to_string).collect();
        assert_eq!(plain, coloured);
    }
}
