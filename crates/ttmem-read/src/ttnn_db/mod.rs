//! Reads the database that ttnn writes for its visualizer (`db.sqlite`).
//!
//! It contains the operations in order and, after each operation, the allocated buffers with their addresses. A buffer
//! therefore lives from the first to the last operation that lists it, and the usage of a bank is the sum of its
//! buffers. Memory that an operation allocates and frees internally is not recorded. `schema` determines which tables
//! and columns exist, because they differ between versions. `sizes` computes the allocated size of a buffer, and
//! `lives` tracks the buffers.
//!
//! The file is opened read-only. Compressed input and pipes are first decompressed into a temporary file.

mod lives;
mod schema;
mod sizes;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row};
use rustc_hash::FxHashMap;
use ttmem_model::words::{by_count, counted_as};
use ttmem_model::{Error, OpKind, RankEvent, RankId, Result, Sink, Step, StepMarks, StepRow};

use self::lives::{Buffer, Lives, TensorRow};
use self::schema::Schema;
use self::sizes::Sizes;
use super::tt_log::fault::ParsedFault;
use super::tt_log::tables::Tables;
use super::{Input, Reader, Sniff};

const MAGIC: &[u8] = b"SQLite format 3\0";

/// The reader of ttnn report databases.
pub(super) struct TtnnDb;

impl Reader for TtnnDb {
    fn name(&self) -> &'static str {
        "ttnn_db"
    }

    fn about(&self) -> &'static str {
        "the database of a ttnn report (db.sqlite), as used by the visualizer"
    }

    fn capture(&self) -> &'static str {
        "TTNN_CONFIG_OVERRIDES='{\"enable_fast_runtime_mode\": false, \"enable_logging\": true, \"report_name\": \"run\", \
         \"enable_detailed_buffer_report\": true}' python model.py"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        if head.starts_with(MAGIC) { Sniff::Yes } else { Sniff::No }
    }

    fn read(&self, mut input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
        let file = input.name;
        let failed = |source| Error::Read { path: file.into(), source };
        let journal = PathBuf::from(format!("{file}-wal"));
        let has_journal = input.rereadable && journal.metadata().is_ok_and(|journal| journal.len() > 0);
        if input.rereadable && !has_journal {
            return Database::open(&untouched(Path::new(file)), file)?.read(sink);
        }
        // Data that is only in the write-ahead log is read from a copy: opening the original would write files next to it.
        let folder = tempfile::tempdir().map_err(failed)?;
        let copy = folder.path().join("db.sqlite");
        io::copy(&mut input.stream, &mut File::create(&copy).map_err(failed)?).map_err(failed)?;
        if has_journal {
            std::fs::copy(&journal, folder.path().join("db.sqlite-wal")).map_err(failed)?;
        }
        Database::open(&copy, file)?.read(sink)
    }
}

/// A database and its display name.
struct Database<'n> {
    connection: Connection,
    schema: Schema,
    file: &'n str,
}

/// A row of the operations table.
struct Operation {
    id: i64,
    name: String,
}

