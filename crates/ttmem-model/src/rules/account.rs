//! The account of a pool: the allocated bytes that the device reports, and the sum of the tensors in it.
//!
//! Most analyses compare the two, so both are prepared once.

use super::live::LiveSums;
use crate::{Cursor, Curve, CurveKind, Moment, Pool, PoolId, Position, Rank};

/// A pool of a rank, prepared for queries.
#[derive(Debug)]
pub struct Account<'a> {
    /// The rank.
    pub rank: &'a Rank,
    /// The pool's id.
    pub id: PoolId,
    /// The pool.
    pub pool: &'a Pool,
    explained: Explained<'a>,
    /// The start positions of top-level programs.
    starts: Vec<Position>,
}

/// The sums of a pool's tensors over time.
#[derive(Debug)]
enum Explained<'a> {
    /// The input has no tensors.
    Unknown,
    Sums(LiveSums),
    /// The allocated bytes are these sums.
    Curve(&'a Curve),
}

/// The allocated bytes of a pool at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The bytes per bank.
    pub per_bank: u64,
    /// Whether the input has the value; otherwise it is the last state plus the changes of the steps since then.
    pub measured: bool,
}

impl<'a> Account<'a> {
    /// The account of a pool.
    pub fn new(rank: &'a Rank, id: PoolId) -> Option<Self> {
        let pool = rank.pools.get(id.index())?;
        let explained = match pool.curve(CurveKind::Allocated) {
            _ if !rank.has_tensors() => Explained::Unknown,
            Some(curve) if pool.is_sum_of_tensors => Explained::Curve(curve),
            _ => Explained::Sums(LiveSums::new(rank, id)),
        };
        Some(Self {
            rank,
            id,
            pool,
            explained,
            starts: rank.top_level_runs().map(|(_, run)| run.first).collect(),
        })
    }

    /// The sum of the live tensors per bank at a moment; `None` if the input has no tensors.
    pub fn explained(&self, at: Moment) -> Option<u64> {
        match &self.explained {
            Explained::Unknown => None,
            Explained::Sums(sums) => Some(sums.at(at)),
            Explained::Curve(curve) => Some(curve.value_at(at).unwrap_or(0)),
        }
    }

    /// Whether the tensors explain all allocated bytes at every moment, so that nothing has to be compared.
    pub fn is_all_explained(&self) -> bool {
        matches!(self.explained, Explained::Curve(_))
    }

    /// A cursor over the sums of the live tensors, from a moment on.
    pub fn explained_cursor(&self, from: Moment) -> Option<Cursor<'_>> {
        let cursor = match &self.explained {
            Explained::Unknown => None,
            Explained::Sums(sums) => Some(sums.cursor()),
            Explained::Curve(curve) => Some(curve.cursor()),
        };
        cursor.map(|cursor| cursor.starting_at(from))
    }

    /// The moments when the sum of the live tensors changes, in order.
    pub fn explained_moments(&self) -> &[Moment] {
        match &self.explained {
            Explained::Unknown => &[],
            Explained::Sums(sums) => sums.moments(),
            Explained::Curve(curve) => &curve.at,
        }
    }

    /// The allocated bytes at a moment: the observed value, or the last state before plus the changes of the steps
    /// since then. `None` if neither is known.
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

    /// Whether nothing happens between two moments: they are the two sides of a position where no program begins.
    pub fn is_same_state(&self, early: Moment, late: Moment) -> bool {
        let position = late.position();
        let sides = (Moment::early(position), Moment::late(position));
        (early, late) == sides && self.starts.binary_search(&position).is_err()
    }

    /// All readings of the allocated bytes, in order, including unchanged ones.
    pub fn readings(&self) -> impl Iterator<Item = (Moment, u64)> + '_ {
        let curve = self.pool.curve(CurveKind::Allocated);
        let mut changes = curve.into_iter().flat_map(Curve::changes).peekable();
        let mut moments = self.pool.observed.iter();
        let mut now: Option<Moment> = None;
        let mut value = None;
        std::iter::from_fn(move || {
            loop {
                // Several readings may have the same moment; each is returned.
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
