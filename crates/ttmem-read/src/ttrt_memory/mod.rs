//! Reads the memory results of `ttrt run --memory` (`memory_results.json`) and of the builder tool.
//!
//! Each record is an operation with the pool usage after it, in exact bytes, and the block map of the banks. `record`
//! is one record as it is written. Records are written when operations end, so the records of a program that ran inside
//! an operation precede it; `nesting` restores the execution order. The execution is then processed like a log
//! ([`Execution`]).
//!
//! The numbers of all records are kept in memory, but not their blocks: only the block maps at the highest usage and at
//! the worst fragmentation are kept.

mod nesting;
mod record;

use std::io::Read;

use memchr::memmem;
use rustc_hash::FxHashMap;
use ttmem_model::words::{counted, counted_as};
use ttmem_model::{Block, Error, Moment, RankEvent, Reading, Result, Sink};
use xxhash_rust::xxh3::xxh3_128;

use self::nesting::{Call, nested, runs};
use self::record::{Record, View};
use super::json::{self, Corruption, Json, JsonError, Parsed, without_mark};
use super::tt_log::execution::Execution;
use super::tt_log::operation::ParsedOp;
use super::{Input, Reader, Sniff};

/// The pools of a record, in the order of a log.
const POOLS: [&[u8]; 4] = [b"DRAM", b"L1", b"L1_SMALL", b"TRACE"];

/// The reader of ttrt's memory results.
pub(super) struct TtrtMemory;

impl Reader for TtrtMemory {
    fn name(&self) -> &'static str {
        "ttrt_memory"
    }

    fn about(&self) -> &'static str {
        "memory results of ttrt or the builder (memory_results.json, memory_report.json)"
    }

    fn capture(&self) -> &'static str {
        "ttrt run model.ttnn --memory --save-artifacts"
    }

    fn is_json(&self) -> bool {
        true
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        let is_there = |sign: &[u8]| memmem::find(head, sign).is_some();
        let begins = matches!(without_mark(head).trim_ascii_start().first(), Some(b'[' | b'{'));
        let has_views = is_there(b"\"block_table\"") || is_there(b"_per_bank\"") || is_there(b"\"device_0\"");
        if begins && is_there(b"\"debug_str\"") && has_views { Sniff::Yes } else { Sniff::No }
    }

    fn read(&self, input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
        let mut results = Results::default();
        let corruption = json::read(input.stream, |json| results.take_all(json))?;
        if !results.has_states() {
            return Err(nothing(input.name, results.rows.len(), corruption));
        }
        results.emit(&program(input.name), corruption, sink)
    }
}

/// The error for a file without memory data.
fn nothing(file: &str, records: usize, corruption: Option<Corruption>) -> Error {
    if let Some(corruption) = corruption {
        return corruption.into_error(file, "no operations precede it");
    }
    let file = file.to_owned();
    match records {
        0 => Error::NoMemoryData {
            file,
            message: "no operations; run a program that has some, with a ttrt that was built with operation tracing"
                .into(),
        },
        _ => Error::NoMemoryData {
            file,
            message: format!("no memory data in any record ({records} read); run ttrt with --memory"),
        },
    }
}

/// The program name: ttrt writes each program into a folder `program_0`, `program_1` …
fn program(file: &str) -> String {
    let folder = std::path::Path::new(file).parent().and_then(|folder| folder.file_name()?.to_str());
    folder.filter(|name| name.starts_with("program_")).unwrap_or("main").to_owned()
}

/// The part of a record that is kept in memory.
struct Row {
    /// The key of the record, or its position.
    key: u64,
    text: u32,
    offset: u64,
    views: [Option<Numbers>; POOLS.len()],
}

/// The numbers of a view.
#[derive(Clone, Copy)]
struct Numbers {
    banks: u32,
    reading: Reading,
}

/// The block map of a pool at a moment.
struct Map {
    key: u64,
    reading: Reading,
    blocks: Vec<Block>,
}

/// All records of a file.
#[derive(Default)]
struct Results {
    rows: Vec<Row>,
    /// The distinct operation texts.
    texts: Vec<Box<[u8]>>,
    known_texts: FxHashMap<u128, u32>,
    highest: [Option<Map>; POOLS.len()],
    most_fragmented: [Option<Map>; POOLS.len()],
    no_records: u64,
    no_views: u64,
}

