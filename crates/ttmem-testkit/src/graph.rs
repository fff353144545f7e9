//! ttnn graph captures, written node by node as a program would, with the results of ttnn's own rules.
//!
//! Only live buffers are kept in memory, so a capture may be of any size.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use crate::random::Random;

/// The memory of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// DRAM.
    Dram,
    /// L1.
    L1,
    /// The region of L1 for small buffers.
    L1Small,
    /// The region of DRAM for traces.
    Trace,
}

impl Memory {
    fn number(self) -> u64 {
        match self {
            Self::Dram => 0,
            Self::L1 => 1,
            Self::L1Small => 3,
            Self::Trace => 4,
        }
    }

    /// Captures know two types; a region has the type of the memory that contains it.
    fn type_name(self) -> &'static str {
        if self.is_dram() { "DRAM" } else { "L1" }
    }

    fn is_dram(self) -> bool {
        matches!(self, Self::Dram | Self::Trace)
    }
}

/// The form of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// All parameters as text, and no sizes per bank, as in captures before 2026.
    pub old: bool,
    /// Wrapped in a report, which names the device.
    pub report: bool,
    /// There was no device: all addresses are 0.
    pub no_dispatch: bool,
}

impl Options {
    /// A plain list in the current form.
    pub const PLAIN: Self = Self { old: false, report: false, no_dispatch: false };
}

/// The results of ttnn's rules, and some more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Truth {
    /// `extract_dram_usage`: the peak.
    pub dram_peak: i64,
    /// The same: all allocations.
    pub dram_allocations: u64,
    /// The same: all deallocations.
    pub dram_deallocations: u64,
    /// `extract_resource_usage_per_core`: the peak of circular buffers.
    pub peak_cb: i64,
    /// The same: the peak of buffers in L1.
    pub peak_l1: i64,
    /// The same: the peak of everything in L1.
    pub peak_total: i64,
    /// The peak of buffers in DRAM per bank with padding, including those from before the capture.
    pub dram_peak_per_bank: u64,
    /// The number of outermost functions.
    pub functions: u64,
    /// The number of nodes.
    pub nodes: u64,
}

impl Truth {
    /// The DRAM usage at the end, relative to the start.
    pub fn dram_current(&self) -> i64 {
        self.dram_allocations.cast_signed() - self.dram_deallocations.cast_signed()
    }
}

/// A live buffer.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    node: u64,
    memory: Memory,
    size: u64,
    per_bank: u64,
    address: u64,
}

impl Buffer {
    /// The memory of the buffer.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// The total size on the device.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes per bank, or per core.
    pub fn per_bank(&self) -> u64 {
        self.per_bank
    }
}

/// The number of DRAM banks.
pub const BANKS: u64 = 12;
/// The number of cores that L1 is spread over.
pub const CORES: u64 = 64;
const PAGE: u64 = 2048;
/// The first DRAM address that a Wormhole's allocator manages; memory below it is reserved.
pub const DRAM_BASE: u64 = 0x10_0040;
/// The size of a DRAM channel, including reserved memory.
pub const DRAM_CHANNEL: u64 = 1 << 30;

/// A capture in progress.
pub struct Capture<W: Write> {
    out: W,
    options: Options,
    node: u64,
    functions: Vec<String>,
    address: u64,
    tensors: u64,
    truth: Truth,
    dram: i64,
    l1: i64,
    cb: i64,
    other: i64,
    /// The level of the DRAM banks relative to the start, and the part that existed before: the first may be negative.
    held: Vec<i64>,
    before: i64,
}

