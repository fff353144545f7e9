//! Sizes of memory as people type them: bytes, or a number with a unit.

use std::str::FromStr;

/// A number of bytes. Units are powers of 1024, however they are spelled: MB is MiB, as in the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySize(pub u64);

const UNITS: [(&str, u32); 16] = [
    ("", 0),
    ("b", 0),
    ("byte", 0),
    ("bytes", 0),
    ("k", 10),
    ("kb", 10),
    ("kib", 10),
    ("m", 20),
    ("mb", 20),
    ("mib", 20),
    ("g", 30),
    ("gb", 30),
    ("gib", 30),
    ("t", 40),
    ("tb", 40),
    ("tib", 40),
];

const EXAMPLES: &str = "bytes are wanted, or a number with a unit: 12884901888, 12GB, 12.5GiB, 800MB";

impl FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let length = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, unit) = text.split_at(length);
        if text.starts_with('-') {
            return Err(format!("a size is not below zero; {EXAMPLES}"));
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(format!("it does not begin with a number; {EXAMPLES}"));
        }
        let unit = unit.trim().to_ascii_lowercase();
        let Some((_, shift)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("{unit:?} is no unit (B, KB, MB, GB, TB, or with i: MiB); {EXAMPLES}"));
        };
        if *shift == 0 && !fraction.trim_end_matches('0').is_empty() {
            return Err(format!("there are no parts of a byte; {EXAMPLES}"));
        }
        bytes(whole, fraction, *shift).map(Self).ok_or_else(|| "that is more than any device has".into())
    }
}

/// The bytes of a decimal number of a unit, to the nearest; `None` where that is too many.
fn bytes(whole: &str, fraction: &str, shift: u32) -> Option<u64> {
    // More digits do not matter: a byte is the smallest part.
    const DIGITS: usize = 15;
    let fraction = &fraction[..fraction.len().min(DIGITS)];
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let number = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u128>().ok() };
    let scaled = number(whole)?.checked_mul(scale)?.checked_add(number(fraction)?)?;
    let bytes = scaled.checked_mul(1 << shift)?.checked_add(scale / 2)? / scale;
    // What does not fit the numbers with a sign could not be compared.
    i64::try_from(bytes).ok().map(i64::unsigned_abs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> Result<u64, String> {
        text.parse::<MemorySize>().map(|size| size.0)
    }

    #[test]
    fn sizes_have_any_unit() {
        for (text, bytes) in [
            ("12884901888", 12 << 30),
            ("0", 0),
            ("64B", 64),
            ("12GB", 12 << 30),
            ("12 GiB", 12 << 30),
            ("12g", 12 << 30),
            ("12.5GB", 25 << 29),
            (".5GiB", 1 << 29),
            ("12288 MB", 12 << 30),
            ("1.5KB", 1536),
            ("2TiB", 2 << 40),
            ("7.0", 7),
            ("1848.93MB", 1_938_743_624),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("", "begin with a number"),
            ("GB", "begin with a number"),
            (".", "begin with a number"),
            ("1.2.3GB", "begin with a number"),
            ("-1GB", "below zero"),
            ("12 Gbit", "no unit"),
            ("1e9", "no unit"),
            ("1,000", "no unit"),
            ("12.5", "parts of a byte"),
            ("99999999999TB", "more than any device"),
            ("99999999999999999999999999999999999999999999", "more than any device"),
        ] {
            let error = size(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
