//! Derives buffer lifetimes from the buffers listed after each operation.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use ttmem_model::words::counted_as;
use ttmem_model::{
    Block, Bytes, Class, Error, Layout, Moment, PoolId, RankEvent, RankId, Reading, Result, Step, StepNumber,
    StrId, Tensor, TensorType, TypeId,
};

use crate::tt_log::tables::Tables;
use crate::tt_log::types::{scalar_bytes, tile_bytes};
use crate::ttnn_graph::node::{element, is_tiled, padded, shape, spread};

/// The pools, indexed by a buffer row's type. System memory is not on the device.
const POOLS: [&str; 5] = ["DRAM", "L1", "SYSTEM_MEMORY", "L1_SMALL", "TRACE"];
const SYSTEM_MEMORY: usize = 2;
/// How a buffer is distributed, by its layout number.
const SPREADS: [Option<&str>; 6] = [
    Some("interleaved"),
    None,
    Some("height_sharded"),
    Some("width_sharded"),
    Some("block_sharded"),
    Some("nd_sharded"),
];

/// A row of the buffers table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    pub address: Option<u64>,
    pub per_bank: Option<u64>,
    pub pool: Option<u64>,
    pub layout: Option<u64>,
}

/// A row of the tensors table.
#[derive(Clone, Debug)]
pub(super) struct TensorRow {
    pub id: i64,
    pub shape: String,
    pub dtype: String,
    pub layout: String,
    pub address: Option<u64>,
    pub buffer_type: Option<u64>,
    pub memory_config: String,
}

impl TensorRow {
    /// How the tensor is distributed: according to its memory configuration, otherwise according to its buffer row.
    /// ttnn and its report importer number layouts differently.
    fn spread(&self, layout: Option<u64>) -> Option<&'static str> {
        let named = self.memory_config.split_once("TensorMemoryLayout::").map(|(_, name)| name);
        let name =
            named.map(|name| name.split(|end: char| !end.is_ascii_alphanumeric() && end != '_').next());
        match name.flatten() {
            Some(name) => spread(name),
            None => *SPREADS.get(usize::try_from(layout?).ok()?)?,
        }
    }
}

/// A buffer that is currently allocated.
#[derive(Clone, Debug)]
struct Alive {
    buffer: Buffer,
    born: Moment,
    step: Option<StepNumber>,
    /// The ID of its tensor.
    id: Option<i64>,
    tensor: Option<(StrId, Option<TypeId>)>,
}

/// The location of a buffer: pool and address. It is unique among the allocated buffers.
type Key = (usize, u64, u64);