impl<W: Write> Capture<W> {
    /// Begins a capture.
    pub fn begin(mut out: W, options: Options) -> io::Result<Self> {
        if options.report {
            let device = json!({
                "device_id": 0, "l1_num_banks": CORES, "l1_bank_size": 1_395_424, "cb_limit": 1_395_424,
                "num_dram_channels": BANKS, "dram_size_per_channel": DRAM_CHANNEL, "arch": "wormhole_b0",
            });
            write!(out, "{{\"devices\": [{device}], \"graph\": ")?;
        }
        write!(out, "[")?;
        let mut capture = Self {
            out,
            options,
            node: 0,
            functions: Vec::new(),
            address: DRAM_BASE,
            tensors: 0,
            truth: Truth::default(),
            dram: 0,
            l1: 0,
            cb: 0,
            other: 0,
            held: vec![0],
            before: 0,
        };
        capture.node("capture_start", json!({}), &[])?;
        Ok(capture)
    }

    /// Writes any node.
    pub fn node(&mut self, kind: &str, params: Value, connections: &[u64]) -> io::Result<u64> {
        let params = if self.options.old { as_text(params) } else { params };
        let separator = if self.node == 0 { "" } else { ",\n" };
        let node = json!({
            "arguments": [], "connections": connections, "counter": self.node, "input_tensors": [],
            "node_type": kind, "params": params, "stacking_level": self.functions.len(),
        });
        write!(self.out, "{separator}{node}")?;
        self.node += 1;
        Ok(self.node - 1)
    }

    /// Begins a function.
    pub fn function(&mut self, name: &str) -> io::Result<()> {
        self.truth.functions += u64::from(self.functions.is_empty());
        self.functions.push(name.to_owned());
        self.node("function_start", json!({"name": name, "inputs": 2}), &[])?;
        Ok(())
    }

    /// Ends the innermost function.
    pub fn end(&mut self) -> io::Result<()> {
        let name = self.functions.last().cloned().unwrap_or_default();
        self.node("function_end", json!({ "name": name }), &[])?;
        self.functions.pop();
        Ok(())
    }

    /// Allocates a buffer with a tensor in it.
    pub fn allocate(&mut self, memory: Memory, size: u64) -> io::Result<Buffer> {
        let address = if self.options.no_dispatch { 0 } else { self.address };
        self.address += size;
        let buffer = Buffer { node: self.node, memory, size, per_bank: per_bank(memory, size), address };
        let tensor = self.node + 2;
        self.buffer_node(&buffer, &[tensor])?;
        self.node("buffer_allocate", self.buffer_params(&buffer), &[buffer.node])?;
        self.tensors += 1;
        let rows = size / 64;
        let params = json!({
            "shape": format!("Shape([1, 1, {rows}, 32])"), "tensor_id": self.tensors, "dtype": "DataType::BFLOAT16",
            "layout": "Layout::TILE", "size": rows * 64, "address": address, "buffer_type": memory.number(),
        });
        self.node("tensor", params, &[])?;
        if memory.is_dram() {
            self.truth.dram_allocations += size;
            self.dram += size.cast_signed();
        } else {
            self.l1 += buffer.per_bank.cast_signed();
        }
        self.hold(&buffer, 1);
        self.peaks();
        Ok(buffer)
    }

    /// Frees a buffer.
    pub fn free(&mut self, buffer: &Buffer) -> io::Result<()> {
        self.node("buffer_deallocate", self.buffer_params(buffer), &[buffer.node])?;
        if buffer.memory.is_dram() {
            self.truth.dram_deallocations += buffer.size;
            self.dram -= buffer.size.cast_signed();
        } else {
            self.l1 -= buffer.per_bank.cast_signed();
        }
        self.hold(buffer, -1);
        Ok(())
    }

    /// Frees a buffer that was allocated before the capture.
    pub fn free_from_before(&mut self, memory: Memory, size: u64) -> io::Result<()> {
        let buffer =
            Buffer { node: self.node, memory, size, per_bank: per_bank(memory, size), address: DRAM_BASE };
        self.buffer_node(&buffer, &[])?;
        if memory == Memory::Dram {
            self.before += if self.options.old { size } else { buffer.per_bank }.cast_signed();
        }
        self.free(&buffer)
    }

