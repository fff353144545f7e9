//! The state of one allocator while its history is replayed: the blocks by address, and the four levels.

use rustc_hash::FxHashMap;
use ttmem_model::rules::allocator::Tiling;
use ttmem_model::{AllocatorRules, HistoryAction, HistoryRow, Reading};

/// The index of a tensor among those that histories allocate.
pub(super) type Made = usize;

#[derive(Clone, Copy, Debug)]
struct Held {
    made: Made,
    bytes: u64,
    block: u64,
}

/// The effect of a history row on tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// No tensor changes, although the levels may.
    None,
    /// The row allocated a tensor of this size, or found an existing one.
    New(u64),
    /// A tensor was freed.
    Gone(Made),
}

/// A history row's effect, and the state after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub effect: Effect,
    pub levels: Levels,
    /// After a failed allocation: the free bytes in the allocator's segments, and the largest free block.
    pub free: Option<Box<(u64, u64)>>,
}

/// The levels of an allocator, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Levels {
    pub allocated: u64,
    pub active: u64,
    pub reserved: u64,
    pub requested: u64,
}

impl Levels {
    pub fn reading(self) -> Reading {
        Reading {
            allocated: Some(self.allocated),
            active: Some(self.active),
            reserved: Some(self.reserved),
            requested: Some(self.requested),
            ..Reading::default()
        }
    }
}

/// The memory of an allocator.
#[derive(Debug, Default)]
pub(super) struct Device {
    tiling: Tiling,
    held: FxHashMap<u64, Held>,
    /// The sizes of blocks that the program has freed but streams may still use.
    waiting: FxHashMap<u64, u64>,
    /// Blocks from before a gap in the history that have not been confirmed since.
    doubtful: FxHashMap<u64, Held>,
    allocated: u64,
    active: u64,
    requested: u64,
    /// The highest allocated bytes since the counter was last read.
    highest: u64,
    /// The number of inconsistent rows, such as a free of something that was not allocated.
    pub unmatched: u64,
}

impl Device {
    /// An allocator without memory.
    pub fn new(rules: AllocatorRules) -> Self {
        Self { tiling: Tiling::new(rules), ..Self::default() }
    }

    /// The four levels.
    pub fn levels(&self) -> Levels {
        Levels {
            allocated: self.allocated,
            active: self.active,
            reserved: self.tiling.reserved(),
            requested: self.requested,
        }
    }

    /// Replays a row, and returns the state after it as well.
    pub fn change(&mut self, row: &HistoryRow, next: Made) -> Change {
        let effect = self.apply(row, next);
        let failed = row.action == HistoryAction::OutOfMemory;
        let free = failed.then(|| Box::new(self.tiling.free_pieces()));
        Change { effect, levels: self.levels(), free }
    }

    /// Replays a row. A tensor that it allocates gets the index `next`.
    pub fn apply(&mut self, row: &HistoryRow, next: Made) -> Effect {
        match row.action {
            HistoryAction::Reserved => self.tiling.reserve(row.address, row.bytes, false),
            HistoryAction::Mapped => self.tiling.reserve(row.address, row.bytes, true),
            HistoryAction::Released | HistoryAction::Unmapped => self.tiling.release(row.address, row.bytes),
            HistoryAction::There => return self.there(row, next),
            HistoryAction::Allocated => return self.allocate(row, next),
            HistoryAction::Freed => return self.free(row.address),
            HistoryAction::FreeRequested => return self.give_back(row.address),
            HistoryAction::FreeCompleted => self.complete(row.address),
            HistoryAction::Forgotten => self.forget(),
            HistoryAction::OutOfMemory | HistoryAction::Highest => {}
        }
        Effect::None
    }

    /// Whether the allocator has no segments; then its earlier contents are unknown.
    pub fn is_unbounded(&self) -> bool {
        self.tiling.reserved() == 0
    }

    /// The tensor at an address.
    pub fn at(&self, address: u64) -> Option<Made> {
        self.held.get(&address).map(|held| held.made)
    }

    /// Whether there may be tensors from before a gap in the history that no longer exist.
    pub fn has_doubtful(&self) -> bool {
        !self.doubtful.is_empty()
    }

    /// Takes the tensors from before a gap in the history that no longer exist.
    pub fn take_doubtful(&mut self) -> Vec<Made> {
        let mut gone: Vec<Made> = self.doubtful.drain().map(|(_, held)| held.made).collect();
        gone.sort_unstable();
        gone
    }

    /// Whether the allocator's peak counter, since its last reading, exceeds the highest level replayed.
    pub fn was_higher(&mut self, counted: u64) -> bool {
        let seen = std::mem::replace(&mut self.highest, self.allocated);
        counted > seen
    }

    fn allocate(&mut self, row: &HistoryRow, next: Made) -> Effect {
        let block = match row.block.get() {
            Some(block) => {
                self.tiling.put(row.address, block);
                block
            }
            None => self.tiling.allocate(row.address, row.bytes),
        };
        let held = Held { made: next, bytes: row.bytes, block };
        if let Some(lost) = self.held.insert(row.address, held) {
            // Two allocations at one address: the free of the first is missing.
            self.unmatched += 1;
            self.allocated = self.allocated.saturating_sub(lost.block);
            self.active = self.active.saturating_sub(lost.block);
            self.requested = self.requested.saturating_sub(lost.bytes);
        }
        self.count(held);
        Effect::New(block)
    }

    fn there(&mut self, row: &HistoryRow, next: Made) -> Effect {
        match self.doubtful.remove(&row.address) {
            Some(held) if held.bytes == row.bytes => {
                let block = row.block.get().unwrap_or(held.block);
                self.tiling.put(row.address, block);
                let held = Held { block, ..held };
                self.held.insert(row.address, held);
                self.count(held);
                Effect::None
            }
            doubtful => {
                // Put back, so that it is reported as freed later.
                self.doubtful.extend(doubtful.map(|held| (row.address, held)));
                self.allocate(row, next)
            }
        }
    }

    fn count(&mut self, held: Held) {
        self.allocated = self.allocated.saturating_add(held.block);
        self.active = self.active.saturating_add(held.block);
        self.requested = self.requested.saturating_add(held.bytes);
        self.highest = self.highest.max(self.allocated);
    }

    fn let_go(&mut self, address: u64) -> Option<Held> {
        let held = self.held.remove(&address);
        match &held {
            Some(held) => {
                self.allocated = self.allocated.saturating_sub(held.block);
                self.requested = self.requested.saturating_sub(held.bytes);
            }
            None => self.unmatched += u64::from(!self.is_unbounded()),
        }
        held
    }

    fn give_back(&mut self, address: u64) -> Effect {
        let Some(held) = self.let_go(address) else { return Effect::None };
        self.waiting.insert(address, held.block);
        Effect::Gone(held.made)
    }

    fn free(&mut self, address: u64) -> Effect {
        let Some(held) = self.let_go(address) else {
            self.complete(address);
            return Effect::None;
        };
        self.active = self.active.saturating_sub(held.block);
        self.tiling.free(address);
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
        self.tiling = Tiling::new(self.tiling.rules());
        (self.allocated, self.active, self.requested) = (0, 0, 0);
    }
}
