//! What changed between two programs: inputs that arrived, results that were dropped.

use super::Span;
use super::final_state::allocated_at;
use crate::model::{CurveKind, Moment, PoolId, Position, Rank};

/// A change that belongs to no step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The position between the programs.
    pub position: Position,
    /// What changed, in each bank.
    pub per_bank: i64,
}

/// The changes of a pool between programs that rounding cannot explain.
pub fn gaps(rank: &Rank, id: PoolId, span: Span) -> Vec<Gap> {
    let Some(pool) = rank.pools.get(id.index()) else { return Vec::new() };
    let Some(curve) = pool.curve(CurveKind::Allocated) else { return Vec::new() };
    let mut gaps = Vec::new();
    for (_, run) in rank.top_level_runs().skip(1) {
        let (early, late) = (Moment::early(run.first), Moment::late(run.first));
        if !span.contains(late, rank) || !pool.observed.contains(late) {
            continue;
        }
        let before = allocated_at(rank, id, early).map(|state| state.per_bank);
        let (Some(before), Some(after)) = (before, curve.value_at(late)) else { continue };
        let change = i64::try_from(after).unwrap_or(i64::MAX) - i64::try_from(before).unwrap_or(i64::MAX);
        if change.unsigned_abs() > pool.quantum {
            gaps.push(Gap { position: run.first, per_bank: change });
        }
    }
    gaps
}
