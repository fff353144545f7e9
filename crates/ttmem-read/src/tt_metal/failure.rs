//! Parses the texts of tt-metal's memory errors, in all variants since 2023.

use std::sync::LazyLock;

use memchr::memmem;
use ttmem_model::{Fault, FaultDetail, FaultKind, ProgramBufferKind, Result, Step};

use super::backtrace::Operation;
use super::numbers::{after, number, number_after, number_with_unit, unit_after};
use super::refusal::Refusal;
use crate::tt_log::tables::Tables;
use crate::wrapping::without_prefixes;

/// A parsed error: a failed allocation, buffers of a program that do not fit, or an operation that refuses to run
/// because it would need more memory than there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure<'a> {
    pub kind: FaultKind,
    /// The text from its first word, without the source file that the logger appends.
    pub message: &'a [u8],
    pub pool: Option<&'a [u8]>,
    pub requested_total: Option<u64>,
    pub requested_per_bank: Option<u64>,
    pub banks: Option<u32>,
    pub bank_size: Option<u64>,
    pub allocated: Option<u64>,
    pub free: Option<u64>,
    pub largest_free: Option<u64>,
    /// The end of a program's buffers; the high-water mark that a trace buffer overlaps; the address of an allocation
    /// below the limit.
    pub region_end: Option<u64>,
    /// The address of the lowest buffer above a program's buffers, or of the trace buffer; the size of L1 or of the
    /// trace region; the lowest allowed address.
    pub limit: Option<u64>,
    pub program: Option<u64>,
    pub buffers: Option<ProgramBufferKind>,
    /// The cores, as in the message.
    pub cores: Option<&'a [u8]>,
    pub placeable: Option<u64>,
    pub windows: Option<u64>,
    pub largest_placeable: Option<u64>,
    /// Whether a check of the operation failed: see [`FaultDetail::is_refusal`].
    pub is_refusal: bool,
    /// The operation, such as `ttnn.softmax`, if the message or the backtrace names it.
    pub op: Option<String>,
    /// Whether the backtrace has a complete frame, so that it is not an abridged example.
    pub has_frames: bool,
    /// The message is truncated.
    is_cut: bool,
}

/// The parts of an exception's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Exception<'a> {
    /// The message after `info:`.
    info: &'a str,
    /// The lines after `backtrace:`.
    backtrace: Option<&'a str>,
}

impl<'a> Exception<'a> {
    /// Splits `TT_FATAL @ file:line: condition`, `info:`, the message, `backtrace:` and its frames.
    fn split(text: &'a str) -> Option<Self> {
        let head = HEADS.iter().filter_map(|head| text.find(head)).min()?;
        let info = text[head..].split_once("\ninfo:")?.1.trim_start();
        Some(match info.split_once("\nbacktrace:") {
            Some((info, backtrace)) => Self { info: info.trim_end(), backtrace: Some(backtrace) },
            None => Self { info: info.trim_end(), backtrace: None },
        })
    }
}

/// The beginnings of an exception's text.
pub(super) const HEADS: [&str; 2] = ["TT_FATAL @ ", "TT_THROW @ "];

impl<'a> Failure<'a> {
    /// Whether the message is truncated; then some of its values are unknown.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether the message has all numbers of its kind.
    pub fn is_complete(&self) -> bool {
        let has_all = match self.kind {
            FaultKind::OutOfMemory if self.is_refusal => self.requested_per_bank.or(self.free).is_some(),
            FaultKind::OutOfMemory => {
                self.pool.is_some()
                    && self.requested_total.is_some()
                    && self.requested_per_bank.is_some()
                    && self.banks.is_some()
            }
            FaultKind::TraceRegion => {
                self.limit.is_some() && self.requested_total.or(self.region_end).is_some()
            }
            FaultKind::CircularBuffersClash
            | FaultKind::CircularBuffersTooLarge
            | FaultKind::AddressLimit => self.limit.is_some() && self.region_end.is_some(),
            FaultKind::Exception => false,
        };
        has_all && !self.is_cut
    }

