//! The parts of a snapshot: devices with their traces and segments, annotations, settings.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashSet;

use ttmem_model::AllocatorRules;

use super::heap::{Heap, Items, ObjectId, TextId, Value};
use super::keys::Key;
use super::trace::{MAX_BYTES, Origin, Trace};
use crate::history::Contents;
use crate::history::snapshot::{BlockState, Segment, SegmentBlock, Segments};

/// A snapshot.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// The devices, by number.
    pub devices: BTreeMap<u64, Device>,
    /// The allocator of pinned host memory.
    pub host: Option<Device>,
    pub annotations: Vec<Annotation>,
    pub settings: Settings,
    /// Whether the file has traces at all; a list of segments has none.
    pub has_traces: bool,
    /// The number of segments and blocks with an impossible address or size.
    pub invalid: u64,
    /// The lists of blocks that were read. Each belongs to one segment; a small file could repeat a long one for many.
    read: FxHashSet<ObjectId>,
}

/// A device: its trace, and its memory at the end.
#[derive(Debug, Default)]
pub(super) struct Device {
    pub trace: Trace,
    pub contents: Contents,
    pub segments: Vec<SegmentFacts>,
}

/// A segment at the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SegmentFacts {
    pub address: u64,
    pub bytes: u64,
    pub allocated: u64,
    pub active: u64,
    pub largest_free: u64,
    pub free_blocks: u32,
    pub stream: u64,
    pub private_pool: Option<(u64, u64)>,
    /// Whether the segment says which pool it belongs to (2.1 and later).
    pub has_pool: bool,
    pub is_small: bool,
    pub is_expandable: bool,
}

/// The start or end of a range that the program has named.
#[derive(Clone, Copy, Debug)]
pub(super) struct Annotation {
    pub name: TextId,
    pub is_start: bool,
    pub time_us: u64,
}

/// The settings of the allocator.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub rules: AllocatorRules,
    /// Whether they are those of XPU's allocator.
    pub is_xpu: bool,
    /// Devices whose ring buffer overflowed, if the file says so.
    pub overflowed: bool,
}

/// Interprets the value of a pickle; `None` if it is not a snapshot.
pub(super) fn document(heap: &mut Heap, root: Value) -> Option<Document> {
    let mut document = Document::default();
    if let Some(Items::Values(segments)) = heap.items(root) {
        // `torch.cuda.memory_snapshot()` returns the segments only.
        let segments = segments.to_vec();
        let is_segment = |segment: &Value| heap.get(*segment, Key::TotalSize).is_some();
        if !segments.iter().all(is_segment) {
            return None;
        }
        document.read_segments(heap, &segments);
        return Some(document);
    }
    let has = |key| heap.get(root, key).is_some();
    if !has(Key::Segments) && !has(Key::DeviceTraces) {
        return None;
    }
    let list = |key| heap.get(root, key).map(|list| heap.values(list).to_vec()).unwrap_or_default();
    let (segments, host_segments) = (list(Key::Segments), list(Key::HostSegments));
    let (traces, annotations) = (list(Key::DeviceTraces), list(Key::ExternalAnnotations));
    document.has_traces = has(Key::DeviceTraces);
    document.read_settings(heap, heap.get(root, Key::AllocatorSettings));
    document.read_segments(heap, &segments);
    document.read_host(heap, &host_segments, heap.get(root, Key::HostTraces));
    document.annotations = annotations.iter().filter_map(|row| annotation(heap, *row)).collect();
    for (number, trace) in (0..).zip(traces) {
        let trace = take_trace(heap, trace);
        document.read_user_defined(heap, &trace);
        if trace.len > 0 || document.devices.contains_key(&number) {
            document.devices.entry(number).or_default().trace = trace;
        }
    }
    document.annotations.sort_by_key(|annotation| annotation.time_us);
    Some(document)
}

fn take_trace(heap: &mut Heap, list: Value) -> Trace {
    match heap.items(list) {
        Some(Items::Trace(trace)) => heap.take_trace(trace),
        _ => Trace::default(),
    }
}

fn annotation(heap: &Heap, row: Value) -> Option<Annotation> {
    let stage = heap.text_of(heap.get(row, Key::Stage)?.text()?);
    Some(Annotation {
        name: heap.get(row, Key::Name)?.text()?,
        is_start: stage == "START",
        time_us: heap.get(row, Key::TimeUs)?.int()?,
    })
}

