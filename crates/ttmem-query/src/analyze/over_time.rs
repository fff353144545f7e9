//! Padding over time: what the tensors alive before each step take, and how much of it is padding.
//!
//! [`padding`](super::padding) answers for one moment by looking at every tensor. Who asks for every step walks
//! through the births and deaths once instead, in order.

use ttmem_model::{Moment, PoolId, Profile, Rank, Tensors};

/// What the tensors of a pool add up to at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaddedSum {
    /// All bytes, on one device.
    pub padded: u64,
    /// The bytes of the elements alone.
    pub logical: u64,
    /// How many tensors that are.
    pub tensors: usize,
}

/// Walks through the lives of a pool's tensors.
#[derive(Debug)]
pub struct PaddingOverTime<'a> {
    profile: &'a Profile,
    tensors: &'a Tensors,
    births: Events,
    deaths: Events,
    /// Sizes come from evidence: sums of them may be larger than one of them can be.
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

    /// The sum at a moment, which must not be before the one that was asked for last.
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

/// The padded and the logical bytes of a tensor, where both are known.
fn sizes(profile: &Profile, tensors: &Tensors, index: usize) -> Option<(u64, u64)> {
    let ty = profile.tensor_type(tensors.ty[index]?)?;
    Some((ty.padded.get()?, ty.logical.get()?))
}

/// Rows by the moment at which something happens to them.
#[derive(Debug)]
struct Events {
    rows: Vec<(Moment, u32)>,
    next: usize,
}

impl Events {
    fn new(rows: impl Iterator<Item = (Moment, usize)>) -> Self {
        // Rows are numbered with 32 bits (`TensorId`).
        let mut rows: Vec<(Moment, u32)> =
            rows.filter_map(|(at, row)| Some((at, u32::try_from(row).ok()?))).collect();
        rows.sort_unstable();
        Self { rows, next: 0 }
    }

    /// The next row that something happens to until a moment.
    fn next_until(&mut self, at: Moment) -> Option<usize> {
        let &(when, row) = self.rows.get(self.next)?;
        (when <= at).then(|| {
            self.next += 1;
            row as usize
        })
    }
}
