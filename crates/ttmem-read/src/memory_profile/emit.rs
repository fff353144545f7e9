//! Emits a file as events: readings and calls.
//!
//! The period up to a snapshot is a step with the checkpoint's name, so that the peak has a name and each reading a
//! time. If a snapshot lists devices but not this one, the device's usage was 0.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rustc_hash::FxHashMap;
use ttmem_model::words::{by_count, counted, counted_as};
use ttmem_model::{
    Call, CallId, Moment, Op, OpId, OpKind, OpTotals, Outcome, PoolId, Position, RankEvent, Reading, Result,
    ScopeId, Seen, Sink, Snapshot, StepMarks, StepRow, StrId,
};

use super::document::{Document, Invocation};
use super::time::Clock;
use crate::definitions::{Definitions, row};
use crate::json::Corruption;

/// The name of a step that ends with an unnamed snapshot.
const UNNAMED: &str = "snapshot";
/// The pool of files without usage per device.
const ALL_DEVICES: &str = "all devices";
/// The lane of files without thread names.
const NO_THREAD: &str = "operations";

/// Emits a whole file.
pub(super) fn emit(document: &Document, corruption: Option<Corruption>, sink: &mut dyn Sink) -> Result<()> {
    let times =
        document.snapshots.iter().map(|row| row.when).chain(document.calls.iter().map(|row| row.when));
    let clock = Clock::new(document.began, times);
    let mut emitter = Emitter::new(sink)?;
    if let Some(began) = clock.began() {
        emitter.definitions.say(RankEvent::Began(began))?;
    }
    let looks = looks(document, &clock);
    emitter.looks(&looks, document)?;
    emitter.calls(&calls(document, &clock), &looks)?;
    for operation in &document.operations {
        let name = emitter.definitions.text(&operation.name)?;
        let shapes =
            operation.shapes.as_deref().map(|shapes| emitter.definitions.text(shapes)).transpose()?;
        emitter.definitions.say(RankEvent::OpTotals(OpTotals {
            name,
            count: operation.count,
            cpu_time: operation.cpu_time,
            device_time: operation.device_time,
            cpu_bytes: operation.cpu_bytes,
            device_bytes: operation.device_bytes,
            shapes,
        }))?;
    }
    emitter.warnings(document)?;
    if let Some(Corruption { line, why }) = corruption {
        let message = format!("the profile is corrupt ({why}); the report covers what precedes this line");
        return emitter.definitions.warn(Some(line), message);
    }
    emitter.definitions.end()
}

/// A reading of the devices.
struct Look<'a> {
    time: u64,
    name: Option<&'a str>,
    /// Whether it is a snapshot, not the end of an operation.
    is_snapshot: bool,
    pools: Vec<(&'a str, u64)>,
}

/// The snapshots, ordered by time. Without snapshots, the readings after operations.
fn looks<'a>(document: &'a Document, clock: &Clock) -> Vec<Look<'a>> {
    let has_devices = document.snapshots.iter().any(|row| !row.devices.is_empty());
    let snapshot = |row: &'a super::document::Snapshot| {
        let devices = row.devices.iter().map(|(name, bytes)| (name.as_str(), *bytes));
        let pools: Vec<(&str, u64)> = if has_devices {
            devices.collect()
        } else {
            row.total.map(|total| (ALL_DEVICES, total)).into_iter().collect()
        };
        Some(Look { time: clock.time(row.when)?, name: row.name.as_deref(), is_snapshot: true, pools })
    };
    let call = |row: &'a Invocation| {
        let time = clock.time(row.when)?.saturating_add(row.duration.unwrap_or(0));
        let pools = vec![(ALL_DEVICES, row.after?)];
        Some(Look { time, name: Some(&row.name), is_snapshot: false, pools })
    };
    let mut looks: Vec<Look<'a>> = if document.snapshots.is_empty() {
        document.calls.iter().filter_map(call).collect()
    } else {
        document.snapshots.iter().filter_map(snapshot).collect()
    };
    looks.sort_by_key(|look| look.time);
    looks
}

