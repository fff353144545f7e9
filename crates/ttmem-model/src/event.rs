//! Events: the output of readers and recorders, and the contents of a `.ttmem` file.
//!
//! An event either defines a row that later events refer to (the n-th `Text` is string n, the n-th `Step` of a rank is
//! step n), or adds information to an existing row. Times are part of an event and independent of its position in the
//! stream: a reader may learn late that a tensor was live from the beginning.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{
    Alias, AllocationTotals, AllocatorRules, Argument, BankLayout, Block, ByteRange, Call, CallId,
    CallTotals, Carried, Class, CoreMemory, CutOut, Derivation, Expected, FailureContext, Fault, FaultDetail,
    Frame, HistoryRow, Holder, Label, Launch, Ledger, MemorySetting, ModuleId, Moment, Nanoseconds, Op,
    OpStack, OpTotals, Origin, Outcome, Phase, Placement, PoolId, ProcessUse, ProgramBuffer, RankId, Reading,
    ReportedPart, ReservedSegment, Restored, Run, RunId, Scope, ScopeId, Seen, Session, SessionId, Snapshot,
    Stack, Stage, Step, StepMarks, StepRow, StrId, Tensor, TensorId, TensorType, Thinned, Totals, TtnnPeaks,
    Usage, Warning,
};
use crate::error::Result;

