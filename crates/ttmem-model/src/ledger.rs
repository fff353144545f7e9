//! A ledger: the parts of a device's memory when an allocation failed, as the error states them.
//!
//! A ledger belongs to a [`Fault`](super::Fault), by its index. Everything in it is optional, because messages differ:
//! unknown is `None`, never 0.

use serde::{Deserialize, Serialize};

use super::StrId;

/// A number of bytes as a text states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// The number.
    pub bytes: u64,
    /// The unit of its last digit: the exact number differs by at most this. 0 if the number is exact.
    pub quantum: u64,
}

impl Amount {
    /// A number that is not rounded.
    pub fn exact(bytes: u64) -> Self {
        Self { bytes, quantum: 0 }
    }

    /// The sum of two numbers.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            quantum: self.quantum.saturating_add(other.quantum),
        }
    }

    /// The difference of two numbers. `None` if the other one is larger by more than the rounding explains, which means
    /// that the numbers contradict each other.
    pub fn minus(self, other: Self) -> Option<Self> {
        let quantum = self.quantum.saturating_add(other.quantum);
        let excess = other.bytes.saturating_sub(self.bytes);
        (excess <= quantum).then_some(Self { bytes: self.bytes.saturating_sub(other.bytes), quantum })
    }

    /// Whether two numbers are equal within their rounding.
    pub fn is_near(self, other: Self) -> bool {
        self.bytes.abs_diff(other.bytes) <= self.quantum.saturating_add(other.quantum)
    }
}

/// What a failed allocation requested, and what the device had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// What failed to allocate: `pytorch`, `cuda`, `cublas`, `cudnn`, `cusolver`, `cusparse`, `nccl`, `xla`; `vllm` if the
    /// server refused to start, and `kv_cache` if a server has no room for its KV cache.
    pub source: Option<StrId>,
    /// The platform: `cuda`, `hip`, `xpu`, `npu`, `mps`.
    pub platform: Option<StrId>,
    /// The requested bytes.
    pub requested: Option<Amount>,
    /// The memory of the device.
    pub capacity: Option<Amount>,
    /// The free memory of the device.
    pub free: Option<Amount>,
    /// The memory that the process may reserve, if it has a limit.
    pub allowed: Option<Amount>,
    /// The memory of this process, including memory that its allocator does not manage.
    pub process: Option<Amount>,
    /// The memory in use in the allocator of this process, including private pools.
    pub allocated: Option<Amount>,
    /// The part of it in private pools, such as those of CUDA graphs.
    pub private_pools: Option<Amount>,
    /// The memory that the allocator reserves but does not use.
    pub unallocated: Option<Amount>,
    /// Memory of this process that its allocator does not manage, if the message states it.
    pub other: Option<Amount>,
}

/// The memory of a process on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// The process ID, as in the message.
    pub pid: u64,
    /// Its memory.
    pub amount: Amount,
}

/// A part of a program's memory that it reported itself, before the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedPart {
    /// `weights`, `kv_cache`, `cuda_graphs`, `activations`, `non_torch`, `budget`, `device_used`; of an executable of XLA,
    /// `xla_parameters`, `xla_outputs`, `xla_temporary`, `xla_total`.
    pub name: StrId,
    /// When the program reported it, in its own words, if it says so.
    pub label: Option<StrId>,
    /// Its size.
    pub amount: Amount,
    /// The line, counted from 1.
    pub line: u64,
}

/// A setting of the program that affects its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySetting {
    /// The name: `PYTORCH_CUDA_ALLOC_CONF`, `gpu_memory_utilization` …
    pub name: StrId,
    /// The value, as in the input.
    pub value: StrId,
}

/// The circumstances of an error, as far as the input has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureContext {
    /// The inference server: `vllm` or `sglang`.
    pub server: Option<StrId>,
    /// What it did at that time: `cuda_graphs` if it captured CUDA graphs.
    pub activity: Option<StrId>,
    /// How often Ray counted the error after its first occurrence. It prints only one of these messages.
    pub repeated: u32,
    /// Whether the input proves that the program went on.
    pub has_continued: bool,
    /// The number of tokens that a KV cache must hold.
    pub needed_tokens: Option<u64>,
    /// The number of tokens that the KV cache can hold.
    pub possible_tokens: Option<u64>,
}

/// A ledger and its lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultLedger {
    /// The numbers of the error.
    pub ledger: Ledger,
    /// The circumstances of the error.
    pub context: FailureContext,
    /// The processes that the error lists. One of them may be this process.
    pub processes: Vec<ProcessUse>,
    /// The parts that the program reported.
    pub reported: Vec<ReportedPart>,
    /// The settings of the program.
    pub settings: Vec<MemorySetting>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_compared_within_the_rounding() {
        let rounded = |bytes| Amount { bytes, quantum: 10 };
        assert_eq!(rounded(100).minus(rounded(40)), Some(Amount { bytes: 60, quantum: 20 }));
        assert_eq!(rounded(100).minus(rounded(115)), Some(Amount { bytes: 0, quantum: 20 }));
        assert_eq!(rounded(100).minus(rounded(121)), None);
        assert_eq!(Amount::exact(1).minus(Amount::exact(2)), None);
        assert!(rounded(100).is_near(rounded(120)) && !rounded(100).is_near(Amount::exact(111)));
        assert_eq!(Amount::exact(u64::MAX).plus(Amount::exact(1)).bytes, u64::MAX);
    }
}
