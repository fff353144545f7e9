//! Fragmentation: how much is free, and how much of it in one piece.

use super::{Account, Span};
use crate::model::{CurveKind, Moment};

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

/// The moment of a span at which the most free bytes lie outside of the largest piece.
pub fn worst(account: &Account<'_>, span: Span) -> Option<Fragmented> {
    let (rank, pool) = (account.rank, account.pool);
    let (free, largest) = (pool.curve(CurveKind::Free)?, pool.curve(CurveKind::LargestFree)?);
    let mut moments: Vec<Moment> = free.at.iter().chain(&largest.at).copied().collect();
    moments.sort_unstable();
    moments.dedup();
    moments
        .into_iter()
        .filter(|at| span.contains(*at, rank))
        .filter_map(|at| {
            Some(Fragmented { at, free: free.value_at(at)?, largest_free: largest.value_at(at)? })
        })
        .max_by_key(|found| (found.free.saturating_sub(found.largest_free), std::cmp::Reverse(found.at)))
        .filter(|found| found.free.saturating_sub(found.largest_free) > pool.quantum)
}
