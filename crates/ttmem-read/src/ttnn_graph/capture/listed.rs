//! What a database has instead of nodes: its operations, the buffers that it lists after each of them, and its tensors.

use ttmem_model::{Moment, RankId, Result, StepNumber};

use super::super::lives::{Buffer, Place, TensorNode};
use super::super::node::{Node, Params, Text, element, is_tiled, padded_bytes, shape, shard_cores};
use super::super::report::{Device, Report};
use super::super::sidecar::{PythonCall, Sidecar};
use super::buffers::{BufferNode, Life};
use super::{Capture, FROM_BEFORE, position};
use crate::tt_log::tables::Tables;
use crate::tt_log::types::scalar_bytes;

/// A buffer that a database lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListedBuffer {
    pub place: Place,
    pub address: u64,
    /// The size per bank with aligned pages.
    pub per_bank: u64,
    pub spread: Option<&'static str>,
}

/// A row of the tensors table.
#[derive(Clone, Debug)]
pub(crate) struct ListedTensor {
    pub id: i64,
    pub shape: String,
    pub dtype: String,
    pub layout: String,
    pub address: Option<u64>,
    pub buffer_type: Option<u64>,
    pub memory_config: String,
}

impl<'s> Capture<'s> {
    /// A capture whose nodes come from a database.
    pub fn of_database(tables: Tables<'s>, rank: RankId, device: &Device) -> Self {
        let named = device.arch();
        Self {
            rank: Some(rank),
            named,
            has_alignment: named.is_some(),
            ..Self::new(tables, Sidecar::default())
        }
    }

    /// Adds a call from Python. Its function begins next, or never.
    pub fn python_call(&mut self, call: PythonCall) {
        self.sidecar.push(call);
    }

    /// Begins a call that has no node.
    pub fn begin_call(&mut self, name: &str) -> Result<()> {
        let params = Params { name: Text(name.into()), ..Params::default() };
        self.call(u64::MAX, &Node { params, ..Node::default() }, 0)
    }

    /// Processes a node of an operation. `first` is the index of the operation's first node.
    pub fn operation_node(
        &mut self,
        (operation, first): (i64, u64),
        index: u64,
        node: &Node<'_>,
        device: &Device,
    ) -> Result<()> {
        self.operation = Some((operation, first));
        self.nodes += 1;
        self.node(index, node, 0, Some(device))
    }

    /// Counts an element of an operation's list that is not a node.
    pub fn not_a_node(&mut self, operation: (i64, u64), index: u64) {
        self.nodes += 1;
        self.notes.no_nodes.add(|| position(Some(operation), index));
    }

    /// Counts a buffer that is freed although it is not allocated.
    pub fn freed_twice(&mut self, operation: (i64, u64), index: u64) {
        self.notes.freed_twice.add(|| position(Some(operation), index));
    }

    /// Sets the number of buffers from before the first operation with a size that may lack padding.
    pub fn unpadded(&mut self, count: u64) {
        self.notes.unpadded = count;
    }

    /// Runs a program whose buffers are unknown.
    pub fn unknown_program(&mut self) -> Result<()> {
        self.program_begins(0)
    }

    /// Ends the calls of an operation.
    pub fn end_operation(&mut self) -> Result<()> {
        self.end_calls()
    }

