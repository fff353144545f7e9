//! Tensors that are live together at the compared peak of one rank, and never at the same time in the other.
//!
//! Two tensors never live at the same time if one is freed before the other is allocated. So of the tensors at a peak, those
//! that a changed tensor does not overlap in the other rank are the first ones in the order of their frees there, and the
//! last ones in the order of their allocations. Sums and maxima over the two orders answer for any number of changed tensors
//! without comparing pairs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use rustc_hash::FxHashSet;
use ttmem_model::{Bytes, Moment, PoolId, TensorId};

use super::changes::{Change, PoolPeaks};
use super::tensors::Pair;
use super::{Both, Side};

/// The maximum number of tensors to name.
const MAX_NAMED: usize = 3;

/// The tensors at the compared moments of the pools.
#[derive(Debug)]
pub struct Overlaps {
    /// `after` has those of the second rank: they may not overlap in the first. `None` if no changed tensor is one of them.
    pools: Vec<Both<Option<AtPeak>>>,
}

/// What changed tensors overlap at the compared moment of one rank, and do not overlap in the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The number of changed tensors that overlap each other, or otherwise the other tensors.
    pub tensors: usize,
    /// Whether several changed tensors overlap each other.
    pub each_other: bool,
    /// Tensors that, in the other rank, are freed before one of the changed tensors is allocated.
    pub freed_before: Option<Others>,
    /// Tensors that, in the other rank, are allocated after one of the changed tensors is freed.
    pub allocated_after: Option<Others>,
}

/// Overlapped tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Others {
    /// Their number.
    pub count: usize,
    /// Their bytes per bank at the compared moment.
    pub per_bank: u64,
    /// The largest ones, at most three.
    pub largest: Vec<Both<TensorId>>,
}

impl Overlaps {
    pub(super) fn of(
        sides: &Both<Side<'_>>,
        pools: &[PoolPeaks],
        pairs: &[Pair],
        changes: &[Change],
    ) -> Self {
        let of_pool = |pool: &PoolPeaks| {
            let Some(at) = At::of_pool(sides, pool) else { return Both::default() };
            let at_peak = |at: Both<At<'_>>, in_order: fn(Both<TensorId>) -> Both<TensorId>| {
                let mut pairs_of_changes =
                    changes.iter().filter_map(|change| both(change.tensors)).map(in_order);
                let is_any = pairs_of_changes.any(|tensors| is_joined(at, tensors));
                is_any.then(|| AtPeak::of(at, pairs.iter().map(|pair| in_order(pair.tensors))))
            };
            Both { before: at_peak(at.swapped(), Both::swapped), after: at_peak(at, std::convert::identity) }
        };
        Self { pools: pools.iter().map(of_pool).collect() }
    }

    /// What changed tensors overlap in only one rank: `after` in the second. `pools` are those of the comparison.
    pub fn of_changed(
        &self,
        sides: &Both<Side<'_>>,
        pools: &[PoolPeaks],
        changed: &[Both<Option<TensorId>>],
    ) -> Both<Option<Overlap>> {
        let mut found: Both<Option<Overlap>> = Both::default();
        let tensors = || changed.iter().copied().filter_map(both);
        for (pool, at_peak) in pools.iter().zip(&self.pools) {
            let Some(at) = At::of_pool(sides, pool) else { continue };
            if let Some(at_peak) = &at_peak.before {
                let swapped = at_peak.overlap(at.swapped(), tensors().map(Both::swapped));
                found.before = found.before.or(swapped.map(Overlap::swapped));
            }
            if let Some(at_peak) = &at_peak.after {
                found.after = found.after.or(at_peak.overlap(at, tensors()));
            }
        }
        found
    }
}

impl Overlap {
    fn swapped(self) -> Self {
        let swapped = |others: Option<Others>| {
            others.map(|others| Others {
                largest: others.largest.into_iter().map(Both::swapped).collect(),
                ..others
            })
        };
        Self {
            freed_before: swapped(self.freed_before),
            allocated_after: swapped(self.allocated_after),
            ..self
        }
    }
}

fn both(tensors: Both<Option<TensorId>>) -> Option<Both<TensorId>> {
    Some(Both { before: tensors.before?, after: tensors.after? })
}

/// The compared moment of a pool of a rank.
#[derive(Clone, Copy)]
struct At<'a> {
    side: Side<'a>,
    pool: PoolId,
    moment: Moment,
}

