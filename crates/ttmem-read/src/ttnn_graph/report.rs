//! The parts of a report around its graph: devices, metadata, and the buffers after each operation.

use std::io::Read;
use std::ops::Range;

use serde::Deserialize;
use ttmem_model::CoreMemory;

use super::lives::Place;
use crate::json::{Json, JsonError, Number, Stop};
use crate::ttnn_arch::Arch;

/// The contents of a report other than its graph.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The first device; a capture counts one device.
    pub device: Option<Device>,
    /// The rank of the process, if there are several.
    pub rank: Option<u64>,
    /// The buffers after the first operation.
    pub first_buffers: Option<Snapshot>,
    /// Whether it lists the buffers that existed before it.
    pub lists_earlier_buffers: bool,
}

/// The memory of a device.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Device {
    pub arch: Option<String>,
    pub worker_l1_size: Number,
    pub l1_num_banks: Number,
    pub l1_bank_size: Number,
    pub address_at_first_l1_cb_buffer: Number,
    pub num_x_compute_cores: Number,
    pub num_y_compute_cores: Number,
    pub num_dram_channels: Number,
    pub dram_size_per_channel: Number,
}

/// The part of a pool in each bank.
#[derive(Clone, Debug)]
pub(crate) struct Bank {
    pub size: u64,
    /// The addresses, if known.
    pub addresses: Option<Range<u64>>,
}

/// The lowest buffer addresses in a capture; `None` without a real device, when all addresses are 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lowest {
    pub dram: Option<u64>,
    pub trace: Option<u64>,
}

impl Lowest {
    /// Adds the address of a buffer or tensor.
    pub fn see(&mut self, place: Place, address: Number) {
        let lowest = match place {
            Place::Dram => &mut self.dram,
            Place::Trace => &mut self.trace,
            Place::L1 | Place::L1Small => return,
        };
        if let Some(address) = address.get().filter(|address| *address > 0) {
            *lowest = Some(lowest.map_or(address, |lowest| lowest.min(address)));
        }
    }
}

/// The buffers after an operation.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The index of the node that begins the operation.
    pub node: u64,
    pub buffers: Vec<SnapshotBuffer>,
}

/// A buffer in a snapshot.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SnapshotBuffer {
    pub address: Number,
    pub buffer_type: Number,
    pub device_id: Number,
    pub max_size_per_bank: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    rank: Number,
    world_size: Number,
}

impl Report {
    /// Reads the value of a key; skips it if it is not needed.
    pub fn entry(&mut self, key: &str, json: &mut Json<impl Read>) -> Result<(), Stop> {
        match key {
            "devices" => {
                let devices: Vec<Device> = serde_json::from_slice(json.value()?).unwrap_or_default();
                self.device = devices.into_iter().next();
            }
            "metadata" => {
                let metadata: Metadata = serde_json::from_slice(json.value()?).unwrap_or_default();
                let is_one_of_many = metadata.world_size.get().is_some_and(|size| size > 1);
                self.rank = metadata.rank.get().filter(|_| is_one_of_many);
            }
            "per_operation_buffers" => self.snapshots(json)?,
            _ => json.skip()?,
        }
        Ok(())
    }

    /// Keeps the buffers after the first operation: those that the capture did not allocate existed before it. The
    /// operations are in the order of their numbers as text, so the first one may come late.
    fn snapshots(&mut self, json: &mut Json<impl Read>) -> Result<(), Stop> {
        let is_object = json.object(|json, key| -> Result<(), Stop> {
            let first = self.first_buffers.as_ref().map(|snapshot| snapshot.node);
            match key.parse::<u64>().ok().filter(|node| first.is_none_or(|first| *node < first)) {
                Some(node) => {
                    let buffers: Vec<SnapshotBuffer> =
                        serde_json::from_slice(json.value()?).unwrap_or_default();
                    if !buffers.is_empty() {
                        self.first_buffers = Some(Snapshot { node, buffers });
                        self.lists_earlier_buffers = true;
                    }
                }
                None => json.skip()?,
            }
            Ok(())
        })?;
        if is_object {
            Ok(())
        } else {
            Err(JsonError::Syntax("per_operation_buffers is not an object").into())
        }
    }
}

impl Device {
    /// The architecture, if it is a known one.
    pub fn arch(&self) -> Option<Arch> {
        match &self.arch {
            Some(name) => Arch::named(name),
            None => Arch::with_worker_l1(self.worker_l1_size.get()?),
        }
    }

    /// The layout of a core's L1: the allocator's bank is between the reserved part and the region for small buffers.
    pub fn core_memory(&self) -> Option<CoreMemory> {
        // ttnn writes 0 for an unknown number.
        let known = |number: Number| number.get().filter(|number| *number > 0);
        let (size, reserved) = (known(self.worker_l1_size)?, known(self.address_at_first_l1_cb_buffer)?);
        let small = size.checked_sub(reserved)?.checked_sub(known(self.l1_bank_size)?)?;
        let cores = |number: Number| u32::try_from(number.get()?).ok().filter(|cores| *cores > 0);
        let grid = cores(self.num_x_compute_cores).zip(cores(self.num_y_compute_cores));
        Some(CoreMemory { size, reserved, small, grid })
    }

    /// The banks of a pool.
    pub fn bank(&self, place: Place, lowest: Lowest) -> Option<Bank> {
        let addresses = match place {
            Place::Dram => self.dram_bank(lowest)?,
            // The region for traces is at the end of DRAM. Only a trace shows where it begins.
            Place::Trace => lowest.trace?..self.dram_size_per_channel.get()?,
            Place::L1 => match self.core_memory() {
                Some(core) => core.reserved..core.size - core.small,
                // The addresses are unknown, but not the size.
                None => {
                    let size = self.l1_bank_size.get().filter(|size| *size > 0)?;
                    return Some(Bank { size, addresses: None });
                }
            },
            Place::L1Small => {
                let core = self.core_memory()?;
                core.size - core.small..core.size
            }
        };
        let size = addresses.end.checked_sub(addresses.start).filter(|size| *size > 0)?;
        Some(Bank { size, addresses: Some(addresses) })
    }

    /// The DRAM that the allocator manages. It excludes the reserved part and the trace region, which begins with the
    /// first trace. A trace region without a trace cannot be detected.
    fn dram_bank(&self, lowest: Lowest) -> Option<Range<u64>> {
        let (base, end) = (self.arch()?.dram_base(), self.dram_size_per_channel.get()?);
        // A buffer is below the base, so this build reserves less.
        if lowest.dram.is_some_and(|address| address < base) {
            return None;
        }
        Some(base..lowest.trace.map_or(end, |trace| trace.min(end)))
    }
}
