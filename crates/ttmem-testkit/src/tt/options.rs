//! What a log should look like. The truth does not depend on any of it, except where it says so.

use super::chip::Chip;
use super::dialect::LayoutEra;
use super::oom::ErrorEra;
use crate::random::Random;

/// What the runtime's logger lets through.
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

/// Which module dumps the log has.
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

/// What a log should look like.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of one log")]
pub struct Options {
    /// Names the sizes, shapes and choices of the scenario. The truth depends on it.
    pub seed: u64,
    /// The device that runs it. The truth depends on it.
    pub chip: Chip,
    /// Colours the runtime's lines, as the runtime always does.
    pub colour: bool,
    /// How many of 100 lines are followed by a line of somebody else.
    pub noise: u8,
    /// Zero for a log without tags; else that many tagged ranks that all do the same, line by line in turns.
    pub ranks: u32,
    /// In a tagged log, modules and exceptions are on `stderr`.
    pub split_streams: bool,
    /// Something before every line, such as `(EngineCore_DP0 pid=230) `.
    pub prefix: String,
    /// What the runtime's logger lets through.
    pub level: Level,
    /// When memory states are printed.
    pub memory: MemoryLevel,
    /// Operations that are not reported (`ttnn.deallocate`, `ttnn.get_device`) have a state too.
    pub states_at_deallocations: bool,
    /// The compiler that spells the layouts.
    pub era: LayoutEra,
    /// The tt-metal that reports a lack of memory.
    pub error_era: ErrorEra,
    /// Which module dumps the log has.
    pub modules: Modules,
    /// Lines end in CR LF.
    pub crlf: bool,
    /// Some operations leave bytes behind the first time they run. The truth depends on it.
    pub keep: bool,
    /// The truth has the bytes at every position; not for large logs.
    pub exact_states: bool,
}

impl Options {
    /// A log that looks in any way, and shows all that there is.
    pub fn drawn(random: &mut Random) -> Self {
        Self {
            seed: random.between(0, 99_999),
            chip: random.pick(&[Chip::Wormhole, Chip::BlackholeP150, Chip::BlackholeP100]),
            era: random.pick(&LayoutEra::ALL),
            error_era: random.pick(&ErrorEra::ALL),
            colour: random.chance(50),
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
            colour: true,
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
            exact_states: false,
        }
    }
}
