//! The tensors and buffers of a capture.

use std::collections::hash_map::Entry;

use ttmem_model::{Change, Moment, Result, StepNumber};

use super::super::lives::{Buffer, LastUse, Place, Share, TensorNode};
use super::super::node::{Node, Params, element, is_tiled, shape, shard_cores, spread};
use super::super::report::Device;
use super::{Capture, FROM_BEFORE, connected, position};
use crate::json::Number;

/// A buffer node, and the buffer while it is allocated.
pub(super) struct BufferNode {
    pub size: Option<u64>,
    pub is_dram: bool,
    /// The tensors in it.
    pub tensors: Vec<u64>,
    /// The last step that used it, after the one that made it.
    pub last_use: Option<StepNumber>,
    pub life: Life,
}

pub(super) enum Life {
    NotAllocated,
    Allocated(Buffer),
    Freed,
}

impl Capture<'_> {
    /// Looks for evidence of the architecture in a buffer's location and layout.
    fn look_at(&mut self, params: &Params<'_>, place: Place, device: Option<&Device>) {
        if self.named.is_none() {
            self.named = device.and_then(Device::arch);
        }
        self.shown.buffer(params, place);
        self.lowest.see(place, params.address);
    }

    pub(super) fn say_life(&mut self, buffer: &Buffer, tensors: &[u64], dies: Moment) -> Result<()> {
        let rank = self.rank()?;
        let arch = self.arch();
        let known: Vec<&TensorNode> = tensors.iter().filter_map(|index| self.tensors.get(index)).collect();
        self.lives.say(buffer, &known, dies, arch, rank, &mut self.tables)
    }

    pub(super) fn tensor(&mut self, index: u64, params: &Params<'_>) -> Result<()> {
        // Its buffer may be older than the capture.
        if let Some(place) = params.buffer_type.get().and_then(Place::numbered) {
            self.lowest.see(place, params.address);
        }
        let Some(shape) = shape(&params.shape.0) else { return Ok(()) };
        let name = format!("tensor {}", params.tensor_id.0);
        let node = TensorNode {
            name: self.tables.text(name.as_bytes())?,
            shape,
            dtype: self.tables.text(element(&params.dtype.0).as_bytes())?,
            is_tiled: is_tiled(&params.layout.0),
            logical: params.size.get(),
            padded: None,
            cores: match shard_cores(&params.memory_config.0) {
                Some(cores) => Some(self.tables.text(cores.to_string().as_bytes())?),
                None => None,
            },
        };
        self.tensors.insert(index, node);
        Ok(())
    }

    pub(super) fn buffer(&mut self, index: u64, node: &Node<'_>) {
        let buffer = BufferNode {
            size: node.params.size.get(),
            is_dram: node.params.kind.0 == "DRAM",
            tensors: node.connections.iter().filter_map(|connection| connection.get()).collect(),
            last_use: None,
            life: Life::NotAllocated,
        };
        for &tensor in &buffer.tensors {
            // Of a tensor on several devices, the first buffer is the one that is counted.
            match self.placed.entry(tensor) {
                Entry::Occupied(_) => *self.shared.entry(tensor).or_insert(0) += 1,
                Entry::Vacant(first) => {
                    first.insert(index);
                }
            }
        }
        self.buffers.insert(index, buffer);
    }

    /// The last use of a buffer, if the capture tells: functions list the tensors that they use.
    pub(super) fn last_use(&self, tensors: &[u64], last: Option<StepNumber>) -> Option<LastUse> {
        (self.lists_uses && !tensors.is_empty()).then_some(LastUse(last))
    }

    /// Records that the last step used tensors.
    pub(super) fn used(&mut self, tensors: &[u64]) {
        let Some(step) = self.steps.checked_sub(1).and_then(StepNumber::new) else { return };
        for tensor in tensors {
            let buffer = self.placed.get(tensor).and_then(|key| self.buffers.get_mut(key));
            if let Some(buffer) = buffer {
                buffer.last_use = Some(step);
            }
        }
    }

    /// Removes a tensor when its last buffer is freed.
    pub(super) fn forget_tensor(&mut self, tensor: u64) {
        match self.shared.get_mut(&tensor) {
            Some(others) if *others > 0 => *others -= 1,
            _ => {
                self.placed.remove(&tensor);
                self.shared.remove(&tensor);
                self.tensors.remove(&tensor);
            }
        }
    }

    /// Whether a buffer is on the device that is counted.
    fn is_counted(&mut self, params: &Params<'_>) -> bool {
        let device = params.device_id.get().or(self.device);
        self.device = self.device.or(device);
        let is_counted = self.device == device;
        self.notes.other_devices += u64::from(!is_counted);
        is_counted
    }

    pub(super) fn allocate(
        &mut self,
        index: u64,
        node: &Node<'_>,
        offset: u64,
        device: Option<&Device>,
    ) -> Result<()> {
        let params = &node.params;
        let Some(size) = params.size.get() else {
            self.notes.no_sizes.add(|| position(self.operation, index));
            return Ok(());
        };
        self.notes.buffers += 1;
        self.notes.with_address += u64::from(params.address.get().is_some_and(|address| address > 0));
        let per_bank = self.per_bank(index, params, size, device);
        self.apply(if params.kind.0 == "DRAM" {
            Change::DramAllocated(size)
        } else {
            Change::L1Allocated(per_bank.unwrap_or(0))
        });
        let Some(place) = place(params).filter(|_| self.is_counted(params)) else { return Ok(()) };
        self.look_at(params, place, device);
        self.touch(true, offset)?;
        let share = per_bank.map(|per_bank| self.share(per_bank));
        let mut buffer = self.new_buffer(place, Some(size), share, params);
        let rank = self.rank()?;
        self.lives.taken(&mut buffer, rank, &mut self.tables)?;
        let key = connected(node).unwrap_or(index);
        let is_dram = params.kind.0 == "DRAM";
        let node = self.buffers.entry(key).or_insert_with(|| BufferNode {
            size: Some(size),
            is_dram,
            tensors: Vec::new(),
            last_use: None,
            life: Life::NotAllocated,
        });
        if let Life::Allocated(earlier) = std::mem::replace(&mut node.life, Life::Allocated(buffer)) {
            // Allocated again without being freed: the first buffer is kept, under a separate number.
            let (size, tensors, last_use) = (earlier.size, Vec::new(), node.last_use.take());
            let earlier = BufferNode { size, is_dram, tensors, last_use, life: Life::Allocated(earlier) };
            self.buffers.insert(u64::MAX - index, earlier);
            self.notes.allocated_twice.add(|| position(self.operation, index));
        }
        Ok(())
    }

    /// The size that the allocator uses for a buffer.
    pub(super) fn share(&self, per_bank: u64) -> Share {
        if self.has_alignment { Share::allocated(per_bank) } else { Share::exact(per_bank) }
    }

    fn new_buffer(
        &self,
        place: Place,
        size: Option<u64>,
        share: Option<Share>,
        params: &Params<'_>,
    ) -> Buffer {
        let born = Moment::after(self.steps);
        let step = StepNumber::new(self.steps);
        let address = params.address.get().filter(|address| *address > 0);
        Buffer {
            place,
            size,
            share,
            address,
            spread: spread(&params.layout.0),
            born,
            step,
            name: None,
            order: 0,
            last_use: None,
        }
    }

    /// The size of a buffer per bank: as recorded, or computed from the distribution of its pages over cores.
    fn per_bank(
        &mut self,
        index: u64,
        params: &Params<'_>,
        size: u64,
        device: Option<&Device>,
    ) -> Option<u64> {
        if let Some(per_bank) = params.max_size_per_bank.get() {
            return Some(without_overflow(per_bank, params, size, device));
        }
        if params.kind.0 == "DRAM" {
            return None;
        }
        let cores = params.num_cores.get().filter(|cores| *cores > 0);
        let cores = cores.or_else(|| device?.l1_num_banks.get().filter(|banks| *banks > 0));
        let page = params.page_size.get().filter(|page| *page > 0);
        let per_core =
            page.zip(cores).and_then(|(page, cores)| size.div_ceil(page).div_ceil(cores).checked_mul(page));
        if per_core.is_none() {
            self.notes.no_share.add(|| position(self.operation, index));
        }
        per_core
    }

    pub(super) fn deallocate(
        &mut self,
        index: u64,
        node: &Node<'_>,
        offset: u64,
        device: Option<&Device>,
    ) -> Result<()> {
        let params = &node.params;
        let own = || BufferNode {
            size: params.size.get(),
            is_dram: params.kind.0 == "DRAM",
            tensors: Vec::new(),
            last_use: None,
            // The buffer's node was removed already, or the node does not identify its buffer.
            life: if connected(node).is_some_and(|key| key < index) {
                Life::Freed
            } else {
                Life::NotAllocated
            },
        };
        let buffer = connected(node).and_then(|key| self.buffers.remove(&key));
        let BufferNode { size, is_dram, tensors, last_use, life } = buffer.unwrap_or_else(own);
        let Some(size) = size.or(params.size.get()) else {
            self.notes.no_sizes.add(|| position(self.operation, index));
            return Ok(());
        };
        let per_bank = self.per_bank(index, params, size, device);
        if is_dram {
            self.apply(Change::DramFreed(size));
        }
        if params.kind.0 != "DRAM" {
            self.apply(Change::L1Freed(per_bank.unwrap_or(0)));
        }
        let gone = match life {
            Life::Allocated(buffer) => {
                self.touch(false, offset)?;
                self.lives.freed(&buffer);
                buffer
            }
            Life::Freed => {
                self.notes.freed_twice.add(|| position(self.operation, index));
                return Ok(());
            }
            Life::NotAllocated => {
                let Some(place) = place(params).filter(|_| self.is_counted(params)) else { return Ok(()) };
                self.has_earlier_l1 |= matches!(place, Place::L1 | Place::L1Small);
                self.look_at(params, place, device);
                self.touch(false, offset)?;
                let share = per_bank.map(|per_bank| self.share(per_bank));
                self.was_there(place, size, share, params)?
            }
        };
        let gone = Buffer { last_use: self.last_use(&tensors, last_use), ..gone };
        self.touch(false, offset)?.gone.push((gone, tensors));
        Ok(())
    }

    /// Handles a freed buffer that was not allocated within the capture.
    fn was_there(
        &mut self,
        place: Place,
        size: u64,
        share: Option<Share>,
        params: &Params<'_>,
    ) -> Result<Buffer> {
        self.notes.from_before += 1;
        self.notes.from_before_bytes = self.notes.from_before_bytes.saturating_add(size);
        let mut buffer = self.new_buffer(place, Some(size), share, params);
        (buffer.born, buffer.step) = (Moment::START, None);
        buffer.name = Some(self.tables.text(FROM_BEFORE)?);
        let rank = self.rank()?;
        self.lives.freed_from_before(&mut buffer, rank, &mut self.tables)?;
        Ok(buffer)
    }
}

