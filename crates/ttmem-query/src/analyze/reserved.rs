//! Memory that a caching allocator has reserved but the program does not use, and its location.

use std::collections::BTreeMap;

use serde::Serialize;
use ttmem_model::{Curve, CurveKind, Moment, Pool, PoolId, Position, Rank};

use crate::allocations::{Waste, WasteInPart};

/// The segments of a caching allocator for one private pool, stream and block size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ReservedPool {
    /// The private pool, such as that of a CUDA graph; null: the default pool.
    pub private_pool: Option<(u64, u64)>,
    /// The stream; 0 is the default stream.
    pub stream: u64,
    /// Whether it is for allocations up to 1 MiB.
    pub is_small: bool,
    /// The number of segments.
    pub segments: u64,
    /// Their size.
    pub bytes: u64,
    /// The allocated bytes in them.
    pub allocated: u64,
    /// The free bytes in them: neither allocated nor waiting for a stream.
    pub free: u64,
    /// The largest free block.
    pub largest_free: u64,
}

/// The reserved memory of a pool at the end of the input, most free bytes first.
pub fn reserved_pools(rank: &Rank, pool: PoolId) -> Vec<ReservedPool> {
    /// The private pool, the stream, and whether it is for small allocations.
    type Key = (Option<(u64, u64)>, u64, bool);
    let mut pools: BTreeMap<Key, ReservedPool> = BTreeMap::new();
    for segment in rank.reserved.iter().filter(|segment| segment.pool == pool) {
        let key = (segment.private_pool, segment.stream, segment.is_small);
        let into = pools.entry(key).or_insert(ReservedPool {
            private_pool: segment.private_pool,
            stream: segment.stream,
            is_small: segment.is_small,
            segments: 0,
            bytes: 0,
            allocated: 0,
            free: 0,
            largest_free: 0,
        });
        into.segments += 1;
        into.bytes = into.bytes.saturating_add(segment.bytes);
        into.allocated = into.allocated.saturating_add(segment.allocated);
        into.free = into.free.saturating_add(segment.bytes.saturating_sub(segment.active));
        into.largest_free = into.largest_free.max(segment.largest_free);
    }
    let mut pools: Vec<ReservedPool> = pools.into_values().collect();
    pools.sort_by_key(|pool| std::cmp::Reverse(pool.free));
    pools
}

/// The number of parts that a run is divided into.
const PARTS: u32 = 32;

/// The most bytes lost to fragmentation inside and between blocks, in a run with this end; `None` if the input does not
/// have the levels.
pub fn waste(pool: &Pool, end: Position) -> Option<Waste> {
    let internal = Difference::of(pool, CurveKind::Allocated, CurveKind::Requested, end)?;
    let external = Difference::of(pool, CurveKind::Reserved, CurveKind::Active, end)?;
    let parts = internal.parts.iter().zip(&external.parts).enumerate();
    Some(Waste {
        internal: internal.most,
        internal_position: internal.at.position(),
        external: external.most,
        external_position: external.at.position(),
        over_time: parts
            .map(|(part, (&internal, &external))| WasteInPart {
                last: last_of(part, end),
                internal,
                external,
            })
            .collect(),
    })
}

/// The largest difference of two curves.
struct Difference {
    most: u64,
    /// The first moment with it.
    at: Moment,
    /// The largest differences in the parts of the run.
    parts: Vec<u64>,
}

