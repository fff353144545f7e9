//! The memory that an input used, to compare the recordings of several processes.

use super::about::session_pool;
use super::answer::{RankSummary, SessionSummary, Summary};

/// The peak memory of tensors. Ordered by accelerator memory, then by CPU memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceUse {
    /// The bytes on accelerators: the sum of the peaks of their pools.
    pub accelerator: u64,
    /// The bytes of CPU tensors.
    pub cpu: u64,
}

impl DeviceUse {
    /// The memory that a summary shows. The pools `host` and `cuda pinned` do not count: they are memory of the whole process,
    /// and a data loader may use more of it than the process that trains.
    pub fn of(summary: &Summary) -> Self {
        let mut used = Self::default();
        for (pool, peak) in summary.ranks.iter().flat_map(peaks) {
            match pool {
                "host" | "cuda pinned" => {}
                "cpu" => used.cpu = used.cpu.saturating_add(peak),
                _ => used.accelerator = used.accelerator.saturating_add(peak),
            }
        }
        used
    }

    /// Whether no tensor was recorded.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// The peak of each pool, or of the highest session if only phases were recorded.
fn peaks<'a>(rank: &'a RankSummary) -> Vec<(&'a str, u64)> {
    let of_pool =
        rank.pools.iter().filter_map(|(name, pool)| Some((name, pool.peak_total.or(pool.peak_per_bank)?)));
    let of_pools: Vec<(&'a str, u64)> = of_pool.collect();
    if !of_pools.is_empty() {
        return of_pools;
    }
    let of_session =
        |session: &'a SessionSummary| Some((session_pool(session), u64::try_from(session.peak_bytes?).ok()?));
    rank.sessions.iter().filter_map(of_session).max_by_key(|(_, peak)| *peak).into_iter().collect()
}
