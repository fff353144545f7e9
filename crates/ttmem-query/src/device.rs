//! The kind of device that a rank ran on. Which words and sections a front end shows depends on it.

use serde::Serialize;
use ttmem_model::{Pool, Profile, Rank};

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A Tenstorrent device: memory in banks, tensors in tiles, compiled graphs.
    Tenstorrent,
    /// A device that PyTorch allocates on (CPU and GPU): no banks, no tiles, no compiled graphs.
    Torch,
}

/// The device types of PyTorch that pools are named after, and `host`, the memory that the system counts for the process.
const TORCH: [&str; 7] = ["cpu", "cuda", "xpu", "mps", "hpu", "npu", "host"];

impl DeviceKind {
    /// The device of a rank; `None` where the evidence has totals of a device and does not say which.
    pub fn of(profile: &Profile, rank: &Rank) -> Option<Self> {
        let has_graphs = !rank.runs.is_empty() || !rank.modules.is_empty();
        // Formats that have operations and no pools are Tenstorrent's; a recording without pools is of any device.
        let has_pools = !rank.pools.is_empty() || rank.began.is_some();
        if has_graphs || !has_pools || rank.pools.iter().any(is_in_banks) {
            return Some(Self::Tenstorrent);
        }
        rank.pools.iter().any(|pool| is_torch(profile.text(pool.name))).then_some(Self::Torch)
    }
}

/// Whether the sizes of a pool are sizes of one of several banks or cores.
fn is_in_banks(pool: &Pool) -> bool {
    pool.banks != Some(1)
}

fn is_torch(pool: &str) -> bool {
    pool.split([':', ' ']).next().is_some_and(|kind| TORCH.contains(&kind))
}
