//! Properties of the architectures that ttnn's reports and databases do not contain.
//!
//! Observed in ttnn 0.77 to 0.81.1 on n150, n300 and p150. The allocator aligns every buffer, including those in L1, to the
//! architecture's DRAM alignment, but `max_size_per_bank` in a capture only aligns pages. The allocator manages DRAM
//! above a reserved part, so a bank is smaller than `dram_size_per_channel`.

/// A device architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arch {
    Wormhole,
    Blackhole,
}

impl Arch {
    pub const ALL: [Self; 2] = [Self::Wormhole, Self::Blackhole];

    /// The architecture with this name: `WORMHOLE_B0`, `blackhole`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        Self::ALL.into_iter().find(|arch| match arch {
            Self::Wormhole => name.starts_with("wormhole"),
            Self::Blackhole => name == "blackhole",
        })
    }

    /// The architecture whose cores have this much L1.
    pub fn with_worker_l1(bytes: u64) -> Option<Self> {
        match bytes {
            1_499_136 => Some(Self::Wormhole),
            1_572_864 => Some(Self::Blackhole),
            _ => None,
        }
    }

    /// The alignment of buffers in all pools, and of pages in DRAM.
    pub fn alignment(self) -> u64 {
        match self {
            Self::Wormhole => 32,
            Self::Blackhole => 64,
        }
    }

    /// The first DRAM address that the allocator manages. A build with the profiler reserves more.
    pub fn dram_base(self) -> u64 {
        match self {
            Self::Wormhole => 0x10_0040,
            Self::Blackhole => 0x10_0080,
        }
    }

    /// The numbers of DRAM banks that a device may have.
    fn dram_banks(self) -> &'static [u64] {
        match self {
            Self::Wormhole => &[12],
            Self::Blackhole => &[8, 7],
        }
    }

    /// The bytes per bank that the allocator uses for a buffer of this size.
    pub fn allocated(self, per_bank: u64) -> u64 {
        per_bank.checked_next_multiple_of(self.alignment()).unwrap_or(per_bank)
    }

    /// Whether an interleaved buffer in DRAM could have this size per bank.
    pub fn explains_dram(self, size: u64, page: u64, per_bank: u64) -> bool {
        let Some(aligned) = page.checked_next_multiple_of(self.alignment()) else { return false };
        let pages = size.div_ceil(page.max(1));
        self.dram_banks().iter().any(|banks| pages.div_ceil(*banks).checked_mul(aligned) == Some(per_bank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_reports_and_cluster_descriptors_write_them() {
        for name in ["WORMHOLE_B0", "wormhole_b0"] {
            assert_eq!(Arch::named(name), Some(Arch::Wormhole));
        }
        assert_eq!(Arch::named("BLACKHOLE"), Some(Arch::Blackhole));
        assert_eq!((Arch::named("QUASAR"), Arch::named("")), (None, None));
    }

    #[test]
    fn sizes_of_any_magnitude_are_aligned_without_overflow() {
        assert_eq!((Arch::Wormhole.allocated(1), Arch::Blackhole.allocated(1)), (32, 64));
        assert_eq!((Arch::Wormhole.allocated(0), Arch::Wormhole.allocated(96)), (0, 96));
        assert_eq!(Arch::Blackhole.allocated(u64::MAX), u64::MAX);
        assert!(!Arch::Blackhole.explains_dram(u64::MAX, u64::MAX, 1));
        assert!(!Arch::Wormhole.explains_dram(1, 0, 1));
    }

    #[test]
    fn an_interleaved_buffer_tells_the_architectures_apart_by_their_banks() {
        // 8388608 bytes in pages of 2048 are 4096 pages: 342 on each of 12 banks, 512 on each of 8.
        assert!(Arch::Wormhole.explains_dram(8_388_608, 2048, 342 * 2048));
        assert!(!Arch::Blackhole.explains_dram(8_388_608, 2048, 342 * 2048));
        assert!(Arch::Blackhole.explains_dram(8_388_608, 2048, 512 * 2048));
        assert!(Arch::Blackhole.explains_dram(8_388_608, 2048, 586 * 2048));
        // A single page fits both architectures.
        assert!(Arch::ALL.into_iter().all(|arch| arch.explains_dram(2048, 2048, 2048)));
    }
}
