//! What a log shows of the truth.

use ttmem_testkit::tt::{ErrorEra, Level, MemoryLevel, Modules, Options};

/// Which module dumps a log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dumped {
    /// None.
    None,
    /// Names and kinds of arguments, but neither layouts nor bodies.
    Signatures,
    /// What the runtime executes.
    Full,
}

/// What a log shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent switches of whoever captured the log")]
pub struct Shown {
    /// Programs and the texts of operations: the logger was at DEBUG.
    pub texts: bool,
    /// A state before every operation, perhaps without those that are not reported.
    pub before_operations: bool,
    /// A state before `ttnn.deallocate` and `ttnn.get_device` too.
    pub before_all_operations: bool,
    /// A state before and after every submitted program.
    pub around_submits: bool,
    pub modules: Dumped,
    /// An error says what was free; otherwise the last state must.
    pub error_has_statistics: bool,
}

impl Shown {
    /// What a log with these options shows.
    pub fn by(options: &Options) -> Self {
        let before_operations = options.memory != MemoryLevel::Program;
        Self {
            texts: options.level == Level::Debug,
            before_operations,
            before_all_operations: before_operations && options.states_at_deallocations,
            around_submits: options.memory != MemoryLevel::Operation,
            modules: match options.modules {
                Modules::None => Dumped::None,
                Modules::SignaturesOnly => Dumped::Signatures,
                Modules::Full => Dumped::Full,
            },
            error_has_statistics: matches!(
                options.error_era,
                ErrorEra::Statistics | ErrorEra::DependenciesStatistics | ErrorEra::Prefixed
            ),
        }
    }

    /// What a log shows, by the plainest look at its text.
    pub fn of_log(log: &[u8]) -> Self {
        let log = String::from_utf8_lossy(log);
        let count = |text: &str| log.matches(text).count();
        let before_operations = count("state before operation ") > 0;
        let silent = [("DeallocateOp", "\"ttnn.deallocate\""), ("GetDeviceOp", "\"ttnn.get_device\"")];
        let states_of = |op: &str| {
            count(&format!("before operation {op}\n")) + count(&format!("before operation {op}\r"))
        };
        // Operations in a dump are indented; in the log they stand behind the logger's prefix.
        let is_executed = |line: &str, op: &str| line.contains("| Executing") && line.contains(op);
        let executed = |op: &str| log.lines().filter(|line| is_executed(line, op)).count();
        Self {
            texts: count("| Executing operation: ") > 0,
            before_operations,
            before_all_operations: before_operations
                && silent.iter().all(|(kind, op)| states_of(kind) >= executed(op)),
            around_submits: count("memory state before submit") > 0,
            modules: if count("MLIR Module ttnn:") > 0 {
                Dumped::Full
            } else if count("MLIR Module ") > 0 {
                Dumped::Signatures
            } else {
                Dumped::None
            },
            error_has_statistics: count("largest free block: ") > 0,
        }
    }

    /// Whether the log has every operation, so that positions are those of the truth.
    pub fn has_positions(self) -> bool {
        self.texts || self.before_all_operations
    }

    /// Whether every byte can be given to a tensor.
    pub fn explains_all(self) -> bool {
        self.texts && self.before_all_operations && self.modules == Dumped::Full
    }
}
