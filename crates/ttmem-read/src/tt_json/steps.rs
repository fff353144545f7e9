//! The memory file: a step for each row, with the pool usage before it.

use ttmem_model::words::{by_count, counted, counted_as};
use ttmem_model::{Error, Moment, OpKind, RankEvent, RankId, Result, Step, StepMarks, StepRow, StrId};

use super::document::{Document, JsonStream};
use super::graphs::Graphs;
use super::notes::Notes;
use super::operations::{Listed, Operations, location, operation_name};
use super::rows::{MemoryRow, Metadata};
use super::runs::{Place, Runs};
use super::states::Pools;
use crate::json::Stop;
use crate::json::field::{Field, Object};
use crate::tt_log::operation::ParsedOp;
use crate::tt_log::tables::{OpRef, Tables};

/// The name of an operation that a row does not name.
const UNKNOWN: &str = "unknown";

/// Reads the memory file.
pub(super) struct Steps<'a, 's> {
    operations: &'a Operations,
    graphs: &'a Graphs,
    notes: &'a mut Notes,
    tables: &'a mut Tables<'s>,
    pub pools: Pools,
    /// The values before the rows: the rank's label, and the expected number of rows.
    pub label: Option<String>,
    /// Whether `ttmem` wrote the last row. tt-memory-profiler 0.x does not number steps.
    pub is_ours: bool,
    total: Option<u32>,
    /// The rank; set at the first row.
    rank: Option<(RankId, Runs)>,
    /// The number of rows, and of those that became steps.
    rows: usize,
    pub count: Step,
    misplaced: usize,
    mismatched: usize,
    not_listed: usize,
}

impl Document for Steps<'_, '_> {
    const ROWS: &'static str = "operations";

    fn row(&mut self, json: &mut JsonStream) -> Result<(), Stop> {
        if let Some(Object(row)) = self.notes.parse_row(json)? {
            self.step(row)?;
        }
        self.rows += 1;
        self.notes.next_row();
        Ok(())
    }

    fn entry(&mut self, key: &str, json: &mut JsonStream) -> Result<(), Stop> {
        if key != "metadata" {
            return Ok(json.skip()?);
        }
        if let Some(Object::<Metadata>(metadata)) = self.notes.parse(json, "metadata")? {
            self.label = self.notes.known(metadata.rank, "rank");
            self.total = self.notes.known(metadata.total_operations, "total_operations");
            if let Some(config) = self.notes.known(metadata.memory_config, "memory_config") {
                self.pools.list(config, self.notes);
            }
        }
        Ok(())
    }
}

impl<'a, 's> Steps<'a, 's> {
    pub fn new(
        operations: &'a Operations,
        graphs: &'a Graphs,
        notes: &'a mut Notes,
        tables: &'a mut Tables<'s>,
    ) -> Self {
        Self {
            operations,
            graphs,
            notes,
            tables,
            pools: Pools::default(),
            label: None,
            is_ours: false,
            total: None,
            rank: None,
            rows: 0,
            count: 0,
            misplaced: 0,
            mismatched: 0,
            not_listed: 0,
        }
    }

    fn step(&mut self, mut row: MemoryRow) -> Result<()> {
        let (rank, mut runs) = match self.rank.take() {
            Some(begun) => begun,
            None => self.begin()?,
        };
        let memory = std::mem::take(&mut row.memory);
        let step = self.operation(row, &mut runs)?;
        self.tables.say(rank, RankEvent::Step(step))?;
        if let Some(states) = self.notes.known(memory, "memory") {
            self.pools.observe(rank, Moment::before(self.count), states, self.notes, self.tables)?;
        }
        self.rank = Some((rank, runs));
        self.count += 1;
        if self.count < Moment::MAX_STEPS {
            Ok(())
        } else {
            Err(Error::NotFound("too many operations".into()))
        }
    }

    /// Emits the rank and its graphs.
    fn begin(&mut self) -> Result<(RankId, Runs)> {
        let rank = self.tables.rank(self.label.as_deref().map(str::as_bytes))?;
        self.graphs.say(rank, self.tables)?;
        Ok((rank, Runs::new(rank)))
    }

