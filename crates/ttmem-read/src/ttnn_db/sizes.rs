//! The allocated sizes of a database's buffers.
//!
//! A plain report lists a buffer's size per bank with aligned pages. A detailed one (`enable_detailed_buffer_report`)
//! lists it without that alignment. In that case the page size is looked up in the page table. DRAM has no page rows,
//! so its aligned size is looked up in the captured graph of the operation that allocated the buffer. The allocator
//! then also aligns the buffer.

use rusqlite::{Connection, Row};
use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::lives::Buffer;
use super::schema::Schema;
use super::{number, text};
use crate::json::Number;
use crate::ttnn_arch::Arch;

const DRAM: u64 = 0;
/// The alignment of pages in L1, on every architecture.
const L1_PAGE_ALIGNMENT: u64 = 16;

/// A buffer after an operation: the operation, the address, and its pool number.
type Key = (i64, u64, u64);

/// Information on buffer sizes from outside the buffer rows.
#[derive(Default)]
pub(super) struct Sizes {
    arch: Option<Arch>,
    /// Page sizes that are not a multiple of every alignment.
    pages: FxHashMap<Key, u64>,
    /// Sizes per bank including page alignment, by the operation that allocated the buffer.
    padded: FxHashMap<Key, u64>,
    /// The same for allocated buffers, by address and pool, each with its listed size.
    alive: FxHashMap<(u64, u64), (u64, u64)>,
    /// The number of buffers with unknown alignment.
    pub unaligned: u64,
}

impl Sizes {
    /// Reads the sizes. `conditions` returns the SQL condition on a table's rows for the device and rank.
    pub fn read(
        connection: &Connection,
        schema: &Schema,
        worker_l1_size: Option<u64>,
        conditions: impl Fn(&str) -> String,
    ) -> rusqlite::Result<Self> {
        let arch = worker_l1_size.and_then(Arch::with_worker_l1);
        let mut sizes = Self { arch, ..Self::default() };
        let exists = |table: &str, condition: &str| -> rusqlite::Result<bool> {
            let query = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE {condition})");
            connection.query_row(&query, [], |row| row.get(0))
        };
        let mut is_detailed = false;
        for table in ["buffer_chunks", "buffer_pages"] {
            if schema.has(table) && schema.has_column(table, "page_size") {
                is_detailed |= exists(table, &conditions(table))?;
                sizes.read_pages(connection, table, &conditions(table))?;
            }
        }
        // Pages of tiles are already aligned.
        let has_rows = format!("buffer_type = {DRAM} AND layout LIKE '%ROW_MAJOR%'");
        if is_detailed
            && schema.has("captured_graph")
            && schema.has_column("tensors", "layout")
            && exists("tensors", &has_rows)?
        {
            sizes.read_graphs(connection, &conditions("captured_graph"))?;
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
            if let (Some(key), Some(page)) = (key(row)?, number(row, 3)) {
                self.pages.insert(key, page);
            }
        }
        Ok(())
    }

    fn read_graphs(&mut self, connection: &Connection, condition: &str) -> rusqlite::Result<()> {
        let query = format!(
            "SELECT operation_id, captured_graph FROM captured_graph \
             WHERE captured_graph LIKE '%\"buffer_allocate\"%' AND {condition}"
        );
        let mut statement = connection.prepare(&query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let operation = row.get(0)?;
            let nodes: Vec<GraphNode> = serde_json::from_str(&text(row, 1)?).unwrap_or_default();
            for node in nodes.into_iter().filter(|node| node.node_type == "buffer_allocate") {
                let params = node.params.unwrap_or_default();
                if let (Some(address), Some(pool), Some(per_bank)) =
                    (params.address.get(), params.buffer_type.get(), params.max_size_per_bank.get())
                {
                    self.padded.insert((operation, address, pool), per_bank);
                }
            }
        }
        Ok(())
    }

    /// The allocated size per bank of a buffer that is listed after an operation.
    pub fn allocated(&mut self, operation: i64, buffer: &Buffer) -> Option<u64> {
        let listed = buffer.per_bank?;
        let key = buffer.address.zip(buffer.pool).map(|(address, pool)| (operation, address, pool));
        let page = key.and_then(|key| self.pages.get(&key)).copied().filter(|page| *page > 0);
        let padded = page.and_then(|page| self.with_padding(listed, page, buffer.pool));
        let per_bank = padded.or_else(|| self.made_with(key?, listed)).unwrap_or(listed);
        match self.arch {
            Some(arch) => Some(arch.allocated(per_bank)),
            None => {
                self.unaligned += u64::from(!per_bank.is_multiple_of(Arch::Blackhole.alignment()));
                Some(per_bank)
            }
        }
    }

    /// The size that a buffer was allocated with, by this operation or by an earlier one if the buffer is still the
    /// same.
    fn made_with(&mut self, key: Key, listed: u64) -> Option<u64> {
        let place = (key.1, key.2);
        if let Some(&padded) = self.padded.get(&key) {
            self.alive.insert(place, (listed, padded));
        }
        self.alive.get(&place).filter(|(of, _)| *of == listed).map(|(_, padded)| *padded)
    }

    fn with_padding(&self, listed: u64, page: u64, pool: Option<u64>) -> Option<u64> {
        let alignment = if pool == Some(DRAM) { self.arch?.alignment() } else { L1_PAGE_ALIGNMENT };
        listed.div_ceil(page).checked_mul(page.checked_next_multiple_of(alignment)?)
    }
}

fn key(row: &Row<'_>) -> rusqlite::Result<Option<Key>> {
    let operation = row.get(0)?;
    Ok(number(row, 1).zip(number(row, 2)).map(|(address, pool)| (operation, address, pool)))
}

#[derive(Deserialize)]
struct GraphNode {
    #[serde(default)]
    node_type: String,
    params: Option<GraphParams>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GraphParams {
    address: Number,
    buffer_type: Number,
    max_size_per_bank: Number,
}
