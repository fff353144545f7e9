//! The lines of one rank or process: finds its errors, and the line of the program that caused each of them.
//!
//! Text about an error has the same words as the error. A line counts as an error if an exception or a logger wrote it,
//! or if it is the complete message and nothing else.

use memchr::memmem;

use super::advice::{Tail, tail, without_blanks};
use super::found::Found;
use super::label::{Label, Labeled};
use super::place::{last_traceback, place};
use super::progress::Progress;
use super::server::{self, Capturing};
use super::startup::{self, Part, Setting};
use super::{library, message};
use crate::recent::Recent;
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

/// What the lines after an error say about the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Aftermath {
    /// They belong to its end, or there are none.
    End,
    /// Some do not belong to its end. They may be of another program.
    Unclear,
    /// They prove that it went on.
    Continued,
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
    pub aftermath: Aftermath,
    /// The lines before it, if the program may have caught the error and gone on.
    progress: Option<Progress>,
    /// The inference server, as far as the traceback and the name of the process say it.
    pub server: Option<&'static str>,
    /// What a server did: `cuda_graphs` if it was capturing CUDA graphs.
    pub activity: Option<&'static str>,
    /// How often Ray counted the error after its first occurrence.
    pub repeated: u32,
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
            Framing::Bare => self.found.is_complete && (self.found.has_numbers() || self.is_first),
            Framing::Quoted => false,
        }
    }

    /// Takes a line after the error that is not an error itself.
    fn line_after(&mut self, text: &[u8], stats: &library::AllocatorStats) {
        if !is_of_the_end(text) {
            let is_proof = self.progress.as_ref().is_some_and(|progress| progress.is_continued_by(text));
            let found = if is_proof { Aftermath::Continued } else { Aftermath::Unclear };
            self.aftermath = self.aftermath.max(found);
        }
        // XLA's allocator prints its numbers before or after the error, and the executable's after it.
        if self.found.source == "xla" {
            stats.complete(&mut self.found);
            let is_new = |part: &Part| self.found.parts.iter().all(|known| known.name != part.name);
            let part = library::executable_part(text).filter(is_new);
            self.found.parts.extend(part);
        }
    }
}

/// A message that goes on in the next line.
#[derive(Debug)]
enum Open {
    /// Its text so far, the length of its last line, and the number of its lines.
    Message(Vec<u8>, usize, u32),
    /// The whole message; its advice so far, without blanks.
    Advice(Vec<u8>),
}

/// The state of one rank or process.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub label: Label,
    pub failures: Vec<Failure>,
    pub parts: Vec<(Part, u64)>,
    pub settings: Vec<Setting>,
    /// The server whose lines this process printed.
    pub server: Option<&'static str>,
    /// Whether PyTorch warned about a failed allocation.
    pub has_warning: bool,
    recent: Recent,
    open: Option<Open>,
    exact: Option<[u64; 3]>,
    stats: library::AllocatorStats,
    has_traceback: bool,
    before: Before,
}

/// What is in front of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Before {
    #[default]
    Text,
    Blank,
    /// The line that introduces an error of NCCL, perhaps with blank lines after it.
    LastError,
}

