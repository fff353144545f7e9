//! The account of a pool: what the device says it holds, and what the tensors in it add up to.
//!
//! Most questions hold one against the other, so both are prepared once.

use super::live::LiveSums;
use crate::{Cursor, CurveKind, Moment, Pool, PoolId, Position, Rank};

/// A pool of a rank, ready to be asked.
#[derive(Debug)]
pub struct Account<'a> {
    /// The rank.
    pub rank: &'a Rank,
    /// Which of its pools.
    pub id: PoolId,
    /// The pool.
    pub pool: &'a Pool,
    /// What its tensors add up to; `None` where the evidence has no tensors.
    sums: Option<LiveSums>,
    /// The positions at which a top-level program begins.
    starts: Vec<Position>,
}

/// What a pool holds at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// In each bank.
    pub per_bank: u64,
    /// Whether the evidence has it; if not, it is the last state plus what the steps since did.
    pub measured: bool,
}

impl<'a> Account<'a> {
    /// The account of a pool.
    pub fn new(rank: &'a Rank, id: PoolId) -> Option<Self> {
        let pool = rank.pools.get(id.index())?;
        Some(Self {
            rank,
            id,
            pool,
            sums: rank.has_tensors().then(|| LiveSums::new(rank, id)),
            starts: rank.top_level_runs().map(|(_, run)| run.first).collect(),
        })
    }

    /// What the tensors add up to in each bank at a moment; `None` where there are none to add.
    pub fn explained(&self, at: Moment) -> Option<u64> {
        self.sums.as_ref().map(|sums| sums.at(at))
    }

    /// What the tensors add up to, to be asked in order of time from a moment on.
    pub fn explained_cursor(&self, from: Moment) -> Option<Cursor<'_>> {
        self.sums.as_ref().map(|sums| sums.cursor().starting_at(from))
    }

    /// The moments at which what the tensors add up to changes, in order.
    pub fn explained_moments(&self) -> &[Moment] {
        self.sums.as_ref().map_or(&[], LiveSums::moments)
    }

    /// What the pool holds at a moment: as observed then, or the last state before plus what the steps since
    /// did. `None` where neither is known.
    pub fn held(&self, at: Moment) -> Option<Held> {
        let curve = self.pool.curve(CurveKind::Allocated)?;
        let observed = self.pool.observed.last_until(at)?;
        let value = curve.value_at(observed)?;
        if observed == at || self.is_same_state(observed, at) {
            return Some(Held { per_bank: value, measured: true });
        }
        let (then, now) = (self.explained(observed)?, self.explained(at)?);
        Some(Held { per_bank: value.saturating_add(now).saturating_sub(then), measured: false })
    }

    /// Whether nothing happens between two moments: both sides of a position at which no program begins.
    pub fn is_same_state(&self, early: Moment, late: Moment) -> bool {
        let position = late.position();
        let sides = (Moment::early(position), Moment::late(position));
        (early, late) == sides && self.starts.binary_search(&position).is_err()
    }

    /// All readings of what the pool holds, in order, those that repeat the one before included.
    pub fn readings(&self) -> impl Iterator<Item = (Moment, u64)> + '_ {
        let curve = self.pool.curve(CurveKind::Allocated);
        let mut changes = curve.into_iter().flat_map(crate::Curve::changes).peekable();
        let mut moments = self.pool.observed.iter();
        let mut now: Option<Moment> = None;
        let mut value = None;
        std::iter::from_fn(move || {
            loop {
                // Several readings may share a moment; each is said.
                if let Some((_, next)) = now.and_then(|at| changes.next_if(|(moment, _)| *moment <= at)) {
                    value = Some(next);
                    return now.zip(value);
                }
                now = Some(moments.next()?);
                if changes.peek().is_none_or(|(moment, _)| Some(*moment) > now)
                    && let Some(value) = value
                {
                    return now.map(|at| (at, value));
                }
            }
        })
    }
}
