//! The response of `ttmem summary`. docs/json.md documents every field.
//!
//! All sizes are in bytes: `_per_bank` for one bank, `_total` for one device. `None` means unknown, never zero.

use serde::Serialize;
use ttmem_model::{Block, Class, Position, Profile, Rank, Step, StrId};

use super::about::Extent;
use super::allocations::Allocations;
use super::clash::Clash;
use super::comparison::Comparison;
use super::device::DeviceKind;
use super::growth::GrowthSummary;
use super::holders::HoldersSummary;
use super::l1::L1Summary;
use super::ledger::LedgerSummary;
use super::level::Level;
use super::named::Named;
use super::phases::Growth;
use super::statement::Statement;
use super::suggestions::answer::{Combination, Suggestion};
use super::ways_out::{ReplaySummary, WayOut};
use super::words::size;
use crate::analyze::fragmentation::Severity;

/// The response of `ttmem summary`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Summary {
    /// The version of this format.
    pub schema: u32,
    /// The input files.
    pub source: SourceSummary,
    /// How the worst rank differs from the others, if the input has several ranks of a PyTorch program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// One entry per rank.
    pub ranks: Vec<RankSummary>,
}

/// The input files.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct SourceSummary {
    /// The name of the input format.
    pub format: String,
    /// The input files, as they were given.
    pub files: Vec<String>,
    /// Problems in the input that affect the numbers.
    pub warnings: Vec<WarningSummary>,
    /// The number of lines that could not be parsed.
    pub skipped_lines: u64,
}

/// A problem in an input file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct WarningSummary {
    /// The name of the input file.
    pub file: String,
    /// The line number, from 1.
    pub line: Option<u64>,
    /// What is wrong, and how it affects the numbers.
    pub message: String,
}

/// The summary of one rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct RankSummary {
    /// The rank's label.
    pub rank: Option<String>,
    /// The number of the process that wrote it, from 1, if several processes wrote the log.
    pub process: u32,
    /// The number of processes that wrote the log.
    pub processes: u32,
    /// The input file.
    pub file: String,
    /// The format of that file.
    pub format: String,
    /// The kind of device it ran on.
    pub device: Option<DeviceKind>,
    /// The process that wrote a recording; omitted for other inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<LaunchSummary>,
    /// The number of top-level program runs.
    pub runs: usize,
    /// How often the sequence of programs ran.
    pub passes: usize,
    /// The selected runs; `None` if all runs are included.
    pub chosen_runs: Option<ChosenRuns>,
    /// The number of operations.
    pub operations: Counts,
    /// The reported operations by name, most frequent first.
    pub distribution: Vec<OpCount>,
    /// The memory pools, by name.
    pub pools: Named<PoolSummary>,
    /// The allocations of the most important pool, grouped; omitted if the input does not record a caching allocator and
    /// neither a filter nor a grouping was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<Allocations>,
    /// The L1 of a Tenstorrent core: tensors, the buffers of programs, and the headroom between them.
    pub l1: Option<L1Summary>,
    /// The peak of the most important pool: the one that ran out of memory, or DRAM.
    pub peak: Option<PoolMoment>,
    /// Every pool at its peak.
    pub peaks: Named<PoolMoment>,
    /// The requested position.
    pub at: Option<AtMoment>,
    /// The padding of the tensors that are live at the DRAM peak.
    pub padding: Option<PaddingSummary>,
    /// The steps with the largest increases.
    pub suspects: Vec<Suspect>,
    /// The largest increases in DRAM (in the first pool, if there is no DRAM); identical steps share a row.
    pub increases: Vec<Increase>,
    /// Changes between programs, which belong to no step.
    pub outside: Vec<Outside>,
    /// The worst fragmentation of each pool.
    pub fragmentation: Named<Fragmentation>,
    /// The weights of the model.
    pub weights: Option<Weights>,
    /// The inputs of the model.
    pub inputs: Option<Declared>,
    /// The out-of-memory error that ended the program.
    pub oom: Option<Oom>,
    /// A sentence about the exception that ended the program. If `oom` is also set, this is the same error as reported
    /// by Python, or a later one.
    pub ended_by: Option<String>,
    /// All errors.
    pub faults: Vec<FaultSummary>,
    /// The training sessions.
    pub sessions: Vec<SessionSummary>,
    /// The phases of all sessions, in order.
    pub phases: Vec<PhaseSummary>,
    /// The expected and measured sizes of tensor classes.
    pub expected: Vec<ExpectedSummary>,
    /// The moments that the program named, in order; omitted if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Checkpoint>,
    /// The named parts of the program, in order; omitted if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ran: Vec<Ran>,
    /// Whether memory grows from iteration to iteration; omitted if fewer than six iterations are
    /// known or only some runs are included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<GrowthSummary>,
    /// What kept tensors alive at the last search for it; omitted if the recording has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holders: Option<HoldersSummary>,
    /// Suggested changes, most important first.
    pub suggestions: Vec<Suggestion>,
    /// What some of the suggestions save together, the smallest combination first.
    pub combinations: Vec<Combination>,
}

