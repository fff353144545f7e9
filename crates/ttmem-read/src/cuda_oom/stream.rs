//! The lines of one rank or process: finds its errors, and the line of the program that caused each of them.
//!
//! Text about an error has the same words as the error. A line counts as an error if an exception or a logger wrote it,
//! or if it is the complete message and nothing else.

use memchr::memmem;

use super::found::Found;
use super::label::{Label, Labeled};
use super::startup::{self, Part, Setting};
use super::{library, message};
use crate::recent::Recent;
use crate::traceback::{location, package_location};
use crate::tt_metal::is_of_the_end;

/// How an error is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Framing {
    /// In the middle of a text.
    Quoted,
    /// At the beginning of a line.
    Bare,
    /// After the name of an exception, or by a logger.
    Printed,
}

/// An error of a stream.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub found: Found,
    pub framing: Framing,
    /// The line of its message, counted from 1.
    pub line: u64,
    /// The line of the program.
    pub loc: Option<String>,
    /// Whether a traceback precedes it.
    pub has_traceback: bool,
    /// Whether nothing but blank lines precedes it.
    pub is_first: bool,
    /// Whether the program printed lines after it that do not belong to its end.
    pub has_continued: bool,
}

impl Failure {
    /// Whether a program certainly printed it. A document must also have a traceback: documentation quotes messages, an
    /// issue contains a log.
    pub fn is_certain(&self, is_document: bool) -> bool {
        if is_document && !(self.has_traceback && self.framing == Framing::Printed) {
            return false;
        }
        match self.framing {
            Framing::Printed => true,
            // A message without numbers is only believed if it is all there is.
            Framing::Bare => self.found.is_complete && (self.found.numbers.has_any() || self.is_first),
            Framing::Quoted => false,
        }
    }
}

/// The state of one rank or process.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub label: Label,
    pub failures: Vec<Failure>,
    pub parts: Vec<(Part, u64)>,
    pub settings: Vec<Setting>,
    /// Whether PyTorch warned about a failed allocation.
    pub has_warning: bool,
    recent: Recent,
    /// A message that goes on in the next line: its text so far, and the number of its lines.
    open: Option<(Vec<u8>, u32)>,
    exact: Option<[u64; 3]>,
    stats: library::AllocatorStats,
    has_traceback: bool,
}

/// The maximum number of lines of a wrapped message.
const MAX_LINES: u32 = 12;
/// The maximum number of bytes of a line that are searched. Messages are shorter than 8 KiB even with many processes.
const MAX_SEARCHED: usize = 64 << 10;
/// The maximum number of different errors of a stream.
const MAX_FAILURES: usize = 100;
/// The maximum number of reported parts and settings of a stream.
const MAX_REPORTED: usize = 64;

impl Stream {
    pub fn new(label: Label) -> Self {
        Self { label, ..Self::default() }
    }

    /// Takes the next line. Returns whether it mentions an error.
    pub fn line(&mut self, line: &Labeled<'_>, number: u64, is_first: bool) -> bool {
        let text = &line.text[..line.text.len().min(MAX_SEARCHED)];
        if self.goes_on(text) {
            return true;
        }
        self.recent.push(text);
        self.has_traceback |= memmem::find(text, b"Traceback (most recent call").is_some();
        self.stats.line(text);
        if startup::is_hinted(text) {
            self.report(text, number);
        }
        if !is_hinted(text) {
            if let Some(last) = self.failures.last_mut() {
                last.has_continued |= !is_of_the_end(text);
                // XLA's allocator prints its numbers before or after the error.
                if last.found.source == "xla" {
                    self.stats.complete(&mut last.found);
                }
            }
            return false;
        }
        if let Some(exact) = message::warning(text) {
            (self.exact, self.has_warning) = (Some(exact), true);
            return false;
        }
        let Some(found) = message::find(text).or_else(|| library::find(text)) else {
            return is_mention(text);
        };
        self.open = found.may_go_on.then(|| (text.to_vec(), 1));
        self.add(found, line, number, is_first);
        true
    }

    /// Continues a wrapped message. Returns whether the line belongs to it.
    fn goes_on(&mut self, text: &[u8]) -> bool {
        let Some((mut joined, lines)) = self.open.take() else { return false };
        joined.push(b' ');
        joined.extend_from_slice(text.trim_ascii());
        let Some(found) = message::find(&joined).filter(|_| joined.len() < MAX_SEARCHED) else {
            return false;
        };
        let Some(last) = self.failures.last_mut() else { return false };
        if found.message.len() <= last.found.message.len() {
            return false;
        }
        if found.may_go_on && lines < MAX_LINES {
            self.open = Some((joined, lines + 1));
        }
        last.found = found;
        if let Some(exact) = self.exact {
            last.found.refine(exact);
        }
        true
    }

