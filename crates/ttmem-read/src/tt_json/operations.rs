//! The operations file: the operations, and the programs that they ran in.

use rustc_hash::FxHashMap;
use ttmem_model::{ModuleId, Result, StrId};

use super::document::{Document, JsonStream};
use super::graphs::{Graphs, type_text};
use super::notes::Notes;
use super::rows::OperationRow;
use super::values::{Names, Types};
use crate::json::Stop;
use crate::json::field::{Field, Object};
use crate::tt_log::operation::ParsedOp;
use crate::tt_log::tables::{OpRef, Tables};

/// The kept parts of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    pub op: OpRef,
    /// The name as written in the row.
    pub name: StrId,
    pub loc: Option<StrId>,
    /// The number of its first result: 7 for `%7`.
    pub result: Option<u32>,
    /// The program that it ran in, and the number of the top-level run.
    pub program: Option<StrId>,
    pub run: Option<u32>,
    /// The graph of that run, if the row contains it.
    pub module: Option<ModuleId>,
}

/// The rows of the operations file.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// In file order; `None` for rows that are not operations.
    rows: Vec<Option<Listed>>,
    /// The position of each index; only set once an index does not match its position.
    places: Option<FxHashMap<u32, u32>>,
}

impl Operations {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The row with an index, or the row at a position if the memory file's row has no index.
    pub fn find(&self, place: usize, index: Option<u32>) -> Option<&Listed> {
        let place = match (index, &self.places) {
            (None, _) => place,
            (Some(index), None) => index as usize,
            (Some(index), Some(places)) => *places.get(&index)? as usize,
        };
        self.rows.get(place)?.as_ref()
    }

    fn push(&mut self, index: Option<u32>, row: Option<Listed>) {
        let Ok(place) = u32::try_from(self.rows.len()) else { return };
        let index = index.unwrap_or(place);
        if index != place && self.places.is_none() {
            self.places = Some((0..place).map(|place| (place, place)).collect());
        }
        if let Some(places) = &mut self.places {
            places.entry(index).or_insert(place);
        }
        self.rows.push(row);
    }
}

/// Reads the operations file.
pub(super) struct Reading<'a, 's> {
    pub operations: Operations,
    pub graphs: &'a Graphs,
    pub notes: &'a mut Notes,
    pub tables: &'a mut Tables<'s>,
}

impl Document for Reading<'_, '_> {
    const ROWS: &'static str = "operations";

    fn row(&mut self, json: &mut JsonStream) -> Result<(), Stop> {
        let (index, listed) = match self.notes.parse_row(json)? {
            Some(Object::<OperationRow>(mut row)) => {
                let index = self.notes.known(std::mem::take(&mut row.index), "index");
                (index, self.listed(row)?)
            }
            None => (None, None),
        };
        self.operations.push(index, listed);
        self.notes.next_row();
        Ok(())
    }
}

impl Reading<'_, '_> {
    /// The kept parts of a row; `None` if it does not name its operation.
    fn listed(&mut self, mut row: OperationRow) -> Result<Option<Listed>> {
        let Self { graphs, notes, tables, .. } = self;
        let Some(name) = notes.known(std::mem::take(&mut row.mlir_op), "mlir_op") else { return Ok(None) };
        let is_ours = !matches!(row.step, Field::Missing);
        let loc = notes.known(std::mem::take(&mut row.loc), "loc").and_then(|loc| location(loc, is_ours));
        let program = notes.known(std::mem::take(&mut row.program), "program");
        let run = notes.known(std::mem::take(&mut row.run), "run");
        let graph = notes.known(std::mem::take(&mut row.graph), "graph");
        let parts = OwnedParts::new(row, notes);
        let Some(op) = tables.operation_of(&parts.parts(&name, is_ours, loc.as_deref()))? else {
            return Ok(None);
        };
        let mut text = |text: &str| tables.text(text.as_bytes());
        Ok(Some(Listed {
            op,
            name: text(&name)?,
            result: parts.result.strip_prefix('%').and_then(|number| number.parse().ok()),
            loc: loc.as_deref().map(&mut text).transpose()?,
            program: program.as_deref().map(&mut text).transpose()?,
            run,
            module: graph.and_then(|graph| graphs.id(graph)),
        }))
    }
}

/// A location as in the log. tt-memory-profiler 0.x removed the quotes, and invented some locations.
pub(super) fn location(loc: String, is_ours: bool) -> Option<String> {
    match loc.as_str() {
        "" | "N/A" | "unknown" => None,
        made_up if made_up.starts_with('@') => None,
        bare if !is_ours && !bare.contains('"') => Some(format!("\"{bare}\"")),
        _ => Some(loc),
    }
}