/// The size of a buffer per bank. ttnn writes it with 32 bits, so 4 GiB or more are missing if its banks could not hold the
/// buffer.
fn without_overflow(per_bank: u64, params: &Params<'_>, size: u64, device: Option<&Device>) -> u64 {
    const LOST: u64 = 1 << 32;
    let of_device = || {
        let device = device?;
        let banks = if params.kind.0 == "DRAM" { device.num_dram_channels } else { device.l1_num_banks };
        banks.get()
    };
    let cores = params.num_cores.get().filter(|cores| *cores > 0);
    match cores.or_else(of_device).filter(|banks| *banks > 0) {
        Some(banks) => {
            let missing = size.div_ceil(banks).saturating_sub(per_bank);
            // Anything smaller is another contradiction.
            let lost = if missing > LOST / 2 { missing.div_ceil(LOST).saturating_mul(LOST) } else { 0 };
            per_bank.saturating_add(lost)
        }
        None => per_bank,
    }
}

/// The location of a buffer; `None` if it is not on the device.
fn place(params: &Params<'_>) -> Option<Place> {
    match (params.buffer_type, &*params.kind.0) {
        (Number::Is(2), _) => None,
        (Number::Is(3), _) => Some(Place::L1Small),
        (Number::Is(4), _) => Some(Place::Trace),
        (_, "DRAM") => Some(Place::Dram),
        _ => Some(Place::L1),
    }
}