/// The process that wrote a recording. What is unknown is null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LaunchSummary {
    /// The arguments of the program; the first is its name.
    pub argv: Vec<String>,
    /// The process id.
    pub pid: Option<u32>,
    /// The number of the rank.
    pub rank: Option<u32>,
    /// The number of the rank on its host.
    pub local_rank: Option<u32>,
    /// The number of ranks.
    pub world_size: Option<u32>,
    /// The name of the host.
    pub host: Option<String>,
    /// The version of Python.
    pub python: Option<String>,
    /// The version of PyTorch.
    pub torch: Option<String>,
    /// The device runtime that PyTorch was built for: `CUDA 13.0`.
    pub runtime: Option<String>,
    /// The version of the device driver.
    pub driver: Option<String>,
}

impl LaunchSummary {
    /// The process of a rank, if it is known.
    pub(crate) fn of(profile: &Profile, rank: &Rank) -> Option<Self> {
        let launch = rank.launch?;
        let text = |id: StrId| profile.text(id).to_owned();
        Some(Self {
            argv: rank.launch_arguments.iter().copied().map(text).collect(),
            pid: launch.pid,
            rank: launch.rank,
            local_rank: launch.local_rank,
            world_size: launch.world_size,
            host: launch.host.map(text),
            python: launch.python.map(text),
            torch: launch.torch.map(text),
            runtime: launch.runtime.map(text),
            driver: launch.driver.map(text),
        })
    }

    /// The process in a line: `rank 3 of 8 on gpu-7, Python 3.13.1, PyTorch 2.9.0, CUDA 13.0, driver 580.65.06`.
    pub fn text(&self) -> String {
        let host = self.host.as_ref().map(|host| format!("on {host}"));
        let rank = self.rank.zip(self.world_size.filter(|size| *size > 1));
        let rank = rank.map(|(rank, size)| format!("rank {rank} of {size}"));
        let place: Vec<String> = rank.into_iter().chain(host).collect();
        let named = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name}{value}"));
        let versions = [
            named("Python ", &self.python),
            named("PyTorch ", &self.torch),
            self.runtime.clone(),
            named("driver ", &self.driver),
        ];
        let place = Some(place.join(" ")).filter(|place| !place.is_empty());
        place.into_iter().chain(versions.into_iter().flatten()).collect::<Vec<_>>().join(", ")
    }
}

/// A moment that the program named.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Checkpoint {
    /// The name that the program gave.
    pub name: String,
    /// The time since the start of the recording.
    pub time_ns: u64,
    /// The position in the run.
    pub step: Position,
    /// The allocated bytes of each pool.
    pub pools: Named<Option<u64>>,
}

