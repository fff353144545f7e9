//! Finds errors in the lines of one stream, and decides whether a line is the error itself or text about it.
//!
//! A program prints an error as a line of tt-metal's logger, as the text of an exception, or as both. The text of an
//! exception has several lines, so a few lines are collected from its first line on. Other lines are only compared with
//! a few phrases and kept for a while: the Python traceback precedes the exception.

use memchr::memmem;

use super::failure::{Failure, HEADS, is_hinted};
use crate::document::Document;
use crate::recent::Recent;
use crate::traceback::{self, Location, after_error, location};
use crate::wrapping::{split_tag, strip_colors, without_prefix_like, without_prefixes};

/// The state of one stream.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    recent: Recent,
    open: Option<Open>,
    has_failure: bool,
    has_continued: bool,
}

/// What a line contains or ends.
#[derive(Debug, Default)]
pub(crate) struct Sighted<'t> {
    /// An error in the line.
    pub failure: Option<Failure<'t>>,
    /// Whether a logger or an exception printed that error. If not, the text may be about an error.
    pub is_framed: bool,
    /// An exception whose text is complete.
    pub exception: Option<Exception>,
}

/// The collected text of an exception, without the prefixes of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exception {
    text: String,
    location: Location,
    /// The line of its message, counted from 1.
    pub line: u64,
    /// Whether lines follow its message that do not belong to the end of a program.
    pub has_continued: bool,
}

impl Exception {
    /// The error; `None` if it is not about memory.
    pub fn failure(&self) -> Option<Failure<'_>> {
        match self.location.op.as_deref() {
            None => Failure::of_exception(&self.text),
            called => Failure::of_exception_calling(&self.text, called),
        }
    }

    /// The line of the user's program, such as `model.py:12`.
    pub fn loc(&self) -> Option<&str> {
        self.location.loc.as_deref()
    }
}

/// An exception whose text is not complete yet.
#[derive(Debug)]
struct Open {
    stage: Stage,
    text: Vec<u8>,
    /// The prefix of its lines.
    prefix: Vec<u8>,
    /// The number of lines of the message.
    lines: u32,
    /// The number of lines in a row that do not belong to it.
    strangers: u32,
    line: u64,
    is_pytest: bool,
    has_continued: bool,
    location: Location,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// `info:` comes next.
    Head,
    Message,
    Frames,
}

/// The maximum number of lines of a message.
const MAX_LINES: u32 = 8;
/// The maximum size of an exception's text.
const MAX_TEXT: usize = 256 << 10;
/// The number of lines of other writers that may be inside an exception's text.
const MAX_STRANGERS: u32 = 4;

impl Open {
    fn new(head: &[u8], line: u64) -> Self {
        let mut open = Self {
            stage: Stage::Head,
            text: Vec::new(),
            prefix: Vec::new(),
            lines: 0,
            strangers: 0,
            line,
            is_pytest: false,
            has_continued: false,
            location: Location::default(),
        };
        open.add(head);
        open
    }

    fn add(&mut self, line: &[u8]) {
        if self.text.len() + line.len() < MAX_TEXT {
            self.text.extend_from_slice(line);
            self.text.push(b'\n');
        }
    }

    /// Takes the next line. Returns whether the text may go on.
    fn take(&mut self, line: &[u8], number: u64, recent: &Recent) -> bool {
        let body = without_prefix_like(&self.prefix, line).unwrap_or_else(|| without_prefixes(line));
        let body = body.trim_ascii();
        match self.stage {
            Stage::Head => match line.trim_ascii_end().strip_suffix(b"info:") {
                Some(prefix) => {
                    self.prefix = prefix.to_vec();
                    self.is_pytest = is_pytest(prefix);
                    self.stage = Stage::Message;
                    self.add(b"info:");
                    true
                }
                None => self.is_stranger(line),
            },
            Stage::Message if body == b"backtrace:" => {
                // All lines so far are the message.
                self.has_continued = false;
                self.stage = Stage::Frames;
                self.add(body);
                true
            }
            Stage::Message if body.is_empty() => {
                self.stage = Stage::Frames;
                self.is_stranger(line)
            }
            Stage::Message => {
                if self.lines == 0 {
                    self.line = number;
                    let before: Vec<&[u8]> = recent.lines().collect();
                    self.location = location(&before, self.is_pytest);
                } else {
                    self.has_continued |= !is_of_the_end(line);
                }
                self.add(body);
                self.lines += 1;
                self.lines < MAX_LINES
            }
            Stage::Frames if body.starts_with(b"--- ") => {
                self.strangers = 0;
                self.add(body);
                true
            }
            Stage::Frames => {
                let before: Vec<&[u8]> = if self.is_pytest { recent.lines().collect() } else { Vec::new() };
                match after_error(line, &before).filter(|_| self.is_pytest) {
                    Some(found) => {
                        self.location = found;
                        false
                    }
                    None => self.is_stranger(line),
                }
            }
        }
    }

