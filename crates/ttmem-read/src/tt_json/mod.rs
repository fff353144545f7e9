//! Reads the JSON files of a report without a profile, such as those of tt-memory-profiler 0.x.
//!
//! | file | content |
//! |---|---|
//! | `<stem>_memory.json` | a step for each row, and the pool usage before it |
//! | `<stem>_operations.json` | the operations and the programs that they ran in |
//! | `<stem>_inputs_registry.json` | the arguments of the graphs |
//! | `<stem>_ir.json` | the texts of the graphs |
//!
//! The first is the input; the others are read if they are next to it. Types are parsed like those of a log. Values
//! that the files derive from them (padding, weights, bytes) are computed again, because tt-memory-profiler 0.x got
//! some of them wrong.
//!
//! The lists do not include deallocations. It is known when a tensor was allocated but not when it was freed, so live
//! tensors are unknown and no tensors are created. The files do not contain the states at deallocations either; a
//! warning explains the consequences.
//!
//! Only one row or one graph text is kept in memory at a time. Values that the format does not define are skipped and
//! counted.

mod document;
mod graphs;
mod notes;
mod operations;
mod rows;
mod runs;
mod states;
mod steps;
mod values;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use memchr::memmem;
use ttmem_model::words::counted;
use ttmem_model::{Error, Result, Sink};

use self::document::Document;
use self::graphs::{Graphs, Registry, Texts};
use self::notes::Notes;
use self::operations::Operations;
use self::steps::Steps;
use super::json::{Corruption, JsonError};
use super::tt_log::tables::Tables;
use super::{Input, Reader, Sibling, Siblings, Sniff};

/// The suffixes of the input and of the files next to it.
pub(super) const MEMORY: &str = "_memory.json";
const OPERATIONS: &str = "_operations.json";
const REGISTRY: &str = "_inputs_registry.json";
const TEXTS: &str = "_ir.json";

/// The limitations of such files.
const NOT_IN_THEM: &str = "the JSON files do not record deallocations, so the peak may be too low, and live tensors, \
    final usage and out-of-memory errors are unknown; if you have the log, run `ttmem report` on it";

/// Whether `ttmem` wrote a memory file. tt-memory-profiler 0.x does not number steps.
pub(super) fn is_ours(memory_file: &Path) -> bool {
    const HEAD: u64 = 64 << 10;
    let mut head = Vec::new();
    let read = File::open(memory_file).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.is_ok() && memmem::find(&head, b"\"step\":").is_some()
}

/// Additional limitations of the files of tt-memory-profiler 0.x.
const EARLIER_TOOL: &str = "tt-memory-profiler 0.x wrote these files, so operations without a memory state are \
    missing, and weights and inputs cover only the first graph (block floats may be missing)";

/// The reader of a report's JSON files.
pub(super) struct TtJson;

impl Reader for TtJson {
    fn name(&self) -> &'static str {
        "tt_json"
    }

    fn about(&self) -> &'static str {
        "the JSON files of a report without a profile (NAME_memory.json and the files next to it)"
    }

    fn capture(&self) -> &'static str {
        "ttmem report writes them, as tt-memory-profiler 0.x did"
    }

    fn is_json(&self) -> bool {
        true
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        const SIGNS: [&[u8]; 2] = [b"\"memory_config\"", b"\"totalBytesAllocatedPerBank_MB\""];
        // A run without operations has both of these keys with empty values.
        const EMPTY: [&[u8]; 2] = [b"\"metadata\"", b"\"operations\""];
        let is_there = |sign: &&[u8]| memmem::find(head, sign).is_some();
        let is_known = SIGNS.iter().any(is_there) || EMPTY.iter().all(is_there);
        if begins_like_rows(head) && is_known { Sniff::Yes } else { Sniff::No }
    }

    fn read(&self, input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
        let Input { name, stream, siblings, .. } = input;
        let mut tables = Tables::new(sink);
        let mut notes = Notes::default();
        let beside = Beside::open(&siblings, &mut notes);
        let graphs = read_graphs(beside.registry, beside.texts, &mut notes, &mut tables)?;
        let (operations, operations_name) =
            read_operations(beside.operations, &graphs, &mut notes, &mut tables)?;
        notes.begin(name);
        let mut steps = Steps::new(&operations, &graphs, &mut notes, &mut tables);
        let corruption = document::read(stream, &mut steps)?;
        if !steps.pools.observed {
            return Err(no_memory_data(name, steps.count, corruption));
        }
        steps.finish(corruption.is_none())?;
        if let Some(operations) = operations_name {
            steps.compare(&operations);
        }
        let (label, is_ours) = (steps.label.take(), steps.is_ours);
        notes.warn(NOT_IN_THEM);
        if !is_ours {
            notes.warn(EARLIER_TOOL);
        }
        if let Some(corruption) = &corruption {
            notes.corrupt_input(corruption);
        }
        say_ranks(label.as_deref(), siblings.stem(MEMORY), &mut notes);
        notes.say(&mut tables)?;
        if corruption.is_none() { tables.end() } else { Ok(()) }
    }
}