/// A part of the program, with totals over its finished calls. The totals include nested calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Ran {
    /// The name of the module, operation or pass.
    pub name: String,
    /// `operation`, `forward`, `backward` or `optimizer`.
    pub kind: &'static str,
    /// The nesting depth: the number of enclosing parts.
    pub depth: usize,
    /// The number of finished calls.
    pub calls: u64,
    /// The number of calls that had not finished when the recording ended.
    pub running: u64,
    /// The total duration of all calls; `None` if the duration of a call is unknown.
    pub time_ns: Option<u64>,
    /// The duration of the longest call; `None` if the duration of a call is unknown.
    pub longest_ns: Option<u64>,
    /// The highest memory use during one call, relative to its start.
    pub peak_bytes: Option<u64>,
    /// The total number of bytes that the calls allocated.
    pub allocated_bytes: Option<u64>,
    /// The total number of bytes that the calls allocated and that were still live when each call ended.
    pub kept_bytes: Option<u64>,
    /// The bytes that a call retains: the median of the recorded calls.
    pub retained_per_call_bytes: Option<u64>,
    /// The number of calls that retained memory; null if not every call was recorded.
    pub retaining_calls: Option<u64>,
    /// Bytes allocated minus bytes freed.
    pub change_bytes: Option<i64>,
}

impl Ran {
    /// What a call retains: `384.0 MiB`; `751.7 MiB once` if most calls retain nothing.
    pub fn retained(&self) -> Option<String> {
        let (total, median) = (self.kept_bytes?, self.retained_per_call_bytes?);
        Some(match self.retaining_calls {
            _ if median > 0 || total == 0 => size(median),
            Some(1) => format!("{} once", size(total)),
            Some(calls) => format!("{} in {calls} calls", size(total)),
            None => format!("{} in some calls", size(total)),
        })
    }
}

/// The expected and measured size of a tensor class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ExpectedSummary {
    /// The class.
    pub class: Class,
    /// The expected size on the device.
    pub expected_bytes: u64,
    /// Where the expectation is from: `recording` or `request`.
    pub from: &'static str,
    /// How the expected size was computed.
    pub how: String,
    /// The maximum size of the class at one moment, over all pools.
    pub measured_bytes: Option<u64>,
    /// The position where the maximum was first reached.
    pub measured_step: Option<Position>,
    /// The size of the class in each pool at that position.
    pub measured_by_pool: Option<Named<u64>>,
    /// Measured minus expected bytes.
    pub difference_bytes: Option<i64>,
    /// The difference in percent of the expected size.
    pub difference_pct: Option<f64>,
    /// Why the class was not measured, and what to do about it.
    pub note: Option<&'static str>,
}

/// The selected runs, numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ChosenRuns {
    /// The first selected run.
    pub first: usize,
    /// The last selected run.
    pub last: usize,
    /// The total number of runs.
    pub of: usize,
}

/// The number of operations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Counts {
    /// All operations, including deallocations.
    pub total: u32,
    /// All operations except `deallocate` and `get_device`.
    pub reported: u32,
    /// The reported operations that compute or load constants.
    pub weight: Option<u32>,
    /// All other reported operations.
    pub activation: Option<u32>,
}

/// The number of executions of an operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct OpCount {
    /// The name of the operation.
    pub op: String,
    /// The number of executions.
    pub count: u32,
}

/// A memory pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PoolSummary {
    /// The number of banks.
    pub banks: Option<u32>,
    /// The unit that the `per_bank` sizes refer to.
    pub extent: Extent,
    /// The size of a bank.
    pub capacity_per_bank: Option<u64>,
    /// The highest memory use of a bank.
    pub peak_per_bank: Option<u64>,
    /// How close the peak is to the capacity.
    pub level: Option<Level>,
    /// The highest memory use of the device, computed by the input's own rule if it has one.
    pub peak_total: Option<u64>,
    /// The position of the peak.
    pub peak_step: Option<Position>,
    /// The step before the peak.
    pub caused_by_step: Option<Step>,
    /// The allocated bytes at the end.
    pub final_per_bank: Option<u64>,
    /// The allocated bytes of the device at the end. Negative if the input does not include memory that was allocated
    /// before it starts.
    pub final_total: Option<i64>,
    /// `measured`, or `rebuilt` if it was reconstructed.
    pub final_source: Option<&'static str>,
    /// The free bytes at the peak.
    pub free_at_peak_per_bank: Option<u64>,
    /// The largest free block at the peak.
    pub largest_free_at_peak_per_bank: Option<u64>,
    /// The granularity that the input rounds to.
    pub quantum_per_bank: u64,
    /// The levels reported by a caching allocator; omitted if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator: Option<AllocatorLevels>,
    /// Whether the pool is a counter that was polled, alongside pools that were tracked exactly; omitted if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub polled: bool,
    /// The source of a peak that may not be the true one. `counted` is the input's own figure. The others are lower
    /// bounds: `sampled` is the highest sample, and `recorded` the peak of a history that begins with memory in use.
    /// Omitted if every change was tracked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_source: Option<&'static str>,
    /// The highest sample of a sampled pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_sample_per_bank: Option<u64>,
    /// Memory that these figures do not include, in words; omitted if nothing is known to be missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_watched: Vec<String>,
}

