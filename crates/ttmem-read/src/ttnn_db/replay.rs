//! Replays the operations of a database as one capture.
//!
//! The state between two operations follows from the later one: it is the list after it, with the nodes of its graph
//! undone. Its difference to the list after the earlier operation happened between the two: Python freed tensors, for
//! example.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{RankId, Result};

use super::graph::Graph;
use super::sizes::Rows;
use crate::json::Number;
use crate::tt_log::tables::Tables;
use crate::ttnn_arch::Arch;
use crate::ttnn_graph::capture::Capture;
use crate::ttnn_graph::capture::listed::{ListedBuffer, ListedTensor};
use crate::ttnn_graph::lives::Place;
use crate::ttnn_graph::node::{Node, Params, memory_layout};
use crate::ttnn_graph::report::{Device, Report};
use crate::ttnn_graph::sidecar::PythonCall;

/// The size of a tile of 16-bit elements.
const TILE: u64 = 2048;

/// Where a buffer is: its pool and address.
pub(super) type Spot = (Place, u64);

/// The buffers after an operation.
pub(super) type List = BTreeMap<Spot, Listed>;

/// A buffer of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    /// The size per bank as written; `None` for a buffer that was freed before the list was made.
    pub written: Option<u64>,
    /// The size per bank with aligned pages.
    pub per_bank: u64,
    pub spread: Option<&'static str>,
}

/// An operation of the database.
pub(super) struct Operation<'a> {
    pub id: i64,
    pub call: PythonCall,
    /// The buffers after it, if known.
    pub list: Option<List>,
    /// Whether the list may lack all earlier buffers. If a detailed report has no list for an operation, which happens
    /// after errors, the importer makes one from the nodes.
    pub may_lack_earlier: bool,
    /// Its results and operands; `true` for an operand.
    pub tensors: &'a [(i64, bool, ListedTensor)],
    /// Whether it executed programs.
    pub has_programs: bool,
}

/// An allocated buffer.
struct Live {
    key: u64,
    /// Its size per bank in the lists.
    listed: Option<u64>,
    /// Its size per bank with aligned pages. Lists that the importer made have this size.
    per_bank: u64,
    /// Whether it existed before the first operation.
    is_earlier: bool,
    /// Whether its size is known, including the padding of rows.
    is_sure: bool,
    /// The IDs of the tensors in it.
    tensors: Vec<i64>,
}

impl Live {
    /// Whether a listed buffer may be this one.
    fn is_listed_as(&self, other: &Listed) -> bool {
        match (self.listed, other.written) {
            (Some(was), Some(is)) => was == is || is == self.per_bank,
            _ => true,
        }
    }
}

pub(super) struct Replay<'s> {
    capture: Capture<'s>,
    report: Report,
    device: Device,
    live: BTreeMap<Spot, Live>,
    /// Where buffers were allocated so far.
    used: FxHashSet<Spot>,
    /// The tensors at places without a known buffer: those of buffers that are older than the capture.
    earlier: FxHashMap<Spot, Vec<(i64, u64)>>,
    /// Whether the buffers before the first operation are known.
    has_start: bool,
    /// The index of the next node, which is also the key of the next buffer.
    next: u64,
    /// Buffers that were freed with an uncertain size.
    unsure: u64,
    /// Operations without a list and without a graph.
    pub unlisted: u64,
    /// Nodes that allocate or free memory at an unknown address.
    pub unplaced: u64,
    /// Sizes that lack the alignment of an unknown architecture.
    pub unaligned: u64,
    /// The device whose nodes are used, if there are several.
    pub only: Option<u64>,
}

impl<'s> Replay<'s> {
    /// `lists_earlier_buffers`: whether the lists have the buffers that existed before the first operation.
    pub fn new(tables: Tables<'s>, rank: RankId, device: Device, lists_earlier_buffers: bool) -> Self {
        let report = Report { device: Some(device.clone()), lists_earlier_buffers, ..Report::default() };
        Self {
            capture: Capture::of_database(tables, rank, &device),
            report,
            device,
            live: BTreeMap::new(),
            used: FxHashSet::default(),
            earlier: FxHashMap::default(),
            has_start: false,
            next: 0,
            unsure: 0,
            unlisted: 0,
            unplaced: 0,
            unaligned: 0,
            only: None,
        }
    }

