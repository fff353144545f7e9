//! A caching allocator reserves more memory although it has enough free memory, which is in pieces that are too small.

use ttmem_model::{CurveKind, Moment, Pool};

use super::{Finding, LARGE_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::device::is_torch;
use crate::words::{percent, size};

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "reserved_unallocated";

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let look = |pool: &PoolAtPeak<'_>| {
        let (at, reserved, unused) = highest(pool.account.pool).filter(|_| is_torch(pool.label.name))?;
        let is_large = u128::from(unused) * 100 >= u128::from(reserved) * u128::from(LARGE_SHARE);
        (is_large && unused > 0).then(|| {
            let statement = Statement::new(format!(
                "When PyTorch reserves the most memory of {}, {}, {} of it ({}) is neither allocated nor waiting for a \
                 stream.",
                pool.label.name,
                size(reserved),
                size(unused),
                percent(unused, reserved),
            ))
            .detail("The free memory is in blocks that are too small for the request, or in another pool.".to_owned())
            .advice(format!(
                "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, so that free blocks can be joined. This does not \
                 lower the peak of allocated memory, but reserved memory by up to {}.",
                size(unused)
            ));
            pool.finding(NAME, statement).steps([at.position()])
        })
    };
    situation.pools.iter().filter_map(look).collect()
}

/// The first moment with the most reserved memory, that memory, and how much of it is unused.
fn highest(pool: &Pool) -> Option<(Moment, u64, u64)> {
    let reserved = pool.curve(CurveKind::Reserved)?;
    let active = pool.curve(CurveKind::Active).or_else(|| pool.curve(CurveKind::Allocated))?;
    let (at, most) = reserved.changes().reduce(|most, next| if next.1 > most.1 { next } else { most })?;
    Some((at, most, most.saturating_sub(active.value_at(at)?)))
}
