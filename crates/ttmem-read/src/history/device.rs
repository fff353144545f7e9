//! One allocator's memory while its history is followed: what lies where, and the four levels.

use rustc_hash::FxHashMap;
use ttmem_model::rules::allocator::Tiling;
use ttmem_model::{HistoryAction, HistoryRow, Reading};

/// A tensor by its number among those that histories have made.
pub(super) type Made = usize;

#[derive(Clone, Copy, Debug)]
struct Held {
    made: Made,
    bytes: u64,
    block: u64,
}

/// What a row of the history does to tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing, though levels may be others now.
    None,
    /// There is a new tensor of that size, made by this row or found by it.
    New(u64),
    /// One is gone.
    Gone(Made),
}

/// An allocator's memory.
#[derive(Debug, Default)]
pub(super) struct Device {
    tiling: Tiling,
    held: FxHashMap<u64, Held>,
    /// What the program has given back and streams may still use, and how large it is.
    waiting: FxHashMap<u64, u64>,
    /// What was there before something was forgotten, and has not been said anew.
    doubtful: FxHashMap<u64, Held>,
    allocated: u64,
    active: u64,
    requested: u64,
    /// The most that was allocated since a counter was last read.
    highest: u64,
    /// A row that makes no sense: something given back that was not there.
    pub unmatched: u64,
}

impl Device {
    /// The four levels.
    pub fn reading(&self) -> Reading {
        Reading {
            allocated: Some(self.allocated),
            active: Some(self.active),
            reserved: Some(self.tiling.reserved()),
            requested: Some(self.requested),
            ..Reading::default()
        }
    }

    /// Follows a row. A tensor that it makes is to be number `next`.
    pub fn apply(&mut self, row: &HistoryRow, next: Made) -> Effect {
        match row.action {
            HistoryAction::Reserved => self.tiling.reserve(row.address, row.bytes, false),
            HistoryAction::Mapped => self.tiling.reserve(row.address, row.bytes, true),
            HistoryAction::Released | HistoryAction::Unmapped => self.tiling.release(row.address, row.bytes),
            HistoryAction::There => return self.there(row, next),
            HistoryAction::Allocated => return self.allocate(row, next),
            HistoryAction::Freed => {
                let gone = self.give_back(row.address);
                self.complete(row.address);
                return gone;
            }
            HistoryAction::FreeRequested => return self.give_back(row.address),
            HistoryAction::FreeCompleted => self.complete(row.address),
            HistoryAction::Forgotten => self.forget(),
            HistoryAction::OutOfMemory | HistoryAction::Highest => {}
        }
        Effect::None
    }

    /// Whether the allocator has no memory of its own that it gives out: then nobody has said what was there before.
    pub fn is_unbounded(&self) -> bool {
        self.tiling.reserved() == 0
    }

    /// What is free of the memory that the allocator has: all of it, and the largest piece.
    pub fn free_pieces(&self) -> (u64, u64) {
        self.tiling.free_pieces()
    }

    /// What lies at an address.
    pub fn at(&self, address: u64) -> Option<Made> {
        self.held.get(&address).map(|held| held.made)
    }

    /// What was there before something was forgotten, and is not there any more.
    pub fn take_doubtful(&mut self) -> Vec<Made> {
        let mut gone: Vec<Made> = self.doubtful.drain().map(|(_, held)| held.made).collect();
        gone.sort_unstable();
        gone
    }

    /// A counter says what the most was since it was read last: whether that was not seen.
    pub fn was_higher(&mut self, counted: u64) -> bool {
        let seen = std::mem::replace(&mut self.highest, self.allocated);
        counted > seen
    }

    fn allocate(&mut self, row: &HistoryRow, next: Made) -> Effect {
        if self.held.contains_key(&row.address) {
            // Two at one place: the end of the first was not told.
            self.unmatched += 1;
            self.give_back(row.address);
            self.complete(row.address);
        }
        let block = match row.block.get() {
            Some(block) => {
                self.tiling.put(row.address, block);
                block
            }
            None => self.tiling.allocate(row.address, row.bytes),
        };
        self.hold(row.address, Held { made: next, bytes: row.bytes, block });
        Effect::New(block)
    }

    fn there(&mut self, row: &HistoryRow, next: Made) -> Effect {
        match self.doubtful.remove(&row.address) {
            Some(held) if held.bytes == row.bytes => {
                let block = row.block.get().unwrap_or(held.block);
                self.tiling.put(row.address, block);
                self.hold(row.address, Held { block, ..held });
                Effect::None
            }
            doubtful => {
                // Put back: whoever asks learns that it is gone.
                self.doubtful.extend(doubtful.map(|held| (row.address, held)));
                self.allocate(row, next)
            }
        }
    }

    fn hold(&mut self, address: u64, held: Held) {
        self.held.insert(address, held);
        self.allocated = self.allocated.saturating_add(held.block);
        self.active = self.active.saturating_add(held.block);
        self.requested = self.requested.saturating_add(held.bytes);
        self.highest = self.highest.max(self.allocated);
    }

    fn give_back(&mut self, address: u64) -> Effect {
        let Some(held) = self.held.remove(&address) else {
            self.unmatched += u64::from(!self.is_unbounded());
            return Effect::None;
        };
        self.allocated = self.allocated.saturating_sub(held.block);
        self.requested = self.requested.saturating_sub(held.bytes);
        self.waiting.insert(address, held.block);
        Effect::Gone(held.made)
    }

    fn complete(&mut self, address: u64) {
        if let Some(block) = self.waiting.remove(&address) {
            self.active = self.active.saturating_sub(block);
            self.tiling.free(address);
        }
    }

    fn forget(&mut self) {
        self.doubtful.extend(self.held.drain());
        self.waiting.clear();
        self.tiling = Tiling::default();
        (self.allocated, self.active, self.requested) = (0, 0, 0);
    }
}