    /// Replays an operation, with its graph if there is one.
    pub fn operation(&mut self, operation: Operation<'_>, graph: Option<Graph<'_>>) -> Result<()> {
        let Operation { id, call, list, may_lack_earlier, tensors, has_programs } = operation;
        let may_lack_earlier = may_lack_earlier && graph.is_some();
        self.unlisted += u64::from(list.is_none() && graph.is_none());
        let before = match (&graph, &list) {
            (Some(graph), Some(list)) => Some(self.before(graph, list)),
            (None, Some(list)) if !self.has_start => Some(before_first(list, tensors)),
            _ => None,
        };
        if let Some(before) = before {
            self.reach(&before, tensors, may_lack_earlier)?;
        }
        let name = call.name.clone();
        self.capture.python_call(call);
        match graph {
            Some(graph) => {
                let has_buffers = graph.nodes.iter().flatten().any(|node| node.kind.0.starts_with("buffer_"));
                self.walk(id, &name, graph)?;
                self.capture.end_operation()?;
                if let Some(list) = &list {
                    self.reach(list, tensors, may_lack_earlier)?;
                    // From the first operation with buffers on, lists are complete.
                    self.has_start |= has_buffers;
                }
            }
            None => {
                self.capture.begin_call(&name)?;
                if let Some(list) = &list {
                    self.renew(tensors)?;
                    self.reach(list, tensors, may_lack_earlier)?;
                }
                if has_programs {
                    self.capture.unknown_program()?;
                }
                self.capture.end_operation()?;
            }
        }
        for (.., tensor) in tensors {
            self.name(tensor)?;
        }
        Ok(())
    }

    /// Whether a buffer that existed before the first operation is left, or may be.
    pub fn has_any_earlier(&self) -> bool {
        !self.has_start || self.live.values().any(|live| live.is_earlier)
    }

    /// Whether a buffer that existed before the first operation is at one of these places.
    pub fn has_earlier(&self, spots: &[Spot]) -> bool {
        spots.iter().any(|spot| self.live.get(spot).is_some_and(|live| live.is_earlier))
    }

    /// Adds an error of an operation that is not in the database.
    pub fn failed_elsewhere(&mut self, call: PythonCall) {
        self.capture.python_call(call);
    }

    /// The number of buffers that are older than the capture, and neither listed nor freed in a graph.
    pub fn unknown_earlier(&self) -> usize {
        self.earlier.len()
    }

