//! Sizes in messages, and a cursor over the text of a message.

use ttmem_model::Amount;

/// Reads a text from left to right. Blanks and line breaks are equal, so a message may be wrapped.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    /// Whether the text ended inside something that was expected.
    pub is_cut: bool,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, is_cut: false }
    }

    /// The number of bytes read.
    pub fn position(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    /// Reads a phrase. Reads nothing if the text differs.
    pub fn eat(&mut self, phrase: &str) -> bool {
        let mut at = self.at;
        for byte in phrase.bytes() {
            match self.text.get(at) {
                None => {
                    self.is_cut = true;
                    return false;
                }
                Some(next) if byte == b' ' => {
                    if !next.is_ascii_whitespace() {
                        return false;
                    }
                    at += self.text[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
                }
                Some(next) if *next == byte => at += 1,
                Some(_) => return false,
            }
        }
        self.at = at;
        true
    }

    /// Reads the first of several phrases that matches.
    pub fn eat_any<'p>(&mut self, phrases: &[&'p str]) -> Option<&'p str> {
        phrases.iter().copied().find(|phrase| self.eat(phrase))
    }

    /// Reads a whole number.
    pub fn number(&mut self) -> Option<u64> {
        let digits = digits(self.rest());
        // Digits may be missing at the end of the text.
        if digits == self.rest().len() {
            self.is_cut = true;
            return None;
        }
        let value = decimal(&self.rest()[..digits])?;
        self.at += digits;
        Some(value)
    }

    /// Reads a size.
    pub fn size(&mut self) -> Option<Amount> {
        match size(self.rest()) {
            Size::Whole(amount, length) => {
                self.at += length;
                Some(amount)
            }
            Size::Cut => {
                self.is_cut = true;
                None
            }
            Size::None => None,
        }
    }
}

/// What a text begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// A size, and its length.
    Whole(Amount, usize),
    /// The text ends inside a size.
    Cut,
    None,
}

/// The size at the start of a text.
pub(super) fn leading_size(text: &[u8]) -> Option<Amount> {
    match size(text) {
        Size::Whole(amount, _) => Some(amount),
        _ => None,
    }
}

/// The size after a phrase.
pub(super) fn size_after(text: &[u8], phrase: &str) -> Option<Amount> {
    leading_size(after(text, phrase)?)
}

/// The text after the first occurrence of a phrase.
pub(super) fn after<'a>(text: &'a [u8], phrase: &str) -> Option<&'a [u8]> {
    memchr::memmem::find(text, phrase.as_bytes()).map(|at| &text[at + phrase.len()..])
}

/// `2.00 GiB`, `15.63GiB`, `512 bytes`. PyTorch, vLLM and SGLang compute all units with 1024, whatever they call them.
fn size(text: &[u8]) -> Size {
    const UNITS: [(&[u8], u32); 9] = [
        (b"bytes", 0),
        (b"KiB", 10),
        (b"MiB", 20),
        (b"GiB", 30),
        (b"TiB", 40),
        (b"KB", 10),
        (b"MB", 20),
        (b"GB", 30),
        (b"B", 0),
    ];
    let whole = digits(text);
    if whole == 0 {
        return if text.is_empty() { Size::Cut } else { Size::None };
    }
    let fraction = match text[whole..].split_first() {
        Some((b'.', rest)) => digits(rest),
        _ => 0,
    };
    let end = if fraction > 0 { whole + 1 + fraction } else { whole };
    let blanks = text[end..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let word = &text[end + blanks..];
    let found = UNITS.iter().find(|(unit, _)| {
        word.starts_with(unit) && !word.get(unit.len()).is_some_and(u8::is_ascii_alphanumeric)
    });
    let Some((unit, shift)) = found else {
        let may_go_on = UNITS.iter().any(|(unit, _)| unit.starts_with(word));
        return if may_go_on || word == b"." { Size::Cut } else { Size::None };
    };
    match amount(&text[..whole], &text[end - fraction..end], *shift) {
        Some(amount) => Size::Whole(amount, end + blanks + unit.len()),
        None => Size::None,
    }
}

/// A decimal number of units of `1 << shift` bytes.
pub(super) fn amount(whole: &[u8], fraction: &[u8], shift: u32) -> Option<Amount> {
    let scale = 10u128.checked_pow(u32::try_from(fraction.len()).ok().filter(|digits| *digits <= 9)?)?;
    let parts = u128::from(decimal(whole)?) * scale + u128::from(decimal(fraction).unwrap_or(0));
    let unit = 1u128 << shift;
    // A driver without numbers makes PyTorch print 2^64 bytes.
    let bytes = u64::try_from(parts.checked_mul(unit)?.checked_add(scale / 2)? / scale).unwrap_or(u64::MAX);
    let is_exact = shift == 0 && fraction.is_empty();
    let quantum = if is_exact { 0 } else { u64::try_from(unit.div_ceil(scale)).ok()? };
    Some(Amount { bytes, quantum })
}

/// A number without a unit, in units of `1 << shift` bytes: the `7.34` of `(7.34/15.49 GiB)`. Returns its length as well.
pub(super) fn bare_amount(text: &[u8], digits_shown: u32, shift: u32) -> Option<(Amount, usize)> {
    let whole = digits(text);
    let fraction = match text.get(whole..)?.split_first() {
        Some((b'.', rest)) => digits(rest),
        _ => 0,
    };
    let end = if fraction > 0 { whole + 1 + fraction } else { whole };
    let found = amount(&text[..whole], &text[end - fraction..end], shift)?;
    // Python leaves out zeros at the end.
    let quantum = (1u64 << shift).div_ceil(10u64.checked_pow(digits_shown)?);
    Some((Amount { quantum, ..found }, end))
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit_and_a_quantum() {
        let of = |text: &str| leading_size(text.as_bytes()).map(|amount| (amount.bytes, amount.quantum));
        assert_eq!(of("2.00 GiB. GPU"), Some((2 << 30, 10_737_419)));
        assert_eq!(of("15.63GiB;"), Some((16_782_584_709, 10_737_419)));
        assert_eq!(of("0 bytes free"), Some((0, 0)));
        assert_eq!(of("33762398024 bytes."), Some((33_762_398_024, 0)));
        assert_eq!(of("14.9888 GiB and"), Some((16_094_101_452, 107_375)));
        assert_eq!(of("1.25 GB)"), Some((1_342_177_280, 10_737_419)));
        for text in [
            "",
            "x",
            "2.00",
            "2.00 ",
            "2.00 G",
            "2.00 Gi",
            "2.",
            "12",
            "2.00 GiBs",
            "99999999999999999999 GiB",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(
            bare_amount(b"2.6/121.63 GiB", 2, 30),
            Some((Amount { bytes: 2_791_728_742, quantum: 10_737_419 }, 3))
        );
    }

    #[test]
    fn a_cursor_reads_wrapped_texts_and_notices_their_end() {
        let mut cursor = Cursor::new(b"Process 12 has\n 1.00  MiB memory in");
        assert!(cursor.eat("Process "));
        assert_eq!(cursor.number(), Some(12));
        assert!(!cursor.eat(" had ") && cursor.eat(" has ") && !cursor.is_cut);
        assert_eq!(cursor.size().map(|size| size.bytes), Some(1 << 20));
        assert!(!cursor.eat(" memory in use") && cursor.is_cut);
        let mut cursor = Cursor::new(b"12");
        assert!(cursor.number().is_none() && cursor.is_cut);
    }
}
