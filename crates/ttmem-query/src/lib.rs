//! Requests and responses: the only place where front-ends get numbers.
//!
//! A response is plain data that serialises as the contract says. Whatever is shown anywhere (terminal, JSON,
//! Markdown, files, page) comes from here, so that a number shown twice is the same number.

mod about;
pub mod analyze;
mod answer;
mod device;
mod expectations;
mod expected;
mod faults;
pub mod gantt;
pub mod ir;
mod level;
mod memory_profile;
mod named;
pub mod operations;
pub mod over_time;
mod parts;
pub mod phases;
mod ranks;
pub mod registry;
mod rows;
mod statement;
mod suggestions;
mod summary;
pub mod timeline;
#[cfg(feature = "typescript")]
pub mod typescript;
mod verdict;
pub mod words;

pub use about::{About, AboutPeak, Extent, ShownPeak};
pub use analyze::fragmentation::Severity;
pub use answer::{
    AllocatorLevels, AtMoment, Caused, Checkpoint, ChosenRuns, Counts, Declared, ExpectedSummary,
    FaultSummary, Fragmentation, LiveTensor, MadeIn, Oom, OpCount, Outside, OwnerSummary, PaddedTensor,
    PaddingSummary, PhaseSummary, PoolMoment, PoolSummary, Ran, RankSummary, ResidueRow, SessionSummary,
    SourceSummary, Suggestion, SuggestionTensor, Summary, Suspect, WarningSummary, Weight, Weights,
};
pub use device::DeviceKind;
pub use expectations::{Expectation, Expectations};
pub use gantt::{Gantt, GanttRequest, RankGantt, gantt};
pub use ir::IrFile;
pub use level::{Level, Limits, Thresholds};
pub use memory_profile::{MemoryProfile, memory_profile};
pub use named::Named;
pub use operations::{MemoryFile, OperationsFile, highest_peak};
pub use over_time::{ChartRequest, Drawn, OverTime, chart};
pub use phases::{Phases, PhasesRequest, phases};
pub use ranks::{ProcessFilter, in_order};
pub use registry::RegistryFile;
pub use rows::{Entries, Shape};
pub use statement::Statement;
pub use suggestions::{Urgency, suggestion_names};
pub use summary::{Request, RunFilter, summary};
pub use ttmem_model::MemorySize;