impl Document {
    /// Annotations of PyTorch 2.4, which are entries of traces.
    fn read_user_defined(&mut self, heap: &mut Heap, trace: &Trace) {
        for &(stack, time_us) in &trace.user_defined {
            let line = stack.and_then(|stack| heap.stacks.lines_of(stack).next());
            let Some((stage, name)) = line.map(|line| (line.function.clone(), line.file.clone())) else {
                continue;
            };
            let Some(name) = heap.text(name.as_bytes()) else { continue };
            self.annotations.push(Annotation { name, is_start: stage == "START", time_us });
        }
    }

    fn read_settings(&mut self, heap: &Heap, settings: Option<Value>) {
        let Some(settings) = settings else { return };
        let get = |key| heap.get(settings, key);
        // That allocator has only this setting and `expandable_segments`; CUDA's has all of them in every version.
        self.settings.is_xpu = get(Key::NewAllocConf).is_some() && get(Key::MaxSplitSize).is_none();
        let rules = &mut self.settings.rules;
        // -1 stands for no limit.
        rules.max_split = get(Key::MaxSplitSize).and_then(Value::int).filter(|bytes| *bytes < 1 << 62);
        rules.is_expandable = get(Key::ExpandableSegments) == Some(Value::Bool(true));
        let divisions = get(Key::RoundupDivisions).and_then(|divisions| heap.fields(divisions));
        for (class, divisions) in divisions.unwrap_or_default() {
            // The key is a size in MiB.
            let mib: Option<u64> = class.text().and_then(|text| heap.text_of(text).parse().ok());
            let divisions = divisions.int().and_then(|divisions| u16::try_from(divisions).ok());
            rules.set_divisions(mib.unwrap_or(0), divisions.unwrap_or(0));
        }
        self.settings.overflowed = match get(Key::Overflowed) {
            Some(Value::Bool(overflowed)) => overflowed,
            Some(list) => heap.values(list).contains(&Value::Bool(true)),
            None => false,
        };
    }

    fn read_segments(&mut self, heap: &mut Heap, segments: &[Value]) {
        let mut collected: BTreeMap<u64, Segments> = BTreeMap::new();
        for &segment in segments {
            let Some(device) = device_of(heap, segment) else {
                self.invalid += 1;
                continue;
            };
            let into = collected.entry(device).or_default();
            match self.read_segment(heap, segment, into) {
                Some(facts) => self.devices.entry(device).or_default().segments.push(facts),
                None => self.invalid += 1,
            }
        }
        for (device, segments) in collected {
            self.devices.entry(device).or_default().contents = segments.finish();
        }
    }

    fn read_segment(&mut self, heap: &mut Heap, segment: Value, into: &mut Segments) -> Option<SegmentFacts> {
        let int = |heap: &Heap, of: Value, key| heap.get(of, key).and_then(Value::int);
        let is_true = |heap: &Heap, key| heap.get(segment, key) == Some(Value::Bool(true));
        let (address, bytes) = (int(heap, segment, Key::Address)?, int(heap, segment, Key::TotalSize)?);
        let addresses = addresses(address, bytes)?;
        let is_expandable = is_true(heap, Key::IsExpandable);
        into.segment(Segment { address, total_size: bytes, is_expandable });
        let kind = heap.get(segment, Key::SegmentType).and_then(Value::text);
        let private_pool = heap.get(segment, Key::SegmentPoolId).and_then(|pool| match heap.values(pool) {
            [Value::Int(a), Value::Int(b)] => Some((*a, *b)),
            _ => None,
        });
        let mut facts = SegmentFacts {
            address,
            bytes,
            stream: int(heap, segment, Key::Stream).unwrap_or(0),
            private_pool: private_pool.filter(|pool| *pool != (0, 0)),
            has_pool: private_pool.is_some(),
            is_small: kind.is_some_and(|kind| heap.text_of(kind) == "small"),
            is_expandable,
            ..SegmentFacts::default()
        };
        let mut blocks = heap.get(segment, Key::Blocks);
        if blocks
            .and_then(Value::object)
            .is_some_and(|list| !heap.values(Value::Object(list)).is_empty() && !self.read.insert(list))
        {
            self.invalid += 1;
            blocks = None;
        }
        let blocks = blocks.map(|blocks| heap.values(blocks).to_vec());
        // Without addresses, each block begins where the one before it ends.
        let mut next = Some(address);
        for block in blocks.unwrap_or_default() {
            let found = read_block(heap, block, next).filter(|(_, block)| is_within(block, &addresses));
            next = found.as_ref().map(|(_, block)| block.end);
            match found {
                Some((block, _)) => {
                    facts.add(&block);
                    into.block(block);
                }
                None => self.invalid += 1,
            }
        }
        Some(facts)
    }

