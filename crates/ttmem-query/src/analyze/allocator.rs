//! The allocator of tt-metal. It makes the same decisions in all banks of a pool, so one bank stands for all.
//!
//! An allocation takes the first free block that is large enough: in DRAM the one with the lowest address, and its lower
//! end; in L1 the one with the highest address, and its upper end. Free blocks next to each other are one.

use std::collections::BTreeMap;
use std::ops::Range;

/// The end of a bank where the search for a free block begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchFrom {
    /// The lowest address.
    Bottom,
    /// The highest address.
    Top,
}

impl SearchFrom {
    /// Where allocations of a pool usually begin.
    pub fn of_pool(name: &str) -> Self {
        if name.starts_with("L1") { Self::Top } else { Self::Bottom }
    }

    /// The other end.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Bottom => Self::Top,
            Self::Top => Self::Bottom,
        }
    }
}

/// A bank of a pool.
#[derive(Clone, Debug)]
pub struct Bank {
    alignment: u64,
    /// The ends of free blocks, by their starts.
    free: BTreeMap<u64, u64>,
    /// The ends of allocations, by their starts.
    used: BTreeMap<u64, u64>,
}

impl Bank {
    /// An empty bank.
    pub fn new(addresses: Range<u64>, alignment: u64) -> Self {
        let free = (!addresses.is_empty()).then_some((addresses.start, addresses.end));
        Self { alignment: alignment.max(1), free: free.into_iter().collect(), used: BTreeMap::new() }
    }

    /// The size of an allocation.
    pub fn rounded(&self, bytes: u64) -> u64 {
        bytes.max(1).checked_next_multiple_of(self.alignment).unwrap_or(u64::MAX)
    }

    /// The address that an allocation would get.
    pub fn search(&self, bytes: u64, from: SearchFrom) -> Option<u64> {
        let bytes = self.rounded(bytes);
        let fits = |(start, end): &(&u64, &u64)| **end - **start >= bytes;
        match from {
            SearchFrom::Bottom => self.free.iter().find(fits).map(|(start, _)| *start),
            SearchFrom::Top => self.free.iter().rev().find(fits).map(|(_, end)| end - bytes),
        }
    }

    /// Allocates memory. Returns its address, or `None` if no free block is large enough.
    pub fn allocate(&mut self, bytes: u64, from: SearchFrom) -> Option<u64> {
        let address = self.search(bytes, from)?;
        self.place(address, bytes).then_some(address)
    }

    /// Allocates memory at an address. Returns whether it was free.
    pub fn place(&mut self, address: u64, bytes: u64) -> bool {
        let Some(end) = address.checked_add(self.rounded(bytes)) else { return false };
        let block = self.free.range(..=address).next_back().map(|(start, end)| (*start, *end));
        let Some((first, last)) = block.filter(|(_, last)| end <= *last) else { return false };
        self.free.remove(&first);
        for (start, end) in [(first, address), (end, last)] {
            if start < end {
                self.free.insert(start, end);
            }
        }
        self.used.insert(address, end);
        true
    }

    /// Frees an allocation. Returns whether there was one at the address.
    pub fn free(&mut self, address: u64) -> bool {
        let Some(end) = self.used.remove(&address) else { return false };
        let below = self.free.range(..address).next_back().filter(|(_, end)| **end == address);
        let start = below.map_or(address, |(start, _)| *start);
        let end = self.free.remove(&end).unwrap_or(end);
        self.free.insert(start, end);
        true
    }

    /// The lowest allocated address.
    pub fn lowest(&self) -> Option<u64> {
        self.used.keys().next().copied()
    }

    /// The size of the largest free block.
    pub fn largest_free(&self) -> u64 {
        self.free.iter().map(|(start, end)| end - start).max().unwrap_or(0)
    }

    /// The number of free blocks.
    pub fn free_blocks(&self) -> usize {
        self.free.len()
    }

    /// The free bytes.
    pub fn free_bytes(&self) -> u64 {
        self.free.iter().map(|(start, end)| end - start).sum()
    }
}
