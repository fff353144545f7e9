//! Lines of a byte stream, in bounded memory.

use std::io::{self, Read};

use memchr::memchr;

/// Longer lines are cut here and counted: no line of a log that is meant to be read is so long.
pub(crate) const LONGEST_LINE: usize = 32 << 20;

const CHUNK: usize = 256 << 10;

/// Reads lines from a stream.
pub(crate) struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// The part of the buffer that is filled and not yet handed out.
    start: usize,
    end: usize,
    /// Where in the stream `start` is, and which line comes next (from 1).
    offset: u64,
    number: u64,
    ended: bool,
}

/// A line without its end (LF or CRLF).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub bytes: &'a [u8],
    /// The number of the line, from 1.
    pub number: u64,
    /// Where it begins in the stream.
    pub offset: u64,
    /// Where the next line begins.
    pub next: u64,
    /// Whether its end was there; only the last line of a stream may lack it.
    pub ended: bool,
    /// Whether it was longer than [`LONGEST_LINE`] and only its beginning is here.
    pub cut: bool,
}

impl<R: Read> Lines<R> {
    pub fn new(source: R) -> Self {
        Self { source, buffer: vec![0; CHUNK], start: 0, end: 0, offset: 0, number: 1, ended: false }
    }

    /// The next line, or `None` at the end of the stream.
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = self.start;
        loop {
            if let Some(found) = memchr(b'\n', &self.buffer[searched..self.end]) {
                return Ok(Some(self.hand_out(searched + found, true, false)));
            }
            let held = self.end - self.start;
            if self.ended {
                return Ok((held > 0).then(|| self.hand_out(self.end, false, false)));
            }
            if held >= LONGEST_LINE {
                return self.cut_line().map(Some);
            }
            self.fill()?;
            searched = self.start + held;
        }
    }

    /// The line from `start` to `end`, which is the line's end or the end of what there is.
    fn hand_out(&mut self, end: usize, ended: bool, cut: bool) -> Line<'_> {
        let begin = self.start;
        let after = if ended { end + 1 } else { end };
        let (number, offset) = (self.number, self.offset);
        self.start = after;
        self.offset += (after - begin) as u64;
        self.number += 1;
        let bytes = &self.buffer[begin..end];
        let bytes = if ended { bytes.strip_suffix(b"\r").unwrap_or(bytes) } else { bytes };
        Line { bytes, number, offset, next: self.offset, ended, cut }
    }

    /// Hands out the beginning of a line that is too long, and throws the rest of it away.
    fn cut_line(&mut self) -> io::Result<Line<'_>> {
        const SHOWN: usize = 4096;
        let (number, offset) = (self.number, self.offset);
        let shown = self.buffer[self.start..self.start + SHOWN].to_vec();
        loop {
            if let Some(found) = memchr(b'\n', &self.buffer[self.start..self.end]) {
                self.skip(found + 1);
                break;
            }
            self.skip(self.end - self.start);
            if self.ended {
                break;
            }
            self.fill()?;
        }
        self.number += 1;
        // What is left of the stream moves behind the part that is shown.
        let rest = self.buffer[self.start..self.end].to_vec();
        self.buffer.resize(CHUNK.max(SHOWN + rest.len()), 0);
        self.buffer.shrink_to_fit();
        self.buffer[..SHOWN].copy_from_slice(&shown);
        self.buffer[SHOWN..SHOWN + rest.len()].copy_from_slice(&rest);
        (self.start, self.end) = (SHOWN, SHOWN + rest.len());
        Ok(Line { bytes: &self.buffer[..SHOWN], number, offset, next: self.offset, ended: true, cut: true })
    }

    fn skip(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Reads more behind what is held, making room first.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<(Vec<u8>, u64, u64, bool, bool)> {
        let mut lines = Lines::new(text);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            seen.push((line.bytes.to_vec(), line.number, line.offset, line.ended, line.cut));
        }
        seen
    }

    #[test]
    fn lines_end_with_lf_crlf_or_the_stream() {
        let seen = all(b"a\nbc\r\n\nlast");
        let expected: Vec<(Vec<u8>, u64, u64, bool, bool)> = vec![
            (b"a".to_vec(), 1, 0, true, false),
            (b"bc".to_vec(), 2, 2, true, false),
            (b"".to_vec(), 3, 6, true, false),
            (b"last".to_vec(), 4, 7, false, false),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_line_longer_than_a_chunk_is_whole_and_one_that_is_too_long_is_cut() {
        let mut text = vec![b'x'; CHUNK * 3];
        text.extend(b"\nshort\n");
        let long = text.len() as u64;
        text.extend(vec![b'y'; LONGEST_LINE + CHUNK]);
        text.extend(b"\nafter\n");
        let seen = all(&text);
        assert_eq!(seen.len(), 4);
        assert_eq!(seen[0].0.len(), CHUNK * 3);
        assert_eq!((seen[2].1, seen[2].2, seen[2].4), (3, long, true));
        assert_eq!((seen[3].0.as_slice(), seen[3].1), (&b"after"[..], 4));
        assert_eq!(seen[3].2 + 6, text.len() as u64);
    }
}
