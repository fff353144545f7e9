//! Splits a byte stream into lines, in bounded memory.
//!
//! Blocks are read ahead. Each has room in front, for the incomplete line at the end of the previous block. Lines are
//! therefore slices of a block, and almost nothing is copied.

use std::io::{self, Read};

use memchr::memchr;
use ttmem_model::{Error, Result, Warning};

use crate::ahead::{Block, Blocks, ROOM};

/// Longer lines are truncated and counted. No line of a readable log is this long.
pub(crate) const MAX_LINE: usize = 32 << 20;

/// The number of bytes kept of a line that is too long.
const SHOWN: usize = 4096;

/// Reads lines from a stream.
pub(crate) struct Lines {
    blocks: Blocks,
    buffer: Vec<u8>,
    /// The start of the part of the buffer that was not returned yet.
    start: usize,
    end: usize,
    /// The offset of `start` in the stream, and the number of the next line (from 1).
    offset: u64,
    number: u64,
    ended: bool,
}

/// A line without its line ending (LF or CRLF).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub bytes: &'a [u8],
    /// The line number, from 1.
    pub number: u64,
    /// The offset of the line in the stream.
    pub offset: u64,
    /// The offset of the next line.
    pub next: u64,
    /// Whether the line has a line ending; only the last line of a stream may lack one.
    pub ended: bool,
    /// Whether the line was longer than [`MAX_LINE`]; then only its beginning is here.
    pub cut: bool,
}

impl Lines {
    pub fn new(source: impl Read + Send + 'static) -> Self {
        Self {
            blocks: Blocks::new(source),
            buffer: vec![0; ROOM],
            start: ROOM,
            end: ROOM,
            offset: 0,
            number: 1,
            ended: false,
        }
    }

