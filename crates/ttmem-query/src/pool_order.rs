//! The order of pools on screens and pages: the pool that matters comes first.

use std::cmp::Reverse;

use super::answer::PoolSummary;
use super::named::Named;
use crate::level::Level;

/// Sorts pools: the one that ran out of memory, full and nearly full pools, the main pool, and the others in the order of
/// the device. Unused pools come last.
pub(super) fn by_importance(
    pools: Vec<(String, PoolSummary)>,
    failed: Option<&str>,
    main: Option<&str>,
) -> Named<PoolSummary> {
    let mut pools = pools;
    // Stable: equal pools keep their order.
    pools.sort_by_key(|(name, pool)| {
        let is = |other: Option<&str>| Reverse(other == Some(name.as_str()));
        let urgency = pool.level.filter(|level| *level > Level::Ok);
        let is_unused = pool.peak_per_bank == Some(0);
        (is(failed), Reverse(urgency), is(main), is_unused)
    });
    Named(pools)
}
