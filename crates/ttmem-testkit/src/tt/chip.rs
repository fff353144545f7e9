//! The chips: how many banks each pool has, how large they are, and what they align to.
//!
//! Facts of the hardware only; nothing here allocates.

/// A memory pool of the device, in the order in which the runtime prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pool {
    Dram,
    L1,
    L1Small,
    Trace,
}

impl Pool {
    pub const ALL: [Self; 4] = [Self::Dram, Self::L1, Self::L1Small, Self::Trace];

    /// The name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dram => "DRAM",
            Self::L1 => "L1",
            Self::L1Small => "L1_SMALL",
            Self::Trace => "TRACE",
        }
    }

    /// Where this pool is in arrays of all four.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The device that the model runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chip {
    /// 12 DRAM banks of about 1 GiB, 8x8 cores, DRAM aligned to 32 bytes.
    #[default]
    Wormhole,
    /// 8 DRAM banks of about 4 GiB, 10x13 cores, DRAM aligned to 64 bytes.
    BlackholeP150,
    /// 7 DRAM banks of 4080 MiB, 10x11 cores, DRAM aligned to 64 bytes.
    BlackholeP100,
}

impl Chip {
    /// The architecture, as the truth names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wormhole => "wormhole",
            Self::BlackholeP150 | Self::BlackholeP100 => "blackhole",
        }
    }

    /// Rows and columns of worker cores; every core is one L1 bank.
    pub(super) fn cores(self) -> (u64, u64) {
        match self {
            Self::Wormhole => (8, 8),
            Self::BlackholeP150 => (10, 13),
            Self::BlackholeP100 => (10, 11),
        }
    }

    /// How many banks a pool has.
    pub(super) fn banks(self, pool: Pool) -> u64 {
        match (pool, self) {
            (Pool::L1 | Pool::L1Small, _) => self.cores().0 * self.cores().1,
            (Pool::Dram | Pool::Trace, Self::Wormhole) => 12,
            (Pool::Dram | Pool::Trace, Self::BlackholeP150) => 8,
            (Pool::Dram | Pool::Trace, Self::BlackholeP100) => 7,
        }
    }

    /// Bytes that buffers can have in one bank.
    pub(super) fn capacity(self, pool: Pool) -> u64 {
        match (pool, self) {
            (Pool::Dram, Self::Wormhole) => 1_073_741_792,
            (Pool::Dram, Self::BlackholeP150) => 4_273_390_016,
            (Pool::Dram, Self::BlackholeP100) => 4_278_190_080,
            (Pool::L1, Self::Wormhole) => 1_331_936,
            (Pool::L1, _) => 1_404_640,
            (Pool::L1Small, Self::Wormhole) => 32_768,
            (Pool::L1Small, _) => 65_536,
            // No trace region is set aside, as in a run without traces.
            (Pool::Trace, _) => 0,
        }
    }

    /// What a page is rounded up to.
    pub(super) fn page_alignment(self, pool: Pool) -> u64 {
        match pool {
            Pool::L1 | Pool::L1Small => 16,
            Pool::Dram | Pool::Trace => self.block_alignment(),
        }
    }

    /// What a block of the free list is rounded up to: that of DRAM, even in L1.
    pub(super) fn block_alignment(self) -> u64 {
        if self == Self::Wormhole { 32 } else { 64 }
    }
}
