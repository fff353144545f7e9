//! One reader per input format, and format detection.
//!
//! A reader looks at the first bytes to decide whether an input has its format, then turns the input into events.
//! `open` opens the file, decompresses it and picks the reader. Queries on profiles are in another crate.

mod ahead;
mod classes;
mod cuda_oom;
mod definitions;
mod docker;
mod document;
mod evidence;
mod folder;
mod free_space;
pub mod history;
mod input;
mod json;
mod lines;
mod memory_profile;
mod python_stack;
mod recent;
mod reread;
mod rotated;
mod siblings;
mod snapshot_files;
mod torch_snapshot;
mod traceback;
mod tt_json;
pub mod tt_log;
mod tt_metal;
mod tt_train;
mod ttmem;
mod ttnn_arch;
#[cfg(feature = "sqlite")]
mod ttnn_db;
mod ttnn_graph;
mod ttrt_memory;
mod utf16;
mod wrapping;

pub use evidence::{evidence_in, is_same_file};
pub use folder::{Among, RankFiles, is_earlier_file, ranks_in, recordings_in, report_among, report_in};
pub use input::{Input, Options, Progress, is_packed, open, open_with};
pub use siblings::{Sibling, Siblings};
pub use tt_log::last_pass::{Cutting, LastPass};
pub use tt_log::{Seen, SeenPool, Watch};
pub use ttnn_graph::{complete, graph_changes, may_complete};

use std::path::Path;

use ttmem_model::{Profile, Result, Sink};

/// Whether an input has a reader's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sniff {
    /// The input does not have this format.
    No,
    /// Undecided: the first bytes neither prove nor exclude it.
    Maybe,
    /// The input has this format.
    Yes,
}

/// Reads one format.
pub trait Reader: Sync {
    /// The format name, such as `tt_log`.
    fn name(&self) -> &'static str;

    /// A one-line description of the format.
    fn about(&self) -> &'static str;

    /// How to produce such a file, in one line.
    fn capture(&self) -> &'static str;

    /// Inspects the first bytes.
    fn sniff(&self, head: &[u8]) -> Sniff;

    /// Whether the format is JSON.
    fn is_json(&self) -> bool {
        false
    }

    /// Sends the content of the input to the sink as events.
    fn read(&self, input: Input<'_>, sink: &mut dyn Sink) -> Result<()>;
}

/// All readers, in order of precedence.
pub fn readers() -> &'static [&'static dyn Reader] {
    &[
        &ttmem::TtmemFile,
        // Before the reader of report files, because both formats contain the word `memory_config`.
        &ttnn_graph::TtnnGraph,
        &tt_json::TtJson,
        &ttrt_memory::TtrtMemory,
        &memory_profile::MemoryProfile,
        &torch_snapshot::TorchSnapshot,
        #[cfg(feature = "sqlite")]
        &ttnn_db::TtnnDb,
        &tt_log::TtLog,
        &tt_metal::TtMetalLog,
        &cuda_oom::CudaOom,
        &tt_train::TtTrain,
    ]
}

/// Whether a report's memory file is, or may be, the file that the profile was read from. Such a file has more detail
/// than one generated from the profile.
pub fn is_evidence(profile: &Profile, memory_file: &Path) -> bool {
    let source = Path::new(&profile.source.file);
    let is_named_so = source.file_name() == memory_file.file_name() && memory_file.is_file();
    // A relative path cannot be resolved from another folder; then only the file names are compared.
    let is_elsewhere =
        || source.canonicalize().is_ok_and(|source| memory_file.canonicalize().ok() != Some(source));
    // A copy of a file of tt-memory-profiler 0.x has the same content as the original.
    profile.source.format == tt_json::TtJson.name()
        && is_named_so
        && (!is_elsewhere() || !tt_json::is_ours(memory_file))
}

/// Copies the texts that a profile only references into it, so that the profile no longer needs its source file.
///
/// Texts that the source file no longer contains are dropped, with a warning in the profile.
pub fn embed_texts(profile: &mut Profile) {
    if profile.source.format == tt_log::TtLog.name() {
        tt_log::texts::embed(profile);
    }
}
