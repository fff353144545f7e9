//! The scenarios: which programs are compiled, and in what order they run.
//!
//! Sizes, shapes and depths are drawn from the seed within what such models have, so that every seed is
//! another log. A scenario leaves the outputs of its last program where they are: the log ends there.

mod distinct;
mod llm;
mod random_graphs;
mod shapes;
mod shortage;
mod two_graphs;
mod vae;

use super::chip::Chip;
use super::runtime::{Runtime, Stop};
use crate::random::Random;

/// What happens in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// An image decoder, run twice: weights are const-evaluated in the first run, found again in the second,
    /// and survive their deallocation.
    Vae,
    /// Decode steps of a language model: caches that are written in place, sharded activations, block floats.
    Llm,
    /// Two graphs that are both called `@main`; the second is compiled after the first has run.
    TwoGraphs,
    /// A buffer is larger than all that is free.
    OomCapacity,
    /// A buffer is smaller than all that is free, but larger than any hole.
    OomFragmentation,
    /// Random programs with everything that may happen in one.
    Random,
    /// Random programs in the same order, pass after pass. A line `Got output shape: …` ends each pass.
    Passes {
        /// How many times.
        passes: u64,
    },
    /// One program over and over, until at least this many operations ran. For benchmarks.
    Repeated {
        /// At least this many operations.
        ops: u64,
    },
    /// Programs without end in which no operation has the text of another. For benchmarks.
    Distinct {
        /// At least this many operations.
        ops: u64,
    },
}

impl Scenario {
    /// One of each kind, as large as they are.
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
            Self::Distinct { .. } => "distinct",
        }
    }

    /// The scenario of this name; `ops` is for those that have no end of their own.
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
            Self::Distinct { ops },
        ]
        .into_iter()
        .find(|scenario| scenario.name() == name)
    }

    pub(super) fn play(self, runtime: &mut Runtime<'_>, random: &mut Random, chip: Chip) -> Result<(), Stop> {
        match self {
            Self::Vae => vae::play(runtime, random),
            Self::Llm => llm::play(runtime, random),
            Self::TwoGraphs => two_graphs::play(runtime, random),
            Self::OomCapacity => shortage::play_capacity(runtime, random, chip),
            Self::OomFragmentation => shortage::play_fragmentation(runtime, random, chip),
            Self::Random => random_graphs::play(runtime, random, chip),
            Self::Passes { passes } => random_graphs::play_passes(runtime, random, chip, passes),
            Self::Repeated { ops } => llm::play_repeated(runtime, random, ops),
            Self::Distinct { ops } => distinct::play(runtime, random, chip, ops),
        }
    }
}
