//! Reads the graph captures of ttnn: the bare list of nodes, and the report that wraps it.
//!
//! The nodes say in order which function ran, and which buffers it took and gave back. `node` is one of them as it is
//! written, `capture` walks them, `feed` tells a tracker of them, `lives` keeps the pools and what lies in them, `evidence`
//! finds out the architecture, and with it the alignment of the allocator. The figures of the capture's one phase are
//! those of ttnn's own `extract_dram_usage` and `extract_resource_usage_per_core`; they are counted by
//! [`Segment`](ttmem_model::Segment) and know nothing of what was there before the capture began. The pools hold what
//! the allocator holds, with its alignment.
//!
//! A step is a stretch of one call in which memory is first given back and then taken: within it no pool is higher than
//! at its beginning or its end. So the peaks of the capture are those between steps, and the steps are few.
//!
//! Nothing of the file is held but what a node says, and what is needed of buffers and tensors later.

mod capture;
mod changes;
mod evidence;
mod lives;
pub(super) mod node;

pub use changes::graph_changes;

use std::io::Read;

use memchr::memmem;
use serde::Deserialize;

use self::capture::Capture;
use super::json::{Found, Json, Number, Trouble, without_mark};
use super::tt_log::tables::Tables;
use super::ttnn_arch::Arch;
use super::{Input, Reader, Sniff};
use ttmem_model::Sink;
use ttmem_model::{Error, Result};

/// The reader of graph captures.
pub(super) struct TtnnGraph;

impl Reader for TtnnGraph {
    fn name(&self) -> &'static str {
        "ttnn_graph"
    }

    fn about(&self) -> &'static str {
        "a graph capture of ttnn, as a list of nodes or as a report"
    }

    fn capture(&self) -> &'static str {
        "ttnn.graph.begin_graph_capture(…), then json.dump(ttnn.graph.end_graph_capture(), file)"
    }

    fn is_json(&self) -> bool {
        true
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        /// With these a report may begin, and they may be long.
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
        let mut document =
            Document { json: Json::new(input.stream), file: input.name, report: Report::default() };
        let mut capture = Capture::new(Tables::new(sink));
        let damage = match document.walk(&mut capture)? {
            Ok(()) => None,
            Err(Trouble::Read(source)) if capture.known == 0 => {
                return Err(Error::Read { path: input.name.into(), source });
            }
            Err(trouble) => Some((document.json.line(), trouble.words())),
        };
        if capture.known == 0 {
            return Err(document.nothing(&capture, damage));
        }
        capture.finish(&document.report, damage.as_ref())
    }
}

/// What a report says beside its graph.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The first device; a capture counts one of them.
    pub device: Option<Device>,
    /// The rank of the process, where there are several.
    pub rank: Option<u64>,
    /// Whether there was a list of nodes.
    has_graph: bool,
    /// The keys of an object that is none of ours.
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

/// The lowest addresses of buffers in a capture; none without a device behind it, when all are 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lowest {
    pub dram: Option<u64>,
    pub trace: Option<u64>,
}

/// What the nodes and the report show of the device's allocator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allocator {
    pub arch: Option<Arch>,
    pub lowest: Lowest,
}

impl Device {
    /// The architecture, where it is one that is known.
    pub fn arch(&self) -> Option<Arch> {
        match &self.arch {
            Some(name) => Arch::named(name),
            None => Arch::with_worker_l1(self.worker_l1_size.get()?),
        }
    }

    /// What the allocator has of each bank of DRAM: what is neither reserved nor the region for traces, which begins with
    /// the first trace. A region without a trace in it cannot be seen.
    pub fn dram_bank_size(&self, lowest: Lowest) -> Option<u64> {
        let (base, end) = (self.arch()?.dram_base(), self.dram_size_per_channel.get()?);
        // Something lies below: this build reserves less.
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

/// The file, being read.
struct Document<'n, R> {
    json: Json<R>,
    file: &'n str,
    report: Report,
}

impl<R: Read> Document<'_, R> {
    /// Walks the whole file. What fails on our side is the outer error, what is wrong with the file the inner one.
    fn walk(&mut self, capture: &mut Capture<'_>) -> Result<Found<()>> {
        let found = self.value(capture)?;
        Ok(found.and_then(|()| self.json.end()))
    }

