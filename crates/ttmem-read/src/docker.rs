//! Logs as Docker's `json-file` driver stores them: one JSON object for each line, with the text in `log`.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};

use serde::Deserialize;

/// How such a log begins. Docker always writes the text first.
const BEGIN: &[u8] = br#"{"log":""#;

/// The maximum length of a line; Docker splits texts of 16 KiB and more. A longer line is read in parts.
const MAX_LINE: u64 = 1 << 20;

/// Whether a file begins like a log of Docker.
pub(crate) fn is_log(head: &[u8]) -> bool {
    head.starts_with(BEGIN)
}

/// The text of a log of Docker. A line that is not an object with a text stays as it is.
pub(crate) struct Texts<R> {
    lines: BufReader<R>,
    line: Vec<u8>,
    text: Vec<u8>,
    /// How much of the text was read.
    read: usize,
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    log: Cow<'a, str>,
}

impl<R: Read> Texts<R> {
    pub fn new(stream: R) -> Self {
        Self { lines: BufReader::with_capacity(1 << 18, stream), line: Vec::new(), text: Vec::new(), read: 0 }
    }

    /// Reads the text of the next line. Docker splits long lines: only the last part ends with a line break.
    fn next(&mut self) -> io::Result<()> {
        self.line.clear();
        self.text.clear();
        self.read = 0;
        self.lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.line)?;
        match serde_json::from_slice::<Entry<'_>>(&self.line) {
            Ok(entry) => self.text.extend_from_slice(entry.log.as_bytes()),
            Err(_) => self.text.extend_from_slice(&self.line),
        }
        Ok(())
    }
}

impl<R: Read> Read for Texts<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.read == self.text.len() {
            self.next()?;
            if self.line.is_empty() {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.text.len() - self.read);
        buffer[..count].copy_from_slice(&self.text[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(log: &str) -> String {
        assert!(is_log(log.as_bytes()));
        let mut text = String::new();
        Texts::new(log.as_bytes()).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn texts_are_joined_and_other_lines_stay() {
        let log = concat!(
            r#"{"log":"a \"quoted\" \u001b[32mword\n","stream":"stderr","time":"2026-01-01T12:00:00.1Z"}"#,
            "\n",
            r#"{"log":"","stream":"stderr"}"#,
            "\n",
            r#"{"log":"a long ","stream":"stdout","time":"2026-01-01T12:00:00.2Z"}"#,
            "\n",
            r#"{"log":"line\n","attrs":{"tag":"x"}}"#,
            "\nplain\n",
            r#"{"log":"cut"#,
        );
        assert_eq!(text(log), "a \"quoted\" \u{1b}[32mword\na long line\nplain\n{\"log\":\"cut");
    }
}
