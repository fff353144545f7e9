//! What could be changed, and what that would save: rules over a rank at its peaks.
//!
//! A rule is a pure function. It says what it found in ids and whole bytes, and how much lower the peak would be
//! without it ([`lowered::fall`]). Sentences are made by `query`. Rules speak only of what is certain: a tensor
//! whose layout is not understood is left out of a saving, and what saves nothing has none.

mod busy;
mod caches;
mod dtypes;
mod full;
mod growth;
mod padding;
mod shortage;
mod training;
mod weights;

pub use busy::{Busy, Family};
pub use full::Full;
pub use growth::{Grown, Growth, How};
pub use padding::{Instead, PaddedShape};
pub use shortage::{Shortage, Unexplained};
pub use training::Layers;
pub use weights::Cached;

use super::fragmentation::Fragmented;
use super::interleaved::Interleaved;
use super::lowered::{self, Saving};
use super::{Account, Span};
use ttmem_model::rules::peak::{self, Peak};
use ttmem_model::{Fault, Layout, PoolId, Profile, Rank, Step, StepNumber, TensorId, TensorType};

/// A suggestion must be about at least this share of the peak, in percent, to be worth a sentence.
const WORTH_SAYING: u64 = 1;
/// What holds at least this share of the peak, in percent, is large.
const LARGE: u64 = 10;
/// No more findings than people read.
const MOST: usize = 8;

/// What the rules look at: a rank, and its pools at their peaks.
#[derive(Debug)]
pub struct Situation<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The rank.
    pub rank: &'a Rank,
    /// The part of it that is asked about.
    pub span: Span,
    /// The pools that were in use.
    pub pools: Vec<PoolAtPeak<'a>>,
    /// Which of them most rules are about: DRAM, or the first.
    pub main: Option<usize>,
    /// The error that ended the program.
    pub fault: Option<&'a Fault>,
}

/// A pool at its peak.
#[derive(Clone, Copy, Debug)]
pub struct PoolAtPeak<'a> {
    /// Its account.
    pub account: &'a Account<'a>,
    /// The peak.
    pub peak: Peak,
    /// The size of a bank.
    pub capacity: Option<u64>,
}

/// Something that a rule found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The pool that it is about.
    pub pool: PoolId,
    /// What it is.
    pub what: What,
    /// The step that it is about, where it is about one.
    pub step: Option<Step>,
    /// By how much the peak of the pool would be lower, in each bank; `None` where nothing tells.
    pub saves: Option<u64>,
}

/// What a rule found, with its numbers: bytes of one bank, unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// There was no memory for a request.
    OutOfMemory(Shortage),
    /// A pool is nearly full.
    Full(Full),
    /// Much of what is alive at the peak is padding: bytes of the device, with and without it.
    Padding {
        /// With padding.
        padded: u64,
        /// Without.
        logical: u64,
    },
    /// Tensors of one shape are more padding than content.
    PaddedShape(PaddedShape),
    /// Weights are there twice.
    KeptTwice {
        /// How many.
        count: usize,
        /// What those take that could go.
        per_bank: u64,
    },
    /// A step at the peak that works on much of what is alive.
    Busy(Busy),
    /// What const-eval programs made and keep.
    Cached(Cached),
    /// What const-eval programs keep is much larger than what they made it from.
    Expanded {
        /// The largest of them.
        largest: TensorId,
        /// How many.
        count: usize,
        /// What they take.
        per_bank: u64,
        /// What they were made from, on the device.
        sources: u64,
    },
    /// Tensors of 32-bit floats.
    Wide {
        /// How many are alive at the peak.
        count: usize,
        /// What they take.
        per_bank: u64,
    },
    /// Weights of 16-bit floats, where there could be block floats.
    PlainWeights {
        /// How many are alive at the peak.
        count: usize,
        /// What they take.
        per_bank: u64,
    },
    /// Caches of keys and values.
    Caches {
        /// How many.
        count: usize,
        /// What they take.
        per_bank: u64,
    },
    /// Activations of layers that a backward pass could compute again.
    Recompute(Layers),
    /// The state of an optimizer could be narrower.
    OptimizerState {
        /// What it takes.
        per_bank: u64,
    },
    /// Every round leaves something behind.
    Grows(Growth),
    /// Free memory is in pieces.
    Fragmented(Fragmented),
    /// The device holds what no tensor explains.
    Unexplained(Unexplained),
}

