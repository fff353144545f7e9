//! Plain tables for terminals: columns that line up and fit the width.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

pub(super) use ttmem_query::words::one_line;

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
    /// Left-aligned, and shortened near its front if the table is too wide: names differ at their ends.
    Flexible,
    /// Left-aligned, and shortened at its end if the table is too wide: a step comes first.
    FlexibleEnd,
}

impl Align {
    fn is_flexible(self) -> bool {
        matches!(self, Self::Flexible | Self::FlexibleEnd)
    }

    /// A cell that fits its column.
    fn fit(self, cell: &str, width: usize) -> String {
        if self == Self::FlexibleEnd { cut_end(cell, width) } else { cut(cell, width) }
    }
}

/// The narrowest that a flexible column becomes.
const MIN_FLEXIBLE: usize = 12;

#[derive(Debug)]
pub(super) struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
    optional: Vec<usize>,
}

impl Table {
    /// A table with a header row.
    pub fn new<const N: usize>(columns: [(&str, Align); N]) -> Self {
        Self {
            align: columns.iter().map(|(_, align)| *align).collect(),
            rows: vec![columns.iter().map(|(name, _)| (*name).to_owned()).collect()],
            optional: Vec::new(),
        }
    }

    /// Sets the columns that are left out if the table is too wide, in this order.
    pub fn optional(mut self, columns: &[usize]) -> Self {
        self.optional = columns.to_vec();
        self
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    /// The lines with an indent, at most `width` wide.
    pub fn lines(&self, indent: &str, width: usize) -> Vec<String> {
        let room = width.saturating_sub(indent.width());
        let columns = self.columns(room);
        let widths = self.widths(&columns, room);
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for (index, (&column, &width)) in columns.iter().zip(&widths).enumerate() {
                let cell = self.align[column].fit(&row[column], width);
                let padding = " ".repeat(width.saturating_sub(cell.width()));
                let parts =
                    if self.align[column] == Align::Right { [&padding, &cell] } else { [&cell, &padding] };
                let gap = if index > 0 { GAP } else { "" };
                // Writing to a string cannot fail.
                let _ = write!(line, "{gap}{}{}", parts[0], parts[1]);
            }
            format!("{indent}{}", cut_end(line.trim_end(), room))
        };
        self.rows.iter().map(line).collect()
    }

    /// The columns that are shown: those with a header or a cell, and optional ones only if there is room.
    fn columns(&self, room: usize) -> Vec<usize> {
        let longest: Vec<usize> = (0..self.align.len()).map(|column| self.longest(column)).collect();
        let mut columns: Vec<usize> = (0..self.align.len()).filter(|&column| longest[column] > 0).collect();
        for optional in &self.optional {
            let least: usize = columns.iter().map(|&column| self.least(column, longest[column])).sum();
            if least + gaps(&columns) <= room {
                break;
            }
            columns.retain(|column| column != optional);
        }
        columns
    }

    /// The widths of columns. If the table is too wide, flexible columns shrink, the widest first.
    fn widths(&self, columns: &[usize], room: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = columns.iter().map(|&column| self.longest(column)).collect();
        let least: Vec<usize> =
            columns.iter().zip(&widths).map(|(&column, &longest)| self.least(column, longest)).collect();
        // No column is wider than the table, whatever its cells are.
        for (width, least) in widths.iter_mut().zip(&least) {
            *width = (*width).min(room).max(*least);
        }
        let mut excess = (widths.iter().sum::<usize>() + gaps(columns)).saturating_sub(room);
        while excess > 0 {
            let can_shrink = |place: &usize| widths[*place] > least[*place];
            let Some(widest) = (0..widths.len()).filter(can_shrink).max_by_key(|&place| widths[place]) else {
                break;
            };
            widths[widest] -= 1;
            excess -= 1;
        }
        widths
    }

    fn longest(&self, column: usize) -> usize {
        self.rows.iter().map(|row| row[column].width()).max().unwrap_or(0)
    }

    /// The least width of a column whose longest cell is known. A header is never shortened.
    fn least(&self, column: usize, longest: usize) -> usize {
        if self.align[column].is_flexible() {
            longest.min(self.rows[0][column].width().max(MIN_FLEXIBLE))
        } else {
            longest
        }
    }
}

fn gaps(columns: &[usize]) -> usize {
    GAP.len() * columns.len().saturating_sub(1)
}

const GAP: &str = "  ";

/// Shortens a text to a width. The ellipsis is near the front because names differ at their ends.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    if let Some(shorter) = cut_path(text, width) {
        return shorter;
    }
    let room = width.saturating_sub(1);
    let head: String = take_width(text.chars(), room / 4);
    let tail: String = take_width(text.chars().rev(), room - head.width());
    head + "…" + &tail.chars().rev().collect::<String>()
}

/// Leaves out the first folders of an absolute path: `4 × …/project/model.py:12`.
fn cut_path(text: &str, width: usize) -> Option<String> {
    let start = text.find('/').filter(|&at| at == 0 || text[..at].ends_with([' ', '(']))?;
    let (before, path) = text.split_at(start);
    let shorter = path.match_indices('/').skip(1).map(|(at, _)| format!("{before}…{}", &path[at..]));
    shorter.into_iter().find(|shorter| shorter.width() <= width)
}

/// Shortens a text to a width, at its end.
pub(super) fn cut_end(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    take_width(text.chars(), width.saturating_sub(1)) + "…"
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
    fn an_empty_column_takes_no_room() {
        let mut table = Table::new([("a", Align::Left), ("", Align::Right), ("b", Align::Left)]);
        table.row(["1".into(), String::new(), "2".into()]);
        assert_eq!(table.lines("", 40), ["a  b", "1  2"]);
    }

    #[test]
    fn optional_columns_give_way_in_their_order() {
        let columns = [("name", Align::Left), ("a", Align::Left), ("b", Align::Left)];
        let mut table = Table::new(columns).optional(&[2, 1]);
        table.row(["n".repeat(10), "1".repeat(10), "2".repeat(10)]);
        let heads =
            |width| table.lines("", width)[0].split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(heads(34), ["name", "a", "b"]);
        assert_eq!(heads(33), ["name", "a"]);
        assert_eq!(heads(21), ["name"]);
        assert!(table.lines("", 7).iter().all(|line| line.width() <= 7));
    }

    #[test]
    fn a_step_keeps_its_number() {
        let mut table = Table::new([("allocated by", Align::FlexibleEnd), ("size", Align::Right)]);
        table.row(["step 2703 torch.functional.cross_entropy".into(), "1.00 GiB".into()]);
        assert_eq!(table.lines("", 30)[1], "step 2703 torch.fun…  1.00 GiB");
    }

    #[test]
    fn a_path_loses_its_first_folders() {
        let path = "/home/user/project/model.py:12";
        assert_eq!(cut(path, 30), path);
        assert_eq!(cut(path, 29), "…/user/project/model.py:12");
        assert_eq!(cut(path, 15), "…/model.py:12");
        assert_eq!(cut(&format!("4 × {path}"), 20), "4 × …/model.py:12");
        // Too narrow for the name of the file, and not a path.
        assert_eq!(cut(path, 9), "/h….py:12");
        assert_eq!(cut("ratio a/b of all the tensors", 12), "ra…e tensors");
    }

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