impl Results {
    fn take_all(&mut self, json: &mut Json<impl Read>) -> Parsed<()> {
        let mut place = 0;
        let is_known = json.list(|json| {
            place += 1;
            self.take(Some(place - 1), json)
        })? || json.object(|json, key| self.take(key.parse().ok(), json))?;
        if is_known { Ok(()) } else { Err(JsonError::Syntax("expected a list or an object")) }
    }

    /// Adds the record with this key, which is its number.
    fn take(&mut self, key: Option<u64>, json: &mut Json<impl Read>) -> Parsed<()> {
        let offset = json.offset();
        match (key, serde_json::from_slice(json.value()?)) {
            (Some(key), Ok(record)) => self.keep(key, offset, record),
            _ => self.no_records += 1,
        }
        Ok(())
    }

    fn keep(&mut self, key: u64, offset: u64, record: Record<'_>) {
        let text = self.text(&record);
        let views = [record.dram, record.l1, record.l1_small, record.trace];
        let mut row = Row { key, text, offset, views: [None; POOLS.len()] };
        for (pool, view) in views.into_iter().enumerate() {
            let numbers = view.as_ref().and_then(View::numbers);
            self.no_views += u64::from(view.is_some() && numbers.is_none());
            let Some((banks, reading)) = numbers else { continue };
            row.views[pool] = Some(Numbers { banks, reading });
            self.keep_map(pool, key, reading, view.map(View::into_blocks).unwrap_or_default());
        }
        self.rows.push(row);
    }

    /// The index of an operation's text, including its location.
    fn text(&mut self, record: &Record<'_>) -> u32 {
        let (text, loc) = (record.debug_str.trim(), record.loc.trim());
        let whole = if text.is_empty() || text.contains(" loc(") || loc.is_empty() || loc == "unknown" {
            text.to_owned()
        } else if loc.starts_with("loc(") {
            format!("{text} {loc}")
        } else {
            format!("{text} loc({loc})")
        };
        let next = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        let number = *self.known_texts.entry(xxh3_128(whole.as_bytes())).or_insert(next);
        if number == next {
            self.texts.push(whole.into_bytes().into());
        }
        number
    }

    /// Keeps the block maps at the highest usage and with the most free bytes outside the largest free block.
    fn keep_map(&mut self, pool: usize, key: u64, reading: Reading, blocks: Vec<Block>) {
        if blocks.is_empty() {
            return;
        }
        let pieces =
            |reading: &Reading| reading.free.unwrap_or(0).saturating_sub(reading.largest_free.unwrap_or(0));
        let is_higher =
            self.highest[pool].as_ref().is_none_or(|map| reading.allocated > map.reading.allocated);
        let is_worse = self.most_fragmented[pool].as_ref().is_none_or(|map| {
            let (new, old) = (pieces(&reading), pieces(&map.reading));
            new > old || (new == old && reading.free < map.reading.free)
        });
        if is_higher {
            self.highest[pool] = Some(Map { key, reading, blocks: blocks.clone() });
        }
        if is_worse {
            self.most_fragmented[pool] = Some(Map { key, reading, blocks });
        }
    }

    fn has_states(&self) -> bool {
        self.rows.iter().any(|row| row.views.iter().any(Option::is_some))
    }

