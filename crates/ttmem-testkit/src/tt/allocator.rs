//! The free list of one bank.
//!
//! The device allocates in lock step: a buffer has the same address and the same size in every bank of a pool, so one
//! bank represents all of them. The size of a tensor per bank is decided elsewhere (`tensor.rs`); this module only
//! places blocks, where tt-metal's allocator places them, so that the largest free block is realistic.

use std::collections::BTreeMap;

/// Why a block could not be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The free bytes in the bank, in any number of blocks.
    pub free: u64,
    /// The largest of those blocks.
    pub largest: u64,
}

/// One bank of a pool.
#[derive(Clone, Debug)]
pub struct Bank {
    capacity: u64,
    alignment: u64,
    /// Whether blocks are placed at the end of the last hole, as in L1, or at the start of the first one.
    top_down: bool,
    allocated: u64,
    /// Free blocks by address, never adjacent.
    free: BTreeMap<u64, u64>,
    /// Used blocks by address.
    used: BTreeMap<u64, u64>,
}

impl Bank {
    pub fn new(capacity: u64, alignment: u64) -> Self {
        let free = if capacity == 0 { BTreeMap::new() } else { BTreeMap::from([(0, capacity)]) };
        Self { capacity, alignment, top_down: false, allocated: 0, free, used: BTreeMap::new() }
    }

    /// A bank whose blocks begin at the end.
    pub fn top_down(capacity: u64, alignment: u64) -> Self {
        Self { top_down: true, ..Self::new(capacity, alignment) }
    }

    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    pub fn allocated(&self) -> u64 {
        self.allocated
    }

    pub fn largest_free(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0)
    }

    /// Places a block in the first hole that fits, and returns its address.
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, Shortage> {
        let bytes = bytes.max(1).next_multiple_of(self.alignment);
        let mut holes = self.free.iter().filter(|&(_, &size)| size >= bytes);
        let hole = if self.top_down { holes.next_back() } else { holes.next() };
        let Some((&hole, &size)) = hole else {
            return Err(Shortage { free: self.capacity - self.allocated, largest: self.largest_free() });
        };
        self.free.remove(&hole);
        let (address, rest) = if self.top_down { (hole + size - bytes, hole) } else { (hole, hole + bytes) };
        if size > bytes {
            self.free.insert(rest, size - bytes);
        }
        self.used.insert(address, bytes);
        self.allocated += bytes;
        Ok(address)
    }

    /// Frees the block at `address` and merges it with adjacent free blocks.
    pub fn release(&mut self, address: u64) {
        let mut size = self.used.remove(&address).expect("a block is released once");
        self.allocated -= size;
        let mut start = address;
        if let Some(after) = self.free.remove(&(address + size)) {
            size += after;
        }
        if let Some((&before, &length)) = self.free.range(..address).next_back()
            && before + length == address
        {
            start = before;
            size += length;
        }
        self.free.insert(start, size);
    }
}

#[cfg(test)]
mod tests {
    use super::{Bank, Shortage};
    use crate::random::Random;

    /// Blocks tile the bank: no overlap, no gap, and no adjacent free blocks.
    fn check(bank: &Bank) {
        let mut blocks: Vec<(u64, u64, bool)> =
            bank.free.iter().map(|(&at, &size)| (at, size, true)).collect();
        blocks.extend(bank.used.iter().map(|(&at, &size)| (at, size, false)));
        blocks.sort_unstable();
        let mut end = 0;
        let mut last_free = false;
        for (address, size, free) in blocks {
            assert_eq!(address, end, "blocks follow one another");
            assert!(size > 0 && !(free && last_free), "free neighbors are joined");
            assert!(free || (address % bank.alignment == 0 && size % bank.alignment == 0));
            (end, last_free) = (address + size, free);
        }
        assert_eq!(end, bank.capacity);
        assert_eq!(bank.allocated, bank.used.values().sum::<u64>());
        assert!(bank.largest_free() <= bank.capacity - bank.allocated);
    }

    #[test]
    fn any_order_of_calls_keeps_the_bank_whole() {
        let mut random = Random::new(11);
        let mut bank = Bank::new(1_000_016, 32);
        let mut live = Vec::new();
        for _ in 0..4000 {
            if random.chance(55) || live.is_empty() {
                match bank.allocate(random.between(0, 30_000)) {
                    Ok(address) => live.push(address),
                    Err(shortage) => assert!(shortage.largest <= shortage.free),
                }
            } else {
                bank.release(live.swap_remove(random.index(live.len())));
            }
            check(&bank);
        }
        for address in live {
            bank.release(address);
        }
        assert_eq!((bank.allocated(), bank.largest_free()), (0, 1_000_016));
    }

    #[test]
    fn the_first_hole_is_taken() {
        let mut bank = Bank::new(1024, 32);
        let blocks: Vec<u64> = [256, 32, 64, 32].map(|size| bank.allocate(size).unwrap()).to_vec();
        bank.release(blocks[0]);
        bank.release(blocks[2]);
        assert_eq!(bank.allocate(64), Ok(blocks[0]));
        assert_eq!(bank.allocate(33), Ok(blocks[0] + 64));
        let mut bank = Bank::top_down(1024, 32);
        let blocks: Vec<u64> = [256, 32, 64, 32].map(|size| bank.allocate(size).unwrap()).to_vec();
        assert_eq!(blocks, [768, 736, 672, 640]);
        bank.release(blocks[0]);
        bank.release(blocks[2]);
        assert_eq!(bank.allocate(64), Ok(960));
        assert_eq!(bank.allocate(300), Ok(640 - 320));
    }

    #[test]
    fn holes_do_not_add_up() {
        let mut bank = Bank::new(192, 64);
        let blocks: Vec<u64> = (0..3).map(|_| bank.allocate(64).unwrap()).collect();
        bank.release(blocks[0]);
        bank.release(blocks[2]);
        assert_eq!(bank.allocate(128), Err(Shortage { free: 128, largest: 64 }));
    }

    #[test]
    fn a_pool_without_room_holds_nothing() {
        let mut bank = Bank::new(0, 32);
        assert_eq!(bank.allocate(1), Err(Shortage { free: 0, largest: 0 }));
        assert_eq!((bank.allocated(), bank.largest_free()), (0, 0));
    }
}