    fn is_stranger(&mut self, line: &[u8]) -> bool {
        self.has_continued |= !is_of_the_end(line);
        self.strangers += 1;
        self.strangers <= MAX_STRANGERS
    }

    fn end(self) -> Option<Exception> {
        let text = String::from_utf8_lossy(&self.text).into_owned();
        let Self { location, line, has_continued, .. } = self;
        (self.lines > 0).then_some(Exception { text, location, line, has_continued })
    }
}

/// Whether pytest prefixed a line: `E       `.
fn is_pytest(prefix: &[u8]) -> bool {
    matches!(prefix.trim_ascii_end(), [b'E'] | [.., b' ', b'E'])
}

impl Sightings {
    /// Takes the next line of the stream, without colors. `prefix` is the logger's prefix if it was removed already.
    pub fn line<'t>(&mut self, prefix: &[u8], text: &'t [u8], number: u64) -> Sighted<'t> {
        self.recent.push(text);
        let mut sighted = Sighted::default();
        let may_go_on = self.open.as_mut().map(|open| open.take(text, number, &self.recent));
        if may_go_on == Some(false) {
            sighted.exception = self.end();
        }
        if !is_hinted(text) && memmem::find(prefix, b"FATAL").is_none() {
            self.has_continued |= self.has_failure && may_go_on.is_none() && !is_of_the_end(text);
            return sighted;
        }
        let logged = fatal_message(prefix, text).filter(|_| !is_quoted(text));
        let is_message =
            self.open.as_ref().is_some_and(|open| open.stage == Stage::Message && open.lines > 0);
        sighted.failure = Failure::find(text).or_else(|| logged.and_then(Failure::refusal));
        sighted.is_framed = logged.is_some() || is_message;
        if let Some(at) = HEADS.iter().filter_map(|head| memmem::find(text, head.as_bytes())).min() {
            let is_repr = is_repr(&text[..at]);
            self.open(&text[at..], is_repr, number, &mut sighted);
        }
        sighted
    }

    /// Begins the text of an exception, or takes it whole if it is quoted on one line.
    fn open(&mut self, head: &[u8], is_repr: bool, number: u64, sighted: &mut Sighted<'_>) {
        let before = self.end();
        sighted.exception = sighted.exception.take().or(before);
        if memmem::find(head, b"\\ninfo:").is_none() {
            self.open = Some(Open::new(head, number));
        } else if is_repr && sighted.exception.is_none() {
            let lines: Vec<&[u8]> = self.recent.lines().collect();
            let text = String::from_utf8_lossy(head).replace("\\n", "\n");
            let location = location(&lines, false);
            let exception = Exception { text, location, line: number, has_continued: false };
            sighted.is_framed = exception.failure().is_some();
            sighted.exception = sighted.is_framed.then_some(exception);
        }
    }

    /// Ends the stream, or the exception that is being collected.
    pub fn end(&mut self) -> Option<Exception> {
        let open = self.open.take()?;
        self.has_continued |= self.has_failure && open.has_continued;
        open.end()
    }

    /// Ends the exception that is being collected if its message precedes a line.
    pub fn end_before(&mut self, line: u64) -> Option<Exception> {
        self.open.as_ref().filter(|open| open.line < line)?;
        self.end()
    }

    /// Records that an error was found, and whether the program has continued since.
    pub fn failed(&mut self, has_continued: bool) {
        (self.has_failure, self.has_continued) = (true, has_continued);
    }

    /// Whether the program printed lines after the last error that do not belong to its end.
    pub fn has_continued(&self) -> bool {
        self.has_continued
    }
}

/// Whether the text of an exception follows as Python's `repr` writes it: `RuntimeError('…')`. Source files quote texts
/// in other ways.
fn is_repr(before: &[u8]) -> bool {
    let name = before.strip_suffix(b"('").or_else(|| before.strip_suffix(b"(\""));
    name.is_some_and(|name| name.last().is_some_and(u8::is_ascii_alphanumeric))
}

