//! The input of the rules: a rank and its pools at their peaks.

use std::cell::OnceCell;

use ttmem_model::{Layout, PoolId, Profile, Rank, Step, StepNumber, TensorId, TensorType};

use super::phrases::PoolLabel;
use super::{Finding, Statement};
use crate::analyze::interleaved::Interleaved;
use crate::analyze::oom::Verdict;
use crate::analyze::peak::{self, Peak};
use crate::analyze::{Account, Span};
use crate::growth::Found;
use crate::level::Thresholds;

/// A rank at its peaks.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The rank.
    pub rank: &'a Rank,
    /// The requested range of steps.
    pub span: Span,
    /// The pools that were used.
    pub pools: Vec<PoolAtPeak<'a>>,
    /// The tensors that are live at the peak of each of these pools, once a rule has asked for them.
    pub live_at_peak: Vec<OnceCell<Vec<TensorId>>>,
    /// The index in `pools` of the pool that most rules examine: DRAM, or the first.
    pub main: Option<usize>,
    /// The verdict on the out-of-memory error that ended the program.
    pub verdict: Option<&'a Verdict<'a>>,
    /// What grows from iteration to iteration.
    pub growth: Option<&'a Found>,
    /// The shares of a capacity above which a pool is high or full.
    pub thresholds: Thresholds,
}

/// A pool at its peak.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolAtPeak<'a> {
    /// The pool with the sums of its tensors.
    pub account: &'a Account<'a>,
    /// The pool's name and number of banks.
    pub label: PoolLabel<'a>,
    /// The moment and size of the peak.
    pub peak: Peak,
    /// The size of a bank.
    pub capacity: Option<u64>,
}

impl<'a> Situation<'a> {
    /// The pool that most rules examine, if it was used.
    pub(super) fn main(&self) -> Option<PoolAtPeak<'a>> {
        self.pools.get(self.main?).copied().filter(|pool| pool.peak.per_bank > 0)
    }

    /// The same, if the input has tensors.
    pub(super) fn main_with_tensors(&self) -> Option<PoolAtPeak<'a>> {
        self.main().filter(|_| self.rank.has_tensors())
    }

    /// Whether the program ended because this pool ran out of memory.
    pub(super) fn ran_out(&self, pool: &str) -> bool {
        let failed = self.verdict.and_then(|verdict| verdict.fault.pool);
        failed.is_some_and(|name| self.profile.text(name) == pool)
    }

    /// The name and banks of a pool, including one that was never used.
    pub(super) fn pool_label(&self, pool: PoolId) -> PoolLabel<'a> {
        PoolLabel::of(self.profile, self.rank, pool)
    }

    /// The type of a tensor.
    pub(super) fn ty(&self, tensor: TensorId) -> Option<&'a TensorType> {
        self.profile.tensor_type((*self.rank.tensors.ty.get(tensor.index())?)?)
    }

    /// The layout of a tensor and its stored element type.
    pub(super) fn stored(&self, tensor: TensorId) -> Option<(&'a Layout, &'a str)> {
        let layout = self.ty(tensor)?.layout.as_ref()?;
        Some((layout, self.profile.text(layout.stored_dtype)))
    }

    /// The tiles of a tensor, if they are interleaved over all banks of its pool.
    pub(super) fn interleaved(&self, pool: &PoolAtPeak<'_>, tensor: TensorId) -> Option<Interleaved> {
        let per_bank = self.rank.tensors.per_bank.get(tensor.index())?.get()?;
        Interleaved::new(self.ty(tensor)?, per_bank, pool.account.pool.banks?)
    }

    /// All tensors that were ever in a pool: a change to the model affects each of its runs.
    pub(super) fn ever_in(&self, pool: &PoolAtPeak<'a>) -> impl Iterator<Item = TensorId> + 'a {
        let (rank, id) = (self.rank, pool.account.id);
        (0..rank.tensors.len()).filter(move |&index| rank.tensors.pool[index] == id).filter_map(TensorId::new)
    }

    /// The tensors that are live at a pool's peak.
    pub(super) fn alive(&self, pool: &PoolAtPeak<'_>) -> impl Iterator<Item = TensorId> + use<'a, '_> {
        let index = self.pools.iter().position(|known| known.account.id == pool.account.id);
        let live = || self.rank.live(pool.account.id, pool.peak.at).filter_map(TensorId::new).collect();
        let alive = index.and_then(|index| self.live_at_peak.get(index)).map(|alive| alive.get_or_init(live));
        alive.into_iter().flatten().copied()
    }

    /// The size of a tensor per bank.
    pub(super) fn per_bank(&self, tensor: TensorId) -> u64 {
        self.rank.tensors.per_bank.get(tensor.index()).map_or(0, |bytes| bytes.or_zero())
    }

    /// The total size of tensors per bank.
    pub(super) fn sum(&self, tensors: &[TensorId]) -> u64 {
        tensors.iter().map(|tensor| self.per_bank(*tensor)).fold(0, u64::saturating_add)
    }

    /// The step that allocated a tensor.
    pub(super) fn made_by(&self, tensor: TensorId) -> Option<Step> {
        self.rank.tensors.step.get(tensor.index()).copied().flatten().map(StepNumber::get)
    }

    /// The step that brought a pool to its peak.
    pub(super) fn cause(&self, pool: &PoolAtPeak<'_>) -> Option<Step> {
        peak::cause(self.profile, pool.account, pool.peak.at).step()
    }
}

impl<'a> PoolAtPeak<'a> {
    /// A pool at its peak.
    pub fn new(profile: &'a Profile, account: &'a Account<'a>, peak: Peak, capacity: Option<u64>) -> Self {
        Self { account, label: PoolLabel::of(profile, account.rank, account.id), peak, capacity }
    }

    /// Whether bytes are at least a share of the peak, in percent.
    pub(super) fn is_share(&self, per_bank: u64, percent: u64) -> bool {
        per_bank > 0 && u128::from(per_bank) * 100 >= u128::from(self.peak.per_bank) * u128::from(percent)
    }

    /// A finding about this pool.
    pub(super) fn finding(&self, name: &'static str, statement: Statement) -> Finding {
        Finding::new(name, self.account.id, statement)
    }
}
