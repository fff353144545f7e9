//! The tensors that fragment free memory.
//!
//! Logs do not contain the addresses of tensors. Allocators place consecutive allocations next to each other, so a
//! tensor whose neighbours in allocation order have been freed probably lies between two free blocks: freeing it, or
//! allocating it earlier, would merge them.

use ttmem_model::{Moment, PoolId, Rank, TensorId};

/// The live tensors of a pool at a moment that were allocated between tensors that have been freed, and that take at
/// most `largest` bytes per bank; oldest first.
pub fn survivors(rank: &Rank, pool: PoolId, at: Moment, largest: u64) -> Vec<TensorId> {
    let tensors = &rank.tensors;
    let mut allocated: Vec<usize> = (0..tensors.len())
        .filter(|&index| tensors.pool[index] == pool && tensors.born[index] <= at)
        .filter(|&index| tensors.per_bank[index].get().is_some_and(|bytes| bytes > 0))
        .collect();
    allocated.sort_unstable_by_key(|&index| (tensors.born[index], index));
    let is_live = |index: usize| tensors.dies[index] > at;
    let is_small = |index: usize| tensors.per_bank[index].get().is_some_and(|bytes| bytes <= largest);
    allocated
        .windows(3)
        .filter(|around| !is_live(around[0]) && is_live(around[1]) && !is_live(around[2]))
        .map(|around| around[1])
        .filter(|&index| is_small(index))
        .filter_map(TensorId::new)
        .collect()
}