/// The operation name and the function that it calls. For a call, tt-memory-profiler 0.x writes the function's name.
pub(super) fn operation_name(name: &str, is_ours: bool) -> (&str, Option<&str>) {
    // All other operations have a dialect prefix.
    if is_ours || name.contains('.') { (name, None) } else { ("func.call", Some(name)) }
}

/// The parts of an operation.
#[derive(Debug, Default)]
struct OwnedParts {
    result: String,
    results: u16,
    operands: Vec<String>,
    callee: Option<String>,
    attributes: Option<String>,
    operand_types: Vec<String>,
    result_types: Vec<String>,
}

impl OwnedParts {
    fn new(row: OperationRow, notes: &mut Notes) -> Self {
        let Names(inputs) = notes.known(row.inputs, "inputs").unwrap_or_default();
        let (operands, mut callee) = operands(inputs);
        // `ttmem` does not list the callee among the operands.
        let graph = notes.known(row.const_eval_graph, "const_eval_graph");
        if callee.is_none() {
            callee = graph;
        }
        let Names(results) = notes.known(row.results, "results").unwrap_or_default();
        let result = notes.known(row.result, "result").or_else(|| results.first().cloned());
        let count = u16::try_from(results.len()).unwrap_or(0).max(u16::from(result.is_some()));
        let base = |name: String| name.split('#').next().unwrap_or_default().to_owned();
        let types = |types: Option<Types>, shapes, dtypes| {
            let Types(types) = types.unwrap_or_default();
            if types.is_empty() { plain_types(shapes, dtypes) } else { types }
        };
        let [input_shapes, input_dtypes, output_shapes, output_dtypes] = [
            (row.input_shapes, "input_shapes"),
            (row.input_dtypes, "input_dtypes"),
            (row.output_shapes, "output_shapes"),
            (row.output_dtypes, "output_dtypes"),
        ]
        .map(|(list, name)| notes.known(list, name).unwrap_or_default());
        Self {
            result: result.map(if count > 1 { base } else { |name| name }).unwrap_or_default(),
            results: count,
            operands,
            callee,
            attributes: notes.known(row.attributes, "attributes"),
            operand_types: types(notes.known(row.input_types, "input_types"), input_shapes, input_dtypes),
            result_types: types(notes.known(row.output_type, "output_type"), output_shapes, output_dtypes),
        }
    }

    fn parts<'a>(&'a self, name: &'a str, is_ours: bool, loc: Option<&'a str>) -> ParsedOp<'a> {
        let all = |texts: &'a [String]| texts.iter().map(String::as_bytes).collect();
        let is_load = name.ends_with(".load_cached") || name == "LoadCachedOp";
        // Other operations with the name of a const-eval program ran inside it.
        let loaded = self.callee.as_deref().filter(|_| is_load);
        let (name, called) = operation_name(name, is_ours);
        ParsedOp {
            name: name.as_bytes(),
            result: self.result.as_bytes(),
            results: self.results,
            operands: all(&self.operands),
            callee: loaded.or(called).map(str::as_bytes),
            attributes: self.attributes.as_deref().map(str::as_bytes),
            operand_types: all(&self.operand_types),
            result_types: all(&self.result_types),
            loc: loc.map(str::as_bytes),
        }
    }
}

/// Operands and callee. tt-memory-profiler 0.x split `@f, [%arg0, %arg1]` at every comma.
fn operands(inputs: Vec<String>) -> (Vec<String>, Option<String>) {
    let mut callee = None;
    let mut operands = Vec::with_capacity(inputs.len());
    for input in inputs {
        let name = input.trim_matches(['[', ']', ' ']);
        if let Some(name) = name.strip_prefix('@') {
            callee = Some(name.to_owned());
        } else if !name.is_empty() {
            operands.push(if name.len() == input.len() { input } else { name.to_owned() });
        }
    }
    (operands, callee)
}

/// Types with only a shape and an element.
fn plain_types(shapes: Vec<Field<String>>, dtypes: Vec<Field<String>>) -> Vec<String> {
    let known = |field| if let Field::Is(text) = field { Some(text) } else { None };
    shapes
        .into_iter()
        .zip(dtypes)
        .filter_map(|(shape, dtype)| type_text(known(shape), known(dtype)))
        .collect()
}
