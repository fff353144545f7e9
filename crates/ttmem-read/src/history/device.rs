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
    /// The segments and blocks, without the changes in `blocks`.
    tiling: Tiling,
    blocks: Blocks,
    /// Blocks from before a gap in the history that have not been confirmed since.
    doubtful: FxHashMap<u64, Held>,
    allocated: u64,
    active: u64,
    requested: u64,
    /// The highest allocated bytes since the counter was last read.
    highest: u64,
    /// The number of inconsistent rows, such as a free of something that was not allocated.
    pub unmatched: u64,
    /// Whether a row contradicted the rows before it, even if nothing is known about the memory before the first row.
    pub is_contradicted: bool,
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
        let free = failed.then(|| {
            self.blocks.update(&mut self.tiling);
            Box::new(self.tiling.free_pieces())
        });
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
        self.blocks.get(address).and_then(|block| block.held).map(|held| held.made)
    }

    /// Whether there is a block at an address, which a stream may still use.
    pub fn has(&self, address: u64) -> bool {
        self.blocks.get(address).is_some_and(|block| block.held.is_some() || block.waiting.is_some())
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
        let (address, bytes) = (row.address, row.bytes);
        let alone = match row.block.get() {
            Some(block) => {
                self.tiling.put(address, block);
                Some(block)
            }
            None => self.tiling.size_alone(address, bytes),
        };
        let block = alone.unwrap_or_else(|| {
            self.blocks.update(&mut self.tiling);
            self.tiling.allocate(address, bytes)
        });
        if self.blocks.is_crowded() {
            self.blocks.update(&mut self.tiling);
            self.blocks.forget_empty();
        }
        let held = Held { made: next, bytes, block };
        let lost = self.blocks.hold(address, held);
        if let Some(lost) = lost {
            // Two allocations at one address: the free of the first is missing.
            self.unmatched += 1;
            self.is_contradicted = true;
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
                self.blocks.hold(row.address, held);
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

    fn let_go(&mut self, held: Held) -> Effect {
        self.allocated = self.allocated.saturating_sub(held.block);
        self.requested = self.requested.saturating_sub(held.bytes);
        Effect::Gone(held.made)
    }

    fn is_not_held(&mut self) {
        self.unmatched += u64::from(!self.is_unbounded());
        self.is_contradicted = true;
    }

    fn give_back(&mut self, address: u64) -> Effect {
        let block = self.blocks.get_mut(address);
        match block.and_then(|block| Some((block.held.take()?, &mut block.waiting))) {
            Some((held, waiting)) => {
                *waiting = Some(held.block);
                self.let_go(held)
            }
            None => {
                self.is_not_held();
                Effect::None
            }
        }
    }

    fn free(&mut self, address: u64) -> Effect {
        match self.blocks.free(address, |block| block.held.take()) {
            Some(held) => {
                self.active = self.active.saturating_sub(held.block);
                self.let_go(held)
            }
            None => {
                self.is_not_held();
                self.complete(address);
                Effect::None
            }
        }
    }

    fn complete(&mut self, address: u64) {
        match self.blocks.free(address, |block| block.waiting.take()) {
            Some(block) => self.active = self.active.saturating_sub(block),
            None => self.is_contradicted = true,
        }
    }

    fn forget(&mut self) {
        let held = std::mem::take(&mut self.blocks).all.into_iter();
        self.doubtful.extend(held.filter_map(|(address, block)| Some((address, block.held?))));
        self.tiling = Tiling::new(self.tiling.rules());
        (self.allocated, self.active, self.requested) = (0, 0, 0);
    }
}

/// What is at an address.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    held: Option<Held>,
    /// The size of the block, if the program has freed it but streams may still use it.
    waiting: Option<u64>,
    /// The size of the block that the allocator has there.
    size: Option<u64>,
    /// Whether the tiling does not have this size yet.
    is_changed: bool,
}

/// Blocks by address. Programs use the same addresses again and again, so an address is kept when its block is freed, and
/// most rows look up one number. The tiling, which is ordered by address, learns of changes only when it needs them: the
/// sizes of small blocks do not depend on their neighbors.
#[derive(Debug, Default)]
struct Blocks {
    at: FxHashMap<u64, u32>,
    all: Vec<(u64, Block)>,
    /// The indexes of blocks that have changed.
    changed: Vec<u32>,
    /// The number of addresses that are too many.
    crowd: usize,
}

impl Blocks {
    /// Up to this number of addresses, none is forgotten.
    const FEW: usize = 4096;

    #[inline]
    fn get(&self, address: u64) -> Option<&Block> {
        self.all.get(*self.at.get(&address)? as usize).map(|(_, block)| block)
    }

    #[inline]
    fn get_mut(&mut self, address: u64) -> Option<&mut Block> {
        self.all.get_mut(*self.at.get(&address)? as usize).map(|(_, block)| block)
    }

    /// Holds a block at an address. Returns what was held there before.
    #[inline]
    fn hold(&mut self, address: u64, held: Held) -> Option<Held> {
        let index = match self.at.get(&address) {
            Some(index) => *index,
            None => self.add(address),
        };
        let (_, block) = self.all.get_mut(index as usize)?;
        block.size = Some(held.block);
        if !std::mem::replace(&mut block.is_changed, true) {
            self.changed.push(index);
        }
        block.held.replace(held)
    }

    /// Frees the block at an address if a function takes something from it.
    #[inline]
    fn free<T>(&mut self, address: u64, take: impl FnOnce(&mut Block) -> Option<T>) -> Option<T> {
        let index = *self.at.get(&address)?;
        let (_, block) = self.all.get_mut(index as usize)?;
        let taken = take(block)?;
        block.size = None;
        if !std::mem::replace(&mut block.is_changed, true) {
            self.changed.push(index);
        }
        Some(taken)
    }

    #[cold]
    fn add(&mut self, address: u64) -> u32 {
        let index = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push((address, Block::default()));
        self.at.insert(address, index);
        index
    }

    /// Whether enough addresses were added since [`Self::forget_empty`] to call it again.
    #[inline]
    fn is_crowded(&self) -> bool {
        self.all.len() > self.crowd.max(Self::FEW)
    }

    /// Forgets the addresses without a block. All changes must have been applied to the tiling.
    fn forget_empty(&mut self) {
        self.all.retain(|(_, block)| block.held.is_some() || block.waiting.is_some());
        self.at = self.all.iter().zip(0..).map(|((address, _), index)| (*address, index)).collect();
        // At least as many are added before the next time.
        self.crowd = 2 * self.all.len();
    }

    /// Applies the changes since the last call to the tiling.
    fn update(&mut self, tiling: &mut Tiling) {
        for index in self.changed.drain(..) {
            let Some((address, block)) = self.all.get_mut(index as usize) else { continue };
            block.is_changed = false;
            match block.size {
                Some(size) => tiling.put(*address, size),
                None => tiling.free(*address),
            }
        }
    }
}