    fn value(&mut self, capture: &mut Capture<'_>) -> Result<Found<()>> {
        match self.json.peek() {
            Ok(Some(b'[')) => self.nodes(capture),
            Ok(Some(b'{')) => self.entries(capture),
            Ok(_) => Ok(Err(Trouble::Wrong("it is neither a list nor an object"))),
            Err(trouble) => Ok(Err(trouble)),
        }
    }

    fn entries(&mut self, capture: &mut Capture<'_>) -> Result<Found<()>> {
        if let Err(trouble) = self.json.accept(b'{') {
            return Ok(Err(trouble));
        }
        let mut is_first = true;
        loop {
            match self.next_key(is_first) {
                Ok(None) => return Ok(Ok(())),
                Ok(Some(key)) => {
                    let found = self.entry(&key, capture)?;
                    if found.is_err() {
                        return Ok(found);
                    }
                }
                Err(trouble) => return Ok(Err(trouble)),
            }
            is_first = false;
        }
    }

    fn next_key(&mut self, is_first: bool) -> Found<Option<String>> {
        if self.json.goes_on(is_first, b'}')? { self.json.key().map(Some) } else { Ok(None) }
    }

    fn entry(&mut self, key: &str, capture: &mut Capture<'_>) -> Result<Found<()>> {
        if key == "graph" {
            self.report.has_graph = true;
            return self.nodes(capture);
        }
        if self.report.keys.len() < 4 {
            self.report.keys.push(key.to_owned());
        }
        Ok(match key {
            "devices" => self.json.value().map(|value| {
                let devices: Vec<Device> = serde_json::from_slice(value).unwrap_or_default();
                self.report.device = devices.into_iter().next();
            }),
            "metadata" => self.json.value().map(|value| {
                let metadata: Metadata = serde_json::from_slice(value).unwrap_or_default();
                let is_one_of_many = metadata.world_size.get().is_some_and(|size| size > 1);
                self.report.rank = metadata.rank.get().filter(|_| is_one_of_many);
            }),
            _ => self.json.skip(),
        })
    }

    fn nodes(&mut self, capture: &mut Capture<'_>) -> Result<Found<()>> {
        self.report.has_graph = true;
        match self.json.accept(b'[') {
            Ok(true) => {}
            Ok(false) => return Ok(Err(Trouble::Wrong("its graph is no list of nodes"))),
            Err(trouble) => return Ok(Err(trouble)),
        }
        let mut is_first = true;
        loop {
            match self.json.goes_on(is_first, b']') {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(())),
                Err(trouble) => return Ok(Err(trouble)),
            }
            is_first = false;
            let offset = self.json.offset();
            match self.json.value() {
                Ok(bytes) => capture.take(bytes, offset, self.report.device.as_ref())?,
                Err(trouble) => return Ok(Err(trouble)),
            }
        }
    }

    /// Why nothing could be read.
    fn nothing(self, capture: &Capture<'_>, damage: Option<(u64, String)>) -> Error {
        let file = self.file.to_owned();
        match damage {
            Some((line, why)) => {
                Error::Damaged { file, message: format!("line {line}: {why}; there is no capture in it") }
            }
            None if capture.nodes > 0 => Error::UnknownFormat {
                file,
                what: format!("JSON: a list of {} elements, and none is a node of a capture", capture.nodes),
            },
            None if self.report.has_graph => Error::NoMemoryData {
                file,
                message: "the capture has no nodes: begin it before the program runs, and end it after"
                    .into(),
            },
            None => {
                let keys: Vec<String> = self.report.keys.iter().map(|key| format!("{key:?}")).collect();
                let what = format!("JSON: an object with {}, and no \"graph\"", keys.join(", "));
                Error::UnknownFormat { file, what }
            }
        }
    }
}
