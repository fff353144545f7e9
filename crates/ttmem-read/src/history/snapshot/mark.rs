//! A mark at the end of a trace, to continue there in a later snapshot of the same ring buffer.

use std::hash::{Hash, Hasher};

/// The number of last entries that are remembered.
const REMEMBERED: usize = 32;
/// The maximum difference between an entry's times in two snapshots, in microseconds: PyTorch converts them each time.
const TOLERANCE: u64 = 10_000;

/// A trace with random access to its entries.
pub trait Trace {
    /// The error when an entry cannot be read.
    type Error;

    /// The number of entries.
    fn len(&self) -> usize;

    /// Whether the trace is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time of an entry, in microseconds.
    fn time_us(&self, index: usize) -> Result<u64, Self::Error>;

    /// The fingerprint of an entry.
    fn fingerprint(&self, index: usize) -> Result<Fingerprint, Self::Error>;
}

/// Identifies an entry by its action, address and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    action: u64,
    address: u64,
    bytes: u64,
}

impl Fingerprint {
    /// The fingerprint of an entry with any `action`, `addr` and `size`.
    pub fn new(action: &str, address: u64, bytes: u64) -> Self {
        let mut hasher = rustc_hash::FxHasher::default();
        action.hash(&mut hasher);
        Self { action: hasher.finish(), address, bytes }
    }
}

/// The end of the part of a trace that was read: its last entries, and the time of the last one.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    until: u64,
    last: Vec<Fingerprint>,
}

impl Mark {
    /// The end of a trace; `None` if it has no entries.
    pub fn end_of<T: Trace>(trace: &T) -> Result<Option<Self>, T::Error> {
        let Some(last) = trace.len().checked_sub(1) else { return Ok(None) };
        let until = trace.time_us(last)?;
        let first = trace.len().saturating_sub(REMEMBERED);
        let last = (first..trace.len()).map(|index| trace.fingerprint(index)).collect::<Result<_, _>>()?;
        Ok(Some(Self { until, last }))
    }

    /// The first entry of a trace after the mark: the one after the last occurrence of the remembered entries,
    /// otherwise the first one with a later time.
    pub fn find<T: Trace>(&self, trace: &T) -> Result<usize, T::Error> {
        if self.last.is_empty() {
            return Ok(0);
        }
        let mut later = trace.len();
        for end in (1..=trace.len()).rev() {
            let time = trace.time_us(end - 1)?;
            if time.saturating_add(TOLERANCE) < self.until {
                break;
            }
            if time > self.until {
                later = end - 1;
            }
            if time <= self.until.saturating_add(TOLERANCE) && self.is_before(trace, end)? {
                return Ok(end);
            }
        }
        Ok(later)
    }

    /// Whether the entries before `end` are the remembered ones. The ring buffer may have lost the first of them.
    fn is_before<T: Trace>(&self, trace: &T, end: usize) -> Result<bool, T::Error> {
        for (back, wanted) in self.last.iter().rev().enumerate() {
            let Some(index) = end.checked_sub(back + 1) else { break };
            if trace.fingerprint(index)? != *wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// Entries as (time, address); addresses repeat.
    struct Ring<'a>(&'a [(u64, u64)]);

    impl Trace for Ring<'_> {
        type Error = Infallible;

        fn len(&self) -> usize {
            self.0.len()
        }

        fn time_us(&self, index: usize) -> Result<u64, Infallible> {
            Ok(self.0[index].0)
        }

        fn fingerprint(&self, index: usize) -> Result<Fingerprint, Infallible> {
            let action = if self.0[index].1 & 1 == 0 { "alloc" } else { "free_completed" };
            Ok(Fingerprint::new(action, self.0[index].1 / 2, 512))
        }
    }

    fn first_new(mark: &Mark, trace: &[(u64, u64)]) -> usize {
        let Ok(first) = mark.find(&Ring(trace));
        first
    }

    fn end_of(trace: &[(u64, u64)]) -> Mark {
        let Ok(mark) = Mark::end_of(&Ring(trace));
        mark.unwrap_or_default()
    }

    #[test]
    fn nothing_was_read_of_a_trace_without_a_mark() {
        assert_eq!(first_new(&Mark::default(), &[(5, 1), (6, 2)]), 0);
        assert_eq!(first_new(&end_of(&[]), &[(5, 1)]), 0);
        assert_eq!(first_new(&end_of(&[(5, 1), (6, 2)]), &[]), 0);
    }

    #[test]
    fn a_ring_that_lost_the_mark_is_new_from_the_first_later_entry() {
        let mark = end_of(&[(5, 1), (6, 2)]);
        assert_eq!(first_new(&mark, &[(100_000, 7), (100_001, 8)]), 0);
        // Remembered entries are only searched for at their time.
        assert_eq!(first_new(&mark, &[(100_000, 1), (100_001, 2)]), 0);
        assert_eq!(first_new(&mark, &[(3, 9), (6, 7), (7, 8)]), 2);
    }

    proptest! {
        /// A ring buffer may lose entries at its beginning and times may shift, but the entries after the mark are
        /// found exactly: none is read twice, and none is skipped.
        #[test]
        fn entries_after_the_mark_are_found(
            // Distinct addresses, so that the 32 entries occur only once.
            gaps in proptest::collection::vec(0_u64..400, 1..120),
            read in 1_usize..120,
            lost in 0_usize..120,
            shift in 0_u64..9_000,
        ) {
            let mut time = 1_000_000;
            let whole: Vec<(u64, u64)> = (0_u64..).zip(&gaps).map(|(index, gap)| { time += gap; (time, index) }).collect();
            let read = read.min(whole.len());
            // The ring buffer still has the last entry that was read.
            let lost = lost.min(read - 1);
            let later: Vec<(u64, u64)> = whole[lost..].iter().map(|&(time, what)| (time + shift, what)).collect();
            prop_assert_eq!(first_new(&end_of(&whole[..read]), &later), read - lost);
        }

        /// For any ring buffer, the result is a valid index.
        #[test]
        fn a_place_is_found_in_any_ring(
            before in proptest::collection::vec((0_u64..50_000, 0_u64..6), 0..60),
            after in proptest::collection::vec((0_u64..50_000, 0_u64..6), 0..60),
        ) {
            prop_assert!(first_new(&end_of(&before), &after) <= after.len());
        }
    }
}