/// The message of a line that tt-metal's logger printed for a fatal error.
///
/// `… | critical |          Always | TT_FATAL: message (assert.hpp:104)`; before November 2025 without `TT_FATAL: `, and
/// before June 2025 `Always | FATAL    | message`.
fn fatal_message<'t>(prefix: &[u8], text: &'t [u8]) -> Option<&'t [u8]> {
    if memmem::find(prefix, b"FATAL").is_some() {
        return Some(text);
    }
    let column = |rest: &'t [u8]| rest.trim_ascii_start().strip_prefix(b"|");
    let after = |words: &[u8]| memmem::find(text, words).map(|at| &text[at + words.len()..]);
    let of_level = || {
        let types = column(after(b"critical")?)?;
        let bar = memchr::memchr(b'|', types)?;
        let is_type = types[..bar].trim_ascii().iter().all(u8::is_ascii_alphanumeric);
        is_type.then(|| types[bar + 1..].trim_ascii_start())
    };
    let of_old_level = || column(after(b"| FATAL")?);
    let of_prefix = || {
        let message = after(b"TT_FATAL: ").or_else(|| after(b"TT_THROW: "))?;
        memmem::rfind(message, b" (assert.hpp:").map(|_| message)
    };
    let message = of_level().or_else(of_old_level).or_else(of_prefix)?;
    let names = [&b"TT_FATAL: "[..], b"TT_THROW: "];
    Some(names.iter().find_map(|name| message.strip_prefix(*name)).unwrap_or(message))
}

/// Whether a line is a quoted text of a program's source.
fn is_quoted(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let end = line.trim_ascii_end().iter().rposition(|byte| !matches!(byte, b',' | b';' | b')'));
    match (line.first(), end.map(|end| line[end])) {
        (Some(first @ (b'"' | b'\'' | b'`')), Some(last)) => *first == last,
        _ => false,
    }
}

/// Whether a line after an error belongs to the end of a program: its traceback, the shutdown of the device, what a
/// test runner or a shell prints.
pub(crate) fn is_of_the_end(line: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 13] = [
        b"Traceback ",
        b"File \"",
        b"During handling of ",
        b"The above exception ",
        b"===",
        b"___",
        b"_ _ _",
        b"---",
        b"> ",
        b"E ",
        b"!!!",
        b"self = ",
        b"TT_CLUSTER_NAME",
    ];
    const WORDS: [&[u8]; 20] = [
        b"error",
        b"exception",
        b"fail",
        b"fatal",
        b"shut",
        b"clos",
        b"exit",
        b"terminat",
        b"abort",
        b"kill",
        b"teardown",
        b"destr",
        b"core dumped",
        b"clean",
        b"leaked",
        b"warning",
        b"stopp",
        b"critical",
        b"traceback",
        b"signal",
    ];
    let text = without_prefixes(line);
    let is_blank = text == b"E" || text.first().is_none_or(u8::is_ascii_whitespace);
    if is_blank || BEGINNINGS.iter().any(|word| text.starts_with(word)) {
        return true;
    }
    let head = text[..text.len().min(256)].to_ascii_lowercase();
    is_of_tt_metal(text)
        || WORDS.iter().any(|word| memmem::find(&head, word).is_some())
        || traceback::pytest_frame(text).is_some()
}

/// Whether tt-metal's logger printed a line: `2026-01-01 12:00:00.123 | info     |          Device | …`.
fn is_of_tt_metal(line: &[u8]) -> bool {
    let mut columns = line.split(|byte| *byte == b'|').map(<[u8]>::trim_ascii);
    let levels = [&b"trace"[..], b"debug", b"info", b"warning", b"error", b"critical"];
    columns.by_ref().take(2).any(|column| levels.contains(&column)) && columns.next().is_some()
}

/// Whether a text contains an error with all of its numbers that a logger or an exception printed.
///
/// A document must also have a frame of the backtrace: documentation quotes messages, an issue contains a log.
pub(super) fn has_failure(text: &[u8]) -> bool {
    if !["TT_FATAL", "TT_THROW", "critical", "FATAL", "Out of Memory:", " buffers "]
        .iter()
        .any(|word| memmem::find(text, word.as_bytes()).is_some())
    {
        return false;
    }
    let (mut sightings, mut document) = (Sightings::default(), Document::default());
    let (mut is_framed, mut has_frames, mut is_first) = (false, false, true);
    let mut plain = Vec::new();
    let mut ended = |exception: Option<Exception>| {
        let Some(exception) = exception else { return false };
        let failure = exception.failure().filter(Failure::is_complete);
        has_frames |= failure.as_ref().is_some_and(|failure| failure.has_frames);
        failure.is_some()
    };
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        strip_colors(split_tag(line.trim_ascii_end()).1, &mut plain);
        document.line(&plain);
        let sighted = sightings.line(b"", &plain, number);
        is_framed |= ended(sighted.exception);
        is_framed |= sighted.failure.is_some_and(|failure| {
            failure.is_complete() && (sighted.is_framed || is_first && failure.is_alone_in(&plain))
        });
        is_first &= plain.is_empty();
    }
    is_framed |= ended(sightings.end());
    is_framed && (has_frames || !document.is_one())
}