/// A piece of information from a log or a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event<'a> {
    /// The source of the events.
    Source(Source),
    /// Defines a string.
    Text(Cow<'a, str>),
    /// Defines a tensor type.
    Type(TensorType),
    /// Defines an operation.
    Op(Op),
    /// Defines a source line of the program.
    Frame(Frame),
    /// Defines a stack.
    Stack(Stack),
    /// The call stack of an operation; operations come in order.
    OpStack(OpStack),
    /// Defines a rank; its label is the tag of its log lines (`1,0`).
    Rank {
        /// The label, if there is one.
        label: Option<StrId>,
    },
    /// Defines the example of an earlier rank: complete iterations from earlier files of its recording. It has a number among
    /// the ranks, but is not a part of the program.
    Example(RankId),
    /// Information about a rank.
    Of(RankId, RankEvent),
    /// A warning.
    Warning(Warning),
    /// The number of skipped lines that should have been understood.
    SkippedLines(u64),
    /// A text from the source, for readers without access to it.
    SourceText(ByteRange, Cow<'a, str>),
    /// The input was read to its end. A stream without this event was cut off.
    End,
}

/// A piece of information about one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RankEvent {
    /// Defines a pool.
    Pool {
        /// The name.
        name: StrId,
        /// The number of banks, if known.
        banks: Option<u32>,
        /// The rounding quantum.
        quantum: u64,
    },
    /// The number of banks of a pool, learned after it was defined.
    Banks(PoolId, u32),
    /// A pool's totals for the device, from input that computes them by its own rule.
    PoolTotals(PoolId, Totals),
    /// Defines a module.
    Module {
        /// The name.
        name: Option<StrId>,
    },
    /// Adds a text to a module.
    Stage(ModuleId, Stage),
    /// Adds an argument to a module.
    Argument(ModuleId, Argument),
    /// Defines a run. `RunEnded` gives its end.
    Run(Run),
    /// Ends a run.
    RunEnded {
        /// The run.
        run: RunId,
        /// One past its last step.
        end: Step,
        /// Whether it completed.
        finished: bool,
        /// The end of its text in the source.
        source_end: u64,
    },
    /// Assigns a run to a module.
    RunModule(RunId, ModuleId),
    /// Defines a step.
    Step(StepRow),
    /// Adds marks to a step.
    Marks(Step, StepMarks),
    /// A reading of a pool.
    State(PoolId, Moment, Reading),
    /// A pool was observed, and its values have not changed.
    Unchanged(PoolId, Moment),
    /// A block of a bank at a moment; blocks of one moment are consecutive.
    Block(PoolId, Moment, Block),
    /// Defines an allocation.
    Tensor(Tensor),
    /// An allocation was freed.
    Dies(TensorId, Moment),
    /// The class of an allocation, learned later.
    Classified(TensorId, Class, Option<StrId>),
    /// An additional name of an allocation.
    Alias(Alias),
    /// The source of a computed allocation.
    Derived(Derivation),
    /// The argument that an allocation originates from.
    Origin(Origin),
    /// The origin of an allocation that was carried over.
    Carried(Carried),
    /// The rank is one pass of a longer log.
    CutOut(CutOut),
    /// The number of the rank's process in its log, counted from 1. Several processes may append to one log.
    Process(u32),
    /// Begins a session of phases.
    Session(Session),
    /// A phase of a session.
    Phase(Phase),
    /// Ends a session.
    SessionEnded(SessionId, Totals),
    /// An error that the log or the allocator reports, such as an out-of-memory error.
    Fault(Fault),
    /// An error ended the program, learned after it was reported: its index.
    FaultEnded(u32),
    /// The start of the recording, in nanoseconds of Unix time. All other times are relative to it.
    Began(u64),
    /// Defines a thread or stream.
    Lane {
        /// The name.
        name: StrId,
    },
    /// Defines a scope.
    Scope(Scope),
    /// Defines a call. `Returned` gives its outcome.
    Call(Call),
    /// Ends a call.
    Returned(CallId, Outcome),
    /// Observations of a call that was only measured before and after.
    Seen(CallId, Seen),
    /// Totals of further calls of a scope that are not stored individually.
    CallTotals(ScopeId, CallTotals),
    /// The time from a step on.
    Time(Step, Nanoseconds),
    /// The call from a step on.
    Within(Step, Option<CallId>),
    /// A moment recorded for inspection.
    Snapshot(Snapshot),
    /// A profiler's totals for an operation.
    OpTotals(OpTotals),
    /// The expected size of a class.
    Expected(Expected),
    /// Whether gradients are computed for an allocation.
    RequiresGrad(TensorId, bool),
    /// Full detail is only available from a time on.
    Thinned(Thinned),
    /// Totals of further allocations of a pool that are not stored individually.
    AllocationTotals(PoolId, AllocationTotals),
    /// A row represents this many allocations that are no longer distinguished.
    StandsFor(TensorId, u64),
    /// The operation and scope that made an allocation whose step is not in this file.
    Restored(TensorId, Restored),
    /// All outermost calls since this time are in this file, and only some of the earlier ones.
    CallsSince(Nanoseconds),
    /// An action of an allocator.
    History(HistoryRow),
    /// The contents of an address.
    Label(Label),
    /// A description of memory that a pool's figures do not include.
    NotWatched(PoolId, StrId),
    /// The readings of a pool are samples. With its true peak, if the input states it without a time.
    Sampled(PoolId, Option<u64>),
    /// The layout of a core's L1.
    CoreMemory(CoreMemory),
    /// The address of an allocation.
    Placed(Placement),
    /// A buffer of the program that a step runs.
    ProgramBuffer(ProgramBuffer),
    /// Details of an error: its index.
    FaultDetail(u32, FaultDetail),
    /// The peaks of L1 by ttnn's own rules.
    TtnnPeaks(TtnnPeaks),
    /// The last use of an allocation.
    Used(Usage),
    /// The addresses of a pool's banks.
    BankLayout(PoolId, BankLayout),
    /// The settings of a pool's caching allocator.
    AllocatorRules(PoolId, AllocatorRules),
    /// A segment of a caching allocator at the end of the input.
    Reserved(ReservedSegment),
    /// The parts of a device's memory at an error: its index.
    Ledger(u32, Ledger),
    /// The circumstances of an error: its index.
    FailureContext(u32, FailureContext),
    /// A process that the ledger of an error lists.
    ProcessUse(u32, ProcessUse),
    /// A part of the memory that the program reported before an error.
    ReportedPart(u32, ReportedPart),
    /// A setting of the program that an error ended.
    MemorySetting(u32, MemorySetting),
    /// How the program was launched.
    Launch(Launch),
    /// An argument of the program, in order; the first is its name.
    LaunchArgument(StrId),
    /// What keeps an allocation alive. A later search replaces an earlier one.
    HeldBy(TensorId, Holder),
    /// The same for the allocation at an address of an allocator's memory.
    AddressHeldBy(PoolId, u64, Holder),
    /// A call of a scope returned several tensors, or an object that may contain several.
    SeveralOutputs(ScopeId),
}

/// The source of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The name of the format.
    pub format: String,
    /// The file, as given by the user; `-` for standard input.
    pub file: String,
}

impl Source {
    /// The format of a file that a program writes while it runs.
    pub const RECORDING: &str = "recording";
}

/// Accepts events, in order.
pub trait Sink {
    /// Accepts one event.
    fn take(&mut self, event: Event<'_>) -> Result<()>;

    /// Accepts an action of an allocator. There are millions, so a sink may have a shorter way for them.
    fn history(&mut self, rank: RankId, row: HistoryRow) -> Result<()> {
        self.take(Event::Of(rank, RankEvent::History(row)))
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn take(&mut self, event: Event<'_>) -> Result<()> {
        (**self).take(event)
    }

    fn history(&mut self, rank: RankId, row: HistoryRow) -> Result<()> {
        (**self).history(rank, row)
    }
}