impl PoolSummary {
    /// Whether the true peak may be higher.
    pub fn is_peak_at_least(&self) -> bool {
        matches!(self.peak_source, Some("sampled" | "recorded"))
    }

    /// The levels of the caching allocator, and the maximum number of bytes it reserved. `None` if it reserved nothing:
    /// CPU tensors may have such counters as well, but no caching allocator.
    pub fn caching_allocator(&self) -> Option<(&AllocatorLevels, u64)> {
        let levels = self.allocator.as_ref()?;
        Some((levels, levels.reserved_peak_total.filter(|bytes| *bytes > 0)?))
    }
}

/// The levels that a caching allocator reports, in bytes of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct AllocatorLevels {
    /// The bytes requested by the program at the peak of allocated memory.
    pub requested_at_peak_total: Option<u64>,
    /// The bytes that were allocated, or waiting for a stream, at that peak.
    pub active_at_peak_total: Option<u64>,
    /// The bytes reserved from the driver at that peak.
    pub reserved_at_peak_total: Option<u64>,
    /// The maximum number of bytes reserved from the driver.
    pub reserved_peak_total: Option<u64>,
}

/// A pool at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PoolMoment {
    /// The name of the pool.
    pub pool: String,
    /// The position.
    pub step: Option<Position>,
    /// The training phase.
    pub phase: Option<String>,
    /// The step that led to this level.
    pub caused_by: Option<Caused>,
    /// Whether the level was reached between two programs and not by a step.
    pub caused_outside_programs: bool,
    /// The allocated bytes, as reported by the device.
    pub allocated_per_bank: Option<u64>,
    /// The free bytes.
    pub free_per_bank: Option<u64>,
    /// The largest free block.
    pub largest_free_per_bank: Option<u64>,
    /// The sum of all live tensors.
    pub explained_per_bank: Option<u64>,
    /// Allocated minus explained bytes; negative if the tensors add up to more.
    pub unexplained_per_bank: Option<i64>,
    /// The sum of all live tensors, by class.
    pub by_class_per_bank: Option<Named<u64>>,
    /// The unexplained bytes, by the operation that left them allocated.
    pub residue: Option<Vec<ResidueRow>>,
    /// The number of live tensors.
    pub live_count: Option<usize>,
    /// Where the activations and temporaries were allocated, largest first; omitted if the program has no named parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_in: Option<Vec<MadeIn>>,
    /// The live tensors, largest first.
    pub live: Option<Vec<LiveTensor>>,
    /// The blocks of a bank, if the input has block tables.
    pub blocks: Option<Vec<Block>>,
}

impl PoolMoment {
    /// The parts of the program that allocated live tensors; none if all of them were allocated outside its parts.
    pub fn makers(&self) -> &[MadeIn] {
        let makers = self.made_in.as_deref().unwrap_or_default();
        if makers.iter().any(|maker| maker.name.is_some()) { makers } else { &[] }
    }

    /// Whether modules are known that allocated live tensors.
    pub fn has_modules(&self) -> bool {
        self.makers().iter().any(|maker| maker.kind == Some("forward"))
    }
}

/// The live activations, temporaries and unclassified tensors that a part of the program allocated.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct MadeIn {
    /// The part, such as `h.*.mlp` for similar layers; null for tensors allocated outside all parts.
    pub name: Option<String>,
    /// `operation`, `forward`, `backward` or `optimizer`.
    pub kind: Option<&'static str>,
    /// The number of parts with this name.
    pub scopes: usize,
    /// The number of tensors.
    pub tensors: usize,
    /// The total size of the tensors per bank.
    pub per_bank: u64,
}

