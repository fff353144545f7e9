//! Annotations of GitHub Actions: workflow commands on standard output.
//!
//! `::error file=F,line=N,title=T::MESSAGE`, with the escapes that GitHub's own toolkit uses: `%`, carriage returns and line
//! feeds in messages, and also `:` and `,` in properties.

use std::io::{self, Write};
use std::path::{Component, Path};

use ttmem_query::words::{brief, one_line};
use ttmem_query::{Checked, LimitChecked, Outcome, SourceLine};

use super::{label, row_size, sentence};
use crate::name_of_file;

/// Rows of the memory in a message.
const MAX_ROWS: usize = 3;
/// Characters of a message. GitHub cuts longer ones.
const MAX_MESSAGE: usize = 4000;

/// Writes an annotation for each limit that does not hold, and for each file that could not be read. It is attached to a source line if the line is in `root`, the
/// folder of the repository.
pub fn check_github(answer: &Checked, root: &Path, out: &mut dyn Write) -> io::Result<()> {
    for rank in &answer.ranks {
        for limit in rank.limits.iter().filter(|limit| limit.result != Outcome::Passed) {
            let rank = label(rank).map_or_else(String::new, |label| format!(" ({label})"));
            let title =
                format!("title={}", property(&one_line(&format!("Memory limit {}{rank}", limit.name))));
            let line = limit.lines.iter().find_map(|line| relative(line, root));
            let line = line
                .map_or_else(String::new, |(file, line)| format!("file={},line={line},", property(&file)));
            writeln!(out, "::error {line}{title}::{}", data(&brief(&message(limit), MAX_MESSAGE)))?;
        }
    }
    for file in &answer.unreadable {
        let title = property(&one_line(&format!("Memory limits of {}", name_of_file(&file.file))));
        writeln!(out, "::error title={title}::{}", data(&brief(&one_line(&file.message), MAX_MESSAGE)))?;
    }
    Ok(())
}

fn message(limit: &LimitChecked) -> String {
    let rows = limit.held.iter().take(MAX_ROWS).map(|row| format!("{} {}", row_size(limit, row), row.what));
    let lines = std::iter::once(sentence(limit)).chain(rows);
    lines.map(|line| one_line(&line)).collect::<Vec<_>>().join("\n")
}

/// The file relative to a folder, and the line; `None` if it is elsewhere.
fn relative(line: &SourceLine, root: &Path) -> Option<(String, u64)> {
    let path = Path::new(&line.file);
    let path = if path.is_absolute() { path.strip_prefix(root).ok()? } else { path };
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let file = path.to_str().filter(|file| is_inside && !file.is_empty())?;
    Some((file.strip_prefix("./").unwrap_or(file).to_owned(), line.line))
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_as_in_the_toolkit() {
        assert_eq!(data("80% of\r\nDRAM: a, b"), "80%25 of%0D%0ADRAM: a, b");
        assert_eq!(property("cuda:0, 5%\n::error::"), "cuda%3A0%2C 5%25%0A%3A%3Aerror%3A%3A");
    }

    #[test]
    fn only_files_of_the_repository_are_annotated() {
        let at = |file: &str| {
            let line = SourceLine { file: file.into(), line: 3 };
            relative(&line, Path::new("/srv/repo")).map(|(file, _)| file)
        };
        assert_eq!(at("train.py").as_deref(), Some("train.py"));
        assert_eq!(at("./src/train.py").as_deref(), Some("src/train.py"));
        assert_eq!(at("/srv/repo/src/train.py").as_deref(), Some("src/train.py"));
        for other in ["/srv/other/train.py", "../train.py", "/srv/repo/../x.py", "/srv/repo", ""] {
            assert_eq!(at(other), None, "{other}");
        }
    }
}
