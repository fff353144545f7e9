//! The rows of the files. Keys that are not listed here are ignored.

use serde::Deserialize;

use super::values::{Mib, Names, Types};
use crate::json::field::{ByName, Field};

/// `metadata` of the memory file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub memory_config: Field<ByName<PoolConfig>>,
    pub total_operations: Field<u32>,
    pub rank: Field<String>,
}

/// The properties of a pool that do not change.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PoolConfig {
    pub num_banks: Field<u32>,
    #[serde(rename = "total_bytes_per_bank_MB")]
    pub total: Field<Mib>,
}

/// A row of the memory file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MemoryRow {
    pub index: Field<u32>,
    /// Only written by `ttmem`.
    pub step: Field<u32>,
    pub mlir_op: Field<String>,
    pub loc: Field<String>,
    pub op_type: Field<String>,
    pub is_weight_op: Field<bool>,
    pub const_eval_graph: Field<String>,
    pub const_eval_cache_miss: Field<bool>,
    pub memory: Field<ByName<PoolState>>,
}

/// A state of a pool.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PoolState {
    #[serde(rename = "numBanks")]
    pub banks: Field<u32>,
    #[serde(rename = "totalBytesPerBank_MB")]
    pub total: Field<Mib>,
    #[serde(rename = "totalBytesAllocatedPerBank_MB")]
    pub allocated: Field<Mib>,
    #[serde(rename = "totalBytesFreePerBank_MB")]
    pub free: Field<Mib>,
    #[serde(rename = "largestContiguousBytesFreePerBank_MB")]
    pub largest_free: Field<Mib>,
}

/// A row of the operations file. The layout is taken from the types, not from its key, and weights are ignored, because
/// tt-memory-profiler 0.x guessed them from shapes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OperationRow {
    pub index: Field<u32>,
    /// Only written by `ttmem`, like `program`, `run`, `graph` and `results`.
    pub step: Field<u32>,
    pub mlir_op: Field<String>,
    pub loc: Field<String>,
    pub program: Field<String>,
    pub run: Field<u32>,
    pub graph: Field<u32>,
    pub const_eval_graph: Field<String>,
    pub result: Field<String>,
    pub results: Field<Names>,
    pub inputs: Field<Names>,
    pub attributes: Field<String>,
    pub input_types: Field<Types>,
    pub output_type: Field<Types>,
    pub input_shapes: Field<Vec<Field<String>>>,
    pub input_dtypes: Field<Vec<Field<String>>>,
    pub output_shapes: Field<Vec<Field<String>>>,
    pub output_dtypes: Field<Vec<Field<String>>>,
}

/// An entry of the inputs registry.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RegistryRow {
    pub index: Field<u32>,
    pub graph: Field<u32>,
    pub ssa: Field<String>,
    pub name: Field<String>,
    #[serde(rename = "type")]
    pub kind: Field<String>,
    pub shape: Field<String>,
    pub dtype: Field<String>,
}
