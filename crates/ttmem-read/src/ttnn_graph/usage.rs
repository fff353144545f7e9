//! The peaks of L1 by the rules of ttnn's own functions: `extract_resource_usage_per_core` and
//! `extract_peak_L1_memory_usage`, as of ttnn 0.81.1.
//!
//! They count every node as it is, so buffers on several chips of a mesh are added. The second one adds the buffers of
//! the whole device and the program buffers of one core. ttnn's numbers overflow if buffers from before the capture are
//! freed; these do not.

use ttmem_model::TtnnPeaks;

use super::node::Node;
use crate::json::Number;

/// The usage so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TtnnUsage {
    circular: Peak,
    dataflow: Peak,
    scratchpads: Peak,
    buffers: Peak,
    total: Peak,
    device: Peak,
    /// The program buffers that are part of `device`.
    device_programs: i64,
    /// The number of open functions.
    open: u64,
    /// Whether only tensors and buffers in L1 came after the start of an outermost function: its inputs.
    at_inputs: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    now: i64,
    peak: i64,
}

impl Peak {
    fn add(&mut self, bytes: i64) {
        self.now = self.now.saturating_add(bytes);
        self.peak = self.peak.max(self.now);
    }

    fn bytes(self) -> u64 {
        self.peak.max(0).unsigned_abs()
    }
}

impl TtnnUsage {
    /// Counts a node. `freed` is the buffer that a deallocation refers to: whether it is in L1, and its size.
    pub fn count(&mut self, node: &Node<'_>, freed: Option<(bool, u64)>) {
        let params = &node.params;
        // ttnn counts bytes per bank with 32 bits. It allocates a buffer of 4 GiB with 0 bytes, and frees all of them.
        let (size, per_bank) = (signed(params.size), signed(params.max_size_per_bank) % (1 << 32));
        let is_l1 = params.kind.0 == "L1";
        self.at_inputs &= matches!(&*node.kind.0, "tensor" | "buffer");
        match &*node.kind.0 {
            "function_start" => {
                self.at_inputs = self.open == 0;
                self.open += 1;
            }
            "function_end" => self.open = self.open.saturating_sub(1),
            "buffer" if self.at_inputs && is_l1 => self.device.add(size),
            "buffer" => self.at_inputs = false,
            "circular_buffer_allocate" => {
                let own = if params.globally_allocated == Number::Is(1) { 0 } else { size };
                self.circular.add(own);
                self.total.add(own);
                self.program_on_device(size);
            }
            "dataflow_buffer_allocate" if params.borrows_memory != Number::Is(1) => {
                self.dataflow.add(size);
                self.total.add(size);
                self.program_on_device(size);
            }
            "scratchpad_allocate" => {
                self.scratchpads.add(size);
                self.total.add(size);
                self.program_on_device(size);
            }
            "circular_buffer_deallocate_all" => self.programs_gone(),
            "buffer_allocate" if params.kind.0 != "DRAM" => {
                self.buffers.add(per_bank);
                self.total.add(per_bank);
                self.device.add(if is_l1 { size } else { 0 });
            }
            "buffer_deallocate" => {
                let (freed_is_l1, freed) = freed.unwrap_or((is_l1, size.unsigned_abs()));
                if params.kind.0 != "DRAM" {
                    self.buffers.add(-per_bank);
                    self.total.add(-per_bank);
                }
                self.device.add(if freed_is_l1 { -i64::try_from(freed).unwrap_or(i64::MAX) } else { 0 });
            }
            _ => {}
        }
    }

    fn program_on_device(&mut self, bytes: i64) {
        self.device_programs = self.device_programs.saturating_add(bytes);
        self.device.add(bytes);
    }

    fn programs_gone(&mut self) {
        let programs = [&mut self.circular, &mut self.dataflow, &mut self.scratchpads];
        for program in programs {
            self.total.now = self.total.now.saturating_sub(std::mem::take(&mut program.now));
        }
        self.device.now = self.device.now.saturating_sub(std::mem::take(&mut self.device_programs));
    }

    /// The peaks.
    pub fn peaks(&self) -> TtnnPeaks {
        TtnnPeaks {
            circular: self.circular.bytes(),
            dataflow: self.dataflow.bytes(),
            scratchpads: self.scratchpads.bytes(),
            buffers: self.buffers.bytes(),
            total: self.total.bytes(),
            device: self.device.bytes(),
        }
    }
}

fn signed(number: Number) -> i64 {
    number.get().map_or(0, |number| i64::try_from(number).unwrap_or(i64::MAX))
}