    fn read_host(&mut self, heap: &mut Heap, segments: &[Value], traces: Option<Value>) {
        let mut host = Device::default();
        let mut collected = Segments::default();
        for &segment in segments {
            match self.read_segment(heap, segment, &mut collected) {
                Some(facts) => host.segments.push(facts),
                None => self.invalid += 1,
            }
        }
        host.contents = collected.finish();
        // One list of entries, or a list of lists.
        let lists: Vec<Value> = match traces.and_then(|traces| heap.items(traces)) {
            Some(Items::Trace(_)) => traces.into_iter().collect(),
            Some(Items::Values(lists)) => lists.to_vec(),
            None => Vec::new(),
        };
        for list in lists {
            let trace = take_trace(heap, list);
            if trace.len > host.trace.len {
                host.trace = trace;
            }
        }
        self.host = (host.trace.len > 0 || !host.segments.is_empty()).then_some(host);
    }
}

impl SegmentFacts {
    fn add(&mut self, block: &SegmentBlock) {
        match block.state {
            BlockState::Allocated => {
                self.allocated = self.allocated.saturating_add(block.size);
                self.active = self.active.saturating_add(block.size);
            }
            BlockState::PendingFree => self.active = self.active.saturating_add(block.size),
            BlockState::Inactive => {
                self.free_blocks = self.free_blocks.saturating_add(1);
                self.largest_free = self.largest_free.max(block.size);
            }
        }
    }
}

/// The number of a segment's device. `None` if no device has this number.
fn device_of(heap: &Heap, segment: Value) -> Option<u64> {
    const MAX_DEVICES: u64 = 1 << 16;
    match heap.get(segment, Key::Device) {
        None => Some(0),
        Some(device) => device.int().filter(|device| *device < MAX_DEVICES),
    }
}

/// The addresses of memory; `None` if they are impossible.
fn addresses(start: u64, bytes: u64) -> Option<Range<u64>> {
    (bytes <= MAX_BYTES).then_some(start..start.checked_add(bytes)?)
}

fn is_within(block: &Range<u64>, segment: &Range<u64>) -> bool {
    segment.start <= block.start && block.end <= segment.end
}

/// Whether a value that not every version of PyTorch writes is a number, if it is there.
fn is_number_or_missing(value: Option<Value>) -> bool {
    matches!(value, None | Some(Value::None | Value::Int(_)))
}

/// A block with its addresses, which begin at `next` if the file does not have them. `None` if they are impossible, or if
/// the program requested more than the block has.
fn read_block(heap: &mut Heap, block: Value, next: Option<u64>) -> Option<(SegmentBlock, Range<u64>)> {
    let size = heap.get(block, Key::Size).and_then(Value::int)?;
    let start = heap.get(block, Key::Address);
    let state = heap.get(block, Key::State).and_then(Value::text)?;
    let state = BlockState::new(heap.text_of(state));
    // Before PyTorch 2.1, a block has the history of its allocations, the newest first.
    let newest = heap.get(block, Key::History).and_then(|history| heap.values(history).first().copied());
    // A free block has that of an earlier allocation.
    let requested = heap.get(block, Key::RequestedSize).or_else(|| heap.get(newest?, Key::RealSize));
    let requested = requested.filter(|_| state != BlockState::Inactive);
    let is_valid = [start, requested].into_iter().all(is_number_or_missing);
    let (start, requested_size) = (start.and_then(Value::int).or(next)?, requested.and_then(Value::int));
    if !is_valid || requested_size.is_some_and(|requested| requested > size) {
        return None;
    }
    let frames = heap.get(block, Key::Frames).or_else(|| heap.get(newest?, Key::Frames));
    let stack = frames.and_then(|frames| heap.stack_of(frames));
    let origin = stack.map(|stack| Origin { stack: Some(stack), ..Origin::default() });
    let origin = origin.map(|origin| heap.parser.origins.add(&origin).0);
    let found = SegmentBlock { address: Some(start), size, requested_size, state, origin };
    Some((found, addresses(start, size)?))
}
