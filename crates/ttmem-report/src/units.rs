//! Formats numbers for people. Bytes stay integers until here.

pub(super) use ttmem_query::words::shape;
pub use ttmem_query::words::size;
use ttmem_query::words::tenths;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Columns with numbers up to here are in KiB.
const MIN_MIB: u64 = 16 * MIB;
/// Columns with numbers up to here are in MiB. A bank of a Tenstorrent card is smaller, a GPU larger.
const MIN_OWN: u64 = 10 << 30;

/// A unit for a whole column or line, so that its numbers can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// 1024 bytes.
    Kib,
    /// 1024 KiB.
    Mib,
    /// Each number has its own unit: GPUs hold tensors of a few KiB and of many GiB.
    Own,
}

impl Unit {
    /// The unit for numbers up to `largest`.
    pub fn of(largest: u64) -> Self {
        match largest {
            0..MIN_MIB => Self::Kib,
            MIN_MIB..MIN_OWN => Self::Mib,
            _ => Self::Own,
        }
    }

    /// The number with its unit.
    pub fn show(self, bytes: u64) -> String {
        match self {
            // Something is never shown as nothing.
            Self::Kib if bytes > 0 && bytes.saturating_mul(20) < KIB => "<0.1 KiB".into(),
            Self::Mib if bytes > 0 && bytes.saturating_mul(20) < MIB => "<0.1 MiB".into(),
            Self::Kib => format!("{} KiB", tenths(bytes, KIB)),
            Self::Mib => format!("{} MiB", tenths(bytes, MIB)),
            Self::Own => size(bytes),
        }
    }

    /// `686.4 of 4080.0 MiB`. The unit is written once if both have the same.
    pub fn part_of(self, part: u64, whole: u64) -> String {
        let (part, whole) = (self.show(part), self.show(whole));
        match (part.rsplit_once(' '), whole.rsplit_once(' ')) {
            (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} of {whole}"),
            _ => format!("{part} of {whole}"),
        }
    }
}

/// Like [`size`], with a sign.
pub(super) fn change(bytes: i64) -> String {
    let sign = if bytes < 0 { "−" } else { "+" };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}

/// MiB with a fixed number of decimals, as in the formats of tt-train and tt-memory-profiler 0.x.
pub(super) fn mib(bytes: u64, digits: usize) -> String {
    let scale = 10u128.pow(u32::try_from(digits).unwrap_or(0));
    let scaled = (u128::from(bytes) * scale + u128::from(MIB) / 2) / u128::from(MIB);
    let (whole, rest) = (scaled / scale, scaled % scale);
    if digits == 0 { whole.to_string() } else { format!("{whole}.{rest:0digits$}") }
}

/// A whole percentage, but never 0% for a nonzero part nor 100% for less than the whole.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".into();
    }
    let share = (u128::from(part) * 100 + u128::from(whole) / 2) / u128::from(whole);
    match share {
        0 if part > 0 => "<1%".into(),
        100 if part < whole => ">99%".into(),
        share => format!("{share}%"),
    }
}

/// A percentage with one decimal.
pub(super) fn percent_tenths(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".into();
    }
    let share = (u128::from(part) * 1000 + u128::from(whole) / 2) / u128::from(whole);
    format!("{}.{}%", share / 10, share % 10)
}

/// A signed percentage with one decimal: `+1.5%`.
pub(super) fn signed_percent(percent: f64) -> String {
    format!("{percent:+.1}%").replace('-', "−")
}

/// A duration: `1.24 s`, `850 ms`, `12 µs`, `2 h 05 min`.
pub(super) fn duration(nanoseconds: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    match nanoseconds {
        0..1_000_000 => format!("{} µs", nanoseconds / 1000),
        1_000_000..SECOND => format!("{} ms", nanoseconds / 1_000_000),
        _ => match nanoseconds / SECOND {
            seconds @ 0..60 => format!("{seconds}.{:02} s", nanoseconds % SECOND / 10_000_000),
            seconds @ 60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
            seconds => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        },
    }
}

/// `12,345`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_fits() {
        assert_eq!(size(64), "64 B");
        assert_eq!(size(12 * KIB), "12.0 KiB");
        assert_eq!(size(412_889_088), "393.8 MiB");
        assert_eq!(size(5_037_899_776), "4.69 GiB");
        assert_eq!(change(-1536), "−1.5 KiB");
    }

    #[test]
    fn columns_have_one_unit_unless_they_span_many() {
        let shown = |part, whole| Unit::of(whole).part_of(part, whole);
        assert_eq!(shown(KIB, 1300 * KIB), "1.0 of 1300.0 KiB");
        assert_eq!(shown(1, 1300 * KIB), "<0.1 of 1300.0 KiB");
        assert_eq!(
            (shown(KIB, 64 * MIB), shown(0, 64 * MIB)),
            ("<0.1 of 64.0 MiB".into(), "0.0 of 64.0 MiB".into())
        );
        assert_eq!(shown(720 * MIB, 4080 * MIB), "720.0 of 4080.0 MiB");
        assert_eq!(shown(120 << 30, 140 << 30), "120.00 of 140.00 GiB");
        assert_eq!(shown(12 * MIB, 140 << 30), "12.0 MiB of 140.00 GiB");
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let shown = [0, 12_345, 850_999_999, 1_239_999_999, 125_000_000_000, 7_500_000_000_000].map(duration);
        assert_eq!(shown, ["0 µs", "12 µs", "850 ms", "1.23 s", "2 min 05 s", "2 h 05 min"]);
    }

    #[test]
    fn shares_never_lie_about_nothing_and_all() {
        assert_eq!(percent(0, 7), "0%");
        assert_eq!(percent(1, 1000), "<1%");
        assert_eq!(percent(999, 1000), ">99%");
        assert_eq!(percent(7, 7), "100%");
        assert_eq!(percent(1, 0), "–");
        assert_eq!(percent_tenths(983, 1000), "98.3%");
    }

    #[test]
    fn fixed_decimals_are_in_mib() {
        assert_eq!(mib(MIB / 2, 3), "0.500");
        assert_eq!(mib(3_260_944_482, 3), "3109.879");
        assert_eq!(mib(MIB, 0), "1");
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(
            (count(7), count(1606), count(1_234_567)),
            ("7".into(), "1,606".into(), "1,234,567".into())
        );
    }
}
