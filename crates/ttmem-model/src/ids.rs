//! Typed ids, and moments of a profile.
//!
//! An id is an index into one table of one profile. Ids of different tables have different types, and an optional id
//! needs no extra space (`Option<OpId>` is four bytes).

use std::fmt;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The id of row `index`; `None` if the index is too large for an id.
            #[inline]
            pub fn new(index: usize) -> Option<Self> {
                u32::try_from(index).ok()?.checked_add(1).and_then(NonZeroU32::new).map(Self)
            }

            /// The row of this id.
            #[inline]
            pub fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.index())
            }
        }
    )*};
}

ids! {
    /// An interned string.
    StrId;
    /// A tensor type: shape, element type, layout.
    TypeId;
    /// An operation as in its text: name, operands, results, types, location.
    OpId;
    /// A rank: one process with its own device memory.
    RankId;
    /// A memory pool of a rank (DRAM, L1, a CUDA device …).
    PoolId;
    /// A compiled graph of a rank.
    ModuleId;
    /// One execution of a program, including nested ones.
    RunId;
    /// An allocation.
    TensorId;
    /// A session of phases.
    SessionId;
    /// A source line of a program.
    FrameId;
    /// A call stack.
    StackId;
    /// A thread or stream.
    LaneId;
    /// A node in the tree of a program's scopes.
    ScopeId;
    /// One execution of a scope.
    CallId;
}

/// The number of a step of a rank, counted from 0 in execution order.
pub type Step = u32;

/// A point between steps: position `i` is before step `i`, position `n` after the last of `n` steps.
pub type Position = u32;

/// One of the two sides of a position.
///
/// Events between two top-level programs (inputs arriving, results being dropped) belong to no step. So a position has
/// an early side, right after the step before it, and a late side, right before the step that follows. A step's effect
/// leads from the late side of its position to the early side of the next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Moment(u32);

impl Moment {
    /// Before everything.
    pub const START: Self = Self(0);
    /// After everything: allocations that end here were still live at the end of the input.
    pub const NEVER: Self = Self(u32::MAX);
    /// The maximum number of steps; readers stop there with a warning.
    pub const MAX_STEPS: u32 = u32::MAX / 2 - 1;

    /// Right before `step`.
    #[inline]
    pub fn before(step: Step) -> Self {
        Self(step.min(Self::MAX_STEPS) * 2 + 1)
    }

    /// Right after `step`.
    #[inline]
    pub fn after(step: Step) -> Self {
        Self(step.min(Self::MAX_STEPS) * 2 + 2)
    }

    /// The last moment of a position: after the events between programs, before its step.
    #[inline]
    pub fn late(position: Position) -> Self {
        Self::before(position)
    }

    /// The first moment of a position: right after the step before it.
    #[inline]
    pub fn early(position: Position) -> Self {
        Self(position.min(Self::MAX_STEPS) * 2)
    }

    /// The position of this moment.
    #[inline]
    pub fn position(self) -> Position {
        self.0 / 2
    }

    /// The previous moment.
    #[must_use]
    pub fn earlier(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The moment as a number, for tables indexed by it.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The moment with that number.
    #[inline]
    pub fn from_index(index: usize) -> Option<Self> {
        u32::try_from(index).ok().map(Self)
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEVER => f.write_str("never"),
            m if m.0 % 2 == 0 => write!(f, "early({})", m.position()),
            m => write!(f, "late({})", m.position()),
        }
    }
}

/// The difference of two byte counts.
pub fn difference(a: u64, b: u64) -> i64 {
    i64::try_from(a).unwrap_or(i64::MAX) - i64::try_from(b).unwrap_or(i64::MAX)
}

/// A byte range in the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

/// A byte count that may be unknown, stored in eight bytes.
///
/// Unknown is never zero: a size that the input does not contain stays `UNKNOWN`, which is null in a response.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes(u64);

impl Bytes {
    /// Unknown.
    pub const UNKNOWN: Self = Self(u64::MAX);

    /// A known byte count. (No device has `u64::MAX` bytes; that value means unknown.)
    pub fn known(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The byte count, if known.
    pub fn get(self) -> Option<u64> {
        (self != Self::UNKNOWN).then_some(self.0)
    }

    /// The byte count, or 0 if it is unknown.
    pub fn or_zero(self) -> u64 {
        self.get().unwrap_or(0)
    }
}

impl From<Option<u64>> for Bytes {
    fn from(bytes: Option<u64>) -> Self {
        bytes.map_or(Self::UNKNOWN, Self::known)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(bytes) => write!(f, "{bytes} B"),
            None => f.write_str("unknown"),
        }
    }
}
