//! How a caching allocator divides its memory: the block size of an allocation.
//!
//! The history has the requested size. The block size follows from the position: the free block at that address is
//! split if the rules allow it, and otherwise used as a whole. Adjacent free blocks are always merged, so the existing
//! allocations and segments determine everything.

use std::collections::BTreeMap;

use crate::{AllocatorRules, ROUNDING_CLASSES};

/// Blocks are multiples of this.
const BLOCK: u64 = 512;
/// Allocations up to this size are in separate segments, which are split more finely.
const SMALL: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    bytes: u64,
    /// Whether the segment is expandable and continues the previous one.
    grows: bool,
}

/// An allocator's memory and the blocks in it.
#[derive(Clone, Debug, Default)]
pub struct Tiling {
    segments: BTreeMap<u64, Segment>,
    blocks: BTreeMap<u64, u64>,
    reserved: u64,
    rules: AllocatorRules,
    /// Whether an address or size was not a multiple of a block. PyTorch has none, except with divisions of small powers of
    /// two.
    has_fractions: bool,
}

impl Tiling {
    /// An empty memory, divided by these rules.
    pub fn new(rules: AllocatorRules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// The rules.
    pub fn rules(&self) -> AllocatorRules {
        self.rules
    }

    /// Changes the rules, for later allocations.
    pub fn set_rules(&mut self, rules: AllocatorRules) {
        self.rules = rules;
    }

    /// The bytes reserved from the driver.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// The segments: address, size, and whether they are expandable.
    pub fn segments(&self) -> impl Iterator<Item = (u64, u64, bool)> + '_ {
        self.segments.iter().map(|(&at, segment)| (at, segment.bytes, segment.grows))
    }

    /// The free bytes in reserved memory: the total, and the largest free block.
    pub fn free_pieces(&self) -> (u64, u64) {
        let (mut free, mut largest) = (0_u64, 0_u64);
        for (&start, segment) in &self.segments {
            let end = start.saturating_add(segment.bytes);
            let mut next = start;
            let blocks = self.blocks.range(start..end).map(|(&at, &block)| (at, block));
            for (at, block) in blocks.chain([(end, 0)]) {
                let piece = at.saturating_sub(next);
                (free, largest) = (free.saturating_add(piece), largest.max(piece));
                next = next.max(at.saturating_add(block));
            }
        }
        (free, largest)
    }

    /// Reserves memory from the driver.
    pub fn reserve(&mut self, address: u64, bytes: u64, grows: bool) {
        self.reserved = self.reserved.saturating_add(bytes);
        self.has_fractions |= !is_whole(address, bytes);
        let (mut start, mut end) = (address, address.saturating_add(bytes));
        if grows {
            if let Some((&before, segment)) = self.segments.range(..address).next_back()
                && segment.grows
                && before.saturating_add(segment.bytes) == address
            {
                self.segments.remove(&before);
                start = before;
            }
            if let Some(after) = self.segments.get(&end).copied().filter(|after| after.grows) {
                self.segments.remove(&end);
                end = end.saturating_add(after.bytes);
            }
        }
        self.segments.insert(start, Segment { bytes: end - start, grows });
    }

    /// Releases memory to the driver: a segment, or a part of an expandable one.
    pub fn release(&mut self, address: u64, bytes: u64) {
        self.reserved = self.reserved.saturating_sub(bytes);
        self.has_fractions |= !is_whole(address, bytes);
        let Some((start, segment)) = self.segment_of(address) else { return };
        let (end, until) = (start.saturating_add(segment.bytes), address.saturating_add(bytes));
        self.segments.remove(&start);
        if start < address {
            self.segments.insert(start, Segment { bytes: address - start, ..segment });
        }
        if until < end {
            self.segments.insert(until, Segment { bytes: end - until, ..segment });
        }
    }

    /// Allocates at an address. Returns the block size.
    pub fn allocate(&mut self, address: u64, bytes: u64) -> u64 {
        let block = self.block_for(address, bytes);
        self.put(address, block);
        block
    }