/// The step that brought a pool to its level.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Caused {
    /// The number of the step.
    pub step: Step,
    /// The name of the operation.
    pub op: Option<String>,
    /// The source location of the operation.
    pub loc: Option<String>,
    /// The program it ran in.
    pub program: Option<String>,
    /// The number of the top-level run.
    pub run: Option<usize>,
}

/// Bytes that no tensor explains.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ResidueRow {
    /// The operation that left them allocated; null if there was none, or one of several.
    pub op: Option<String>,
    /// The unexplained bytes per bank.
    pub per_bank: i64,
    /// The number of steps that left bytes allocated.
    pub steps: usize,
    /// The number of these steps that ran with types and attributes not used before.
    pub first_uses: usize,
    /// The steps that left bytes allocated.
    pub at_steps: Vec<Step>,
    /// An explanation if there is no operation.
    pub note: Option<&'static str>,
}

/// A live tensor.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LiveTensor {
    /// The name in the model, or the SSA name.
    pub name: Option<String>,
    /// The SSA name in the program that allocated the tensor.
    pub ssa: Option<String>,
    /// The program that allocated it.
    pub program: Option<String>,
    /// The number of the top-level run.
    pub run: Option<usize>,
    /// Other names of the tensor.
    pub also: Vec<String>,
    /// The operation that allocated it.
    pub op: Option<String>,
    /// The source location of that operation.
    pub loc: Option<String>,
    /// The part of the program that allocated it; omitted if the program has no named parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_in: Option<String>,
    /// That part with `*` in place of layer numbers, such as `h.*.mlp`, for groups.
    #[serde(skip)]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub made_in_layers: Option<String>,
    /// The role in the model.
    pub class: Class,
    /// The shape, without padding.
    pub shape: Option<Vec<u64>>,
    /// The element type.
    pub dtype: Option<String>,
    /// The size per bank.
    pub per_bank: Option<u64>,
    /// The size on the device, including padding.
    pub padded_bytes: Option<u64>,
    /// The size of its elements.
    pub logical_bytes: Option<u64>,
    /// The step that allocated it.
    pub born_step: Option<Step>,
    /// The step that freed it.
    pub dies_step: Option<Step>,
    /// The position at its end, if it was freed between two programs.
    pub gone_before_step: Option<Position>,
    /// What kept it alive at the last search that found it; omitted if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
}

/// The requested moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct AtMoment {
    /// The position.
    pub step: Position,
    /// The operation of the step at that position.
    pub op: Option<String>,
    /// The source location of that operation.
    pub loc: Option<String>,
    /// Every pool at that moment.
    pub pools: Named<PoolMoment>,
}

/// The padding of tensors.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PaddingSummary {
    /// The pool.
    pub pool: String,
    /// The total size, including padding.
    pub padded_bytes: u64,
    /// The size of the elements.
    pub logical_bytes: u64,
    /// The padding in percent of the size of the elements.
    pub overhead_pct: Option<f64>,
    /// The tensors with the most padding.
    pub top: Vec<PaddedTensor>,
}

/// A tensor with padding.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PaddedTensor {
    /// The name in the model, or the SSA name.
    pub name: Option<String>,
    /// The operation that allocated it.
    pub op: Option<String>,
    /// The source location of that operation.
    pub loc: Option<String>,
    /// The shape, without padding.
    pub shape: Vec<u64>,
    /// The shape including padding.
    pub padded_shape: Option<Vec<u64>>,
    /// The element type.
    pub dtype: String,
    /// The total size, including padding.
    pub padded_bytes: u64,
    /// The size of the elements.
    pub logical_bytes: u64,
    /// The size of the padding.
    pub overhead_bytes: u64,
    /// The padding in percent of the size of the elements.
    pub overhead_pct: Option<f64>,
}

/// A step with a large increase.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Suspect {
    /// The number of the step.
    pub step: Step,
    /// The name of the operation.
    pub op: Option<String>,
    /// The source location of the operation.
    pub loc: Option<String>,
    /// The shape of its first result.
    pub shape: Option<Vec<u64>>,
    /// The element type of its first result.
    pub dtype: Option<String>,
    /// The increase per bank of DRAM, or of the first pool if there is no DRAM.
    pub added_per_bank: u64,
}

