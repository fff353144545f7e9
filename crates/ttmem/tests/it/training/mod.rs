//! Training logs made for tests: summaries whose figures follow from each other, as a tracker prints them.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test that fails is meant to panic; not every test uses all"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use ttmem::model::Profile;
use ttmem::read;

/// A phase: its label, its change, and how far it went above its start, in MB.
pub type Said<'a> = (&'a str, i64, i64);

/// A summary with a header.
pub struct Summary<'a> {
    pub name: Option<&'a str>,
    pub parameters: Option<u64>,
    pub device_mb: Option<u64>,
    pub phases: &'a [Said<'a>],
}

impl Summary<'_> {
    /// As it stands in a log.
    pub fn print(&self) -> String {
        let mut text = String::new();
        if let Some(name) = self.name {
            writeln!(text, "{}\n{name}", "#".repeat(40)).unwrap();
        }
        if let Some(parameters) = self.parameters {
            writeln!(text, "Total parameters: {parameters}").unwrap();
        }
        if let Some(memory) = self.device_mb {
            writeln!(text, "Available Device Memory: {memory} MB").unwrap();
        }
        text.push_str("=== Memory Usage Summary ===\n\n");
        let (mut current, mut peak) = (0, 0);
        for (name, change, rise) in self.phases {
            peak = peak.max(current + rise);
            current += change;
            let (allocated, freed) = (rise.max(change).max(&0), rise.max(change).max(&0) - change);
            writeln!(text, "--- {name} ---").unwrap();
            writeln!(
                text,
                "  DRAM: Segment Peak {rise}.00 MB, Allocations {allocated}.00 MB, Deallocations {freed}.00 MB, \
                 Segment Change {change:+}.00 MB"
            )
            .unwrap();
            writeln!(text, "  DRAM: Cumulative Peak {peak}.00 MB, Cumulative Current {current}.00 MB")
                .unwrap();
            writeln!(text, "  L1: Peak CB 0.12 MB, Peak Buffer 0.00 MB, Peak Total 0.12 MB").unwrap();
        }
        writeln!(text, "\n=== Final Totals ===").unwrap();
        writeln!(text, "Overall DRAM Peak: {peak}.00 MB, Final DRAM Usage: {current}.00 MB\n").unwrap();
        text
    }
}

/// One summary of a model of 1000 MB (bf16) on a device of 12288 MB.
pub fn log_of(phases: &[Said<'_>]) -> String {
    Summary { name: Some("made"), parameters: Some(500 << 20), device_mb: Some(12_288), phases }.print()
}

/// Reads a log.
pub fn opened(log: &str) -> Profile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.log");
    fs::write(&path, log).unwrap();
    let mut profile = read::open(path.to_str().unwrap()).unwrap();
    profile.source.file = "train.log".into();
    profile
}

/// Reads a file of the corpus.
pub fn corpus(name: &str) -> Profile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name);
    read::open(path.to_str().unwrap()).unwrap()
}
