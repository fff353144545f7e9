//! How much lower the peak of a pool would be if some of its tensors took less.

use ttmem_model::rules::live::LiveSums;
use ttmem_model::{Moment, Rank, TensorId};

use super::{Account, Span};

/// Bytes of each bank that would stay free for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saving {
    /// The first moment at which they would be free.
    pub from: Moment,
    /// The first moment at which they no longer would.
    pub until: Moment,
    /// How many.
    pub per_bank: u64,
}

impl Saving {
    /// Bytes of a tensor, for as long as it lives.
    pub fn of(rank: &Rank, tensor: TensorId, per_bank: u64) -> Option<Self> {
        let (from, until) =
            (*rank.tensors.born.get(tensor.index())?, *rank.tensors.dies.get(tensor.index())?);
        Some(Self { from, until, per_bank })
    }
}

/// By how much the peak of a span would fall, in each bank.
///
/// That is less than what is saved at the peak where another moment is then the highest: a second run that
/// needs as much as the first, say. As for the peak itself, only what was observed counts.
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
