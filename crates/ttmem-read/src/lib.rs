//! Readers: one for each format of evidence, and the way to the right one.
//!
//! A reader looks at the first bytes and says whether the evidence is its own; then it turns the evidence into
//! events. Here also lives `open`, which finds the file, unpacks it and picks the reader. Nothing here answers
//! questions.

mod evidence;
mod folder;
pub mod history;
mod input;
mod json;
mod lines;
mod memory_profile;
mod reread;
mod rotated;
mod siblings;
mod tt_json;
pub mod tt_log;
mod tt_train;
mod ttmem;
mod ttnn_arch;
#[cfg(feature = "sqlite")]
mod ttnn_db;
mod ttnn_graph;
mod ttrt_memory;
mod wrapping;

pub use evidence::{evidence_in, is_same_file};
pub use folder::{Among, report_among, report_in};
pub use input::{Input, Options, Progress, is_packed, open, open_with};
pub use siblings::{Sibling, Siblings};
pub use tt_log::last_pass::{Cutting, LastPass};
pub use tt_log::{Seen, SeenPool, Watch};
pub use ttnn_graph::graph_changes;

use std::path::Path;

use ttmem_model::{Profile, Result, Sink};

/// Whether evidence is of a reader's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sniff {
    /// It cannot be.
    No,
    /// Nothing speaks against it, and nothing for it yet.
    Maybe,
    /// It is.
    Yes,
}

/// Reads one format.
pub trait Reader: Sync {
    /// Its name: `tt_log`.
    fn name(&self) -> &'static str;

    /// What it reads, in a line.
    fn about(&self) -> &'static str;

    /// How people make such a file, in a line.
    fn capture(&self) -> &'static str;

    /// Looks at the first bytes.
    fn sniff(&self, head: &[u8]) -> Sniff;

    /// Whether its files are JSON.
    fn is_json(&self) -> bool {
        false
    }

    /// Says everything that the evidence says.
    fn read(&self, input: Input<'_>, sink: &mut dyn Sink) -> Result<()>;
}

/// All readers, in the order they are asked.
pub fn readers() -> &'static [&'static dyn Reader] {
    &[
        &ttmem::TtmemFile,
        // Before the files of a report: both know the word `memory_config`.
        &ttnn_graph::TtnnGraph,
        &tt_json::TtJson,
        &ttrt_memory::TtrtMemory,
        &memory_profile::MemoryProfile,
        #[cfg(feature = "sqlite")]
        &ttnn_db::TtnnDb,
        &tt_log::TtLog,
        &tt_train::TtTrain,
    ]
}

/// Whether a memory file of a report is what a profile was read from, or may be: then it says more than what can be
/// made from the profile.
pub fn is_evidence(profile: &Profile, memory_file: &Path) -> bool {
    let source = Path::new(&profile.source.file);
    let is_named_so = source.file_name() == memory_file.file_name() && memory_file.is_file();
    // A relative path leads nowhere from another folder; then the name must do.
    let is_elsewhere =
        || source.canonicalize().is_ok_and(|source| memory_file.canonicalize().ok() != Some(source));
    // A copy of what the earlier tool wrote says as much as the original.
    profile.source.format == tt_json::TtJson.name()
        && is_named_so
        && (!is_elsewhere() || !tt_json::is_ours(memory_file))
}

/// Takes along the texts that a profile only knows the places of, so that it needs its source no more.
///
/// What the source no longer has is left out, with a warning in the profile.
pub fn embed_texts(profile: &mut Profile) {
    if profile.source.format == tt_log::TtLog.name() {
        tt_log::texts::embed(profile);
    }
}
