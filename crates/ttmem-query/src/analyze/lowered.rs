//! The reduction of a pool's peak if some of its tensors were smaller.

use ttmem_model::rules::live::LiveSums;
use ttmem_model::{Moment, Rank, TensorId};

use super::{Account, Span};

/// Bytes that would be free during a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saving {
    /// The start of the period.
    pub from: Moment,
    /// The end of the period, exclusive.
    pub until: Moment,
    /// The bytes per bank.
    pub per_bank: u64,
}

impl Saving {
    /// A saving for the lifetime of a tensor.
    pub fn of(rank: &Rank, tensor: TensorId, per_bank: u64) -> Option<Self> {
        let (from, until) =
            (*rank.tensors.born.get(tensor.index())?, *rank.tensors.dies.get(tensor.index())?);
        Some(Self { from, until, per_bank })
    }
}

/// The reduction of a span's peak, per bank.
///
/// The reduction is smaller than the savings at the peak if another moment becomes the highest, such as a second run
/// that needs as much as the first. As for the peak itself, only observed moments count.
pub fn fall(account: &Account<'_>, span: Span, savings: &[Saving]) -> u64 {
    let saved = LiveSums::of(savings.iter().map(|saving| (saving.from, saving.until, saving.per_bank)));
    let mut saved = saved.cursor();
    let (mut peak, mut lowered) = (0, 0);
    for (at, held) in account.readings().filter(|(at, _)| span.contains(*at, account.rank)) {
        peak = held.max(peak);
        lowered = held.saturating_sub(saved.value_at(at).unwrap_or(0)).max(lowered);
    }
    peak - lowered
}
