//! Memory that a caching allocator has reserved but the program does not use, and its location.

use std::collections::BTreeMap;

use serde::Serialize;
use ttmem_model::{CurveKind, Moment, Pool, PoolId, Rank};

use crate::allocations::Waste;

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

/// The most bytes lost to fragmentation inside and between blocks; `None` if the input does not have the levels.
pub fn waste(pool: &Pool) -> Option<Waste> {
    let (internal_position, internal) = most(pool, CurveKind::Allocated, CurveKind::Requested)?;
    let (external_position, external) = most(pool, CurveKind::Reserved, CurveKind::Active)?;
    Some(Waste { internal, internal_position, external, external_position })
}

/// The largest difference of two curves, and its first position.
fn most(pool: &Pool, upper: CurveKind, lower: CurveKind) -> Option<(u32, u64)> {
    let (upper, lower) = (pool.curve(upper)?, pool.curve(lower)?);
    let (mut highest, mut lowest) = (upper.cursor(), lower.cursor());
    let mut found: Option<(Moment, u64)> = None;
    // Several changes may have the same moment; the last of them counts.
    let mut moments = merged(&upper.at, &lower.at).peekable();
    while let Some(at) = moments.next() {
        if moments.peek() == Some(&at) {
            continue;
        }
        let (Some(above), Some(below)) = (highest.value_at(at), lowest.value_at(at)) else { continue };
        let difference = above.saturating_sub(below);
        if found.is_none_or(|(_, most)| difference > most) {
            found = Some((at, difference));
        }
    }
    found.map(|(at, most)| (at.position(), most))
}

/// The moments of two curves, in order.
fn merged<'a>(a: &'a [Moment], b: &'a [Moment]) -> impl Iterator<Item = Moment> + 'a {
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some(first), Some(second)) if first <= second => a.next(),
        (_, Some(_)) => b.next(),
        (Some(_), None) => a.next(),
        (None, None) => None,
    })
}
