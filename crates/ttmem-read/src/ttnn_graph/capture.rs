//! Walks the nodes of a capture: calls, the memory that they allocate and free, and the programs that they run.
//! `listed` adds what a database has instead of nodes.

#[cfg(feature = "sqlite")]
pub(crate) mod listed;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{
    Change, CoreRanges, Cumulative, FaultDetail, Moment, OpKind, ProgramBufferKind, RankEvent, RankId,
    Result, Segment, Session, SessionId, Step, StepMarks, StepNumber, StepRow, StrId, Totals,
};

use super::evidence::Evidence;
use super::lives::{Allocator, Buffer, Lives, Place, Share, TensorNode};
use super::node::{Node, Params, element, is_tiled, shape, shard_cores, spread};
use super::notes::{Context, Notes};
use super::program::{Program, ProgramBuffer, ProgramKey, Programs};
use super::report::{Device, Lowest, Report};
use super::sidecar::Sidecar;
use super::usage::TtnnUsage;
use crate::json::{Corruption, Number};
use crate::tt_log::tables::Tables;
use crate::tt_metal::Failure;
use crate::ttnn_arch::Arch;

/// The only phase of a capture.
const PHASE: &[u8] = b"CAPTURE";

/// The name of a buffer that existed before the capture.
const FROM_BEFORE: &[u8] = b"allocated before the capture";

/// The maximum number of enclosing calls searched for the function that ends. The calls inside it have ended or failed.
const MAX_END_DISTANCE: usize = 64;

/// A capture that is being read.
pub(crate) struct Capture<'s> {
    tables: Tables<'s>,
    rank: Option<RankId>,
    /// The operation of a database that the nodes belong to, and the index of its first node.
    operation: Option<(i64, u64)>,
    /// Whether the sizes of buffers are aligned. A database may lack the architecture, and with it the alignment.
    has_alignment: bool,
    /// The number of elements so far, which is also the index of the next one.
    pub nodes: u64,
    /// The number of elements that are graph nodes.
    pub known: u64,
    calls: Vec<Call>,
    /// The number of calls so far; also the next call's number.
    begun: u64,
    stretch: Option<Stretch>,
    steps: Step,
    segment: Segment,
    usage: TtnnUsage,
    /// The individual memory changes, if requested.
    changes: Option<Vec<Change>>,
    /// The architecture that the report names or the nodes imply.
    named: Option<Arch>,
    shown: Evidence,
    lowest: Lowest,
    lives: Lives,
    /// The buffer nodes by index, until they are freed.
    buffers: FxHashMap<u64, BufferNode>,
    /// The tensor nodes by index, until their buffers are freed.
    tensors: FxHashMap<u64, TensorNode>,
    /// The number of buffers of a tensor, if it has more than one (a tensor on several devices).
    shared: FxHashMap<u64, u32>,
    /// The tensors that are in an allocated buffer.
    placed: FxHashSet<u64>,
    programs: Programs,
    sidecar: Sidecar,
    /// The calls from Python that failed.
    failures: Vec<FailedCall>,
    /// Whether there were buffers in L1 before the capture.
    has_earlier_l1: bool,
    /// The device that is counted; a capture of several counts the first.
    device: Option<u64>,
    /// For each outermost call, the node that begins it and the number of steps at its end.
    ends: Vec<(u64, Step)>,
    notes: Notes,
}

/// A running function.
struct Call {
    name: String,
    number: u64,
    /// The number of steps when it began.
    steps: Step,
    /// The node that begins it.
    node: u64,
    /// The last step inside it that allocated memory or ran a program; only tracked for outermost calls.
    last_compute: Option<Step>,
    offset: u64,
    /// The line of the user's program, for an outermost call.
    line: Option<String>,
    /// The error that ended it, for an outermost call.
    error: Option<CallError>,
    /// Identifies the program that it runs.
    program: Option<ProgramKey>,
}

/// The error that ended a call.
enum CallError {
    /// The capture only shows that there was one.
    Unknown,
    Message {
        text: String,
        /// Whether no call came after it.
        is_last: bool,
    },
}

/// A call from Python that failed.
struct FailedCall {
    name: String,
    step: Option<Step>,
    line: Option<String>,
    message: String,
    is_last: bool,
}

