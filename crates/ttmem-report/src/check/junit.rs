//! JUnit's XML format, as Jenkins and GitLab read it: a test suite per file, a test case per limit.
//!
//! A limit that is exceeded is a `failure`, and one that could not be checked an `error`. So is a file that could not be read.
//! `python/tests/junit-10.xsd` is the schema.

use std::io::{self, Write};

use ttmem_query::{Checked, LimitChecked, Outcome, RankChecked};

use super::{label, row_size, sentence};
use crate::marker::{MARKER, XML};
use crate::name_of_file;

/// Writes the response in JUnit's format.
pub fn check_junit(answer: &Checked, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(XML)?;
    writeln!(out, "<!-- {MARKER} -->")?;
    let unreadable = answer.unreadable.len();
    let all = answer.passed + answer.failed + answer.unknown + unreadable;
    let (failed, unknown) = (answer.failed, answer.unknown + unreadable);
    writeln!(
        out,
        "<testsuites name=\"ttmem check\" tests=\"{all}\" failures=\"{failed}\" errors=\"{unknown}\">"
    )?;
    let mut files: Vec<&str> = Vec::new();
    for rank in &answer.ranks {
        if !files.contains(&rank.file.as_str()) {
            files.push(&rank.file);
        }
    }
    for file in files {
        let ranks: Vec<&RankChecked> = answer.ranks.iter().filter(|rank| rank.file == file).collect();
        suite(file, &ranks, out)?;
    }
    for file in &answer.unreadable {
        let (name, message) = (escaped(name_of_file(&file.file)), escaped(&file.message));
        writeln!(out, "  <testsuite name=\"{name}\" tests=\"1\" failures=\"0\" errors=\"1\">")?;
        write!(out, "    <testcase classname=\"{name}\" name=\"read\">")?;
        writeln!(out, "<error type=\"unreadable\" message=\"{message}\">{message}</error></testcase>")?;
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

fn suite(file: &str, ranks: &[&RankChecked], out: &mut dyn Write) -> io::Result<()> {
    let results = || ranks.iter().flat_map(|rank| &rank.limits).map(|limit| limit.result);
    let count = |wanted: Outcome| results().filter(|result| *result == wanted).count();
    let name = escaped(name_of_file(file));
    let (tests, failed, unknown) = (results().count(), count(Outcome::Failed), count(Outcome::Unknown));
    writeln!(
        out,
        "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failed}\" errors=\"{unknown}\">"
    )?;
    for rank in ranks {
        for limit in &rank.limits {
            case(&name, rank, limit, out)?;
        }
    }
    let notes: Vec<&str> = ranks.iter().flat_map(|rank| &rank.notes).map(String::as_str).collect();
    if !notes.is_empty() {
        writeln!(out, "    <system-out>{}</system-out>", escaped(&notes.join("\n")))?;
    }
    writeln!(out, "  </testsuite>")
}

fn case(suite: &str, rank: &RankChecked, limit: &LimitChecked, out: &mut dyn Write) -> io::Result<()> {
    let name = label(rank).map_or_else(|| limit.name.clone(), |label| format!("{label}: {}", limit.name));
    write!(out, "    <testcase classname=\"{suite}\" name=\"{}\">", escaped(&name))?;
    let (message, text) = (escaped(&sentence(limit)), escaped(&details(limit)));
    match limit.result {
        Outcome::Passed => write!(out, "<system-out>{message}</system-out>")?,
        Outcome::Failed => {
            write!(out, "<failure type=\"exceeded\" message=\"{message}\">{text}</failure>")?;
        }
        Outcome::Unknown => write!(out, "<error type=\"unknown\" message=\"{message}\">{text}</error>")?,
    }
    writeln!(out, "</testcase>")
}

/// The message, what holds the memory, and what to do.
fn details(limit: &LimitChecked) -> String {
    let rows = limit.held.iter().map(|row| {
        let parts = [Some(row.what.as_str()), row.allocated_by.as_deref(), row.loc.as_deref()];
        let what = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        format!("  {}  {what}", row_size(limit, row))
    });
    std::iter::once(sentence(limit)).chain(rows).chain(limit.advice.clone()).collect::<Vec<_>>().join("\n")
}

/// Text in an element or an attribute. Characters that XML 1.0 cannot contain are replaced.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // As references, attributes keep them.
            '\n' => safe.push_str("&#10;"),
            '\t' => safe.push_str("&#9;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            character if character.is_control() => safe.push('\u{fffd}'),
            character => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_only_text() {
        assert_eq!(
            escaped("<a b=\"c\">&\n\u{0}\u{1b}]]>\u{ffff}'é"),
            "&lt;a b=&quot;c&quot;&gt;&amp;&#10;\u{fffd}\u{fffd}]]&gt;\u{fffd}'é"
        );
    }
}
