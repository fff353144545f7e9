//! Reads the database that ttnn writes for its visualizer (`db.sqlite`).
//!
//! It contains the operations in order, the graph that was captured of each (`captured_graph`), and the allocated
//! buffers after each (`buffers`), with their addresses. `replay` feeds all of it to the code that reads captures, as if
//! the graphs were one capture. Steps, peaks, addresses and the buffers of programs are therefore those of the capture,
//! including memory that an operation allocates and frees internally. The lists fill in what no graph has: buffers that
//! existed before the first operation, changes between operations, and operations without a graph (older databases have
//! no graphs at all). A buffer without a graph lives from the first to the last operation that lists it.
//!
//! `schema` determines which tables and columns exist, because they differ between versions. `graph` has the graphs,
//! `calls` the source lines and errors, `sizes` the sizes of listed buffers, and `problems` the warnings.
//!
//! The file is opened read-only. Compressed input and pipes are first decompressed into a temporary file.

mod calls;
mod graph;
mod problems;
mod replay;
mod schema;
mod sizes;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use rustc_hash::FxHashSet;
use ttmem_model::{Error, RankId, Result, Sink};

use self::calls::Calls;
use self::graph::{GraphError, Graphs};
use self::problems::Problems;
use self::replay::{List, Listed, Replay, Spot};
use self::schema::Schema;
use self::sizes::Sizes;
use super::json::Number;
use super::tt_log::tables::Tables;
use super::ttnn_graph::capture::listed::ListedTensor;
use super::ttnn_graph::lives::Place;
use super::ttnn_graph::report::Device;
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
            input.siblings.check(&journal).map_err(|source| Error::Read { path: journal.clone(), source })?;
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

/// A row of the buffers table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buffer {
    address: Option<u64>,
    per_bank: Option<u64>,
    pool: Option<u64>,
    layout: Option<u64>,
}

