//! The peak of a pool, and the step that caused it.

use super::{Account, Span};
use crate::{Curve, CurveKind, Moment, OpKind, Position, Profile, Step};

/// The highest observed use of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The moment when it was first reached.
    pub at: Moment,
    /// The bytes per bank.
    pub per_bank: u64,
}

impl Peak {
    /// The position of the peak; `None` if nothing was ever allocated.
    pub fn position(&self) -> Option<Position> {
        (self.per_bank > 0).then(|| self.at.position())
    }
}

/// The peak of a pool within a span; `None` if it was not observed there.
///
/// Readings are rounded, so several moments may show the same highest number. If the tensors distinguish those moments
/// (by less than the rounding error), they decide; otherwise the first one counts.
pub fn peak(account: &Account<'_>, span: Span) -> Option<Peak> {
    let plateaus = Plateaus::new(account, span)?;
    let mut best: Option<(usize, u64)> = None;
    for (row, &value) in plateaus.values() {
        if best.is_none_or(|(_, most)| value > most)
            && plateaus.get(row).is_some_and(|plateau| plateau.is_seen(account))
        {
            best = Some((row, value));
        }
    }
    let (row, per_bank) = best?;
    let mut highest = plateaus
        .values()
        .skip_while(|(later, _)| *later < row)
        .filter(|(_, value)| **value == per_bank)
        .filter_map(|(row, _)| plateaus.get(row))
        .flat_map(|plateau| account.pool.observed.range(plateau.from, plateau.until));
    let first = highest.next()?;
    let quantum = account.pool.quantum;
    let Some(mut sums) = account.explained_cursor(first).filter(|_| quantum > 0 && per_bank > 0) else {
        return Some(Peak { at: first, per_bank });
    };
    let mut best = (sums.value_at(first).unwrap_or(0), first);
    for at in highest {
        let sum = sums.value_at(at).unwrap_or(0);
        if sum > best.0 && sum - best.0 <= quantum {
            best = (sum, at);
        }
    }
    Some(Peak { at: best.1, per_bank })
}

/// The stated peak of a sampled pool, if no reading reaches it; its time is unknown.
///
/// It covers the whole run, so it does not apply to a part of it.
pub fn unseen(account: &Account<'_>, span: Span, seen: Option<Peak>) -> Option<u64> {
    let stated = account.pool.sampled.flatten().filter(|_| span == Span::recorded(account.rank))?;
    (seen.is_none_or(|seen| seen.per_bank < stated)).then_some(stated)
}

/// A period with a constant reading.
struct Plateau {
    from: Moment,
    until: Moment,
}

impl Plateau {
    /// Whether the pool was observed in this period.
    fn is_seen(&self, account: &Account<'_>) -> bool {
        account.pool.observed.range(self.from, self.until).next().is_some()
    }
}

/// The plateaus of a pool within a span.
struct Plateaus<'a> {
    curve: &'a Curve,
    start: Moment,
    last: Moment,
}

impl<'a> Plateaus<'a> {
    fn new(account: &Account<'a>, span: Span) -> Option<Self> {
        let curve = account.pool.curve(CurveKind::Allocated)?;
        Some(Self { curve, start: span.start(), last: span.last(account.rank) })
    }

    /// The values of the plateaus, with the rows of their changes.
    fn values(&self) -> impl Iterator<Item = (usize, &'a u64)> + use<'a> {
        // Plateaus before the span are skipped at once: a log with many runs is queried for each of them.
        let first = self.curve.at.partition_point(|at| *at < self.start).saturating_sub(1);
        let end = self.curve.at.partition_point(|at| *at <= self.last);
        (first..end).zip(self.curve.value.get(first..end).unwrap_or_default())
    }

    /// The plateau that begins with a change; `None` if no moment of the span is on it.
    fn get(&self, row: usize) -> Option<Plateau> {
        let (at, end) = (*self.curve.at.get(row)?, self.curve.at.get(row + 1).copied());
        let from = at.max(self.start);
        // Two changes may have the same moment; the first of them was observed at that moment too.
        let until = end.map_or(self.last, |end| if end == at { end } else { end.earlier() }).min(self.last);
        (from <= until).then_some(Plateau { from, until })
    }
}

/// The cause of a pool's level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Memory allocated before the first step.
    Beginning,
    /// A change between two programs.
    Outside,
    /// The step that changed it.
    Step(Step),
}

impl Cause {
    /// The step, if it was one.
    pub fn step(self) -> Option<Step> {
        match self {
            Self::Step(step) => Some(step),
            Self::Beginning | Self::Outside => None,
        }
    }
}

/// The cause of a pool's level at a moment: the step before the position.
///
/// In a log without states at deallocations, some positions are unobserved; then it is the last step before that is not
/// a deallocation, because freeing memory causes no peak. At the start of a program, it is the time between the
/// programs, unless the step before it caused the level.
pub fn cause(profile: &Profile, account: &Account<'_>, at: Moment) -> Cause {
    let (rank, pool) = (account.rank, account.pool);
    let position = at.position();
    let begins = || position == rank.end() || rank.top_level_runs().any(|(_, run)| run.first == position);
    if position > 0 && at == Moment::late(position) && begins() {
        let (early, late) = (account.held(Moment::early(position)), account.held(at));
        if let (Some(early), Some(late)) = (early, late)
            && late.per_bank > early.per_bank.saturating_add(pool.quantum)
        {
            return Cause::Outside;
        }
    }
    step_before(profile, account, at).map_or(Cause::Beginning, Cause::Step)
}

/// The step before a position, skipping unobserved deallocations.
pub fn step_before(profile: &Profile, account: &Account<'_>, at: Moment) -> Option<Step> {
    let is_unseen = |step: Step| !account.pool.observed.contains(Moment::before(step));
    let mut step = at.position().checked_sub(1)?;
    while profile.op_kind(account.rank, step) == OpKind::Deallocate && is_unseen(step) {
        step = step.checked_sub(1)?;
    }
    Some(step)
}
