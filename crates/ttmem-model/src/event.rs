//! Events: the one thing that readers and recorders produce, and all that a `.ttmem` file holds.
//!
//! An event either defines a row that later events name (the n-th `Text` is string n, the n-th `Step` of a
//! rank is step n), or says something of a row that is there already. Times are part of an event, not of its
//! place in the stream: a reader may learn late that a tensor was there from the beginning.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{
    Alias, AllocationTotals, Argument, Block, ByteRange, Call, CallId, CallTotals, Carried, Class, CutOut,
    Derivation, Expected, Fault, Frame, HistoryRow, Label, ModuleId, Moment, Nanoseconds, Op, OpStack,
    OpTotals, Origin, Outcome, Phase, PoolId, RankId, Reading, Restored, Run, RunId, Scope, ScopeId, Seen,
    Session, SessionId, Snapshot, Stack, Stage, Step, StepMarks, StepRow, StrId, Tensor, TensorId,
    TensorType, Thinned, Totals, Warning,
};
use crate::error::Result;

/// Something that evidence says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event<'a> {
    /// What the events come from.
    Source(Source),
    /// Defines a string.
    Text(Cow<'a, str>),
    /// Defines a tensor type.
    Type(TensorType),
    /// Defines an operation.
    Op(Op),
    /// Defines a line of the program.
    Frame(Frame),
    /// Defines a stack.
    Stack(Stack),
    /// Where an operation is called from; operations come in order.
    OpStack(OpStack),
    /// Defines a rank; its label is that of its log lines (`1,0`).
    Rank {
        /// The label, where there is one.
        label: Option<StrId>,
    },
    /// Says something of a rank.
    Of(RankId, RankEvent),
    /// A warning.
    Warning(Warning),
    /// That lines were passed over that should have been understood.
    SkippedLines(u64),
    /// A text of the source, for readers that no longer have it.
    SourceText(ByteRange, Cow<'a, str>),
    /// That the evidence was read to its end. A stream without it was cut off.
    End,
}

/// Something that evidence says of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RankEvent {
    /// Defines a pool.
    Pool {
        /// Its name.
        name: StrId,
        /// How many banks it has, where that is known.
        banks: Option<u32>,
        /// The step of rounding.
        quantum: u64,
    },
    /// In how many banks a pool lies, learned after it was defined.
    Banks(PoolId, u32),
    /// What evidence that adds up whole devices by a rule of its own says of a pool.
    PoolTotals(PoolId, Totals),
    /// Defines a module.
    Module {
        /// Its name.
        name: Option<StrId>,
    },
    /// Adds a text to a module.
    Stage(ModuleId, Stage),
    /// Adds an argument to a module.
    Argument(ModuleId, Argument),
    /// Defines a run. Its end is said by `RunEnded`.
    Run(Run),
    /// Ends a run.
    RunEnded {
        /// Which.
        run: RunId,
        /// One past its last step.
        end: Step,
        /// Whether it came to its end.
        finished: bool,
        /// Where its text ends in the source.
        source_end: u64,
    },
    /// Says which module a run belongs to.
    RunModule(RunId, ModuleId),
    /// Defines a step.
    Step(StepRow),
    /// Adds marks to a step.
    Marks(Step, StepMarks),
    /// A reading of a pool.
    State(PoolId, Moment, Reading),
    /// That a pool was looked at and shows what it showed before.
    Unchanged(PoolId, Moment),
    /// A piece of a bank at a moment; those of one moment follow each other.
    Block(PoolId, Moment, Block),
    /// Defines an allocation.
    Tensor(Tensor),
    /// That an allocation is gone.
    Dies(TensorId, Moment),
    /// What an allocation turned out to be.
    Classified(TensorId, Class, Option<StrId>),
    /// A further name of an allocation.
    Alias(Alias),
    /// What an allocation was computed from.
    Derived(Derivation),
    /// Which argument an allocation goes back to.
    Origin(Origin),
    /// Where an allocation is from that was carried over.
    Carried(Carried),
    /// That the rank is one pass of a longer log.
    CutOut(CutOut),
    /// Which process of its log the rank is, counted from 1. Several processes append to one log.
    Process(u32),
    /// Begins a session of phases.
    Session(Session),
    /// A phase of a session.
    Phase(Phase),
    /// Ends a session.
    SessionEnded(SessionId, Totals),
    /// An error.
    Fault(Fault),
    /// That an error has ended the program, learned after it was said: which, counted from 0.
    FaultEnded(u32),
    /// When the recording began: nanoseconds of Unix time. All other times are since then.
    Began(u64),
    /// Defines a thread or stream.
    Lane {
        /// Its name.
        name: StrId,
    },
    /// Defines a scope.
    Scope(Scope),
    /// Defines a call. What it came to is said by `Returned`.
    Call(Call),
    /// Ends a call.
    Returned(CallId, Outcome),
    /// What is known of a call that nobody watched, but looked at before and after.
    Seen(CallId, Seen),
    /// Further calls of a scope, that are not kept one by one.
    CallTotals(ScopeId, CallTotals),
    /// When the steps from one on happened.
    Time(Step, Nanoseconds),
    /// In which call the steps from one on happened.
    Within(Step, Option<CallId>),
    /// A moment that somebody wanted to look at.
    Snapshot(Snapshot),
    /// What a profiler says of an operation.
    OpTotals(OpTotals),
    /// What a class should take.
    Expected(Expected),
    /// Whether gradients are computed for an allocation.
    RequiresGrad(TensorId, bool),
    /// That detail is there only from a time on.
    Thinned(Thinned),
    /// Further allocations of a pool, that are not kept one by one.
    AllocationTotals(PoolId, AllocationTotals),
    /// That a row is not one allocation, but that many, which are no longer told apart.
    StandsFor(TensorId, u64),
    /// What made an allocation whose step is not here, and in which scope.
    Restored(TensorId, Restored),
    /// That the calls outside of all others are all here from a time on, and before it only some of them.
    CallsSince(Nanoseconds),
    /// Something that an allocator did.
    History(HistoryRow),
    /// What lies at an address.
    Label(Label),
    /// What is not in the figures of a pool, in words.
    NotWatched(PoolId, StrId),
    /// That the readings of a pool are samples; and its true peak, where the evidence states it without a time.
    Sampled(PoolId, Option<u64>),
}

/// What a profile was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The name of the reader's format.
    pub format: String,
    /// The file, as the user named it; `-` for standard input.
    pub file: String,
}

/// Takes events, in order.
pub trait Sink {
    /// Takes one event.
    fn take(&mut self, event: Event<'_>) -> Result<()>;
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn take(&mut self, event: Event<'_>) -> Result<()> {
        (**self).take(event)
    }
}
