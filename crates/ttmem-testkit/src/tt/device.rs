//! The device: its banks and the buffers in them.
//!
//! A buffer has an owner per name. It is freed when the last one releases it, unless it is retained.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::allocator::{Bank, Shortage};
use super::chip::{Chip, Pool};
use super::runtime::Compiled;
use super::tensor::Tensor;

/// The unique number of a buffer; numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BufferId(pub u64);

/// The origin of a buffer.
#[derive(Clone, Debug)]
pub enum Origin {
    /// An argument of the entry function.
    Argument { program: Rc<Compiled>, index: usize },
    /// A result of an operation: the run of the program, and the operation's number in the log.
    Result { program: Rc<Compiled>, function: usize, op: usize, result: usize, frame: u32, seq: u64 },
    /// Memory left behind by this operation; not a tensor.
    Residue { op: &'static str },
}

impl Origin {
    /// The tensor in the buffer.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Argument { program, index } => Some(&program.graph.entry().arguments[*index].tensor),
            Self::Result { program, function, op, result, .. } => {
                let function = &program.graph.functions[*function];
                function.tensor(function.ops[*op].results[*result])
            }
            Self::Residue { .. } => None,
        }
    }
}

/// A buffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub pool: Pool,
    pub per_bank: u64,
    pub origin: Origin,
    address: u64,
    owners: u32,
    retained: bool,
}

/// The result of releasing a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    Freed,
    /// Another name still uses it.
    Shared,
    /// It is kept on purpose.
    Retained,
}

/// The device.
#[derive(Debug)]
pub struct Device {
    chip: Chip,
    banks: [Bank; 4],
    buffers: BTreeMap<BufferId, Buffer>,
    next: u64,
}

impl Device {
    pub fn new(chip: Chip) -> Self {
        let banks = Pool::ALL.map(|pool| {
            let (capacity, alignment) = (chip.capacity(pool), chip.block_alignment());
            match pool {
                Pool::Dram | Pool::Trace => Bank::new(capacity, alignment),
                Pool::L1 | Pool::L1Small => Bank::top_down(capacity, alignment),
            }
        });
        Self { chip, banks, buffers: BTreeMap::new(), next: 1 }
    }

    pub fn chip(&self) -> Chip {
        self.chip
    }

    pub fn bank(&self, pool: Pool) -> &Bank {
        &self.banks[pool.index()]
    }

    pub fn allocated(&self) -> [u64; 4] {
        Pool::ALL.map(|pool| self.bank(pool).allocated())
    }

    pub fn allocate(&mut self, pool: Pool, per_bank: u64, origin: Origin) -> Result<BufferId, Shortage> {
        let address = self.banks[pool.index()].allocate(per_bank)?;
        let id = BufferId(self.next);
        self.next += 1;
        self.buffers.insert(id, Buffer { pool, per_bank, origin, address, owners: 1, retained: false });
        Ok(id)
    }

    /// Adds an owner to the buffer.
    pub fn share(&mut self, id: BufferId) {
        self.buffer_mut(id).owners += 1;
    }

    /// Keeps the buffer even if all owners release it.
    pub fn retain(&mut self, id: BufferId) {
        self.buffer_mut(id).retained = true;
    }

    /// Releases one owner of the buffer.
    pub fn release(&mut self, id: BufferId) -> Release {
        let buffer = self.buffer_mut(id);
        if buffer.retained {
            return Release::Retained;
        }
        buffer.owners -= 1;
        if buffer.owners > 0 {
            return Release::Shared;
        }
        let (pool, address) = (buffer.pool, buffer.address);
        self.buffers.remove(&id);
        self.banks[pool.index()].release(address);
        Release::Freed
    }

    pub fn get(&self, id: BufferId) -> Option<&Buffer> {
        self.buffers.get(&id)
    }

    /// All buffers, in allocation order.
    pub fn buffers(&self) -> impl Iterator<Item = (BufferId, &Buffer)> {
        self.buffers.iter().map(|(&id, buffer)| (id, buffer))
    }

    fn buffer_mut(&mut self, id: BufferId) -> &mut Buffer {
        self.buffers.get_mut(&id).expect("a name that was not given up has a buffer")
    }
}