    /// The size of a block at an address, if it does not depend on the blocks around it.
    #[inline]
    pub fn size_alone(&self, address: u64, bytes: u64) -> Option<u64> {
        let wanted = rounded(bytes, &self.rules);
        // A remainder is a separate block or nothing, so the neighbors do not matter.
        (wanted <= SMALL && !self.has_fractions && is_whole(address, wanted)).then_some(wanted)
    }

    /// Adds a block of known size.
    pub fn put(&mut self, address: u64, block: u64) {
        self.has_fractions |= !is_whole(address, block);
        self.blocks.insert(address, block);
    }

    /// Frees a block.
    pub fn free(&mut self, address: u64) {
        self.blocks.remove(&address);
    }

    fn block_for(&self, address: u64, bytes: u64) -> u64 {
        if let Some(block) = self.size_alone(address, bytes) {
            return block;
        }
        let wanted = rounded(bytes, &self.rules);
        let Some((start, segment)) = self.segment_of(address) else { return wanted };
        let end = start.saturating_add(segment.bytes);
        let next =
            self.blocks.range(address.saturating_add(1)..).next().map_or(end, |(&next, _)| next.min(end));
        let Some(left) = (next - address).checked_sub(wanted) else { return wanted };
        let is_cut = if wanted <= SMALL || segment.grows || self.rules.is_expandable {
            left >= BLOCK
        } else {
            left > SMALL && self.rules.max_split.is_none_or(|max| wanted < max)
        };
        if is_cut { wanted } else { wanted + left }
    }

    fn segment_of(&self, address: u64) -> Option<(u64, Segment)> {
        let (&start, &segment) = self.segments.range(..=address).next_back()?;
        (address < start.saturating_add(segment.bytes)).then_some((start, segment))
    }
}

/// Whether a piece of memory consists of whole blocks.
fn is_whole(address: u64, bytes: u64) -> bool {
    (address | bytes).is_multiple_of(BLOCK) && address.checked_add(bytes).is_some()
}

/// The size that an allocator searches for: a multiple of 512 bytes, or of a division of the next lower power of two.
fn rounded(bytes: u64, rules: &AllocatorRules) -> u64 {
    let divisions = u64::from(rules.divisions[size_class(bytes)]);
    if divisions > 1 && bytes > BLOCK.saturating_mul(divisions) {
        let power = 1_u64 << bytes.ilog2();
        let division = power / divisions.next_power_of_two();
        return bytes.checked_next_multiple_of(division.max(1)).unwrap_or(bytes);
    }
    bytes.max(1).checked_next_multiple_of(BLOCK).unwrap_or(bytes)
}

