//! What a program says it is doing, in time: scopes, the calls of them, threads, the clock, snapshots.
//!
//! Times are nanoseconds since the recording began, by a clock that never goes back.

use serde::{Deserialize, Serialize};

use super::columns::columns;
use super::{CallId, Class, LaneId, Moment, OpId, Position, ScopeId, Step, StrId, difference};

/// Nanoseconds since the recording began.
pub type Nanoseconds = u64;

/// What a scope is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScopeKind {
    /// What the program named itself: `with tracker.track_operation(name)`.
    Operation,
    /// The forward pass of a module.
    Forward,
    /// The backward pass: of a module, or of all of them.
    Backward,
    /// A step of an optimizer.
    Optimizer,
    /// An operation of the framework: `aten::mm`.
    Framework,
}

impl ScopeKind {
    /// All of them, in order.
    pub const ALL: [Self; 5] =
        [Self::Operation, Self::Forward, Self::Backward, Self::Optimizer, Self::Framework];

    /// Its name in answers.
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
    /// A node of the tree of what a program does: a name inside of another.
    row Scope;
    /// The tree; a parent is always an earlier row.
    table Scopes;
    /// Its name.
    name: StrId,
    /// Inside of which scope.
    parent: Option<ScopeId>,
    /// What it is.
    kind: ScopeKind,
}

columns! {
    /// A scope, entered once.
    row Call;
    /// The calls of a rank, in the order they began.
    table Calls;
    /// The scope.
    scope: ScopeId,
    /// On which thread or stream.
    lane: LaneId,
    /// Inside of which call; one that has ended may still have tasks that it began.
    parent: Option<CallId>,
    /// The operation, with the types of its arguments and where it is called from, where that is known.
    op: Option<OpId>,
    /// When it began.
    began: Nanoseconds,
    /// The position at which it began.
    first: Position,
    /// What it came to; until it ends, nothing.
    outcome: Option<Outcome>,
}

/// What a call came to. Memory is what it and the calls inside of it did, on their threads; not what others did meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// When it ended.
    pub ended: Nanoseconds,
    /// The position at which it ended.
    pub end: Position,
    /// The bytes that it allocated.
    pub allocated: u64,
    /// The bytes that it gave back, whoever had allocated them.
    pub freed: u64,
    /// The most that it held above what was there when it began.
    pub peak: u64,
    /// Of what it allocated, the bytes that were still there when it ended.
    pub kept: u64,
    /// How many allocations it made.
    pub allocations: u64,
    /// How many it gave back.
    pub frees: u64,
}

/// What is known of a call to who only looked before and after it. There is no outcome then: what it allocated and gave
/// back in between was not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// When it ended, where that was taken down.
    pub ended: Option<Nanoseconds>,
    /// By how much there was more memory in use after it than before it.
    pub change: Option<i64>,
}

/// What is known of the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// When it was; never before the call began.
    At(Nanoseconds),
    /// There was none: the call still ran when the evidence ended.
    Open,
    /// Nothing: the evidence has no more than a time for the call.
    Unknown,
}

/// Calls that are not kept one by one, added up: what became of the oldest ones when a recording grew too large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTotals {
    /// How many.
    pub count: u64,
    /// How long they took together.
    pub time: Nanoseconds,
    /// The longest.
    pub longest: Nanoseconds,
    /// What they allocated and gave back.
    pub allocated: u64,
    /// What they gave back.
    pub freed: u64,
    /// What they kept.
    pub kept: u64,
    /// The largest difference of what one allocated and gave back.
    pub largest_change: i64,
    /// The most that one held above what was there when it began.
    pub peak: u64,
}

/// A value that holds from a step on, until the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromStep<T> {
    /// The steps from which a value holds, in order.
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
    /// That a value holds for the steps that follow. Steps come in order; the last word on one counts.
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

    /// The value of a step; `None` before the first.
    pub fn get(&self, step: Step) -> Option<T> {
        let after = self.step.partition_point(|&from| from <= step);
        self.value.get(after.checked_sub(1)?).copied()
    }

    /// The steps from which values hold, and the values.
    pub fn iter(&self) -> impl Iterator<Item = (Step, T)> + '_ {
        self.step.iter().copied().zip(self.value.iter().copied())
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.step.is_empty()
    }
}

/// A moment that somebody wanted to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What the program called it; `None` for one that was taken because it was time.
    pub name: Option<StrId>,
    /// Where in the order of steps.
    pub at: Moment,
    /// When.
    pub time: Nanoseconds,
}

/// What a profiler says of all calls of one operation together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpTotals {
    /// The operation: `aten::linear`.
    pub name: StrId,
    /// How often it was called.
    pub count: u64,
    /// How long the processor was in it, calls inside of it included.
    pub cpu_time: Nanoseconds,
    /// How long the device was; `None` where there is none.
    pub device_time: Option<Nanoseconds>,
    /// What it allocated less what it gave back, in the memory of the processor.
    pub cpu_bytes: i64,
    /// The same on the device.
    pub device_bytes: Option<i64>,
    /// The shapes of its arguments, as JSON.
    pub shapes: Option<StrId>,
}

/// What somebody thinks that a class should take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// The class.
    pub class: Class,
    /// The bytes.
    pub bytes: u64,
    /// How that was computed, in words.
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

    /// What they allocated less what they gave back.
    pub fn change(&self) -> i64 {
        difference(self.allocated, self.freed)
    }
}

impl Outcome {
    /// What it allocated less what it gave back.
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