    /// Adds a program's circular buffer; a globally allocated one is inside another buffer.
    pub fn circular_buffer(&mut self, size: u64, cores: &str, globally_allocated: bool) -> io::Result<()> {
        let flag = if globally_allocated { "1" } else { "0" };
        let params = json!({
            "size": size, "address": 107_008, "core_range_set": cores, "globally_allocated": flag, "device_id": 0,
        });
        self.node("circular_buffer_allocate", params, &[])?;
        self.cb += if globally_allocated { 0 } else { size.cast_signed() };
        self.peaks();
        Ok(())
    }

    /// Adds a program's dataflow buffer; a borrowing one is inside another buffer.
    pub fn dataflow_buffer(&mut self, size: u64, borrows: bool) -> io::Result<()> {
        let flag = if borrows { "1" } else { "0" };
        let params = json!({"size": size, "address": 0, "core_range_set": "{}", "borrows_memory": flag});
        self.node("dataflow_buffer_allocate", params, &[])?;
        self.other += if borrows { 0 } else { size.cast_signed() };
        self.peaks();
        Ok(())
    }

    /// Adds a program's scratchpad.
    pub fn scratchpad(&mut self, size: u64) -> io::Result<()> {
        self.node("scratchpad_allocate", json!({"size": size, "address": 0, "core_range_set": "{}"}), &[])?;
        self.other += size.cast_signed();
        self.peaks();
        Ok(())
    }

    /// Frees all program buffers.
    pub fn programs_gone(&mut self) -> io::Result<()> {
        self.node("circular_buffer_deallocate_all", json!({"device_id": 0}), &[])?;
        (self.cb, self.other) = (0, 0);
        Ok(())
    }

    /// Ends the capture, and returns its truth.
    pub fn finish(mut self) -> io::Result<Truth> {
        self.close()?;
        let highest = self.held.iter().max().copied().unwrap_or(0);
        self.truth.dram_peak_per_bank = (highest + self.before).unsigned_abs();
        self.truth.nodes = self.node;
        Ok(self.truth)
    }

    /// Ends the capture, and returns the output.
    pub fn finish_into(mut self) -> io::Result<W> {
        self.close()?;
        Ok(self.out)
    }

    fn close(&mut self) -> io::Result<()> {
        self.node("capture_end", json!({}), &[])?;
        write!(self.out, "]")?;
        if self.options.report {
            let metadata =
                json!({"capture_timestamp_ns": 1, "rank": 0, "total_duration_ns": 2, "world_size": 1});
            write!(self.out, ", \"metadata\": {metadata}, \"version\": 1}}")?;
        }
        writeln!(self.out)?;
        self.out.flush()
    }

    fn buffer_node(&mut self, buffer: &Buffer, tensors: &[u64]) -> io::Result<()> {
        let (kind, number) = (buffer.memory.type_name(), buffer.memory.number());
        let params = json!({
            "size": buffer.size, "type": kind, "buffer_type": number, "layout": "INTERLEAVED", "device_id": 0,
        });
        self.node("buffer", params, tensors)?;
        Ok(())
    }

    fn buffer_params(&self, buffer: &Buffer) -> Value {
        // Old captures contain the cores of a sharded buffer, which give its size per core.
        let cores = if buffer.memory.is_dram() { 0 } else { CORES };
        let mut params = json!({
            "size": buffer.size, "address": buffer.address, "type": buffer.memory.type_name(),
            "buffer_type": buffer.memory.number(), "layout": "INTERLEAVED", "page_size": PAGE, "num_cores": cores,
            "device_id": 0, "max_size_per_bank": buffer.per_bank,
        });
        if let (true, Some(params)) = (self.options.old, params.as_object_mut()) {
            params.remove("max_size_per_bank");
        }
        params
    }