/// How a buffer is distributed, by its layout number. The numbers of ttnn's report importer are different, but the
/// tensor's memory configuration takes precedence.
const SPREADS: [Option<&str>; 6] = [
    Some("interleaved"),
    None,
    Some("height_sharded"),
    Some("width_sharded"),
    Some("block_sharded"),
    Some("nd_sharded"),
];

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
            tables = self.rank(*rank, id, tables)?;
        }
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
        let has_errors =
            self.schema.has("errors") && count("errors").map_err(|error| self.corrupt(&error))? > 0;
        if has_buffers == 0 && has_errors {
            return Ok(());
        }
        if has_buffers == 0 {
            let message = "the buffers table is empty; run with \"enable_detailed_buffer_report\": true and \
                           \"enable_fast_runtime_mode\": false in TTNN_CONFIG_OVERRIDES";
            return Err(Error::NoMemoryData { file: self.file.to_owned(), message: message.into() });
        }
        let has_address = format!("buffers WHERE {} > 0", self.schema.or_null("buffers", "address"));
        let has_addresses = count(&has_address).map_err(|error| self.corrupt(&error))?;
        if has_addresses == 0 {
            let message = "no buffer has an address, because nothing ran (RunMode.NO_DISPATCH); open the report (JSON) \
                           that the database was made from";
            return Err(Error::NoMemoryData { file: self.file.to_owned(), message: message.into() });
        }
        Ok(())
    }

    /// The ranks of a database with several processes, otherwise a single `None`.
    fn ranks(&self) -> rusqlite::Result<Vec<Option<i64>>> {
        if !self.schema.has_column("operations", "rank") {
            return Ok(vec![None]);
        }
        let query = "SELECT DISTINCT rank FROM operations WHERE typeof(rank) = 'integer' ORDER BY rank";
        let mut statement = self.connection.prepare(query)?;
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

    fn rank<'s>(&self, rank: Option<i64>, id: RankId, mut tables: Tables<'s>) -> Result<Tables<'s>> {
        let failed = |error: rusqlite::Error| self.corrupt(&error);
        let operations = self.operations(rank).map_err(failed)?;
        let (number, count) = self.device_number(rank).map_err(failed)?;
        if count > 1 {
            let message = format!(
                "the database covers {count} devices; only device {number} is shown, and operations on the others appear \
                 without memory"
            );
            tables.warn(None, message)?;
        }
        let device = self.device(rank, number).map_err(failed)?;
        let sizes = self.sizes(rank, number, &device).map_err(failed)?;
        // ttnn's report importer writes this table, and lists the buffers after every operation: no rows means no
        // buffers. It derives the lists from the nodes, so they lack earlier buffers, unless the report is detailed.
        let is_imported = self.schema.has("report_metadata");
        let is_detailed = !sizes.operations.is_empty();
        let mut replay = Replay::new(tables, id, device, is_detailed || !is_imported);
        replay.only = u64::try_from(number).ok().filter(|_| count > 1);
        let tensors = self.tensors(rank, number).map_err(failed)?;
        let mut calls = Calls::read(self, rank, &operations).map_err(failed)?;
        let executed = self.executed(rank).map_err(failed)?;
        let mut graphs = Graphs::of(self, rank).map_err(failed)?;
        let mut problems = Problems::default();
        let mut statement = self.connection.prepare(&self.buffers_query(rank, number)).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        let mut next = buffer_row(rows.next().map_err(failed)?);
        for operation in &operations {
            let mut list = None;
            while let Some((of, buffer)) = next.take_if(|(of, _)| of.is_none_or(|of| of <= operation.id)) {
                if of == Some(operation.id) {
                    let list = list.get_or_insert_with(List::new);
                    let per_bank = sizes.with_aligned_pages(operation.id, &buffer);
                    problems.unreadable += u64::from(!add(list, &buffer, per_bank));
                } else {
                    problems.strays += 1;
                }
                next = buffer_row(rows.next().map_err(failed)?);
            }
            let call = calls.of_operation(operation);
            // The importer lists no buffers after an operation that did not end.
            if list.is_none() && is_imported && call.error.is_none() {
                list = Some(List::new());
            }
            let has_programs = executed.contains(&operation.id);
            let tensors = tensors.around(operation.id);
            let id = operation.id;
            let has_no_pages = is_imported && is_detailed && !sizes.operations.contains(&id);
            let is_empty = list.as_ref().is_some_and(List::is_empty);
            // An empty list is right if the next one has no earlier buffers either.
            let may_lack_earlier = has_no_pages
                && replay.has_any_earlier()
                && (!is_empty || replay.has_earlier(&self.next_list(rank, number, id).map_err(failed)?));
            let item = replay::Operation { id, call, list, may_lack_earlier, tensors, has_programs };
            graphs.with(operation.id, &mut problems, |graph| replay.operation(item, graph)).map_err(
                |error| match error {
                    GraphError::Database(error) => self.corrupt(&error),
                    GraphError::Replay(error) => error,
                },
            )?;
        }
        while next.is_some() {
            problems.strays += 1;
            next = buffer_row(rows.next().map_err(failed)?);
        }
        for call in calls.rest() {
            replay.failed_elsewhere(call);
        }
        problems.unlisted = replay.unlisted;
        problems.unplaced = replay.unplaced;
        problems.unaligned = replay.unaligned;
        problems.unknown_earlier = replay.unknown_earlier() as u64;
        let mut tables = replay.finish()?;
        for message in problems.messages(operations.len() as u64) {
            tables.warn(None, message)?;
        }
        Ok(tables)
    }

    fn buffers_query(&self, rank: Option<i64>, device: i64) -> String {
        let columns = ["address", "max_size_per_bank", "buffer_type", "buffer_layout"]
            .map(|column| self.schema.or_null("buffers", column));
        let of_device = if self.schema.has_column("buffers", "device_id") {
            format!("device_id = {device}")
        } else {
            "1".into()
        };
        format!(
            "SELECT operation_id, {} FROM buffers WHERE {of_device} AND {} ORDER BY operation_id",
            columns.join(", "),
            self.of_rank("buffers", rank),
        )
    }

    /// The places of the buffers after the next operation that has any.
    fn next_list(&self, rank: Option<i64>, device: i64, after: i64) -> rusqlite::Result<Vec<Spot>> {
        let all = self.buffers_query(rank, device);
        let query = format!(
            "WITH later AS (SELECT * FROM ({all}) WHERE operation_id > {after}) \
             SELECT * FROM later WHERE operation_id = (SELECT min(operation_id) FROM later)"
        );
        let mut statement = self.connection.prepare(&query)?;
        let mut rows = statement.query([])?;
        let mut found = List::new();
        while let Some((_, buffer)) = buffer_row(rows.next()?) {
            add(&mut found, &buffer, buffer.per_bank);
        }
        Ok(found.into_keys().collect())
    }

    fn operations(&self, rank: Option<i64>) -> rusqlite::Result<Vec<Operation>> {
        let of_rank = self.of_rank("operations", rank);
        let name = self.schema.or_null("operations", "name");
        let query =
            format!("SELECT operation_id, {name} FROM operations WHERE {of_rank} ORDER BY operation_id");
        let mut statement = self.connection.prepare(&query)?;
        let mut rows = statement.query([])?;
        let mut found: Vec<Operation> = Vec::new();
        while let Some(row) = rows.next()? {
            if let Some(id) = integer(row, 0).filter(|id| found.last().is_none_or(|last| last.id < *id)) {
                found.push(Operation { id, name: text(row, 1)? });
            }
        }
        Ok(found)
    }

    fn sizes(&self, rank: Option<i64>, number: i64, device: &Device) -> rusqlite::Result<Sizes> {
        Sizes::read(&self.connection, &self.schema, device.arch(), |table| {
            let of_rank = self.of_rank(table, rank);
            if self.schema.has_column(table, "device_id") {
                format!("device_id = {number} AND {of_rank}")
            } else {
                of_rank
            }
        })
    }

    /// The device to report, and the number of devices. If there are several, the first: all run the same program. A mesh
    /// is one device, whose sizes are those of each of its chips.
    fn device_number(&self, rank: Option<i64>) -> rusqlite::Result<(i64, i64)> {
        if !self.schema.has_column("buffers", "device_id") {
            return Ok((0, 1));
        }
        let of_rank = self.of_rank("buffers", rank);
        let query = format!(
            "SELECT MIN(device_id), COUNT(DISTINCT device_id) FROM buffers \
             WHERE typeof(device_id) = 'integer' AND {of_rank}"
        );
        let device = |row: &Row<'_>| Ok((integer(row, 0).unwrap_or(0), integer(row, 1).unwrap_or(0)));
        self.connection.query_row(&query, [], device)
    }

    /// The memory of a device.
    fn device(&self, rank: Option<i64>, device: i64) -> rusqlite::Result<Device> {
        if !self.schema.has_column("devices", "device_id") {
            return Ok(Device::default());
        }
        let columns = [
            "worker_l1_size",
            "l1_num_banks",
            "l1_bank_size",
            "address_at_first_l1_cb_buffer",
            "num_x_compute_cores",
            "num_y_compute_cores",
        ]
        .map(|column| self.schema.or_null("devices", column));
        let query = format!(
            "SELECT {} FROM devices WHERE device_id = {device} AND {}",
            columns.join(", "),
            self.of_rank("devices", rank)
        );
        let mut statement = self.connection.prepare(&query)?;
        let mut rows = statement.query([])?;
        let Some(row) = rows.next()? else { return Ok(Device::default()) };
        let number = |column: usize| integer(row, column).map_or(Number::Missing, Number::Is);
        Ok(Device {
            worker_l1_size: number(0),
            l1_num_banks: number(1),
            l1_bank_size: number(2),
            address_at_first_l1_cb_buffer: number(3),
            num_x_compute_cores: number(4),
            num_y_compute_cores: number(5),
            ..Device::default()
        })
    }

    /// The tensors of the operations, by the operation that has them as results or operands.
    fn tensors(&self, rank: Option<i64>, device: i64) -> rusqlite::Result<Tensors> {
        let mut found = Tensors::default();
        for (table, is_result) in [("output_tensors", true), ("input_tensors", false)] {
            if !self.schema.has(table) || !self.schema.has("tensors") {
                continue;
            }
            let columns = ["shape", "dtype", "layout", "address", "buffer_type", "memory_config"]
                .map(|column| self.schema.or_null("tensors", column));
            let has_ranks =
                self.schema.has_column("tensors", "rank") && self.schema.has_column(table, "rank");
            let query = format!(
                "SELECT link.operation_id, tensors.tensor_id, {} \
                 FROM {table} AS link JOIN tensors ON tensors.tensor_id = link.tensor_id{} \
                 WHERE {} IS NOT NULL AND ({} IS NULL OR device_id = {device}) AND {} ORDER BY 1",
                columns.join(", "),
                if rank.is_some() && has_ranks { " AND tensors.rank = link.rank" } else { "" },
                columns[3],
                self.schema.or_null("tensors", "device_id"),
                self.of_rank(table, rank).replace("rank", "link.rank"),
            );
            let mut statement = self.connection.prepare(&query)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (Some(operation), Some(id)) = (integer(row, 0), integer(row, 1)) else { continue };
                let tensor = ListedTensor {
                    id,
                    shape: text(row, 2)?,
                    dtype: text(row, 3)?,
                    layout: text(row, 4)?,
                    address: number(row, 5),
                    buffer_type: number(row, 6),
                    memory_config: text(row, 7)?,
                };
                found.rows.push((operation, !is_result, tensor));
            }
        }
        // Results first, because a new buffer belongs to a result.
        found.rows.sort_by_key(|(operation, is_operand, _)| (*operation, *is_operand));
        Ok(found)
    }

    /// The operations that executed programs.
    fn executed(&self, rank: Option<i64>) -> rusqlite::Result<FxHashSet<i64>> {
        if !self.schema.has_column("operation_executions", "operation_id") {
            return Ok(FxHashSet::default());
        }
        let of_rank = self.of_rank("operation_executions", rank);
        let query = format!("SELECT DISTINCT operation_id FROM operation_executions WHERE {of_rank}");
        let mut statement = self.connection.prepare(&query)?;
        let operations = statement.query_map([], |row| Ok(integer(row, 0)))?;
        operations.filter_map(Result::transpose).collect()
    }
}