/// Steps that added memory: the same operation with a result of the same type, and the same increase.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Increase {
    /// The number of steps.
    pub count: usize,
    /// The first step.
    pub first_step: Step,
    /// The last step.
    pub last_step: Step,
    /// The name of the operation.
    pub op: Option<String>,
    /// The location that the steps share, the pattern that their locations follow, or the first location.
    pub loc: Option<String>,
    /// The number of different locations.
    pub locations: usize,
    /// The shape of the first result.
    pub shape: Option<Vec<u64>>,
    /// The element type of the first result.
    pub dtype: Option<String>,
    /// The memory that each step added, per bank.
    pub added_per_bank: u64,
}

/// A change between programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Outside {
    /// The name of the pool.
    pub pool: String,
    /// The position.
    pub step: Position,
    /// The change per bank.
    pub change_per_bank: i64,
}

/// The worst fragmentation of a pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Fragmentation {
    /// The position of the worst fragmentation.
    pub step: Position,
    /// The free bytes.
    pub free_per_bank: u64,
    /// The largest free block.
    pub largest_free_per_bank: u64,
    /// How serious the fragmentation is.
    pub severity: Severity,
    /// The blocks of a bank, if the input has block tables.
    pub blocks: Option<Vec<Block>>,
    /// Live tensors that were allocated between tensors that have been freed, and that are not larger than the largest
    /// free block; oldest first. They probably lie between the free blocks.
    pub survivors: Vec<LiveTensor>,
}

/// The weights of the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Weights {
    /// The number of weights.
    pub count: usize,
    /// The size of their elements.
    pub bytes: u64,
    /// The size of those weights that are on the device in two forms at the DRAM peak.
    pub kept_twice_bytes: Option<u64>,
    /// The largest weights.
    pub largest: Vec<Weight>,
}

/// A parameter or constant that a graph declares.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Weight {
    /// The name in the model.
    pub name: String,
    /// The shape, without padding.
    pub shape: Vec<u64>,
    /// The element type.
    pub dtype: String,
    /// The size of its elements.
    pub bytes: Option<u64>,
    /// Whether a const-eval result computed from it is also on the device at the DRAM peak.
    pub kept_twice: Option<bool>,
}

/// The inputs of the model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Declared {
    /// The number of inputs.
    pub count: usize,
    /// The size of their elements.
    pub bytes: u64,
}

/// The out-of-memory error that ended the program.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Oom {
    /// The headline, detail and advice.
    #[serde(flatten)]
    pub statement: Statement,
    /// The pool that ran out of memory.
    pub pool: Option<String>,
    /// The cause.
    pub cause: &'static str,
    /// Where the numbers are from: `message`, `state` (the last one before the error) or `history` (the allocator's).
    pub evidence: &'static str,
    /// The requested bytes on the device.
    pub requested_total: Option<u64>,
    /// The requested bytes per bank.
    pub requested_per_bank: Option<u64>,
    /// The number of banks.
    pub banks: Option<u32>,
    /// The free bytes per bank.
    pub free_per_bank: Option<u64>,
    /// The largest free block of a bank.
    pub largest_free_per_bank: Option<u64>,
    /// The missing bytes per bank.
    pub lacks_per_bank: Option<u64>,
    /// Further facts from the message.
    #[serde(flatten)]
    pub facts: FaultFacts,
    /// The part of the program that the step ran in; omitted if the program has no named parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// The excess of circular buffers over the available L1.
    pub overlap_bytes: Option<u64>,
    /// The step that failed.
    pub step: Option<Step>,
    /// The operation that failed.
    pub op: Option<String>,
    /// The source location of the operation.
    pub loc: Option<String>,
    /// The tensors whose size matches the request.
    pub belongs_to: Vec<OwnerSummary>,
    /// The two sides of a clash between a program's buffers and tensors in L1; null for other failures.
    pub clash: Option<Clash>,
    /// The parts of the device's memory, if the error states them; null for devices of Tenstorrent.
    pub ledger: Option<LedgerSummary>,
    /// How well a replay of the program's allocations reproduces it; null if the input does not allow one.
    pub replay: Option<ReplaySummary>,
    /// The smallest changes that avoid the failure.
    pub ways_out: Vec<WayOut>,
    /// A sentence that no change is enough, if that was found.
    pub no_way_out: Option<String>,
    /// The error message.
    pub message: String,
}