impl<'n> Database<'n> {
    fn open(path: &Path, file: &'n str) -> Result<Self> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let corrupt = |error: rusqlite::Error| Error::Corrupt {
            file: file.to_owned(),
            message: format!("cannot read the database ({error})"),
        };
        let connection = Connection::open_with_flags(path, flags).map_err(corrupt)?;
        let schema = Schema::of(&connection).map_err(corrupt)?;
        Ok(Self { connection, schema, file })
    }

    fn corrupt(&self, error: &rusqlite::Error) -> Error {
        let message = format!("corrupt database ({error})");
        Error::Corrupt { file: self.file.to_owned(), message }
    }

    fn read(&self, sink: &mut dyn Sink) -> Result<()> {
        self.check()?;
        let mut tables = Tables::new(sink);
        let ranks = self.ranks().map_err(|error| self.corrupt(&error))?;
        for rank in &ranks {
            let label = rank.map(|rank| rank.to_string());
            let id = tables.rank(label.as_deref().filter(|_| ranks.len() > 1).map(str::as_bytes))?;
            self.rank(*rank, id, &mut tables)?;
        }
        tables.warn(
            None,
            "a database lists the buffers after each operation; memory that an operation allocates and frees \
             internally is not recorded, so actual peaks may be higher",
        )?;
        tables.end()
    }

    /// Fails if there is nothing to read.
    fn check(&self) -> Result<()> {
        if !self.schema.has("operations") || !self.schema.has("buffers") {
            let tables = self.schema.names();
            let what = format!("an SQLite database with {tables}, not a ttnn report");
            return Err(Error::UnknownFormat { file: self.file.to_owned(), what });
        }
        let count = |table: &str| -> rusqlite::Result<i64> {
            self.connection.query_row(&format!("SELECT EXISTS (SELECT 1 FROM {table})"), [], |row| row.get(0))
        };
        let has_buffers = count("buffers").map_err(|error| self.corrupt(&error))?;
        if has_buffers == 0 {
            let message = "the buffers table is empty; run with \"enable_detailed_buffer_report\": true and \
                           \"enable_fast_runtime_mode\": false in TTNN_CONFIG_OVERRIDES";
            return Err(Error::NoMemoryData { file: self.file.to_owned(), message: message.into() });
        }
        Ok(())
    }

    /// The ranks of a database with several processes, otherwise a single `None`.
    fn ranks(&self) -> rusqlite::Result<Vec<Option<i64>>> {
        if !self.schema.has_column("operations", "rank") {
            return Ok(vec![None]);
        }
        let mut statement = self.connection.prepare("SELECT DISTINCT rank FROM operations ORDER BY rank")?;
        let ranks = statement.query_map([], |row| row.get(0))?;
        ranks.map(|rank| rank.map(Some)).collect()
    }

    /// The condition `rank = 1`, or a condition that is always true if the table has no ranks.
    fn of_rank(&self, table: &str, rank: Option<i64>) -> String {
        match rank.filter(|_| self.schema.has_column(table, "rank")) {
            Some(rank) => format!("rank = {rank}"),
            None => "1".into(),
        }
    }

    fn rank(&self, rank: Option<i64>, id: RankId, tables: &mut Tables<'_>) -> Result<()> {
        let failed = |error: rusqlite::Error| self.corrupt(&error);
        let operations = self.operations(rank).map_err(failed)?;
        let mut lives = Lives::new(id);
        let (device, worker_l1_size) = self.device(rank, &mut lives, tables)?;
        let mut sizes = self.sizes(rank, device, worker_l1_size).map_err(failed)?;
        let tensors = self.tensors(rank, device).map_err(failed)?;
        let mut statement = self
            .connection
            .prepare(&format!(
                "SELECT operation_id, address, max_size_per_bank, buffer_type, {} FROM buffers \
                 WHERE device_id = {device} AND {} ORDER BY operation_id, address",
                self.schema.or_null("buffers", "buffer_layout"),
                self.of_rank("buffers", rank),
            ))
            .map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut next = rows.next().map_err(failed)?.map(buffer_row).transpose().map_err(failed)?;
        let (mut strays, mut unlisted) = (0_u64, 0_u64);
        // ttnn's report importer writes this table, and lists the buffers after every operation: no rows means no
        // buffers.
        let lists_all = self.schema.has("report_metadata");
        let locations = self.locations(rank).map_err(failed)?;
        for (step, operation) in (0..).zip(&operations) {
            say_step(operation, locations.get(&operation.id).map(String::as_str), id, tables)?;
            let mut is_listed = false;
            while let Some((of, mut buffer)) = next.take_if(|(of, _)| *of <= operation.id) {
                if of == operation.id {
                    is_listed = true;
                    buffer.per_bank = sizes.allocated(of, &buffer);
                    lives.seen(buffer);
                } else {
                    strays += 1;
                }
                next = rows.next().map_err(failed)?.map(buffer_row).transpose().map_err(failed)?;
            }
            if is_listed || lists_all {
                lives.step_done(step, tensors.around(operation.id), tables)?;
            } else {
                unlisted += 1;
            }
        }
        if strays > 0 {
            let rows = counted_as(
                strays,
                "buffer row refers to an operation that does not exist and was",
                "buffer rows refer to operations that do not exist and were",
            );
            let message = format!("{rows} skipped");
            tables.warn(None, message)?;
        }
        if unlisted > 0 {
            let message = format!(
                "{} no buffer rows; usage after {} is unknown and assumed to be unchanged",
                counted_as(unlisted, "operation has", "operations have"),
                by_count(unlisted, "it", "them")
            );
            tables.warn(None, message)?;
        }
        if sizes.unaligned > 0 {
            let message = format!(
                "the database does not name the device architecture, so {} not include the allocator's alignment; \
                 each may be up to 63 bytes per bank too small",
                counted_as(sizes.unaligned, "buffer size does", "buffer sizes do")
            );
            tables.warn(None, message)?;
        }
        lives.finish(tables)?;
        self.faults(&operations, rank, id, tables)
    }

    fn operations(&self, rank: Option<i64>) -> rusqlite::Result<Vec<Operation>> {
        let of_rank = self.of_rank("operations", rank);
        let query =
            format!("SELECT operation_id, name FROM operations WHERE {of_rank} ORDER BY operation_id");
        let mut statement = self.connection.prepare(&query)?;
        let operation = |row: &Row<'_>| Ok(Operation { id: row.get(0)?, name: text(row, 1)? });
        statement.query_map([], operation)?.collect()
    }

    fn sizes(&self, rank: Option<i64>, device: i64, worker_l1_size: Option<u64>) -> rusqlite::Result<Sizes> {
        Sizes::read(&self.connection, &self.schema, worker_l1_size, |table| {
            let of_rank = self.of_rank(table, rank);
            if self.schema.has_column(table, "device_id") {
                format!("device_id = {device} AND {of_rank}")
            } else {
                of_rank
            }
        })
    }

    /// The device to report, its banks, and the L1 size of its cores. If there are several, the first: all run the same
    /// program.
    fn device(
        &self,
        rank: Option<i64>,
        lives: &mut Lives,
        tables: &mut Tables<'_>,
    ) -> Result<(i64, Option<u64>)> {
        let failed = |error: rusqlite::Error| self.corrupt(&error);
        let of_rank = self.of_rank("buffers", rank);
        let query = format!("SELECT MIN(device_id), COUNT(DISTINCT device_id) FROM buffers WHERE {of_rank}");
        let (device, count) = self
            .connection
            .query_row(&query, [], |row| {
                Ok((row.get::<_, Option<i64>>(0)?.unwrap_or(0), row.get::<_, i64>(1)?))
            })
            .map_err(failed)?;
        if count > 1 {
            tables
                .warn(None, format!("the database covers {count} devices; only device {device} is shown"))?;
        }
        let mut worker_l1_size = None;
        if self.schema.has("devices") {
            let columns = ["l1_num_banks", "l1_bank_size", "worker_l1_size"]
                .map(|column| self.schema.or_null("devices", column));
            let query = format!("SELECT {} FROM devices WHERE device_id = {device}", columns.join(", "));
            let mut statement = self.connection.prepare(&query).map_err(failed)?;
            let mut rows = statement.query([]).map_err(failed)?;
            if let Some(row) = rows.next().map_err(failed)? {
                (lives.l1_banks, lives.l1_bank_size) = (number(row, 0), number(row, 1));
                worker_l1_size = number(row, 2);
            }
        }
        Ok((device, worker_l1_size))
    }

    /// The tensors of the operations, by the operation that has them as results or operands.
    fn tensors(&self, rank: Option<i64>, device: i64) -> rusqlite::Result<Tensors> {
        let mut found = Tensors::default();
        for (table, is_result) in [("output_tensors", true), ("input_tensors", false)] {
            if !self.schema.has(table) || !self.schema.has("tensors") {
                continue;
            }
            let query = format!(
                "SELECT link.operation_id, tensors.tensor_id, shape, dtype, layout, address, buffer_type, {} \
                 FROM {table} AS link JOIN tensors ON tensors.tensor_id = link.tensor_id{} \
                 WHERE address IS NOT NULL AND (device_id IS NULL OR device_id = {device}) AND {} ORDER BY 1",
                self.schema.or_null("tensors", "memory_config"),
                match rank
                    .filter(|_| self.schema.has_column("tensors", "rank")
                        && self.schema.has_column(table, "rank"))
                {
                    Some(_) => " AND tensors.rank = link.rank",
                    None => "",
                },
                self.of_rank(table, rank).replace("rank", "link.rank"),
            );
            let mut statement = self.connection.prepare(&query)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let tensor = TensorRow {
                    id: row.get(1)?,
                    shape: text(row, 2)?,
                    dtype: text(row, 3)?,
                    layout: text(row, 4)?,
                    address: number(row, 5),
                    buffer_type: number(row, 6),
                    memory_config: text(row, 7)?,
                };
                found.rows.push((row.get(0)?, !is_result, tensor));
            }
        }
        // Results first, because a new buffer belongs to a result.
        found.rows.sort_by_key(|(operation, is_operand, _)| (*operation, *is_operand));
        Ok(found)
    }

    /// The source locations of operations: the innermost line of the recorded stack.
    fn locations(&self, rank: Option<i64>) -> rusqlite::Result<FxHashMap<i64, String>> {
        let mut found = FxHashMap::default();
        if !self.schema.has("stack_traces") {
            return Ok(found);
        }
        let of_rank = self.of_rank("stack_traces", rank);
        let query = format!("SELECT operation_id, stack_trace FROM stack_traces WHERE {of_rank}");
        let mut statement = self.connection.prepare(&query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let stack = text(row, 1)?;
            if let Some(line) = stack.lines().map(str::trim).rfind(|line| line.starts_with("File \"")) {
                found.insert(row.get(0)?, line.to_owned());
            }
        }
        Ok(found)
    }

    /// The errors that the program recorded.
    fn faults(
        &self,
        operations: &[Operation],
        rank: Option<i64>,
        id: RankId,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        if !self.schema.has("errors") {
            return Ok(());
        }
        let failed = |error: rusqlite::Error| self.corrupt(&error);
        let of_rank = self.of_rank("errors", rank);
        let query = format!(
            "SELECT operation_id, operation_name, error_message FROM errors WHERE {of_rank} ORDER BY 1"
        );
        let mut statement = self.connection.prepare(&query).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (operation, name, message) = (
                row.get::<_, i64>(0).map_err(failed)?,
                text(row, 1).map_err(failed)?,
                text(row, 2).map_err(failed)?,
            );
            let found = operations.binary_search_by_key(&operation, |operation| operation.id);
            let step = found.ok().and_then(|step| Step::try_from(step).ok());
            match message.lines().find_map(|line| ParsedFault::find(line.as_bytes())) {
                Some(parsed) => {
                    let mut fault = parsed.fault(step, 0, tables)?;
                    fault.ended_program = true;
                    tables.say(id, RankEvent::Fault(fault))?;
                }
                None => {
                    let first = message.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
                    tables.warn(None, format!("operation {operation} ({name}) failed ({first})"))?;
                }
            }
        }
        Ok(())
    }
}

