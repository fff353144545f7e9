//! The memory of a device at the time of a snapshot, from its segments and their blocks.

use ttmem_model::rules::allocator::{Block, Contents};

/// A segment: memory that the allocator has obtained from the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The start address: `address`.
    pub address: u64,
    /// The size in bytes: `total_size`.
    pub total_size: u64,
    /// Whether the segment can grow and shrink: `is_expandable`.
    pub is_expandable: bool,
}

/// A block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentBlock {
    /// The start address: `address`. Before PyTorch 2.1 it is missing: each block begins at the end of the previous
    /// one.
    pub address: Option<u64>,
    /// The allocated size: `size`.
    pub size: u64,
    /// The bytes that the program requested: `requested_size`, if present.
    pub requested_size: Option<u64>,
    /// Whether it is in use: `state`.
    pub state: BlockState,
    /// The origin of its allocation, if the source of snapshots keeps it: `frames`.
    pub origin: Option<u32>,
}

/// Whether a block is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Free.
    Inactive,
    /// Allocated.
    Allocated,
    /// Freed by the program, but a stream may still use it.
    PendingFree,
}

impl BlockState {
    /// Parses a state. Blocks that wait for a stream have two names, `active_pending_free` and `active_awaiting_free`.
    pub fn new(word: &str) -> Self {
        match word {
            "inactive" => Self::Inactive,
            "active_allocated" => Self::Allocated,
            _ => Self::PendingFree,
        }
    }
}

/// Collects the segments of a device; each is followed by its blocks.
#[derive(Debug, Default)]
pub struct Segments {
    contents: Contents,
    /// The address of the next block if it has none.
    next: u64,
}

impl Segments {
    /// Adds a segment; its blocks follow.
    pub fn segment(&mut self, segment: Segment) {
        self.contents.add_segment(segment.address, segment.total_size, segment.is_expandable);
        self.next = segment.address;
    }

    /// Adds the next block of the segment.
    pub fn block(&mut self, block: SegmentBlock) {
        let address = block.address.unwrap_or(self.next);
        self.next = address.saturating_add(block.size);
        let is_waiting = match block.state {
            BlockState::Inactive => return,
            BlockState::Allocated => false,
            BlockState::PendingFree => true,
        };
        let bytes = block.requested_size.unwrap_or(block.size);
        let origin = block.origin;
        self.contents.add_block(address, Block { bytes, block: Some(block.size), is_waiting, origin });
    }

    /// The contents of the device's memory.
    pub fn finish(self) -> Contents {
        self.contents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_model::{HistoryAction, HistoryRow, PoolId};

    #[test]
    fn blocks_without_addresses_follow_each_other() {
        let blocks = [
            (512, Some(300), "active_allocated"),
            (1024, None, "inactive"),
            (512, None, "active_pending_free"),
            (1024, Some(1000), "active_awaiting_free"),
        ];
        let contents = |is_with: bool| {
            let mut segments = Segments::default();
            let mut address = 4096;
            segments.segment(Segment { address, total_size: 1 << 20, is_expandable: false });
            for (size, requested_size, word) in blocks {
                let state = BlockState::new(word);
                let address_of = is_with.then_some(address);
                segments.block(SegmentBlock {
                    address: address_of,
                    size,
                    requested_size,
                    state,
                    origin: None,
                });
                address += size;
            }
            let rows = segments.finish().rows(PoolId::new(0).unwrap(), 0);
            let rows: Vec<HistoryRow> = rows.map(|(row, _)| row).collect();
            rows
        };
        assert_eq!(contents(true), contents(false));
        let found: Vec<_> = contents(true).iter().map(|row| (row.action, row.address, row.bytes)).collect();
        let wanted = [
            (HistoryAction::Reserved, 4096, 1 << 20),
            (HistoryAction::There, 4096 + 2048, 1000),
            (HistoryAction::FreeRequested, 4096 + 2048, 1000),
            (HistoryAction::There, 4096 + 1536, 512),
            (HistoryAction::FreeRequested, 4096 + 1536, 512),
            (HistoryAction::There, 4096, 300),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn addresses_at_the_end_of_the_address_space_do_no_harm() {
        let mut segments = Segments::default();
        segments.segment(Segment { address: u64::MAX, total_size: u64::MAX, is_expandable: true });
        for size in [u64::MAX, 1, u64::MAX] {
            let state = BlockState::Allocated;
            segments.block(SegmentBlock { address: None, size, requested_size: None, state, origin: None });
        }
        assert!(!segments.finish().is_empty());
    }
}
