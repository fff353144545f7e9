//! Reads ttnn's graph captures: the bare list of nodes, and the report that wraps it.
//!
//! The nodes list, in order, the functions that ran and the buffers that they allocated and freed. `node` is one node
//! as it is written, `capture` walks the nodes, `changes` lists their memory changes for a tracker, `lives` tracks the
//! pools and their buffers, and `evidence` determines the architecture, and with it the allocator's alignment. The
//! figures of the capture's single phase match ttnn's own `extract_dram_usage` and `extract_resource_usage_per_core`.
//! They are counted by [`Segment`](ttmem_model::Segment) and do not include memory allocated before the capture began.
//! The pools show the allocator's usage, including its alignment.
//!
//! A step is a part of a call that first frees and then allocates memory: within it, no pool is higher than at its
//! beginning or its end. The peaks of the capture are therefore peaks between steps, and the number of steps stays
//! small.
//!
//! Only the current node is kept in memory, and the required details of buffers and tensors.

pub(super) mod capture;
mod changes;
mod complete;
mod evidence;
pub(super) mod lives;
pub(super) mod node;
mod notes;
mod program;
pub(super) mod report;
pub(super) mod sidecar;
mod usage;

pub use changes::graph_changes;
pub use complete::{complete, may_complete};

use std::io::Read;

use memchr::memmem;
use ttmem_model::words::{counted, counted_as};
use ttmem_model::{Error, Result, Sink};

use self::capture::Capture;
use self::report::Report;
use self::sidecar::Sidecar;
use super::json::{self, Corruption, Json, JsonError, Stop, without_mark};
use super::tt_log::tables::Tables;
use super::{Input, Reader, Siblings, Sniff};

/// The reader of graph captures.
pub(super) struct TtnnGraph;

impl Reader for TtnnGraph {
    fn name(&self) -> &'static str {
        "ttnn_graph"
    }

    fn about(&self) -> &'static str {
        "a ttnn graph capture, as a list of nodes or as a report"
    }

    fn capture(&self) -> &'static str {
        "ttnn.graph.begin_graph_capture(…), then json.dump(ttnn.graph.end_graph_capture(), file)"
    }

    fn is_json(&self) -> bool {
        true
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        /// Keys that a report may begin with. Their values may be long.
        const FIRST_KEYS: [&[u8]; 6] = [
            b"\"buffer_pages\"",
            b"\"buffer_pages_by_address\"",
            b"\"cluster_descriptor\"",
            b"\"devices\"",
            b"\"graph\"",
            b"\"version\"",
        ];
        let text = without_mark(head).trim_ascii_start();
        let is_there = |sign: &[u8]| memmem::find(head, sign).is_some();
        match text.first() {
            Some(b'[' | b'{') if is_there(b"\"node_type\"") && is_there(b"\"params\"") => Sniff::Yes,
            // The calls from Python, which are not a capture. The message says what to pass instead.
            Some(b'[') if is_there(b"\"input_tensor_ids\"") && is_there(b"\"arguments\"") => Sniff::Yes,
            Some(b'{') => {
                let first = text[1..].trim_ascii_start();
                let is_report = FIRST_KEYS.iter().any(|key| first.starts_with(key));
                if is_report { Sniff::Maybe } else { Sniff::No }
            }
            _ => Sniff::No,
        }
    }

    fn read(&self, input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
        let mut tables = Tables::new(sink);
        let sidecar = sidecar(&input.siblings, &mut tables)?;
        let mut document = Document::new(Capture::new(tables, sidecar));
        let corruption = json::read(input.stream, |json| document.walk(json))?;
        if document.capture.known == 0 {
            return Err(document.nothing(input.name, corruption));
        }
        document.capture.finish(&document.report, corruption.as_ref())
    }
}

/// The calls from Python, in the file next to a report: `report.python_io.json` next to `report.json`. If it cannot be
/// read, the reason is a warning.
fn sidecar(siblings: &Siblings, tables: &mut Tables<'_>) -> Result<Sidecar> {
    let Some(file) = siblings.open(".json", ".python_io.json") else { return Ok(Sidecar::default()) };
    let (name, read) = match file {
        Ok(file) => (file.name, Sidecar::read(file.stream)),
        Err(error) => {
            tables
                .warn(None, format!("cannot read the file of Python calls next to the report ({error})"))?;
            return Ok(Sidecar::default());
        }
    };
    let (sidecar, corruption) = read?;
    if let Some(Corruption { line, why }) = corruption {
        let message = format!("{name} is corrupt at line {line} ({why}); errors after this line are missing");
        tables.warn(None, message)?;
    }
    if sidecar.unreadable > 0 {
        let elements = counted_as(sidecar.unreadable, "element of", "elements of");
        tables.warn(None, format!("{elements} {name} could not be read and may contain errors"))?;
    }
    Ok(sidecar)
}

/// The file that is being read.
struct Document<'s> {
    report: Report,
    capture: Capture<'s>,
    /// Whether there was a list of nodes.
    has_graph: bool,
    /// The first keys of an object, for the message about an unknown format.
    keys: Vec<String>,
}

impl<'s> Document<'s> {
    fn new(capture: Capture<'s>) -> Self {
        Self { report: Report::default(), capture, has_graph: false, keys: Vec::new() }
    }

    /// Walks the whole file.
    fn walk(&mut self, json: &mut Json<impl Read>) -> Result<(), Stop> {
        if json.peek()? == Some(b'[') {
            return self.nodes(json);
        }
        let is_object = json.object(|json, key| self.entry(&key, json))?;
        if is_object { Ok(()) } else { Err(JsonError::Syntax("expected a list or an object").into()) }
    }

    fn entry(&mut self, key: &str, json: &mut Json<impl Read>) -> Result<(), Stop> {
        if key == "graph" {
            return self.nodes(json);
        }
        if self.keys.len() < 4 {
            self.keys.push(key.to_owned());
        }
        self.report.entry(key, json)
    }

    fn nodes(&mut self, json: &mut Json<impl Read>) -> Result<(), Stop> {
        self.has_graph = true;
        let is_list = json.list(|json| -> Result<(), Stop> {
            let offset = json.offset();
            Ok(self.capture.take(json.value()?, offset, self.report.device.as_ref())?)
        })?;
        if is_list { Ok(()) } else { Err(JsonError::Syntax("the graph is not a list of nodes").into()) }
    }

    /// The error for a file without a capture.
    fn nothing(&self, file: &str, corruption: Option<Corruption>) -> Error {
        if let Some(corruption) = corruption {
            return corruption.into_error(file, "no capture found");
        }
        if let Some(stem) = file.strip_suffix(".python_io.json") {
            let message = format!(
                "these are the calls from Python of a ttnn report; pass the report itself, {stem}.json"
            );
            return Error::NoMemoryData { file: file.to_owned(), message };
        }
        let (file, nodes) = (file.to_owned(), self.capture.nodes);
        if nodes > 0 {
            let what = format!("JSON: a list of {}, none of them a graph node", counted(nodes, "element"));
            return Error::UnknownFormat { file, what };
        }
        if self.has_graph {
            return Error::NoMemoryData {
                file,
                message: "the capture has no nodes; begin it before the program runs and end it afterwards"
                    .into(),
            };
        }
        let keys: Vec<String> = self.keys.iter().map(|key| format!("{key:?}")).collect();
        let what = format!("JSON: an object with {} but no \"graph\"", keys.join(", "));
        Error::UnknownFormat { file, what }
    }
}
