//! Reads what `ttrt run --memory` leaves behind: `memory_results.json`, and the list that the builder tool writes.
//!
//! Each record is an operation and what the pools held after it, in exact bytes, with the blocks that the banks were cut
//! into. `record` is one of them as it is written. Records come when operations end, so those of a program that ran inside
//! an operation stand before it; `nesting` puts them back to where they ran. Then the execution is told as a log tells it
//! ([`Told`]).
//!
//! The numbers of all records are held, their blocks are not: only the maps of the highest and of the most fragmented
//! moment are kept.

mod nesting;
mod record;

use std::io::Read;

use memchr::memmem;
use rustc_hash::FxHashMap;
use ttmem_model::{Block, Error, Moment, RankEvent, Reading, Result, Sink};
use xxhash_rust::xxh3::xxh3_128;

use self::nesting::{Call, nested, runs};
use self::record::{Record, View};
use super::json::{self, Damage, Json, JsonError, Parsed, without_mark};
use super::tt_log::operation::ParsedOp;
use super::tt_log::told::Told;
use super::{Input, Reader, Sniff};

/// The pools of a record, in the order in which a log prints them.
const POOLS: [&[u8]; 4] = [b"DRAM", b"L1", b"L1_SMALL", b"TRACE"];

/// The reader of ttrt's memory results.
pub(super) struct TtrtMemory;

impl Reader for TtrtMemory {
    fn name(&self) -> &'static str {
        "ttrt_memory"
    }

    fn about(&self) -> &'static str {
        "the memory results of ttrt or of the builder (memory_results.json, memory_report.json)"
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
        let damage = json::read(input.stream, |json| results.take_all(json))?;
        if !results.has_states() {
            return Err(nothing(input.name, results.rows.len(), damage));
        }
        results.tell(&program(input.name), damage, sink)
    }
}

/// Why there is nothing to answer.
fn nothing(file: &str, records: usize, damage: Option<Damage>) -> Error {
    if let Some(damage) = damage {
        return damage.into_error(file, "there is nothing before it");
    }
    let file = file.to_owned();
    match records {
        0 => Error::NoMemoryData {
            file,
            message: "there are no operations in it: the program ran none, or ttrt was built without a trace of them".into(),
        },
        _ => Error::NoMemoryData {
            file,
            message: format!("its {records} records have no memory in them: run ttrt with --memory"),
        },
    }
}

/// What the program is called: ttrt keeps each in a folder `program_0`, `program_1` …
fn program(file: &str) -> String {
    let folder = std::path::Path::new(file).parent().and_then(|folder| folder.file_name()?.to_str());
    folder.filter(|name| name.starts_with("program_")).unwrap_or("main").to_owned()
}

/// A record, as much of it as is held.
struct Row {
    /// The key of the record, or its place.
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

/// The blocks of a pool at a moment.
struct Map {
    key: u64,
    reading: Reading,
    blocks: Vec<Block>,
}

/// All records of a file.
#[derive(Default)]
struct Results {
    rows: Vec<Row>,
    /// The distinct texts of operations.
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

    /// Takes the record of a key, which is its number.
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

    /// The number of an operation's text, its location included.
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

    /// Keeps the blocks of the highest moment, and of the one with the most free bytes outside of the largest piece.
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

    /// Tells the execution.
    fn tell(mut self, program: &str, damage: Option<Damage>, sink: &mut dyn Sink) -> Result<()> {
        let was_sorted = self.rows.is_sorted_by_key(|row| row.key);
        self.rows.sort_by_key(|row| row.key);
        let operations: Vec<Option<ParsedOp<'_>>> =
            self.rows.iter().map(|row| ParsedOp::parse(&self.texts[row.text as usize])).collect();
        let runs = runs(nested(&operations), &operations);
        let mut telling = Telling { told: Told::new(sink)?, results: &self, before: None, when: Vec::new() };
        telling.when = vec![None; self.rows.len()];
        for run in &runs {
            telling.told.starts(program.as_bytes())?;
            telling.calls(run, &operations)?;
            telling.told.ends(program.as_bytes())?;
            telling.state_before(Moment::early(telling.told.steps()))?;
        }
        telling.maps()?;
        let mut tables = telling.told.close()?;
        let warnings = [
            (self.no_records, "records are none and were left out"),
            (self.no_views, "views say no bytes and were left out"),
        ];
        for (count, what) in warnings.into_iter().filter(|(count, _)| *count > 0) {
            tables.warn(None, format!("{count} {what}"))?;
        }
        if !was_sorted {
            tables.warn(
                None,
                "the records do not stand in the order of their numbers; they are answered in that order",
            )?;
        }
        if let Some(Damage { line, why }) = damage {
            let count = self.rows.len();
            let message =
                format!("the results are damaged ({why}); the {count} operations before are answered");
            return tables.warn(Some(line), message);
        }
        tables.end()
    }
}

/// Results, being told.
struct Telling<'s, 'r> {
    told: Told<'s>,
    results: &'r Results,
    /// The record of the operation that ended last, while its state was not told.
    before: Option<usize>,
    /// When the state of each record was.
    when: Vec<Option<Moment>>,
}

impl Telling<'_, '_> {
    fn calls(&mut self, calls: &[Call], operations: &[Option<ParsedOp<'_>>]) -> Result<()> {
        for call in calls {
            let row = &self.results.rows[call.row];
            self.told.offset = row.offset;
            let text = &self.results.texts[row.text as usize];
            let at = self.told.begins(if text.is_empty() { b"?" } else { text })?;
            self.state_before(at)?;
            if !call.inside.is_empty() {
                let callee = operations[call.row].as_ref().and_then(|op| op.callee).unwrap_or(b"");
                self.told.starts(callee)?;
                self.calls(&call.inside, operations)?;
                self.told.ends(callee)?;
                // What the pools held when the program inside was over is seen before its caller has taken it up.
                self.glimpse(Moment::early(self.told.steps()))?;
            }
            self.before = Some(call.row);
        }
        Ok(())
    }

    /// Tells the state after the operation before.
    fn state_before(&mut self, at: Moment) -> Result<()> {
        let Some(record) = self.before.take() else { return Ok(()) };
        self.when[record] = Some(at);
        let views = POOLS.iter().zip(&self.results.rows[record].views);
        for (pool, numbers) in views.filter_map(|(pool, view)| view.map(|numbers| (*pool, numbers))) {
            self.told.state(pool, numbers.banks, numbers.reading, at)?;
        }
        Ok(())
    }

    fn glimpse(&mut self, at: Moment) -> Result<()> {
        let Some(record) = self.before.take() else { return Ok(()) };
        self.when[record] = Some(at);
        let views = POOLS.iter().zip(&self.results.rows[record].views);
        for (pool, numbers) in views.filter_map(|(pool, view)| view.map(|numbers| (*pool, numbers))) {
            self.told.glimpse(pool, numbers.banks, numbers.reading, at)?;
        }
        Ok(())
    }

    /// Tells the maps that were kept, in the order of their moments.
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
                    self.told.say(name, |id| RankEvent::Block(id, at, block))?;
                }
            }
        }
        Ok(())
    }
}