/// A call with its times, and the index of its parent, ordered by start time.
struct Timed<'a> {
    row: &'a Invocation,
    began: u64,
    parent: Option<usize>,
}

impl Timed<'_> {
    fn end(&self) -> Option<u64> {
        Some(self.began.saturating_add(self.row.duration?))
    }
}

/// The calls ordered by start time, each with its enclosing call.
fn calls<'a>(document: &'a Document, clock: &Clock) -> Vec<Timed<'a>> {
    let timed = |row: &'a Invocation| Some(Timed { row, began: clock.time(row.when)?, parent: None });
    let mut calls: Vec<Timed<'a>> = document.calls.iter().filter_map(timed).collect();
    // If calls begin at the same time, the longer one encloses the shorter.
    calls.sort_by_key(|call| (call.began, Reverse(call.row.duration)));
    let mut running: FxHashMap<(&str, Option<&str>), BinaryHeap<usize>> = FxHashMap::default();
    for index in 0..calls.len() {
        let (row, began) = (calls[index].row, calls[index].began);
        let thread = row.thread.as_deref();
        let ends: &[Timed<'a>] = &calls;
        let mut innermost = |key: (&'a str, Option<&'a str>)| {
            let heap = running.get_mut(&key)?;
            // Calls that have ended cannot enclose later ones.
            while let Some(&call) = heap.peek() {
                if ends[call].end().is_some_and(|end| end > began) {
                    return Some(call);
                }
                heap.pop();
            }
            None
        };
        let parent = row.parent.as_deref();
        let found =
            parent.and_then(|name| innermost((name, thread)).or_else(|| innermost((name, Some(ANYWHERE)))));
        calls[index].parent = found;
        if row.duration.is_some() {
            running.entry((row.name.as_str(), thread)).or_default().push(index);
            running.entry((row.name.as_str(), Some(ANYWHERE))).or_default().push(index);
        }
    }
    calls
}

/// Represents any thread; no thread has this name.
const ANYWHERE: &str = "\0";

/// Emits events.
struct Emitter<'s> {
    definitions: Definitions<'s>,
    ops: FxHashMap<StrId, OpId>,
}

impl<'s> Emitter<'s> {
    fn new(sink: &'s mut dyn Sink) -> Result<Self> {
        Ok(Self { definitions: Definitions::new(sink)?, ops: FxHashMap::default() })
    }

    fn op(&mut self, name: &str) -> Result<OpId> {
        let name = self.definitions.text(name)?;
        if let Some(&id) = self.ops.get(&name) {
            return Ok(id);
        }
        let id = self.definitions.new_op(Op::new(name, OpKind::Compute), None)?;
        self.ops.insert(name, id);
        Ok(id)
    }