    /// Whether the text of a line is nothing but the message.
    pub fn is_alone_in(&self, text: &[u8]) -> bool {
        const NAMES: [&[u8]; 4] = [b"", b"TT_FATAL: ", b"TT_THROW: ", b"RuntimeError: "];
        let text = without_prefixes(text).trim_ascii();
        NAMES.iter().any(|name| {
            text.strip_prefix(*name).is_some_and(|message| whole_message(message) == self.message)
        })
    }

    /// Whether the message is certainly complete, even if nothing follows it in the file.
    pub fn has_its_end(&self) -> bool {
        // Larger than L1 of any card so far. With a further digit, the last number would be no address in it.
        const MAX_L1: u64 = 2 << 20;
        match self.message.last() {
            // The numbers of a bank.
            Some(b')') => true,
            Some(b'0'..=b'9') if self.kind == FaultKind::CircularBuffersClash => {
                self.region_end.is_some_and(|end| end > MAX_L1 / 10)
            }
            _ => false,
        }
    }

    /// The error without a number at its end, which may lack digits.
    pub fn without_last_number(self) -> Self {
        if !self.message.last().is_some_and(u8::is_ascii_digit) {
            return self;
        }
        // The only messages that end in a number end in the end of a region.
        Self { region_end: None, is_cut: true, ..self }
    }

    /// Parses the whole text of an exception:
    ///
    /// ```text
    /// TT_FATAL @ FILE:LINE: CONDITION
    /// info:
    /// MESSAGE
    /// backtrace:
    ///  --- FRAME
    /// ```
    ///
    /// The name of a Python exception may precede it. The operation is the outermost function of ttnn in the backtrace.
    /// Returns `None` if the exception is about something other than memory. A text without this form is searched for
    /// the messages of the allocator and of programs.
    pub fn of_exception(text: &'a str) -> Option<Self> {
        Self::of_exception_calling(text, None)
    }

    /// Like [`Failure::of_exception`], with the operation that the line of the Python program calls. It is more precise
    /// than the backtrace's primitives and classes.
    pub(super) fn of_exception_calling(text: &'a str, called: Option<&str>) -> Option<Self> {
        let Some(exception) = Exception::split(text) else {
            return text.lines().find_map(|line| Self::find(line.as_bytes()));
        };
        let first = exception.info.lines().next().unwrap_or_default();
        let mut failure =
            Self::find(first.as_bytes()).or_else(|| Self::refusal(first.as_bytes())).or_else(|| {
                // Without a backtrace, it is unknown where the message ends.
                exception.backtrace?;
                let known = exception.info.lines().skip(1).find_map(|line| Self::find(line.as_bytes()));
                known.or_else(|| Self::refusal(exception.info.as_bytes()))
            })?;
        let mut operation = Operation::default();
        let frames = exception.backtrace.unwrap_or_default().lines();
        frames.filter_map(|line| line.trim().strip_prefix("--- ")).for_each(|frame| operation.frame(frame));
        let op = operation.public().or(called).or_else(|| operation.name());
        failure.op = failure.op.or_else(|| op.map(str::to_owned));
        failure.has_frames = operation.has_frames;
        Some(failure)
    }

    /// Finds a message of the allocator or of a program anywhere in a line.
    pub fn find(line: &'a [u8]) -> Option<Self> {
        // Almost all lines are rejected here.
        if !is_hinted(line) {
            return None;
        }
        let from = |phrase: &[u8]| memmem::find(line, phrase).map(|at| whole_message(&line[at..]));
        if let Some(message) = from(b"Out of Memory:") {
            return Some(if memmem::find(message, b"Cannot allocate at an address below").is_some() {
                Self::address_limit(message)
            } else {
                Self::out_of_memory(message)
            });
        }
        if let Some(message) = from(b"Creating trace buffers of size ") {
            return Some(Self::trace_region(message));
        }
        if let Some(message) = from(b"Trace buffer at address ") {
            return Self::trace_overlap(message);
        }
        let message = PROGRAM_BUFFERS.iter().find_map(|phrase| from(phrase))?;
        Self::program_buffers(message)
    }