impl Difference {
    fn of(pool: &Pool, upper: CurveKind, lower: CurveKind, end: Position) -> Option<Self> {
        let (upper, lower) = (pool.curve(upper)?, pool.curve(lower)?);
        let mut at = *upper.at.first()?.max(lower.at.first()?);
        // The last change of each curve until then. One of two changes is the next one, but not in an order that a processor
        // can predict, so both are advanced by a comparison instead of a branch.
        let row = |curve: &Curve| curve.at.partition_point(|change| *change <= at).saturating_sub(1);
        let (mut above, mut below) = (row(upper), row(lower));
        let mut found: Option<(u64, Moment)> = None;
        let (mut highest, mut last) = (0, 0);
        let count = (end.saturating_add(1)).min(PARTS) as usize;
        let (mut parts, mut until) = (Vec::with_capacity(count), last_of(0, end));
        loop {
            let after = |curve: &Curve, row: usize| curve.at.get(row + 1).copied().unwrap_or(Moment::NEVER);
            let (next_above, next_below) = (after(upper, above), after(lower, below));
            let next = next_above.min(next_below);
            // Of several changes at one moment, the last ones count.
            if next > at {
                if at.position() > until {
                    let part = part_of(at.position(), end).min(count.saturating_sub(1));
                    if part > parts.len() {
                        // The difference before holds until now.
                        parts.push(highest);
                        parts.resize(part, last);
                        highest = last;
                    }
                    until = last_of(part, end);
                }
                last = upper.value.get(above)?.saturating_sub(*lower.value.get(below)?);
                highest = highest.max(last);
                if found.is_none_or(|(most, _)| last > most) {
                    found = Some((last, at));
                }
            }
            if next == Moment::NEVER {
                break;
            }
            above += usize::from(next_above <= next);
            below += usize::from(next_below <= next);
            at = next;
        }
        parts.push(highest);
        parts.resize(count, last);
        let (most, at) = found?;
        Some(Self { most, at, parts })
    }
}

/// The part of a run that a position is in.
fn part_of(position: Position, end: Position) -> usize {
    let positions = u64::from(end) + 1;
    usize::try_from(u64::from(position) * u64::from(PARTS).min(positions) / positions).unwrap_or(usize::MAX)
}

/// The last position of a part of a run.
fn last_of(part: usize, end: Position) -> Position {
    let positions = u64::from(end) + 1;
    let next = (part as u64 + 1).saturating_mul(positions).div_ceil(u64::from(PARTS).min(positions));
    Position::try_from(next.saturating_sub(1)).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use ttmem_model::{Reading, StrId};

    use super::*;

    /// A pool with these reserved and active bytes, each right before its step.
    fn pool(levels: &[(Position, u64, u64)]) -> Pool {
        let mut pool = Pool::new(StrId::new(0).unwrap(), Some(1), 0);
        for &(position, reserved, active) in levels {
            let reading = Reading {
                allocated: Some(active),
                active: Some(active),
                reserved: Some(reserved),
                requested: Some(active - 1),
                ..Reading::default()
            };
            pool.observe(Moment::early(position), &reading);
        }
        pool
    }

    #[test]
    fn waste_holds_until_the_next_change() {
        let waste = waste(&pool(&[(0, 10, 2), (3, 10, 9), (6, 100, 9), (7, 100, 100)]), 9).unwrap();
        assert_eq!((waste.external, waste.external_position), (91, 6));
        assert_eq!((waste.internal, waste.internal_position), (1, 0));
        let parts: Vec<(Position, u64)> =
            waste.over_time.iter().map(|part| (part.last, part.external)).collect();
        let wanted = [8, 8, 8, 8, 1, 1, 91, 91, 0, 0];
        assert_eq!(parts, (0..).zip(wanted).collect::<Vec<_>>());
    }

    #[test]
    fn a_long_run_is_divided_into_equal_parts() {
        let end = 999;
        let waste = waste(&pool(&[(0, 5, 5), (500, 9, 5), (999, 9, 9)]), end).unwrap();
        assert_eq!(waste.over_time.len(), PARTS as usize);
        assert_eq!(waste.over_time.last().unwrap().last, end);
        for (part, found) in waste.over_time.iter().enumerate() {
            let first = part.checked_sub(1).map_or(0, |before| waste.over_time[before].last + 1);
            assert!((first..=found.last).all(|position| part_of(position, end) == part), "{part}");
            assert_eq!(found.external, if found.last < 500 { 0 } else { 4 }, "{part}");
        }
    }

    #[test]
    fn without_levels_nothing_is_known() {
        assert_eq!(waste(&Pool::new(StrId::new(0).unwrap(), Some(1), 0), 3), None);
    }
}
