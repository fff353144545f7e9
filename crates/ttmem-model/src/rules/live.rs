//! The live tensors and their sum at any moment.

use std::collections::BTreeMap;

use crate::{Bytes, Class, Cursor, Moment, PoolId, Position, Rank, TensorId};

/// The sum of a pool's live tensors per bank, over time.
#[derive(Clone, Debug, Default)]
pub struct LiveSums {
    at: Vec<Moment>,
    sum: Vec<u64>,
}

impl LiveSums {
    /// Sums the tensors of a pool.
    pub fn new(rank: &Rank, pool: PoolId) -> Self {
        let tensors = &rank.tensors;
        let of_pool = (0..tensors.len()).filter(|&index| tensors.pool[index] == pool);
        let lives = of_pool
            .map(|index| (tensors.born[index], tensors.dies[index], tensors.per_bank[index].or_zero()));
        // If nearly every step allocates or frees, a table of moments needs no sorting.
        let is_dense = tensors.len() > rank.steps.len() / 4;
        if is_dense { Self::of_dense(lives, rank.end()) } else { Self::of(lives) }
    }

    /// The same as [`LiveSums::of`], with a table of all moments.
    fn of_dense(lives: impl Iterator<Item = (Moment, Moment, u64)>, end: Position) -> Self {
        /// The change of a moment may be 0, although something was allocated and freed.
        const NONE: i64 = i64::MIN;
        let moments = Moment::after(end).index() + 1;
        let mut changes: Vec<i64> = vec![NONE; moments];
        let mut add = |at: Moment, bytes: i64| {
            if let Some(change) = changes.get_mut(at.index()) {
                let before = if *change == NONE { 0 } else { *change };
                *change = before.saturating_add(bytes).max(NONE + 1);
            }
        };
        for (born, dies, bytes) in lives.filter(|(born, dies, bytes)| born < dies && *bytes > 0) {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            add(born, bytes);
            if dies != Moment::NEVER {
                add(dies, -bytes);
            }
        }
        let changes = changes.into_iter().enumerate().filter(|(_, change)| *change != NONE);
        Self::summed(changes.filter_map(|(at, change)| Some((Moment::from_index(at)?, change))))
    }

    /// Sums bytes that are live from one moment until another (exclusive).
    pub fn of(lives: impl Iterator<Item = (Moment, Moment, u64)>) -> Self {
        let mut changes: Vec<(Moment, i64)> = Vec::new();
        for (born, dies, bytes) in lives.filter(|(born, dies, bytes)| born < dies && *bytes > 0) {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            changes.push((born, bytes));
            if dies != Moment::NEVER {
                changes.push((dies, -bytes));
            }
        }
        changes.sort_unstable();
        Self::summed(changes.into_iter())
    }

    /// Sums changes that are ordered by moment.
    fn summed(changes: impl Iterator<Item = (Moment, i64)>) -> Self {
        let mut sums = Self::default();
        let mut sum = 0i64;
        for (at, change) in changes {
            sum = sum.saturating_add(change);
            let value = u64::try_from(sum).unwrap_or(0);
            if sums.at.last() == Some(&at) {
                sums.sum.pop();
            } else {
                sums.at.push(at);
            }
            sums.sum.push(value);
        }
        sums
    }

    /// A cursor over the sums.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(&self.at, &self.sum)
    }

    /// The moments of changes, in order.
    pub fn moments(&self) -> &[Moment] {
        &self.at
    }

    /// The highest sum, and when it was first reached; `None` if there are no tensors.
    pub fn highest(&self) -> Option<(Moment, u64)> {
        let sums = self.at.iter().copied().zip(self.sum.iter().copied());
        sums.max_by_key(|(at, sum)| (*sum, std::cmp::Reverse(*at)))
    }

    /// The sum at a moment.
    pub fn at(&self, at: Moment) -> u64 {
        let after = self.at.partition_point(|moment| *moment <= at);
        after.checked_sub(1).map_or(0, |index| self.sum[index])
    }
}

/// The live tensors of a pool at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSet {
    /// The tensors, largest first.
    pub tensors: Vec<TensorId>,
    /// Their sum per bank.
    pub per_bank: u64,
    /// The same by class.
    pub by_class: BTreeMap<Class, u64>,
    /// The number of tensors with an unknown size.
    pub unknown: usize,
}

/// The live tensors of a pool at a moment; `None` if the input has no tensors.
pub fn live_set(rank: &Rank, pool: PoolId, at: Moment) -> Option<LiveSet> {
    if !rank.has_tensors() {
        return None;
    }
    let tensors = &rank.tensors;
    let mut alive: Vec<usize> = rank.live(pool, at).collect();
    alive.sort_by_key(|&index| {
        (std::cmp::Reverse(tensors.per_bank[index].or_zero()), tensors.born[index], index)
    });
    let mut by_class = BTreeMap::new();
    for &index in &alive {
        let sum: &mut u64 = by_class.entry(tensors.class[index]).or_default();
        *sum = sum.saturating_add(tensors.per_bank[index].or_zero());
    }
    Some(LiveSet {
        per_bank: by_class.values().fold(0, |sum, bytes| sum.saturating_add(*bytes)),
        by_class,
        unknown: alive.iter().filter(|&&index| tensors.per_bank[index] == Bytes::UNKNOWN).count(),
        tensors: alive.into_iter().filter_map(TensorId::new).collect(),
    })
}
