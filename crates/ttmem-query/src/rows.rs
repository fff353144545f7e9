//! Building blocks of the report's JSON files: lists that are serialized as they are computed, maps in a given order,
//! shapes as `1x32x64`, and sizes in MiB.

use std::fmt;

use serde::ser::{Serialize, Serializer};

/// A list whose rows are computed while it is serialized.
pub(super) struct Rows<F>(pub F);

impl<F, I> Serialize for Rows<F>
where
    F: Fn() -> I,
    I: Iterator,
    I::Item: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// A map that keeps the order of its entries and may borrow its keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Entries<K, V>(pub Vec<(K, V)>);

impl<K: Serialize, V: Serialize> Serialize for Entries<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// A shape, written `1x32x64`; empty for a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape<'a>(pub &'a [u64]);

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, size) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("x")?;
            }
            write!(f, "{size}")?;
        }
        Ok(())
    }
}

impl Serialize for Shape<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Bytes as MiB with three decimal places.
#[allow(clippy::cast_precision_loss, reason = "the result has only three decimal places")]
pub(super) fn mib(bytes: u64) -> f64 {
    let thousandths = (u128::from(bytes) * 1000 + (1 << 19)) >> 20;
    thousandths as f64 / 1000.0
}

/// Bytes as MiB, as the input printed them: with three decimal places if it rounds, otherwise exactly.
#[allow(clippy::cast_precision_loss, reason = "exact up to eight petabytes")]
pub(super) fn mib_as_printed(bytes: u64, quantum: u64) -> f64 {
    if quantum > 0 { mib(bytes) } else { bytes as f64 / f64::from(1 << 20) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_sizes_survive_a_round_trip() {
        // The reader rounds each number of thousandths of a MiB to the nearest byte.
        for thousandths in (0..5_000_000u64).step_by(997).chain([1, 2, 3, 4_273_390]) {
            let bytes = (thousandths * (1 << 20) + 500) / 1000;
            assert_eq!(
                format!("{:.3}", mib(bytes)),
                format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
            );
        }
        assert!((mib_as_printed(1 << 19, 0) - 0.5).abs() < f64::EPSILON);
        assert!(mib(u64::MAX) > 1.7e13);
    }

    #[test]
    fn shapes_are_separated_by_x() {
        assert_eq!(Shape(&[1, 32, 64]).to_string(), "1x32x64");
        assert_eq!(Shape(&[]).to_string(), "");
    }
}
