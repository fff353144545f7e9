//! A program's activity over time: scopes, calls, threads, times, snapshots.
//!
//! Times are nanoseconds since the start of the recording, from a monotonic clock.

use serde::{Deserialize, Serialize};

use super::columns::columns;
use super::{CallId, Class, LaneId, Moment, OpId, Position, ScopeId, Step, StrId, difference};

/// Nanoseconds since the start of the recording.
pub type Nanoseconds = u64;

/// The kind of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScopeKind {
    /// An operation named by the program: `with tracker.track_operation(name)`.
    Operation,
    /// The forward pass of a module.
    Forward,
    /// The backward pass of a module, or of the whole model.
    Backward,
    /// A step of an optimizer.
    Optimizer,
    /// A framework operation: `aten::mm`.
    Framework,
}

impl ScopeKind {
    /// All kinds, in order.
    pub const ALL: [Self; 5] =
        [Self::Operation, Self::Forward, Self::Backward, Self::Optimizer, Self::Framework];

    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operation => "operation",
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Framework => "framework",
        }
    }
}

columns! {
    /// A node in the tree of a program's scopes.
    row Scope;
    /// The scope tree; a parent is always an earlier row.
    table Scopes;
    /// The name.
    name: StrId,
    /// The enclosing scope.
    parent: Option<ScopeId>,
    /// The kind.
    kind: ScopeKind,
}

columns! {
    /// One execution of a scope.
    row Call;
    /// The calls of a rank, ordered by start.
    table Calls;
    /// The scope.
    scope: ScopeId,
    /// The thread or stream.
    lane: LaneId,
    /// The enclosing call. It may have ended if the call belongs to a task started in it.
    parent: Option<CallId>,
    /// The operation, with the types of its arguments and its call stack, if known.
    op: Option<OpId>,
    /// The start time.
    began: Nanoseconds,
    /// The start position.
    first: Position,
    /// The outcome; `None` until it ends.
    outcome: Option<Outcome>,
}

/// The outcome of a call. Memory figures cover the call and its nested calls, on their threads, but not concurrent
/// calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The end time.
    pub ended: Nanoseconds,
    /// The end position.
    pub end: Position,
    /// The allocated bytes.
    pub allocated: u64,
    /// The freed bytes, including those allocated by other calls.
    pub freed: u64,
    /// The peak above the level at its start.
    pub peak: u64,
    /// The bytes that it allocated and that were still live at its end.
    pub kept: u64,
    /// The number of allocations.
    pub allocations: u64,
    /// The number of frees.
    pub frees: u64,
}

/// Observations of a call that was only measured before and after. It has no outcome, because its individual
/// allocations and frees are unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The end time, if it was recorded.
    pub ended: Option<Nanoseconds>,
    /// The memory in use after it minus the memory in use before it.
    pub change: Option<i64>,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// The end time; never before the start.
    At(Nanoseconds),
    /// The call was still running when the recording ended.
    Open,
    /// The end was not recorded.
    Unknown,
}

/// Totals of calls that are not stored individually: the oldest ones of a recording that grew too large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTotals {
    /// The number of calls.
    pub count: u64,
    /// The total duration.
    pub time: Nanoseconds,
    /// The duration of the longest call.
    pub longest: Nanoseconds,
    /// The allocated bytes.
    pub allocated: u64,
    /// The freed bytes.
    pub freed: u64,
    /// The bytes still live at the end of the calls.
    pub kept: u64,
    /// The largest difference between a call's allocated and freed bytes.
    pub largest_change: i64,
    /// The highest peak of a call above the level at its start.
    pub peak: u64,
}

/// Values that apply from a step until the next entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromStep<T> {
    /// The first step of each value, in order.
    pub step: Vec<Step>,
    /// The values.
    pub value: Vec<T>,
}

impl<T> Default for FromStep<T> {
    fn default() -> Self {
        Self { step: Vec::new(), value: Vec::new() }
    }
}

