//! The form of a log. It does not affect the truth unless stated otherwise.

use super::chip::Chip;
use super::dialect::LayoutEra;
use super::oom::ErrorEra;
use crate::random::Random;

/// The level of the runtime's logger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Programs, operations, caches and memory.
    #[default]
    Debug,
    /// Memory only.
    Info,
}

/// When memory states are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryLevel {
    /// Before every operation.
    #[default]
    Operation,
    /// Before and after every submitted program.
    Program,
    /// Both.
    Any,
}

/// The module dumps in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Modules {
    /// None.
    None,
    /// The stages that come before layouts.
    SignaturesOnly,
    /// All stages.
    #[default]
    Full,
}

/// A change of a program that runs out of memory. Tensors are named by their locations.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Tensors that are stored as bfp8.
    pub narrower: Vec<String>,
    /// Tensors that are made before all others.
    pub first: Vec<String>,
    /// Tensors that are made in DRAM.
    pub in_dram: Vec<String>,
    /// The last tensor that is made.
    pub last: Option<String>,
}

/// The form of a log.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of one log")]
pub struct Options {
    /// Determines the sizes, shapes and choices of the scenario. Affects the truth.
    pub seed: u64,
    /// The simulated device. Affects the truth.
    pub chip: Chip,
    /// Colors the runtime's lines, as the runtime always does.
    pub color: bool,
    /// The percentage of lines that are followed by a foreign line.
    pub noise: u8,
    /// 0 for a log without tags; otherwise the number of tagged ranks that all do the same, with interleaved lines.
    pub ranks: u32,
    /// In a tagged log, modules and exceptions are on `stderr`.
    pub split_streams: bool,
    /// A prefix of every line, such as `(EngineCore_DP0 pid=230) `.
    pub prefix: String,
    /// The level of the runtime's logger.
    pub level: Level,
    /// When memory states are printed.
    pub memory: MemoryLevel,
    /// Operations that are not reported (`ttnn.deallocate`, `ttnn.get_device`) also have a state.
    pub states_at_deallocations: bool,
    /// The compiler era of the layouts.
    pub era: LayoutEra,
    /// The tt-metal era of out-of-memory errors.
    pub error_era: ErrorEra,
    /// The module dumps in the log.
    pub modules: Modules,
    /// Lines end in CR LF.
    pub crlf: bool,
    /// Some operations leave memory behind the first time they run. Affects the truth.
    pub keep: bool,
    /// A change of the scenarios that run out of memory. Affects the truth.
    pub change: Change,
    /// The truth contains the bytes at every position; not for large logs.
    pub exact_states: bool,
}

impl Options {
    /// A random form of a log that contains all data.
    pub fn drawn(random: &mut Random) -> Self {
        Self {
            seed: random.between(0, 99_999),
            chip: random.pick(&[Chip::Wormhole, Chip::BlackholeP150, Chip::BlackholeP100]),
            era: random.pick(&LayoutEra::ALL),
            error_era: random.pick(&ErrorEra::ALL),
            color: random.chance(50),
            noise: random.pick(&[0, 0, 10, 60]),
            crlf: random.chance(20),
            ranks: random.pick(&[0, 0, 1, 2]),
            split_streams: random.chance(50),
            ..Self::default()
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            chip: Chip::default(),
            color: true,
            noise: 0,
            ranks: 0,
            split_streams: false,
            prefix: String::new(),
            level: Level::default(),
            memory: MemoryLevel::default(),
            states_at_deallocations: true,
            era: LayoutEra::default(),
            error_era: ErrorEra::default(),
            modules: Modules::default(),
            crlf: false,
            keep: false,
            change: Change::default(),
            exact_states: false,
        }
    }
}