/// Whether a text begins like a list of objects or an object. A tagged log line (`[1,0]<stdout>:`) does not.
fn begins_like_rows(head: &[u8]) -> bool {
    let mut signs = head.iter().filter(|byte| !byte.is_ascii_whitespace());
    matches!((signs.next(), signs.next()), (Some(b'{'), Some(b'"' | b'}')) | (Some(b'['), Some(b'{' | b']')))
}

/// The files next to the input.
#[derive(Default)]
struct Beside {
    operations: Option<Sibling>,
    registry: Option<Sibling>,
    texts: Option<Sibling>,
}

impl Beside {
    /// Opens the existing files, all at once so that the total size is known.
    fn open(siblings: &Siblings, notes: &mut Notes) -> Self {
        let mut missing = Vec::new();
        let mut open = |end: &str, what: &str| match siblings.open(MEMORY, end) {
            Some(Ok(sibling)) => Some(sibling),
            found => {
                let why = found.and_then(Result::err).map_or_else(String::new, |why| format!("; {why}"));
                missing.push(format!("*{end} ({what}{why})"));
                None
            }
        };
        let beside = Self {
            operations: open(OPERATIONS, "operands, types, programs"),
            registry: open(REGISTRY, "weights and inputs"),
            texts: open(TEXTS, "graph IR"),
        };
        if !missing.is_empty() {
            notes.warn(format!(
                "cannot read these files next to the memory file, so their data is missing: {}",
                missing.join(", ")
            ));
        }
        beside
    }
}

/// Reads a file next to the input up to its end or its first corruption.
fn read_sibling<D: Document>(
    sibling: Sibling,
    document: &mut D,
    notes: impl Fn(&mut D) -> &mut Notes,
) -> Result<()> {
    notes(document).begin(&sibling.name);
    if let Some(corruption) = document::read(sibling.stream, document)? {
        notes(document).corrupt_sibling(&corruption);
    }
    Ok(())
}

fn read_graphs(
    registry: Option<Sibling>,
    texts: Option<Sibling>,
    notes: &mut Notes,
    tables: &mut Tables<'_>,
) -> Result<Graphs> {
    let mut graphs = Graphs::default();
    if let Some(file) = registry {
        let mut registry = Registry { graphs: &mut graphs, notes, tables };
        read_sibling(file, &mut registry, |registry| registry.notes)?;
    }
    if let Some(file) = texts {
        let mut texts = Texts::new(&mut graphs, notes, tables);
        read_sibling(file, &mut texts, |texts| texts.notes)?;
        texts.finish()?;
    }
    graphs.number();
    Ok(graphs)
}

/// The rows of the operations file and its name, if there is one.
fn read_operations(
    file: Option<Sibling>,
    graphs: &Graphs,
    notes: &mut Notes,
    tables: &mut Tables<'_>,
) -> Result<(Operations, Option<String>)> {
    let Some(file) = file else { return Ok(Default::default()) };
    let name = file.name.clone();
    let mut reading = operations::Reading { operations: Operations::default(), graphs, notes, tables };
    read_sibling(file, &mut reading, |reading| reading.notes)?;
    Ok((reading.operations, Some(name)))
}

fn no_memory_data(name: &str, rows: u32, corruption: Option<Corruption>) -> Error {
    match corruption {
        Some(Corruption { why: JsonError::Read(source), .. }) => Error::Read { path: name.into(), source },
        Some(Corruption { why, .. }) => Error::NoMemoryData {
            file: name.into(),
            message: format!(
                "the file is corrupt before its first state ({why}); create it again from the log"
            ),
        },
        None => Error::NoMemoryData {
            file: name.into(),
            message: format!(
                "no memory states in {}; capture the log with TT_RUNTIME_MEMORY_LOG_LEVEL=operation and run \
                 `ttmem report` on it",
                counted(rows, "row")
            ),
        },
    }
}

/// Warns that there are other ranks, if the input is the main rank's file.
fn say_ranks(label: Option<&str>, stem: Option<&str>, notes: &mut Notes) {
    if let (Some(label), Some(stem)) = (label, stem)
        && !stem.contains("_rank")
    {
        notes.warn(format!(
            "these are the files of rank {label}; to see the other ranks, open {stem}_rank*{MEMORY}"
        ));
    }
}
