//! How a caching allocator divides its memory: the block size of an allocation.
//!
//! The history has the requested size. The block size follows from the position: the free block at that address is
//! split if the rules allow it, and otherwise used as a whole. Adjacent free blocks are always merged, so the existing
//! allocations and segments determine everything.

use std::collections::BTreeMap;

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
}

impl Tiling {
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

    /// Adds a block of known size.
    pub fn put(&mut self, address: u64, block: u64) {
        self.blocks.insert(address, block);
    }

    /// Frees a block.
    pub fn free(&mut self, address: u64) {
        self.blocks.remove(&address);
    }

    fn block_for(&self, address: u64, bytes: u64) -> u64 {
        let wanted = bytes.max(1).checked_next_multiple_of(BLOCK).unwrap_or(bytes);
        let Some((start, segment)) = self.segment_of(address) else { return wanted };
        let end = start.saturating_add(segment.bytes);
        let next =
            self.blocks.range(address.saturating_add(1)..).next().map_or(end, |(&next, _)| next.min(end));
        let Some(left) = (next - address).checked_sub(wanted) else { return wanted };
        let is_cut = if wanted <= SMALL || segment.grows { left >= BLOCK } else { left > SMALL };
        if is_cut { wanted } else { wanted + left }
    }

    fn segment_of(&self, address: u64) -> Option<(u64, Segment)> {
        let (&start, &segment) = self.segments.range(..=address).next_back()?;
        (address < start.saturating_add(segment.bytes)).then_some((start, segment))
    }
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
}