/// A tensor whose size matches the failed request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct OwnerSummary {
    /// `result`, `operand` or `argument`.
    pub part: &'static str,
    /// The SSA name in the program.
    pub ssa: String,
    /// The name in the model.
    pub name: Option<String>,
    /// The shape, without padding.
    pub shape: Vec<u64>,
    /// The element type.
    pub dtype: String,
    /// Whether the size matches only with elements twice as wide as declared.
    pub widened: bool,
}

/// Facts of an error that only some messages have.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct FaultFacts {
    /// The size of a bank.
    pub capacity_per_bank: Option<u64>,
    /// The allocated bytes per bank.
    pub allocated_per_bank: Option<u64>,
    /// The bytes per bank where the allocation was allowed, if dependencies restrict it.
    pub placeable_per_bank: Option<u64>,
    /// The number of windows that these bytes are in.
    pub placeable_windows: Option<u64>,
    /// The largest of these windows.
    pub largest_placeable_per_bank: Option<u64>,
    /// The kind of the program's buffers that do not fit: `circular` or `dataflow`.
    pub buffers: Option<&'static str>,
    /// The address where these buffers end.
    pub region_end: Option<u64>,
    /// The address of the lowest buffer above them, or of the trace buffer that overlaps other memory.
    pub buffer_address: Option<u64>,
    /// The size of L1 or of the trace region, or the lowest allowed address.
    pub limit: Option<u64>,
    /// The cores, as in the message.
    pub cores: Option<String>,
    /// The number of the program.
    pub program: Option<u64>,
    /// Whether a check of the operation failed, before the allocator was asked.
    pub refused: bool,
}

/// An error in the input, such as a failed allocation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct FaultSummary {
    /// The kind of error.
    pub kind: &'static str,
    /// The pool that the error is about.
    pub pool: Option<String>,
    /// The step that failed.
    pub step: Option<Step>,
    /// The operation that failed.
    pub op: Option<String>,
    /// The source location of the operation.
    pub loc: Option<String>,
    /// The requested bytes on the device.
    pub requested_total: Option<u64>,
    /// The requested bytes per bank.
    pub requested_per_bank: Option<u64>,
    /// The number of banks.
    pub banks: Option<u32>,
    /// The free bytes per bank.
    pub free_per_bank: Option<u64>,
    /// The largest free block of a bank.
    pub largest_free_per_bank: Option<u64>,
    /// Further facts from the message.
    #[serde(flatten)]
    pub facts: FaultFacts,
    /// The line number of the error in the input.
    pub line: Option<u64>,
    /// Whether the error ended the program.
    pub ended_program: bool,
    /// The error message.
    pub message: String,
}

/// A training session.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct SessionSummary {
    /// The name in the log.
    pub name: Option<String>,
    /// The number of parameters of the model.
    pub parameters: Option<u64>,
    /// The element type of the parameters.
    pub dtype: Option<String>,
    /// The memory of the device.
    pub device_memory_bytes: Option<u64>,
    /// Whether the figures are estimates: nothing was allocated.
    pub estimated: bool,
    /// Whether the session finished.
    pub finished: bool,
    /// The line number where it starts, from 1.
    pub line: Option<u64>,
    /// The highest known memory use of all phases.
    pub peak_bytes: Option<i64>,
    /// How close the peak is to the memory of the device.
    pub level: Option<Level>,
    /// Whether the peak is below the memory of the device.
    pub fits: Option<bool>,
    /// How memory grows from iteration to iteration; null if it does not.
    pub growth: Option<Growth>,
    /// The memory use at the end.
    pub final_bytes: Option<i64>,
}

/// A phase of a session, such as a forward pass.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[allow(missing_docs, reason = "docs/json.md documents each field")]
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