    /// The next line, or `None` at the end of the stream.
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.next_with(|_, _| {})
    }

    /// The next line, or `None` at the end of the stream. Calls `piece` with each piece of a line longer than
    /// [`MAX_LINE`], including its line ending, and with what is known of the line so far: its beginning and
    /// offset, but not the offset of the next line.
    pub fn next_with(&mut self, piece: impl FnMut(&Line<'_>, &[u8])) -> io::Result<Option<Line<'_>>> {
        let mut searched = self.start;
        loop {
            if let Some(found) = memchr(b'\n', &self.buffer[searched..self.end]) {
                return Ok(Some(self.hand_out(searched + found, true)));
            }
            let held = self.end - self.start;
            if self.ended {
                return Ok((held > 0).then(|| self.hand_out(self.end, false)));
            }
            if held >= MAX_LINE {
                return self.cut_line(piece).map(Some);
            }
            self.fill()?;
            searched = self.start + held;
        }
    }

    /// The line from `start` to `end`, which is the end of the line or of the stream.
    fn hand_out(&mut self, end: usize, ended: bool) -> Line<'_> {
        let begin = self.start;
        let after = if ended { end + 1 } else { end };
        let (number, offset) = (self.number, self.offset);
        self.start = after;
        self.offset += (after - begin) as u64;
        self.number += 1;
        let bytes = &self.buffer[begin..end];
        let bytes = if ended { bytes.strip_suffix(b"\r").unwrap_or(bytes) } else { bytes };
        Line { bytes, number, offset, next: self.offset, ended, cut: false }
    }

    /// Returns the beginning of a line that is too long and discards the rest.
    fn cut_line(&mut self, mut piece: impl FnMut(&Line<'_>, &[u8])) -> io::Result<Line<'_>> {
        let (number, offset) = (self.number, self.offset);
        let mut whole = self.buffer[self.start..self.start + SHOWN].to_vec();
        loop {
            let held = &self.buffer[self.start..self.end];
            let end = memchr(b'\n', held);
            let length = end.map_or(held.len(), |end| end + 1);
            let known = Line { bytes: &whole, number, offset, next: offset, ended: true, cut: true };
            piece(&known, &held[..length]);
            self.skip(length);
            if end.is_some() || self.ended {
                break;
            }
            self.fill()?;
        }
        self.number += 1;
        // The rest of the block moves after the part that is kept.
        whole.extend_from_slice(&self.buffer[self.start..self.end]);
        (self.start, self.end) = (SHOWN, whole.len());
        self.buffer = whole;
        Ok(Line { bytes: &self.buffer[..SHOWN], number, offset, next: self.offset, ended: true, cut: true })
    }

    fn skip(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Takes the next block and puts the incomplete line in front of it.
    fn fill(&mut self) -> io::Result<()> {
        let Some(Block { mut buffer, end }) = self.blocks.next()? else {
            self.ended = true;
            return Ok(());
        };
        let held = self.end - self.start;
        if held <= ROOM {
            buffer[ROOM - held..ROOM].copy_from_slice(&self.buffer[self.start..self.end]);
            let used = std::mem::replace(&mut self.buffer, buffer);
            (self.start, self.end) = (ROOM - held, end);
            self.blocks.give_back(used);
        } else {
            // The line is longer than the room: collect it.
            self.buffer.copy_within(self.start..self.end, 0);
            self.buffer.truncate(held);
            self.buffer.extend_from_slice(&buffer[ROOM..end]);
            (self.start, self.end) = (0, self.buffer.len());
            self.blocks.give_back(buffer);
        }
        Ok(())
    }
}

/// Calls a function with each line of an input. Returns a warning if the input is compressed and ends early or is corrupt,
/// usually because the run crashed.
pub(crate) fn each_line(
    stream: impl Read + Send + 'static,
    file: &str,
    mut each: impl FnMut(&Line<'_>) -> Result<()>,
) -> Result<Option<Warning>> {
    let mut lines = Lines::new(stream);
    let mut last = 0;
    loop {
        match lines.next() {
            Ok(Some(line)) => {
                last = line.number;
                each(&line)?;
            }
            Ok(None) => return Ok(None),
            Err(error) if is_corruption(&error) && last > 0 => {
                let message = format!(
                    "the compressed file is corrupt after this line ({error}); the report covers what precedes it"
                );
                return Ok(Some(Warning { line: Some(last), message }));
            }
            Err(source) => return Err(Error::Read { path: file.into(), source }),
        }
    }
}

/// Whether a decompression error means that the file is truncated or corrupt.
pub(super) fn is_corruption(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof | Other)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::ahead::BLOCK;

    type Seen = Vec<(Vec<u8>, u64, u64, bool, bool)>;

    fn all(source: impl Read + Send + 'static) -> Seen {
        let mut lines = Lines::new(source);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            seen.push((line.bytes.to_vec(), line.number, line.offset, line.ended, line.cut));
        }
        seen
    }

    #[test]
    fn lines_end_with_lf_crlf_or_the_stream() {
        let seen = all(Cursor::new(b"a\nbc\r\n\nlast"));
        let expected: Seen = vec![
            (b"a".to_vec(), 1, 0, true, false),
            (b"bc".to_vec(), 2, 2, true, false),
            (b"".to_vec(), 3, 6, true, false),
            (b"last".to_vec(), 4, 7, false, false),
        ];
        assert_eq!(seen, expected);
    }

    /// Returns a few bytes at a time, as a pipe may.
    struct Trickle(Cursor<Vec<u8>>, usize);

    impl Read for Trickle {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = self.1.min(buffer.len());
            self.0.read(&mut buffer[..most])
        }
    }

    #[test]
    fn the_size_of_the_pieces_does_not_matter() {
        let text: Vec<u8> =
            (0..20_000).flat_map(|n| format!("line {n} {}\n", "x".repeat(n % 97)).into_bytes()).collect();
        let whole = all(Cursor::new(text.clone()));
        assert_eq!(whole.len(), 20_000);
        for piece in [1000, 7777, BLOCK - 1] {
            assert!(all(Trickle(Cursor::new(text.clone()), piece)) == whole, "pieces of {piece}");
        }
    }

    #[test]
    fn a_line_longer_than_a_block_is_whole_and_one_that_is_too_long_is_cut() {
        let mut text = vec![b'x'; BLOCK * 3];
        text.extend(b"\nshort\n");
        let long = text.len() as u64;
        text.extend(vec![b'y'; MAX_LINE + BLOCK]);
        text.extend(b"\nafter\n");
        let length = text.len() as u64;
        let seen = all(Cursor::new(text));
        assert_eq!(seen.len(), 4);
        assert_eq!(seen[0].0.len(), BLOCK * 3);
        assert_eq!((seen[2].1, seen[2].2, seen[2].4), (3, long, true));
        assert_eq!((seen[3].0.as_slice(), seen[3].1), (&b"after"[..], 4));
        assert_eq!(seen[3].2 + 6, length);
    }

    #[test]
    fn an_error_of_the_stream_is_passed_on_after_the_lines_before_it() {
        struct Failing(bool);
        impl Read for Failing {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if std::mem::replace(&mut self.0, true) {
                    return Err(io::Error::other("gone"));
                }
                buffer[..2].copy_from_slice(b"a\n");
                Ok(2)
            }
        }
        let mut lines = Lines::new(Failing(false));
        assert_eq!(lines.next().unwrap().map(|line| line.bytes.to_vec()), Some(b"a".to_vec()));
        assert!(lines.next().is_err());
    }
}
