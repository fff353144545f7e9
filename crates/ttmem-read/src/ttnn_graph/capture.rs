//! Walks the nodes of a capture: calls, and the memory that they allocate and free.

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::words::{by_count, counted, counted_as};
use ttmem_model::{
    Change, Cumulative, Moment, OpKind, RankEvent, RankId, Result, Segment, Session, SessionId, Step,
    StepMarks, StepNumber, StepRow, StrId, Totals,
};

use super::evidence::Evidence;
use super::lives::{Buffer, Lives, Place, Share, TensorNode};
use super::node::{Node, Params, Text, element, is_tiled, shape, spread};
use super::{Allocator, Device, Lowest, Report};
use crate::json::{Corruption, Number};
use crate::tt_log::tables::Tables;
use crate::ttnn_arch::Arch;

/// The only phase of a capture.
const PHASE: &[u8] = b"CAPTURE";

/// The maximum number of enclosing calls searched for the function that ends. The calls inside it have ended or failed.
const MAX_END_DISTANCE: usize = 64;

/// A capture that is being read.
pub(super) struct Capture<'s> {
    tables: Tables<'s>,
    rank: Option<RankId>,
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
    /// The memory that programs currently use on their cores.
    program: Vec<Buffer>,
    notes: Notes,
}

/// A running function.
struct Call {
    name: String,
    number: u64,
    /// The number of steps when it began.
    steps: Step,
    /// Whether it, or a call inside it, allocated memory; only tracked for outermost calls.
    took: bool,
    offset: u64,
}

/// A part of a call that first frees and then allocates memory. It becomes a step.
#[derive(Default)]
struct Stretch {
    /// The call's number; `None` between calls.
    call: Option<u64>,
    offset: u64,
    took: bool,
    /// The freed buffers, with the tensors in them.
    gone: Vec<(Buffer, Vec<u64>)>,
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

/// Problems found during the walk.
#[derive(Default)]
struct Notes {
    no_nodes: Count,
    no_sizes: Count,
    unknown_kinds: Count,
    freed_twice: Count,
    allocated_twice: Count,
    from_before: u64,
    from_before_bytes: u64,
    /// The first node whose counter does not match its position.
    out_of_order: Option<u64>,
    /// L1 buffers without a size per core.
    no_share: Count,
    /// Buffers whose size depends on an architecture that the capture does not identify.
    undecided: usize,
    buffers: u64,
    with_address: u64,
}

/// The number of occurrences of a problem, and the first one.
#[derive(Default)]
struct Count {
    count: u64,
    first: Option<String>,
}

impl Count {
    fn add(&mut self, first: impl FnOnce() -> String) {
        self.count += 1;
        self.first.get_or_insert_with(first);
    }
}

impl<'s> Capture<'s> {
    pub fn new(tables: Tables<'s>) -> Self {
        Self {
            tables,
            rank: None,
            nodes: 0,
            known: 0,
            calls: Vec::new(),
            begun: 0,
            stretch: None,
            steps: 0,
            segment: Segment::default(),
            changes: None,
            named: None,
            shown: Evidence::default(),
            lowest: Lowest::default(),
            lives: Lives::default(),
            buffers: FxHashMap::default(),
            tensors: FxHashMap::default(),
            shared: FxHashMap::default(),
            placed: FxHashSet::default(),
            program: Vec::new(),
            notes: Notes::default(),
        }
    }