/// A part of a call that first frees and then allocates memory, and may then run a program. It becomes a step.
#[derive(Default)]
struct Stretch {
    /// The call's number; `None` between calls.
    call: Option<u64>,
    offset: u64,
    took: bool,
    /// The freed buffers, with the tensors in them.
    gone: Vec<(Buffer, Vec<u64>)>,
    program: Option<Program>,
}

/// A buffer node, and the buffer while it is allocated.
struct BufferNode {
    size: Option<u64>,
    is_dram: bool,
    /// The tensors in it.
    tensors: Vec<u64>,
    life: Life,
}

enum Life {
    NotAllocated,
    Allocated(Buffer),
    Freed,
}

impl<'s> Capture<'s> {
    pub fn new(tables: Tables<'s>, sidecar: Sidecar) -> Self {
        Self {
            tables,
            rank: None,
            operation: None,
            has_alignment: true,
            nodes: 0,
            known: 0,
            calls: Vec::new(),
            begun: 0,
            stretch: None,
            steps: 0,
            segment: Segment::default(),
            usage: TtnnUsage::default(),
            changes: None,
            named: None,
            shown: Evidence::default(),
            lowest: Lowest::default(),
            lives: Lives::default(),
            buffers: FxHashMap::default(),
            tensors: FxHashMap::default(),
            shared: FxHashMap::default(),
            placed: FxHashSet::default(),
            programs: Programs::default(),
            sidecar,
            failures: Vec::new(),
            has_earlier_l1: false,
            device: None,
            ends: Vec::new(),
            notes: Notes::default(),
        }
    }

    /// A capture that collects individual memory changes.
    pub fn with_changes(tables: Tables<'s>) -> Self {
        Self { changes: Some(Vec::new()), ..Self::new(tables, Sidecar::default()) }
    }

    /// The memory changes of a complete capture, or the reason why they are unknown.
    pub fn into_changes(self) -> Result<Vec<Change>, String> {
        let notes = self.notes;
        if let Some(node) = notes.out_of_order {
            return Err(format!("the counter of node {node} does not match its position in the list"));
        }
        let wrong = [
            (notes.no_nodes.first, "is not a node"),
            (notes.no_sizes.first, "has no size"),
            (notes.unknown_kinds.first, "has an unknown kind"),
            (notes.no_share.first, "is an L1 buffer without a size per bank"),
        ];
        match wrong.into_iter().find_map(|(first, what)| first.map(|first| format!("{first} {what}"))) {
            Some(wrong) => Err(wrong),
            None => Ok(self.changes.unwrap_or_default()),
        }
    }

    fn apply(&mut self, change: Change) {
        self.segment.apply(change);
        if let Some(changes) = &mut self.changes {
            changes.push(change);
        }
    }

