//! The scenarios: the programs that are compiled, and the order of their runs.
//!
//! Sizes, shapes and depths are drawn from the seed within realistic ranges, so that every seed gives a different log.
//! A scenario does not free the outputs of its last program: the log ends there.

mod distinct;
mod layers;
mod llm;
mod random_graphs;
mod shapes;
mod shortage;
mod two_graphs;
mod vae;

use super::options::Options;
use super::runtime::{Runtime, Stop};
use crate::random::Random;

pub use layers::Layers;

/// The contents of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// An image decoder, run twice: weights are const-evaluated in the first run, cached in the second, and survive
    /// their deallocation.
    Vae,
    /// Decode steps of a language model: caches updated in place, sharded activations, block floats.
    Llm,
    /// Two graphs named `@main`; the second is compiled after the first has run.
    TwoGraphs,
    /// A buffer is larger than the free memory.
    OomCapacity,
    /// A buffer is smaller than the free memory, but larger than any hole.
    OomFragmentation,
    /// Random programs with all kinds of operations.
    Random,
    /// Random programs in the same order, pass after pass. A line `Got output shape: …` ends each pass.
    Passes {
        /// The number of passes.
        passes: u64,
    },
    /// One program repeated until at least this many operations ran. For benchmarks.
    Repeated {
        /// At least this many operations.
        ops: u64,
    },
    /// A stack of equal layers, in variants that differ in one known way.
    Layers(Layers),
    /// Programs whose operations all have distinct texts. For benchmarks.
    Distinct {
        /// At least this many operations.
        ops: u64,
    },
}

impl Scenario {
    /// One scenario of each kind, at its natural size.
    pub const KINDS: [Self; 6] =
        [Self::Vae, Self::Llm, Self::TwoGraphs, Self::OomCapacity, Self::OomFragmentation, Self::Random];
}

impl Scenario {
    /// The name in the truth.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vae => "vae",
            Self::Llm => "llm",
            Self::TwoGraphs => "two-graphs",
            Self::OomCapacity => "oom",
            Self::OomFragmentation => "oom-frag",
            Self::Random => "random",
            Self::Passes { .. } => "passes",
            Self::Repeated { .. } => "repeated",
            Self::Layers(_) => "layers",
            Self::Distinct { .. } => "distinct",
        }
    }

    /// The scenario with this name; `ops` is the length of endless ones.
    pub fn named(name: &str, ops: u64) -> Option<Self> {
        [
            Self::Vae,
            Self::Llm,
            Self::TwoGraphs,
            Self::OomCapacity,
            Self::OomFragmentation,
            Self::Random,
            Self::Passes { passes: 3 },
            Self::Repeated { ops },
            Self::Layers(Layers::default()),
            Self::Distinct { ops },
        ]
        .into_iter()
        .find(|scenario| scenario.name() == name)
    }

    pub(super) fn play(
        self,
        runtime: &mut Runtime<'_>,
        random: &mut Random,
        options: &Options,
    ) -> Result<(), Stop> {
        let chip = options.chip;
        match self {
            Self::Vae => vae::play(runtime, random),
            Self::Llm => llm::play(runtime, random),
            Self::TwoGraphs => two_graphs::play(runtime, random),
            Self::OomCapacity => shortage::play_capacity(runtime, random, options),
            Self::OomFragmentation => shortage::play_fragmentation(runtime, random, options),
            Self::Random => random_graphs::play(runtime, random, chip),
            Self::Passes { passes } => random_graphs::play_passes(runtime, random, chip, passes),
            Self::Repeated { ops } => llm::play_repeated(runtime, random, ops),
            Self::Layers(layers) => layers::play(runtime, layers),
            Self::Distinct { ops } => distinct::play(runtime, random, chip, ops),
        }
    }
}
