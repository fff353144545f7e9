//! The pool that an answer is about, unless another one ran out of memory.

use std::cmp::Reverse;

use ttmem_model::{PoolId, Profile, Rank};

/// Names of pools that are memory of the host. (`host` is what the system counts for the process.)
const HOST: [&str; 2] = ["cpu", "host"];

/// The main pool of a rank, given the peak of each.
///
/// It is DRAM; otherwise the pool with the highest peak of those that hold tensors. Evidence of PyTorch programs without
/// tensors has one pool per device: then it is the accelerator with the highest peak, and the host where no accelerator
/// was used. Of other evidence it is the first pool.
pub fn main_pool(profile: &Profile, rank: &Rank, peak: impl Fn(PoolId) -> Option<u64>) -> Option<PoolId> {
    if let Some((dram, _)) = rank.pool_named(profile, "DRAM") {
        return Some(dram);
    }
    let pools = || (0..rank.pools.len()).filter_map(PoolId::new);
    // Of equals the first.
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