    /// Parses the message of a fatal error: an operation that would need more memory than there is. The caller must know
    /// that the error is fatal, because the same words occur in warnings and in descriptions.
    pub fn refusal(message: &'a [u8]) -> Option<Self> {
        let message = whole_message(message);
        let Refusal { pool, need, available } = Refusal::parse(message)?;
        Some(Self {
            pool: Some(pool),
            requested_per_bank: need,
            free: available,
            is_refusal: true,
            op: operation_before_colon(message),
            ..Self::bare(FaultKind::OutOfMemory, message)
        })
    }

    /// The fault, at a step and a line.
    pub fn fault(&self, step: Option<Step>, line: u64, tables: &mut Tables<'_>) -> Result<Fault> {
        Ok(Fault {
            kind: self.kind,
            pool: self.pool.map(|pool| tables.text(pool)).transpose()?,
            step,
            requested_total: self.requested_total,
            requested_per_bank: self.requested_per_bank,
            banks: self.banks,
            bank_size: self.bank_size,
            allocated: self.allocated,
            free: self.free,
            largest_free: self.largest_free,
            region_end: self.region_end,
            limit: self.limit,
            message: tables.text(self.message)?,
            line,
            ended_program: false,
        })
    }

    /// The details of the fault; the default if the message has none.
    pub fn detail(&self, tables: &mut Tables<'_>) -> Result<FaultDetail> {
        Ok(FaultDetail {
            first_step: None,
            op: self.op.as_ref().map(|op| tables.text(op.as_bytes())).transpose()?,
            loc: None,
            program: self.program,
            buffers: self.buffers,
            cores: self.cores.map(|cores| tables.text(cores)).transpose()?,
            placeable: self.placeable,
            windows: self.windows,
            largest_placeable: self.largest_placeable,
            is_refusal: self.is_refusal,
        })
    }

    fn bare(kind: FaultKind, message: &'a [u8]) -> Self {
        Self {
            kind,
            message,
            pool: None,
            requested_total: None,
            requested_per_bank: None,
            banks: None,
            bank_size: None,
            allocated: None,
            free: None,
            largest_free: None,
            region_end: None,
            limit: None,
            program: None,
            buffers: None,
            cores: None,
            placeable: None,
            windows: None,
            largest_placeable: None,
            is_refusal: false,
            op: None,
            has_frames: false,
            is_cut: false,
        }
    }

    fn out_of_memory(message: &'a [u8]) -> Self {
        let bytes = |phrase: &[u8]| unit_after(message, phrase, b" B");
        let pool = after(message, b"allocate ").and_then(|rest| after(rest, b" B ")).and_then(pool_name);
        let requested_per_bank = bytes(b"needs to store ").or_else(|| bytes(b" banks ("));
        Self {
            pool,
            requested_total: bytes(b"allocate "),
            requested_per_bank,
            banks: unit_after(message, b"across ", b" banks").and_then(|banks| u32::try_from(banks).ok()),
            bank_size: bytes(b"bank size is only ").or_else(|| bytes(b"bank size is ")),
            allocated: bytes(b"(allocated: "),
            free: bytes(b", free: "),
            largest_free: bytes(b"largest free block: "),
            placeable: unit_after(message, b" additional occupied range(s), ", b" B remained placeable"),
            windows: unit_after(message, b" remained placeable across ", b" window"),
            largest_placeable: bytes(b" window(s), largest "),
            is_cut: requested_per_bank.is_none() || stops_early(message),
            ..Self::bare(FaultKind::OutOfMemory, message)
        }
    }

