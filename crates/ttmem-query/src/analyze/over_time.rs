//! Padding over time: the size of the live tensors before each step, and how much of it is padding.
//!
//! [`padding`](super::padding) examines every tensor for one moment. To get all moments, this module goes through the
//! allocations and frees once, in order.

use ttmem_model::{Moment, PoolId, Profile, Rank, Tensors};

/// The sums of a pool's tensors at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaddedSum {
    /// The size on one device, including padding.
    pub padded: u64,
    /// The size of the elements.
    pub logical: u64,
    /// The number of tensors.
    pub tensors: usize,
}

/// A walk through the allocations and frees of a pool's tensors.
#[derive(Debug)]
pub struct PaddingOverTime<'a> {
    profile: &'a Profile,
    tensors: &'a Tensors,
    births: Events,
    deaths: Events,
    /// Sizes come from the input, so their sums may exceed 64 bits.
    padded: u128,
    logical: u128,
    count: usize,
}

impl<'a> PaddingOverTime<'a> {
    /// Prepares to walk through a pool.
    pub fn new(profile: &'a Profile, rank: &'a Rank, pool: PoolId) -> Self {
        let tensors = &rank.tensors;
        let counts = |&index: &usize| {
            tensors.pool[index] == pool
                && tensors.born[index] < tensors.dies[index]
                && sizes(profile, tensors, index).is_some()
        };
        let rows: Vec<usize> = (0..tensors.len()).filter(counts).collect();
        Self {
            profile,
            tensors,
            births: Events::new(rows.iter().map(|&index| (tensors.born[index], index))),
            deaths: Events::new(rows.iter().map(|&index| (tensors.dies[index], index))),
            padded: 0,
            logical: 0,
            count: 0,
        }
    }

    /// The sums at a moment. Moments must be passed in order.
    pub fn at(&mut self, at: Moment) -> PaddedSum {
        while let Some((padded, logical)) = self.births.next_until(at).and_then(|row| self.sizes(row)) {
            self.padded += u128::from(padded);
            self.logical += u128::from(logical);
            self.count += 1;
        }
        while let Some((padded, logical)) = self.deaths.next_until(at).and_then(|row| self.sizes(row)) {
            self.padded -= u128::from(padded);
            self.logical -= u128::from(logical);
            self.count -= 1;
        }
        PaddedSum {
            padded: u64::try_from(self.padded).unwrap_or(u64::MAX),
            logical: u64::try_from(self.logical).unwrap_or(u64::MAX),
            tensors: self.count,
        }
    }

    fn sizes(&self, row: usize) -> Option<(u64, u64)> {
        sizes(self.profile, self.tensors, row)
    }
}

/// The padded and the logical size of a tensor, if both are known.
fn sizes(profile: &Profile, tensors: &Tensors, index: usize) -> Option<(u64, u64)> {
    let ty = profile.tensor_type(tensors.ty[index]?)?;
    Some((ty.padded.get()?, ty.logical.get()?))
}

/// Rows sorted by the moment of their event.
#[derive(Debug)]
struct Events {
    rows: Vec<(Moment, u32)>,
    next: usize,
}

impl Events {
    fn new(rows: impl Iterator<Item = (Moment, usize)>) -> Self {
        // Row numbers have 32 bits (`TensorId`).
        let mut rows: Vec<(Moment, u32)> =
            rows.filter_map(|(at, row)| Some((at, u32::try_from(row).ok()?))).collect();
        rows.sort_unstable();
        Self { rows, next: 0 }
    }

    /// The next row whose event is not after a moment.
    fn next_until(&mut self, at: Moment) -> Option<usize> {
        let &(when, row) = self.rows.get(self.next)?;
        (when <= at).then(|| {
            self.next += 1;
            row as usize
        })
    }
}
