//! The remaining tables of a profile: steps, tensors, runs, modules, phases, faults.

use serde::{Deserialize, Serialize};

use super::columns::columns;
use super::{
    ByteRange, Bytes, ModuleId, Moment, OpId, PoolId, RunId, SessionId, Sparse, Step, StrId, TensorId, TypeId,
};

columns! {
    /// One executed operation.
    row StepRow;
    /// The steps of a rank, in execution order.
    table Steps;
    /// The operation.
    op: OpId,
    /// The run; `None` if the input has no programs.
    run: Option<RunId> => Sparse,
    /// The position in the source.
    offset: u64 => Sparse,
    /// Additional facts.
    marks: StepMarks,
}

/// Facts about a step, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepMarks(u8);

impl StepMarks {
    /// A cached result was found.
    pub const CACHE_HIT: Self = Self(1);
    /// No cached result was found; the program that computes it ran inside this step.
    pub const CACHE_MISS: Self = Self(1 << 1);
    /// A deallocation that freed nothing, because the tensor is retained.
    pub const RETAINED: Self = Self(1 << 2);
    /// The result shares the memory of an operand, according to the device's numbers.
    pub const VIEW: Self = Self(1 << 3);
    /// The step did not complete.
    pub const FAILED: Self = Self(1 << 4);
    /// The step ran a program whose buffers are not in the input.
    pub const UNKNOWN_PROGRAM: Self = Self(1 << 5);

    /// Adds the marks of another.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Removes the marks of another.
    pub fn remove(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    /// Whether all marks of another are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

columns! {
    /// An allocation: memory with a size, a lifetime and names.
    row Tensor;
    /// The allocations of a rank.
    table Tensors;
    /// The type, if the input has types.
    ty: Option<TypeId> => Sparse,
    /// The pool.
    pool: PoolId,
    /// The bytes per bank.
    per_bank: Bytes,
    /// The first moment when it is live.
    born: Moment,
    /// The first moment when it is no longer live.
    dies: Moment,
    /// The class.
    class: Class,
    /// The run that gave it its first name.
    run: Option<RunId> => Sparse,
    /// That name: `%12`, `%5#1`, `%arg3`.
    ssa: Option<StrId> => Sparse,
    /// The step that made it; `None` if it was allocated before the program.
    step: Option<StepNumber>,
    /// The name of the argument.
    name: Option<StrId> => Sparse,
}

/// An optional step number in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepNumber(std::num::NonZeroU32);

impl StepNumber {
    /// The number of a step; `None` if it is too large.
    pub fn new(step: Step) -> Option<Self> {
        step.checked_add(1).and_then(std::num::NonZeroU32::new).map(Self)
    }

    /// The step.
    pub fn get(self) -> Step {
        self.0.get() - 1
    }
}

/// The role of a tensor in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A parameter or constant, or the result of a const-eval program.
    Weight,
    /// An input of the program, including KV caches.
    Input,
    /// An argument of unknown kind.
    Argument,
    /// Any other tensor of a Tenstorrent program.
    Activation,
    /// PyTorch: a parameter.
    Parameter,
    /// PyTorch: a gradient.
    Gradient,
    /// PyTorch: optimizer state.
    Optimizer,
    /// PyTorch: a KV cache.
    KvCache,
    /// PyTorch: a module's buffer.
    Buffer,
    /// PyTorch: freed before the call that allocated it returned.
    Temporary,
    /// Unknown.
    Unknown,
    /// PyTorch: a workspace of a library such as cuBLAS.
    Workspace,
}

impl Class {
    /// All classes, in order.
    pub const ALL: [Self; 12] = [
        Self::Weight,
        Self::Input,
        Self::Argument,
        Self::Activation,
        Self::Parameter,
        Self::Gradient,
        Self::Optimizer,
        Self::KvCache,
        Self::Buffer,
        Self::Temporary,
        Self::Workspace,
        Self::Unknown,
    ];

    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Input => "input",
            Self::Argument => "argument",
            Self::Activation => "activation",
            Self::Parameter => "parameter",
            Self::Gradient => "gradient",
            Self::Optimizer => "optimizer",
            Self::KvCache => "kv_cache",
            Self::Buffer => "buffer",
            Self::Temporary => "temporary",
            Self::Unknown => "unknown",
            Self::Workspace => "workspace",
        }
    }
}

