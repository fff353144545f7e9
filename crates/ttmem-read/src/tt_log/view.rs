//! `MemoryView{…}`: the state of one pool, in thousandths of a MiB per bank.

/// A number of thousandths of a MiB, as printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MilliMib(pub u64);

/// The rounding of the log: 0.001 MiB, rounded up to a byte.
pub(crate) const QUANTUM: u64 = 1049;

impl MilliMib {
    /// The nearest whole number of bytes.
    pub fn bytes(self) -> u64 {
        match self.0.checked_mul(1 << 20).and_then(|scaled| scaled.checked_add(500)) {
            Some(scaled) => scaled / 1000,
            // More than any device has. The maximum value means "unknown".
            None => u64::MAX - 1,
        }
    }
}

/// The state of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    pub banks: u32,
    pub total: MilliMib,
    pub allocated: MilliMib,
    pub free: MilliMib,
    pub largest_free: MilliMib,
}

impl View {
    /// Parses the text after `MemoryView{`.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut rest = text;
        let banks = number(&mut rest, b"numBanks: ")?;
        let total = milli(&mut rest, b", totalBytesPerBank: ")?;
        let allocated = milli(&mut rest, b", totalBytesAllocatedPerBank: ")?;
        let free = milli(&mut rest, b", totalBytesFreePerBank: ")?;
        let largest_free = milli(&mut rest, b", largestContiguousBytesFreePerBank: ")?;
        rest.starts_with(b"}").then_some(Self {
            banks: u32::try_from(banks).ok()?,
            total,
            allocated,
            free,
            largest_free,
        })
    }

    /// The contradiction in the numbers, if they are inconsistent beyond rounding.
    pub fn contradiction(&self) -> Option<&'static str> {
        let sum = self.allocated.0.saturating_add(self.free.0);
        if self.banks == 0 && (self.total.0, sum) != (0, 0) {
            Some("memory but no banks")
        } else if self.free.0 > self.total.0.saturating_add(2) {
            Some("more free memory than the total")
        } else if sum.abs_diff(self.total.0) > 2 {
            Some("allocated and free memory that do not add up to the total")
        } else if self.largest_free.0 > self.free.0.saturating_add(1) {
            Some("a largest free block that exceeds the free memory")
        } else {
            None
        }
    }
}

fn number(rest: &mut &[u8], key: &[u8]) -> Option<u64> {
    let digits = rest.strip_prefix(key)?;
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    *rest = &digits[count..];
    decimal(&digits[..count])
}

/// A decimal number; `None` if there are no digits or too many.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// Parses `12.345 MB`, always with three decimal places.
fn milli(rest: &mut &[u8], key: &[u8]) -> Option<MilliMib> {
    let digits = rest.strip_prefix(key)?;
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = decimal(&digits[..count])?;
    let fraction = digits[count..].strip_prefix(b".")?;
    let thousandths = decimal(fraction.get(..3)?)?;
    *rest = fraction[3..].strip_prefix(b" MB")?;
    whole.checked_mul(1000)?.checked_add(thousandths).map(MilliMib)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        b"numBanks: 12, totalBytesPerBank: 1024.000 MB, totalBytesAllocatedPerBank: 0.008 MB, \
        totalBytesFreePerBank: 1023.992 MB, largestContiguousBytesFreePerBank: 1023.992 MB}";

    #[test]
    fn a_view_is_read_in_thousandths() {
        let view = View::parse(TEXT).unwrap();
        assert_eq!((view.banks, view.total, view.allocated), (12, MilliMib(1_024_000), MilliMib(8)));
        assert_eq!(view.total.bytes(), 1 << 30);
        assert_eq!(view.allocated.bytes(), 8389);
        assert_eq!(view.contradiction(), None);
    }

    #[test]
    fn a_view_that_is_cut_or_overflows_is_not_read() {
        for cut in 0..TEXT.len() {
            assert_eq!(View::parse(&TEXT[..cut]), None);
        }
        let huge = b"numBanks: 12, totalBytesPerBank: 99999999999999999999.000 MB, totalBytesAllocatedPerBank: 0.008 MB, \
            totalBytesFreePerBank: 1023.992 MB, largestContiguousBytesFreePerBank: 1023.992 MB}";
        assert_eq!(View::parse(huge), None);
        assert_eq!(MilliMib(u64::MAX).bytes(), u64::MAX - 1);
    }

    #[test]
    fn numbers_that_cannot_be_right_together_are_noticed() {
        let view = |banks, total, allocated, free, largest_free| View {
            banks,
            total: MilliMib(total),
            allocated: MilliMib(allocated),
            free: MilliMib(free),
            largest_free: MilliMib(largest_free),
        };
        assert_eq!(view(12, 1000, 8, 993, 992).contradiction(), None, "rounding");
        assert_eq!(view(0, 0, 0, 0, 0).contradiction(), None);
        for wrong in [
            view(0, 1000, 0, 1000, 1000),
            view(12, 1000, 0, 1003, 1000),
            view(12, 1000, 300, 600, 600),
            view(12, 1000, 500, 500, 502),
        ] {
            assert!(wrong.contradiction().is_some(), "{wrong:?}");
        }
    }
}
