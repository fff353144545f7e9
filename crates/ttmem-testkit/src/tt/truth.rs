//! The truth about a log: what a perfect reader of it would report.
//!
//! All bytes are per bank, unless a field says otherwise. Positions count the operations of a rank from
//! zero, deallocations included: position `p` is the state before operation `p`, which is after whatever
//! happened between two programs.

use std::collections::BTreeMap;

use serde::Serialize;

/// What a perfect reader of the log would report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Truth {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The architecture of the chip.
    pub chip: &'static str,
    /// How many ranks print; each of them has this truth.
    pub ranks: u32,
    /// Submitted programs, those that fail included.
    pub runs: u64,
    /// Operations, deallocations included.
    pub total_ops: u64,
    /// Operations without `ttnn.deallocate` and `ttnn.get_device`.
    pub reported_ops: u64,
    /// What ended the log, if it did not end well.
    pub oom: Option<OutOfMemory>,
    /// The arguments of every `@main`, graph after graph.
    pub registry: Vec<RegisteredArgument>,
    /// The pools by name.
    pub pools: BTreeMap<&'static str, PoolTruth>,
    /// The tensors in DRAM at its peak; with the residue they add up to it.
    pub live_at_dram_peak: Vec<LiveTensor>,
    /// Their sum.
    pub live_sum_per_bank: u64,
    /// Their sum by class.
    pub live_by_class: BTreeMap<&'static str, u64>,
    /// Bytes that operations left behind, by operation, at the peak of DRAM.
    pub residue: BTreeMap<&'static str, u64>,
    /// Bytes, without padding, of weight arguments at the peak of DRAM whose const-evaluated form is there too.
    pub kept_twice_bytes: u64,
    /// Results that are another name for their operand's buffer.
    pub views: Vec<View>,
    /// Changes between submitted programs.
    pub gaps: Vec<Gap>,
    /// Allocated bytes of each pool at positions `0..=total_ops`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<BTreeMap<&'static str, Vec<u64>>>,
    /// What the tensors alone come to at the same positions, summed up tensor by tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensors: Option<BTreeMap<&'static str, Vec<u64>>>,
}

/// The buffer that did not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutOfMemory {
    /// Where.
    pub pool: &'static str,
    /// Bytes of the whole buffer.
    pub requested: u64,
    /// Bytes in each bank.
    pub per_bank: u64,
    /// Banks that it would have been spread over.
    pub banks: u64,
    /// Free bytes.
    pub free: u64,
    /// The largest free block.
    pub largest: u64,
    /// `fragmentation` where the free bytes would have been enough, else `capacity`.
    pub cause: &'static str,
}

/// An argument of `@main`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegisteredArgument {
    /// Its number in the signature.
    pub index: usize,
    /// Its name in the model.
    pub name: String,
    /// `input`, `parameter` or `constant`.
    #[serde(rename = "type")]
    pub role: &'static str,
    /// `2x32x64`.
    pub shape: String,
    /// The type of an element.
    pub dtype: &'static str,
    /// Bytes of the whole tensor without padding, by its declared elements.
    pub bytes: u64,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolTruth {
    /// The most that was allocated at any position.
    pub peak_per_bank: u64,
    /// The first such position; none where the pool was never used.
    pub peak_at_seq: Option<u64>,
    /// The operation that led to it; none where arguments alone did.
    pub caused_by_seq: Option<u64>,
    /// The most that the log shows, which is less where it does not print every state and may be more where
    /// it prints states after submitted programs.
    pub printed_peak_per_bank: u64,
    /// The last state in the log.
    pub last_printed: u64,
    /// The size of a bank.
    pub capacity_per_bank: u64,
    /// How many there are.
    pub banks: u64,
    /// After the last operation.
    #[serde(rename = "final")]
    pub last: u64,
}

/// A tensor in DRAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LiveTensor {
    /// Buffers are counted from one, in the order of allocation.
    pub id: u64,
    /// Where it is.
    pub pool: &'static str,
    /// Bytes in each bank.
    pub per_bank: u64,
    /// Bytes of the whole tensor with padding.
    pub padded: u64,
    /// And without, by the elements as they are stored.
    pub logical: u64,
    /// `2x32x64`.
    pub shape: String,
    /// The type of an element.
    pub dtype: &'static str,
    /// Its first name.
    pub ssa: String,
    /// The function that it got that name in.
    pub program: String,
    /// Which run of a program that was, nested ones counted from one; zero for arguments.
    pub frame: u32,
    /// The operation that made it, or `argument`.
    pub op: &'static str,
    /// That operation's number, or -1.
    pub op_seq: i64,
    /// That operation's location, or the argument's name.
    pub loc: String,
    /// `weight`, `input` or `activation`.
    pub cls: &'static str,
    /// Other names that running programs have for it.
    pub aliases: Vec<Alias>,
}

/// Another name of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alias {
    /// The name.
    pub ssa: String,
    /// The run that it belongs to.
    pub frame: u32,
}

/// A result that shares its operand's buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct View {
    /// The operation.
    pub seq: u64,
    /// Its result.
    pub ssa: String,
}

/// A change between two submitted programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The first operation after it.
    pub position: u64,
    /// Where.
    pub pool: &'static str,
    /// Bytes that came, or went where negative.
    pub effect: i64,
}
