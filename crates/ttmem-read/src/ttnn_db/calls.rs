//! The source lines and errors of operations.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rustc_hash::FxHashMap;

use super::{Database, Operation, integer, text};
use crate::python_stack::user_line;
use crate::ttnn_graph::sidecar::PythonCall;

/// The source lines and errors of operations.
#[derive(Default)]
pub(super) struct Calls {
    lines: FxHashMap<i64, String>,
    /// The first error of each operation.
    errors: BTreeMap<i64, CallError>,
    /// The other errors.
    others: Vec<CallError>,
    /// The last operation that shows that the program goes on.
    last: Option<i64>,
}

/// A row of the errors table.
struct CallError {
    name: String,
    message: String,
    line: Option<String>,
}

impl Calls {
    /// The source lines and errors of operations.
    pub fn read(
        database: &Database<'_>,
        rank: Option<i64>,
        operations: &[Operation],
    ) -> rusqlite::Result<Self> {
        // Python frees tensors after an error, and a program may add its own functions.
        let continues = |operation: &&Operation| {
            operation.name.starts_with("ttnn") && !operation.name.ends_with("deallocate")
        };
        let last = operations.iter().rfind(continues).or(operations.last());
        let mut calls = Self { last: last.map(|last| last.id), ..Self::default() };
        if database.schema.has_column("stack_traces", "stack_trace") {
            let of_rank = database.of_rank("stack_traces", rank);
            let query = format!("SELECT operation_id, stack_trace FROM stack_traces WHERE {of_rank}");
            let mut statement = database.connection.prepare(&query)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if let (Some(operation), Some(line)) = (integer(row, 0), line_of(&text(row, 1)?)) {
                    calls.lines.insert(operation, line);
                }
            }
        }
        if database.schema.has_column("errors", "error_message") {
            let columns =
                ["operation_name", "stack_trace"].map(|column| database.schema.or_null("errors", column));
            let query = format!(
                "SELECT operation_id, error_message, {} FROM errors WHERE {} ORDER BY rowid",
                columns.join(", "),
                database.of_rank("errors", rank)
            );
            let mut statement = database.connection.prepare(&query)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (message, name, stack) = (text(row, 1)?, text(row, 2)?, text(row, 3)?);
                let error = CallError { name, message, line: line_of(&stack) };
                match integer(row, 0).map(|operation| calls.errors.entry(operation)) {
                    Some(Entry::Vacant(first)) => {
                        first.insert(error);
                    }
                    Some(Entry::Occupied(_)) | None => calls.others.push(error),
                }
            }
        }
        Ok(calls)
    }

    /// The call that an operation is, with its first error.
    pub fn of_operation(&mut self, operation: &Operation) -> PythonCall {
        let error = self.errors.remove(&operation.id);
        let line = self.lines.remove(&operation.id);
        let (error, error_line) = error.map(|error| (error.message, error.line)).unzip();
        PythonCall {
            name: operation.name.clone(),
            line: error_line.flatten().or(line),
            error,
            is_last: self.last.is_none_or(|last| last <= operation.id),
        }
    }

    /// The errors that are left: those of operations that do not exist, and further errors of an operation.
    pub fn rest(self) -> impl Iterator<Item = PythonCall> {
        let errors = self.errors.into_values().chain(self.others);
        errors.map(|CallError { name, message, line }| PythonCall {
            name,
            line,
            error: Some(message),
            is_last: false,
        })
    }
}

/// The line of the user's program in a stack. ttnn puts the innermost frame first, a traceback of Python last.
fn line_of(stack: &str) -> Option<String> {
    let frames = stack.lines().filter(|line| line.trim_start().starts_with("File \""));
    if stack.contains("Traceback (most recent call last)") {
        return user_line(frames.collect::<Vec<_>>().into_iter().rev());
    }
    user_line(frames)
}
