//! The answer of `ttmem summary`, field by field as the contract promises it.
//!
//! All sizes are whole bytes; `_per_bank` is one bank, `_total` one device. `None` is not known, never zero.

use serde::Serialize;
use ttmem_model::{Block, Class, Position, Step};

use super::about::Extent;
use super::device::DeviceKind;
use super::level::Level;
use super::named::Named;
use super::statement::Statement;
use super::suggestions::Urgency;
use crate::analyze::fragmentation::Severity;

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Summary {
    /// The version of this form.
    pub schema: u32,
    /// What was read.
    pub source: SourceSummary,
    /// The answer for each rank.
    pub ranks: Vec<RankSummary>,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct SourceSummary {
    /// The name of the format.
    pub format: String,
    /// The files, as they were named.
    pub files: Vec<String>,
    /// What people should know.
    pub warnings: Vec<WarningSummary>,
    /// Lines that were not understood.
    pub skipped_lines: u64,
}

/// A warning.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct WarningSummary {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: Option<u64>,
    /// What is wrong.
    pub message: String,
}

/// The answer for one rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct RankSummary {
    /// Its label.
    pub rank: Option<String>,
    /// Which process of its log it is, counted from 1.
    pub process: u32,
    /// How many processes wrote its log.
    pub processes: u32,
    /// The file it is in.
    pub file: String,
    /// The kind of device it ran on.
    pub device: Option<DeviceKind>,
    /// Top-level program runs.
    pub runs: usize,
    /// How often the sequence of programs ran.
    pub passes: usize,
    /// Which of the runs the answer is about, where not all of them.
    pub chosen_runs: Option<ChosenRuns>,
    /// The operations.
    pub operations: Counts,
    /// The reported operations by name, the most frequent first.
    pub distribution: Vec<OpCount>,
    /// The pools.
    pub pools: Named<PoolSummary>,
    /// The pool that matters most at its peak: the one that ran out, or DRAM.
    pub peak: Option<PoolMoment>,
    /// Every pool at its peak.
    pub peaks: Named<PoolMoment>,
    /// The moment that was asked for.
    pub at: Option<AtMoment>,
    /// The padding of what is alive at the DRAM peak.
    pub padding: Option<PaddingSummary>,
    /// The steps that added most.
    pub suspects: Vec<Suspect>,
    /// Changes that belong to no step.
    pub outside: Vec<Outside>,
    /// Where free memory was most in pieces.
    pub fragmentation: Named<Fragmentation>,
    /// The weights.
    pub weights: Option<Weights>,
    /// The inputs.
    pub inputs: Option<Declared>,
    /// The error that ended the program.
    pub oom: Option<Oom>,
    /// The sentence on the exception that ended the program. Where `oom` is set as well, it is the same error as Python
    /// reports it, or a later one.
    pub ended_by: Option<String>,
    /// All errors.
    pub faults: Vec<FaultSummary>,
    /// The sessions of phases.
    pub sessions: Vec<SessionSummary>,
    /// The phases of all sessions, in order.
    pub phases: Vec<PhaseSummary>,
    /// What is expected of classes of tensors, and what they took.
    pub expected: Vec<ExpectedSummary>,
    /// The moments that the program has named, in order; not there where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Checkpoint>,
    /// What ran, in order, as the program names it; not there where it names nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ran: Vec<Ran>,
    /// What could be changed, what matters most first.
    pub suggestions: Vec<Suggestion>,
}

/// A moment that the program has named.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Checkpoint {
    /// Its name.
    pub name: String,
    /// When it was, since the recording began.
    pub time_ns: u64,
    /// The position.
    pub step: Position,
    /// What was allocated in each pool then.
    pub pools: Named<Option<u64>>,
}

