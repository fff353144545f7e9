//! Readers: one for each format of evidence, and the way to the right one.
//!
//! A reader looks at the first bytes and says whether the evidence is its own; then it turns the evidence into
//! events. Here also lives `open`, which finds the file, unpacks it and picks the reader. Nothing here answers
//! questions.

mod input;
mod lines;
mod reread;
pub mod tt_log;
mod ttmem;

pub use input::{Input, Options, Progress, open, open_with};
pub use tt_log::last_pass::{Cutting, LastPass};
pub use tt_log::{Seen, SeenPool, Watch};

use crate::error::Result;
use crate::model::{Profile, Sink};

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

    /// Says everything that the evidence says.
    fn read(&self, input: Input<'_>, sink: &mut dyn Sink) -> Result<()>;
}

/// All readers, in the order they are asked.
pub fn readers() -> &'static [&'static dyn Reader] {
    &[&ttmem::TtmemFile, &tt_log::TtLog]
}

/// Takes along the texts that a profile only knows the places of, so that it needs its source no more.
///
/// What the source no longer has is left out, with a warning in the profile.
pub fn embed_texts(profile: &mut Profile) {
    if profile.source.format == tt_log::TtLog.name() {
        tt_log::texts::embed(profile);
    }
}
