//! Compares two ranks by meaning: which steps and tensors correspond, and how the corresponding ones differ.
//!
//! `align` finds corresponding steps by their operation, location and module (`locations`: the files of two checkouts have other
//! paths), `tensors` the tensors they allocate, and `changes` classifies the differences and computes their effect on the peak of each pool. `overlaps` finds which tensors
//! at the peak changed ones were never live together with, and `axis` puts the steps of both ranks on one axis.
//!
//! The result of comparing A with B is the mirror image of comparing B with A: the sides are put into a canonical order
//! first.

mod align;
mod axis;
mod changes;
mod common;
mod locations;
mod overlaps;
mod tensors;

pub use align::Alignment;
pub use axis::{Axis, Stretch, StretchKind};
pub use changes::{Change, ChangeKind, Compared, Higher, Peaks, PoolPeaks, compare};
pub use overlaps::{Others, Overlap, Overlaps};

use ttmem_model::{Profile, Rank};

/// From this number of steps on, a second thread is worth it: the steps are compared more than once.
const MANY_STEPS: usize = 20_000;

/// One of the two ranks that are compared.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The profile of the rank.
    pub profile: &'a Profile,
    /// The rank.
    pub rank: &'a Rank,
}

/// A value for each of the two ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Both<T> {
    /// The value of the first rank.
    pub before: T,
    /// The value of the second rank.
    pub after: T,
}

impl<T> Both<T> {
    /// The values in the other order.
    #[must_use]
    pub fn swapped(self) -> Self {
        Self { before: self.after, after: self.before }
    }

    /// References to the values.
    pub fn as_ref(&self) -> Both<&T> {
        Both { before: &self.before, after: &self.after }
    }

    /// Applies a function to both values.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Both<U> {
        Both { before: f(self.before), after: f(self.after) }
    }
}