    fn hold(&mut self, buffer: &Buffer, sign: i64) {
        let bytes = if self.options.old { buffer.size } else { buffer.per_bank };
        if buffer.memory == Memory::Dram {
            let now = self.held.last().copied().unwrap_or(0) + sign * bytes.cast_signed();
            // Only the highest and the last value matter.
            let highest = self.held.first().copied().unwrap_or(0).max(now);
            self.held = vec![highest, now];
        }
    }

    fn peaks(&mut self) {
        let truth = &mut self.truth;
        truth.dram_peak = truth.dram_peak.max(self.dram);
        truth.peak_cb = truth.peak_cb.max(self.cb);
        truth.peak_l1 = truth.peak_l1.max(self.l1);
        truth.peak_total = truth.peak_total.max(self.l1 + self.cb + self.other);
    }
}

/// The bytes of a buffer per bank, or per core, in whole pages.
fn per_bank(memory: Memory, size: u64) -> u64 {
    let banks = if memory.is_dram() { BANKS } else { CORES };
    size.div_ceil(PAGE).div_ceil(banks) * PAGE
}

/// All parameters as text, as in old captures.
fn as_text(params: Value) -> Value {
    let Value::Object(params) = params else { return params };
    let text = |value: Value| match value {
        Value::Number(number) => Value::String(number.to_string()),
        other => other,
    };
    Value::Object(params.into_iter().map(|(key, value)| (key, text(value))).collect())
}

/// A random program with that many functions, some of them nested.
pub fn random<W: Write>(out: W, options: Options, functions: u64, seed: u64) -> io::Result<Truth> {
    const NAMES: [&str; 5] = ["ttnn::matmul", "ttnn::add", "ttnn::softmax", "ttnn::linear", "ttnn::reshape"];
    let mut random = Random::new(seed);
    let mut capture = Capture::begin(out, options)?;
    let mut there: Vec<Buffer> = Vec::new();
    for _ in 0..functions {
        let name = NAMES[random.index(NAMES.len())];
        capture.function(name)?;
        let is_nested = random.between(0, 2) == 0;
        if is_nested {
            capture.function("ttnn::prim::inner")?;
        }
        if name != "ttnn::reshape" {
            work(&mut capture, &mut random, &mut there)?;
        }
        if is_nested {
            capture.end()?;
        }
        capture.end()?;
        // Python frees tensors between two calls.
        if there.len() > 12 || (random.between(0, 3) == 0 && !there.is_empty()) {
            let at = random.index(there.len());
            capture.free(&there.swap_remove(at))?;
        }
        if random.between(0, 39) == 0 {
            capture.free_from_before(Memory::Dram, (1 + random.between(0, 99)) * 1000)?;
        }
    }
    capture.finish()
}

/// The effect of one function on memory.
fn work<W: Write>(capture: &mut Capture<W>, random: &mut Random, there: &mut Vec<Buffer>) -> io::Result<()> {
    for _ in 0..random.between(0, 2) {
        let memory = match random.between(0, 7) {
            0 | 1 => Memory::L1,
            2 => Memory::L1Small,
            3 if random.between(0, 9) == 0 => Memory::Trace,
            _ => Memory::Dram,
        };
        let size = 64 * (1 + random.between(0, 4999));
        there.push(capture.allocate(memory, size)?);
    }
    capture.programs_gone()?;
    for _ in 0..random.between(0, 3) {
        let size = 2048 * (1 + random.between(0, 15));
        match random.between(0, 5) {
            0 => capture.circular_buffer(size, "{[(x=0,y=0) - (x=0,y=0)]}", true)?,
            1 => capture.dataflow_buffer(size, random.between(0, 1) == 0)?,
            2 => capture.scratchpad(size)?,
            _ => capture.circular_buffer(size, "{[(x=0,y=0) - (x=7,y=7)]}", false)?,
        }
    }
    if random.between(0, 1) == 0
        && let Some(buffer) = there.pop()
    {
        capture.free(&buffer)?;
    }
    Ok(())
}