    fn report(&mut self, text: &[u8], number: u64) {
        for part in startup::parts(text) {
            // The last report of a part counts.
            self.parts.retain(|(known, _)| known.name != part.name);
            self.parts.push((part, number));
        }
        for setting in startup::settings(text) {
            self.settings.retain(|known| known.0 != setting.0);
            self.settings.push(setting);
        }
        self.parts.truncate(MAX_REPORTED);
    }

    fn add(&mut self, mut found: Found, line: &Labeled<'_>, number: u64, is_first: bool) {
        if let Some(exact) = self.exact {
            found.refine(exact);
        }
        if found.source == "xla" {
            self.stats.complete(&mut found);
        }
        let framing = framing(line, &found);
        let known = self.failures.iter_mut().find(|known| known.found.message == found.message);
        if let Some(known) = known {
            known.framing = known.framing.max(framing);
            return;
        }
        let before: Vec<&[u8]> = self.recent.lines().collect();
        let loc = location(&before, line.is_pytest).loc.or_else(|| package_location(&before));
        let has_traceback = std::mem::take(&mut self.has_traceback) || line.is_pytest;
        if self.failures.len() < MAX_FAILURES {
            self.failures.push(Failure {
                found,
                framing,
                line: number,
                loc,
                has_traceback,
                is_first,
                has_continued: false,
            });
        }
    }
}

/// Whether a line may contain an error.
fn is_hinted(text: &[u8]) -> bool {
    const HINTS: [&[u8]; 6] =
        [b"out of memory", b"Out of memory", b"OOM", b"ALLOC_FAILED", b"OUT_OF_", b"less than desired GPU"];
    HINTS
        .iter()
        .chain(&[&b"hipErrorOutOfMemory"[..], b"Failed to CUDA"])
        .any(|hint| memmem::find(text, hint).is_some())
}

/// Whether a text is about running out of memory on a GPU, without being an error.
fn is_mention(text: &[u8]) -> bool {
    const NAMES: [&[u8]; 4] = [b"CUDA", b"HIP", b"GPU", b"XPU"];
    memmem::find(text, b"out of memory").is_some()
        && NAMES.iter().any(|name| memmem::find(text, name).is_some())
}

fn framing(line: &Labeled<'_>, found: &Found) -> Framing {
    let before = &line.text[..found.start.min(line.text.len())];
    let is_logged = found.source == "nccl" && memmem::find(line.text, b"NCCL WARN ").is_some();
    if is_logged || is_exception(before) || is_repr(before) && found.is_complete {
        Framing::Printed
    } else if before.trim_ascii().is_empty() {
        // A line that begins with a status continues with a sentence if it is not an error.
        let is_alone = found.numbers.has_any() || line.text.trim_ascii().len() <= found.message.len();
        if is_alone { Framing::Bare } else { Framing::Quoted }
    } else if found.is_complete && found.numbers.has_any() && (line.has_prefix || is_introduced(before)) {
        Framing::Printed
    } else {
        Framing::Quoted
    }
}

/// Whether a text introduces a message: `ERROR:root:`, `Error during generation: `, `{"error": "`. A complete message after it
/// has all of its numbers, even if a person wrote it.
fn is_introduced(before: &[u8]) -> bool {
    let before = before.strip_suffix(b"\"").or_else(|| before.strip_suffix(b"'")).unwrap_or(before);
    before.trim_ascii_end().ends_with(b":")
}

/// Whether a text ends with the name of an exception: `torch.OutOfMemoryError: `.
fn is_exception(before: &[u8]) -> bool {
    let Some(name) = before.strip_suffix(b": ").map(last_name) else { return false };
    let is_whole = before.len() - name.len() - 2 == 0 || {
        // `Error: torch.OutOfMemoryError: `, `[rank3] … - RuntimeError: `, but not `why is there a RuntimeError: `.
        let rest = before[..before.len() - name.len() - 2].trim_ascii_end();
        rest.is_empty()
            || rest.ends_with(b":")
            || rest.ends_with(b"]")
            || rest.ends_with(b"-")
            || rest.ends_with(b"|")
    };
    is_whole && is_name_of_exception(name)
}

/// Whether a text ends as Python's `repr` of an exception begins: `OutOfMemoryError('`.
fn is_repr(before: &[u8]) -> bool {
    let name = before.strip_suffix(b"('").or_else(|| before.strip_suffix(b"(\""));
    let is_raised = memmem::find(before, b"raise ").is_some() || memmem::find(before, b"assert").is_some();
    name.is_some_and(|name| is_name_of_exception(last_name(name))) && !is_raised
}

fn last_name(text: &[u8]) -> &[u8] {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
    let length = text.iter().rev().take_while(|byte| is_part(byte)).count();
    &text[text.len() - length..]
}

fn is_name_of_exception(name: &[u8]) -> bool {
    [&b"Error"[..], b"Exception", b"Failure"].iter().any(|end| name.ends_with(end))
        && name[0].is_ascii_alphabetic()
}
