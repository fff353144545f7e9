//! Numbers in the texts of errors.

use memchr::memmem;

/// The text after the first occurrence of a phrase.
pub(super) fn after<'a>(text: &'a [u8], phrase: &[u8]) -> Option<&'a [u8]> {
    memmem::find(text, phrase).map(|at| &text[at + phrase.len()..])
}

/// The number after a phrase if its unit follows; a truncated number has no unit.
pub(super) fn unit_after(text: &[u8], phrase: &[u8], unit: &[u8]) -> Option<u64> {
    number_with_unit(after(text, phrase)?, unit)
}

/// The number at the start of a text if its unit follows.
pub(super) fn number_with_unit(text: &[u8], unit: &[u8]) -> Option<u64> {
    text[digits(text)..].starts_with(unit).then(|| number(text))?
}

/// The number after a phrase.
pub(super) fn number_after(text: &[u8], phrase: &[u8]) -> Option<u64> {
    number(after(text, phrase)?)
}

/// The length of the number at the start of a text, with thousands separators.
pub(super) fn digits(text: &[u8]) -> usize {
    let is_digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    (0..text.len()).take_while(|&at| is_digit(at) || at > 0 && text[at] == b',' && is_digit(at + 1)).count()
}

/// The number at the start of a text, with or without thousands separators.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let digits = text[..digits(text)].iter().filter(|byte| **byte != b',');
    let mut value = None;
    for digit in digits {
        value = Some(value.unwrap_or(0u64).checked_mul(10)?.checked_add(u64::from(digit - b'0'))?);
    }
    value
}

/// A number of bytes in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quantity {
    /// The position of its first digit.
    pub start: usize,
    /// The position after its unit, or after its last digit if it has no unit.
    pub end: usize,
    /// The number of bytes.
    pub bytes: u64,
    /// Whether it has a unit; a number without one may be anything.
    pub has_unit: bool,
}

/// All numbers of a text that may be byte counts, in order. Parts of names, addresses (`0x…`), decimal fractions and
/// percentages are left out.
pub(super) fn quantities(text: &[u8]) -> Vec<Quantity> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].iter().position(u8::is_ascii_digit).map(|skip| at + skip) {
        let rest = &text[start..];
        let length = digits(rest);
        at = start + length;
        let is_joined = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.' | b':'))
        };
        let before = start.checked_sub(1).and_then(|before| text.get(before));
        let is_fraction = text.get(at) == Some(&b'.') && text.get(at + 1).is_some_and(u8::is_ascii_digit);
        if is_joined(before) || is_fraction || text.get(at) == Some(&b'%') {
            // The digits after the point belong to the same number.
            at += usize::from(is_fraction);
            continue;
        }
        let (unit, scale) = unit(&text[at..]);
        let is_word = unit == 0 && is_joined(text.get(at).filter(|byte| !matches!(byte, b'.' | b':')));
        if let Some(bytes) = number(rest).and_then(|number| number.checked_mul(scale)).filter(|_| !is_word) {
            found.push(Quantity { start, end: at + unit, bytes, has_unit: unit > 0 });
        }
    }
    found
}

/// The length of the unit at the start of a text, and the number of bytes it stands for; 0 and 1 if there is none.
fn unit(text: &[u8]) -> (usize, u64) {
    // tt-metal computes its KB with 1024.
    const UNITS: [(&[u8], u64); 9] = [
        (b"B", 1),
        (b"bytes", 1),
        (b"byte", 1),
        (b"KiB", 1 << 10),
        (b"KB", 1 << 10),
        (b"MiB", 1 << 20),
        (b"MB", 1 << 20),
        (b"GiB", 1 << 30),
        (b"GB", 1 << 30),
    ];
    let space = usize::from(text.first() == Some(&b' '));
    // `requires 4096 L1 bytes`.
    let name = if text[space..].starts_with(b"L1 ") { 3 } else { 0 };
    let word = &text[space + name..];
    let is_whole = |length: usize| !word.get(length).is_some_and(u8::is_ascii_alphanumeric);
    let found = UNITS.iter().find(|(unit, _)| word.starts_with(unit) && is_whole(unit.len()));
    found.map_or((0, 1), |(unit, scale)| (space + name + unit.len(), *scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units_or_stand_alone() {
        let found = |text: &str| -> Vec<(u64, bool)> {
            quantities(text.as_bytes()).iter().map(|found| (found.bytes, found.has_unit)).collect()
        };
        assert_eq!(
            found("needs 12 B, 3 KB and 4 KiB of 5,000 bytes"),
            [(12, true), (3 << 10, true), (4 << 10, true), (5000, true)]
        );
        assert_eq!(found("scratch=12 B + CBs=7 B (2 x 3)"), [(12, true), (7, true), (2, false), (3, false)]);
        assert_eq!(found("L1 uint16_t 0x10 1.5 MB 70% a.cpp:12 2x in0_block_w"), []);
        assert_eq!(found("requires 4096 L1 bytes; only 12."), [(4096, true), (12, false)]);
        assert_eq!(found("99999999999999999999999 B"), []);
    }
}