/// The maximum number of lines of a wrapped message.
const MAX_LINES: u32 = 40;
/// The minimum length of a line that a terminal breaks inside a word.
const MIN_WIDTH: usize = 40;
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

    /// Whether the next line may continue a message.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes the next line. Returns whether it mentions an error.
    pub fn line(&mut self, line: &Labeled<'_>, number: u64, is_first: bool, capturing: Capturing) -> bool {
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
        let before = self.before;
        self.before = before.after(text);
        if !is_hinted(text) {
            if let Some(last) = self.failures.last_mut() {
                last.line_after(text, &self.stats);
            }
            return false;
        }
        if let Some(exact) = message::warning(text) {
            (self.exact, self.has_warning) = (Some(exact), true);
            return false;
        }
        let Some(found) = find(text, before == Before::LastError) else { return is_mention(text) };
        self.open = opened(&found, text);
        let framing = if before == Before::LastError {
            Framing::Printed
        } else if before == Before::Blank
            && !line.has_prefix
            && !self.has_traceback
            && is_code_block(line.text)
        {
            Framing::Quoted
        } else {
            framing_of(line.text, line.has_prefix, &found)
        };
        self.add(found, line, Failed { framing, number, is_first, capturing });
        true
    }

    /// Continues a wrapped message. Returns whether the line belongs to it.
    pub fn goes_on(&mut self, text: &[u8]) -> bool {
        match self.open.take() {
            Some(Open::Message(joined, width, lines)) => self.continue_message(&joined, width, lines, text),
            Some(Open::Advice(mut advice)) if !text.trim_ascii().is_empty() => {
                advice.extend(without_blanks(text));
                let tail = tail(&advice);
                self.open = (tail == Tail::Open).then_some(Open::Advice(advice));
                tail != Tail::Other
            }
            _ => false,
        }
    }

    fn continue_message(&mut self, before: &[u8], width: usize, lines: u32, text: &[u8]) -> bool {
        let rest = text.trim_ascii();
        let Some(last) = self.failures.last_mut() else { return false };
        // A text is broken at blanks and after hyphens; a terminal breaks it anywhere.
        let is_broken_word = before.ends_with(b"-") || width >= MIN_WIDTH;
        let joined = [(true, &b" "[..]), (is_broken_word, b"")]
            .into_iter()
            .filter(|(may_be, _)| *may_be)
            .map(|(_, blank)| [before, blank, rest].concat())
            .filter(|joined| !rest.is_empty() && joined.len() < MAX_SEARCHED)
            .filter_map(|joined| Some((find(&joined, false)?, joined)))
            .filter(|(found, _)| found.may_go_on || found.message.len() > last.found.message.len())
            .max_by_key(|(found, _)| (found.message.len(), found.may_go_on));
        let Some((found, joined)) = joined else { return false };
        self.open = match opened(&found, &joined) {
            Some(Open::Message(..)) if lines >= MAX_LINES => None,
            Some(Open::Message(joined, ..)) => Some(Open::Message(joined, text.len(), lines + 1)),
            advice => advice,
        };
        last.framing = last.framing.max(framing_of(&joined, false, &found));
        last.found = found;
        if let Some(exact) = self.exact {
            last.found.refine(exact);
        }
        true
    }

    fn report(&mut self, text: &[u8], number: u64) {
        self.server = startup::server(text).or(self.server);
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

    fn add(&mut self, mut found: Found, line: &Labeled<'_>, failed: Failed) {
        if let Some(exact) = self.exact {
            found.refine(exact);
        }
        if found.source == "xla" {
            self.stats.complete(&mut found);
        }
        let Failed { framing, number, is_first, capturing } = failed;
        let repeated = repeated(line.text);
        let is_same =
            |known: &&mut Failure| known.found.message == found.message && known.found.device == found.device;
        if let Some(known) = self.failures.iter_mut().find(is_same) {
            known.framing = known.framing.max(framing);
            known.repeated = known.repeated.saturating_add(repeated);
            return;
        }
        let before: Vec<&[u8]> = self.recent.lines().collect();
        let loc = place(&before, line.is_pytest);
        let has_traceback = std::mem::take(&mut self.has_traceback) || line.is_pytest;
        let traceback = if has_traceback { last_traceback(&before) } else { &[] };
        let may_go_on = !is_first && !has_traceback && loc.is_none();
        let server = server::of_frames(traceback).or_else(|| server::of_label(&self.label));
        let is_capture = capturing.0 || server::is_capture(traceback) || is_failed_capture(line.text);
        if self.failures.len() < MAX_FAILURES {
            self.failures.push(Failure {
                framing,
                line: number,
                has_traceback,
                is_first,
                aftermath: Aftermath::End,
                progress: may_go_on.then(|| Progress::of(before.iter().copied())),
                server,
                activity: is_capture.then_some("cuda_graphs"),
                repeated,
                loc,
                found,
            });
        }
    }
}

/// How and when a message was printed.
#[derive(Clone, Copy)]
struct Failed {
    framing: Framing,
    number: u64,
    is_first: bool,
    capturing: Capturing,
}

/// Finds an error in a text.
fn find(text: &[u8], is_after_last_error: bool) -> Option<Found> {
    message::find(text).or_else(|| library::find(text, is_after_last_error))
}

/// How a message goes on after a text.
fn opened(found: &Found, text: &[u8]) -> Option<Open> {
    if found.may_go_on {
        return Some(Open::Message(text.to_vec(), text.len(), 1));
    }
    let rest: Vec<u8> = without_blanks(text.get(found.end..).unwrap_or_default()).collect();
    let may_have_advice = found.source == "pytorch" && found.is_complete;
    (may_have_advice && tail(&rest) == Tail::Open).then_some(Open::Advice(rest))
}

