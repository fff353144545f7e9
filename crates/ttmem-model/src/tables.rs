//! The rows of a profile that are neither operations nor pools: steps, tensors, runs, modules, phases, faults.

use serde::{Deserialize, Serialize};

use super::columns::columns;
use super::{
    ByteRange, Bytes, ModuleId, Moment, OpId, PoolId, RunId, SessionId, Step, StrId, TensorId, TypeId,
};

columns! {
    /// One operation, executed.
    row StepRow;
    /// The steps of a rank, in the order executed.
    table Steps;
    /// What was executed.
    op: OpId,
    /// In which run; `None` where the evidence names no programs.
    run: Option<RunId>,
    /// Where the source says so.
    offset: u64,
    /// What else is known of it.
    marks: StepMarks,
}

/// Facts about a step, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepMarks(u8);

impl StepMarks {
    /// A cached result was found.
    pub const CACHE_HIT: Self = Self(1);
    /// No cached result was found; the program that makes it ran inside this step.
    pub const CACHE_MISS: Self = Self(1 << 1);
    /// A deallocation that gave nothing back, because the tensor is retained.
    pub const RETAINED: Self = Self(1 << 2);
    /// The result shares the memory of an operand: the device's numbers say so.
    pub const VIEW: Self = Self(1 << 3);
    /// The step did not come to its end.
    pub const FAILED: Self = Self(1 << 4);

    /// Adds the marks of another.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether all marks of another are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

columns! {
    /// An allocation: memory with a size, a life and names.
    row Tensor;
    /// The allocations of a rank.
    table Tensors;
    /// Its type, where the evidence has types.
    ty: Option<TypeId>,
    /// Where it lies.
    pool: PoolId,
    /// What it takes of each bank.
    per_bank: Bytes,
    /// The first moment at which it is there.
    born: Moment,
    /// The first moment at which it is gone.
    dies: Moment,
    /// What it is to the model.
    class: Class,
    /// The run in which it got its first name.
    run: Option<RunId>,
    /// That name: `%12`, `%5#1`, `%arg3`.
    ssa: Option<StrId>,
    /// The step that made it; `None` for what was there before the program.
    step: Option<StepNumber>,
    /// What people call it: the argument's name.
    name: Option<StrId>,
}

/// A step number in four bytes even when absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepNumber(std::num::NonZeroU32);

impl StepNumber {
    /// Of a step; `None` beyond what can be numbered.
    pub fn new(step: Step) -> Option<Self> {
        step.checked_add(1).and_then(std::num::NonZeroU32::new).map(Self)
    }

    /// The step.
    pub fn get(self) -> Step {
        self.0.get() - 1
    }
}

/// What a tensor is to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A parameter or constant, or the result of a const-eval program.
    Weight,
    /// An input of the program, KV caches included.
    Input,
    /// An argument of which the evidence does not say what it is.
    Argument,
    /// All else that a Tenstorrent program makes.
    Activation,
    /// PyTorch: a parameter.
    Parameter,
    /// PyTorch: a gradient.
    Gradient,
    /// PyTorch: state of the optimizer.
    Optimizer,
    /// PyTorch: a KV cache.
    KvCache,
    /// PyTorch: a buffer of a module.
    Buffer,
    /// PyTorch: gone before the call that made it returned.
    Temporary,
    /// Not known.
    Unknown,
}

impl Class {
    /// All of them, in order.
    pub const ALL: [Self; 11] = [
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
        Self::Unknown,
    ];

    /// Its name in answers.
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
        }
    }
}

columns! {
    /// A further name of an allocation: a view, a cached result, an argument of a nested program.
    row Alias;
    /// The further names of a rank's allocations.
    table Aliases;
    /// Which allocation.
    tensor: TensorId,
    /// In which run it has the name.
    run: Option<RunId>,
    /// The name.
    ssa: StrId,
}

columns! {
    /// That one allocation was computed from another: a const-eval result from a weight.
    row Derivation;
    /// What was computed from what, as far as it matters.
    table Derivations;
    /// The result.
    tensor: TensorId,
    /// What it was computed from.
    source: TensorId,
}

columns! {
    /// That an allocation is an argument of a graph, or was computed from it by a const-eval program.
    row Origin;
    /// Which arguments the allocations of a rank go back to.
    table Origins;
    /// Which allocation.
    tensor: TensorId,
    /// The graph.
    module: ModuleId,
    /// The number of the argument, from 0.
    argument: u32,
}

columns! {
    /// Where an allocation is from that was made in what was cut away from the evidence.
    row Carried;
    /// The allocations that were carried over from there, in their order, as far as no step that is left made them.
    table CarriedOver;
    /// Which allocation.
    tensor: TensorId,
    /// The program in which it got its first name.
    program: StrId,
    /// The operation that made it; `None` for what was there before the program.
    op: Option<StrId>,
    /// Where that operation is from.
    loc: Option<StrId>,
}

/// That a rank is one pass of a longer log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutOut {
    /// Which pass, from 1.
    pub pass: u32,
    /// Of how many.
    pub of: u32,
    /// Its first step. Profiles of logs that `ttmem last-run` cut up to 0.1.0 begin with const-eval programs of earlier
    /// passes, whose steps precede it; otherwise it is 0.
    pub first: Step,
}

