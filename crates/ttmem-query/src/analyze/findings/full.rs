//! Pools that are nearly full.

use super::{Finding, PoolAtPeak, Situation, What};

/// A pool that is fuller than it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The share of a bank that it is over, in percent.
    pub over: u64,
    /// The share that it should be under, in percent.
    pub target: u64,
    /// The peak.
    pub peak: u64,
    /// The size of a bank.
    pub capacity: u64,
}

impl Full {
    /// What is left of each bank at the peak.
    pub fn left(&self) -> u64 {
        self.capacity.saturating_sub(self.peak)
    }

    /// What must go for the pool to be under its target.
    pub fn too_much(&self) -> u64 {
        let target = u128::from(self.capacity) * u128::from(self.target) / 100;
        self.peak.saturating_sub(u64::try_from(target).unwrap_or(u64::MAX))
    }
}

/// Beyond the first share, in percent, more than is good is in use; beyond the second it is about to fail.
const DRAM: [u64; 2] = [80, 90];
/// Kernels need room in L1, too, which no state shows; but nothing else is to come in.
const L1: [u64; 2] = [90, 95];

/// DRAM and L1, where they are nearly full.
pub fn full(situation: &Situation<'_>) -> Vec<Finding> {
    let limits = |pool: &PoolAtPeak<'_>| match situation.profile.text(pool.account.pool.name) {
        "DRAM" => Some(DRAM),
        "L1" => Some(L1),
        _ => None,
    };
    let look = |pool: &PoolAtPeak<'_>| {
        let found = fullness(pool.peak.per_bank, pool.capacity?, limits(pool)?)?;
        Some(Finding { step: situation.cause(pool), ..pool.finding(What::Full(found)) })
    };
    situation.pools.iter().filter_map(look).collect()
}

fn fullness(peak: u64, capacity: u64, [target, risk]: [u64; 2]) -> Option<Full> {
    let is_over = |percent: u64| u128::from(peak) * 100 > u128::from(capacity) * u128::from(percent);
    let over = [risk, target].into_iter().find(|percent| is_over(*percent))?;
    (capacity > 0).then_some(Full { over, target, peak, capacity })
}
