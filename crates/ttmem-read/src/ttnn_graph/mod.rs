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

mod capture;
mod changes;
mod evidence;
mod lives;
pub(super) mod node;

pub use changes::graph_changes;

use std::io::Read;

use memchr::memmem;
use serde::Deserialize;
use ttmem_model::words::counted;
use ttmem_model::{Error, Result, Sink};

use self::capture::Capture;
use super::json::{self, Corruption, Json, JsonError, Number, Stop, without_mark};
use super::tt_log::tables::Tables;
use super::ttnn_arch::Arch;
use super::{Input, Reader, Sniff};

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
            Some(b'{') => {
                let first = text[1..].trim_ascii_start();
                let is_report = FIRST_KEYS.iter().any(|key| first.starts_with(key));
                if is_report { Sniff::Maybe } else { Sniff::No }
            }
            _ => Sniff::No,
        }
    }

    fn read(&self, input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
        let mut document = Document::new(Capture::new(Tables::new(sink)));
        let corruption = json::read(input.stream, |json| document.walk(json))?;
        if document.capture.known == 0 {
            return Err(document.nothing(input.name, corruption));
        }
        document.capture.finish(&document.report, corruption.as_ref())
    }
}

/// The contents of a report other than its graph.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The first device; a capture counts one device.
    pub device: Option<Device>,
    /// The rank of the process, if there are several.
    pub rank: Option<u64>,
    /// Whether there was a list of nodes.
    has_graph: bool,
    /// The keys of an object in an unknown format.
    keys: Vec<String>,
}

/// The memory of a device.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Device {
    arch: Option<String>,
    worker_l1_size: Number,
    pub l1_num_banks: Number,
    pub l1_bank_size: Number,
    pub cb_limit: Number,
    pub num_dram_channels: Number,
    dram_size_per_channel: Number,
}

/// The lowest buffer addresses in a capture; `None` without a real device, when all addresses are 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lowest {
    pub dram: Option<u64>,
    pub trace: Option<u64>,
}

/// Information on the device's allocator, from the nodes and the report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allocator {
    pub arch: Option<Arch>,
    pub lowest: Lowest,
}

impl Device {
    /// The architecture, if it is a known one.
    pub fn arch(&self) -> Option<Arch> {
        match &self.arch {
            Some(name) => Arch::named(name),
            None => Arch::with_worker_l1(self.worker_l1_size.get()?),
        }
    }

    /// The size of each DRAM bank that the allocator manages. It excludes the reserved part and the trace region, which
    /// begins with the first trace. A trace region without a trace cannot be detected.
    pub fn dram_bank_size(&self, lowest: Lowest) -> Option<u64> {
        let (base, end) = (self.arch()?.dram_base(), self.dram_size_per_channel.get()?);
        // A buffer is below the base, so this build reserves less.
        if lowest.dram.is_some_and(|address| address < base) {
            return None;
        }
        lowest.trace.map_or(end, |trace| trace.min(end)).checked_sub(base).filter(|bytes| *bytes > 0)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    rank: Number,
    world_size: Number,
}

/// The file that is being read.
struct Document<'s> {
    report: Report,
    capture: Capture<'s>,
}

impl<'s> Document<'s> {
    fn new(capture: Capture<'s>) -> Self {
        Self { report: Report::default(), capture }
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
        if self.report.keys.len() < 4 {
            self.report.keys.push(key.to_owned());
        }
        match key {
            "devices" => {
                let devices: Vec<Device> = serde_json::from_slice(json.value()?).unwrap_or_default();
                self.report.device = devices.into_iter().next();
            }
            "metadata" => {
                let metadata: Metadata = serde_json::from_slice(json.value()?).unwrap_or_default();
                let is_one_of_many = metadata.world_size.get().is_some_and(|size| size > 1);
                self.report.rank = metadata.rank.get().filter(|_| is_one_of_many);
            }
            _ => json.skip()?,
        }
        Ok(())
    }

    fn nodes(&mut self, json: &mut Json<impl Read>) -> Result<(), Stop> {
        self.report.has_graph = true;
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
        let (file, nodes) = (file.to_owned(), self.capture.nodes);
        if nodes > 0 {
            let what = format!("JSON: a list of {}, none of them a graph node", counted(nodes, "element"));
            return Error::UnknownFormat { file, what };
        }
        if self.report.has_graph {
            return Error::NoMemoryData {
                file,
                message: "the capture has no nodes; begin it before the program runs and end it afterwards"
                    .into(),
            };
        }
        let keys: Vec<String> = self.report.keys.iter().map(|key| format!("{key:?}")).collect();
        let what = format!("JSON: an object with {} but no \"graph\"", keys.join(", "));
        Error::UnknownFormat { file, what }
    }
}