    /// Emits steps and readings.
    fn looks(&mut self, looks: &[Look<'_>], document: &Document) -> Result<()> {
        let mut pools: BTreeMap<&str, PoolId> = BTreeMap::new();
        let stated = document.peaks.iter().map(|(name, _)| name.as_str());
        for name in looks.iter().flat_map(|look| look.pools.iter().map(|(name, _)| *name)).chain(stated) {
            if !pools.contains_key(name) {
                let text = self.definitions.text(name)?;
                let pool = row(PoolId::new(pools.len()))?;
                pools.insert(name, pool);
                self.definitions.say(RankEvent::Pool {
                    name: text,
                    banks: Some(1),
                    quantum: document.quantum,
                })?;
                let peak = document.peaks.iter().find(|(device, _)| device == name).map(|(_, peak)| *peak);
                self.definitions.say(RankEvent::Sampled(pool, peak))?;
            }
        }
        let mut seen: BTreeMap<&str, bool> = pools.keys().map(|name| (*name, false)).collect();
        for (step, look) in (0..Moment::MAX_STEPS).zip(looks) {
            let op = self.op(look.name.unwrap_or(UNNAMED))?;
            self.definitions.say(RankEvent::Time(step, look.time))?;
            self.definitions.say(RankEvent::Step(StepRow {
                op,
                run: None,
                offset: 0,
                marks: StepMarks::default(),
            }))?;
            let at = Moment::after(step);
            for (&name, &pool) in &pools {
                let said = look.pools.iter().find(|(device, _)| *device == name).map(|(_, bytes)| *bytes);
                let was_there = seen.get(name).copied().unwrap_or(false);
                // The usage of a device is unknown until the file first names it.
                let Some(bytes) = said.or((was_there && !look.pools.is_empty()).then_some(0)) else {
                    continue;
                };
                seen.insert(name, true);
                let reading = Reading { allocated: Some(bytes), ..Reading::default() };
                self.definitions.say(RankEvent::State(pool, at, reading))?;
            }
            if look.is_snapshot {
                let name = look.name.map(|name| self.definitions.text(name)).transpose()?;
                self.definitions.say(RankEvent::Snapshot(Snapshot { name, at, time: look.time }))?;
            }
        }
        Ok(())
    }

    /// Emits calls, each after its enclosing call.
    fn calls(&mut self, calls: &[Timed<'_>], looks: &[Look<'_>]) -> Result<()> {
        let position = |time: u64| -> Position {
            u32::try_from(looks.partition_point(|look| look.time <= time)).unwrap_or(u32::MAX)
        };
        let mut scopes: Vec<ScopeId> = Vec::with_capacity(calls.len());
        for (index, call) in calls.iter().enumerate() {
            let lane = self.definitions.lane(call.row.thread.as_deref().unwrap_or(NO_THREAD))?;
            let scope = self.definitions.scope(call.parent.map(|parent| scopes[parent]), &call.row.name)?;
            scopes.push(scope);
            let id = row(CallId::new(index))?;
            let outcome = call.end().and_then(|ended| outcome(call, ended, position(ended)));
            self.definitions.say(RankEvent::Call(Call {
                scope,
                lane,
                parent: call.parent.and_then(CallId::new),
                op: None,
                began: call.began,
                first: position(call.began),
                outcome,
            }))?;
            if outcome.is_none() {
                let seen = Seen { ended: call.end(), change: call.row.change };
                self.definitions.say(RankEvent::Seen(id, seen))?;
            }
        }
        Ok(())
    }

    fn warnings(&mut self, document: &Document) -> Result<()> {
        let skipped = document.skipped;
        let rows = [
            (skipped.snapshots, "snapshot", "without a time or without sizes"),
            (skipped.invocations, "operation call", "without a time"),
            (skipped.operations, "framework operation", "without a count, a time or a size"),
            (skipped.parts, "value", "of the wrong type"),
        ];
        for (count, what, why) in rows.into_iter().filter(|(count, ..)| *count > 0) {
            let (rows, were) = (counted(count, what), by_count(count, "was", "were"));
            self.definitions.warn(None, format!("{rows} {why} {were} skipped"))?;
        }
        let mut listed: FxHashMap<&str, u64> = FxHashMap::default();
        for call in &document.calls {
            *listed.entry(&call.name).or_default() += 1;
        }
        let missing =
            |(name, count): &&(String, u64)| *count > listed.get(name.as_str()).copied().unwrap_or(0);
        let mut missing = document.counts.iter().filter(missing);
        if let Some((name, count)) = missing.next() {
            let (listed, others) = (listed.get(name.as_str()).copied().unwrap_or(0), missing.count());
            let others = if others == 0 {
                String::new()
            } else {
                format!("; the same applies to {}", counted(others, "other operation"))
            };
            let message = format!(
                "{name} ran {}, but only {} listed; the others are missing from the timeline{others}",
                counted(*count, "time"),
                counted_as(listed, "call is", "calls are")
            );
            self.definitions.warn(None, message)?;
        }
        Ok(())
    }
}

/// The outcome of a call, if its effect on memory was measured.
fn outcome(call: &Timed<'_>, ended: u64, end: Position) -> Option<Outcome> {
    let bytes = call.row.outcome?;
    Some(Outcome {
        ended,
        end,
        allocated: bytes.allocated,
        freed: bytes.freed,
        peak: bytes.peak,
        kept: bytes.kept,
        allocations: bytes.allocations,
        frees: bytes.frees,
    })
}
