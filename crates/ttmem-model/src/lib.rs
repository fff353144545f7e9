//! The data model of `ttmem`: events, the profile built from them, and the file format that stores them.
//!
//! Readers and recorders produce [`Event`]s. A [`Builder`] turns them into a [`Profile`]; [`frame`] writes them to a
//! `.ttmem` file and reads them back. [`rules`] derives facts from a profile or an allocator's history that more than
//! one crate needs. [`config`] is the tracker's configuration file. [`words`] formats counts and sizes for messages.
//! This crate knows no other formats, and nothing about queries or output.

mod builder;
mod call;
mod columns;
pub mod config;
mod core_memory;
mod error;
mod event;
pub mod frame;
mod history;
mod holder;
mod home;
mod ids;
mod launch;
mod ledger;
mod memory_size;
mod merge;
mod op;
mod pool;
mod profile;
mod reserved;
pub mod rules;
mod segment;
mod sparse;
mod stack;
mod strings;
mod tables;
mod thinned;
mod usage;
pub mod words;

pub use builder::Builder;
pub use call::{
    Call, CallEnd, CallTotals, Calls, Expected, FromStep, Nanoseconds, OpTotals, Outcome, Scope, ScopeKind,
    Scopes, Seen, Snapshot,
};
pub use core_memory::{
    CoreMemory, CoreRange, CoreRanges, FaultDetail, Placement, Placements, ProgramBuffer, ProgramBufferKind,
    ProgramBuffers, TtnnPeaks,
};
pub use error::{Error, Result};
pub use event::{Event, RankEvent, Sink, Source};
pub use history::{During, History, HistoryAction, HistoryChunk, HistoryRow, Label, Labels};
pub use holder::Holder;
pub use home::home_folder;
pub use ids::{
    ByteRange, Bytes, CallId, FrameId, LaneId, ModuleId, Moment, OpId, PoolId, Position, RankId, RunId,
    ScopeId, SessionId, StackId, Step, StrId, TensorId, TypeId, difference,
};
pub use launch::Launch;
pub use ledger::{Amount, FailureContext, FaultLedger, Ledger, MemorySetting, ProcessUse, ReportedPart};
pub use memory_size::MemorySize;
pub use op::{Layout, Op, OpKind, Ops, TensorType};
pub use pool::{Block, BlockMap, Cursor, Curve, CurveKind, Moments, Pool, Reading};
pub use profile::{Made, Profile, Rank};
pub use reserved::{AllocatorRules, ROUNDING_CLASSES, ReservedSegment, ReservedSegments};
pub use segment::{Change, Cumulative, DramUsage, L1Usage, Segment};
pub use sparse::Sparse;
pub use stack::{Frame, OpStack, OpStacks, Stack, StackRows, Stacks};
pub use strings::Strings;
pub use tables::{
    Alias, Aliases, Argument, ArgumentKind, Carried, CarriedOver, Class, CutOut, Derivation, Derivations,
    Fault, FaultKind, Module, Origin, Origins, Phase, Run, Session, Stage, StepMarks, StepNumber, StepRow,
    Steps, Tensor, Tensors, Totals, Warning,
};
pub use thinned::{AllocationTotals, Restored, Thinned};
pub use usage::{BankLayout, Usage, Usages};
