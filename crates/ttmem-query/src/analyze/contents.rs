//! The contents of pools at many moments: totals, counts and the largest tensors, computed in one sweep.

use std::collections::BTreeSet;

use ttmem_model::{Moment, PoolId, Rank, TensorId};

/// The contents of a pool at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The pool.
    pub pool: PoolId,
    /// The size of all tensors.
    pub bytes: u64,
    /// The number of tensors.
    pub count: u64,
    /// The largest tensors, largest first, without rows that stand for several allocations.
    pub largest: Vec<TensorId>,
}

#[derive(Clone, Debug, Default)]
struct Held {
    bytes: u64,
    count: u64,
    /// Sorted by size, the largest last. Of equal sizes, the earlier one counts as larger.
    by_size: BTreeSet<(u64, std::cmp::Reverse<usize>)>,
}

/// The contents of the pools at the given moments, which must be in order. Pools without tensors are skipped.
pub fn contents(rank: &Rank, moments: &[Moment], top: usize) -> Vec<Vec<Content>> {
    let tensors = &rank.tensors;
    let mut changes: Vec<(Moment, bool, usize)> = Vec::with_capacity(2 * tensors.len());
    for index in lived(rank) {
        changes.push((tensors.born[index], true, index));
        if tensors.dies[index] != Moment::NEVER {
            changes.push((tensors.dies[index], false, index));
        }
    }
    // Frees come first: another tensor may have been allocated in the same place.
    changes.sort_unstable();
    let mut held: Vec<Option<Held>> = vec![None; rank.pools.len()];
    let mut next = changes.into_iter().peekable();
    let at = |moment: &Moment| {
        while let Some((_, is_born, index)) = next.next_if(|(at, _, _)| at <= moment) {
            let Some(held) = held.get_mut(tensors.pool[index].index()) else { continue };
            let (held, bytes) = (held.get_or_insert_default(), tensors.per_bank[index].or_zero());
            let (row, several) = ((bytes, std::cmp::Reverse(index)), stands_for(rank, index));
            if is_born {
                held.bytes = held.bytes.saturating_add(bytes);
                held.count = held.count.saturating_add(several.unwrap_or(1));
                if several.is_none() {
                    held.by_size.insert(row);
                }
            } else {
                held.bytes = held.bytes.saturating_sub(bytes);
                held.count = held.count.saturating_sub(several.unwrap_or(1));
                held.by_size.remove(&row);
            }
        }
        content(&held, top)
    };
    moments.iter().map(at).collect()
}

/// The tensors that are live at some moment. For the others, the free would be applied before the allocation.
fn lived(rank: &Rank) -> impl Iterator<Item = usize> + '_ {
    let tensors = &rank.tensors;
    (0..tensors.len()).filter(|&index| tensors.born[index] < tensors.dies[index])
}

/// The number of allocations that a row stands for, if it is more than one.
fn stands_for(rank: &Rank, tensor: usize) -> Option<u64> {
    rank.stands_for.get(&TensorId::new(tensor)?).copied()
}

fn content(held: &[Option<Held>], top: usize) -> Vec<Content> {
    let rows = held.iter().enumerate().filter_map(|(index, held)| {
        let (pool, held) = (PoolId::new(index)?, held.as_ref()?);
        let largest = held.by_size.iter().rev().take(top);
        let largest = largest.filter_map(|(_, index)| TensorId::new(index.0)).collect();
        Some(Content { pool, bytes: held.bytes, count: held.count, largest })
    });
    rows.collect()
}

/// The total size of all tensors at every position, from the first to the last.
pub fn totals(rank: &Rank) -> Vec<u64> {
    let mut changes = vec![0_i64; rank.end() as usize + 2];
    let tensors = &rank.tensors;
    for index in lived(rank) {
        let bytes = i64::try_from(tensors.per_bank[index].or_zero()).unwrap_or(i64::MAX);
        let mut change = |at: Moment, by: i64| {
            if let Some(change) = changes.get_mut(at.position() as usize).filter(|_| at != Moment::NEVER) {
                *change = change.saturating_add(by);
            }
        };
        change(tensors.born[index], bytes);
        change(tensors.dies[index], -bytes);
    }
    let mut level = 0_i64;
    let levels = changes.iter().map(|change| {
        level = level.saturating_add(*change);
        u64::try_from(level).unwrap_or(0)
    });
    levels.take(rank.end() as usize + 1).collect()
}
