//! What there is in an allocator's memory at a moment: found forwards from what it does, or backwards from its end.

use std::collections::BTreeMap;

use super::tiling::Tiling;
use crate::{Bytes, During, HistoryAction, HistoryRow, Nanoseconds, OpId, PoolId};

/// Something that lies in an allocator's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// What the program asked for.
    pub bytes: u64,
    /// What it takes, where that is known.
    pub block: Option<u64>,
    /// The program has given it back, and a stream may still use it.
    pub is_waiting: bool,
}

/// What there is in an allocator's memory.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    tiling: Tiling,
    blocks: BTreeMap<u64, Block>,
}

impl Contents {
    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.tiling.reserved() == 0
    }

    /// There is a segment, which may grow.
    pub fn add_segment(&mut self, address: u64, bytes: u64, grows: bool) {
        self.tiling.reserve(address, bytes, grows);
    }

    /// Something lies at an address.
    pub fn add_block(&mut self, address: u64, block: Block) {
        if let Some(block) = block.block {
            self.tiling.put(address, block);
        }
        self.blocks.insert(address, block);
    }

    /// Follows what the allocator does.
    pub fn apply(&mut self, row: &HistoryRow) {
        let HistoryRow { address, bytes, .. } = *row;
        match row.action {
            HistoryAction::Reserved => self.tiling.reserve(address, bytes, false),
            HistoryAction::Mapped => self.tiling.reserve(address, bytes, true),
            HistoryAction::Released | HistoryAction::Unmapped => self.tiling.release(address, bytes),
            HistoryAction::There | HistoryAction::Allocated => {
                let block = row.block.get().unwrap_or_else(|| self.tiling.allocate(address, bytes));
                self.add_block(address, Block { bytes, block: Some(block), is_waiting: false });
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
            HistoryAction::Forgotten => *self = Self::default(),
            HistoryAction::OutOfMemory | HistoryAction::Highest => {}
        }
    }

    /// What there was before the first of `rows` (what was done, where, and how much), when there is this after the last.
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
        let gone = |is_waiting| Block { bytes, block: None, is_waiting };
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
                // One that is there in the end waited all the time.
                self.blocks.entry(address).or_insert(gone(true)).is_waiting = false;
            }
            HistoryAction::There
            | HistoryAction::OutOfMemory
            | HistoryAction::Forgotten
            | HistoryAction::Highest => {}
        }
    }

    /// The rows that say all this, as it was at a time: to who knows nothing of it.
    pub fn rows(&self, pool: PoolId, time: Nanoseconds) -> impl Iterator<Item = HistoryRow> + '_ {
        // The first operation of a recording: what is neither an allocation nor a step has no other.
        let op = OpId::new(0);
        let row = move |action, address, bytes, block: Option<u64>| {
            let (block, during) = (Bytes::from(block), During::NoCall);
            op.map(|op| HistoryRow { pool, action, address, bytes, block, op, during, time })
        };
        let segments = self.tiling.segments().map(move |(address, bytes, grows)| {
            let action = if grows { HistoryAction::Mapped } else { HistoryAction::Reserved };
            row(action, address, bytes, None)
        });
        let blocks = self.blocks.iter().flat_map(move |(&address, block)| {
            let waits =
                block.is_waiting.then(|| row(HistoryAction::FreeRequested, address, block.bytes, None));
            [Some(row(HistoryAction::There, address, block.bytes, block.block)), waits].into_iter().flatten()
        });
        segments.chain(blocks).flatten()
    }
}