    /// Emits the execution as events.
    fn emit(mut self, program: &str, corruption: Option<Corruption>, sink: &mut dyn Sink) -> Result<()> {
        let was_sorted = self.rows.is_sorted_by_key(|row| row.key);
        self.rows.sort_by_key(|row| row.key);
        let operations: Vec<Option<ParsedOp<'_>>> =
            self.rows.iter().map(|row| ParsedOp::parse(&self.texts[row.text as usize])).collect();
        let runs = runs(nested(&operations), &operations);
        let mut replay =
            Replay { execution: Execution::new(sink)?, results: &self, before: None, when: Vec::new() };
        replay.when = vec![None; self.rows.len()];
        for run in &runs {
            replay.execution.starts(program.as_bytes())?;
            replay.calls(run, &operations)?;
            replay.execution.ends(program.as_bytes())?;
            replay.state_before(Moment::early(replay.execution.steps()))?;
        }
        replay.maps()?;
        let mut tables = replay.execution.close()?;
        let warnings = [
            (
                self.no_records,
                "record is invalid and was skipped, so operations are missing",
                "records are invalid and were skipped, so operations are missing",
            ),
            (
                self.no_views,
                "pool view has no byte counts and was skipped, so peaks may be too low",
                "pool views have no byte counts and were skipped, so peaks may be too low",
            ),
        ];
        for (count, one, several) in warnings.into_iter().filter(|(count, ..)| *count > 0) {
            tables.warn(None, counted_as(count, one, several))?;
        }
        if !was_sorted {
            tables.warn(
                None,
                "the records are not in the order of their numbers; they were sorted by number",
            )?;
        }
        if let Some(Corruption { line, why }) = corruption {
            let message = format!(
                "the results are corrupt ({why}); the report covers {} before this line",
                counted(self.rows.len(), "operation")
            );
            return tables.warn(Some(line), message);
        }
        tables.end()
    }
}

/// Replays the results as an execution.
struct Replay<'s, 'r> {
    execution: Execution<'s>,
    results: &'r Results,
    /// The record of the operation that ended last, until its state is emitted.
    before: Option<usize>,
    /// The moment of each record's state.
    when: Vec<Option<Moment>>,
}

impl Replay<'_, '_> {
    fn calls(&mut self, calls: &[Call], operations: &[Option<ParsedOp<'_>>]) -> Result<()> {
        for call in calls {
            let row = &self.results.rows[call.row];
            self.execution.offset = row.offset;
            let text = &self.results.texts[row.text as usize];
            let at = self.execution.begins(if text.is_empty() { b"?" } else { text })?;
            self.state_before(at)?;
            if !call.inside.is_empty() {
                let callee = operations[call.row].as_ref().and_then(|op| op.callee).unwrap_or(b"");
                self.execution.starts(callee)?;
                self.calls(&call.inside, operations)?;
                self.execution.ends(callee)?;
                // The pool usage at the end of the inner program; the caller's own allocations are not included yet.
                self.glimpse(Moment::early(self.execution.steps()))?;
            }
            self.before = Some(call.row);
        }
        Ok(())
    }

    /// Emits the state after the previous operation.
    fn state_before(&mut self, at: Moment) -> Result<()> {
        let Some(record) = self.before.take() else { return Ok(()) };
        self.when[record] = Some(at);
        let views = POOLS.iter().zip(&self.results.rows[record].views);
        for (pool, numbers) in views.filter_map(|(pool, view)| view.map(|numbers| (*pool, numbers))) {
            self.execution.state(pool, numbers.banks, numbers.reading, at)?;
        }
        Ok(())
    }

    fn glimpse(&mut self, at: Moment) -> Result<()> {
        let Some(record) = self.before.take() else { return Ok(()) };
        self.when[record] = Some(at);
        let views = POOLS.iter().zip(&self.results.rows[record].views);
        for (pool, numbers) in views.filter_map(|(pool, view)| view.map(|numbers| (*pool, numbers))) {
            self.execution.glimpse(pool, numbers.banks, numbers.reading, at)?;
        }
        Ok(())
    }

    /// Emits the block maps in the order of their moments.
    fn maps(&mut self) -> Result<()> {
        for (pool, name) in POOLS.iter().enumerate() {
            let kept = [&self.results.highest[pool], &self.results.most_fragmented[pool]];
            let mut maps: Vec<(Moment, &Map)> = kept
                .into_iter()
                .flatten()
                .filter_map(|map| {
                    let record = self.results.rows.binary_search_by_key(&map.key, |row| row.key).ok()?;
                    Some((self.when[record]?, map))
                })
                .collect();
            maps.sort_by_key(|(at, _)| *at);
            maps.dedup_by_key(|(at, _)| *at);
            for (at, map) in maps {
                for &block in &map.blocks {
                    self.execution.say(name, |id| RankEvent::Block(id, at, block))?;
                }
            }
        }
        Ok(())
    }
}