    fn address_limit(message: &'a [u8]) -> Self {
        let at =
            number_after(message, b"Allocation at ").or_else(|| number_after(message, b"to allocate at "));
        Self {
            limit: unit_after(message, b"address below ", b"."),
            region_end: at,
            pool: Some(b"L1"),
            is_cut: memmem::find(message, b"llocat").is_none() || memmem::find(message, b" at ").is_none(),
            ..Self::bare(FaultKind::AddressLimit, message)
        }
    }

    fn trace_region(message: &'a [u8]) -> Self {
        let (requested_total, limit) =
            (unit_after(message, b"of size ", b"B"), unit_after(message, b"but only ", b"B"));
        Self {
            pool: Some(b"TRACE"),
            requested_total,
            limit,
            is_cut: requested_total.is_none() || limit.is_none(),
            ..Self::bare(FaultKind::TraceRegion, message)
        }
    }

    /// `Trace buffer at address 5 overlaps with … (… high water mark: 7). …`
    fn trace_overlap(message: &'a [u8]) -> Option<Self> {
        const MARK: &[u8] = b"high water mark: ";
        let rest = after(message, b"Trace buffer at address ")?;
        let limit = number_with_unit(rest, b" overlaps with ");
        if limit.is_none() && memmem::find(rest, b" overlaps with ").is_none() {
            return None;
        }
        let marks = memmem::find_iter(rest, MARK).filter_map(|at| number(&rest[at + MARK.len()..]));
        let region_end = marks.max();
        Some(Self {
            pool: Some(b"DRAM"),
            limit,
            region_end,
            is_cut: limit.is_none(),
            ..Self::bare(FaultKind::TraceRegion, message)
        })
    }

    fn program_buffers(message: &'a [u8]) -> Option<Self> {
        let of_program = Self {
            pool: Some(b"L1"),
            program: number_after(message, b" in program "),
            buffers: Some(match memmem::find(message, b"dataflow buffer") {
                Some(_) => ProgramBufferKind::Dataflow,
                None => ProgramBufferKind::Circular,
            }),
            cores: cores(message),
            ..Self::bare(FaultKind::CircularBuffersClash, message)
        };
        if let Some(rest) = after(message, b" grow to ") {
            let (unit, bytes): (&[u8], u64) =
                if after(rest, b" KB").is_some() { (b" KB", 1024) } else { (b" B", 1) };
            let scaled = |value: Option<u64>| value.and_then(|value| value.checked_mul(bytes));
            let (region_end, limit) =
                (scaled(number_with_unit(rest, unit)), scaled(unit_after(rest, b"max L1 size of ", unit)));
            return Some(Self {
                kind: FaultKind::CircularBuffersTooLarge,
                region_end,
                limit,
                is_cut: region_end.is_none() || limit.is_none(),
                ..of_program
            });
        }
        let rest = after(message, b" clash with ")?;
        let ends = [&b"region ends at "[..], b"local buffers end at "];
        let region_end = ends.iter().find_map(|phrase| number_after(rest, phrase));
        let limit = unit_after(rest, b"L1 buffer allocated at ", b" ")
            .or_else(|| unit_after(rest, b"lowest service allocation at ", b","));
        Some(Self { region_end, limit, is_cut: region_end.is_none() || limit.is_none(), ..of_program })
    }
}

/// Every error, and every line that begins the text of an exception, contains at least one of these phrases.
static HINTS: LazyLock<[memmem::Finder<'static>; 4]> = LazyLock::new(|| {
    ["Out of Memory", " buffers ", "Trace buffer ", "TT_"].map(|hint| memmem::Finder::new(hint).into_owned())
});

/// Whether a line may belong to an error. Almost none does.
pub(super) fn is_hinted(line: &[u8]) -> bool {
    HINTS.iter().any(|hint| hint.find(line).is_some())
}

/// The beginnings of errors about the buffers of programs.
const PROGRAM_BUFFERS: [&[u8]; 5] = [
    b"Statically allocated circular buffers ",
    b"Statically allocated dataflow buffers ",
    b"Circular buffers on service-core range ",
    b"Circular buffers in program ",
    b"Local buffers on core ",
];

