//! Walks the nodes of a capture: calls, the memory that they allocate and free, and the programs that they run.
//!
//! `calls` turns functions into steps, `buffers` follows tensors and buffers, `programs` the buffers of programs, and `end`
//! emits what is known at the end. `listed` adds what a database has instead of nodes.

mod buffers;
mod calls;
mod end;
#[cfg(feature = "sqlite")]
pub(crate) mod listed;
mod programs;

use rustc_hash::FxHashMap;
use ttmem_model::{Change, ProgramBufferKind, RankId, Result, Segment, Step};

use self::buffers::BufferNode;
use self::calls::{Call, CallError, FailedCall, Stretch};
use super::evidence::Evidence;
use super::lives::{Lives, TensorNode};
use super::node::Node;
use super::notes::Notes;
use super::program::Programs;
use super::report::{Device, Lowest};
use super::sidecar::Sidecar;
use super::usage::TtnnUsage;
use crate::json::Number;
use crate::tt_log::tables::Tables;
use crate::ttnn_arch::Arch;

/// The name of a buffer that existed before the capture.
const FROM_BEFORE: &[u8] = b"allocated before the capture";

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
    /// The tensors that the running calls use.
    inputs: Vec<u64>,
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
    /// The buffers of tensors.
    placed: FxHashMap<u64, u64>,
    /// Whether functions list the tensors that they use.
    lists_uses: bool,
    programs: Programs,
    /// Where a program begins, if it does: see `buffers_gone`.
    next_program: Option<u64>,
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
            inputs: Vec::new(),
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
            placed: FxHashMap::default(),
            lists_uses: false,
            programs: Programs::default(),
            next_program: None,
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
            "circular_buffer_deallocate_all" => self.buffers_gone(offset),
            "program_execution" => self.program_executed(),
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
            "capture_start" => Ok(()),
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