columns! {
    /// An additional name of an allocation: a view, a cached result, an argument of a nested program.
    row Alias;
    /// The additional names of a rank's allocations.
    table Aliases;
    /// The allocation.
    tensor: TensorId,
    /// The run that uses the name.
    run: Option<RunId>,
    /// The name.
    ssa: StrId,
}

columns! {
    /// One allocation was computed from another: a const-eval result from a weight.
    row Derivation;
    /// The sources of computed allocations.
    table Derivations;
    /// The result.
    tensor: TensorId,
    /// The source.
    source: TensorId,
}

columns! {
    /// An allocation is an argument of a graph, or was computed from it by a const-eval program.
    row Origin;
    /// The arguments that a rank's allocations originate from.
    table Origins;
    /// The allocation.
    tensor: TensorId,
    /// The graph.
    module: ModuleId,
    /// The index of the argument.
    argument: u32,
}

columns! {
    /// The origin of an allocation that was made in a removed part of the log.
    row Carried;
    /// The origins of allocations that were carried over and that no remaining step made, in order.
    table CarriedOver;
    /// The allocation.
    tensor: TensorId,
    /// The program that gave it its first name.
    program: StrId,
    /// The operation that made it; `None` if it was allocated before the program.
    op: Option<StrId>,
    /// The location of that operation.
    loc: Option<StrId>,
}

/// A rank that is one pass of a longer log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutOut {
    /// The number of the pass, counted from 1.
    pub pass: u32,
    /// The number of passes.
    pub of: u32,
    /// The first step of the pass. Profiles of logs that `ttmem last-run` cut up to 0.1.0 begin with const-eval
    /// programs of earlier passes, whose steps precede it; otherwise it is 0.
    pub first: Step,
}

/// One execution of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The program's name.
    pub program: StrId,
    /// The run that contains it.
    pub parent: Option<RunId>,
    /// The compiled graph, if it is certain.
    pub module: Option<ModuleId>,
    /// Whether it computes constants once. Without a parent, it ran in an earlier pass: see [`CutOut::first`].
    pub const_eval: bool,
    /// The first step.
    pub first: Step,
    /// One past the last step, including nested runs.
    pub end: Step,
    /// Whether its end was recorded; if not, it crashed or the log was cut.
    pub finished: bool,
    /// The position in the source.
    pub source: ByteRange,
}

impl Run {
    /// Whether it is a top-level run. A const-eval run never is, even if its parent was removed.
    pub fn is_top_level(&self) -> bool {
        self.parent.is_none() && !self.const_eval
    }
}

/// A compiled graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// The name (`SyncTensorsGraph.1`), if it has one.
    pub name: Option<StrId>,
    /// The texts, one per printed compiler stage.
    pub stages: Vec<Stage>,
    /// The arguments of its main function.
    pub arguments: Vec<Argument>,
}

/// A text of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// `ttir`, `ttnn` …
    pub name: StrId,
    /// The position of the text in the source. It may contain lines of other processes.
    pub source: ByteRange,
    /// The first line of the text, counted from 1.
    pub line: u64,
}

/// An argument of a module's main function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// `%arg3`.
    pub ssa: StrId,
    /// The name.
    pub name: Option<StrId>,
    /// The kind.
    pub kind: ArgumentKind,
    /// The type; `None` if it is not a tensor.
    pub ty: Option<TypeId>,
}

/// The kind of an argument, according to the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentKind {
    /// Passed at each call.
    Input,
    /// A weight.
    Parameter,
    /// A constant.
    Constant,
    /// Not specified by the compiler: an input.
    Default,
}