/// The 7 of `[repeated 7x across cluster]`, which Ray adds to a line that other workers printed as well.
fn repeated(text: &[u8]) -> u32 {
    const BEFORE: &[u8] = b"[repeated ";
    let Some(at) = memmem::rfind(text, BEFORE) else { return 0 };
    let rest = &text[at + BEFORE.len()..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let count = std::str::from_utf8(&rest[..digits]).ok().and_then(|digits| digits.parse().ok());
    count.filter(|_| rest[digits..].starts_with(b"x across cluster]")).unwrap_or(0)
}

/// Whether SGLang says that it failed while it captured CUDA graphs.
fn is_failed_capture(text: &[u8]) -> bool {
    let text = text[..text.len().min(256)].to_ascii_lowercase();
    memmem::find(&text, b"capture cuda graph failed").is_some()
}

/// Whether a line may contain an error.
pub(super) fn is_hinted(text: &[u8]) -> bool {
    const ABOUT_MEMORY: [&[u8]; 8] = [
        b"out of memory",
        b"Out of memory",
        b"would exceed allowed memory",
        b"OutOfMemoryError: Allocation on",
        b"less than desired GPU",
        b"hipErrorOutOfMemory",
        b"No available memory for the cache blocks",
        b"Not enough memory. Please try to increase",
    ];
    const HINTS: [&[u8]; 6] = [
        b"OOM",
        b"ALLOC_FAILED",
        b"OUT_OF_",
        b"Failed to CUDA",
        b"RESOURCE_EXHAUSTED: Failed to allocate",
        b"max seq len (",
    ];
    let has = |hint: &&[u8]| memmem::find(text, hint).is_some();
    has(&&b"emory"[..]) && ABOUT_MEMORY.iter().any(has) || HINTS.iter().any(has)
}

/// Whether a text is about running out of memory on a GPU, without being an error.
fn is_mention(text: &[u8]) -> bool {
    const NAMES: [&[u8]; 4] = [b"CUDA", b"HIP", b"GPU", b"XPU"];
    let is_of_tensorflow = memmem::find(text, b"OOM when allocating tensor with shape").is_some();
    is_of_tensorflow
        || memmem::find(text, b"out of memory").is_some()
            && NAMES.iter().any(|name| memmem::find(text, name).is_some())
}

fn framing_of(text: &[u8], has_prefix: bool, found: &Found) -> Framing {
    let before = &text[..found.start.min(text.len())];
    let is_logged = found.source == "nccl" && memmem::find(text, b"NCCL WARN ").is_some();
    if is_in_code(before) || is_subject(text, found) {
        Framing::Quoted
    } else if is_logged || is_exception(before) || is_repr(before) && found.is_complete {
        Framing::Printed
    } else if before.trim_ascii().is_empty() {
        // A line that begins with a status continues with a sentence if it is not an error.
        let is_alone = found.has_numbers() || text.trim_ascii().len() <= found.message.len();
        if is_alone { Framing::Bare } else { Framing::Quoted }
    } else if found.is_complete && found.has_numbers() && (has_prefix || is_introduced(before)) {
        Framing::Printed
    } else {
        Framing::Quoted
    }
}

impl Before {
    /// What is in front of the line after `text`.
    fn after(self, text: &[u8]) -> Self {
        match (text.trim_ascii(), self) {
            (b"Last error:", _) | (b"", Self::LastError) => Self::LastError,
            (b"", _) => Self::Blank,
            _ => Self::Text,
        }
    }
}

/// Whether a line is indented like code in a text. Programs print errors without indentation, or below a traceback.
fn is_code_block(text: &[u8]) -> bool {
    text.starts_with(b"    ") || text.starts_with(b"\t")
}

/// Whether a text ends inside code of Markdown: ``The error is `RuntimeError: ``.
fn is_in_code(before: &[u8]) -> bool {
    memchr::memchr_iter(b'`', before).count() % 2 == 1
}

/// Whether a message without numbers is the subject of a sentence: `CUDA error: out of memory means that …`.
fn is_subject(text: &[u8], found: &Found) -> bool {
    const VERBS: [&[u8]; 9] =
        [b"can", b"indicates", b"is", b"may", b"means", b"occurs", b"happens", b"usually", b"was"];
    // The message of NCCL is the rest of the line.
    const OF_NCCL: &[u8] = b"'out of memory'";
    let at = memmem::find(text, OF_NCCL).filter(|_| found.source == "nccl");
    let after = text.get(at.map_or(found.end, |at| at + OF_NCCL.len())..).unwrap_or_default();
    let word = after.strip_prefix(b" ").and_then(|after| after.split(|byte| *byte == b' ').next());
    !found.has_numbers() && word.is_some_and(|word| VERBS.contains(&word))
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
