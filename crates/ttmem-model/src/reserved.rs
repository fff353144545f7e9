//! The memory that a caching allocator has reserved, and the settings that determine how it divides it.

use serde::{Deserialize, Serialize};

use super::PoolId;
use super::columns::columns;

columns! {
    /// A segment at the end of the input: memory that the allocator has reserved from the driver.
    row ReservedSegment;
    /// The segments of a rank's caching allocators at the end of the input, in the order of the input.
    table ReservedSegments;
    /// The pool.
    pool: PoolId,
    /// The start address.
    address: u64,
    /// The size.
    bytes: u64,
    /// The bytes of its blocks that are allocated.
    allocated: u64,
    /// The bytes of its blocks that are allocated, or freed while a stream may still use them.
    active: u64,
    /// The size of its largest free block.
    largest_free: u64,
    /// The number of its free blocks.
    free_blocks: u32,
    /// The stream that uses it; 0 is the default stream.
    stream: u64,
    /// The private pool that it belongs to, such as the pool of a CUDA graph; `None`: the default pool.
    private_pool: Option<(u64, u64)>,
    /// Whether it is for small allocations (up to 1 MiB).
    is_small: bool,
    /// Whether it is expandable.
    is_expandable: bool,
}

/// The number of size classes for rounding: 1 MiB, 2 MiB, … 32 GiB.
pub const ROUNDING_CLASSES: usize = 16;

/// The settings of a caching allocator: those that determine the sizes of its blocks, and its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatorRules {
    /// Blocks of at least this size are not split: `max_split_size_mb`.
    pub max_split: Option<u64>,
    /// Whether segments are expandable: `expandable_segments`. All their blocks are split finely.
    pub is_expandable: bool,
    /// The divisions of powers of two that sizes are rounded up to, for each size class; 0 or 1: none.
    pub divisions: [u16; ROUNDING_CLASSES],
    /// The memory that the program allows the allocator to reserve: `set_per_process_memory_fraction`.
    pub limit: Option<u64>,
}

impl AllocatorRules {
    /// Sets the divisions of the size class that begins at a number of MiB. Other numbers have no class.
    pub fn set_divisions(&mut self, mib: u64, divisions: u16) {
        let class = mib.checked_ilog2().map_or(ROUNDING_CLASSES, |class| class as usize);
        if let Some(slot) = self.divisions.get_mut(class) {
            *slot = divisions;
        }
    }
}