/// A part of the program, and what its calls came to that have ended: what they and the calls inside of them did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Ran {
    /// Its name.
    pub name: String,
    /// `operation`, `forward`, `backward` or `optimizer`.
    pub kind: &'static str,
    /// How many others it is inside of: those above it with less.
    pub depth: usize,
    /// How often it ran to its end.
    pub calls: u64,
    /// How many calls still ran when the evidence ended.
    pub running: u64,
    /// How long, in all; `None` where the length of a call is not known.
    pub time_ns: Option<u64>,
    /// How long the longest call took; `None` likewise.
    pub longest_ns: Option<u64>,
    /// The most that one call held above what was there when it began.
    pub peak_bytes: Option<u64>,
    /// What they allocated, in all.
    pub allocated_bytes: Option<u64>,
    /// What they had made and left behind, each when it ended, in all.
    pub kept_bytes: Option<u64>,
    /// What they allocated less what they gave back.
    pub change_bytes: Option<i64>,
}

/// What is expected of a class of tensors, and what it took.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ExpectedSummary {
    /// The class.
    pub class: Class,
    /// What is expected, on the device.
    pub expected_bytes: u64,
    /// Who expects it: `recording` or `request`.
    pub from: &'static str,
    /// How it was computed.
    pub how: String,
    /// The most that the class took at one moment, in all pools together.
    pub measured_bytes: Option<u64>,
    /// The position at which that was first reached.
    pub measured_step: Option<Position>,
    /// What it took in each pool then.
    pub measured_by_pool: Option<Named<u64>>,
    /// What was measured less what is expected.
    pub difference_bytes: Option<i64>,
    /// The same in percent of what is expected.
    pub difference_pct: Option<f64>,
    /// Why it was not measured, and what to do about it.
    pub note: Option<&'static str>,
}

/// What could be changed, and what that would save.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Suggestion {
    /// The name of the suggestion.
    pub rule: &'static str,
    /// How urgent it is.
    pub urgency: Urgency,
    /// The pool that it is about.
    pub pool: String,
    /// Its sentences.
    #[serde(flatten)]
    pub statement: Statement,
    /// All of its sentences in one text.
    pub message: String,
    /// By how much the peak of the pool would be lower, in each bank.
    pub saves_per_bank: Option<u64>,
    /// The same of the device.
    pub saves_bytes: Option<u64>,
    /// The first of the steps that it is about.
    pub step: Option<Step>,
    /// The steps that it is about, the earliest first.
    pub steps: Vec<Step>,
    /// The number of these steps, listed or not.
    pub step_count: usize,
    /// The tensors that it is about, largest first; `None` where the evidence has no tensors.
    pub tensors: Option<Vec<SuggestionTensor>>,
    /// The number of these tensors, listed or not.
    pub tensor_count: Option<usize>,
}

/// A tensor that a suggestion is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct SuggestionTensor {
    /// Its name, or its name in the program.
    pub name: Option<String>,
    /// Its name in the program.
    pub ssa: Option<String>,
    /// Its shape.
    pub shape: Option<Vec<u64>>,
    /// Its element.
    pub dtype: Option<String>,
    /// Its size in each bank.
    pub per_bank: Option<u64>,
    /// The step that made it.
    pub born_step: Option<Step>,
}

/// Runs that were chosen, by their numbers from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ChosenRuns {
    /// The first.
    pub first: usize,
    /// The last.
    pub last: usize,
    /// Of how many.
    pub of: usize,
}

/// How many operations there are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Counts {
    /// All, deallocations included.
    pub total: u32,
    /// Without deallocate and get_device.
    pub reported: u32,
    /// Of the reported: those that make or load constants.
    pub weight: Option<u32>,
    /// Of the reported: all others.
    pub activation: Option<u32>,
}

