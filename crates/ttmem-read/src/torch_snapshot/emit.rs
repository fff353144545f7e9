//! Emits a snapshot as events: the history of each device, and annotations as calls.

use std::iter::Peekable;
use std::path::Path;

use ttmem_model::rules::is_python;
use ttmem_model::words::{by_count, counted, counted_as, size};
use ttmem_model::{
    AllocatorRules, Class, Error, HistoryAction, HistoryRow, Label, Op, OpId, OpKind, PoolId, RankEvent,
    ReservedSegment, Result, Sink, StackId,
};

use super::annotations;
use super::cpp;
use super::document::{Device, Document};
use super::eager::StepOrigin;
use super::heap::Heap;
use super::trace::{Origin, OriginIndex};
use crate::definitions::{Definitions, row};
use crate::history::snapshot::{ALLOCATION, HistoryCursor, OTHER, RowContext, Update, UpdateRow};
use crate::history::{Contents, PlacedAlone};
use crate::python_stack::is_library;
use crate::snapshot_files;

/// The pool of pinned host memory.
const PINNED: &str = "pinned";

/// Emits a whole snapshot.
///
/// If `placed` is given, it gets the history if that was placed while it was read. Otherwise the history is emitted as rows.
pub(super) fn emit(
    document: Document,
    heap: &Heap,
    file: &str,
    placed: Option<&mut Option<PlacedAlone>>,
    sink: &mut dyn Sink,
) -> Result<()> {
    if document.devices.is_empty() && document.host.is_none() {
        return Err(Error::NoMemoryData {
            file: file.into(),
            message: "the snapshot has no segments and no events; call _record_memory_history() before the program \
                      uses the device"
                .into(),
        });
    }
    let mut emitter = Emitter::new(heap, snapshot_files::rank_of(Path::new(file)), sink)?;
    emitter.emit(document, placed)?;
    emitter.definitions.end()
}

/// A device with its name.
struct Named {
    name: String,
    device: Device,
}

struct Emitter<'s, 'h> {
    heap: &'h Heap,
    definitions: Definitions<'s>,
    /// The operations of allocations and of frees, by origin.
    ops: [Vec<Option<OpId>>; 2],
    allocation: OpId,
    other: OpId,
}

impl<'s, 'h> Emitter<'s, 'h> {
    fn new(heap: &'h Heap, rank: Option<String>, sink: &'s mut dyn Sink) -> Result<Self> {
        let mut definitions = Definitions::of_rank(rank, sink)?;
        // The first operation is that of rows without one.
        let [other, allocation] = [OTHER, ALLOCATION].map(|name| {
            let name = definitions.text(name)?;
            definitions.new_op(Op::new(name, OpKind::Compute), None)
        });
        let (other, allocation) = (other?, allocation?);
        let ops = [(); 2].map(|()| vec![None; heap.parser.origins.all.len()]);
        Ok(Self { heap, definitions, ops, allocation, other })
    }

    fn emit(&mut self, document: Document, placed: Option<&mut Option<PlacedAlone>>) -> Result<()> {
        let Document { devices, host, annotations, settings, has_traces, invalid, .. } = document;
        let kind = if settings.is_xpu || has_xpu_lines(self.heap) { "xpu" } else { "cuda" };
        let mut all: Vec<Named> = devices
            .into_iter()
            .map(|(number, device)| Named { name: format!("{kind}:{number}"), device })
            .collect();
        all.extend(host.map(|device| Named { name: PINNED.into(), device }));
        let first = all.iter().filter_map(|named| named.device.trace.first_us);
        let first = first.chain(annotations.iter().map(|annotation| annotation.time_us));
        let began = first.filter(|time| *time > 0).min().map(|time_us| time_us.saturating_mul(1000));
        if let Some(began) = began {
            self.definitions.say(RankEvent::Began(began))?;
        }
        for (index, named) in all.iter().enumerate() {
            let name = self.definitions.text(&named.name)?;
            self.definitions.say(RankEvent::Pool { name, banks: Some(1), quantum: 0 })?;
            let pool = row(PoolId::new(index))?;
            if named.name != PINNED {
                self.definitions.say(RankEvent::AllocatorRules(pool, settings.rules))?;
            }
            self.warn_about(named, has_traces)?;
        }
        if invalid > 0 {
            let rows = counted_as(invalid, "segment or block", "segments or blocks");
            let message = format!(
                "{rows} with an impossible address or size, or none, {} skipped, so memory at the time of the snapshot is \
                 missing",
                by_count(invalid, "was", "were")
            );
            self.definitions.warn(None, message)?;
        }
        let history = all.iter().filter_map(|named| named.device.trace.first_us).min();
        annotations::emit(&annotations, began.unwrap_or(0), history, self.heap, &mut self.definitions)?;
        self.segments(&all)?;
        self.labels(&all, began.unwrap_or(0))?;
        let alone = all.iter_mut().find_map(|named| named.device.trace.placed());
        let has_calls = !annotations.is_empty();
        if let (Some(placed), Some(alone), [only], false) = (placed, alone, all.as_slice(), has_calls)
            && Self::is_alone(&only.device, &alone, settings.rules)
        {
            *placed = Some(self.completed(alone, began.unwrap_or(0))?);
            return Ok(());
        }
        self.histories(all, began.unwrap_or(0), settings.overflowed)
    }

