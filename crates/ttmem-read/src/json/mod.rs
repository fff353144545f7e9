//! Streaming JSON parser for inputs that may be larger than memory.
//!
//! [`Json`] walks the lists and objects of a document and returns their values one at a time: parsed by `serde_json`
//! ([`Json::parse`]), as bytes ([`Json::value`]), or skipped ([`Json::skip`]). It keeps one value in memory, never the
//! whole document. Only `parse` checks the complete grammar of a value; the others check only what is needed to find
//! its end.
//!
//! [`read`] runs a walk over a stream. It distinguishes a corrupt file, whose values before the corruption remain
//! valid, from other failures. [`field`] has types for values that may not have the expected type, and [`describe`]
//! describes JSON in unknown formats.

mod describe;
mod end;
pub(super) mod field;

use std::io::{self, Read};
use std::ops::Range;

use memchr::memchr_iter;
use serde::Deserialize;

pub(super) use self::describe::{describe, keys};
use self::end::ValueEnd;
pub(super) use self::field::Number;
use ttmem_model::Error;

/// The size limit of a value kept in memory, unless a reader sets another limit.
pub(super) const MAX_VALUE: usize = 64 << 20;
/// The number of bytes read at a time.
const CHUNK: usize = 256 << 10;

/// A JSON document being read.
pub(super) struct Json<R> {
    stream: R,
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that were consumed.
    taken: usize,
    /// The offset of the buffer in the stream.
    offset: u64,
    /// The line of the first byte that was not consumed, from 1.
    line: u64,
    ended: bool,
}

/// Why a document cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(super) enum JsonError {
    #[error("{0}")]
    Read(io::Error),
    #[error("the file ends inside a value")]
    Truncated,
    /// The structure is invalid at the current line.
    #[error("{0}")]
    Syntax(&'static str),
    /// A parsed value is invalid; the error is at this line.
    #[error("{why}")]
    Value { line: u64, why: String },
}

/// The result of reading JSON.
pub(super) type Parsed<T> = Result<T, JsonError>;

/// The reason why a walk ended early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The document is corrupt.
    Corrupt(JsonError),
    /// Processing failed, for example because an event could not be written.
    Failed(Error),
}