/// How often an operation ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct OpCount {
    /// Its name.
    pub op: String,
    /// How often.
    pub count: u32,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PoolSummary {
    /// In how many banks it lies.
    pub banks: Option<u32>,
    /// What its sizes are sizes of, those that are called `per_bank`.
    pub extent: Extent,
    /// The size of a bank.
    pub capacity_per_bank: Option<u64>,
    /// The highest use of a bank.
    pub peak_per_bank: Option<u64>,
    /// How close that is to the capacity.
    pub level: Option<Level>,
    /// The highest use of the device; by its own rule, where the evidence has one.
    pub peak_total: Option<u64>,
    /// The position of the peak.
    pub peak_step: Option<Position>,
    /// The step before it.
    pub caused_by_step: Option<Step>,
    /// What is allocated at the end.
    pub final_per_bank: Option<u64>,
    /// The same of the device. Evidence that knows nothing of what was there before may say less than nothing.
    pub final_total: Option<i64>,
    /// `measured` or `rebuilt`.
    pub final_source: Option<&'static str>,
    /// What was free at the peak.
    pub free_at_peak_per_bank: Option<u64>,
    /// The largest piece of it.
    pub largest_free_at_peak_per_bank: Option<u64>,
    /// The step of rounding.
    pub quantum_per_bank: u64,
    /// What a caching allocator says besides; not there where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator: Option<AllocatorLevels>,
    /// It is a counter that was read now and then, beside pools whose every change was seen; not there where it is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub polled: bool,
    /// Where the peak is from, if the pool was only sampled: `counted` is the evidence's own figure, `sampled` the highest
    /// sample, which is a lower bound. Not there where every change was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_source: Option<&'static str>,
    /// The highest sample of such a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_sample_per_bank: Option<u64>,
    /// What is not in these figures, in words; not there where nothing is known to be missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_watched: Vec<String>,
}

/// The levels that a caching allocator tells apart, in bytes of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct AllocatorLevels {
    /// What the program asked for, when most was allocated.
    pub requested_at_peak_total: Option<u64>,
    /// What was allocated or waited for a stream then.
    pub active_at_peak_total: Option<u64>,
    /// What the allocator had from the driver then.
    pub reserved_at_peak_total: Option<u64>,
    /// The most that it had from the driver.
    pub reserved_peak_total: Option<u64>,
}

/// A pool at a moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PoolMoment {
    /// The pool.
    pub pool: String,
    /// The position.
    pub step: Option<Position>,
    /// The phase.
    pub phase: Option<String>,
    /// The step that brought it there.
    pub caused_by: Option<Caused>,
    /// It was brought there between two programs, by no step.
    pub caused_outside_programs: bool,
    /// What the device says is allocated.
    pub allocated_per_bank: Option<u64>,
    /// What is free.
    pub free_per_bank: Option<u64>,
    /// The largest piece of it.
    pub largest_free_per_bank: Option<u64>,
    /// What the tensors add up to.
    pub explained_per_bank: Option<u64>,
    /// The rest; negative where the tensors add up to more.
    pub unexplained_per_bank: Option<i64>,
    /// What the tensors add up to, by class.
    pub by_class_per_bank: Option<Named<u64>>,
    /// The unexplained bytes, by the operations that left them behind.
    pub residue: Option<Vec<ResidueRow>>,
    /// How many tensors are alive.
    pub live_count: Option<usize>,
    /// Where those were made that running made, the most first; not there where the program names no parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_in: Option<Vec<MadeIn>>,
    /// The tensors, largest first.
    pub live: Option<Vec<LiveTensor>>,
    /// How a bank is cut up, where the evidence has block tables.
    pub blocks: Option<Vec<Block>>,
}

/// What a part of the program made of what is alive: activations, what is temporary, and what nobody knows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct MadeIn {
    /// The part: `h.*.mlp` for layers that are alike; null for what was made outside of all parts.
    pub name: Option<String>,
    /// `operation`, `forward`, `backward` or `optimizer`.
    pub kind: Option<&'static str>,
    /// How many parts have that name.
    pub scopes: usize,
    /// How many tensors.
    pub tensors: usize,
    /// What they take of each bank.
    pub per_bank: u64,
}

/// The step that brought a pool to where it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Caused {
    /// The step.
    pub step: Step,
    /// Its operation.
    pub op: Option<String>,
    /// Its location.
    pub loc: Option<String>,
    /// The program it ran in.
    pub program: Option<String>,
    /// The top-level run.
    pub run: Option<usize>,
}