/// Adds a buffer to a list. Returns whether its row is complete.
fn add(list: &mut List, buffer: &Buffer, per_bank: Option<u64>) -> bool {
    /// The type of buffers in the host's memory.
    const SYSTEM_MEMORY: u64 = 2;
    if buffer.pool == Some(SYSTEM_MEMORY) {
        return true;
    }
    let place = buffer.pool.and_then(Place::numbered);
    let (Some(place), Some(address), Some(per_bank)) = (place, buffer.address, per_bank) else {
        return false;
    };
    let layout = buffer.layout.and_then(|layout| usize::try_from(layout).ok());
    let spread = layout.and_then(|layout| SPREADS.get(layout).copied().flatten());
    list.insert((place, address), Listed { written: buffer.per_bank, per_bank, spread });
    true
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
    rows: Vec<(i64, bool, ListedTensor)>,
}

impl Tensors {
    /// The tensors of an operation.
    fn around(&self, operation: i64) -> &[(i64, bool, ListedTensor)] {
        let first = self.rows.partition_point(|(of, ..)| *of < operation);
        let end = self.rows.partition_point(|(of, ..)| *of <= operation);
        &self.rows[first..end]
    }
}

/// A buffer, and the operation that lists it.
fn buffer_row(row: Option<&Row<'_>>) -> Option<(Option<i64>, Buffer)> {
    let row = row?;
    let buffer = Buffer {
        address: number(row, 1),
        per_bank: number(row, 2),
        pool: number(row, 3),
        layout: number(row, 4),
    };
    Some((integer(row, 0), buffer))
}

/// An integer; `None` for any other value.
fn integer(row: &Row<'_>, column: usize) -> Option<i64> {
    match row.get_ref(column).ok()? {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    }
}

/// A non-negative integer; `None` for any other value.
fn number(row: &Row<'_>, column: usize) -> Option<u64> {
    match row.get_ref(column).ok()? {
        ValueRef::Integer(number) => u64::try_from(number).ok(),
        ValueRef::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// A text, converted from any stored type.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Integer(number) => number.to_string(),
        _ => String::new(),
    })
}
