//! Requests and responses: the only source of numbers for front ends.
//!
//! A response is plain data that serializes to the documented JSON. Every number on any front end (terminal, JSON,
//! Markdown, files, page) comes from here, so the same number is the same everywhere.

mod about;
mod allocations;
pub mod analyze;
mod answer;
mod caveats;
mod check;
mod clash;
mod comparison;
mod device;
mod device_use;
mod diff;
mod expectations;
mod expected;
mod faults;
pub mod filter;
mod find;
mod flame;
pub mod gantt;
mod groups;
mod growth;
mod holders;
pub mod ir;
mod l1;
mod ledger;
mod level;
mod lives;
mod memory_map;
mod memory_profile;
mod named;
pub mod operations;
pub mod over_time;
mod parts;
pub mod phases;
mod pool_order;
mod ranks;
pub mod registry;
mod replayed;
mod rows;
mod statement;
mod suggestions;
mod summary;
mod threads;
pub mod timeline;
#[cfg(feature = "typescript")]
pub mod typescript;
mod verdict;
mod ways_out;
pub mod words;

pub use about::{About, AboutPeak, Extent, ShownPeak};
pub use allocations::{
    AllocationGroup, Allocations, GroupBy, Grouping, ModuleSource, Sum, Transient, Waste, WasteInPart,
    groupings,
};
pub use analyze::diff::ChangeKind;
pub use analyze::fragmentation::Severity;
pub use analyze::reserved::ReservedPool;
pub use answer::{
    AllocatorLevels, AtMoment, Caused, Checkpoint, ChosenRuns, Counts, Declared, ExpectedSummary,
    FaultSummary, Fragmentation, Increase, LaunchSummary, LiveTensor, MadeIn, Oom, OpCount, Outside,
    OwnerSummary, PaddedTensor, PaddingSummary, PhaseSummary, PoolMoment, PoolSummary, Ran, RankSummary,
    ResidueRow, SessionSummary, SourceSummary, Summary, Suspect, WarningSummary, Weight, Weights,
};
pub use check::{
    CheckKind, CheckLimits, CheckRequest, Checked, HeldRow, LimitChecked, Outcome, RankChecked, SourceLine,
    UnreadableFile, check,
};
pub use clash::{Clash, ClashLine, ClashPart};
pub use comparison::{ClassComparison, Comparison};
pub use device::DeviceKind;
pub use device_use::DeviceUse;
pub use diff::{
    AlignedDiff, AlignedOutline, AlignedPool, AlignedRank, ChangeRow, ClassDiff, Diff, DiffRequest,
    DiffSource, GrowthLimit, MovedFrom, OperationsDiff, OutOfMemory, OutOfMemoryDiff, OverLimit, OverlapRow,
    OverlappedTensor, OverlappedTensors, PoolDiff, RankDiff, TensorSide, UnknownGrowth, aligned_diff, diff,
};
pub use expectations::{Expectation, Expectations};
pub use find::{FindRequest, Found, FoundTensor, find};
pub use flame::{Flame, FlameName, FlameNode, FlameOf, FlameWhen, UNKNOWN_STACK, flame};
pub use gantt::{Gantt, GanttRequest, RankGantt, gantt};
pub use groups::{TensorGroup, groups, location_text};
pub use growth::{GrowthSummary, GrowthUnit, GrowthVerdict, Survivor, SurvivorKind, growth};
pub use holders::{HolderRow, HoldersSummary};
pub use ir::IrFile;
pub use l1::{L1Moment, L1Part, L1Summary, TtnnL1Peaks};
pub use ledger::{ExecutablePart, LedgerPart, LedgerSetting, LedgerSummary, ReportedSummary};
pub use level::{Level, Limits, Thresholds};
pub use lives::{Life, Lives, PoolPoint, StackLines};
pub use memory_map::{MappedBuffer, MappedPool, MemoryMap, memory_map};
pub use memory_profile::{MemoryProfile, memory_profile};
pub use named::Named;
pub use operations::{MemoryFile, OperationsFile, highest_peak};
pub use over_time::{ChartRequest, Drawn, OverTime, chart};
pub use phases::{Growth as SessionGrowth, Phases, PhasesRequest, phases};
pub use ranks::{ProcessFilter, RankOrder, in_order};
pub use registry::RegistryFile;
pub use replayed::{Difference, Replayed, replayed};
pub use rows::{Entries, Shape};
pub use statement::Statement;
pub use suggestions::{
    Combination, GROWTH_SUGGESTIONS, Suggestion, SuggestionGroup, SuggestionTensor, Urgency, suggestion_docs,
    suggestion_names,
};
pub use summary::{Request, RunFilter, summary};
pub use ttmem_model::MemorySize;
pub use ways_out::{ReplaySummary, TensorFacts, WayOut};
