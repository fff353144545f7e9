//! tt-metal's error messages when a buffer does not fit, in each era.

/// A change of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorEra {
    /// 2023: the requested size, from the old logger.
    Request,
    /// September 2025: also the size of the bank.
    BankSizeOnly,
    /// September 2025: the variant for allocations that depend on others.
    Dependencies,
    /// January 2026: also the usage of the bank.
    #[default]
    Statistics,
    /// January 2026: the variant for allocations that depend on others.
    DependenciesStatistics,
    /// Like [`ErrorEra::Statistics`], with the `TT_FATAL` that some builds put before it.
    Prefixed,
}

impl ErrorEra {
    /// All eras, oldest first.
    pub const ALL: [Self; 6] = [
        Self::Request,
        Self::BankSizeOnly,
        Self::Dependencies,
        Self::Statistics,
        Self::DependenciesStatistics,
        Self::Prefixed,
    ];
}

/// A buffer that did not fit.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    pub pool: &'static str,
    /// Bytes of the whole buffer.
    pub requested: u64,
    pub per_bank: u64,
    pub banks: u64,
    pub capacity: u64,
    pub allocated: u64,
    pub largest: u64,
}

impl Failure {
    /// Bytes free in a bank.
    pub fn free(&self) -> u64 {
        self.capacity - self.allocated
    }

    /// The sentence itself.
    pub fn message(&self, era: ErrorEra) -> String {
        let Self { pool, requested, per_bank, banks, capacity, allocated, largest } = *self;
        let plain = format!(
            "Out of Memory: Not enough space to allocate {requested} B {pool} buffer across {banks} banks, \
             where each bank needs to store {per_bank} B"
        );
        let dependent = format!(
            "Out of Memory: Not enough space after considering dependencies to allocate {requested} B {pool} \
             across {banks} banks ({per_bank} B per bank)"
        );
        let statistics = format!(
            "bank size is {capacity} B (allocated: {allocated} B, free: {free} B, \
             largest free block: {largest} B)",
            free = self.free()
        );
        match era {
            ErrorEra::Request => plain,
            ErrorEra::BankSizeOnly => format!("{plain}, but bank size is only {capacity} B"),
            ErrorEra::Dependencies => dependent,
            ErrorEra::Statistics | ErrorEra::Prefixed => format!("{plain}, but {statistics}"),
            ErrorEra::DependenciesStatistics => format!("{dependent}, {statistics}"),
        }
    }

    /// The line of tt-metal's logger.
    pub fn logged(&self, era: ErrorEra) -> String {
        let message = self.message(era);
        match era {
            ErrorEra::Request => format!("{:>23} | {:8} | {message}", "Always", "FATAL"),
            ErrorEra::Prefixed => critical(&format!("TT_FATAL: {message}")),
            _ => critical(&message),
        }
    }

    /// The lines of the exception that follows.
    pub fn exception(&self, era: ErrorEra) -> Vec<String> {
        let mut lines = vec![
            "RuntimeError: TT_FATAL @ tt_metal/impl/allocator/bank_manager.cpp:433: address.has_value()"
                .to_owned(),
            "info:".to_owned(),
            self.message(era),
            "backtrace:".to_owned(),
        ];
        for frame in 0..3_u64 {
            lines.push(format!(
                " --- /opt/tt/lib/libtt_metal.so(+0x{:x}) [0x7f30{:08x}]",
                0x2b_10e4 + frame * 0x53,
                frame * 0x1a0
            ));
        }
        lines
    }
}

fn critical(message: &str) -> String {
    format!("2026-03-16 10:40:50.252 | critical |          Always | {message} (assert.hpp:103)")
}

#[cfg(test)]
mod tests {
    use super::{ErrorEra, Failure};

    const FAILURE: Failure = Failure {
        pool: "DRAM",
        requested: 58_720_256,
        per_bank: 4_894_720,
        banks: 12,
        capacity: 1_071_821_792,
        allocated: 888_424_448,
        largest: 3_382_944,
    };

    #[test]
    fn the_newest_text_is_that_of_a_real_failure() {
        // tt-mlir#3954
        assert_eq!(
            FAILURE.message(ErrorEra::Statistics),
            "Out of Memory: Not enough space to allocate 58720256 B DRAM buffer across 12 banks, \
             where each bank needs to store 4894720 B, but bank size is 1071821792 B \
             (allocated: 888424448 B, free: 183397344 B, largest free block: 3382944 B)"
        );
    }

    #[test]
    fn both_copies_carry_the_message() {
        for era in ErrorEra::ALL {
            let message = FAILURE.message(era);
            assert!(FAILURE.logged(era).contains(&message));
            assert!(FAILURE.exception(era).contains(&message));
        }
    }
}
