//! How full a pool is. Front ends show the level from the response; the limits are defined only here.

use serde::{Deserialize, Serialize};

/// How close the peak of a pool comes to its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Enough memory is free.
    Ok,
    /// Little memory is free.
    High,
    /// The next larger request may fail.
    Full,
}

/// Shares of a pool's capacity, in percent. A pool is at a level if its peak exceeds that level's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Above this share a pool is [`Level::High`].
    pub high: u64,
    /// Above this share a pool is [`Level::Full`].
    pub full: u64,
}

impl Limits {
    /// The level of a peak; `None` if the capacity is 0, as for a region that was not configured.
    pub fn level(self, peak: u64, capacity: u64) -> Option<Level> {
        let is_above = |percent: u64| u128::from(peak) * 100 > u128::from(capacity) * u128::from(percent);
        let level = if is_above(self.full) {
            Level::Full
        } else if is_above(self.high) {
            Level::High
        } else {
            Level::Ok
        };
        (capacity > 0).then_some(level)
    }
}

/// The limits of all pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The limits of L1, which are higher because only kernels need the rest of it.
    pub l1: Limits,
    /// The limits of all other memory.
    pub other: Limits,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { l1: Limits { high: 90, full: 95 }, other: Limits { high: 80, full: 90 } }
    }
}

impl Thresholds {
    /// The limits of a pool.
    pub fn limits(&self, pool: &str) -> Limits {
        if pool.starts_with("L1") { self.l1 } else { self.other }
    }

    /// The level of a pool; `None` if its peak or capacity is unknown.
    pub fn level(&self, pool: &str, peak: Option<u64>, capacity: Option<u64>) -> Option<Level> {
        self.limits(pool).level(peak?, capacity?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_begins_above_its_limit() {
        let level = |pool, peak| Thresholds::default().level(pool, Some(peak), Some(1000));
        for pool in ["DRAM", "cuda:0", "cpu", "TRACE"] {
            assert_eq!(level(pool, 800), Some(Level::Ok), "{pool}");
            assert_eq!(level(pool, 801), Some(Level::High), "{pool}");
            assert_eq!(level(pool, 900), Some(Level::High), "{pool}");
            assert_eq!(level(pool, 901), Some(Level::Full), "{pool}");
        }
        for pool in ["L1", "L1_SMALL"] {
            assert_eq!(level(pool, 900), Some(Level::Ok), "{pool}");
            assert_eq!(level(pool, 901), Some(Level::High), "{pool}");
            assert_eq!(level(pool, 951), Some(Level::Full), "{pool}");
        }
        assert_eq!(level("DRAM", u64::MAX), Some(Level::Full));
    }

    #[test]
    fn without_a_peak_or_a_capacity_there_is_no_level() {
        let level = |peak, capacity| Thresholds::default().level("DRAM", peak, capacity);
        assert_eq!(level(None, Some(1)), None);
        assert_eq!(level(Some(1), None), None);
        assert_eq!(level(Some(0), Some(0)), None);
        assert_eq!(level(Some(0), Some(1)), Some(Level::Ok));
    }
}