    /// A capture that collects individual memory changes.
    pub fn with_changes(tables: Tables<'s>) -> Self {
        Self { changes: Some(Vec::new()), ..Self::new(tables) }
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
        self.known += 1;
        if node.counter.get() != Some(index) {
            self.notes.out_of_order.get_or_insert(index);
        }
        match &*node.kind.0 {
            "function_start" => self.call(&node, offset),
            "function_end" => self.leave(&node),
            "tensor" => self.tensor(index, &node.params),
            "buffer" => {
                self.buffer(index, &node);
                Ok(())
            }
            "buffer_allocate" => self.allocate(index, &node, offset, device),
            "buffer_deallocate" => self.deallocate(index, &node, offset, device),
            "circular_buffer_allocate" => {
                let is_borrowed = node.params.globally_allocated == Number::Is(1);
                self.on_cores(index, &node.params, offset, "circular buffer", is_borrowed)
            }
            "dataflow_buffer_allocate" => {
                let is_borrowed = node.params.borrows_memory == Number::Is(1);
                self.on_cores(index, &node.params, offset, "dataflow buffer", is_borrowed)
            }
            "scratchpad_allocate" => self.on_cores(index, &node.params, offset, "scratchpad", false),
            "circular_buffer_deallocate_all" => self.program_gone(offset),
            "sub_device_manager" => {
                self.shown.sub_devices(&node.params);
                Ok(())
            }
            // These nodes do not use memory.
            "capture_start" | "capture_end" | "program_execution" => Ok(()),
            other => {
                self.known -= 1;
                self.notes.unknown_kinds.add(|| format!("node {index} ({other:?})"));
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
            Place::L1 | Place::L1Small | Place::Program => return,
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
    fn call(&mut self, node: &Node<'_>, offset: u64) -> Result<()> {
        self.close()?;
        let around = node.stacking_level.get().and_then(|level| usize::try_from(level.checked_sub(1)?).ok());
        while around.is_some_and(|around| around < self.calls.len()) {
            self.pop()?;
        }
        self.begun += 1;
        let name = node.params.name.0.clone().into_owned();
        self.calls.push(Call { name, number: self.begun, steps: self.steps, took: false, offset });
        Ok(())
    }

    /// Ends a function, and the functions inside it that have no end node.
    fn leave(&mut self, node: &Node<'_>) -> Result<()> {
        self.close()?;
        let is_it = |call: &Call| call.name == node.params.name.0;
        let near = self.calls.len().saturating_sub(MAX_END_DISTANCE);
        let found = self.calls[near..].iter().rposition(is_it).map(|found| near + found);
        let found = found.or(self.calls.len().checked_sub(1));
        while found.is_some_and(|found| found < self.calls.len()) {
            self.pop()?;
        }
        Ok(())
    }

    /// An outermost function that did not allocate memory also becomes a step. One that only frees memory already is
    /// one.
    fn pop(&mut self) -> Result<()> {
        if let [only] = self.calls.as_slice() {
            let gives_back = only.name.ends_with("deallocate");
            if !only.took && (!gives_back || only.steps == self.steps) {
                let (took, offset) = (!gives_back, only.offset);
                self.stretch = Some(Stretch { offset, took, ..Stretch::default() });
                self.close()?;
            }
        }
        self.calls.pop();
        Ok(())
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
        let outermost =
            self.calls.first().map_or(if stretch.took { "buffer_allocate" } else { "deallocate" }, |call| {
                if stretch.took { call.name.as_str() } else { "deallocate" }
            });
        // The chain is recorded for steps that free memory, even in an outermost call. A step that only frees memory
        // computes nothing.
        let kind = if stretch.took { OpKind::Compute } else { OpKind::Deallocate };
        let has_chain = self.calls.len() > usize::from(stretch.took);
        let chain = has_chain.then(|| chain(&self.calls));
        let op = self.tables.plain_op(outermost.as_bytes(), chain.as_deref().map(str::as_bytes), kind)?;
        if let Some(outermost) = self.calls.first_mut() {
            outermost.took |= stretch.took;
        }
        let row = StepRow { op, run: None, offset: stretch.offset, marks: StepMarks::default() };
        self.tables.say(rank, RankEvent::Step(row))?;
        self.lives.step_done(self.steps);
        let dies = Moment::after(self.steps);
        self.steps += 1;
        for (buffer, tensors) in stretch.gone {
            self.say_life(&buffer, &tensors, dies)?;
            for tensor in tensors {
                self.forget_tensor(tensor);
            }
        }
        Ok(())
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

    fn allocate(&mut self, index: u64, node: &Node<'_>, offset: u64, device: Option<&Device>) -> Result<()> {
        let params = &node.params;
        let Some(size) = params.size.get() else {
            self.notes.no_sizes.add(|| format!("node {index}"));
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
        let Some(place) = place(params) else { return Ok(()) };
        self.look_at(params, place, device);
        self.touch(true, offset)?;
        let mut buffer = self.new_buffer(place, size, per_bank.map(Share::allocated), &params.layout);
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
            let earlier =
                BufferNode { size: Some(earlier.size), is_dram, tensors, life: Life::Allocated(earlier) };
            self.buffers.insert(u64::MAX - index, earlier);
            self.notes.allocated_twice.add(|| format!("node {index}"));
        }
        Ok(())
    }

    fn new_buffer(&self, place: Place, size: u64, share: Option<Share>, layout: &Text<'_>) -> Buffer {
        let born = Moment::after(self.steps);
        let step = StepNumber::new(self.steps);
        Buffer { place, size, share, spread: spread(&layout.0), born, step, name: None }
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
            return Some(per_bank);
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
            self.notes.no_share.add(|| format!("node {index}"));
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
            self.notes.no_sizes.add(|| format!("node {index}"));
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
                self.notes.freed_twice.add(|| format!("node {index}"));
                return Ok(());
            }
            Life::NotAllocated => {
                let Some(place) = place(params) else { return Ok(()) };
                self.look_at(params, place, device);
                self.touch(false, offset)?;
                self.was_there(place, size, per_bank.map(Share::allocated), &params.layout)?
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
        layout: &Text<'_>,
    ) -> Result<Buffer> {
        self.notes.from_before += 1;
        self.notes.from_before_bytes = self.notes.from_before_bytes.saturating_add(size);
        let mut buffer = self.new_buffer(place, size, share, layout);
        (buffer.born, buffer.step) = (Moment::START, None);
        buffer.name = Some(self.tables.text(b"allocated before the capture")?);
        let rank = self.rank()?;
        self.lives.freed_from_before(&mut buffer, rank, &mut self.tables)?;
        Ok(buffer)
    }

    /// A program allocates memory on its cores. Memory borrowed from a buffer adds nothing.
    fn on_cores(
        &mut self,
        index: u64,
        params: &Params<'_>,
        offset: u64,
        what: &str,
        is_borrowed: bool,
    ) -> Result<()> {
        let Some(size) = params.size.get() else {
            self.notes.no_sizes.add(|| format!("node {index}"));
            return Ok(());
        };
        let own = if is_borrowed { 0 } else { size };
        self.apply(if what == "circular buffer" {
            Change::CircularBuffer(own)
        } else {
            Change::ProgramBuffer(own)
        });
        self.touch(true, offset)?;
        let borrowed = if is_borrowed { ", in a buffer" } else { "" };
        let name = format!("{what} on {}{borrowed}", params.core_range_set.0);
        let share = Share::exact(own);
        let mut buffer = self.new_buffer(Place::Program, own, Some(share), &Text::default());
        buffer.name = Some(self.tables.text(name.as_bytes())?);
        let rank = self.rank()?;
        self.lives.taken(&mut buffer, rank, &mut self.tables)?;
        self.program.push(buffer);
        Ok(())
    }

    /// Frees everything that programs use on their cores.
    fn program_gone(&mut self, offset: u64) -> Result<()> {
        self.apply(Change::ProgramBuffersGone);
        if self.program.is_empty() {
            return Ok(());
        }
        self.touch(false, offset)?;
        let gone = std::mem::take(&mut self.program);
        for buffer in &gone {
            self.lives.freed(buffer);
        }
        let gone = gone.into_iter().map(|buffer| (buffer, Vec::new()));
        self.touch(false, offset)?.gone.extend(gone);
        Ok(())
    }

    /// Emits what is known at the end. `corruption` is where and why the file could not be read any further.
    pub fn finish(mut self, report: &Report, corruption: Option<&Corruption>) -> Result<()> {
        self.close()?;
        while !self.calls.is_empty() {
            self.pop()?;
        }
        let rank = self.rank()?;
        self.say_what_is_left()?;
        // The devices may follow the nodes in the file.
        self.named = self.named.or_else(|| report.device.as_ref()?.arch());
        let arch = self.arch();
        self.notes.undecided = self.lives.say_undecided(arch, rank, &mut self.tables)?;
        let totals = self.say_phase(report, rank, corruption.is_none())?;
        let allocator = Allocator { arch, lowest: self.lowest };
        self.lives.finish(report, allocator, totals, self.steps, rank, &mut self.tables)?;
        self.warn(report, corruption)?;
        if corruption.is_none() { self.tables.end() } else { Ok(()) }
    }

    fn say_what_is_left(&mut self) -> Result<()> {
        let buffers = std::mem::take(&mut self.buffers).into_iter();
        let taken = |(index, node): (u64, BufferNode)| match node.life {
            Life::Allocated(buffer) => Some((index, buffer, node.tensors)),
            Life::NotAllocated | Life::Freed => None,
        };
        let mut left: Vec<(u64, Buffer, Vec<u64>)> = buffers.filter_map(taken).collect();
        left.sort_unstable_by_key(|(index, ..)| *index);
        for (_, buffer, tensors) in left {
            self.say_life(&buffer, &tensors, Moment::NEVER)?;
        }
        for buffer in std::mem::take(&mut self.program) {
            self.say_life(&buffer, &[], Moment::NEVER)?;
        }
        Ok(())
    }

    /// Emits the capture as a session with one phase.
    fn say_phase(&mut self, report: &Report, rank: RankId, is_whole: bool) -> Result<Totals> {
        let device_memory = report.device.as_ref().and_then(|device| {
            device.num_dram_channels.get()?.checked_mul(device.dram_bank_size(self.lowest)?)
        });
        let session = Session {
            name: Some(self.tables.text(b"Capture")?),
            device_memory,
            // Without a real device, every address is 0.
            estimated: self.notes.buffers > 0 && self.notes.with_address == 0,
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

    fn warn(&mut self, report: &Report, corruption: Option<&Corruption>) -> Result<()> {
        let notes = std::mem::take(&mut self.notes);
        let mut warn = |line, message: String| self.tables.warn(line, message);
        if let Some(Corruption { line, why }) = corruption {
            warn(
                Some(*line),
                format!(
                    "the capture is corrupt ({why}); the report covers {} before this line",
                    counted(self.nodes, "node")
                ),
            )?;
        }
        if let Some(first) = notes.out_of_order {
            let message = format!(
                "the counter of node {first} does not match its position in the list; the capture is not in execution \
                 order, so L1 usage is unknown; everything else follows the order of the list"
            );
            warn(None, message)?;
        }
        let counts = [
            (notes.no_nodes, "element is not a node and was", "elements are not nodes and were", "skipped"),
            (
                notes.no_sizes,
                "node has no size and was",
                "nodes have no size and were",
                "skipped, so usage may be wrong",
            ),
            (
                notes.unknown_kinds,
                "node has an unknown kind and was",
                "nodes have an unknown kind and were",
                "skipped, so usage may be wrong",
            ),
            (
                notes.freed_twice,
                "buffer is",
                "buffers are",
                "freed twice; the totals count both, as ttnn does, but the pools count one",
            ),
            (notes.no_share, "L1 buffer has", "L1 buffers have", "no size per bank, so L1 usage is unknown"),
            (
                notes.allocated_twice,
                "buffer is",
                "buffers are",
                "allocated again without being freed; both allocations are counted",
            ),
        ];
        for (found, one, several, what) in counts {
            if let Some(first) = found.first {
                let affected = counted_as(found.count, one, several);
                warn(None, format!("{affected} {what}; the first is {first}"))?;
            }
        }
        let without_banks = self.lives.unknown();
        if without_banks > 0 {
            let message = format!(
                "{} no size per bank, unlike other buffers of the same pool, so the pool's usage is unknown",
                counted_as(without_banks, "buffer has", "buffers have")
            );
            warn(None, message)?;
        }
        if notes.undecided > 0 {
            let message = format!(
                "the capture does not identify the architecture (Wormhole or Blackhole), which determines the \
                 alignment of buffers, so the size per bank of {} is unknown, and so is the usage of the pools; \
                 capture with end_graph_capture_to_file, which records the architecture",
                counted(notes.undecided, "buffer")
            );
            warn(None, message)?;
        }
        if notes.from_before > 0 {
            let message = format!(
                "{} ({} bytes) {} allocated before the capture began; totals start at zero, as in ttnn, and earlier \
                 buffers that were not freed are missing from the capture",
                counted(notes.from_before, "freed buffer"),
                notes.from_before_bytes,
                by_count(notes.from_before, "was", "were")
            );
            warn(None, message)?;
        }
        if let Some(rank) = report.rank {
            warn(None, format!("the capture covers rank {rank} only"))?;
        }
        Ok(())
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
