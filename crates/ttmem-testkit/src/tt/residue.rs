//! Memory that operations leave behind: a program cache that grows whenever an operation is new to the device.

use std::collections::BTreeSet;

use super::chip::{Chip, Pool};
use super::program::{Function, Op};

/// The operations that have run on the device, each with its shapes.
#[derive(Debug, Default)]
pub struct ProgramCache {
    seen: BTreeSet<(&'static str, Vec<Vec<u64>>)>,
}

impl ProgramCache {
    /// The bytes per DRAM bank that this operation leaves behind, the first time only.
    pub fn bytes_for(&mut self, function: &Function, op: &Op, chip: Chip) -> Option<u64> {
        let divisor = match op.name {
            "ttnn.reshape" => 16,
            "ttnn.conv2d" => 128,
            _ => return None,
        };
        let values = op.operands.iter().chain(&op.results);
        let tensors: Vec<_> = values.filter_map(|&value| function.tensor(value)).collect();
        let result = tensors.last().filter(|tensor| tensor.pool() == Some(Pool::Dram))?;
        let shapes = tensors.iter().map(|tensor| tensor.shape.clone()).collect();
        let bytes = (result.per_bank(chip) / divisor).max(1).next_multiple_of(chip.block_alignment());
        self.seen.insert((op.name, shapes)).then_some(bytes)
    }
}
