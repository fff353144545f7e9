//! Fragmentation: how much is free, and how much of it in one piece.

use super::{Account, Span};
use ttmem_model::{CurveKind, Moment};

/// A moment at which much of what is free is in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragmented {
    /// When.
    pub at: Moment,
    /// What is free, in each bank.
    pub free: u64,
    /// The largest piece.
    pub largest_free: u64,
}

impl Fragmented {
    /// The free bytes outside of the largest piece.
    fn in_pieces(&self) -> u64 {
        self.free.saturating_sub(self.largest_free)
    }
}

/// Two ordered lists of moments as one.
fn merged<'a>(a: &'a [Moment], b: &'a [Moment]) -> impl Iterator<Item = Moment> + 'a {
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some(x), Some(y)) if y < x => b.next(),
        (None, _) => b.next(),
        _ => a.next(),
    })
}

/// The moment of a span at which the most free bytes lie outside of the largest piece.
pub fn worst(account: &Account<'_>, span: Span) -> Option<Fragmented> {
    let (rank, pool) = (account.rank, account.pool);
    let (free, largest) = (pool.curve(CurveKind::Free)?, pool.curve(CurveKind::LargestFree)?);
    let (mut free_values, mut largest_values) = (free.cursor(), largest.cursor());
    let mut worst: Option<Fragmented> = None;
    // A span may begin with what has not changed for long.
    let first = pool.observed.range(span.start(), span.last(rank)).next();
    let changes = merged(&free.at, &largest.at).filter(|at| span.contains(*at, rank));
    for at in first.into_iter().chain(changes) {
        if let (Some(free), Some(largest_free)) = (free_values.value_at(at), largest_values.value_at(at)) {
            let found = Fragmented { at, free, largest_free };
            // As much in pieces hurts more where less is free.
            let is_worse = |worst: Fragmented| {
                let (new, old) = (found.in_pieces(), worst.in_pieces());
                new > old.saturating_add(pool.quantum)
                    || (new.abs_diff(old) <= pool.quantum && found.free < worst.free)
            };
            worst = worst.filter(|worst| !is_worse(*worst)).or(Some(found));
        }
    }
    worst.filter(|worst| worst.in_pieces() > pool.quantum)
}