/// The message at the start of a text, without what follows it on the line: the suffix that the logger adds, such as
/// ` (assert.hpp:107)`, and the rest of an exception whose text is quoted on one line (`RuntimeError('…\nbacktrace:…')`).
fn whole_message(text: &[u8]) -> &[u8] {
    let text = memmem::find(text, b"\\n").map_or(text, |end| &text[..end]).trim_ascii_end();
    match memmem::rfind(text, b" (") {
        Some(at) if text.ends_with(b")") && memmem::find(&text[at..], b"pp:").is_some() => {
            text[..at].trim_ascii_end()
        }
        _ => text,
    }
}

/// The cores in a message: `[0-0 - 7-7]`, `[(x=0,y=0) - (x=7,y=7)]`, `(x=0,y=0)` or several of them in braces.
fn cores(message: &[u8]) -> Option<&[u8]> {
    let rest = [&b"core range "[..], b" on core "].iter().find_map(|phrase| after(message, phrase))?;
    let close = match rest.first()? {
        b'[' => b']',
        b'(' => b')',
        b'{' => b'}',
        _ => return None,
    };
    memchr::memchr(close, rest).map(|end| &rest[..=end])
}

/// The operation that a message begins with: `ttnn.pad: …` or `ttnn::slice: …`.
fn operation_before_colon(message: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(&message[..memmem::find(message, b": ")?]).ok()?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':'));
    let is_ttnn = name.starts_with("ttnn.") || name.starts_with("ttnn::");
    (is_name && is_ttnn).then(|| name.replace("::", "."))
}

fn first_word(text: &[u8]) -> &[u8] {
    text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').next().unwrap_or(text)
}

/// Whether the text of an out-of-memory error is truncated within the part that later versions add: the bank size and
/// the free memory.
fn stops_early(message: &[u8]) -> bool {
    let stops_in =
        |rest: &[u8], words: &[u8]| !rest.is_empty() && rest.len() < words.len() && words.starts_with(rest);
    let Some(size_at) = memmem::find(message, b"bank size is") else {
        let rest = after(message, b"needs to store ").or_else(|| after(message, b" banks (")).unwrap_or(b"");
        let rest = after(rest, b" B").unwrap_or(b"");
        let is_whole = rest == b" per bank)";
        return !is_whole
            && (stops_in(rest, b", but bank size is ") || stops_in(rest, b" per bank), bank size is "));
    };
    let Some(rest) = after(&message[size_at..], b" B") else { return true };
    let placeable = after(rest, b"After subtracting ");
    if placeable.is_some_and(|placeable| unit_after(placeable, b" window(s), largest ", b" B").is_none()) {
        return true;
    }
    let free = after(rest, b" (allocated: ");
    free.is_some_and(|free| unit_after(free, b"largest free block: ", b" B").is_none())
        || stops_in(rest.trim_ascii_end(), b" (allocated: ")
}

