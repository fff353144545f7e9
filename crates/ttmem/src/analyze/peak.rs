//! The peak of a pool: where it is, and the step that caused it.

use super::Span;
use super::live::LiveSums;
use crate::model::{CurveKind, Moment, OpKind, Pool, PoolId, Position, Profile, Rank, Step};

/// The highest observed use of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// When it was first reached.
    pub at: Moment,
    /// How high it is, in each bank.
    pub per_bank: u64,
}

impl Peak {
    /// The position of the peak; `None` where nothing was ever allocated.
    pub fn position(&self) -> Option<Position> {
        (self.per_bank > 0).then(|| self.at.position())
    }
}

/// The peak of a pool within a span; `None` if it was never looked at there.
///
/// Readings are rounded, so several moments may show the same highest number. Where the tensors tell those
/// moments apart (by less than the rounding can hide) they decide; otherwise it is the first.
pub fn peak(rank: &Rank, id: PoolId, span: Span) -> Option<Peak> {
    let pool = rank.pools.get(id.index())?;
    let readings = || pool_readings(pool).filter(|(at, _)| span.contains(*at, rank));
    let per_bank = readings().map(|(_, value)| value).max()?;
    let mut highest = readings().filter(|(_, value)| *value == per_bank).map(|(at, _)| at);
    let first = highest.next()?;
    if pool.quantum == 0 || !rank.has_tensors() || per_bank == 0 {
        return Some(Peak { at: first, per_bank });
    }
    let sums = LiveSums::new(rank, id);
    let mut best = (sums.at(first), first);
    for at in highest {
        let sum = sums.at(at);
        if sum > best.0 && sum - best.0 <= pool.quantum {
            best = (sum, at);
        }
    }
    Some(Peak { at: best.1, per_bank })
}

/// All readings of what a pool holds, in order, those that repeat the one before included.
pub fn pool_readings(pool: &Pool) -> impl Iterator<Item = (Moment, u64)> + '_ {
    let curve = pool.curve(CurveKind::Allocated);
    let mut changes = curve.into_iter().flat_map(|curve| curve.changes()).peekable();
    let mut value = None;
    pool.observed.iter().flat_map(move |at| {
        let mut shown = Vec::new();
        while let Some((_, next)) = changes.next_if(|(moment, _)| *moment <= at) {
            value = Some(next);
            shown.push((at, next));
        }
        if shown.is_empty() {
            shown.extend(value.map(|value| (at, value)));
        }
        shown
    })
}

/// The step that brought a pool to where it is at a moment: the one before the position.
///
/// A log without states at deallocations leaves positions unobserved; then it is the last step before that is
/// no deallocation, for giving memory back causes no peak.
pub fn caused_by(profile: &Profile, rank: &Rank, pool: &Pool, at: Moment) -> Option<Step> {
    let mut step = at.position().checked_sub(1)?;
    while profile.op_kind(rank, step) == OpKind::Deallocate && !pool.observed.contains(Moment::before(step)) {
        step = step.checked_sub(1)?;
    }
    Some(step)
}
