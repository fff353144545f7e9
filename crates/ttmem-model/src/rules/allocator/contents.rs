//! The contents of an allocator's memory at a moment, derived forwards from its actions or backwards from its end.

use rustc_hash::FxHashMap;

use super::tiling::Tiling;
use crate::{AllocatorRules, Bytes, During, HistoryAction, HistoryRow, Nanoseconds, OpId, PoolId};

/// A block in an allocator's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The requested bytes.
    pub bytes: u64,
    /// The size of the block, if known.
    pub block: Option<u64>,
    /// The program has freed it, but a stream may still use it.
    pub is_waiting: bool,
    /// The origin of its allocation, as numbered by the code that added the block.
    pub origin: Option<u32>,
}

/// The contents of an allocator's memory.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    tiling: Tiling,
    blocks: FxHashMap<u64, Block>,
}

impl Contents {
    /// Whether there are no segments and no blocks.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.tiling.reserved() == 0
    }

    /// Whether there are segments.
    pub fn has_segments(&self) -> bool {
        self.tiling.segments().next().is_some()
    }

    /// The settings of the allocator.
    pub fn rules(&self) -> AllocatorRules {
        self.tiling.rules()
    }

    /// Sets the settings of the allocator.
    pub fn set_rules(&mut self, rules: AllocatorRules) {
        self.tiling.set_rules(rules);
    }

    /// Adds a segment, which may be expandable.
    pub fn add_segment(&mut self, address: u64, bytes: u64, grows: bool) {
        self.tiling.reserve(address, bytes, grows);
    }

    /// Adds a block at an address.
    pub fn add_block(&mut self, address: u64, block: Block) {
        if let Some(block) = block.block {
            self.tiling.put(address, block);
        }
        self.blocks.insert(address, block);
    }

    /// Applies an action of the allocator.
    pub fn apply(&mut self, row: &HistoryRow) {
        let HistoryRow { address, bytes, .. } = *row;
        match row.action {
            HistoryAction::Reserved => self.tiling.reserve(address, bytes, false),
            HistoryAction::Mapped => self.tiling.reserve(address, bytes, true),
            HistoryAction::Released | HistoryAction::Unmapped => self.tiling.release(address, bytes),
            HistoryAction::There | HistoryAction::Allocated => {
                let block = row.block.get().unwrap_or_else(|| self.tiling.allocate(address, bytes));
                self.add_block(address, Block { bytes, block: Some(block), is_waiting: false, origin: None });
            }
            HistoryAction::FreeRequested => {
                if let Some(block) = self.blocks.get_mut(&address) {
                    block.is_waiting = true;
                }
            }
            HistoryAction::Freed | HistoryAction::FreeCompleted => {
                self.blocks.remove(&address);
                self.tiling.free(address);
            }
            HistoryAction::Forgotten => {
                *self = Self { tiling: Tiling::new(self.tiling.rules()), ..Self::default() };
            }
            HistoryAction::OutOfMemory | HistoryAction::Highest => {}
        }
    }

    /// The contents before the first of `rows` (action, address, bytes), if `self` are the contents after the last.
    #[must_use]
    pub fn before<I>(mut self, rows: I) -> Self
    where
        I: DoubleEndedIterator<Item = (HistoryAction, u64, u64)>,
    {
        for (action, address, bytes) in rows.rev() {
            self.undo(action, address, bytes);
        }
        self
    }

    fn undo(&mut self, action: HistoryAction, address: u64, bytes: u64) {
        let gone = |is_waiting| Block { bytes, block: None, is_waiting, origin: None };
        match action {
            HistoryAction::Reserved | HistoryAction::Mapped => self.tiling.release(address, bytes),
            HistoryAction::Released => self.tiling.reserve(address, bytes, false),
            HistoryAction::Unmapped => self.tiling.reserve(address, bytes, true),
            HistoryAction::Allocated => {
                self.blocks.remove(&address);
            }
            HistoryAction::Freed => {
                self.blocks.insert(address, gone(false));
            }
            HistoryAction::FreeCompleted => {
                self.blocks.insert(address, gone(true));
            }
            HistoryAction::FreeRequested => {
                // A block that still exists at the end was waiting all the time.
                self.blocks.entry(address).or_insert(gone(true)).is_waiting = false;
            }
            HistoryAction::There
            | HistoryAction::OutOfMemory
            | HistoryAction::Forgotten
            | HistoryAction::Highest => {}
        }
    }

    /// The size of the block at an address; 0 if it was freed and only waits for a stream.
    pub fn allocated_at(&self, address: u64) -> u64 {
        let block = self.blocks.get(&address).filter(|block| !block.is_waiting);
        block.map_or(0, |block| block.block.unwrap_or(block.bytes))
    }

    /// The blocks, by address.
    pub fn blocks(&self) -> Vec<(u64, Block)> {
        let mut blocks: Vec<_> = self.blocks.iter().map(|(&address, &block)| (address, block)).collect();
        blocks.sort_unstable_by_key(|(address, _)| *address);
        blocks
    }

    /// Rows that reproduce the contents as of a time, without any previous state, and the origins of blocks.
    pub fn rows(
        &self,
        pool: PoolId,
        time: Nanoseconds,
    ) -> impl Iterator<Item = (HistoryRow, Option<u32>)> + use<> {
        // The first operation of a recording, because segments have no operation.
        let op = OpId::new(0);
        let row = move |action, address, bytes, block: Option<u64>| {
            let (block, during) = (Bytes::from(block), During::NoCall);
            op.map(|op| HistoryRow { pool, action, address, bytes, block, op, during, time })
        };
        let mut rows = Vec::new();
        for (address, bytes, grows) in self.tiling.segments() {
            let action = if grows { HistoryAction::Mapped } else { HistoryAction::Reserved };
            rows.extend(row(action, address, bytes, None).map(|row| (row, None)));
        }
        // From the end, because the size of a block may follow from the next one.
        for (address, block) in self.blocks().into_iter().rev() {
            let there = row(HistoryAction::There, address, block.bytes, block.block);
            rows.extend(there.map(|row| (row, block.origin)));
            if block.is_waiting {
                let waits = row(HistoryAction::FreeRequested, address, block.bytes, None);
                rows.extend(waits.map(|row| (row, None)));
            }
        }
        rows.into_iter()
    }
}