/// Bytes that no tensor explains.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ResidueRow {
    /// The operation that left them behind; null where it was none, or one of several.
    pub op: Option<String>,
    /// How many, in each bank.
    pub per_bank: i64,
    /// In how many steps.
    pub steps: usize,
    /// In how many of them it ran with these types and attributes for the first time.
    pub first_uses: usize,
    /// Which steps: when it stayed behind.
    pub at_steps: Vec<Step>,
    /// What is known where there is no operation.
    pub note: Option<&'static str>,
}

/// A tensor that is alive.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LiveTensor {
    /// What people call it, or its name in the program.
    pub name: Option<String>,
    /// Its name where it was born.
    pub ssa: Option<String>,
    /// The program where it was born.
    pub program: Option<String>,
    /// The top-level run.
    pub run: Option<usize>,
    /// Its other names.
    pub also: Vec<String>,
    /// The operation that made it.
    pub op: Option<String>,
    /// Where that stands.
    pub loc: Option<String>,
    /// The part of the program that it was made in; not there where the program names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_in: Option<String>,
    /// What it is to the model.
    pub class: Class,
    /// Its shape.
    pub shape: Option<Vec<u64>>,
    /// Its element.
    pub dtype: Option<String>,
    /// What it takes of each bank.
    pub per_bank: Option<u64>,
    /// What it takes of the device, padding included.
    pub padded_bytes: Option<u64>,
    /// What its elements take.
    pub logical_bytes: Option<u64>,
    /// The step that made it.
    pub born_step: Option<Step>,
    /// The step that ended it.
    pub dies_step: Option<Step>,
    /// It went between two programs: it is gone before this step.
    pub gone_before_step: Option<Position>,
}

/// A moment that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct AtMoment {
    /// The position.
    pub step: Position,
    /// The operation that follows.
    pub op: Option<String>,
    /// Its location.
    pub loc: Option<String>,
    /// Every pool then.
    pub pools: Named<PoolMoment>,
}

/// Padding.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PaddingSummary {
    /// All bytes.
    pub padded_bytes: u64,
    /// The bytes of the elements.
    pub logical_bytes: u64,
    /// The first beyond the second, in percent of the second.
    pub overhead_pct: Option<f64>,
    /// The tensors with most padding.
    pub top: Vec<PaddedTensor>,
}

/// A tensor with padding.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PaddedTensor {
    /// Its name.
    pub name: Option<String>,
    /// The operation that made it.
    pub op: Option<String>,
    /// Where that stands.
    pub loc: Option<String>,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The shape that it is padded to.
    pub padded_shape: Option<Vec<u64>>,
    /// Its element.
    pub dtype: String,
    /// All bytes.
    pub padded_bytes: u64,
    /// The bytes of the elements.
    pub logical_bytes: u64,
    /// The difference.
    pub overhead_bytes: u64,
    /// The same in percent of the elements.
    pub overhead_pct: Option<f64>,
}

/// A step that added much.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Suspect {
    /// The step.
    pub step: Step,
    /// Its operation.
    pub op: Option<String>,
    /// Its location.
    pub loc: Option<String>,
    /// The shape of its first result.
    pub shape: Option<Vec<u64>>,
    /// The element of its first result.
    pub dtype: Option<String>,
    /// What it added to each bank of DRAM (of the first pool, where there is no DRAM).
    pub added_per_bank: u64,
}

/// A change between programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Outside {
    /// The pool.
    pub pool: String,
    /// The position.
    pub step: Position,
    /// What changed in each bank.
    pub change_per_bank: i64,
}

/// Fragmentation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Fragmentation {
    /// The position where it is worst.
    pub step: Position,
    /// What is free there.
    pub free_per_bank: u64,
    /// The largest piece of it.
    pub largest_free_per_bank: u64,
    /// How much it matters.
    pub severity: Severity,
    /// How a bank is cut up there, where the evidence has block tables.
    pub blocks: Option<Vec<Block>>,
}

/// The weights.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Weights {
    /// How many.
    pub count: usize,
    /// The bytes of their elements.
    pub bytes: u64,
    /// Those of them that are on the device in two forms at the DRAM peak.
    pub kept_twice_bytes: Option<u64>,
    /// The largest.
    pub largest: Vec<Weight>,
}