    /// Emits what is left.
    pub fn finish(mut self) -> Result<Tables<'s>> {
        // Only detailed reports list sizes without padding.
        if self.report.lists_earlier_buffers {
            let left = self.live.values().filter(|live| !live.is_sure).count() as u64;
            self.capture.unpadded(self.unsure + left);
        }
        self.capture.finish_rank(&self.report)
    }

    /// The buffers before an operation: those after it, with its nodes undone.
    fn before(&self, graph: &Graph<'_>, after: &List) -> List {
        let mut before = after.clone();
        for node in graph.nodes.iter().rev().flatten().filter(|node| self.is_of_device(&node.params)) {
            let Some(spot) = spot(&node.params) else { continue };
            match &*node.kind.0 {
                "buffer_allocate" => {
                    before.remove(&spot);
                }
                // A buffer that the lists lack is older than the capture, and found when it is freed.
                "buffer_deallocate" if self.report.lists_earlier_buffers || self.live.contains_key(&spot) => {
                    let Some(per_bank) = node.params.max_size_per_bank.get() else { continue };
                    before.insert(spot, Listed { written: None, per_bank, spread: None });
                }
                _ => {}
            }
        }
        before
    }

    /// Frees and allocates what it takes to get to a list.
    fn reach(
        &mut self,
        list: &List,
        tensors: &[(i64, bool, ListedTensor)],
        may_lack_earlier: bool,
    ) -> Result<()> {
        let has_earlier = self.live.iter().any(|(spot, live)| live.is_earlier && list.contains_key(spot));
        let keeps_earlier = may_lack_earlier && !has_earlier;
        let is_gone = |spot: &Spot, live: &Live| match list.get(spot) {
            Some(listed) => !live.is_listed_as(listed),
            None => !(live.is_earlier && keeps_earlier),
        };
        let gone = self.live.iter().filter(|(spot, live)| is_gone(spot, live)).map(|(spot, _)| *spot);
        for spot in gone.collect::<Vec<_>>() {
            self.free(spot)?;
        }
        let is_earlier = !self.has_start;
        self.has_start |= !may_lack_earlier;
        for (&spot, listed) in list {
            if let Some(live) = self.live.get_mut(&spot) {
                live.listed = live.listed.or(listed.written);
                continue;
            }
            let in_it = tensors.iter().find(|(.., row)| spot_of(row) == Some(spot));
            let padded = in_it.and_then(|(.., row)| self.padded(spot, listed, &Rows::of(row)));
            let (per_bank, spread) = (padded.unwrap_or(listed.per_bank), listed.spread);
            let buffer = ListedBuffer { place: spot.0, address: spot.1, per_bank, spread };
            let key = self.key();
            self.capture.add_buffer(key, &buffer, is_earlier)?;
            self.allocated(spot, key, per_bank);
            if let Some(live) = self.live.get_mut(&spot) {
                (live.listed, live.is_earlier) = (listed.written, is_earlier);
                // Pages of 16-bit tiles need no padding.
                live.is_sure =
                    !is_earlier || per_bank.is_multiple_of(TILE) || listed.written != Some(per_bank);
            }
            self.has_start = true;
        }
        Ok(())
    }

    fn key(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn free(&mut self, spot: Spot) -> Result<()> {
        match self.live.remove(&spot) {
            Some(live) => {
                self.unsure += u64::from(!live.is_sure);
                self.capture.remove_buffer(live.key)
            }
            None => Ok(()),
        }
    }

    fn allocated(&mut self, spot: Spot, key: u64, per_bank: u64) {
        let is_aligned = per_bank.is_multiple_of(Arch::Blackhole.alignment());
        self.unaligned += u64::from(self.device.arch().is_none() && !is_aligned);
        self.used.insert(spot);
        self.earlier.remove(&spot);
        self.live.insert(
            spot,
            Live { key, listed: None, per_bank, is_earlier: false, is_sure: true, tensors: Vec::new() },
        );
    }

    /// A result at the address of another tensor is a new allocation, unless the operation ran in place.
    fn renew(&mut self, tensors: &[(i64, bool, ListedTensor)]) -> Result<()> {
        for (_, is_operand, result) in tensors {
            let Some(spot) = spot_of(result).filter(|_| !is_operand) else { continue };
            let is_in_place =
                tensors.iter().any(|(_, is_operand, row)| *is_operand && spot_of(row) == Some(spot));
            let is_other = |live: &Live| !live.tensors.is_empty() && !live.tensors.contains(&result.id);
            if !is_in_place && self.live.get(&spot).is_some_and(is_other) {
                self.free(spot)?;
            }
        }
        Ok(())
    }

    /// Names a buffer after the first tensor that is known to be in it.
    fn name(&mut self, row: &ListedTensor) -> Result<()> {
        let Some(live) = spot_of(row).and_then(|spot| self.live.get_mut(&spot)) else { return Ok(()) };
        if !live.tensors.is_empty() {
            return Ok(());
        }
        live.tensors.push(row.id);
        let key = live.key;
        self.pad(spot_of(row), &Rows::of(row));
        let index = self.key();
        self.capture.add_tensor(index, row)?;
        self.capture.attach(key, index, memory_layout(&row.memory_config));
        Ok(())
    }

    /// Corrects the size of an earlier buffer, whose listed size may lack the padding of rows, from the tensor in it.
    fn pad(&mut self, spot: Option<Spot>, rows: &Rows<'_>) {
        let Some((spot, live)) = spot.and_then(|spot| Some((spot, self.live.get_mut(&spot)?))) else {
            return;
        };
        if !live.is_earlier || !live.tensors.is_empty() {
            return;
        }
        live.is_sure = true;
        let (key, listed) = (live.key, live.listed);
        let listed = Listed { written: listed, per_bank: live.per_bank, spread: None };
        if let Some(padded) = self.padded(spot, &listed, rows) {
            self.capture.resize_earlier(key, padded);
        }
    }

    /// The size of a listed buffer with the padding of rows, if the list may lack it.
    fn padded(&self, spot: Spot, listed: &Listed, rows: &Rows<'_>) -> Option<u64> {
        let is_bare = self.report.lists_earlier_buffers && listed.written == Some(listed.per_bank);
        rows.padded(listed.per_bank, spot.0, self.device.arch().filter(|_| is_bare)?)
    }

    fn is_of_device(&self, params: &Params<'_>) -> bool {
        self.only.is_none_or(|only| params.device_id.get().is_none_or(|device| device == only))
    }

    /// Walks the nodes of an operation.
    fn walk(&mut self, id: i64, name: &str, graph: Graph<'_>) -> Result<()> {
        let operation = (id, self.next);
        self.next += graph.nodes.len() as u64;
        let outermost = graph.nodes.iter().flatten().find(|node| node.kind.0 == "function_start");
        let has_call = outermost.is_some_and(|node| node.params.name.0 == name);
        // A graph that ttnn captured for one operation does not have the call from Python.
        if !has_call {
            self.capture.begin_call(name)?;
        }
        let level = outermost.and_then(|node| node.stacking_level.get()).unwrap_or(1);
        let level = |own: u64| own.checked_add(1 + u64::from(!has_call))?.checked_sub(level);
        for (index, node) in (operation.1..).zip(graph.nodes) {
            let Some(mut node) = node else {
                self.capture.not_a_node(operation, index);
                continue;
            };
            if !self.is_of_device(&node.params) {
                continue;
            }
            node.stacking_level = node.stacking_level.get().and_then(level).map_or(Number::Missing, field);
            if self.connect(operation, index, &mut node)? {
                self.capture.operation_node(operation, index, &node, &self.device)?;
            }
        }
        Ok(())
    }

    /// Connects a node to the buffer at its address: connections between operations are lost in a database. Returns
    /// whether the node is needed.
    fn connect(&mut self, operation: (i64, u64), index: u64, node: &mut Node<'_>) -> Result<bool> {
        let is_tensor = match &*node.kind.0 {
            // The end of an operation's graph is not the end of the capture.
            "buffer" | "capture_start" | "capture_end" => return Ok(false),
            "tensor" => true,
            "buffer_allocate" | "buffer_deallocate" => false,
            _ => return Ok(true),
        };
        node.connections.clear();
        let params = &node.params;
        let Some(spot) = spot(params) else {
            let is_on_device =
                params.buffer_type.get().is_some_and(|number| Place::numbered(number).is_some());
            self.unplaced += u64::from(!is_tensor && is_on_device);
            return Ok(false);
        };
        if is_tensor {
            return self.tensor(spot, operation, index, node).map(|()| false);
        }
        if node.kind.0 == "buffer_allocate" {
            if params.size.get().is_some() {
                self.free(spot)?;
                self.allocated(spot, index, params.max_size_per_bank.get().unwrap_or(0));
            }
            return Ok(true);
        }
        match self.live.remove(&spot) {
            Some(live) => {
                // The size of an earlier buffer in a list may lack padding.
                if let Some(per_bank) = node.params.max_size_per_bank.get().filter(|_| live.is_earlier) {
                    self.capture.resize_earlier(live.key, per_bank);
                }
                node.connections.push(field(live.key));
            }
            None if self.used.contains(&spot) => {
                self.capture.freed_twice(operation, index);
                return Ok(false);
            }
            None => {
                let tensors = self.earlier.remove(&spot).unwrap_or_default();
                let tensors = tensors.into_iter().map(|(_, index)| index).collect();
                self.capture.add_earlier_buffer(index, spot.0, tensors);
                self.used.insert(spot);
                node.connections.push(field(index));
            }
        }
        Ok(true)
    }

    /// Adds a tensor to the buffer at its address, once.
    fn tensor(&mut self, spot: Spot, operation: (i64, u64), index: u64, node: &Node<'_>) -> Result<()> {
        let Ok(id) = node.params.tensor_id.0.parse::<i64>() else { return Ok(()) };
        let spread = memory_layout(&node.params.memory_config.0);
        let params = &node.params;
        let rows = Rows {
            shape: &params.shape.0,
            dtype: &params.dtype.0,
            layout: &params.layout.0,
            memory_config: &params.memory_config.0,
        };
        self.pad(Some(spot), &rows);
        if let Some(live) = self.live.get_mut(&spot) {
            if !live.tensors.contains(&id) {
                live.tensors.push(id);
                let key = live.key;
                self.capture.operation_node(operation, index, node, &self.device)?;
                self.capture.attach(key, index, spread);
            }
        } else if !self.used.contains(&spot) {
            let tensors = self.earlier.entry(spot).or_default();
            if tensors.iter().all(|(have, _)| *have != id) {
                tensors.push((id, index));
                self.capture.operation_node(operation, index, node, &self.device)?;
            }
        }
        Ok(())
    }
}

/// The buffers before the first operation, if it has no graph. It allocated its results; if there are none, it may have
/// allocated everything but its operands.
fn before_first(list: &List, tensors: &[(i64, bool, ListedTensor)]) -> List {
    let spots = |operands: bool| -> FxHashSet<Spot> {
        let rows = tensors.iter().filter(|(_, is_operand, _)| *is_operand == operands);
        rows.filter_map(|(.., row)| spot_of(row)).collect()
    };
    let (results, operands) = (spots(false), spots(true));
    let was_there = |spot: &Spot| operands.contains(spot) || (!results.is_empty() && !results.contains(spot));
    list.iter().filter(|(spot, _)| was_there(spot)).map(|(spot, listed)| (*spot, *listed)).collect()
}

/// Where a node's buffer is; `None` if it is not on the device, or without an address.
fn spot(params: &Params<'_>) -> Option<Spot> {
    Some((Place::numbered(params.buffer_type.get()?)?, params.address.get().filter(|address| *address > 0)?))
}

fn spot_of(row: &ListedTensor) -> Option<Spot> {
    Some((Place::numbered(row.buffer_type?)?, row.address?))
}

fn field(number: u64) -> Number {
    i64::try_from(number).ok().into()
}