    /// Whether the only device was placed as its rows would be.
    fn is_alone(device: &Device, alone: &PlacedAlone, rules: AllocatorRules) -> bool {
        Lacking::of(device) == Lacking::Nothing
            && device.trace.labels.is_empty()
            && alone.begins_empty(&device.contents, rules)
    }

    /// The placed history with its operations.
    fn completed(&mut self, mut alone: PlacedAlone, began: u64) -> Result<PlacedAlone> {
        let origins = alone.ops().iter().map(|op| StepOrigin::from_op(*op));
        let ops = origins.map(|of| Ok((self.op(of.origin, of.is_free)?, of.is_free)));
        let ops = ops.collect::<Result<Vec<_>>>()?;
        alone.complete(ops, began);
        Ok(alone)
    }

    fn segments(&mut self, all: &[Named]) -> Result<()> {
        for (index, named) in all.iter().enumerate() {
            let pool = row(PoolId::new(index))?;
            for segment in &named.device.segments {
                self.definitions.say(RankEvent::Reserved(ReservedSegment {
                    pool,
                    address: segment.address,
                    bytes: segment.bytes,
                    allocated: segment.allocated,
                    active: segment.active,
                    largest_free: segment.largest_free,
                    free_blocks: segment.free_blocks,
                    stream: segment.stream,
                    private_pool: segment.private_pool,
                    is_small: segment.is_small,
                    is_expandable: segment.is_expandable,
                }))?;
            }
        }
        Ok(())
    }

    /// Emits the texts that the program has attached to allocations.
    fn labels(&mut self, all: &[Named], began: u64) -> Result<()> {
        for (index, named) in all.iter().enumerate() {
            let pool = row(PoolId::new(index))?;
            for &(address, text, time_us) in &named.device.trace.labels {
                let name = Some(self.definitions.text(self.heap.text_of(text))?);
                let time = time_us.saturating_mul(1000).saturating_add(999).saturating_sub(began);
                let (ty, class, requires_grad) = (None, Class::Unknown, None);
                let label = Label { pool, address, bytes: 0, time, ty, class, name, requires_grad };
                self.definitions.say(RankEvent::Label(label))?;
            }
        }
        Ok(())
    }

    /// Emits the rows of all devices, ordered by time.
    fn histories(&mut self, all: Vec<Named>, began: u64, overflowed: bool) -> Result<()> {
        let mut streams = Vec::new();
        for (index, Named { device, name }) in all.into_iter().enumerate() {
            let ids = RowContext {
                pool: row(PoolId::new(index))?,
                allocation: self.allocation,
                other: self.other,
                began,
                now: 0,
            };
            let lacking = Lacking::of(&device);
            let entries = device.trace.into_entries();
            let update = HistoryCursor::default().advance(entries, device.contents, None, None);
            self.warn_about_start(&name, &update, overflowed)?;
            streams.push(update.into_rows(ids).map(move |row| lacking.complete(row)));
        }
        if streams.len() == 1 {
            return streams.into_iter().flatten().try_for_each(|row| self.history(row));
        }
        let mut streams: Vec<_> = streams.into_iter().map(Iterator::peekable).collect();
        while let Some(row) = next_by_time(&mut streams) {
            self.history(row)?;
        }
        Ok(())
    }

    fn history(&mut self, row: UpdateRow<OriginIndex>) -> Result<()> {
        let row = self.with_op(row)?;
        self.definitions.history(row)
    }