/// The size class that determines the rounding: 0 up to 2 MiB, then one for each power of two.
fn size_class(bytes: u64) -> usize {
    const FIRST: u32 = 20;
    let class = bytes.max(1).ilog2().saturating_sub(FIRST) as usize;
    class.min(ROUNDING_CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn small_blocks_are_cut_and_rounded() {
        let mut tiling = Tiling::default();
        tiling.reserve(0, 2 * MIB, false);
        assert_eq!(tiling.allocate(0, 1), 512);
        assert_eq!(tiling.allocate(512, 513), 1024);
        // A gap between two blocks is used as a whole, although the remainder would be less than a block.
        tiling.allocate(2048, 512);
        assert_eq!(tiling.allocate(1536, 400), 512);
        assert_eq!(tiling.reserved(), 2 * MIB);
        assert_eq!(tiling.free_pieces(), (2 * MIB - 2560, 2 * MIB - 2560));
        tiling.free(512);
        assert_eq!(tiling.free_pieces(), (2 * MIB - 1536, 2 * MIB - 2560));
    }

    /// The size of a small block is known without its neighbors if everything consists of whole blocks.
    #[test]
    fn small_blocks_are_the_same_with_and_without_their_neighbors() {
        let (mut whole, mut compared) = (Tiling::default(), Tiling::default());
        compared.has_fractions = true;
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for tiling in [&mut whole, &mut compared] {
            tiling.reserve(0, 2 * MIB, false);
            tiling.reserve(2 * MIB, 20 * MIB, false);
            tiling.reserve(30 * MIB, 2 * MIB, true);
        }
        for _ in 0..20_000 {
            let most = if next(9) == 0 { 4 * MIB } else { 5000 };
            let (address, bytes) = (next(34 * MIB / BLOCK) * BLOCK, next(most));
            if next(3) == 0 {
                whole.free(address);
                compared.free(address);
            } else {
                assert_eq!(whole.allocate(address, bytes), compared.allocate(address, bytes));
            }
        }
        assert!(!whole.has_fractions);
    }

    #[test]
    fn large_blocks_keep_what_is_not_worth_cutting() {
        let mut tiling = Tiling::default();
        tiling.reserve(0, 20 * MIB, false);
        assert_eq!(tiling.allocate(0, 18 * MIB), 18 * MIB);
        tiling.free(0);
        // A remainder of 1 MiB stays with the block; a larger one does not.
        assert_eq!(tiling.allocate(0, 19 * MIB), 20 * MIB);
        tiling.free(0);
        assert_eq!(tiling.allocate(0, 19 * MIB - 512), 19 * MIB - 512);
    }

    #[test]
    fn segments_that_grow_are_one_and_cut_finely() {
        let mut tiling = Tiling::default();
        tiling.reserve(0, 20 * MIB, true);
        tiling.reserve(20 * MIB, 20 * MIB, true);
        assert_eq!(tiling.allocate(0, 39 * MIB), 39 * MIB);
        tiling.free(0);
        tiling.release(10 * MIB, 20 * MIB);
        assert_eq!(tiling.reserved(), 20 * MIB);
        assert_eq!(tiling.allocate(0, 10 * MIB), 10 * MIB);
        assert_eq!(tiling.allocate(30 * MIB, 10 * MIB - 100), 10 * MIB);
    }

    #[test]
    fn segments_of_their_own_are_not_one_though_they_touch() {
        let mut tiling = Tiling::default();
        tiling.reserve(0, 20 * MIB, false);
        tiling.reserve(20 * MIB, 20 * MIB, false);
        assert_eq!(tiling.allocate(0, 20 * MIB - MIB / 2), 20 * MIB);
    }

    /// The values are those of PyTorch's documentation of `roundup_power2_divisions`, and of its rule.
    #[test]
    fn sizes_are_rounded_to_divisions_of_powers_of_two() {
        let mut rules = AllocatorRules::default();
        assert_eq!([0, 1, 512, 513, 1200].map(|bytes| rounded(bytes, &rules)), [512, 512, 512, 1024, 1536]);
        rules.divisions = [4; ROUNDING_CLASSES];
        // With four divisions, 1200 is rounded up to a multiple of 256. Up to four blocks, it is a multiple of 512.
        assert_eq!(rounded(1200, &rules), 1536);
        assert_eq!(rounded(5000, &rules), 5120);
        assert_eq!(rounded(4096, &rules), 4096);
        assert_eq!(rounded(5 * MIB + 1, &rules), 6 * MIB);
        rules.divisions = [0; ROUNDING_CLASSES];
        rules.divisions[2] = 8;
        assert_eq!(rounded(5 * MIB + 1, &rules), 5 * MIB + MIB / 2);
        assert_eq!(rounded(9 * MIB + 1, &rules), 9 * MIB + 512);
        assert_eq!(rounded(u64::MAX, &rules), u64::MAX);
    }

    #[test]
    fn blocks_above_the_limit_are_not_cut() {
        let rules = AllocatorRules { max_split: Some(64 * MIB), ..AllocatorRules::default() };
        let mut tiling = Tiling::new(rules);
        tiling.reserve(0, 128 * MIB, false);
        assert_eq!(tiling.allocate(0, 64 * MIB), 128 * MIB);
        tiling.free(0);
        assert_eq!(tiling.allocate(0, 63 * MIB), 63 * MIB);
    }
}
