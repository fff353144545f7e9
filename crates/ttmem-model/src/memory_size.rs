//! Memory sizes as users type them: bytes, or a number with a unit.

use std::str::FromStr;

/// A byte count. Units are powers of 1024 regardless of spelling: MB means MiB, as in the logs.
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

const EXAMPLES: &str = "expected bytes or a number with a unit, such as 12884901888, 12GB, 12.5GiB or 800MB";

impl FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let length = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, unit) = text.split_at(length);
        if text.starts_with('-') {
            return Err(format!("a size cannot be negative; {EXAMPLES}"));
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(format!("a size must start with a number; {EXAMPLES}"));
        }
        let unit = unit.trim().to_ascii_lowercase();
        let Some((_, shift)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("unknown unit {unit:?}; {EXAMPLES}"));
        };
        if *shift == 0 && !fraction.trim_end_matches('0').is_empty() {
            return Err(format!("fractions of a byte are not allowed; {EXAMPLES}"));
        }
        bytes(whole, fraction, *shift).map(Self).ok_or_else(|| "the size is too large".into())
    }
}

/// The bytes of a decimal number with a unit, rounded; `None` if it is too large.
fn bytes(whole: &str, fraction: &str, shift: u32) -> Option<u64> {
    // Further digits are less than a byte.
    const DIGITS: usize = 15;
    let fraction = &fraction[..fraction.len().min(DIGITS)];
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let number = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u128>().ok() };
    let scaled = number(whole)?.checked_mul(scale)?.checked_add(number(fraction)?)?;
    let bytes = scaled.checked_mul(1 << shift)?.checked_add(scale / 2)? / scale;
    // Larger values could not be compared with signed ones.
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
            ("", "start with a number"),
            ("GB", "start with a number"),
            (".", "start with a number"),
            ("1.2.3GB", "start with a number"),
            ("-1GB", "negative"),
            ("12 Gbit", "unknown unit"),
            ("1e9", "unknown unit"),
            ("1,000", "unknown unit"),
            ("12.5", "fractions of a byte"),
            ("99999999999TB", "too large"),
            ("99999999999999999999999999999999999999999999", "too large"),
        ] {
            let error = size(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
