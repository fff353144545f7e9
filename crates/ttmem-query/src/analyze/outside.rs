//! Changes between two programs, such as inputs that were copied or results that were dropped.

use ttmem_model::{Moment, Position, difference};

use super::{Account, Span};

/// A change that belongs to no step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The position between the programs.
    pub position: Position,
    /// The change per bank.
    pub per_bank: i64,
}

/// The changes of a pool between programs that are larger than the rounding.
pub fn gaps(account: &Account<'_>, span: Span) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for (_, run) in account.rank.top_level_runs().skip(1) {
        let (early, late) = (Moment::early(run.first), Moment::late(run.first));
        if !span.contains(late, account.rank) || !account.pool.observed.contains(late) {
            continue;
        }
        let (Some(before), Some(after)) = (account.held(early), account.held(late)) else { continue };
        let change = difference(after.per_bank, before.per_bank);
        if change.unsigned_abs() > account.pool.quantum {
            gaps.push(Gap { position: run.first, per_bank: change });
        }
    }
    gaps
}