/// The identity of a type: shape, element and layout as written, the pool, and how the buffer is distributed.
type TypeKey = (String, String, String, usize, Option<&'static str>);

/// A pool at its highest usage so far.
struct Fullest {
    per_bank: u64,
    at: Moment,
    /// The buffers at that point: addresses and sizes.
    buffers: Vec<(u64, u64)>,
}

pub(super) struct Lives {
    rank: RankId,
    pub l1_banks: Option<u64>,
    pub l1_bank_size: Option<u64>,
    pools: [Option<PoolId>; POOLS.len()],
    pool_count: usize,
    alive: BTreeMap<Key, Alive>,
    /// The buffers listed after the current operation.
    listed: BTreeMap<Key, Buffer>,
    types: FxHashMap<TypeKey, Option<TypeId>>,
    /// The highest usage of each pool.
    highest: [Option<Fullest>; POOLS.len()],
    unreadable: u64,
    /// The first and the last moment with listed buffers.
    first: Option<Moment>,
    last: Option<Moment>,
}

impl Lives {
    pub fn new(rank: RankId) -> Self {
        Self {
            rank,
            l1_banks: None,
            l1_bank_size: None,
            pools: [None; POOLS.len()],
            pool_count: 0,
            alive: BTreeMap::new(),
            listed: BTreeMap::new(),
            types: FxHashMap::default(),
            highest: Default::default(),
            unreadable: 0,
            first: None,
            last: None,
        }
    }

    /// Adds a listed buffer.
    pub fn seen(&mut self, buffer: Buffer) {
        let pool =
            buffer.pool.and_then(|number| usize::try_from(number).ok()).filter(|pool| *pool < POOLS.len());
        match (pool, buffer.address, buffer.per_bank) {
            (Some(SYSTEM_MEMORY), ..) => {}
            (Some(pool), Some(address), Some(per_bank)) => {
                self.listed.insert((pool, address, per_bank), buffer);
            }
            _ => self.unreadable += 1,
        }
    }

    /// Ends the list of buffers after a step. `tensors` are the step's results and operands: the operation, whether the
    /// tensor is an operand, and the tensor.
    pub fn step_done(
        &mut self,
        step: Step,
        tensors: &[(i64, bool, TensorRow)],
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let listed = std::mem::take(&mut self.listed);
        let at = Moment::after(step);
        let gone: Vec<Key> = self.alive.keys().filter(|key| !listed.contains_key(key)).copied().collect();
        for key in gone {
            if let Some(alive) = self.alive.remove(&key) {
                self.say(key, &alive, at, tables)?;
            }
        }
        for (key, buffer) in &listed {
            self.pool(key.0, tables)?;
            let born =
                Alive { buffer: *buffer, born: at, step: StepNumber::new(step), id: None, tensor: None };
            self.alive.entry(*key).or_insert(born);
        }
        for (_, is_operand, tensor) in tensors {
            if !is_operand {
                self.renew(tensor, tensors, step, tables)?;
            }
            self.name(tensor, tables)?;
        }
        self.say_states(at, tables)?;
        self.first = self.first.or(Some(at));
        self.last = Some(at);
        Ok(())
    }

    fn capacity(&self, pool: usize) -> Option<u64> {
        self.l1_bank_size.filter(|_| POOLS[pool] == "L1")
    }

    /// A result at the address of another tensor is a new allocation, unless the operation ran in place.
    fn renew(
        &mut self,
        result: &TensorRow,
        tensors: &[(i64, bool, TensorRow)],
        step: Step,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let is_there =
            |tensor: &TensorRow| (tensor.buffer_type, tensor.address) == (result.buffer_type, result.address);
        let is_in_place = tensors.iter().any(|(_, is_operand, tensor)| *is_operand && is_there(tensor));
        let Some(key) = self.key_of(result).filter(|_| !is_in_place) else { return Ok(()) };
        let at = Moment::after(step);
        let Some(alive) = self.alive.get(&key) else { return Ok(()) };
        if alive.born == at || alive.id.is_none_or(|id| id == result.id) {
            return Ok(());
        }
        let old = alive.clone();
        self.say(key, &old, at, tables)?;
        let step = StepNumber::new(step);
        self.alive.insert(key, Alive { buffer: old.buffer, born: at, step, id: None, tensor: None });
        Ok(())
    }

    /// The buffer that contains a tensor.
    fn key_of(&self, row: &TensorRow) -> Option<Key> {
        let (pool, address) = (usize::try_from(row.buffer_type?).ok()?, row.address?);
        self.alive.range((pool, address, 0)..=(pool, address, u64::MAX)).next().map(|(key, _)| *key)
    }

    /// Names a buffer after the first tensor that is known to be in it.
    fn name(&mut self, row: &TensorRow, tables: &mut Tables<'_>) -> Result<()> {
        let Some(key) = self.key_of(row) else { return Ok(()) };
        let (pool, Some(alive)) = (key.0, self.alive.get(&key)) else { return Ok(()) };
        if alive.tensor.is_some() {
            return Ok(());
        }
        let layout = alive.buffer.layout;
        let name = tables.text(format!("tensor {}", row.id).as_bytes())?;
        let ty = self.tensor_type(row, pool, layout, tables)?;
        if let Some(alive) = self.alive.get_mut(&key) {
            (alive.id, alive.tensor) = (Some(row.id), Some((name, ty)));
        }
        Ok(())
    }

    fn tensor_type(
        &mut self,
        row: &TensorRow,
        pool: usize,
        layout: Option<u64>,
        tables: &mut Tables<'_>,
    ) -> Result<Option<TypeId>> {
        let spread = row.spread(layout);
        let key = (row.shape.clone(), row.dtype.clone(), row.layout.clone(), pool, spread);
        if let Some(&known) = self.types.get(&key) {
            return Ok(known);
        }
        let ty = match shape(&row.shape) {
            Some(shape) => Some(define(row, shape, pool, spread, tables)?),
            None => None,
        };
        self.types.insert(key, ty);
        Ok(ty)
    }

    fn pool(&mut self, index: usize, tables: &mut Tables<'_>) -> Result<PoolId> {
        if let Some(id) = self.pools[index] {
            return Ok(id);
        }
        let name = tables.text(POOLS[index].as_bytes())?;
        let is_l1 = POOLS[index].starts_with("L1");
        let banks = self.l1_banks.filter(|_| is_l1).and_then(|banks| u32::try_from(banks).ok());
        tables.say(self.rank, RankEvent::Pool { name, banks, quantum: 0 })?;
        let id = PoolId::new(self.pool_count).ok_or_else(|| Error::Bug("too many pools".into()))?;
        self.pool_count += 1;
        self.pools[index] = Some(id);
        // The pool was empty until now, because none of its buffers were listed.
        if let (Some(first), Some(last)) = (self.first, self.last) {
            let reading =
                Reading { allocated: Some(0), capacity: self.capacity(index), ..Reading::default() };
            tables.say(self.rank, RankEvent::State(id, first, reading))?;
            if last != first {
                tables.say(self.rank, RankEvent::Unchanged(id, last))?;
            }
        }
        Ok(id)
    }

    fn say(&self, key: Key, alive: &Alive, dies: Moment, tables: &mut Tables<'_>) -> Result<()> {
        let Some(pool) = self.pools[key.0] else { return Ok(()) };
        let tensor = Tensor {
            ty: alive.tensor.and_then(|(_, ty)| ty),
            pool,
            per_bank: alive.buffer.per_bank.into(),
            born: alive.born,
            dies,
            class: Class::Unknown,
            run: None,
            ssa: alive.tensor.map(|(name, _)| name),
            step: alive.step,
            name: None,
        };
        tables.say(self.rank, RankEvent::Tensor(tensor))
    }

    fn say_states(&mut self, at: Moment, tables: &mut Tables<'_>) -> Result<()> {
        let mut sums = [0_u64; POOLS.len()];
        for &(pool, _, per_bank) in self.alive.keys() {
            sums[pool] = sums[pool].saturating_add(per_bank);
        }
        for (pool, sum) in sums.into_iter().enumerate() {
            let Some(id) = self.pools[pool] else { continue };
            let capacity = self.capacity(pool);
            let reading = Reading { allocated: Some(sum), capacity, ..Reading::default() };
            tables.say(self.rank, RankEvent::State(id, at, reading))?;
            if self.highest[pool].as_ref().is_none_or(|highest| sum > highest.per_bank) {
                let buffers = self.alive.range((pool, 0, 0)..=(pool, u64::MAX, u64::MAX));
                let buffers = buffers.map(|(&(_, address, per_bank), _)| (address, per_bank)).collect();
                self.highest[pool] = Some(Fullest { per_bank: sum, at, buffers });
            }
        }
        Ok(())
    }

    /// Emits the remaining buffers, and the block maps of the banks at their highest usage.
    pub fn finish(&mut self, tables: &mut Tables<'_>) -> Result<()> {
        for (key, alive) in std::mem::take(&mut self.alive) {
            self.say(key, &alive, Moment::NEVER, tables)?;
        }
        for (pool, highest) in std::mem::take(&mut self.highest).into_iter().enumerate() {
            let (Some(id), Some(Fullest { at, buffers, .. })) = (self.pools[pool], highest) else { continue };
            for block in blocks(&buffers) {
                tables.say(self.rank, RankEvent::Block(id, at, block))?;
            }
        }
        if self.unreadable > 0 {
            let message = format!(
                "{} skipped; usage may be too low",
                counted_as(
                    self.unreadable,
                    "buffer row has no address, size or type and was",
                    "buffer rows have no address, size or type and were"
                )
            );
            tables.warn(None, message)?;
        }
        Ok(())
    }
}

/// The blocks between the lowest and the highest buffer of a bank.
fn blocks(buffers: &[(u64, u64)]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut end: Option<u64> = None;
    for &(address, size) in buffers {
        if let Some(free) = end.and_then(|end| address.checked_sub(end)).filter(|free| *free > 0) {
            blocks.push(Block { address: address - free, size: free, allocated: false });
        }
        blocks.push(Block { address, size, allocated: true });
        end = end.max(address.checked_add(size));
    }
    blocks
}

fn define(
    row: &TensorRow,
    shape: Vec<u64>,
    pool: usize,
    spread: Option<&'static str>,
    tables: &mut Tables<'_>,
) -> Result<TypeId> {
    let (dtype, is_tiled) = (element(&row.dtype).as_bytes(), is_tiled(&row.layout));
    let padded_shape = padded(&shape, is_tiled);
    let elements = |shape: &[u64]| shape.iter().try_fold(1_u64, |all, side| all.checked_mul(*side));
    let scalar = scalar_bytes(dtype);
    let logical = scalar.and_then(|bytes| elements(&shape)?.checked_mul(bytes));
    let padded_bytes = if is_tiled {
        tile_bytes(dtype, (32, 32)).and_then(|tile| (elements(&padded_shape)? / 1024).checked_mul(tile))
    } else {
        logical
    };
    let dtype = tables.text(dtype)?;
    let layout = Layout {
        buffer: tables.text(POOLS[pool.min(POOLS.len() - 1)].to_ascii_lowercase().as_bytes())?,
        spread: spread.map(|spread| tables.text(spread.as_bytes())).transpose()?,
        stored_dtype: dtype,
        tile: is_tiled.then_some((32, 32)),
        grid: Vec::new(),
        shard: Vec::new(),
        padded_shape,
    };
    tables.plain_type(TensorType {
        text: None,
        shape,
        dtype,
        layout: Some(layout),
        declared: logical.into(),
        // The size of block floats is only defined for whole tiles.
        logical: Bytes::from(logical.or(padded_bytes)),
        padded: padded_bytes.into(),
    })
}
