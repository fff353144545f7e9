//! The pools whose peaks count.

use super::PoolDiff;

/// The memory of the process, which is sampled next to other pools.
const HOST: &str = "host";

impl PoolDiff {
    /// Whether an input ever allocates memory in the pool.
    pub(crate) fn is_used(&self) -> bool {
        [self.before_per_bank, self.after_per_bank].into_iter().flatten().any(|peak| peak > 0)
    }

    /// Whether an input uses the pool, and its peak in the other one is unknown.
    pub(super) fn is_one_sided(&self) -> bool {
        self.change_per_bank.is_none() && self.is_used()
    }
}

/// The pools whose peaks count. Sampled pools, such as the memory of the process, are left out if any pool is exact.
pub(crate) fn compared(pools: &[(String, PoolDiff)]) -> impl Iterator<Item = &(String, PoolDiff)> {
    let has = |is_it: &dyn Fn(&str, &PoolDiff) -> bool| {
        pools.iter().any(|(name, pool)| pool.is_used() && is_it(name, pool))
    };
    let has_exact = has(&|_, pool| !pool.sampled);
    let has_others = has(&|name, _| name != HOST);
    pools.iter().filter(move |(name, pool)| !(pool.sampled && (has_exact || has_others && name == HOST)))
}
