//! The main pool of a response, unless another pool ran out of memory.

use std::cmp::Reverse;

use ttmem_model::{PoolId, Profile, Rank};

/// The names of host memory pools. `host` is the process's memory as counted by the system, `cuda pinned` a part of it.
const HOST: [&str; 3] = ["cpu", "host", "cuda pinned"];

/// The main pool of a rank, given the peak of each.
///
/// This is DRAM if there is one, otherwise the pool with tensors that has the highest peak. Inputs of PyTorch programs
/// without tensors have one pool per device: the main pool is the accelerator with the highest peak, or the host if no
/// accelerator was used. For other inputs it is the first pool.
pub fn main_pool(profile: &Profile, rank: &Rank, peak: impl Fn(PoolId) -> Option<u64>) -> Option<PoolId> {
    if let Some((dram, _)) = rank.pool_named(profile, "DRAM") {
        return Some(dram);
    }
    let pools = || (0..rank.pools.len()).filter_map(PoolId::new);
    // The first of several equal peaks.
    let highest = |pools: &mut dyn Iterator<Item = PoolId>| pools.max_by_key(|id| (peak(*id), Reverse(*id)));
    let is_host = |id: &PoolId| HOST.contains(&profile.text(rank.pools[id.index()].name));
    let is_used = |id: &PoolId| peak(*id).is_some_and(|peak| peak > 0);
    let with_tensors = highest(&mut pools().filter(|id| rank.tensors.pool.contains(id)));
    with_tensors
        .or_else(|| {
            pools().any(|id| is_host(&id)).then(|| {
                let accelerator = highest(&mut pools().filter(|id| !is_host(id) && is_used(id)));
                accelerator.or_else(|| highest(&mut pools()))
            })?
        })
        .or_else(|| pools().next())
}
