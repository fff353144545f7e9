//! Formats counts and sizes for messages.
//!
//! Warnings and errors of all crates use these functions, so that a count of one has a singular noun and the same size
//! has the same unit everywhere.

use std::fmt::Display;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Selects the singular or the plural wording: `by_count(n, "is", "are")`.
pub fn by_count<'t, N: Copy + PartialEq + From<u8>>(count: N, one: &'t str, several: &'t str) -> &'t str {
    if count == N::from(1) { one } else { several }
}

/// `1 row`, `3 rows`: a count with a noun whose plural ends in `s`.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    format!("{count} {noun}{}", by_count(count, "", "s"))
}

/// `1 row is`, `3 rows are`: a count with a phrase that depends on it, such as a noun and its verb.
pub fn counted_as<N: Copy + Display + PartialEq + From<u8>>(count: N, one: &str, several: &str) -> String {
    format!("{count} {}", by_count(count, one, several))
}

/// `4.70 GiB`, `393.7 MiB`, `12.0 KiB`, `64 B`.
pub fn size(bytes: u64) -> String {
    // A size that would round to 1024.0 of a unit is printed as 1.0 of the next unit.
    const NEARLY_MIB: u64 = MIB - KIB / 20;
    const NEARLY_GIB: u64 = GIB - MIB / 20;
    match bytes {
        0..KIB => format!("{bytes} B"),
        KIB..NEARLY_MIB => format!("{} KiB", tenths(bytes, KIB)),
        NEARLY_MIB..NEARLY_GIB => format!("{} MiB", tenths(bytes, MIB)),
        _ => format!("{} GiB", hundredths(bytes, GIB)),
    }
}

/// A number of bytes in a unit, with one decimal place.
pub fn tenths(bytes: u64, unit: u64) -> String {
    let scaled = (u128::from(bytes) * 10 + u128::from(unit) / 2) / u128::from(unit);
    format!("{}.{}", scaled / 10, scaled % 10)
}

fn hundredths(bytes: u64, unit: u64) -> String {
    let scaled = (u128::from(bytes) * 100 + u128::from(unit) / 2) / u128::from(unit);
    format!("{}.{:02}", scaled / 100, scaled % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_one_is_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "row")), ["0 rows", "1 row", "2 rows"]);
        assert_eq!(counted_as(1_u64, "row is", "rows are"), "1 row is");
        assert_eq!(counted_as(7_usize, "row is", "rows are"), "7 rows are");
    }

    #[test]
    fn sizes_that_round_up_have_the_next_unit() {
        assert_eq!([64, 12 << 10, MIB - 1].map(size), ["64 B", "12.0 KiB", "1.0 MiB"]);
        assert_eq!([GIB - 1, 5 * GIB].map(size), ["1.00 GiB", "5.00 GiB"]);
    }
}
