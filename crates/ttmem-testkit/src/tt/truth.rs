//! The truth about a log: the results of a perfect reader.
//!
//! All bytes are per bank unless stated otherwise. Positions count the operations of a rank from zero, including
//! deallocations: position `p` is the state before operation `p`, after any change between two programs.

use std::collections::BTreeMap;

use serde::Serialize;

/// The results of a perfect reader of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Truth {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The architecture of the chip.
    pub chip: &'static str,
    /// The number of ranks; each of them has this truth.
    pub ranks: u32,
    /// The number of submitted programs, including failed ones.
    pub runs: u64,
    /// The number of operations, including deallocations.
    pub total_ops: u64,
    /// The number of operations without `ttnn.deallocate` and `ttnn.get_device`.
    pub reported_ops: u64,
    /// The error that ended the log, if there was one.
    pub oom: Option<OutOfMemory>,
    /// The arguments of every `@main`, graph by graph.
    pub registry: Vec<RegisteredArgument>,
    /// The pools by name.
    pub pools: BTreeMap<&'static str, PoolTruth>,
    /// The tensors in DRAM at its peak; with the residue they add up to it.
    pub live_at_dram_peak: Vec<LiveTensor>,
    /// Their sum.
    pub live_sum_per_bank: u64,
    /// Their sum by class.
    pub live_by_class: BTreeMap<&'static str, u64>,
    /// The bytes that operations left behind, by operation, at the DRAM peak.
    pub residue: BTreeMap<&'static str, u64>,
    /// The bytes, without padding, of weight arguments at the DRAM peak whose const-eval result is also there.
    pub kept_twice_bytes: u64,
    /// Results that are another name for their operand's buffer.
    pub views: Vec<View>,
    /// Changes between submitted programs.
    pub gaps: Vec<Gap>,
    /// The allocated bytes of each pool at positions `0..=total_ops`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<BTreeMap<&'static str, Vec<u64>>>,
    /// The sum of the tensors at the same positions, tensor by tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensors: Option<BTreeMap<&'static str, Vec<u64>>>,
}

/// The buffer that did not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutOfMemory {
    /// The pool.
    pub pool: &'static str,
    /// Bytes of the whole buffer.
    pub requested: u64,
    /// The bytes per bank.
    pub per_bank: u64,
    /// The number of banks for the buffer.
    pub banks: u64,
    /// Free bytes.
    pub free: u64,
    /// The largest free block.
    pub largest: u64,
    /// `fragmentation` if the free bytes would have been enough, otherwise `capacity`.
    pub cause: &'static str,
}

/// An argument of `@main`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegisteredArgument {
    /// The index in the signature.
    pub index: usize,
    /// The name in the model.
    pub name: String,
    /// `input`, `parameter` or `constant`.
    #[serde(rename = "type")]
    pub role: &'static str,
    /// `2x32x64`.
    pub shape: String,
    /// The type of an element.
    pub dtype: &'static str,
    /// The size of the whole tensor without padding, in the declared type.
    pub bytes: u64,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolTruth {
    /// The highest allocation at any position.
    pub peak_per_bank: u64,
    /// The first such position; none if the pool was never used.
    pub peak_at_seq: Option<u64>,
    /// The operation that caused it; none if only arguments did.
    pub caused_by_seq: Option<u64>,
    /// The highest value in the log. It is lower if the log does not contain every state, and may be higher if it
    /// contains states after submitted programs.
    pub printed_peak_per_bank: u64,
    /// The last state in the log.
    pub last_printed: u64,
    /// The size of a bank.
    pub capacity_per_bank: u64,
    /// The number of banks.
    pub banks: u64,
    /// After the last operation.
    #[serde(rename = "final")]
    pub last: u64,
}

/// A tensor in DRAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LiveTensor {
    /// The number of the buffer, counted from one in allocation order.
    pub id: u64,
    /// The pool.
    pub pool: &'static str,
    /// The bytes per bank.
    pub per_bank: u64,
    /// The size of the whole tensor with padding.
    pub padded: u64,
    /// The size without padding, in the storage type.
    pub logical: u64,
    /// `2x32x64`.
    pub shape: String,
    /// The type of an element.
    pub dtype: &'static str,
    /// The first name.
    pub ssa: String,
    /// The function where it got that name.
    pub program: String,
    /// The number of that program run, counted from one including nested ones; zero for arguments.
    pub frame: u32,
    /// The operation that made it, or `argument`.
    pub op: &'static str,
    /// That operation's number, or -1.
    pub op_seq: i64,
    /// That operation's location, or the argument's name.
    pub loc: String,
    /// `weight`, `input` or `activation`.
    pub cls: &'static str,
    /// Other names in running programs.
    pub aliases: Vec<Alias>,
}

/// Another name of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alias {
    /// The name.
    pub ssa: String,
    /// The run of the name.
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
    /// The pool.
    pub pool: &'static str,
    /// The change in bytes; negative if memory was freed.
    pub effect: i64,
}