/// A rule.
type Rule = fn(&Situation<'_>) -> Vec<Finding>;

const RULES: [Rule; 16] = [
    shortage::out_of_memory,
    full::full,
    padding::in_all,
    padding::of_shapes,
    weights::kept_twice,
    weights::expanded,
    dtypes::wide,
    dtypes::plain_weights,
    caches::dominate,
    busy::at_peak,
    shortage::pieces,
    shortage::unexplained,
    weights::cached,
    growth::grows,
    training::recompute,
    training::optimizer_state,
];

/// All that the rules find, what matters most first: what went wrong, what is about to, what saves most, the rest.
pub fn findings(situation: &Situation<'_>) -> Vec<Finding> {
    let urgency = |what: &What| match what {
        What::OutOfMemory(_) => 0,
        What::Full(_) | What::Grows(_) => 1,
        _ => 2,
    };
    let mut found: Vec<Finding> = RULES.iter().flat_map(|rule| rule(situation)).collect();
    found.sort_by_key(|finding| (urgency(&finding.what), std::cmp::Reverse(finding.saves)));
    found.truncate(MOST);
    found
}

impl<'a> Situation<'a> {
    /// The pool that most rules are about, if it was used.
    fn main(&self) -> Option<PoolAtPeak<'a>> {
        self.pools.get(self.main?).copied().filter(|pool| pool.peak.per_bank > 0)
    }

    /// The same, where the evidence has tensors.
    fn main_with_tensors(&self) -> Option<PoolAtPeak<'a>> {
        self.main().filter(|_| self.rank.has_tensors())
    }

    /// The type of a tensor.
    fn ty(&self, tensor: TensorId) -> Option<&'a TensorType> {
        self.profile.tensor_type((*self.rank.tensors.ty.get(tensor.index())?)?)
    }

    /// How a tensor lies, and what it stores.
    fn stored(&self, tensor: TensorId) -> Option<(&'a Layout, &'a str)> {
        let layout = self.ty(tensor)?.layout.as_ref()?;
        Some((layout, self.profile.text(layout.stored_dtype)))
    }

    /// The tiles of a tensor, where they are spread over all banks of its pool.
    fn interleaved(&self, pool: &PoolAtPeak<'_>, tensor: TensorId) -> Option<Interleaved> {
        let per_bank = self.rank.tensors.per_bank.get(tensor.index())?.get()?;
        Interleaved::new(self.ty(tensor)?, per_bank, pool.account.pool.banks?)
    }

    /// All tensors that were ever in a pool: a change to a model changes every run of it.
    fn ever_in(&self, pool: &PoolAtPeak<'a>) -> impl Iterator<Item = TensorId> + 'a {
        let (rank, id) = (self.rank, pool.account.id);
        (0..rank.tensors.len()).filter(move |&index| rank.tensors.pool[index] == id).filter_map(TensorId::new)
    }

    /// What a tensor takes of each bank.
    fn per_bank(&self, tensor: TensorId) -> u64 {
        self.rank.tensors.per_bank.get(tensor.index()).map_or(0, |bytes| bytes.or_zero())
    }

    /// The step that made a tensor.
    fn made_by(&self, tensor: TensorId) -> Option<Step> {
        self.rank.tensors.step.get(tensor.index()).copied().flatten().map(StepNumber::get)
    }

    /// What tensors take of each bank.
    fn sum(&self, tensors: &[TensorId]) -> u64 {
        tensors.iter().map(|tensor| self.per_bank(*tensor)).fold(0, u64::saturating_add)
    }

    /// By how much the peak would fall; `None` where that is not worth saying.
    fn fall(&self, pool: &PoolAtPeak<'_>, savings: &[Saving]) -> Option<u64> {
        let fall = lowered::fall(pool.account, self.span, savings);
        (fall > pool.account.pool.quantum && pool.is_share(fall, WORTH_SAYING)).then_some(fall)
    }

    /// By how much the peak would fall if tensors took less, for as long as they live.
    fn fall_of(&self, pool: &PoolAtPeak<'_>, savings: impl Iterator<Item = (TensorId, u64)>) -> Option<u64> {
        let savings: Vec<Saving> =
            savings.filter_map(|(tensor, saved)| Saving::of(self.rank, tensor, saved)).collect();
        self.fall(pool, &savings)
    }

    /// The step that brought a pool to its peak.
    fn cause(&self, pool: &PoolAtPeak<'_>) -> Option<Step> {
        peak::cause(self.profile, pool.account, pool.peak.at).step()
    }
}

impl PoolAtPeak<'_> {
    /// Whether bytes are at least a share of the peak, in percent.
    fn is_share(&self, per_bank: u64, percent: u64) -> bool {
        per_bank > 0 && u128::from(per_bank) * 100 >= u128::from(self.peak.per_bank) * u128::from(percent)
    }

    /// What is alive at the peak.
    fn alive(&self, rank: &Rank) -> Vec<TensorId> {
        rank.live(self.account.id, self.peak.at).filter_map(TensorId::new).collect()
    }

    /// A finding about this pool that is about no step and tells no saving.
    fn finding(&self, what: What) -> Finding {
        Finding { pool: self.account.id, what, step: None, saves: None }
    }
}
