//! A caching allocator reserves more memory than it ever needs at once, because its free memory is in pieces that are too
//! small.

use ttmem_model::{CurveKind, Moment, Pool};

use super::{Finding, LARGE_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::device::is_torch;
use crate::summary::begins_in_use;
use crate::words::{percent, size};

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "reserved_unallocated";

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let look = |pool: &PoolAtPeak<'_>| {
        let can_be_enabled = pool.account.pool.rules.is_none_or(|rules| !rules.is_expandable);
        // More may have been in use before an incomplete history.
        let is_known = !begins_in_use(situation.profile, situation.rank, pool.account.id);
        let Most { at, reserved, used } = Most::of(pool.account.pool)
            .filter(|_| is_torch(pool.label.name) && can_be_enabled && is_known)?;
        let unused = reserved.saturating_sub(used);
        let is_large = u128::from(unused) * 100 >= u128::from(reserved) * u128::from(LARGE_SHARE);
        (is_large && unused > 0).then(|| {
            let statement = Statement::new(format!(
                "PyTorch reserves up to {} of {}, but never uses more than {} at a time: {} ({}) is only reserved.",
                size(reserved),
                pool.label.name,
                size(used),
                size(unused),
                percent(unused, reserved),
            ))
            .detail("When it reserved the most, its free blocks were too small for the request, or in another pool.".to_owned())
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

/// The most memory that a pool reserved, and the most that was allocated or waited for a stream.
struct Most {
    /// The first moment with the most reserved memory.
    at: Moment,
    reserved: u64,
    used: u64,
}

impl Most {
    /// `None` if reserved memory never changes: its maximum was earlier.
    fn of(pool: &Pool) -> Option<Self> {
        let reserved = pool.curve(CurveKind::Reserved)?;
        let active = pool.curve(CurveKind::Active).or_else(|| pool.curve(CurveKind::Allocated))?;
        reserved.changes().nth(1)?;
        let (at, most) = reserved.changes().reduce(|most, next| if next.1 > most.1 { next } else { most })?;
        let used = active.changes().map(|(_, bytes)| bytes).max()?;
        Some(Self { at, reserved: most, used })
    }
}