/// A weight.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Weight {
    /// What people call it.
    pub name: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its element.
    pub dtype: String,
    /// The bytes of its elements.
    pub bytes: Option<u64>,
    /// What was computed from it is on the device, too, at the DRAM peak.
    pub kept_twice: Option<bool>,
}

/// The inputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Declared {
    /// How many.
    pub count: usize,
    /// The bytes of their elements.
    pub bytes: u64,
}

/// The error that ended the program.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Oom {
    /// The verdict in sentences.
    #[serde(flatten)]
    pub statement: Statement,
    /// The pool.
    pub pool: Option<String>,
    /// Why.
    pub cause: &'static str,
    /// Where the numbers are from.
    pub evidence: &'static str,
    /// What was asked for, of the device.
    pub requested_total: Option<u64>,
    /// What was asked for, of each bank.
    pub requested_per_bank: Option<u64>,
    /// Over how many banks.
    pub banks: Option<u32>,
    /// What was free of each.
    pub free_per_bank: Option<u64>,
    /// The largest piece of it.
    pub largest_free_per_bank: Option<u64>,
    /// How many more bytes of each bank would have been enough.
    pub lacks_per_bank: Option<u64>,
    /// What tensors held then; not there where the evidence is not a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_per_bank: Option<u64>,
    /// The part of the program that the step ran in; not there where the program names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// Circular buffers: how many bytes they and the buffers both need.
    pub overlap_bytes: Option<u64>,
    /// The step.
    pub step: Option<Step>,
    /// Its operation.
    pub op: Option<String>,
    /// Its location.
    pub loc: Option<String>,
    /// The tensors of just that size.
    pub belongs_to: Vec<OwnerSummary>,
    /// The message.
    pub message: String,
}

/// A tensor of the size that did not fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct OwnerSummary {
    /// `result`, `operand` or `argument`.
    pub part: &'static str,
    /// Its name in the program.
    pub ssa: String,
    /// What people call it.
    pub name: Option<String>,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Its element.
    pub dtype: String,
    /// It has that size only with elements twice as wide as declared.
    pub widened: bool,
}

/// An error.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct FaultSummary {
    /// What kind.
    pub kind: &'static str,
    /// The pool.
    pub pool: Option<String>,
    /// The step.
    pub step: Option<Step>,
    /// The operation.
    pub op: Option<String>,
    /// The line.
    pub line: Option<u64>,
    /// Whether the program never came to its end.
    pub ended_program: bool,
    /// The message.
    pub message: String,
}

/// A session of phases.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct SessionSummary {
    /// What people call it.
    pub name: Option<String>,
    /// The parameters of the model.
    pub parameters: Option<u64>,
    /// Their element.
    pub dtype: Option<String>,
    /// The memory of the device.
    pub device_memory_bytes: Option<u64>,
    /// Nothing was allocated: the figures are what would have been.
    pub estimated: bool,
    /// Whether its end was reached.
    pub finished: bool,
    /// The line that it begins on, from 1.
    pub line: Option<u64>,
    /// The highest use of all phases that are known.
    pub peak_bytes: Option<i64>,
    /// How close that is to the memory of the device.
    pub level: Option<Level>,
    /// Whether it is below the memory of the device.
    pub fits: Option<bool>,
    /// The use at the end.
    pub final_bytes: Option<i64>,
}

/// A phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[allow(missing_docs, reason = "the glossary of the contract says each")]
pub struct PhaseSummary {
    pub session: usize,
    pub name: String,
    pub first_step: Option<Step>,
    pub end_step: Option<Step>,
    pub segment_peak_bytes: Option<i64>,
    pub allocations_bytes: Option<u64>,
    pub deallocations_bytes: Option<u64>,
    pub change_bytes: Option<i64>,
    pub cumulative_peak_bytes: Option<i64>,
    pub cumulative_current_bytes: Option<i64>,
    pub l1_peak_cb_bytes: Option<u64>,
    pub l1_peak_buffer_bytes: Option<u64>,
    pub l1_peak_total_bytes: Option<u64>,
}