    /// Adds a listed buffer under a key that no node has. It was there from the start, or is allocated now.
    pub fn add_buffer(&mut self, key: u64, listed: &ListedBuffer, is_earlier: bool) -> Result<()> {
        let (born, step, name) = if is_earlier {
            (Moment::START, None, Some(self.tables.text(FROM_BEFORE)?))
        } else {
            self.touch(true, 0)?;
            (Moment::after(self.steps), StepNumber::new(self.steps), None)
        };
        let mut buffer = Buffer {
            place: listed.place,
            size: None,
            share: Some(self.share(listed.per_bank)),
            address: Some(listed.address),
            spread: listed.spread,
            born,
            step,
            name,
            order: 0,
            last_use: None,
        };
        let rank = self.rank()?;
        if is_earlier {
            self.lives.existed(&mut buffer, rank, &mut self.tables)?;
        } else {
            self.lives.taken(&mut buffer, rank, &mut self.tables)?;
        }
        let (tensors, is_dram) = (Vec::new(), listed.place == Place::Dram);
        self.buffers.insert(
            key,
            BufferNode { size: None, is_dram, tensors, last_use: None, life: Life::Allocated(buffer) },
        );
        Ok(())
    }

    /// Corrects the size of a buffer that was there from the start.
    pub fn resize_earlier(&mut self, key: u64, per_bank: u64) {
        let share = self.share(per_bank);
        if let Some(BufferNode { life: Life::Allocated(buffer), .. }) = self.buffers.get_mut(&key) {
            self.lives.resize_existed(buffer, share);
        }
    }

    /// Adds the tensors in a buffer that existed before the first operation and is freed next.
    pub fn add_earlier_buffer(&mut self, key: u64, place: Place, tensors: Vec<u64>) {
        self.placed.extend(tensors.iter().map(|tensor| (*tensor, key)));
        let is_dram = place == Place::Dram;
        self.buffers.insert(
            key,
            BufferNode { size: None, is_dram, tensors, last_use: None, life: Life::NotAllocated },
        );
    }

    /// Frees a buffer without a node.
    pub fn remove_buffer(&mut self, key: u64) -> Result<()> {
        let Some(BufferNode { tensors, life: Life::Allocated(buffer), .. }) = self.buffers.remove(&key)
        else {
            return Ok(());
        };
        self.touch(false, 0)?.gone.push((buffer.clone(), tensors));
        self.lives.freed(&buffer);
        Ok(())
    }

    /// Adds a tensor without a node.
    pub fn add_tensor(&mut self, index: u64, row: &ListedTensor) -> Result<()> {
        let name = self.tables.text(format!("tensor {}", row.id).as_bytes())?;
        let Some(shape) = shape(&row.shape) else { return Ok(()) };
        let (dtype, is_tiled) = (element(&row.dtype), is_tiled(&row.layout));
        let elements = shape.iter().try_fold(1_u64, |all, side| all.checked_mul(*side));
        let scalar = scalar_bytes(dtype.as_bytes());
        let padded = padded_bytes(&shape, dtype, is_tiled);
        let node = TensorNode {
            name,
            // The size of block floats is only defined for whole tiles.
            logical: elements.zip(scalar).and_then(|(count, bytes)| count.checked_mul(bytes)).or(padded),
            padded,
            dtype: self.tables.text(dtype.as_bytes())?,
            is_tiled,
            cores: match shard_cores(&row.memory_config) {
                Some(cores) => Some(self.tables.text(cores.to_string().as_bytes())?),
                None => None,
            },
            shape,
        };
        self.tensors.insert(index, node);
        Ok(())
    }

    /// Puts a tensor in an allocated buffer, which is distributed as the tensor is.
    pub fn attach(&mut self, key: u64, tensor: u64, spread: Option<&'static str>) {
        let Some(node) = self.buffers.get_mut(&key).filter(|_| self.tensors.contains_key(&tensor)) else {
            return;
        };
        node.tensors.push(tensor);
        self.placed.insert(tensor, key);
        if let Life::Allocated(buffer) = &mut node.life {
            buffer.spread = spread.or(buffer.spread);
        }
    }

    /// Emits what is known at the end of a rank.
    pub fn finish_rank(mut self, report: &Report) -> Result<Tables<'s>> {
        let rank = self.end_steps(report)?;
        self.lives.say_blocks(self.arch(), rank, &mut self.tables)?;
        self.say_pools(report, None, rank, None)?;
        Ok(self.tables)
    }
}
