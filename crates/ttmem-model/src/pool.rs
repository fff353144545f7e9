//! Memory pools and their observed states.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{AllocatorRules, BankLayout, Moment, StrId, Totals};

/// A pool: memory of one kind on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// `DRAM`, `L1`, `L1_SMALL`, `TRACE`, `CUDA:0` …
    pub name: StrId,
    /// The number of banks; all sizes of the pool are per bank. `None`: unknown.
    pub banks: Option<u32>,
    /// The rounding quantum of the input's numbers; 0 if they are exact.
    pub quantum: u64,
    /// The addresses of a bank, if the input has them.
    pub layout: Option<BankLayout>,
    /// The settings of its caching allocator, if the input has them.
    pub rules: Option<AllocatorRules>,
    /// The input's totals for the device, computed by its own rule; `None`: all banks are equal.
    pub totals: Option<Totals>,
    /// Set if the readings are samples, so it may have been higher in between; the inner value is the true peak, if the
    /// input states it. `None`: every relevant change was observed.
    pub sampled: Option<Option<u64>>,
    /// Whether the allocated bytes are the sum of the tensors at every moment, because both were computed from the same
    /// history.
    pub is_sum_of_tensors: bool,
    /// The observed values, by kind. Curves that are equal may be one.
    pub curves: Vec<(CurveKind, Arc<Curve>)>,
    /// The block tables kept at some moments, in order.
    pub maps: Vec<BlockMap>,
    /// The moments when the pool was observed.
    pub observed: Moments,
    latest: Option<Moment>,
}

/// The blocks of a bank at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMap {
    /// The moment.
    pub at: Moment,
    /// The blocks, by address.
    pub blocks: Vec<Block>,
}

/// A block of a bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Block {
    /// The start address.
    pub address: u64,
    /// The size.
    pub size: u64,
    /// Whether it is allocated.
    pub allocated: bool,
}

/// The kind of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CurveKind {
    /// Bytes allocated.
    Allocated,
    /// Bytes allocated, including blocks whose free waits for a stream.
    Active,
    /// Bytes that the allocator reserved from the driver.
    Reserved,
    /// Bytes that the program requested, before rounding.
    Requested,
    /// Free bytes.
    Free,
    /// The size of the largest free block.
    LargestFree,
    /// Total bytes.
    Capacity,
}

/// One reading of a pool. `None`: not in the input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// See [`CurveKind::Allocated`].
    pub allocated: Option<u64>,
    /// See [`CurveKind::Active`].
    pub active: Option<u64>,
    /// See [`CurveKind::Reserved`].
    pub reserved: Option<u64>,
    /// See [`CurveKind::Requested`].
    pub requested: Option<u64>,
    /// See [`CurveKind::Free`].
    pub free: Option<u64>,
    /// See [`CurveKind::LargestFree`].
    pub largest_free: Option<u64>,
    /// See [`CurveKind::Capacity`].
    pub capacity: Option<u64>,
}

impl Reading {
    /// The values, by kind.
    pub fn values(&self) -> [(CurveKind, Option<u64>); 7] {
        [
            (CurveKind::Allocated, self.allocated),
            (CurveKind::Active, self.active),
            (CurveKind::Reserved, self.reserved),
            (CurveKind::Requested, self.requested),
            (CurveKind::Free, self.free),
            (CurveKind::LargestFree, self.largest_free),
            (CurveKind::Capacity, self.capacity),
        ]
    }

    /// Sets the value of one kind.
    pub fn set(&mut self, kind: CurveKind, value: Option<u64>) {
        *match kind {
            CurveKind::Allocated => &mut self.allocated,
            CurveKind::Active => &mut self.active,
            CurveKind::Reserved => &mut self.reserved,
            CurveKind::Requested => &mut self.requested,
            CurveKind::Free => &mut self.free,
            CurveKind::LargestFree => &mut self.largest_free,
            CurveKind::Capacity => &mut self.capacity,
        } = value;
    }
}

impl Pool {
    /// A pool without observations.
    pub fn new(name: StrId, banks: Option<u32>, quantum: u64) -> Self {
        let (curves, observed) = (Vec::new(), Moments::default());
        Self {
            name,
            banks,
            quantum,
            layout: None,
            rules: None,
            totals: None,
            sampled: None,
            is_sum_of_tensors: false,
            curves,
            maps: Vec::new(),
            observed,
            latest: None,
        }
    }

