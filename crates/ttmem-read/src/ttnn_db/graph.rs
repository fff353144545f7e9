//! The captured graphs of operations.

use rusqlite::Statement;
use rusqlite::types::ValueRef;
use rustc_hash::FxHashMap;
use serde_json::value::RawValue;
use ttmem_model::{Error, Result};

use super::problems::Problems;
use super::{Database, integer};
use crate::ttnn_graph::node::Node;

/// The captured graph of an operation.
pub(super) struct Graph<'a> {
    /// The nodes in order; `None` for an element that is not a node.
    pub nodes: Vec<Option<Node<'a>>>,
}

impl<'a> Graph<'a> {
    /// Parses a graph.
    pub fn parse(text: &'a [u8]) -> serde_json::Result<Self> {
        let elements: Vec<&RawValue> = serde_json::from_slice(text)?;
        let nodes = elements.into_iter().map(|element| serde_json::from_str(element.get()).ok()).collect();
        Ok(Self { nodes })
    }
}

/// The captured graphs of a rank.
pub(super) struct Graphs<'d> {
    /// The rows of the graphs, by operation.
    rows: FxHashMap<i64, i64>,
    /// Selects a graph by its row: sorting the graphs themselves would copy all of them.
    statement: Option<Statement<'d>>,
}

/// Why an operation could not be replayed.
pub(super) enum GraphError {
    Database(rusqlite::Error),
    Replay(Error),
}

impl<'d> Graphs<'d> {
    pub fn of(database: &'d Database<'_>, rank: Option<i64>) -> rusqlite::Result<Self> {
        let mut graphs = Self { rows: FxHashMap::default(), statement: None };
        if !database.schema.has_column("captured_graph", "captured_graph") {
            return Ok(graphs);
        }
        let of_rank = database.of_rank("captured_graph", rank);
        let query = format!("SELECT operation_id, rowid FROM captured_graph WHERE {of_rank}");
        let mut statement = database.connection.prepare(&query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            if let Some((operation, id)) = integer(row, 0).zip(integer(row, 1)) {
                graphs.rows.entry(operation).or_insert(id);
            }
        }
        let query = "SELECT captured_graph FROM captured_graph WHERE rowid = ?";
        graphs.statement = Some(database.connection.prepare(query)?);
        Ok(graphs)
    }

    /// Passes the graph of an operation to a function, or `None` if there is none that can be read.
    pub fn with(
        &mut self,
        operation: i64,
        problems: &mut Problems,
        replay: impl FnOnce(Option<Graph<'_>>) -> Result<()>,
    ) -> Result<(), GraphError> {
        let found = self.rows.get(&operation).zip(self.statement.as_mut());
        let Some((row, statement)) = found else {
            problems.without_graph += 1;
            return replay(None).map_err(GraphError::Replay);
        };
        let mut rows = statement.query([row]).map_err(GraphError::Database)?;
        let row = rows.next().map_err(GraphError::Database)?;
        let value = match row {
            Some(row) => row.get_ref(0).map_err(GraphError::Database)?,
            None => ValueRef::Null,
        };
        let graph = match value {
            ValueRef::Null => None,
            ValueRef::Text(text) | ValueRef::Blob(text) => Some(Graph::parse(text)),
            ValueRef::Integer(_) | ValueRef::Real(_) => Some(Graph::parse(b"0")),
        };
        let graph = match graph {
            Some(Ok(graph)) if !graph.nodes.is_empty() => Some(graph),
            Some(Err(error)) => {
                problems.corrupt += 1;
                problems.first_corrupt.get_or_insert_with(|| format!("operation {operation} ({error})"));
                None
            }
            Some(Ok(_)) | None => None,
        };
        problems.without_graph += u64::from(graph.is_none());
        replay(graph).map_err(GraphError::Replay)
    }
}
