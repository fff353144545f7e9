//! The table `[check]` of `ttmem.toml`: the limits of `ttmem check`, as they are written.
//!
//! ```toml
//! [check]
//! DRAM = "80%"
//! "cuda:0" = "40GiB"
//! headroom.L1 = "32KiB"
//!
//! [check.phases]
//! FORWARD_PASS = "6GiB"
//! ```

use std::ops::Range;
use std::path::Path;

use toml_edit::{Document, Item, TableLike};

use super::shown;
use crate::error::{Error, Result};

/// The file in the working directory.
pub const CHECK_FILE: &str = "ttmem.toml";

const TABLE: &str = "check";

/// More levels of tables are not a limit.
const MAX_DEPTH: usize = 4;

const EXPECTED: &str = "expected a size or a percentage in quotes, such as \"40GiB\" or \"80%\"";

/// A limit as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenLimit {
    /// The parts of its key: `["headroom", "L1"]`.
    pub key: Vec<String>,
    /// Its value: `80%`, `40GiB`, or a number of bytes.
    pub value: String,
    /// The line of the value, from 1.
    pub line: usize,
}

/// The limits of a file in the order of its lines; `None` if it has no table `[check]`. `path` is used in messages.
pub fn check_limits(text: &str, path: &Path) -> Result<Option<Vec<WrittenLimit>>> {
    let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
    let reading = Reading { path, ends };
    let document = Document::parse(text).map_err(|error| {
        let line = reading.line(error.span());
        let message = error.message().trim().replace('\n', "; ");
        reading.error(line, format!("invalid TOML ({message}); {}", advice(text, line)))
    })?;
    let Some(item) = document.get(TABLE) else { return Ok(None) };
    let Some(table) = item.as_table_like() else {
        let what = format!("{TABLE} is {}; expected a table [{TABLE}]", shown(item));
        return Err(reading.error_at(item.span(), what));
    };
    let mut found = Vec::new();
    reading.table(table, &[], &mut found)?;
    found.sort_by_key(|limit| limit.line);
    Ok(Some(found))
}

/// What to do about a line that is not TOML.
fn advice(text: &str, line: usize) -> &'static str {
    let written = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let key = written.split('=').next().unwrap_or_default();
    if key.contains(':') && !key.contains(['"', '\'']) {
        "put names with a colon in quotes, such as \"cuda:0\""
    } else {
        "correct the line"
    }
}

/// A text that is being parsed.
struct Reading<'a> {
    path: &'a Path,
    /// The bytes where lines end.
    ends: Vec<usize>,
}

impl Reading<'_> {
    fn table(&self, table: &dyn TableLike, above: &[String], found: &mut Vec<WrittenLimit>) -> Result<()> {
        for (name, item) in table.iter() {
            let key: Vec<String> = above.iter().cloned().chain([name.to_owned()]).collect();
            let span = || item.span().or_else(|| table.get_key_value(name).and_then(|(key, _)| key.span()));
            match item.as_table_like() {
                Some(inner) if key.len() < MAX_DEPTH => self.table(inner, &key, found)?,
                Some(_) => {
                    let what = format!("{} is a table; {EXPECTED}", key.join("."));
                    return Err(self.error_at(span(), what));
                }
                None => {
                    let Some(value) = value(item) else {
                        let what = format!("{} is {}; {EXPECTED}", key.join("."), shown(item));
                        return Err(self.error_at(span(), what));
                    };
                    found.push(WrittenLimit { key, value, line: self.line(span()) });
                }
            }
        }
        Ok(())
    }

    fn error_at(&self, span: Option<Range<usize>>, message: String) -> Error {
        self.error(self.line(span), message)
    }

    fn line(&self, span: Option<Range<usize>>) -> usize {
        span.map_or(1, |span| self.ends.partition_point(|end| *end < span.start) + 1)
    }

    fn error(&self, line: usize, message: String) -> Error {
        Error::Config { path: self.path.into(), line, message }
    }
}

/// A string, or a number of bytes.
fn value(item: &Item) -> Option<String> {
    item.as_str().map(str::to_owned).or_else(|| item.as_integer().map(|bytes| bytes.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> Result<Option<Vec<WrittenLimit>>> {
        check_limits(text, Path::new("ttmem.toml"))
    }

    fn keys(text: &str) -> Vec<(String, String, usize)> {
        let found = limits(text).unwrap_or_else(|error| panic!("{text}: {error}")).unwrap_or_default();
        found.into_iter().map(|limit| (limit.key.join("/"), limit.value, limit.line)).collect()
    }

    #[test]
    fn every_way_to_write_a_key_is_the_same() {
        let wanted = vec![("headroom/L1".to_owned(), "32KiB".to_owned(), 2)];
        for text in [
            "[check]\nheadroom.L1 = '32KiB'",
            "[check]\n\"headroom\".\"L1\" = \"32KiB\"",
            "[check.headroom]\nL1 = \"32KiB\"",
            "[check]\nheadroom = { L1 = \"32KiB\" }",
            "\ncheck.headroom.L1 = \"32KiB\"",
            "\r\ncheck = { headroom = { L1 = \"32KiB\" } }",
        ] {
            assert_eq!(keys(text), wanted, "{text}");
        }
        let text =
            "[ttmem]\nlevel = 1\n[check]\n\"cuda:0\" = 42949672960\nDRAM = \"80%\"\n[[other]]\nx = 1.5";
        let wanted = [("cuda:0", "42949672960", 4), ("DRAM", "80%", 5)];
        assert_eq!(keys(text), wanted.map(|(key, value, line)| (key.to_owned(), value.to_owned(), line)));
    }

    #[test]
    fn a_file_without_the_table_has_no_limits() {
        for text in ["", "\u{feff}", "# check", "[checks]\nDRAM = 1"] {
            assert_eq!(limits(text).ok(), Some(None), "{text}");
        }
        assert_eq!(limits("[check]").ok(), Some(Some(Vec::new())));
    }

    #[test]
    fn errors_have_a_line_and_say_what_is_expected() {
        for (text, line, words) in [
            ("[check]\nDRAM = 0.8", 2, "DRAM is 0.8; expected a size or a percentage in quotes"),
            ("[check]\nDRAM = true", 2, "expected a size"),
            ("[check]\n\nDRAM = [\"80%\"]", 3, "expected a size"),
            ("[check]\nDRAM = 2026-11-18", 2, "expected a size"),
            ("check = 3", 1, "expected a table [check]"),
            ("[[check]]\nDRAM = 1", 1, "expected a table [check]"),
            ("[check]\nDRAM = \"80%\"\nDRAM = \"90%\"", 3, "duplicate key"),
            ("[check]\ncuda:0 = \"40GiB\"", 2, "such as \"cuda:0\""),
            ("[check]\nDRAM = 80%", 2, "correct the line"),
            ("[check]\na.b.c.d.e = 1", 2, "a.b.c.d is a table"),
        ] {
            match limits(text) {
                Err(error @ Error::Config { line: found, .. }) => {
                    assert_eq!(found, line, "{text}: {error}");
                    assert!(error.to_string().contains(words), "{text}: {error}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn many_limits_are_read_in_their_order() {
        let rows: Vec<String> = (0..10_000).map(|row| format!("phases.p{row} = \"{row}\"")).collect();
        let found = keys(&format!("[check]\n{}", rows.join("\n")));
        assert_eq!(found.len(), 10_000);
        assert!(found.iter().enumerate().all(|(row, (_, value, _))| *value == row.to_string()));
    }
}
