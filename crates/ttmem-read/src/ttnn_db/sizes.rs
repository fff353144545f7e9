//! The sizes of a database's buffers.
//!
//! A plain report lists a buffer's size per bank with aligned pages. A detailed one (`enable_detailed_buffer_report`)
//! lists it without that alignment. In that case the page size is looked up in the page table, which only has buffers
//! in L1 that the capture allocated. The graphs have the sizes of the others. For a buffer that is older than the
//! capture, the page size is that of the tensor in it.

use rusqlite::{Connection, Row};
use rustc_hash::{FxHashMap, FxHashSet};

use super::schema::Schema;
use super::{Buffer, integer, number};
use crate::tt_log::types::scalar_bytes;
use crate::ttnn_arch::Arch;
use crate::ttnn_graph::capture::listed::ListedTensor;
use crate::ttnn_graph::lives::Place;
use crate::ttnn_graph::node::{element, is_tiled, shape};

const DRAM: u64 = 0;
/// The alignment of pages in L1, on every architecture.
const L1_PAGE_ALIGNMENT: u64 = 16;

/// A buffer after an operation: the operation, the address, and its pool number.
type Key = (i64, u64, u64);

/// The page sizes of buffers.
#[derive(Default)]
pub(super) struct Sizes {
    arch: Option<Arch>,
    /// Page sizes that are not a multiple of every alignment.
    pages: FxHashMap<Key, u64>,
    /// The operations with pages. If there are any, the report is detailed, and its lists have the buffers that existed
    /// before it.
    pub operations: FxHashSet<i64>,
}

impl Sizes {
    /// Reads the sizes. `conditions` returns the SQL condition on a table's rows for the device and rank.
    pub fn read(
        connection: &Connection,
        schema: &Schema,
        arch: Option<Arch>,
        conditions: impl Fn(&str) -> String,
    ) -> rusqlite::Result<Self> {
        let mut sizes = Self { arch, ..Self::default() };
        for table in ["buffer_chunks", "buffer_pages"] {
            let columns = ["operation_id", "address", "buffer_type", "page_size"];
            if columns.iter().all(|column| schema.has_column(table, column)) {
                let query = format!("SELECT DISTINCT operation_id FROM {table} WHERE {}", conditions(table));
                let mut statement = connection.prepare(&query)?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    sizes.operations.extend(integer(row, 0));
                }
                sizes.read_pages(connection, table, &conditions(table))?;
            }
        }
        Ok(sizes)
    }

    fn read_pages(&mut self, connection: &Connection, table: &str, condition: &str) -> rusqlite::Result<()> {
        let most = Arch::Blackhole.alignment();
        let query = format!(
            "SELECT operation_id, address, buffer_type, MAX(page_size) FROM {table} \
             WHERE page_size % {most} <> 0 AND {condition} GROUP BY 1, 2, 3"
        );
        let mut statement = connection.prepare(&query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let (Some(key), Some(page)) = (key(row), number(row, 3)) {
                self.pages.insert(key, page);
            }
        }
        Ok(())
    }

    /// The size per bank, with aligned pages, of a buffer that is listed after an operation.
    pub fn with_aligned_pages(&self, operation: i64, buffer: &Buffer) -> Option<u64> {
        let listed = buffer.per_bank?;
        let key = buffer.address.zip(buffer.pool).map(|(address, pool)| (operation, address, pool));
        let page = key.and_then(|key| self.pages.get(&key)).copied().filter(|page| *page > 0);
        page.and_then(|page| self.with_padding(listed, page, buffer.pool)).or(Some(listed))
    }

    fn with_padding(&self, listed: u64, page: u64, pool: Option<u64>) -> Option<u64> {
        let alignment = if pool == Some(DRAM) { self.arch?.alignment() } else { L1_PAGE_ALIGNMENT };
        padded(listed, page, alignment)
    }
}

/// A size with each page aligned.
fn padded(listed: u64, page: u64, alignment: u64) -> Option<u64> {
    listed.div_ceil(page).checked_mul(page.checked_next_multiple_of(alignment)?)
}

/// A tensor, as far as it determines the pages of its buffer.
pub(super) struct Rows<'a> {
    pub shape: &'a str,
    pub dtype: &'a str,
    pub layout: &'a str,
    pub memory_config: &'a str,
}

impl<'a> Rows<'a> {
    pub fn of(row: &'a ListedTensor) -> Self {
        let ListedTensor { shape, dtype, layout, memory_config, .. } = row;
        Self { shape, dtype, layout, memory_config }
    }

    /// The size per bank with aligned rows of a buffer whose listed size lacks the alignment: a row is a page, or the
    /// part of it in a shard.
    pub fn padded(&self, listed: u64, place: Place, arch: Arch) -> Option<u64> {
        if is_tiled(self.layout) {
            return None;
        }
        let width = match self.memory_config.split_once("shard_spec=ShardSpec") {
            Some((_, spec)) => *shape(spec.split_once("shape=")?.1)?.last()?,
            None => *shape(self.shape)?.last()?,
        };
        let page =
            width.checked_mul(scalar_bytes(element(self.dtype).as_bytes())?).filter(|page| *page > 0)?;
        let alignment = match place {
            Place::Dram | Place::Trace => arch.alignment(),
            Place::L1 | Place::L1Small => L1_PAGE_ALIGNMENT,
        };
        if listed.is_multiple_of(page) { padded(listed, page, alignment) } else { None }
    }
}

fn key(row: &Row<'_>) -> Option<Key> {
    let operation = integer(row, 0)?;
    number(row, 1).zip(number(row, 2)).map(|(address, pool)| (operation, address, pool))
}