    /// The operation of a row.
    fn operation(&mut self, row: MemoryRow, runs: &mut Runs) -> Result<StepRow> {
        let index = self.notes.known(row.index, "index");
        if index.is_some_and(|index| index as usize != self.rows) {
            self.misplaced += 1;
        }
        let name = self.notes.known(row.mlir_op, "mlir_op");
        let op_type = self.notes.known(row.op_type, "op_type");
        let is_ours = !matches!(row.step, Field::Missing);
        self.is_ours = is_ours;
        let loc = self.notes.known(row.loc, "loc").and_then(|loc| location(loc, is_ours));
        let listed = self.listed(index, name.as_deref(), loc.as_deref())?;
        let op = match listed {
            Some(listed) => listed.op,
            None => {
                let (name, callee) = match &name {
                    Some(name) => operation_name(name, is_ours),
                    None => (op_type.as_deref().unwrap_or(UNKNOWN), None),
                };
                self.bare_op(name, callee, loc.as_deref())?
            }
        };
        let facts = self.tables.op_facts(op);
        let graph = self.notes.known(row.const_eval_graph, "const_eval_graph");
        let graph = graph.map(|graph| self.tables.text(graph.as_bytes())).transpose()?;
        let cache_miss = self.notes.known(row.const_eval_cache_miss, "const_eval_cache_miss");
        let is_weight = self.notes.known(row.is_weight_op, "is_weight_op");
        let loads = facts.kind == OpKind::LoadCached;
        let place = Place {
            program: listed.and_then(|listed| listed.program),
            number: listed.and_then(|listed| listed.run),
            // An operation that loads results has the name of the program that computed them.
            const_eval: graph.filter(|_| !loads),
            module: listed.and_then(|listed| listed.module),
            result: listed.and_then(|listed| listed.result),
        };
        let is_known = place.program.is_some() || place.const_eval.is_some() || is_weight.is_some();
        let run = if is_known { Some(runs.of(self.count, place, facts, self.tables)?) } else { None };
        Ok(StepRow { op: facts.id, run, offset: 0, marks: marks(loads && graph.is_some(), cache_miss) })
    }

    /// The row of the operations file, if it is the same operation.
    fn listed(
        &mut self,
        index: Option<u32>,
        name: Option<&str>,
        loc: Option<&str>,
    ) -> Result<Option<Listed>> {
        let Some(listed) = self.operations.find(self.rows, index).copied() else {
            self.not_listed += 1;
            return Ok(None);
        };
        let mut is_other = |text: Option<&str>, known: Option<StrId>| -> Result<bool> {
            let Some(text) = text else { return Ok(false) };
            let text = self.tables.text(text.as_bytes())?;
            Ok(known.is_some_and(|known| known != text))
        };
        if is_other(name, Some(listed.name))? || is_other(loc, listed.loc)? {
            self.mismatched += 1;
            return Ok(None);
        }
        Ok(Some(listed))
    }

    /// An operation that is only known by these parts.
    fn bare_op(&mut self, name: &str, callee: Option<&str>, loc: Option<&str>) -> Result<OpRef> {
        let (callee, loc) = (callee.map(str::as_bytes), loc.map(str::as_bytes));
        let parts = ParsedOp { name: name.as_bytes(), callee, loc, ..ParsedOp::default() };
        let op = self.tables.operation_of(&parts)?;
        op.ok_or_else(|| Error::Bug("an operation without operands has too many".into()))
    }

    /// Ends the programs, and warns about inconsistent rows.
    pub fn finish(&mut self, is_whole: bool) -> Result<()> {
        if let Some((rank, runs)) = &mut self.rank {
            runs.end(self.count, is_whole, self.tables)?;
            self.pools.finish(*rank, self.notes, self.tables)?;
        }
        let rows = self.rows;
        if let Some(total) = self.total.filter(|total| is_whole && *total as usize != rows) {
            self.notes.warn(format!(
                "the metadata lists {}, but the file contains {rows}; the report covers those",
                counted(total, "operation")
            ));
        }
        if self.misplaced > 0 {
            let misplaced = counted_as(
                self.misplaced,
                "row has an index that does not match its position",
                "rows have an index that does not match their position",
            );
            self.notes.warn(format!("{misplaced}; steps follow the order of the rows"));
        }
        Ok(())
    }

    /// Warns about differences between the two lists.
    pub fn compare(&mut self, operations: &str) {
        let (listed, rows) = (self.operations.len(), self.rows);
        if self.mismatched > 0 {
            let mismatched = self.mismatched;
            self.notes.warn(format!(
                "{} of {operations} {} match the operations in the memory file and {} skipped; the file may belong to \
                 another run",
                counted(mismatched, "row"),
                by_count(mismatched, "does not", "do not"),
                by_count(mismatched, "was", "were")
            ));
        }
        if listed != rows {
            self.notes.warn(format!(
                "{operations} has {}, but the memory file has {rows}; {} known only by name",
                counted(listed, "row"),
                counted_as(self.not_listed, "operation is", "operations are")
            ));
        }
    }
}

/// Whether a load of cached results was a hit or a miss, if the row contains it.
fn marks(loads: bool, cache_miss: Option<bool>) -> StepMarks {
    match (loads, cache_miss) {
        (true, Some(true)) => StepMarks::CACHE_MISS,
        (true, Some(false)) => StepMarks::CACHE_HIT,
        _ => StepMarks::default(),
    }
}