impl<'a> At<'a> {
    /// `None` unless both ranks have the pool.
    fn of_pool(sides: &Both<Side<'a>>, pool: &PoolPeaks) -> Option<Both<Self>> {
        Some(Both {
            before: At { side: sides.before, pool: pool.ids.before?, moment: pool.at.before? },
            after: At { side: sides.after, pool: pool.ids.after?, moment: pool.at.after? },
        })
    }

    fn has(self, tensor: TensorId) -> bool {
        self.side.rank.tensors.pool.get(tensor.index()) == Some(&self.pool)
    }

    /// The bytes of a tensor of the pool that is live at the moment; `None` for any other.
    fn bytes(self, tensor: TensorId) -> Option<u64> {
        let (born, dies) = self.life(tensor)?;
        let is_live = self.has(tensor) && born <= self.moment && self.moment < dies;
        let bytes = self.side.rank.tensors.per_bank.get(tensor.index()).copied().and_then(Bytes::get);
        bytes.filter(|bytes| is_live && *bytes > 0)
    }

    fn life(self, tensor: TensorId) -> Option<(Moment, Moment)> {
        let tensors = &self.side.rank.tensors;
        Some((*tensors.born.get(tensor.index())?, *tensors.dies.get(tensor.index())?))
    }
}

/// Whether corresponding tensors are live at the compared moment of the second rank only.
fn is_joined(at: Both<At<'_>>, tensors: Both<TensorId>) -> bool {
    let is_live = Both { before: at.before.bytes(tensors.before), after: at.after.bytes(tensors.after) };
    at.before.has(tensors.before) && is_live.before.is_none() && is_live.after.is_some()
}

/// Corresponding tensors that are live at the compared moment of the second rank.
#[derive(Clone, Copy, Debug)]
struct Live {
    tensors: Both<TensorId>,
    bytes: u64,
    /// The life in the first rank.
    born: Moment,
    dies: Moment,
}

impl Live {
    fn of(at: Both<At<'_>>, tensors: Both<TensorId>) -> Option<Self> {
        let bytes = at.after.bytes(tensors.after)?;
        let (born, dies) = at.before.life(tensors.before).filter(|_| at.before.has(tensors.before))?;
        Some(Self { tensors, bytes, born, dies })
    }

    /// Whether one of other tensors is freed before this one is allocated, or allocated after it is freed. `ends` are their
    /// first free and their last allocation.
    fn is_outside(&self, (first_free, last_allocation): (Option<Moment>, Option<Moment>)) -> bool {
        first_free.is_some_and(|free| free <= self.born)
            || last_allocation.is_some_and(|allocation| allocation >= self.dies)
    }
}

/// All corresponding tensors that are live at the compared moment of the second rank.
#[derive(Debug)]
struct AtPeak {
    by_free: Order,
    by_allocation: Order,
}

impl AtPeak {
    fn of(at: Both<At<'_>>, pairs: impl Iterator<Item = Both<TensorId>>) -> Self {
        let live: Vec<Live> = pairs.filter_map(|tensors| Live::of(at, tensors)).collect();
        Self {
            by_free: Order::of(live.clone(), |live| live.dies),
            by_allocation: Order::of(live, |live| live.born),
        }
    }

    /// What changed tensors overlap at the moment, of those that they do not overlap in the first rank.
    fn overlap(&self, at: Both<At<'_>>, changed: impl Iterator<Item = Both<TensorId>>) -> Option<Overlap> {
        let changed: Vec<Live> = changed.filter_map(|tensors| Live::of(at, tensors)).collect();
        let joined = || changed.iter().filter(|live| is_joined(at, live.tensors));
        let last_allocation = joined().map(|live| live.born).max()?;
        let first_free = joined().map(|live| live.dies).min()?;
        let members: FxHashSet<TensorId> = changed.iter().map(|live| live.tensors.after).collect();
        let is_before = |live: &Live| live.dies <= last_allocation;
        let is_after = |live: &Live| live.born >= first_free;
        let freed = 0..self.by_free.live.partition_point(is_before);
        let allocated =
            self.by_allocation.live.partition_point(|live| !is_after(live))..self.by_allocation.live.len();
        let inside = |is_in: &dyn Fn(&Live) -> bool| {
            changed.iter().copied().filter(|live| is_in(live)).collect::<Vec<Live>>()
        };
        let (before, after) = (inside(&is_before), inside(&is_after));
        let each_other = members.len() > 1 && !(before.is_empty() && after.is_empty());
        let tensors = if each_other {
            let ends =
                (changed.iter().map(|live| live.dies).min(), changed.iter().map(|live| live.born).max());
            let is_one = |live: &&Live| {
                is_before(live) || is_after(live) || is_joined(at, live.tensors) && live.is_outside(ends)
            };
            changed.iter().filter(is_one).count()
        } else {
            let is_other = |live: &&Live| !members.contains(&live.tensors.after);
            let first_free = self.by_free.live.iter().find(is_other).map(|live| live.dies);
            let last_allocation = self.by_allocation.live.iter().rev().find(is_other).map(|live| live.born);
            joined().filter(|live| live.is_outside((first_free, last_allocation))).count()
        };
        let overlap = Overlap {
            tensors,
            each_other,
            freed_before: self.by_free.others(freed, &before, &members),
            allocated_after: self.by_allocation.others(allocated, &after, &members),
        };
        let is_some =
            overlap.each_other || overlap.freed_before.is_some() || overlap.allocated_after.is_some();
        is_some.then_some(overlap)
    }
}