fn say_step(operation: &Operation, loc: Option<&str>, id: RankId, tables: &mut Tables<'_>) -> Result<()> {
    let gives_back = operation.name.ends_with("deallocate");
    let kind = if gives_back { OpKind::Deallocate } else { OpKind::Compute };
    let op = tables.plain_op(operation.name.as_bytes(), loc.map(str::as_bytes), kind)?;
    tables.say(id, RankEvent::Step(StepRow { op, run: None, offset: 0, marks: StepMarks::default() }))
}

/// A URI of the file that makes SQLite write nothing, not even files next to it.
fn untouched(path: &Path) -> PathBuf {
    let mut name = String::from("file:");
    for character in path.to_string_lossy().chars() {
        match character {
            '%' => name.push_str("%25"),
            '?' => name.push_str("%3f"),
            '#' => name.push_str("%23"),
            other => name.push(other),
        }
    }
    name.push_str("?immutable=1");
    name.into()
}

/// The tensors of all operations, in order.
#[derive(Default)]
struct Tensors {
    /// The operation, whether the tensor is its operand, and the tensor.
    rows: Vec<(i64, bool, TensorRow)>,
}

impl Tensors {
    /// The tensors of an operation.
    fn around(&self, operation: i64) -> &[(i64, bool, TensorRow)] {
        let first = self.rows.partition_point(|(of, ..)| *of < operation);
        let end = self.rows.partition_point(|(of, ..)| *of <= operation);
        &self.rows[first..end]
    }
}

/// A buffer, and the operation that lists it.
fn buffer_row(row: &Row<'_>) -> rusqlite::Result<(i64, Buffer)> {
    let buffer = Buffer {
        address: number(row, 1),
        per_bank: number(row, 2),
        pool: number(row, 3),
        layout: number(row, 4),
    };
    Ok((row.get(0)?, buffer))
}

/// A non-negative integer; `None` for any other value.
fn number(row: &Row<'_>, column: usize) -> Option<u64> {
    match row.get_ref(column).ok()? {
        rusqlite::types::ValueRef::Integer(number) => u64::try_from(number).ok(),
        rusqlite::types::ValueRef::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// A text, converted from any stored type.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        rusqlite::types::ValueRef::Integer(number) => number.to_string(),
        _ => String::new(),
    })
}