    /// Records a reading. Returns `false` if it is earlier than the last one.
    pub fn observe(&mut self, at: Moment, reading: &Reading) -> bool {
        if !self.look(at) {
            return false;
        }
        for (kind, value) in reading.values() {
            let Some(value) = value else { continue };
            match self.curves.iter_mut().find(|(have, _)| *have == kind) {
                Some((_, curve)) => Arc::make_mut(curve).push(at, value),
                None => self.set_curve(kind, Curve { at: vec![at], value: vec![value] }.into()),
            }
        }
        true
    }

    /// Sets the curve of one kind. Its moments must have been observed.
    pub fn set_curve(&mut self, kind: CurveKind, curve: Arc<Curve>) {
        // In the order of kinds, so that the order of readings does not matter.
        let index = self.curves.partition_point(|(have, _)| *have < kind);
        match self.curves.get_mut(index).filter(|(have, _)| *have == kind) {
            Some((_, have)) => *have = curve,
            None => self.curves.insert(index, (kind, curve)),
        }
    }

    /// Records that the pool was observed. Returns `false` if it is earlier than the last reading.
    #[inline]
    pub fn look(&mut self, at: Moment) -> bool {
        if at == Moment::NEVER || self.latest.is_some_and(|latest| at < latest) {
            return false;
        }
        self.latest = Some(at);
        self.observed.insert(at);
        true
    }

    /// Adds a block to the block table of a moment.
    pub fn map(&mut self, at: Moment, block: Block) {
        match self.maps.last_mut().filter(|map| map.at == at) {
            Some(map) => map.blocks.push(block),
            None => self.maps.push(BlockMap { at, blocks: vec![block] }),
        }
    }

    /// The block table of a moment, if there is one.
    pub fn map_at(&self, at: Moment) -> Option<&BlockMap> {
        self.maps.iter().find(|map| map.at == at)
    }

    /// The curve of one kind, if the input has it.
    pub fn curve(&self, kind: CurveKind) -> Option<&Curve> {
        self.curves.iter().find(|(have, _)| *have == kind).map(|(_, curve)| curve.as_ref())
    }

    /// The last reading at or before `at`, even if the pool was not observed at `at`.
    pub fn reading(&self, at: Moment) -> Reading {
        let mut reading = Reading::default();
        for (kind, curve) in &self.curves {
            reading.set(*kind, curve.value_at(at));
        }
        reading
    }
}

/// A value over time, stored as its changes.
///
/// Several changes may have the same moment (before and after a submit); all of them are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// The moments of the changes, in order.
    pub at: Vec<Moment>,
    /// The values after the changes.
    pub value: Vec<u64>,
}

impl Curve {
    /// Adds the value at a moment, which must not be earlier than the last one.
    #[inline]
    pub fn push(&mut self, at: Moment, value: u64) {
        if self.value.last() != Some(&value) {
            self.at.push(at);
            self.value.push(value);
        }
    }

    /// Reserves memory for more changes.
    pub fn reserve(&mut self, changes: usize) {
        self.at.reserve_exact(changes);
        self.value.reserve_exact(changes);
    }

    /// The value at a moment.
    pub fn value_at(&self, at: Moment) -> Option<u64> {
        let after = self.at.partition_point(|&moment| moment <= at);
        self.value.get(after.checked_sub(1)?).copied()
    }

    /// A cursor over the curve, for queries in order of time.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(&self.at, &self.value)
    }

    /// The changes, in order.
    pub fn changes(&self) -> impl Iterator<Item = (Moment, u64)> + '_ {
        self.at.iter().copied().zip(self.value.iter().copied())
    }

    /// The changes from a row on, in order.
    pub fn changes_from(&self, row: usize) -> impl Iterator<Item = (Moment, u64)> + '_ {
        let row = row.min(self.at.len());
        self.at[row..].iter().copied().zip(self.value[row..].iter().copied())
    }

    /// The last value.
    pub fn last(&self) -> Option<u64> {
        self.value.last().copied()
    }
}

/// Returns a curve's values in order of time, without searching.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    at: &'a [Moment],
    value: &'a [u64],
    next: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor over changes: their moments, in order, and their values.
    pub fn new(at: &'a [Moment], value: &'a [u64]) -> Self {
        Self { at, value, next: 0 }
    }

    /// The same, for queries that start at a moment.
    #[must_use]
    pub fn starting_at(mut self, at: Moment) -> Self {
        self.next = self.at.partition_point(|moment| *moment <= at);
        self
    }

    /// The moment of the next change after the last query.
    #[inline]
    pub fn next_change(&self) -> Option<Moment> {
        self.at.get(self.next).copied()
    }

    /// The value at a moment, which must not be earlier than that of the last query.
    #[inline]
    pub fn value_at(&mut self, at: Moment) -> Option<u64> {
        while self.at.get(self.next).is_some_and(|moment| *moment <= at) {
            self.next += 1;
        }
        self.value.get(self.next.checked_sub(1)?).copied()
    }
}