    /// Processes the next element of the list.
    pub fn take(&mut self, bytes: &[u8], offset: u64, device: Option<&Device>) -> Result<()> {
        let index = self.nodes;
        self.nodes += 1;
        let Ok(node) = serde_json::from_slice::<Node<'_>>(bytes) else {
            self.notes.no_nodes.add(|| format!("element {index}"));
            return Ok(());
        };
        if node.counter.get() != Some(index) {
            self.notes.out_of_order.get_or_insert(index);
        }
        let freed = connected(&node).and_then(|key| self.buffers.get(&key));
        self.usage.count(&node, freed.and_then(|buffer| Some((!buffer.is_dram, buffer.size?))));
        self.node(index, &node, offset, device)
    }

    /// Processes a node.
    fn node(&mut self, index: u64, node: &Node<'_>, offset: u64, device: Option<&Device>) -> Result<()> {
        self.known += 1;
        match &*node.kind.0 {
            "function_start" => self.call(index, node, offset),
            "function_end" => self.leave(node),
            "tensor" => self.tensor(index, &node.params),
            "buffer" => {
                self.buffer(index, node);
                Ok(())
            }
            "buffer_allocate" => self.allocate(index, node, offset, device),
            "buffer_deallocate" => self.deallocate(index, node, offset, device),
            "circular_buffer_allocate" => {
                let is_borrowed = node.params.globally_allocated == Number::Is(1);
                self.on_cores(index, &node.params, offset, ProgramBufferKind::Circular, is_borrowed)
            }
            "dataflow_buffer_allocate" => {
                let is_borrowed = node.params.borrows_memory == Number::Is(1);
                self.on_cores(index, &node.params, offset, ProgramBufferKind::Dataflow, is_borrowed)
            }
            "scratchpad_allocate" => {
                self.on_cores(index, &node.params, offset, ProgramBufferKind::Scratchpad, false)
            }
            "circular_buffer_deallocate_all" => self.program_begins(offset),
            "sub_device_manager" => {
                self.shown.sub_devices(&node.params);
                Ok(())
            }
            "capture_end" => {
                // A function that failed last has no end node.
                if let Some(outermost) = self.calls.first_mut() {
                    outermost.error.get_or_insert(CallError::Unknown);
                }
                Ok(())
            }
            // These nodes do not use memory.
            "capture_start" | "program_execution" => Ok(()),
            other => {
                self.known -= 1;
                let position = position(self.operation, index);
                self.notes.unknown_kinds.add(|| format!("{position} ({other:?})"));
                Ok(())
            }
        }
    }

    fn arch(&self) -> Option<Arch> {
        self.named.or(self.shown.arch())
    }

    /// Looks for evidence of the architecture in a buffer's location and layout.
    fn look_at(&mut self, params: &Params<'_>, place: Place, device: Option<&Device>) {
        if self.named.is_none() {
            self.named = device.and_then(Device::arch);
        }
        self.shown.buffer(params, place);
        let lowest = match place {
            Place::Dram => &mut self.lowest.dram,
            Place::Trace => &mut self.lowest.trace,
            Place::L1 | Place::L1Small => return,
        };
        if let Some(address) = params.address.get().filter(|address| *address > 0) {
            *lowest = Some(lowest.map_or(address, |lowest| lowest.min(address)));
        }
    }

    fn rank(&mut self) -> Result<RankId> {
        match self.rank {
            Some(rank) => Ok(rank),
            None => {
                let rank = self.tables.rank(None)?;
                self.lives.ensure_dram(rank, &mut self.tables)?;
                self.rank = Some(rank);
                Ok(rank)
            }
        }
    }

    /// Begins a function. Its level is the number of enclosing functions: a function that failed has no end node.
    fn call(&mut self, index: u64, node: &Node<'_>, offset: u64) -> Result<()> {
        self.close()?;
        let around = node.stacking_level.get().and_then(|level| usize::try_from(level.checked_sub(1)?).ok());
        while around.is_some_and(|around| around < self.calls.len()) {
            self.pop()?;
        }
        self.begun += 1;
        let name = node.params.name.0.clone().into_owned();
        // Only outermost calls come from Python.
        let python = self.calls.is_empty().then(|| self.sidecar.call_of(&name)).flatten();
        let error = python.and_then(|call| {
            let text = call.error.clone()?;
            Some(CallError::Message { text, is_last: call.is_last })
        });
        let line = python.and_then(|call| call.line.clone());
        let program = ProgramKey::of(node);
        let (number, steps) = (self.begun, self.steps);
        self.calls.push(Call {
            name,
            number,
            steps,
            node: index,
            last_compute: None,
            offset,
            line,
            error,
            program,
        });
        Ok(())
    }

    /// Ends a function, and the functions inside it that have no end node.
    fn leave(&mut self, node: &Node<'_>) -> Result<()> {
        if let Some(outermost) = self.calls.first_mut().filter(|_| node.params.aborted == Number::Is(1)) {
            outermost.error.get_or_insert(CallError::Unknown);
        }
        let is_it = |call: &Call| call.name == node.params.name.0;
        let near = self.calls.len().saturating_sub(MAX_END_DISTANCE);
        let found = self.calls[near..].iter().rposition(is_it).map(|found| near + found);
        let found = found.or(self.calls.len().checked_sub(1));
        while found.is_some_and(|found| found < self.calls.len()) {
            self.pop()?;
        }
        Ok(())
    }

    /// Ends the innermost function.
    fn pop(&mut self) -> Result<()> {
        match self.calls.as_slice() {
            [] => return Ok(()),
            [_] => return self.pop_outermost(),
            [.., outer, inner] => {
                // A function that allocates the result of the enclosing function is part of the same step.
                let (is_part, outer) = (inner.name.ends_with("create_device_tensor"), outer.number);
                match &mut self.stretch {
                    Some(stretch) if is_part && stretch.took && stretch.call == Some(inner.number) => {
                        stretch.call = Some(outer);
                    }
                    _ => self.close()?,
                }
            }
        }
        self.calls.pop();
        Ok(())
    }

    /// An outermost function that did not allocate memory also becomes a step. One that only frees memory already is
    /// one.
    fn pop_outermost(&mut self) -> Result<()> {
        self.close()?;
        let Some(only) = self.calls.first() else { return Ok(()) };
        let gives_back = only.name.ends_with("deallocate");
        if only.last_compute.is_none() && (!gives_back || only.steps == self.steps) {
            let (took, offset) = (!gives_back, only.offset);
            self.stretch = Some(Stretch { offset, took, ..Stretch::default() });
            self.close()?;
        }
        let Some(only) = self.calls.pop() else { return Ok(()) };
        self.ends.push((only.node, self.steps));
        let step = only.last_compute.unwrap_or(self.steps.saturating_sub(1));
        match only.error {
            Some(CallError::Message { text, is_last }) => {
                let (name, line) = (only.name, only.line);
                self.failures.push(FailedCall { name, step: Some(step), line, message: text, is_last });
            }
            Some(CallError::Unknown) => self.notes.failed.add(|| format!("{} (step {step})", only.name)),
            None => return Ok(()),
        }
        let rank = self.rank()?;
        self.tables.say(rank, RankEvent::Marks(step, StepMarks::FAILED))
    }

    /// Records a memory change. A new step begins with another call, and when memory is freed after an allocation.
    fn touch(&mut self, takes: bool, offset: u64) -> Result<&mut Stretch> {
        let call = self.calls.last().map(|call| call.number);
        let goes_on = |stretch: &Stretch| stretch.call == call && (takes || !stretch.took);
        if !self.stretch.as_ref().is_some_and(goes_on) {
            self.close()?;
        }
        let stretch = self.stretch.get_or_insert_with(|| Stretch { call, offset, ..Stretch::default() });
        stretch.took |= takes;
        Ok(stretch)
    }

    /// Ends the current step, if there is one.
    fn close(&mut self) -> Result<()> {
        let Some(stretch) = self.stretch.take() else { return Ok(()) };
        let rank = self.rank()?;
        // A program without buffers has unknown buffers, unless nothing ran: then all of them are listed.
        let mut marks = StepMarks::default();
        let has_program = stretch.program.is_some();
        let program = stretch.program.and_then(|program| self.programs.buffers(program));
        if has_program && program.is_none() && !self.notes.is_estimate() {
            marks.add(StepMarks::UNKNOWN_PROGRAM);
        }
        let row = StepRow { op: self.step_op(stretch.took)?, run: None, offset: stretch.offset, marks };
        self.tables.say(rank, RankEvent::Step(row))?;
        for ProgramBuffer { kind, bytes, address, cores, borrowed } in program.into_iter().flatten() {
            let step = self.steps;
            let buffer = ttmem_model::ProgramBuffer { step, kind, bytes, address, cores, borrowed };
            self.tables.say(rank, RankEvent::ProgramBuffer(buffer))?;
        }
        self.lives.step_done(self.steps);
        let dies = Moment::after(self.steps);
        if let Some(outermost) = self.calls.first_mut().filter(|_| stretch.took) {
            outermost.last_compute = Some(self.steps);
        }
        self.steps += 1;
        for (buffer, tensors) in stretch.gone {
            self.say_life(&buffer, &tensors, dies)?;
            for tensor in tensors {
                self.forget_tensor(tensor);
            }
        }
        Ok(())
    }

    /// The operation of a step. Its location is the line of the user's program, or else the chain of functions. The
    /// chain is recorded for steps that free memory, even in an outermost call.
    fn step_op(&mut self, took: bool) -> Result<ttmem_model::OpId> {
        let outermost = self.calls.first();
        let name = match outermost {
            Some(call) if took => call.name.as_str(),
            None if took => "buffer_allocate",
            _ => "deallocate",
        };
        // A step that only frees memory computes nothing.
        let kind = if took { OpKind::Compute } else { OpKind::Deallocate };
        let has_chain = self.calls.len() > usize::from(took);
        let line = outermost.and_then(|call| call.line.clone());
        let loc = line.or_else(|| has_chain.then(|| chain(&self.calls)));
        self.tables.plain_op(name.as_bytes(), loc.as_deref().map(str::as_bytes), kind)
    }

    fn say_life(&mut self, buffer: &Buffer, tensors: &[u64], dies: Moment) -> Result<()> {
        let rank = self.rank()?;
        let arch = self.arch();
        let known: Vec<&TensorNode> = tensors.iter().filter_map(|index| self.tensors.get(index)).collect();
        self.lives.say(buffer, &known, dies, arch, rank, &mut self.tables)
    }

    fn tensor(&mut self, index: u64, params: &Params<'_>) -> Result<()> {
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

    fn buffer(&mut self, index: u64, node: &Node<'_>) {
        let buffer = BufferNode {
            size: node.params.size.get(),
            is_dram: node.params.kind.0 == "DRAM",
            tensors: node.connections.iter().filter_map(|connection| connection.get()).collect(),
            life: Life::NotAllocated,
        };
        for &tensor in &buffer.tensors {
            if !self.placed.insert(tensor) {
                *self.shared.entry(tensor).or_insert(0) += 1;
            }
        }
        self.buffers.insert(index, buffer);
    }

    /// Removes a tensor when its last buffer is freed.
    fn forget_tensor(&mut self, tensor: u64) {
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

    fn allocate(&mut self, index: u64, node: &Node<'_>, offset: u64, device: Option<&Device>) -> Result<()> {
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
            life: Life::NotAllocated,
        });
        if let Life::Allocated(earlier) = std::mem::replace(&mut node.life, Life::Allocated(buffer)) {
            // Allocated again without being freed: the first buffer is kept, under a separate number.
            let tensors = Vec::new();
            let earlier = BufferNode { size: earlier.size, is_dram, tensors, life: Life::Allocated(earlier) };
            self.buffers.insert(u64::MAX - index, earlier);
            self.notes.allocated_twice.add(|| position(self.operation, index));
        }
        Ok(())
    }

    /// The size that the allocator uses for a buffer.
    fn share(&self, per_bank: u64) -> Share {
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
        Buffer { place, size, share, address, spread: spread(&params.layout.0), born, step, name: None }
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

    fn deallocate(
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
            // The buffer's node was removed already, or the node does not identify its buffer.
            life: if connected(node).is_some_and(|key| key < index) {
                Life::Freed
            } else {
                Life::NotAllocated
            },
        };
        let buffer = connected(node).and_then(|key| self.buffers.remove(&key));
        let BufferNode { size, is_dram, tensors, life } = buffer.unwrap_or_else(own);
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

    /// A program begins, which frees the buffers of the previous one.
    fn program_begins(&mut self, offset: u64) -> Result<()> {
        self.apply(Change::ProgramBuffersGone);
        if self.stretch.as_ref().is_some_and(|stretch| stretch.program.is_some()) {
            self.close()?;
        }
        let key = self.calls.last().and_then(|call| call.program);
        self.touch(true, offset)?.program = Some(Program::new(key));
        Ok(())
    }

    /// A program has a buffer on its cores. A buffer in the memory of a tensor adds nothing.
    fn on_cores(
        &mut self,
        index: u64,
        params: &Params<'_>,
        offset: u64,
        kind: ProgramBufferKind,
        borrowed: bool,
    ) -> Result<()> {
        let Some(bytes) = params.size.get() else {
            self.notes.no_sizes.add(|| position(self.operation, index));
            return Ok(());
        };
        let own = if borrowed { 0 } else { bytes };
        self.apply(match kind {
            ProgramBufferKind::Circular => Change::CircularBuffer(own),
            ProgramBufferKind::Dataflow | ProgramBufferKind::Scratchpad => Change::ProgramBuffer(own),
        });
        let text = &*params.core_range_set.0;
        let cores = CoreRanges::parse(text).map_or_else(|| text.to_owned(), |cores| cores.to_string());
        let cores = self.tables.text(cores.as_bytes())?;
        let address = params.address.get().filter(|address| *address > 0);
        let buffer = ProgramBuffer { kind, bytes, address, cores, borrowed };
        let key = self.calls.last().and_then(|call| call.program);
        let program = &mut self.touch(true, offset)?.program;
        program.get_or_insert_with(|| Program::new(key)).add(buffer, params.device_id);
        Ok(())
    }

    /// Emits what is known at the end. `corruption` is where and why the file could not be read any further.
    pub fn finish(mut self, report: &Report, corruption: Option<&Corruption>) -> Result<()> {
        let rank = self.end_steps(report)?;
        self.say_earlier_buffers(report, rank)?;
        let totals = self.say_phase(report, rank, corruption.is_none())?;
        self.say_pools(report, Some(totals), rank, corruption)?;
        if corruption.is_none() { self.tables.end() } else { Ok(()) }
    }

    /// Ends the running calls, and emits the buffers that are left.
    fn end_steps(&mut self, report: &Report) -> Result<RankId> {
        self.end_calls()?;
        let rank = self.rank()?;
        self.say_what_is_left()?;
        // The devices may follow the nodes in the file.
        self.named = self.named.or_else(|| report.device.as_ref()?.arch());
        self.notes.undecided = self.lives.say_undecided(self.arch(), rank, &mut self.tables)?;
        Ok(rank)
    }

    fn end_calls(&mut self) -> Result<()> {
        self.close()?;
        while !self.calls.is_empty() {
            self.pop()?;
        }
        Ok(())
    }

    /// Emits the pools, the errors, and the warnings. `totals` are those of a capture's phase.
    fn say_pools(
        &mut self,
        report: &Report,
        totals: Option<Totals>,
        rank: RankId,
        corruption: Option<&Corruption>,
    ) -> Result<()> {
        let allocator = Allocator { arch: self.arch(), lowest: self.lowest };
        self.lives.finish(report, allocator, totals, self.steps, rank, &mut self.tables)?;
        if self.has_earlier_l1 && report.first_buffers.is_none() && !report.lists_earlier_buffers {
            self.lives.lacks_earlier_l1(rank, &mut self.tables)?;
        }
        if let Some(memory) = report.device.as_ref().and_then(Device::core_memory) {
            self.tables.say(rank, RankEvent::CoreMemory(memory))?;
        }
        if self.notes.out_of_order.is_none() && self.notes.no_share.count == 0 {
            self.tables.say(rank, RankEvent::TtnnPeaks(self.usage.peaks()))?;
        }
        self.say_failures(rank)?;
        let context = Context {
            nodes: self.nodes,
            without_banks: self.lives.unknown(),
            lists_earlier_buffers: report.lists_earlier_buffers,
            rank: report.rank,
            corruption,
        };
        std::mem::take(&mut self.notes).warn(&context, &mut self.tables)
    }

    /// Emits the buffers that existed before the capture and were not freed: the report lists them after its first
    /// operation, and the capture did not allocate them.
    fn say_earlier_buffers(&mut self, report: &Report, rank: RankId) -> Result<()> {
        let Some(snapshot) = &report.first_buffers else { return Ok(()) };
        let Ok(first) = self.ends.binary_search_by_key(&snapshot.node, |(node, _)| *node) else {
            return Ok(());
        };
        let live = self.lives.addresses_at(Moment::early(self.ends[first].1));
        let arch = self.arch();
        let name = self.tables.text(FROM_BEFORE)?;
        let device = snapshot.buffers.first().map(|buffer| buffer.device_id);
        for listed in snapshot.buffers.iter().filter(|buffer| Some(buffer.device_id) == device) {
            let place = listed.buffer_type.get().and_then(Place::numbered);
            let (Some(place), Some(address), Some(per_bank)) =
                (place, listed.address.get(), listed.max_size_per_bank.get())
            else {
                continue;
            };
            if live.contains(&(place, address)) {
                continue;
            }
            self.notes.unpadded += 1;
            let mut buffer = Buffer {
                place,
                size: None,
                share: Some(Share::allocated(per_bank)),
                address: Some(address),
                spread: None,
                born: Moment::START,
                step: None,
                name: Some(name),
            };
            self.lives.stays_from_before(&mut buffer, arch, rank, &mut self.tables)?;
        }
        Ok(())
    }

    /// Emits the errors that ended calls from Python.
    fn say_failures(&mut self, rank: RankId) -> Result<()> {
        let mut failures = std::mem::take(&mut self.failures);
        // A call that failed before its function began is only in the list of calls.
        failures.extend(self.sidecar.rest().filter_map(|call| {
            let message = call.error.clone()?;
            let (name, line) = (call.name.clone(), call.line.clone());
            Some(FailedCall { name, step: None, line, message, is_last: call.is_last })
        }));
        let mut count = 0;
        for FailedCall { name, step, line, message, is_last } in failures {
            let Some(failure) = Failure::of_exception(&message) else {
                let first = message.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
                let step = step.map_or_else(String::new, |step| format!("step {step}, "));
                self.tables.warn(None, format!("{step}{name}, failed ({first})"))?;
                continue;
            };
            let mut fault = failure.fault(step, 0, &mut self.tables)?;
            fault.ended_program = is_last;
            self.tables.say(rank, RankEvent::Fault(fault))?;
            let op = Some(self.tables.text(name.as_bytes())?);
            let loc = line.map(|line| self.tables.text(line.as_bytes())).transpose()?;
            let detail = FaultDetail { op, loc, ..failure.detail(&mut self.tables)? };
            self.tables.say(rank, RankEvent::FaultDetail(count, detail))?;
            count += 1;
        }
        Ok(())
    }

    fn say_what_is_left(&mut self) -> Result<()> {
        let buffers = std::mem::take(&mut self.buffers).into_iter();
        let mut left: Vec<(u64, Buffer, Vec<u64>)> = Vec::new();
        for (index, node) in buffers {
            match node.life {
                Life::Allocated(buffer) => left.push((index, buffer, node.tensors)),
                // An operation used it, but it was neither allocated nor freed here.
                Life::NotAllocated => self.has_earlier_l1 |= !node.is_dram,
                Life::Freed => {}
            }
        }
        left.sort_unstable_by_key(|(index, ..)| *index);
        for (_, buffer, tensors) in left {
            self.say_life(&buffer, &tensors, Moment::NEVER)?;
        }
        Ok(())
    }

    /// Emits the capture as a session with one phase.
    fn say_phase(&mut self, report: &Report, rank: RankId, is_whole: bool) -> Result<Totals> {
        let device_memory = report.device.as_ref().and_then(|device| {
            let bank = device.bank(Place::Dram, self.lowest)?;
            device.num_dram_channels.get()?.checked_mul(bank.size)
        });
        let session = Session {
            name: Some(self.tables.text(b"Capture")?),
            device_memory,
            estimated: self.notes.is_estimate(),
            ..Session::default()
        };
        self.tables.say(rank, RankEvent::Session(session))?;
        let mut all = Cumulative::default();
        let name: StrId = self.tables.text(PHASE)?;
        let Some(id) = SessionId::new(0) else { return Ok(all.into()) };
        let mut phase = self.segment.phase(id, name, Some((0, self.steps)), &mut all);
        if self.notes.out_of_order.is_some() || self.notes.no_share.count > 0 {
            (phase.l1_peak_buffer, phase.l1_peak_total) = (None, None);
        }
        if self.notes.out_of_order.is_some() {
            phase.l1_peak_cb = None;
        }
        self.tables.say(rank, RankEvent::Phase(phase))?;
        if is_whole {
            self.tables.say(rank, RankEvent::SessionEnded(id, all.into()))?;
        }
        Ok(all.into())
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

/// The running functions, outermost first. The middle of a deep stack is omitted to limit the length.
fn chain(calls: &[Call]) -> String {
    /// The number of functions shown at each end.
    const ENDS: usize = 8;
    let names = |calls: &[Call]| calls.iter().map(|call| call.name.as_str()).collect::<Vec<_>>().join(" > ");
    if calls.len() <= 2 * ENDS {
        return names(calls);
    }
    format!("{} > … > {}", names(&calls[..ENDS]), names(&calls[calls.len() - ENDS..]))
}

/// A node, for a message.
fn position(operation: Option<(i64, u64)>, index: u64) -> String {
    match operation {
        Some((operation, first)) => {
            format!("node {} of operation {operation}", index.saturating_sub(first))
        }
        None => format!("node {index}"),
    }
}

/// The buffer node that a node refers to.
fn connected(node: &Node<'_>) -> Option<u64> {
    node.connections.first().and_then(|connection| connection.get())
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