impl<T: Copy + PartialEq> FromStep<T> {
    /// Sets the value for the following steps. Steps must be in order; a later value for the same step replaces the
    /// earlier one.
    pub fn set(&mut self, step: Step, value: T) {
        if self.step.last() == Some(&step) {
            self.step.pop();
            self.value.pop();
        }
        if self.value.last() != Some(&value) {
            self.step.push(step);
            self.value.push(value);
        }
    }

    /// Reserves memory for more values.
    pub fn reserve(&mut self, values: usize) {
        self.step.reserve_exact(values);
        self.value.reserve_exact(values);
    }

    /// The value at a step; `None` before the first entry.
    pub fn get(&self, step: Step) -> Option<T> {
        let after = self.step.partition_point(|&from| from <= step);
        self.value.get(after.checked_sub(1)?).copied()
    }

    /// The steps and their values.
    pub fn iter(&self) -> impl Iterator<Item = (Step, T)> + '_ {
        self.step.iter().copied().zip(self.value.iter().copied())
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.step.is_empty()
    }
}

/// A moment recorded for inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The name given by the program; `None` for periodic snapshots.
    pub name: Option<StrId>,
    /// The position among the steps.
    pub at: Moment,
    /// The time.
    pub time: Nanoseconds,
}

/// A profiler's totals for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpTotals {
    /// The operation: `aten::linear`.
    pub name: StrId,
    /// The number of calls.
    pub count: u64,
    /// The CPU time, including nested calls.
    pub cpu_time: Nanoseconds,
    /// The device time; `None` without a device.
    pub device_time: Option<Nanoseconds>,
    /// The allocated minus the freed bytes in CPU memory.
    pub cpu_bytes: i64,
    /// The same in device memory.
    pub device_bytes: Option<i64>,
    /// The shapes of its arguments, as JSON.
    pub shapes: Option<StrId>,
}

/// The expected size of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// The class.
    pub class: Class,
    /// The bytes.
    pub bytes: u64,
    /// How it was computed, as text.
    pub how: StrId,
}

impl CallTotals {
    /// Adds a call.
    pub fn add(&mut self, outcome: &Outcome, took: Nanoseconds) {
        let change = outcome.change();
        self.largest_change = if self.count == 0 { change } else { self.largest_change.max(change) };
        self.count = self.count.saturating_add(1);
        self.time = self.time.saturating_add(took);
        self.longest = self.longest.max(took);
        self.allocated = self.allocated.saturating_add(outcome.allocated);
        self.freed = self.freed.saturating_add(outcome.freed);
        self.kept = self.kept.saturating_add(outcome.kept);
        self.peak = self.peak.max(outcome.peak);
    }

    /// Adds other calls of the same scope.
    pub fn add_all(&mut self, other: &Self) {
        self.largest_change = match (self.count, other.count) {
            (_, 0) => self.largest_change,
            (0, _) => other.largest_change,
            _ => self.largest_change.max(other.largest_change),
        };
        self.count = self.count.saturating_add(other.count);
        self.time = self.time.saturating_add(other.time);
        self.longest = self.longest.max(other.longest);
        self.allocated = self.allocated.saturating_add(other.allocated);
        self.freed = self.freed.saturating_add(other.freed);
        self.kept = self.kept.saturating_add(other.kept);
        self.peak = self.peak.max(other.peak);
    }

    /// The allocated minus the freed bytes.
    pub fn change(&self) -> i64 {
        difference(self.allocated, self.freed)
    }
}

impl Outcome {
    /// The allocated minus the freed bytes.
    pub fn change(&self) -> i64 {
        difference(self.allocated, self.freed)
    }
}

impl OpTotals {
    /// Adds further calls of the same operation.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.cpu_time = self.cpu_time.saturating_add(other.cpu_time);
        self.device_time =
            self.device_time.zip(other.device_time).map(|(have, more)| have.saturating_add(more));
        self.cpu_bytes = self.cpu_bytes.saturating_add(other.cpu_bytes);
        self.device_bytes =
            self.device_bytes.zip(other.device_bytes).map(|(have, more)| have.saturating_add(more));
    }
}
