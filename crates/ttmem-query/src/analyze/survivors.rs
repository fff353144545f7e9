//! The tensors that fragment free memory.
//!
//! Logs do not contain the addresses of tensors. Allocators place consecutive allocations next to each other, so tensors
//! whose neighbors in allocation order have been freed probably lie between two free blocks: freeing them, or allocating
//! them earlier, would merge the blocks.

use ttmem_model::{Moment, PoolId, Rank, TensorId};

/// The live tensors of a pool at a moment that were allocated between tensors that have been freed, oldest first.
///
/// Tensors that follow each other separate two free blocks together. They are small if they take at most `small` bytes per
/// bank, which is the free memory outside the largest free block.
pub fn survivors(rank: &Rank, pool: PoolId, at: Moment, small: u64) -> Vec<TensorId> {
    let tensors = &rank.tensors;
    let bytes = |index: usize| tensors.per_bank[index].get().unwrap_or(0);
    let mut allocated: Vec<usize> = (0..tensors.len())
        .filter(|&index| tensors.pool[index] == pool && tensors.born[index] <= at && bytes(index) > 0)
        .collect();
    allocated.sort_unstable_by_key(|&index| (tensors.born[index], index));
    let is_live = |index: usize| tensors.dies[index] > at;
    let runs: Vec<&[usize]> = allocated.chunk_by(|a, b| is_live(*a) == is_live(*b)).collect();
    let between = runs.windows(3).map(|around| around[1]).filter(|run| is_live(run[0]));
    let are_small =
        |run: &&[usize]| run.iter().map(|&index| bytes(index)).fold(0, u64::saturating_add) <= small;
    between.filter(are_small).flatten().filter_map(|&index| TensorId::new(index)).collect()
}