impl From<JsonError> for Stop {
    fn from(error: JsonError) -> Self {
        Self::Corrupt(error)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Where and why a document could not be read to its end.
#[derive(Debug)]
pub(super) struct Corruption {
    /// The line, from 1.
    pub line: u64,
    pub why: JsonError,
}

impl Corruption {
    /// The error for a file that has nothing useful before the corruption. `lacks` describes what it lacks.
    pub fn into_error(self, file: &str, lacks: &str) -> Error {
        let Self { line, why } = self;
        match why {
            JsonError::Read(source) => Error::Read { path: file.into(), source },
            why => Error::Corrupt {
                file: file.into(),
                message: format!("corrupt at line {line} ({why}); {lacks}"),
            },
        }
    }
}

/// Reads a stream with `walk`, which must consume the stream's single value. If the stream is corrupt, returns where
/// and why the walk ended early; what the walk has read until then is valid.
pub(super) fn read<R: Read, E: Into<Stop>>(
    stream: R,
    walk: impl FnOnce(&mut Json<R>) -> Result<(), E>,
) -> Result<Option<Corruption>, Error> {
    let mut json = Json::new(stream);
    match walk(&mut json).map_err(Into::into).and_then(|()| Ok(json.end()?)) {
        Ok(()) => Ok(None),
        Err(Stop::Failed(error)) => Err(error),
        Err(Stop::Corrupt(why)) => {
            let line = if let JsonError::Value { line, .. } = why { line } else { json.line };
            Ok(Some(Corruption { line, why }))
        }
    }
}

impl<R: Read> Json<R> {
    pub fn new(stream: R) -> Self {
        Self { stream, buffer: Vec::new(), taken: 0, offset: 0, line: 1, ended: false }
    }

    /// The offset of the next byte in the stream.
    pub fn offset(&self) -> u64 {
        self.offset + self.taken as u64
    }

    /// The next byte that is not white space, without consuming it; `None` at the end.
    pub fn peek(&mut self) -> Parsed<Option<u8>> {
        if self.offset() == 0 && (!self.buffer.is_empty() || self.fill()?) {
            self.take(self.buffer.len() - without_mark(&self.buffer).len());
        }
        loop {
            let rest = &self.buffer[self.taken..];
            if let Some(blank) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) {
                self.take(blank);
                return Ok(Some(self.buffer[self.taken]));
            }
            self.take(rest.len());
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Calls `element` before each element of a list; it has to consume the element. Returns `false` and consumes
    /// nothing if the next value is not a list.
    pub fn list<E: From<JsonError>>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<bool, E> {
        if !self.accept(b'[')? {
            return Ok(false);
        }
        let mut is_first = true;
        while self.goes_on(is_first, b']')? {
            is_first = false;
            element(self)?;
        }
        Ok(true)
    }

    /// Calls `entry` with the key of each entry of an object; it has to consume the value. Returns `false` and consumes
    /// nothing if the next value is not an object.
    pub fn object<E: From<JsonError>>(
        &mut self,
        mut entry: impl FnMut(&mut Self, String) -> Result<(), E>,
    ) -> Result<bool, E> {
        if !self.accept(b'{')? {
            return Ok(false);
        }
        let mut is_first = true;
        while self.goes_on(is_first, b'}')? {
            is_first = false;
            let key = self.key()?;
            entry(self, key)?;
        }
        Ok(true)
    }

    /// Parses the next value. Returns `None` and skips the value if it is longer than `limit`. A value that `T` rejects
    /// counts as corrupt, at its line in the document.
    pub fn parse<'a, T: Deserialize<'a>>(&'a mut self, limit: usize) -> Parsed<Option<T>> {
        self.peek()?;
        let first_line = self.line;
        let value = match self.find_value(limit) {
            Ok(Found::At(value)) if value.len() <= limit => value,
            Ok(Found::At(_)) => return Ok(None),
            Ok(Found::TooLarge(end)) => return self.skip_rest(end).map(|()| None),
            // The parser has the best description of what the end of the file cut off.
            Err(JsonError::Truncated) => self.taken..self.buffer.len(),
            Err(error) => return Err(error),
        };
        serde_json::from_slice(&self.buffer[value]).map(Some).map_err(|error| {
            let why = error.to_string();
            // The parser's position is relative to the value.
            let place = format!(" at line {} column {}", error.line(), error.column());
            let why = why.strip_suffix(&place).unwrap_or(&why).to_owned();
            JsonError::Value { line: first_line + (error.line() as u64).saturating_sub(1), why }
        })
    }

    /// The bytes of the next value.
    pub fn value(&mut self) -> Parsed<&[u8]> {
        match self.find_value(MAX_VALUE)? {
            Found::At(value) => Ok(&self.buffer[value]),
            Found::TooLarge(_) => Err(JsonError::Syntax(TOO_LARGE)),
        }
    }

    /// Skips the next value, whatever its size.
    pub fn skip(&mut self) -> Parsed<()> {
        match self.find_value(0)? {
            Found::At(_) => Ok(()),
            Found::TooLarge(end) => self.skip_rest(end),
        }
    }

    /// Finds the next value in the buffer and consumes it. If the value is longer than `limit` and does not end within
    /// the buffer, consumes nothing.
    fn find_value(&mut self, limit: usize) -> Parsed<Found> {
        self.peek()?;
        let mut end = ValueEnd::default();
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.taken..];
            if let Some(length) = end.find(&rest[searched..]).map(|length| searched + length) {
                return if length == 0 { Err(MISSING_VALUE) } else { Ok(Found::At(self.take(length))) };
            }
            searched = rest.len();
            if searched > limit {
                return Ok(Found::TooLarge(end));
            }
            if !self.fill()? {
                let is_whole = end.is_bare() && searched > 0;
                return if is_whole { Ok(Found::At(self.take(searched))) } else { Err(JsonError::Truncated) };
            }
        }
    }

    /// Consumes the rest of a value that does not end within the buffer.
    fn skip_rest(&mut self, mut end: ValueEnd) -> Parsed<()> {
        loop {
            self.take(self.buffer.len() - self.taken);
            if !self.fill()? {
                return if end.is_bare() { Ok(()) } else { Err(JsonError::Truncated) };
            }
            if let Some(length) = end.find(&self.buffer) {
                self.take(length);
                return Ok(());
            }
        }
    }

    /// Consumes the next byte that is not white space if it is `expected`.
    fn accept(&mut self, expected: u8) -> Parsed<bool> {
        let is_next = self.peek()? == Some(expected);
        self.take(usize::from(is_next));
        Ok(is_next)
    }

    /// Whether a list or an object has another element. Consumes the comma before it, or the closing bracket.
    fn goes_on(&mut self, is_first: bool, close: u8) -> Parsed<bool> {
        match self.peek()? {
            None => Err(JsonError::Truncated),
            Some(byte) if byte == close => {
                self.take(1);
                Ok(false)
            }
            Some(b',') if !is_first => {
                self.take(1);
                Ok(true)
            }
            Some(_) if is_first => Ok(true),
            Some(_) => Err(JsonError::Syntax("a comma is missing between two values")),
        }
    }

    /// The key of the next entry. Consumes the colon after it.
    fn key(&mut self) -> Parsed<String> {
        if self.peek()? != Some(b'"') {
            return Err(JsonError::Syntax("an object has an entry without a key"));
        }
        let key = serde_json::from_slice(self.value()?);
        let key = key.map_err(|_| JsonError::Syntax("a key is not a valid string"))?;
        if self.accept(b':')? { Ok(key) } else { Err(JsonError::Syntax("a colon is missing after a key")) }
    }

    /// Checks that the document has ended.
    fn end(&mut self) -> Parsed<()> {
        match self.peek()? {
            None => Ok(()),
            Some(_) => Err(JsonError::Syntax("text follows the end of the document")),
        }
    }

    fn take(&mut self, bytes: usize) -> Range<usize> {
        let taken = self.taken..self.taken + bytes;
        self.line += memchr_iter(b'\n', &self.buffer[taken.clone()]).count() as u64;
        self.taken = taken.end;
        taken
    }

    /// Reads more; `false` at the end.
    fn fill(&mut self) -> Parsed<bool> {
        if self.ended {
            return Ok(false);
        }
        self.buffer.drain(..self.taken);
        self.offset += self.taken as u64;
        self.taken = 0;
        // A long value is read in increasingly large pieces, so that its beginning is not moved for every piece.
        let wanted = CHUNK.max(self.buffer.len());
        let read = self.stream.by_ref().take(wanted as u64).read_to_end(&mut self.buffer);
        self.ended = read.map_err(JsonError::Read)? == 0;
        Ok(!self.ended)
    }
}

const MISSING_VALUE: JsonError = JsonError::Syntax("a value is missing");
const TOO_LARGE: &str = "a value exceeds 64 MiB";

/// The location of a value.
enum Found {
    /// Within the buffer.
    At(Range<usize>),
    /// Beyond the end of the buffer, with the state of the search for its end.
    TooLarge(ValueEnd),
}

/// Removes the byte order mark that some editors put in front of a text.
pub(super) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

#[cfg(test)]
mod tests;