/// Tensors in the order of a moment of the first rank.
#[derive(Debug)]
struct Order {
    live: Vec<Live>,
    /// The bytes of the tensors before each index.
    sums: Vec<u128>,
    /// A tree over the indices: each node has the index of the largest tensor below it. The leaves are the second half.
    largest: Vec<usize>,
}

impl Order {
    fn of(mut live: Vec<Live>, moment: impl Fn(&Live) -> Moment) -> Self {
        live.sort_unstable_by_key(|live| (moment(live), live.tensors.before, live.tensors.after));
        let sums = std::iter::once(0).chain(live.iter().scan(0, |sum, live| {
            *sum += u128::from(live.bytes);
            Some(*sum)
        }));
        let sums = sums.collect();
        let count = live.len();
        let mut largest: Vec<usize> = std::iter::repeat_n(0, count).chain(0..count).collect();
        for node in (1..count).rev() {
            largest[node] = larger(&live, largest[2 * node], largest[2 * node + 1]);
        }
        Self { live, sums, largest }
    }

    /// The tensors in a range without the changed ones (`inside` are those in the range).
    fn others(&self, range: Range<usize>, inside: &[Live], members: &FxHashSet<TensorId>) -> Option<Others> {
        let count = range.len().checked_sub(inside.len()).filter(|count| *count > 0)?;
        let sum = self.sums[range.end] - self.sums[range.start];
        let of_members: u128 = inside.iter().map(|live| u128::from(live.bytes)).sum();
        let others = self.descending(range).map(|index| self.live[index].tensors);
        Some(Others {
            count,
            per_bank: u64::try_from(sum.saturating_sub(of_members)).unwrap_or(u64::MAX),
            largest: others.filter(|tensors| !members.contains(&tensors.after)).take(MAX_NAMED).collect(),
        })
    }

    /// The indices in a range, the largest tensor first.
    fn descending(&self, range: Range<usize>) -> impl Iterator<Item = usize> {
        let part = |range: Range<usize>| {
            let index = self.largest_in(&range)?;
            Some((self.live[index].bytes, Reverse(index), Reverse(range.start), range.end))
        };
        let mut parts = BinaryHeap::from_iter(part(range));
        std::iter::from_fn(move || {
            let (_, Reverse(index), Reverse(start), end) = parts.pop()?;
            parts.extend([start..index, index + 1..end].into_iter().filter_map(part));
            Some(index)
        })
    }

    /// The index of the largest tensor in a range; the first of equal ones.
    fn largest_in(&self, range: &Range<usize>) -> Option<usize> {
        let count = self.live.len();
        let (mut first, mut end) = (range.start + count, range.end + count);
        let mut found = (!range.is_empty()).then_some(range.start)?;
        while first < end {
            if first % 2 == 1 {
                found = larger(&self.live, found, self.largest[first]);
                first += 1;
            }
            if end % 2 == 1 {
                end -= 1;
                found = larger(&self.live, found, self.largest[end]);
            }
            (first, end) = (first / 2, end / 2);
        }
        Some(found)
    }
}

/// The index of the larger tensor; the smaller index if they are equal.
fn larger(live: &[Live], a: usize, b: usize) -> usize {
    let rank = |index: usize| (live[index].bytes, Reverse(index));
    if rank(a) >= rank(b) { a } else { b }
}
