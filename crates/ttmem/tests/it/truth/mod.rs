//! The truth about a log, held field by field against what `ttmem` says of that log.
//!
//! A truth is what the maker of a log wrote down while making it. A log seldom shows all of it: without DEBUG
//! lines nobody knows a tensor, without states at deallocations nobody sees every peak. So beside the truth
//! stands what the log shows ([`Shown`]), and each field is held as strictly as that allows. Nothing here
//! asks the profile what it could know: a reader that loses half of a log must not pass because of it.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test, and the example that prints the table, uses a part of it"
)]

mod fields;
mod shown;

pub use shown::{Dumped, Shown};

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::Deserialize;
use ttmem::model::{Profile, Rank};
use ttmem::query::{RankSummary, Request, summary};

/// The step in which a log rounds its numbers, in bytes.
pub const QUANTUM: u64 = 1049;

/// What a perfect reader of a log would report. What a file does not say is not held against anything.
#[derive(Clone, Debug, Deserialize)]
pub struct Truth {
    #[serde(default = "one")]
    pub ranks: usize,
    pub runs: Option<usize>,
    pub total_ops: u32,
    pub reported_ops: u32,
    pub oom: Option<OutOfMemory>,
    pub registry: Option<Vec<Registered>>,
    pub pools: BTreeMap<String, PoolTruth>,
    pub live_at_dram_peak: Option<Vec<LiveTruth>>,
    pub live_by_class: Option<BTreeMap<String, u64>>,
    #[serde(default)]
    pub residue: BTreeMap<String, u64>,
    pub kept_twice_bytes: Option<u64>,
    pub views: Option<Vec<ViewTruth>>,
    pub gaps: Option<Vec<GapTruth>>,
    /// Allocated bytes at every position, and what the tensors alone come to there.
    pub states: Option<BTreeMap<String, Vec<u64>>>,
    pub tensors: Option<BTreeMap<String, Vec<u64>>>,
}

fn one() -> usize {
    1
}

#[derive(Clone, Debug, Deserialize)]
pub struct PoolTruth {
    pub peak_per_bank: u64,
    pub peak_at_seq: Option<u32>,
    pub caused_by_seq: Option<u32>,
    pub printed_peak_per_bank: Option<u64>,
    pub capacity_per_bank: u64,
    pub banks: u32,
    pub last_printed: Option<u64>,
    #[serde(rename = "final")]
    pub last: Option<u64>,
}

impl PoolTruth {
    /// The highest state that the log shows.
    pub fn printed_peak(&self) -> u64 {
        self.printed_peak_per_bank.unwrap_or(self.peak_per_bank)
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct LiveTruth {
    pub ssa: String,
    pub program: String,
    pub shape: String,
    pub dtype: String,
    pub op: String,
    pub op_seq: i64,
    pub loc: String,
    pub cls: String,
    pub per_bank: u64,
    pub padded: u64,
    pub logical: u64,
}

impl LiveTruth {
    pub fn is_argument(&self) -> bool {
        self.op == "argument"
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Registered {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub shape: String,
    pub dtype: String,
    pub bytes: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct OutOfMemory {
    pub pool: String,
    pub cause: String,
    pub requested: Option<u64>,
    pub per_bank: Option<u64>,
    pub banks: Option<u32>,
    pub free: Option<u64>,
    pub largest: Option<u64>,
    /// Bytes that circular buffers and other buffers both need.
    pub overlap: Option<u64>,
    /// The operation that failed; the last one where the truth does not say.
    pub seq: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ViewTruth {
    pub seq: u32,
}

#[derive(Clone, Debug, Deserialize)]
pub struct GapTruth {
    pub position: u32,
    pub pool: String,
    pub effect: i64,
}

impl Truth {
    /// The truth as its file has it.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    /// The truth as the maker of logs returned it.
    pub fn made(truth: &ttmem_testkit::tt::Truth) -> Self {
        let value = serde_json::to_value(truth).expect("a truth is plain data");
        serde_json::from_value(value).expect("the fields of the maker are those of its files")
    }
}

/// One field of a truth, and whether it holds.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    pub holds: bool,
    pub expected: String,
    pub found: String,
}

/// The fields of a truth, as they are looked at.
#[derive(Clone, Debug, Default)]
pub struct Fields(pub Vec<Field>);

impl Fields {
    /// A field that is the same or not.
    pub fn same<T: PartialEq + Debug>(&mut self, name: impl Into<String>, expected: &T, found: &T) {
        self.judge(name, expected == found, expected, found);
    }

    /// A number of bytes that is known, but for rounding.
    pub fn near(&mut self, name: impl Into<String>, expected: u64, found: Option<u64>, tolerance: u64) {
        let holds = found.is_some_and(|found| found.abs_diff(expected) <= tolerance);
        self.judge(name, holds, &Some(expected), &found);
    }

    /// Something that is not known and must not be made up.
    pub fn unknown<T: Debug>(&mut self, name: impl Into<String>, found: Option<&T>) {
        self.judge(name, found.is_none(), &None::<T>, &found);
    }

    /// A field that somebody else has judged.
    pub fn judge(&mut self, name: impl Into<String>, holds: bool, expected: &impl Debug, found: &impl Debug) {
        let (expected, found) = (format!("{expected:?}"), format!("{found:?}"));
        self.0.push(Field { name: name.into(), holds, expected, found });
    }

    /// The fields that do not hold, in words.
    pub fn broken(&self) -> Vec<String> {
        let words = |field: &Field| {
            format!("{}: expected {}, found {}", field.name, short(&field.expected), short(&field.found))
        };
        self.0.iter().filter(|field| !field.holds).map(words).collect()
    }
}

/// A value short enough for one row of a table.
pub fn short(text: &str) -> String {
    const MOST: usize = 300;
    if text.chars().count() <= MOST {
        text.to_owned()
    } else {
        text.chars().take(MOST).chain(['…']).collect()
    }
}

/// One rank of a profile and the answer about it.
pub struct Answered<'a> {
    pub profile: &'a Profile,
    pub rank: &'a Rank,
    pub summary: &'a RankSummary,
}

/// Whether a warning is about what the run did; a log that is whole gives no cause for any other.
fn is_of_the_run(message: &str, crashed: bool) -> bool {
    let ends_early = message.starts_with("the log ends while program ");
    (crashed && ends_early) || message.starts_with("buffers were allocated while a trace is active")
}

/// Holds every field of a truth against a profile.
pub fn compare(profile: &Profile, truth: &Truth, shown: Shown) -> Fields {
    let mut fields = Fields::default();
    let answer = match summary(std::slice::from_ref(profile), &Request::default()) {
        Ok(answer) => answer,
        Err(error) => {
            fields.judge("answer", false, &"an answer", &error.to_string());
            return fields;
        }
    };
    fields.same("skipped lines", &0, &answer.source.skipped_lines);
    if shown.modules == Dumped::Full {
        let crashed = truth.oom.is_some();
        let messages = answer.source.warnings.iter().map(|warning| warning.message.as_str());
        let unexpected: Vec<&str> = messages.filter(|message| !is_of_the_run(message, crashed)).collect();
        fields.same("warnings", &Vec::new(), &unexpected);
    }
    fields.same("ranks", &truth.ranks, &answer.ranks.len());
    let ranks = profile.ranks.iter().filter(|rank| !rank.pools.is_empty());
    for (rank, summary) in ranks.zip(&answer.ranks) {
        let answered = Answered { profile, rank, summary };
        fields::check(&mut fields, &answered, truth, shown);
    }
    fields
}
