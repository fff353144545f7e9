//! What a pool holds at the end.

use super::Span;
use super::live::LiveSums;
use crate::model::{CurveKind, Moment, PoolId, Rank};

/// What a pool holds at the end of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Final {
    /// In each bank.
    pub per_bank: u64,
    /// Whether the evidence has it; if not, it is the last state plus what the steps since did.
    pub measured: bool,
}

/// The state of a pool after the last step; `None` where neither a state nor tensors tell.
pub fn final_state(rank: &Rank, id: PoolId, span: Span) -> Option<Final> {
    let pool = rank.pools.get(id.index())?;
    let (end, last) = (Moment::early(span.end), span.last(rank));
    let observed = pool.observed.iter().take_while(|at| *at <= last).last()?;
    let value = pool.curve(CurveKind::Allocated)?.value_at(observed)?;
    if observed >= end {
        return Some(Final { per_bank: value, measured: true });
    }
    if !rank.has_tensors() {
        return None;
    }
    let sums = LiveSums::new(rank, id);
    let (then, now) = (sums.at(observed), sums.at(end));
    Some(Final { per_bank: value.saturating_add(now).saturating_sub(then), measured: false })
}

/// What a pool holds at a moment: as observed then, or the last state before plus what the steps since did.
pub fn allocated_at(rank: &Rank, id: PoolId, at: Moment) -> Option<Final> {
    let pool = rank.pools.get(id.index())?;
    let curve = pool.curve(CurveKind::Allocated)?;
    if pool.observed.contains(at) {
        return curve.value_at(at).map(|per_bank| Final { per_bank, measured: true });
    }
    let observed = pool.observed.iter().take_while(|moment| *moment < at).last()?;
    let value = curve.value_at(observed)?;
    if !rank.has_tensors() {
        return None;
    }
    let then = rank.live_per_bank(id, observed);
    let now = rank.live_per_bank(id, at);
    Some(Final { per_bank: value.saturating_add(now).saturating_sub(then), measured: false })
}
