//! The free space of a memory bank whose buffers have known addresses.

use std::collections::BTreeMap;
use std::ops::Range;

/// The buffers in a bank, and the gaps between them.
#[derive(Clone, Debug)]
pub(super) struct FreeSpace {
    bank: Range<u64>,
    /// The end of each buffer, by its start.
    buffers: BTreeMap<u64, u64>,
    /// The number of gaps, by their size.
    gaps: BTreeMap<u64, usize>,
    /// A buffer overlapped another or was outside the bank, so the gaps are unknown.
    is_wrong: bool,
}

impl FreeSpace {
    /// An empty bank with these addresses.
    pub fn new(bank: Range<u64>) -> Self {
        let mut space = Self { bank, buffers: BTreeMap::new(), gaps: BTreeMap::new(), is_wrong: false };
        space.add_gap(space.bank.clone());
        space
    }

    /// Adds a buffer.
    pub fn add(&mut self, address: u64, size: u64) {
        if size == 0 || self.is_wrong {
            return;
        }
        let around = self.gap_around(address);
        let Some(end) = address.checked_add(size).filter(|end| around.start <= address && *end <= around.end)
        else {
            self.is_wrong = true;
            return;
        };
        self.remove_gap(&around);
        self.add_gap(around.start..address);
        self.add_gap(end..around.end);
        self.buffers.insert(address, end);
    }

    /// Removes a buffer.
    pub fn remove(&mut self, address: u64, size: u64) {
        if size == 0 || self.is_wrong {
            return;
        }
        if self.buffers.remove(&address) != address.checked_add(size) {
            self.is_wrong = true;
            return;
        }
        let merged = self.gap_around(address);
        self.remove_gap(&(merged.start..address));
        self.remove_gap(&(address + size..merged.end));
        self.add_gap(merged);
    }

    /// The size of the largest gap; `None` if the buffers contradict each other.
    pub fn largest(&self) -> Option<u64> {
        (!self.is_wrong).then(|| self.gaps.keys().next_back().copied().unwrap_or(0))
    }

    /// The gap between the buffers below and above an address.
    fn gap_around(&self, address: u64) -> Range<u64> {
        let below = self.buffers.range(..=address).next_back().map_or(self.bank.start, |(_, end)| *end);
        let above = self.buffers.range(address..).next().map_or(self.bank.end, |(start, _)| *start);
        below..above
    }

    fn add_gap(&mut self, gap: Range<u64>) {
        if gap.start < gap.end {
            *self.gaps.entry(gap.end - gap.start).or_insert(0) += 1;
        }
    }

    fn remove_gap(&mut self, gap: &Range<u64>) {
        let size = gap.end.saturating_sub(gap.start);
        if let Some(count) = self.gaps.get_mut(&size) {
            *count -= 1;
            if *count == 0 {
                self.gaps.remove(&size);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_gap_is_that_of_a_scan() {
        // Buffers of 8 bytes at every eighth address of a bank of 512 bytes, added and removed in a fixed pattern.
        let mut space = FreeSpace::new(96..608);
        let mut used = [false; 64];
        let mut at = 7_usize;
        for _ in 0..1000 {
            at = (at * 29 + 17) % 64;
            let address = 96 + 8 * at as u64;
            if used[at] {
                space.remove(address, 8);
            } else {
                space.add(address, 8);
            }
            used[at] = !used[at];
            let longest = used.split(|is_used| *is_used).map(<[bool]>::len).max().unwrap_or(0);
            assert_eq!(space.largest(), Some(8 * longest as u64));
        }
    }

    #[test]
    fn contradictions_make_it_unknown() {
        for buffers in
            [&[(100, 8), (104, 8)][..], &[(90, 8)], &[(600, 16)], &[(u64::MAX, 8)], &[(100, 8), (100, 8)]]
        {
            let mut space = FreeSpace::new(96..608);
            for (address, size) in buffers {
                space.add(*address, *size);
            }
            assert_eq!(space.largest(), None, "{buffers:?}");
        }
        let mut space = FreeSpace::new(96..608);
        space.remove(100, 8);
        assert_eq!(space.largest(), None);
    }
}
