//! Reads the JSON files of a report, where there is no profile: the earlier tool (tt-memory-profiler) wrote none.
//!
//! | file | gives |
//! |---|---|
//! | `<stem>_memory.json` | a step for each row, and what the pools held before it |
//! | `<stem>_operations.json` | what each operation is, and the program that it ran in |
//! | `<stem>_inputs_registry.json` | the arguments of the graphs |
//! | `<stem>_ir.json` | the texts of the graphs |
//!
//! The first is the evidence; the others are read where they lie beside it. Types are taken apart as those of a log
//! are: what the files derive from them (padding, weights, bytes) is derived anew, because the earlier tool was wrong
//! about some of it.
//!
//! The lists leave deallocations out. So births of tensors are known and deaths are not: there is no saying what was
//! alive, and no tensors are made. The states at deallocations are not in the files either; a warning says what
//! that means.
//!
//! No more of a file is held than a row, or a text of a graph. What the format does not have is skipped and counted.

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
use ttmem_model::{Error, Result, Sink};

use self::document::Document;
use self::graphs::{Graphs, Registry, Texts};
use self::notes::Notes;
use self::operations::Operations;
use self::steps::Steps;
use super::json::{Damage, JsonError};
use super::tt_log::tables::Tables;
use super::{Input, Reader, Sibling, Siblings, Sniff};

/// How the name of the evidence ends, and those of the files beside it.
pub(super) const MEMORY: &str = "_memory.json";
const OPERATIONS: &str = "_operations.json";
const REGISTRY: &str = "_inputs_registry.json";
const TEXTS: &str = "_ir.json";

/// What such files cannot tell.
const NOT_IN_THEM: &str = "the JSON files of a report leave out what happened at deallocations: a peak that stood \
    before one is not in them, what a step changed includes the deallocations behind it, and what was alive, what is \
    left at the end and whether memory ran out is not known; make the report from the log, where there is one";

/// Whether `ttmem` wrote a memory file: the earlier tool numbers no steps.
pub(super) fn is_ours(memory_file: &Path) -> bool {
    const HEAD: u64 = 64 << 10;
    let mut head = Vec::new();
    let read = File::open(memory_file).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.is_ok() && memmem::find(&head, b"\"step\":").is_some()
}

/// What those of the earlier tool lack besides.
const EARLIER_TOOL: &str = "the files are of the earlier tt-memory-profiler: operations that it found no state for have no \
    rows, and of the arguments it has those of the first graph, not all of them where they are block floats";

/// The reader of the JSON files of a report.
pub(super) struct TtJson;

impl Reader for TtJson {
    fn name(&self) -> &'static str {
        "tt_json"
    }

    fn about(&self) -> &'static str {
        "the JSON files of a report (NAME_memory.json and those beside it), where there is no profile"
    }

    fn capture(&self) -> &'static str {
        "ttmem report writes them, as the earlier tt-memory-profiler did"
    }

    fn is_json(&self) -> bool {
        true
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        const SIGNS: [&[u8]; 2] = [b"\"memory_config\"", b"\"totalBytesAllocatedPerBank_MB\""];
        // A run without operations has both of these, and nothing in them.
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
        let damage = document::read(stream, &mut steps)?;
        if !steps.pools.observed {
            return Err(no_memory_data(name, steps.count, damage));
        }
        steps.finish(damage.is_none())?;
        if let Some(operations) = operations_name {
            steps.compare(&operations);
        }
        let (label, is_ours) = (steps.label.take(), steps.is_ours);
        notes.warn(NOT_IN_THEM);
        if !is_ours {
            notes.warn(EARLIER_TOOL);
        }
        if let Some(damage) = &damage {
            notes.damaged(damage);
        }
        say_ranks(label.as_deref(), siblings.stem(MEMORY), &mut notes);
        notes.say(&mut tables)?;
        if damage.is_none() { tables.end() } else { Ok(()) }
    }
}

/// Whether a text begins as a list of objects or as an object. A tagged line of a log (`[1,0]<stdout>:`) does not.
fn begins_like_rows(head: &[u8]) -> bool {
    let mut signs = head.iter().filter(|byte| !byte.is_ascii_whitespace());
    matches!((signs.next(), signs.next()), (Some(b'{'), Some(b'"' | b'}')) | (Some(b'['), Some(b'{' | b']')))
}

/// The files beside the evidence.
#[derive(Default)]
struct Beside {
    operations: Option<Sibling>,
    registry: Option<Sibling>,
    texts: Option<Sibling>,
}

impl Beside {
    /// Opens those that are there; all at once, so that it is known how much there is to read.
    fn open(siblings: &Siblings, notes: &mut Notes) -> Self {
        let mut missing = Vec::new();
        let mut open = |end: &str, what: &str| match siblings.open(MEMORY, end) {
            Some(Ok(sibling)) => Some(sibling),
            found => {
                let why = found.and_then(Result::err).map_or_else(String::new, |why| format!(", {why}"));
                missing.push(format!("*{end} ({what}{why})"));
                None
            }
        };
        let beside = Self {
            operations: open(OPERATIONS, "operands, types, programs"),
            registry: open(REGISTRY, "weights and inputs"),
            texts: open(TEXTS, "texts of graphs"),
        };
        if !missing.is_empty() {
            notes.warn(format!("not read, because it is not beside the memory file: {}", missing.join(", ")));
        }
        beside
    }
}

/// Reads a file beside the evidence as far as it goes.
fn read_sibling<D: Document>(
    sibling: Sibling,
    document: &mut D,
    notes: impl Fn(&mut D) -> &mut Notes,
) -> Result<()> {
    notes(document).begin(&sibling.name);
    if let Some(damage) = document::read(sibling.stream, document)? {
        notes(document).damaged(&damage);
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

/// The rows of the operations file, and its name, where there is one.
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

fn no_memory_data(name: &str, rows: u32, damage: Option<Damage>) -> Error {
    match damage {
        Some(Damage { why: JsonError::Read(source), .. }) => Error::Read { path: name.into(), source },
        Some(Damage { why, .. }) => Error::NoMemoryData {
            file: name.into(),
            message: format!("the file is damaged before its first state ({why}); make it anew from the log"),
        },
        None => Error::NoMemoryData {
            file: name.into(),
            message: format!(
                "there are {rows} operations in it, and none has a memory state; capture the log with \
                 TT_RUNTIME_MEMORY_LOG_LEVEL=operation and make the report from it"
            ),
        },
    }
}

/// Wants people to know that there are other ranks, if this is the one whose files have the report's own names.
fn say_ranks(label: Option<&str>, stem: Option<&str>, notes: &mut Notes) {
    if let (Some(label), Some(stem)) = (label, stem)
        && !stem.contains("_rank")
    {
        notes.warn(format!(
            "these are the files of rank {label}; the other ranks have their own, {stem}_rank*{MEMORY}: name them to see all"
        ));
    }
}