/// One execution of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The program's name.
    pub program: StrId,
    /// The run inside which it ran.
    pub parent: Option<RunId>,
    /// The compiled graph that it belongs to, where that is certain.
    pub module: Option<ModuleId>,
    /// Whether it computes constants once, to be kept. Without a parent, it ran in an earlier pass: see [`CutOut::first`].
    pub const_eval: bool,
    /// Its first step.
    pub first: Step,
    /// One past its last step, nested ones included.
    pub end: Step,
    /// Whether its end was seen; if not, it crashed or the evidence was cut.
    pub finished: bool,
    /// Where it stands in the source.
    pub source: ByteRange,
}

impl Run {
    /// Whether it ran in no other. One that computes constants always did, even if the other was cut away.
    pub fn is_top_level(&self) -> bool {
        self.parent.is_none() && !self.const_eval
    }
}

/// A compiled graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its name (`SyncTensorsGraph.1`), where it has one.
    pub name: Option<StrId>,
    /// Its texts, one for each stage of the compiler that was printed.
    pub stages: Vec<Stage>,
    /// The arguments of its main function.
    pub arguments: Vec<Argument>,
}

/// A text of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// `ttir`, `ttnn` …
    pub name: StrId,
    /// Where the text stands in the source. It may hold lines of other writers.
    pub source: ByteRange,
    /// The line that the text begins on, from 1.
    pub line: u64,
}

/// An argument of a module's main function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// `%arg3`.
    pub ssa: StrId,
    /// What people call it.
    pub name: Option<StrId>,
    /// What it is.
    pub kind: ArgumentKind,
    /// Its type; `None` where it is no tensor.
    pub ty: Option<TypeId>,
}

/// What an argument is, as the compiler says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentKind {
    /// Given anew at each call.
    Input,
    /// A weight.
    Parameter,
    /// A constant.
    Constant,
    /// The compiler did not say: an input.
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

    /// The compiler's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Parameter => "parameter",
            Self::Constant => "constant",
            Self::Default => "default",
        }
    }
}

/// A session of phases: what a training program says, or a tracker sees, of the memory of one iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// What people call it.
    pub name: Option<StrId>,
    /// The parameters of the model.
    pub parameters: Option<u64>,
    /// The element of the parameters.
    pub dtype: Option<StrId>,
    /// The memory of the device, in bytes.
    pub device_memory: Option<u64>,
    /// The step in which the figures of its phases are rounded; 0 where they are exact.
    pub quantum: u64,
    /// Nothing was allocated: its figures are what would have been.
    pub estimated: bool,
    /// The line that it begins on, from 1.
    pub line: Option<u64>,
    /// What stands at its end; `None` where that was never reached.
    pub totals: Option<Totals>,
}

/// The highest use and the last: of a session, or of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// The highest use.
    pub peak: Option<i64>,
    /// The use at the end.
    pub current: Option<i64>,
}

/// A phase of a session with its figures, in whole bytes of one device (L1: of one core).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// The session.
    pub session: SessionId,
    /// `FORWARD_PASS` …
    pub name: StrId,
    /// Its first step and one past its last, where there are steps.
    pub steps: Option<(Step, Step)>,
    /// The line that it begins on, from 1.
    pub line: Option<u64>,
    /// The highest use during the phase, above its start.
    pub segment_peak: Option<i64>,
    /// What was allocated in it.
    pub allocations: Option<u64>,
    /// What was given back in it.
    pub deallocations: Option<u64>,
    /// The difference.
    pub change: Option<i64>,
    /// The highest use so far.
    pub cumulative_peak: Option<i64>,
    /// The use at its end.
    pub cumulative_current: Option<i64>,
    /// The most that circular buffers took of a core.
    pub l1_peak_cb: Option<u64>,
    /// The most that buffers took of a core.
    pub l1_peak_buffer: Option<u64>,
    /// The most that both took of a core together.
    pub l1_peak_total: Option<u64>,
}

/// An error that the program met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What was wrong.
    pub kind: FaultKind,
    /// The pool's name as the message says it.
    pub pool: Option<StrId>,
    /// The step that was running.
    pub step: Option<Step>,
    /// The bytes asked for, over all banks.
    pub requested_total: Option<u64>,
    /// The bytes asked of each bank.
    pub requested_per_bank: Option<u64>,
    /// Over how many banks.
    pub banks: Option<u32>,
    /// What each bank has.
    pub bank_size: Option<u64>,
    /// What was allocated of each.
    pub allocated: Option<u64>,
    /// What was free of each.
    pub free: Option<u64>,
    /// The largest free piece.
    pub largest_free: Option<u64>,
    /// Circular buffers: where their region ends, or how far they would grow.
    pub region_end: Option<u64>,
    /// Circular buffers: the lowest buffer above them, or the size of L1; else the address limit.
    pub limit: Option<u64>,
    /// The message, whole.
    pub message: StrId,
    /// The line that it stands on, from 1.
    pub line: u64,
    /// Whether the program that ran then never came to its end.
    pub ended_program: bool,
}

/// What kind of error a fault is, as the text says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultKind {
    /// No piece of memory was large enough.
    OutOfMemory,
    /// Circular buffers and L1 buffers need the same bytes.
    CircularBuffersClash,
    /// Circular buffers alone are larger than L1.
    CircularBuffersTooLarge,
    /// An allocation came to lie below the lowest address allowed.
    AddressLimit,
    /// A trace did not fit into the region kept for traces.
    TraceRegion,
    /// An exception that has nothing to do with memory.
    Exception,
}

/// What could not be understood, or what the reader wants people to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The line, from 1, where there is one.
    pub line: Option<u64>,
    /// What is wrong, and what to do about it.
    pub message: String,
}