    /// The row with its operation.
    fn with_op(&mut self, of: UpdateRow<OriginIndex>) -> Result<HistoryRow> {
        let mut row = of.row;
        let is_free = matches!(row.action, HistoryAction::FreeRequested | HistoryAction::Freed);
        let origin = match (of.origin, of.block_origin) {
            (Some(origin), _) if of.is_allocation() || is_free => Some(origin.0),
            (None, Some(origin)) => Some(origin),
            _ => None,
        };
        if let Some(origin) = origin {
            row.op = self.op(origin, is_free)?;
        }
        Ok(row)
    }

    fn op(&mut self, origin: u32, is_free: bool) -> Result<OpId> {
        if let Some(&Some(op)) = self.ops[usize::from(is_free)].get(origin as usize) {
            return Ok(op);
        }
        let op = self.new_op(origin, is_free)?;
        if let Some(slot) = self.ops[usize::from(is_free)].get_mut(origin as usize) {
            *slot = Some(op);
        }
        Ok(op)
    }

    /// Defines the operation of an origin: named after its innermost Python line, located at the user's innermost line.
    /// Without Python lines, it has no location.
    fn new_op(&mut self, origin: u32, is_free: bool) -> Result<OpId> {
        let heap = self.heap;
        let origin = heap.parser.origins.all.get(origin as usize).copied().unwrap_or_default();
        let Some(stack) = origin.stack else {
            let attributes = self.attributes(&origin)?;
            if attributes.is_none() {
                return Ok(if is_free { self.other } else { self.allocation });
            }
            let name = self.definitions.text(if is_free { OTHER } else { ALLOCATION })?;
            let op = Op { attributes, ..Op::new(name, OpKind::Compute) };
            return self.definitions.new_op(op, None);
        };
        let lines = || heap.stacks.lines_of(stack);
        let innermost = lines().find(|line| is_python(&line.file));
        let users = lines().find(|line| is_python(&line.file) && !is_library(&line.file)).or(innermost);
        let name = match (is_free, innermost) {
            (false, Some(line)) => line.operation(),
            (false, None) => cpp::operation(lines().map(|line| line.function.as_str()))
                .unwrap_or_else(|| ALLOCATION.into()),
            (true, _) => OTHER.into(),
        };
        let mut outer: Option<StackId> = None;
        let indexes = heap.stacks.indexes_of(stack);
        for line in indexes.iter().rev().filter_map(|line| heap.stacks.line(*line)) {
            let frame = self.definitions.frame(&line.function, &line.file, line.number)?;
            outer = Some(self.definitions.stack(frame, outer)?);
        }
        let loc = users.map(|line| self.definitions.text(&format!("{}:{}", line.file, line.number)));
        let (name, loc) = (self.definitions.text(&name)?, loc.transpose()?);
        let attributes = self.attributes(&origin)?;
        self.definitions.new_op(Op { loc, attributes, ..Op::new(name, OpKind::Compute) }, outer)
    }

    /// The properties of an origin other than its stack, as text.
    fn attributes(&mut self, origin: &Origin) -> Result<Option<ttmem_model::StrId>> {
        let text = |id: Option<super::heap::TextId>| id.map(|id| self.heap.text_of(id));
        let mut parts = Vec::new();
        parts.extend(text(origin.metadata).map(|text| format!("metadata: {text}")));
        parts.extend(text(origin.context).map(|text| format!("compiled: {text}")));
        parts.extend(text(origin.forward).map(|text| format!("forward: {text}")));
        parts.extend((origin.stream != 0).then(|| format!("stream: 0x{:x}", origin.stream)));
        let private = origin.pool.filter(|pool| *pool != (0, 0));
        parts.extend(private.map(|(a, b)| format!("private pool: ({a}, {b})")));
        if parts.is_empty() { Ok(None) } else { self.definitions.text(&parts.join("; ")).map(Some) }
    }

    fn warn_about(&mut self, named: &Named, has_traces: bool) -> Result<()> {
        let Named { name, device: Device { trace, .. } } = named;
        let mut warn = |message: String| self.definitions.warn(None, message);
        if !has_traces || trace.len == 0 {
            warn(format!(
                "{name} has no history, so only the memory at the time of the snapshot is known; call \
                 torch.cuda.memory._record_memory_history() first"
            ))?;
        }
        for (word, count) in &trace.others {
            let word = word.map_or("", |word| self.heap.text_of(word));
            // Written by `_snapshot()` itself.
            if word != "snapshot" {
                warn(format!(
                    "{} {word:?} of {name} {} unknown and skipped",
                    counted(*count, "event"),
                    by_count(*count, "is", "are")
                ))?;
            }
        }
        if trace.invalid > 0 {
            warn(format!(
                "{} of {name} {} an impossible size or address, or none, and {} skipped, so usage may be wrong",
                counted(trace.invalid, "event"),
                by_count(trace.invalid, "has", "have"),
                by_count(trace.invalid, "was", "were")
            ))?;
        }
        if trace.internal > 0 {
            warn(format!(
                "{} of {name} that restore the state of a CUDA graph are not counted as allocations",
                counted(trace.internal, "event")
            ))?;
        }
        let without_pool = named.device.segments.iter().filter(|segment| !segment.has_pool).count() as u64;
        if without_pool > 0 && name != PINNED {
            warn(format!(
                "{} of {name} {} no segment_pool_id (added in PyTorch 2.1), so memory that is reserved for private pools \
                 counts as that of the default pool",
                counted(without_pool, "segment"),
                by_count(without_pool, "has", "have")
            ))?;
        }
        if let Some(missing) = Lacking::of(&named.device).text() {
            warn(format!("the history of {name} has no {missing}"))?;
        }
        Ok(())
    }

