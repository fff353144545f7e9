//! How much a peak may grow.

use std::fmt;
use std::str::FromStr;

use ttmem_model::MemorySize;
use ttmem_model::words::size;

use super::counted::compared;
use super::{Diff, PoolDiff, RankDiff};

/// How much the peak of a pool may grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GrowthLimit {
    /// By a share of the peak before, in percent.
    Percent(f64),
    /// By bytes per bank.
    Bytes(u64),
}

/// A pool whose peak grew by more than a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverLimit<'a> {
    /// The label of the rank.
    pub rank: Option<&'a str>,
    /// The pool.
    pub pool: &'a str,
    /// The growth of its peak.
    pub grown_per_bank: u64,
    /// The peak before.
    pub before_per_bank: u64,
}

/// A pool whose growth is unknown, because only one input has its peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownGrowth<'a> {
    /// The label of the rank.
    pub rank: Option<&'a str>,
    /// The pool.
    pub pool: &'a str,
    /// Whether the first input does not have the peak.
    pub is_before: bool,
}

impl FromStr for GrowthLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(number) = text.trim().strip_suffix('%') else {
            return text.parse().map(|MemorySize(bytes)| Self::Bytes(bytes));
        };
        let percent =
            number.trim().parse().ok().filter(|percent: &f64| percent.is_finite() && *percent >= 0.0);
        percent
            .map(Self::Percent)
            .ok_or_else(|| format!("{number:?} is not a percentage; expected one such as 5%"))
    }
}

impl fmt::Display for GrowthLimit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(out, "{percent}%"),
            Self::Bytes(bytes) => out.write_str(&size(*bytes)),
        }
    }
}

impl GrowthLimit {
    /// The limit in bytes.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a share in percent; a float saturates"
    )]
    pub(crate) fn bytes(self, before: u64) -> Option<i64> {
        match self {
            Self::Bytes(bytes) => i64::try_from(bytes).ok(),
            Self::Percent(percent) => Some((before as f64 * percent / 100.0).floor() as i64),
        }
    }

    /// Whether a growth is larger than this.
    #[allow(clippy::cast_precision_loss, reason = "a share in percent")]
    pub(crate) fn is_exceeded(self, grown: u64, before: u64) -> bool {
        match self {
            Self::Bytes(limit) => grown > limit,
            Self::Percent(limit) => grown > 0 && grown as f64 * 100.0 > limit * before as f64,
        }
    }
}

impl Diff {
    /// The pools whose peak grew by more than a limit. Sampled pools are left out if any pool is exact.
    pub fn over(&self, limit: GrowthLimit) -> Vec<OverLimit<'_>> {
        let over = |(rank, pool, peaks): (_, _, &PoolDiff)| {
            let grown_per_bank = u64::try_from(peaks.change_per_bank?).ok()?;
            let before_per_bank = peaks.before_per_bank?;
            let is_over = limit.is_exceeded(grown_per_bank, before_per_bank);
            is_over.then_some(OverLimit { rank, pool, grown_per_bank, before_per_bank })
        };
        self.compared().filter_map(over).collect()
    }

    /// The pools that one input uses, and whose peak in the other one is unknown.
    pub fn unknown_growth(&self) -> Vec<UnknownGrowth<'_>> {
        let unknown = self.compared().filter(|(.., peaks)| peaks.is_one_sided());
        unknown
            .map(|(rank, pool, peaks)| UnknownGrowth {
                rank,
                pool,
                is_before: peaks.before_per_bank.is_none(),
            })
            .collect()
    }

    /// The ranks that run out of memory in the second input only.
    pub fn newly_out_of_memory(&self) -> impl Iterator<Item = &RankDiff> {
        self.ranks.iter().filter(|rank| rank.out_of_memory.is_new())
    }

    fn compared(&self) -> impl Iterator<Item = (Option<&str>, &str, &PoolDiff)> {
        self.ranks.iter().flat_map(|rank| {
            compared(&rank.pools.0).map(|(name, pool)| (rank.rank.as_deref(), name.as_str(), pool))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_sizes_or_shares() {
        let limit = |text: &str| text.parse::<GrowthLimit>();
        assert_eq!(limit("5%"), Ok(GrowthLimit::Percent(5.0)));
        assert_eq!(limit(" 2.5 % "), Ok(GrowthLimit::Percent(2.5)));
        assert_eq!(limit("200MiB"), Ok(GrowthLimit::Bytes(200 << 20)));
        for text in ["", "%", "-5%", "nan%", "inf%", "5 parts", "-1MB"] {
            assert!(limit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_growth_beyond_the_limit_exceeds_it() {
        assert!(GrowthLimit::Percent(5.0).is_exceeded(6, 100));
        assert!(!GrowthLimit::Percent(5.0).is_exceeded(5, 100));
        assert!(GrowthLimit::Percent(5.0).is_exceeded(1, 0), "from nothing to something");
        assert!(!GrowthLimit::Percent(0.0).is_exceeded(0, 0));
        assert!(GrowthLimit::Bytes(10).is_exceeded(11, 0));
        assert!(!GrowthLimit::Bytes(10).is_exceeded(10, 0));
    }
}
