//! The model: what a profile is, and the events that it is made from.
//!
//! Here live the event type, the builder, the profile with its tables, typed ids and interned strings. Nothing
//! here knows a file format, a question or a screen.

mod builder;
mod call;
mod columns;
mod event;
mod history;
mod ids;
mod op;
mod pool;
mod profile;
mod segment;
mod stack;
mod strings;
mod tables;
mod thinned;

pub use builder::Builder;
pub use call::{
    Call, CallEnd, CallTotals, Calls, Expected, FromStep, Nanoseconds, OpTotals, Outcome, Scope, ScopeKind,
    Scopes, Seen, Snapshot,
};
pub use event::{Event, RankEvent, Sink, Source};
pub use history::{During, History, HistoryAction, HistoryRow, Label, Labels};
pub use ids::{
    ByteRange, Bytes, CallId, FrameId, LaneId, ModuleId, Moment, OpId, PoolId, Position, RankId, RunId,
    ScopeId, SessionId, StackId, Step, StrId, TensorId, TypeId, difference,
};
pub use op::{Layout, Op, OpKind, Ops, TensorType};
pub use pool::{Block, BlockMap, Cursor, Curve, CurveKind, Moments, Pool, Reading};
pub use profile::{Made, Profile, Rank};
pub use segment::{Change, Cumulative, DramUsage, L1Usage, Segment};
pub use stack::{Frame, OpStack, OpStacks, Stack, StackRows, Stacks};
pub use strings::Strings;
pub use tables::{
    Alias, Aliases, Argument, ArgumentKind, Carried, CarriedOver, Class, CutOut, Derivation, Derivations,
    Fault, FaultKind, Module, Origin, Origins, Phase, Run, Session, Stage, StepMarks, StepNumber, StepRow,
    Steps, Tensor, Tensors, Totals, Warning,
};
pub use thinned::{AllocationTotals, Restored, Thinned};
