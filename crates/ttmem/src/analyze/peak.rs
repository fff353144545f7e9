//! The peak of a pool: where it is, and the step that caused it.

use super::{Account, Span};
use crate::model::{Moment, OpKind, Pool, Position, Profile, Rank, Step};

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
pub fn peak(account: &Account<'_>, span: Span) -> Option<Peak> {
    let readings = || account.readings().filter(|(at, _)| span.contains(*at, account.rank));
    let per_bank = readings().map(|(_, value)| value).max()?;
    let mut highest = readings().filter(|(_, value)| *value == per_bank).map(|(at, _)| at);
    let first = highest.next()?;
    let quantum = account.pool.quantum;
    let Some(sum) = account.explained(first).filter(|_| quantum > 0 && per_bank > 0) else {
        return Some(Peak { at: first, per_bank });
    };
    let mut best = (sum, first);
    for at in highest {
        let sum = account.explained(at).unwrap_or(0);
        if sum > best.0 && sum - best.0 <= quantum {
            best = (sum, at);
        }
    }
    Some(Peak { at: best.1, per_bank })
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
