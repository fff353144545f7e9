//! Phrases that the sentences of several suggestions share.

pub(super) use ttmem_model::words::by_count;
use ttmem_model::{PoolId, Profile, Rank, Step, StrId, TensorId, TensorType};

use super::{PoolAtPeak, Situation};
use crate::about::Extent;
use crate::words::{brief_line, percent, shape, size};

/// Maximum number of characters of a name or location from the input in a sentence.
const MAX_CHARS: usize = 60;

/// A name or location from the input, shortened for a sentence.
pub(super) fn brief(text: &str) -> String {
    brief_line(text, MAX_CHARS)
}

/// The name of a pool and the number of its banks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolLabel<'a> {
    pub name: &'a str,
    pub banks: Option<u32>,
}

impl<'a> PoolLabel<'a> {
    pub(super) fn of(profile: &'a Profile, rank: &'a Rank, pool: PoolId) -> Self {
        let pool = rank.pools.get(pool.index());
        Self {
            name: pool.map_or("memory", |pool| profile.text(pool.name)),
            banks: pool.and_then(|pool| pool.banks),
        }
    }

    /// The unit that the pool's sizes refer to.
    pub(super) fn extent(&self) -> Extent {
        Extent::of(self.name, self.banks)
    }

    /// `146.3 MiB/bank`, with the pool's unit.
    pub(super) fn per_bank(&self, bytes: u64) -> String {
        format!("{}{}", size(bytes), self.extent().suffix())
    }

    /// `146.3 MiB/bank (1.00 GiB on the device)`.
    pub(super) fn with_total(&self, per_bank: u64) -> String {
        format!("{}{}", self.per_bank(per_bank), self.on_device(per_bank))
    }

    /// ` (1.00 GiB on the device)`; empty if the pool does not have several banks.
    pub(super) fn on_device(&self, per_bank: u64) -> String {
        let banks = self.banks.filter(|banks| *banks > 1);
        let device = banks.and_then(|banks| per_bank.checked_mul(banks.into()));
        device.map_or_else(String::new, |bytes| format!(" ({} on the device)", size(bytes)))
    }
}

impl PoolAtPeak<'_> {
    /// `146.3 MiB/bank, 21.3% of the DRAM peak`.
    pub(super) fn share(&self, per_bank: u64) -> String {
        let share = percent(per_bank, self.peak.per_bank);
        format!("{}, {share} of the {} peak", self.label.per_bank(per_bank), self.label.name)
    }
}

impl Situation<'_> {
    /// `Step 100, ttnn.add at "subtract.3",`.
    pub(super) fn step(&self, step: Step) -> String {
        let op = self.profile.op_name(self.rank, step).map(|op| format!(", {}", brief(op)));
        let loc = self.profile.op_loc(self.rank, step).map(|loc| format!(" at {},", brief(loc)));
        let end = if loc.is_none() && op.is_some() { "," } else { "" };
        format!("Step {step}{}{}{end}", op.unwrap_or_default(), loc.unwrap_or_default())
    }

    /// The name of an operation.
    pub(super) fn op(&self, op: StrId) -> String {
        brief(self.profile.text(op))
    }

    /// `1x32x64 (bf16)`.
    pub(super) fn typed(&self, ty: &TensorType) -> String {
        format!("{} ({})", brief(&shape(&ty.shape)), brief(self.profile.text(ty.dtype)))
    }

    /// The name of a tensor.
    pub(super) fn name(&self, tensor: TensorId) -> String {
        let tensors = &self.rank.tensors;
        let name = tensors.name.get(tensor.index()).copied().flatten();
        let name = name.or_else(|| tensors.ssa.get(tensor.index()).copied().flatten());
        name.map_or_else(|| "an unnamed tensor".into(), |name| brief(self.profile.text(name)))
    }
}
