//! Plain tables for terminals: columns that line up and fit the width.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

pub(super) use ttmem_query::words::one_line;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
    /// Left-aligned, and shortened with an ellipsis if the table is too wide.
    Flexible,
}

#[derive(Debug)]
pub(super) struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a header row.
    pub fn new<const N: usize>(columns: [(&str, Align); N]) -> Self {
        Self {
            align: columns.iter().map(|(_, align)| *align).collect(),
            rows: vec![columns.iter().map(|(name, _)| (*name).to_owned()).collect()],
        }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    /// Removes the last column.
    pub fn drop_last_column(&mut self) {
        self.align.pop();
        for row in &mut self.rows {
            row.pop();
        }
    }

    /// The lines with an indent, at most `width` wide if possible.
    pub fn lines(&self, indent: &str, width: usize) -> Vec<String> {
        let widths = self.widths(width.saturating_sub(indent.width()));
        let line = |row: &Vec<String>| {
            let mut line = indent.to_owned();
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if index > 0 {
                    line.push_str(GAP);
                }
                let cell = cut(cell, *width);
                let padding = " ".repeat(width.saturating_sub(cell.width()));
                let parts =
                    if self.align[index] == Align::Right { [&padding, &cell] } else { [&cell, &padding] };
                // Writing to a string cannot fail.
                let _ = write!(line, "{}{}", parts[0], parts[1]);
            }
            line.truncate(line.trim_end().len());
            line
        };
        self.rows.iter().map(line).collect()
    }

    /// The column widths. If the table is too wide, flexible columns shrink.
    fn widths(&self, width: usize) -> Vec<usize> {
        // A header is never shortened.
        let least = |column: usize| self.rows[0][column].width().max(12);
        let mut widths: Vec<usize> = (0..self.align.len())
            .map(|column| self.rows.iter().map(|row| row[column].width()).max().unwrap_or(0))
            .collect();
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        while excess > 0 {
            let flexible = (0..widths.len()).filter(|&column| self.align[column] == Align::Flexible);
            let Some(widest) = flexible
                .max_by_key(|&column| widths[column])
                .filter(|&column| widths[column] > least(column))
            else {
                break;
            };
            widths[widest] -= 1;
            excess -= 1;
        }
        widths
    }
}

const GAP: &str = "  ";

/// Shortens a text to a width. The ellipsis is near the front because names differ at their ends.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let head: String = take_width(text.chars(), room / 4);
    let tail: String = take_width(text.chars().rev(), room - head.width());
    head + "…" + &tail.chars().rev().collect::<String>()
}

/// The first characters that fit into a width.
fn take_width(characters: impl Iterator<Item = char>, width: usize) -> String {
    let mut taken = String::new();
    for character in characters {
        taken.push(character);
        if taken.width() > width {
            taken.pop();
            break;
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_give_way() {
        let mut table = Table::new([("name", Align::Flexible), ("/bank", Align::Right)]);
        table.row(["a".repeat(60), "1.0 MiB".into()]);
        table.row(["b\u{1b}[31m".into(), "123.4 MiB".into()]);
        let lines = table.lines("  ", 40);
        assert!(lines.iter().all(|line| line.width() <= 40), "{lines:#?}");
        assert!(lines[1].contains("aaa…aaa") && lines[1].ends_with("  1.0 MiB"), "{lines:#?}");
        assert!(lines[2].starts_with("  b·[31m"), "{lines:#?}");
    }
}