/// A set of moments, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    words: Vec<u64>,
}

impl Moments {
    /// Adds a moment.
    #[inline]
    pub fn insert(&mut self, at: Moment) {
        let (word, bit) = (at.index() / 64, at.index() % 64);
        if at == Moment::NEVER {
            return;
        }
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << bit;
    }

    /// Whether it contains a moment.
    #[inline]
    pub fn contains(&self, at: Moment) -> bool {
        self.words.get(at.index() / 64).is_some_and(|word| word >> (at.index() % 64) & 1 == 1)
    }

    /// Whether the moments from one early side of a position to another one are exactly the early sides between them.
    pub fn are_early_sides(&self, from: Moment, until: Moment) -> bool {
        const EARLY: u64 = u64::MAX / 3;
        let (first, last) = (from.index() / 64, until.index() / 64);
        let Some(words) = self.words.get(first..=last) else { return false };
        words.iter().zip(first..).all(|(word, index)| {
            let low = if index == first { u64::MAX << (from.index() % 64) } else { u64::MAX };
            let high = if index == last { u64::MAX >> (63 - until.index() % 64) } else { u64::MAX };
            word & low & high == EARLY & low & high
        })
    }

    /// The last moment, if there is one.
    pub fn last(&self) -> Option<Moment> {
        self.last_until(Moment::NEVER)
    }

    /// The last moment at or before another.
    pub fn last_until(&self, at: Moment) -> Option<Moment> {
        let (word, bit) = (at.index() / 64, at.index() % 64);
        let until = |index: usize, content: u64| {
            if index == word { content & (u64::MAX >> (63 - bit)) } else { content }
        };
        let words = &self.words[..self.words.len().min(word + 1)];
        let (index, content) = words
            .iter()
            .enumerate()
            .rev()
            .map(|(index, word)| (index, until(index, *word)))
            .find(|(_, word)| *word != 0)?;
        Moment::from_index(index * 64 + 63 - content.leading_zeros() as usize)
    }

    /// The moments from one to another, inclusive, in order.
    pub fn range(&self, from: Moment, until: Moment) -> impl Iterator<Item = Moment> + '_ {
        let (first, last) = (from.index() / 64, until.index() / 64);
        let mask = move |index: usize| {
            let low = if index == first { u64::MAX << (from.index() % 64) } else { u64::MAX };
            let high = if index == last { u64::MAX >> (63 - until.index() % 64) } else { u64::MAX };
            low & high
        };
        let words = self.words.iter().enumerate().take(last.saturating_add(1)).skip(first);
        words
            .flat_map(move |(index, word)| Bits(word & mask(index)).map(move |bit| index * 64 + bit))
            .filter_map(Moment::from_index)
    }

    /// All moments, in order.
    pub fn iter(&self) -> impl Iterator<Item = Moment> + '_ {
        self.range(Moment::START, Moment::NEVER)
    }

    /// The number of moments.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there are no moments.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }
}

/// The indexes of the set bits, from the lowest.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (bit < 64).then_some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_keeps_its_changes_and_both_sides_of_a_position() {
        let mut pool = Pool::new(StrId::new(0).unwrap(), Some(12), 1049);
        for (at, allocated) in
            [(Moment::before(0), 5), (Moment::before(1), 5), (Moment::early(2), 9), (Moment::late(2), 7)]
        {
            pool.observe(at, &Reading { allocated: Some(allocated), ..Reading::default() });
        }
        let curve = pool.curve(CurveKind::Allocated).unwrap();
        assert_eq!(curve.value, [5, 9, 7]);
        assert_eq!(curve.value_at(Moment::START), None);
        assert_eq!(curve.value_at(Moment::before(1)), Some(5));
        assert_eq!(curve.value_at(Moment::early(2)), Some(9));
        assert_eq!(curve.value_at(Moment::late(9)), Some(7));
        assert!(pool.observed.contains(Moment::before(1)) && !pool.observed.contains(Moment::after(0)));
        assert_eq!(pool.observed.last(), Some(Moment::late(2)));
        assert_eq!(pool.observed.last_until(Moment::early(2)), Some(Moment::early(2)));
        assert_eq!(pool.observed.last_until(Moment::after(0)), Some(Moment::before(0)));
        assert_eq!(pool.observed.last_until(Moment::START), None);
        assert_eq!(pool.observed.iter().count(), 4);
    }
}