/// The pool at the start of a text; `None` for a truncated name.
fn pool_name(text: &[u8]) -> Option<&[u8]> {
    let word = first_word(text);
    (word.len() < text.len()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(line: &str) -> Failure<'_> {
        Failure::find(line.as_bytes()).unwrap_or_else(|| panic!("not found: {line}"))
    }

    #[test]
    fn out_of_memory_since_2023() {
        let fault = find(
            "2025-06-30 15:50:41.820 | critical |          Always | Out of Memory: Not enough space to allocate 52760576 B L1 buffer across 64 banks, where each bank needs to store 824384 B (assert.hpp:107)",
        );
        assert_eq!((fault.pool, fault.requested_total), (Some(&b"L1"[..]), Some(52_760_576)));
        assert_eq!((fault.banks, fault.requested_per_bank, fault.bank_size), (Some(64), Some(824_384), None));
        assert!(fault.message.ends_with(b"824384 B"));
    }

    #[test]
    fn out_of_memory_with_bank_size() {
        let fault = find(
            "Out of Memory: Not enough space to allocate 2162688 B L1_SMALL buffer across 64 banks, where each bank needs to store 33792 B, but bank size is only 32768 B",
        );
        assert_eq!((fault.pool, fault.bank_size), (Some(&b"L1_SMALL"[..]), Some(32768)));
    }

    #[test]
    fn out_of_memory_with_everything() {
        let fault = find(
            "Out of Memory: Not enough space to allocate 58720256 B DRAM buffer across 12 banks, where each bank needs to store 4894720 B, but bank size is 1071821792 B (allocated: 888424448 B, free: 183397344 B, largest free block: 3382944 B)",
        );
        assert_eq!((fault.bank_size, fault.allocated), (Some(1_071_821_792), Some(888_424_448)));
        assert_eq!((fault.free, fault.largest_free), (Some(183_397_344), Some(3_382_944)));
        assert!(fault.message.ends_with(b"3382944 B)"));
    }

    #[test]
    fn out_of_memory_after_considering_dependencies() {
        let fault = find(
            "Out of Memory: Not enough space after considering dependencies to allocate 1048576 B DRAM across 12 banks (87392 B per bank)",
        );
        assert_eq!((fault.pool, fault.requested_total), (Some(&b"DRAM"[..]), Some(1_048_576)));
        assert_eq!((fault.requested_per_bank, fault.free), (Some(87_392), None));
        let fault = find(
            "Out of Memory: Not enough space after considering dependencies to allocate 1048576 B TRACE across 12 banks (87392 B per bank), bank size is 1000 B (allocated: 1 B, free: 999 B, largest free block: 998 B)",
        );
        assert_eq!((fault.bank_size, fault.largest_free), (Some(1000), Some(998)));
    }

    #[test]
    fn separators_of_thousands_as_people_paste_them() {
        let fault = find(
            "Out of Memory: Not enough space to allocate 52,760,576 B L1 buffer across 64 banks, where each bank needs to store 824,384 B",
        );
        assert_eq!((fault.requested_total, fault.requested_per_bank), (Some(52_760_576), Some(824_384)));
    }

    #[test]
    fn address_limits_old_and_new_and_with_the_raw_format() {
        for (text, limit, at) in [
            (
                "Out of Memory: Cannot allocate at an address below 524288. Allocation at 491520",
                Some(524_288),
                Some(491_520),
            ),
            (
                "Out of Memory: Cannot allocate at an address below 524288. Tried to allocate at 491520",
                Some(524_288),
                Some(491_520),
            ),
            ("Out of Memory: Cannot allocate at an address below {}. Tried to allocate at {}", None, None),
        ] {
            let fault = find(text);
            assert_eq!(
                (fault.kind, fault.limit, fault.region_end),
                (FaultKind::AddressLimit, limit, at),
                "{text}"
            );
        }
    }

    #[test]
    fn trace_regions() {
        let fault = find(
            "Creating trace buffers of size 30000000B on MeshDevice 1, but only 20000000B is allocated for trace region.",
        );
        assert_eq!(
            (fault.kind, fault.requested_total, fault.limit),
            (FaultKind::TraceRegion, Some(30_000_000), Some(20_000_000))
        );
        assert_eq!(
            find("Trace buffer at address 5 overlaps with a DRAM buffer").kind,
            FaultKind::TraceRegion
        );
    }

    #[test]
    fn circular_buffers_of_every_era() {
        use FaultKind::{CircularBuffersClash as Clash, CircularBuffersTooLarge as TooLarge};
        for (text, kind, end, limit) in [
            (
                "Local buffers on core (x=0,y=0) grow to 1600 KB which is beyond max L1 size of 1464 KB",
                TooLarge,
                1600 << 10,
                1464 << 10,
            ),
            (
                "Circular buffers in program 7 clash with L1 buffers on core (x=0,y=0). L1 buffer allocated at 700000 and local buffers end at 800000",
                Clash,
                800_000,
                700_000,
            ),
            (
                "Statically allocated circular buffers on core (x=0,y=0) grow to 1600000 B which is beyond max L1 size of 1499136 B",
                TooLarge,
                1_600_000,
                1_499_136,
            ),
            (
                "Statically allocated circular buffers in program 7 clash with L1 buffers on core (x=0,y=0). L1 buffer allocated at 700000 and static circular buffer region ends at 800000",
                Clash,
                800_000,
                700_000,
            ),
            (
                "TT_THROW: Statically allocated circular buffers in program 1 clash with L1 buffers on core range [(x=0,y=0) - (x=7,y=7)]. L1 buffer allocated at 700000 and static circular buffer region ends at 800000",
                Clash,
                800_000,
                700_000,
            ),
            (
                "Statically allocated circular buffers on core range [0-0 - 7-7] grow to 1600000 B which is beyond max L1 size of 1499136 B",
                TooLarge,
                1_600_000,
                1_499_136,
            ),
            (
                "Statically allocated dataflow buffers on core range [0-0 - 7-7] grow to 1600000 B which is beyond max L1 size of 1499136 B",
                TooLarge,
                1_600_000,
                1_499_136,
            ),
            (
                "Circular buffers on service-core range [0-0 - 0-0] in program 3 clash with ServiceCoreManager-allocated L1 (lowest service allocation at 700000, CB region ends at 800000)",
                Clash,
                800_000,
                700_000,
            ),
        ] {
            let fault = find(text);
            assert_eq!((fault.kind, fault.region_end, fault.limit), (kind, Some(end), Some(limit)), "{text}");
        }
    }

    #[test]
    fn programs_kinds_and_cores() {
        use ProgramBufferKind::{Circular, Dataflow};
        for (text, program, buffers, cores) in [
            (
                "Statically allocated dataflow buffers in program 18446744073709551615 clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer allocated at 434176 and static dataflow buffer region ends at 1185120",
                Some(u64::MAX),
                Dataflow,
                "[0-0 - 7-7]",
            ),
            (
                "Statically allocated circular buffers on core range [(x=6,y=7) - (x=6,y=7)] grow to 3092736 B which is beyond max L1 size of 1499136 B",
                None,
                Circular,
                "[(x=6,y=7) - (x=6,y=7)]",
            ),
            (
                "Circular buffers on service-core range [0-0 - 0-0] in program 3 clash with ServiceCoreManager-allocated L1 (lowest service allocation at 700000, CB region ends at 800000)",
                Some(3),
                Circular,
                "[0-0 - 0-0]",
            ),
            (
                "Local buffers on core (x=0,y=0) grow to 1600 KB which is beyond max L1 size of 1464 KB",
                None,
                Circular,
                "(x=0,y=0)",
            ),
        ] {
            let failure = find(text);
            let expected = (program, Some(buffers), Some(cores.as_bytes()));
            assert_eq!((failure.program, failure.buffers, failure.cores), expected, "{text}");
            assert!(failure.is_complete(), "{text}");
        }
    }

    #[test]
    fn placeable_windows() {
        let text = "Out of Memory: Not enough space after considering dependencies to allocate 1048576 B DRAM across 12 banks (87392 B per bank), bank size is 1000000 B (allocated: 1 B, free: 999999 B, largest free block: 999998 B). After subtracting 2 dependency range(s) and 1 additional occupied range(s), 90000 B remained placeable across 3 window(s), largest 40000 B.";
        let failure = find(text);
        assert_eq!((failure.placeable, failure.windows), (Some(90000), Some(3)));
        assert_eq!((failure.largest_placeable, failure.largest_free), (Some(40000), Some(999_998)));
        assert!(failure.is_complete());
        let cut = &text[..text.len() - 4];
        assert!(find(cut).is_cut(), "{cut}");
    }

    #[test]
    fn small_buffers_have_a_hint_after_the_numbers() {
        let failure = find(
            "Out of Memory: Not enough space to allocate 32768 B L1_SMALL buffer across 4 banks, where each bank needs to store 8192 B, but bank size is 0 B (allocated: 0 B, free: 0 B, largest free block: 0 B). The L1_SMALL region is 0 B because it is reserved at device open; set l1_small_size large enough for this allocation when opening the device. (assert.hpp:104)",
        );
        assert_eq!(
            (failure.pool, failure.bank_size, failure.free),
            (Some(&b"L1_SMALL"[..]), Some(0), Some(0))
        );
        assert!(failure.message.ends_with(b"opening the device.") && failure.is_complete());
    }

    #[test]
    fn trace_buffers_that_overlap_other_memory() {
        let failure = find(
            "Trace buffer at address 5000 overlaps with DRAM activity during trace capture. Allocation high water mark: 6000, Deletion high water mark: 7000. Reduce allocations during trace capture or set a non-zero trace_region_size.",
        );
        assert_eq!((failure.limit, failure.region_end), (Some(5000), Some(7000)));
        assert!(failure.is_complete());
    }

    #[test]
    fn templates_have_no_numbers() {
        for text in [
            "Out of Memory: Not enough space to allocate {} B {} buffer across {} banks, where each bank needs to store {} B",
            "Statically allocated circular buffers in program {} clash with L1 buffers on core range {}. L1 buffer allocated at {} and static circular buffer region ends at {}",
            "Creating trace buffers of size {}B on MeshDevice {}, but only {}B is allocated for trace region.",
            "Trace buffer at address {} overlaps with buffers allocated during trace capture (allocation high water mark: {}).",
            "Out of Memory: Cannot allocate at an address below {}. Allocation at {}",
        ] {
            assert!(!find(text).is_complete(), "{text}");
        }
    }

    #[test]
    fn exceptions_have_an_operation() {
        let text = "RuntimeError: TT_THROW @ /project/tt_metal/impl/program/program.cpp:1927: tt::exception\ninfo:\nStatically allocated circular buffers in program 7 clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer allocated at 117600 and static circular buffer region ends at 124704\nbacktrace:\n --- /lib/libtt_metal.so(+0xabae05) [0x7f34752bae05]\n --- ttnn::prim::reduce(ttnn::Tensor const&)\n --- ttnn::sum(ttnn::Tensor const&)\n";
        let failure = Failure::of_exception(text).unwrap();
        assert_eq!(
            (failure.kind, failure.op.as_deref()),
            (FaultKind::CircularBuffersClash, Some("ttnn.sum"))
        );
        assert!(failure.message.ends_with(b"124704"));
        let text = "TT_FATAL @ /project/x.cpp:385: fits\ninfo:\nttnn::slice: required DFB size 2000000 B exceeds per-core L1 budget 1393312 B (row_bytes=7)\nbacktrace:\n --- ttnn::prim::slice(int)\n";
        let failure = Failure::of_exception(text).unwrap();
        assert_eq!((failure.op.as_deref(), failure.is_refusal), (Some("ttnn.slice"), true));
        assert_eq!((failure.requested_per_bank, failure.free), (Some(2_000_000), Some(1_393_312)));
        // A message of several lines.
        let text = "TT_FATAL @ /project/x.cpp:385: fits\ninfo:\nThe circular buffers need 2000 B\nbut only 1000 B of L1 are available\nbacktrace:\n";
        assert_eq!(Failure::of_exception(text).unwrap().requested_per_bank, Some(2000));
        for other in [
            "",
            "TT_FATAL @ x.cpp:1: a == b\ninfo:\nShapes 1024 B and 2048 B differ\nbacktrace:\n --- ttnn::add(int)\n",
            "TT_FATAL @ x.cpp:1: false",
            "The buffers need 2000 B but only 1000 B of L1 are available",
        ] {
            assert_eq!(Failure::of_exception(other), None, "{other}");
        }
    }

    #[test]
    fn other_lines_are_no_errors() {
        for line in ["", "memory is fine", "Circular buffers in program", "Trace buffer at address 5 is fine"]
        {
            assert_eq!(Failure::find(line.as_bytes()), None, "{line}");
        }
    }
}