impl ArgumentKind {
    /// The class of a tensor of this kind.
    pub fn class(self) -> Class {
        match self {
            Self::Parameter | Self::Constant => Class::Weight,
            Self::Input | Self::Default => Class::Input,
        }
    }

    /// The compiler's name for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Parameter => "parameter",
            Self::Constant => "constant",
            Self::Default => "default",
        }
    }
}

/// A session of phases: the memory use of one iteration, as reported by a training program or a tracker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The name.
    pub name: Option<StrId>,
    /// The number of model parameters.
    pub parameters: Option<u64>,
    /// The element type of the parameters.
    pub dtype: Option<StrId>,
    /// The device memory, in bytes.
    pub device_memory: Option<u64>,
    /// The rounding quantum of its phases' figures; 0 if they are exact.
    pub quantum: u64,
    /// The figures are estimates: nothing was allocated.
    pub estimated: bool,
    /// The first line, counted from 1.
    pub line: Option<u64>,
    /// The totals at its end; `None` if the end was not reached.
    pub totals: Option<Totals>,
}

/// The peak and the final usage of a session or pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// The peak.
    pub peak: Option<i64>,
    /// The usage at the end.
    pub current: Option<i64>,
}

/// A phase of a session with its figures, in bytes per device (L1: per core).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// The session.
    pub session: SessionId,
    /// `FORWARD_PASS` …
    pub name: StrId,
    /// The first step and one past the last, if there are steps.
    pub steps: Option<(Step, Step)>,
    /// The first line, counted from 1.
    pub line: Option<u64>,
    /// The peak during the phase, above the usage at its start.
    pub segment_peak: Option<i64>,
    /// The allocated bytes.
    pub allocations: Option<u64>,
    /// The freed bytes.
    pub deallocations: Option<u64>,
    /// The allocated minus the freed bytes.
    pub change: Option<i64>,
    /// The peak so far.
    pub cumulative_peak: Option<i64>,
    /// The usage at its end.
    pub cumulative_current: Option<i64>,
    /// The peak of circular buffers per core.
    pub l1_peak_cb: Option<u64>,
    /// The peak of other buffers per core.
    pub l1_peak_buffer: Option<u64>,
    /// The peak of both together per core.
    pub l1_peak_total: Option<u64>,
}

/// An error of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// The pool's name, as in the message.
    pub pool: Option<StrId>,
    /// The running step.
    pub step: Option<Step>,
    /// The requested bytes, for all banks.
    pub requested_total: Option<u64>,
    /// The requested bytes per bank.
    pub requested_per_bank: Option<u64>,
    /// The number of banks.
    pub banks: Option<u32>,
    /// The size of a bank.
    pub bank_size: Option<u64>,
    /// The allocated bytes per bank.
    pub allocated: Option<u64>,
    /// The free bytes per bank.
    pub free: Option<u64>,
    /// The largest free block.
    pub largest_free: Option<u64>,
    /// Circular buffers: the end of their region, or the address that they would reach.
    pub region_end: Option<u64>,
    /// Circular buffers: the address of the lowest buffer above them, or the size of L1; otherwise the address limit.
    pub limit: Option<u64>,
    /// The complete message.
    pub message: StrId,
    /// The line, counted from 1.
    pub line: u64,
    /// Whether the running program never completed.
    pub ended_program: bool,
}

/// The kind of a fault, according to its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultKind {
    /// No free block was large enough.
    OutOfMemory,
    /// Circular buffers and L1 buffers overlap.
    CircularBuffersClash,
    /// Circular buffers alone exceed L1.
    CircularBuffersTooLarge,
    /// An allocation would be below the lowest allowed address.
    AddressLimit,
    /// A trace does not fit into the trace region.
    TraceRegion,
    /// An exception unrelated to memory.
    Exception,
}

/// Something that could not be read, or another note for users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The line, counted from 1, if there is one.
    pub line: Option<u64>,
    /// What is wrong, and what to do about it.
    pub message: String,
}
