//! Parses the texts of out-of-memory and circular-buffer errors, in all variants since 2023.

use std::sync::LazyLock;

use memchr::memmem;
use ttmem_model::{Fault, FaultKind, Result, Step};

use super::tables::Tables;

/// A parsed error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParsedFault<'a> {
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
    pub region_end: Option<u64>,
    pub limit: Option<u64>,
    /// The message is truncated.
    is_cut: bool,
}

impl<'a> ParsedFault<'a> {
    /// Whether the message is truncated; then some of its values are unknown.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The error of a line without a line ending: a number at its end may lack digits.
    pub fn without_last_number(self) -> Self {
        if !self.message.last().is_some_and(u8::is_ascii_digit) {
            return self;
        }
        // The only message that ends in a number ends in the end of a region.
        Self { region_end: None, is_cut: true, ..self }
    }

    /// Finds an error anywhere in a line.
    pub fn find(line: &'a [u8]) -> Option<Self> {
        // Almost all lines are rejected here.
        HINTS.iter().find(|hint| hint.find(line).is_some())?;
        let from = |phrase: &[u8]| memmem::find(line, phrase).map(|at| without_source(&line[at..]));
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
            let overlaps = memmem::find(message, b" overlaps with ").is_some();
            return overlaps.then(|| Self::bare(FaultKind::TraceRegion, message));
        }
        let message = CIRCULAR.iter().find_map(|phrase| from(phrase))?;
        Self::circular_buffers(message)
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

    fn circular_buffers(message: &'a [u8]) -> Option<Self> {
        if let Some(rest) = after(message, b" grow to ") {
            let (unit, bytes): (&[u8], u64) =
                if after(rest, b" KB").is_some() { (b" KB", 1024) } else { (b" B", 1) };
            let scaled = |value: Option<u64>| value.and_then(|value| value.checked_mul(bytes));
            let limit = scaled(unit_after(rest, b"max L1 size of ", unit));
            return Some(Self {
                pool: Some(b"L1"),
                region_end: scaled(number_with_unit(rest, unit)),
                limit,
                is_cut: limit.is_none(),
                ..Self::bare(FaultKind::CircularBuffersTooLarge, message)
            });
        }
        let rest = after(message, b" clash with ")?;
        let ends = [&b"region ends at "[..], b"local buffers end at "];
        let region_end = ends.iter().find_map(|phrase| number_after(rest, phrase));
        Some(Self {
            pool: Some(b"L1"),
            region_end,
            limit: unit_after(rest, b"L1 buffer allocated at ", b" ")
                .or_else(|| unit_after(rest, b"lowest service allocation at ", b",")),
            is_cut: region_end.is_none(),
            ..Self::bare(FaultKind::CircularBuffersClash, message)
        })
    }
}

/// Every error contains at least one of these phrases.
static HINTS: LazyLock<[memmem::Finder<'static>; 3]> = LazyLock::new(|| {
    ["Out of Memory", " buffers ", "Trace buffer "].map(|hint| memmem::Finder::new(hint).into_owned())
});

/// The beginnings of circular-buffer errors.
const CIRCULAR: [&[u8]; 5] = [
    b"Statically allocated circular buffers ",
    b"Statically allocated dataflow buffers ",
    b"Circular buffers on service-core range ",
    b"Circular buffers in program ",
    b"Local buffers on core ",
];

/// Removes the suffix that the logger adds, such as ` (assert.hpp:107)`.
fn without_source(message: &[u8]) -> &[u8] {
    let message = message.trim_ascii_end();
    match memmem::rfind(message, b" (") {
        Some(at) if message.ends_with(b")") && memmem::find(&message[at..], b"pp:").is_some() => {
            &message[..at]
        }
        _ => message,
    }
}

fn after<'a>(text: &'a [u8], phrase: &[u8]) -> Option<&'a [u8]> {
    memmem::find(text, phrase).map(|at| &text[at + phrase.len()..])
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
    let free = after(rest, b" (allocated: ");
    free.is_some_and(|free| unit_after(free, b"largest free block: ", b" B").is_none())
        || stops_in(rest.trim_ascii_end(), b" (allocated: ")
}

/// The pool at the start of a text; `None` for a truncated name.
fn pool_name(text: &[u8]) -> Option<&[u8]> {
    let word = first_word(text);
    (word.len() < text.len()).then_some(word)
}

/// The number after a phrase if its unit follows; a truncated number has no unit.
fn unit_after(text: &[u8], phrase: &[u8], unit: &[u8]) -> Option<u64> {
    number_with_unit(after(text, phrase)?, unit)
}

fn number_with_unit(text: &[u8], unit: &[u8]) -> Option<u64> {
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let digits =
        (0..text.len()).take_while(|at| is_digit(*at) || text[*at] == b',' && is_digit(at + 1)).count();
    text[digits..].starts_with(unit).then(|| number(text))?
}

fn number_after(text: &[u8], phrase: &[u8]) -> Option<u64> {
    number(after(text, phrase)?)
}

/// Digits, with or without thousands separators.
fn number(text: &[u8]) -> Option<u64> {
    let mut value = None;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                value = Some(value.unwrap_or(0u64).checked_mul(10)?.checked_add(u64::from(byte - b'0'))?);
            }
            b',' if value.is_some() && text.get(at + 1).is_some_and(u8::is_ascii_digit) => {}
            _ => break,
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(line: &str) -> ParsedFault<'_> {
        ParsedFault::find(line.as_bytes()).unwrap_or_else(|| panic!("not found: {line}"))
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
    fn other_lines_are_no_errors() {
        for line in ["", "memory is fine", "Circular buffers in program", "Trace buffer at address 5 is fine"]
        {
            assert_eq!(ParsedFault::find(line.as_bytes()), None, "{line}");
        }
    }
}
