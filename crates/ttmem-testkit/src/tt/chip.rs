//! The chips: number, size and alignment of each pool's banks.
//!
//! Hardware facts only; nothing here allocates.

/// A memory pool of the device, in the order of the runtime's output.
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

    /// The index of this pool in arrays of all four.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The simulated device.
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
    /// The architecture's name in the truth.
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

    /// The number of banks of a pool.
    pub(super) fn banks(self, pool: Pool) -> u64 {
        match (pool, self) {
            (Pool::L1 | Pool::L1Small, _) => self.cores().0 * self.cores().1,
            (Pool::Dram | Pool::Trace, Self::Wormhole) => 12,
            (Pool::Dram | Pool::Trace, Self::BlackholeP150) => 8,
            (Pool::Dram | Pool::Trace, Self::BlackholeP100) => 7,
        }
    }

    /// The bytes available for buffers in one bank.
    pub(super) fn capacity(self, pool: Pool) -> u64 {
        match (pool, self) {
            (Pool::Dram, Self::Wormhole) => 1_073_741_792,
            (Pool::Dram, Self::BlackholeP150) => 4_273_390_016,
            (Pool::Dram, Self::BlackholeP100) => 4_278_190_080,
            (Pool::L1, Self::Wormhole) => 1_331_936,
            (Pool::L1, _) => 1_404_640,
            (Pool::L1Small, Self::Wormhole) => 32_768,
            (Pool::L1Small, _) => 65_536,
            // There is no trace region, as in a run without traces.
            (Pool::Trace, _) => 0,
        }
    }

    /// The page alignment.
    pub(super) fn page_alignment(self, pool: Pool) -> u64 {
        match pool {
            Pool::L1 | Pool::L1Small => 16,
            Pool::Dram | Pool::Trace => self.block_alignment(),
        }
    }

    /// The block alignment of the free list: DRAM's, even in L1.
    pub(super) fn block_alignment(self) -> u64 {
        if self == Self::Wormhole { 32 } else { 64 }
    }
}
