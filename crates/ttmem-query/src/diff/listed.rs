//! The changes of a rank: of its tensors, or of its phases if it has nothing else.

use ttmem_model::TensorId;

use super::groups::Changes;
use super::phases::PhaseChanges;
use super::{ChangeRow, OperationsDiff, PoolDiff};
use crate::analyze::diff::{Both, Compared, Side};

/// The changes of a rank, the largest effect on a peak first.
pub(super) enum Listed<'a> {
    Tensors(Changes<'a>),
    Phases(PhaseChanges),
}

impl<'a> Listed<'a> {
    /// The changes and the pools.
    pub fn of(
        sides: &Both<Side<'a>>,
        compared: &'a Compared,
        operations: OperationsDiff,
    ) -> (Self, Vec<(String, PoolDiff)>) {
        let changes = Changes::of(sides, compared);
        let pools: Vec<(String, PoolDiff)> = compared
            .pools
            .iter()
            .map(|peaks| (peaks.name.clone(), super::pool(sides, peaks, changes.effect_on(&peaks.name))))
            .filter(|(_, pool)| pool.before_per_bank.is_some() || pool.after_per_bank.is_some())
            .collect();
        let has_nothing = pools.is_empty() && operations.before == 0 && operations.after == 0;
        match has_nothing.then(|| PhaseChanges::of(sides)).flatten() {
            Some(found) => {
                let pools = found.pools.clone();
                (Self::Phases(found), pools)
            }
            None => (Self::Tensors(changes), pools),
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Tensors(changes) => changes.len(),
            Self::Phases(found) => found.rows.len(),
        }
    }

    /// The first rows.
    pub fn rows(&self, max: usize) -> Vec<ChangeRow> {
        match self {
            Self::Tensors(changes) => changes.rows(max),
            Self::Phases(found) => found.rows.iter().take(max).cloned().collect(),
        }
    }

    /// The first row with an effect on a pool in one direction.
    pub fn first_on(&self, pool: &str, sign: i64) -> Option<ChangeRow> {
        match self {
            Self::Tensors(changes) => changes.first_on(pool, sign),
            Self::Phases(found) => found.first_on(pool, sign).cloned(),
        }
    }

    /// The tensors of each row.
    pub fn tensors(&self) -> Vec<&[Both<Option<TensorId>>]> {
        match self {
            Self::Tensors(changes) => changes.tensors().collect(),
            Self::Phases(found) => found.rows.iter().map(|_| [].as_slice()).collect(),
        }
    }
}