    /// Warns if memory was in use before the first event.
    fn warn_about_start(&mut self, name: &str, update: &Update<OriginIndex>, overflowed: bool) -> Result<()> {
        let blocks = update.start().map(Contents::blocks).unwrap_or_default();
        if blocks.is_empty() || update.is_empty() {
            return Ok(());
        }
        let bytes = blocks.iter().map(|(_, block)| block.block.unwrap_or(block.bytes));
        let bytes = bytes.fold(0, u64::saturating_add);
        let why = if overflowed {
            "its ring buffer overflowed (max_entries)"
        } else {
            "recording started late, or its ring buffer overflowed (max_entries)"
        };
        let message = format!(
            "the history of {name} begins with {} ({}) in use: {why}; the peak before that is unknown",
            counted(blocks.len() as u64, "allocation"),
            size(bytes)
        );
        self.definitions.warn(None, message)
    }
}

/// The kinds of events that a trace lacks, because `skip_actions` has removed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacking {
    Nothing,
    Allocations,
    Requests,
    Completions,
}

impl Lacking {
    fn of(device: &Device) -> Self {
        /// A shorter trace may have no events of a kind by chance.
        const MIN_EVENTS: u64 = 100;
        let [allocations, requests, completions] =
            [HistoryAction::Allocated, HistoryAction::FreeRequested, HistoryAction::FreeCompleted]
                .map(|action| device.trace.count(action));
        let is_long = allocations + requests + completions >= MIN_EVENTS;
        // A free that is requested and not completed is pending at the end.
        let pending = device.contents.blocks().iter().filter(|(_, block)| block.is_waiting).count() as u64;
        match (allocations, requests, completions) {
            (_, 1.., 0) if requests > pending => Self::Completions,
            (1.., 0, 1..) if is_long => Self::Requests,
            (0, 1.., 1..) if is_long => Self::Allocations,
            _ => Self::Nothing,
        }
    }

    /// A free is known by one of its events if the trace lacks the other.
    fn complete(self, mut row: UpdateRow<OriginIndex>) -> UpdateRow<OriginIndex> {
        let is_whole = match row.row.action {
            HistoryAction::FreeRequested => self == Self::Completions && row.origin.is_some(),
            HistoryAction::FreeCompleted => self == Self::Requests,
            _ => false,
        };
        if is_whole {
            row.row.action = HistoryAction::Freed;
        }
        row
    }

    /// What the trace lacks, with the consequence.
    fn text(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Allocations => Some(
                "alloc events (skip_actions), so memory that was allocated and freed in it is missing from all figures",
            ),
            Self::Requests => Some(
                "free_requested events (skip_actions), so memory counts as allocated until its last stream is done with it",
            ),
            Self::Completions => Some(
                "free_completed events (skip_actions), so memory counts as inactive when the program frees it",
            ),
        }
    }
}

/// The next row of several streams, by time.
fn next_by_time<I>(streams: &mut [Peekable<I>]) -> Option<UpdateRow<OriginIndex>>
where
    I: Iterator<Item = UpdateRow<OriginIndex>>,
{
    let times =
        streams.iter_mut().enumerate().filter_map(|(index, stream)| Some((stream.peek()?.row.time, index)));
    let (_, next) = times.min()?;
    streams[next].next()
}

/// Whether a stack has code of XPU devices.
fn has_xpu_lines(heap: &Heap) -> bool {
    let is_xpu = |line: &crate::history::snapshot::Line| {
        line.file.contains("/torch/xpu/") || line.function.contains("XPUCachingAllocator")
    };
    heap.stacks.lines().any(is_xpu)
}
