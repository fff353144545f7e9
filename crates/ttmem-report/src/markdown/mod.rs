//! The summary as Markdown, for agents and issues: one document of at most 8 kB by default, whatever the size of the log.
//!
//! The first six sections, their headings and the line above them are part of the contract with users. Further sections
//! follow if there is something to report. Of several ranks, the document describes one; the others have a line each. If
//! it exceeds its budget, rows are dropped from the ends of tables (`document.rs`).
//!
//! The contract writes `MB` for MiB in the first line and in the heading of the weights. Everything else has MiB.

mod allocations;
pub(super) mod cell;
mod document;
mod further;
mod growth;
mod l1;
mod ledger;
mod promised;
mod torch;
mod ways_out;

use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::Path;

use ttmem_query::words::percent;
use ttmem_query::{Extent, Level, PoolSummary, RankOrder, RankSummary, Summary};

use super::marker::MARKER;
use super::units::{mib, shape};
use cell::{LOCATION, NAME, SHAPE, cell};
use document::Document;

/// The size of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkdownSize {
    /// Bytes. Headings and paragraphs are never dropped, so a very small budget is exceeded.
    pub budget: usize,
    /// Rows per table.
    pub rows: usize,
}

impl Default for MarkdownSize {
    fn default() -> Self {
        Self { budget: 8000, rows: 10 }
    }
}

/// Writes the summary as Markdown.
pub fn markdown(summary: &Summary, name: &str, size: MarkdownSize, out: &mut dyn Write) -> io::Result<()> {
    let ranks = by_weight(summary);
    let Some((rank, others)) = ranks.split_first() else { return Ok(()) };
    let title = format!("# Memory Profile: {}", cell(name, LOCATION));
    let verdict = rank.oom.as_ref().map(|oom| format!("> {}", cell(&oom.statement.headline, LOCATION)));
    let headline = format!("> {}", promised::headline(rank));
    let mut document = Document {
        head: [title, headline].into_iter().chain(verdict).collect(),
        sections: promised::sections(summary, rank, size.rows),
    };
    document.sections.extend(further::sections(summary, rank, others, size.rows));
    let mark = format!("\n<!-- {MARKER} -->\n");
    document.fit(size.budget.saturating_sub(mark.len()));
    out.write_all((document.render() + &mark).as_bytes())
}

/// The title of a document about a file (`-`: standard input): the file name without its extension.
pub fn title_of(file: &str) -> String {
    if file == "-" {
        return "standard input".into();
    }
    let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
    stem.strip_suffix("_profile").unwrap_or(&stem).to_owned()
}

/// The rank that the document describes.
pub fn main_rank(summary: &Summary) -> Option<&RankSummary> {
    by_weight(summary).into_iter().next()
}

/// The ranks in the order of their importance: those of the leading process, then those that ran out of memory, then those
/// with the highest peaks, then by label. The document describes the first.
fn by_weight(summary: &Summary) -> Vec<&RankSummary> {
    let leading = summary.ranks.first().map(|rank| rank.process);
    let mut ranks: Vec<&RankSummary> = summary.ranks.iter().collect();
    // The ranks of a PyTorch program are ordered already.
    if summary.comparison.is_some() {
        return ranks;
    }
    ranks.sort_by_key(|rank| {
        // Ranks with a ledger are in the order of their failures.
        let has_ledger = rank.oom.as_ref().is_some_and(|oom| oom.ledger.is_some());
        let label = rank.rank.as_deref().filter(|_| !has_ledger).map(RankOrder::of);
        (Some(rank.process) != leading, rank.oom.is_none(), Reverse(peak_of(rank, "DRAM")), label)
    });
    ranks
}

/// The peak of a pool per bank.
fn peak_of(rank: &RankSummary, pool: &str) -> Option<u64> {
    rank.pools.get(pool)?.peak_per_bank
}

/// The unit of sizes in a document.
fn unit(extent: Extent) -> &'static str {
    match extent {
        Extent::Bank => "MiB/bank",
        Extent::Core => "MiB/core",
        Extent::Device => "MiB",
    }
}

/// The unit of a pool's sizes; per bank if the file has no such pool.
fn unit_of(rank: &RankSummary, pool: &str) -> &'static str {
    unit(rank.pools.get(pool).map_or(Extent::Bank, |pool| pool.extent))
}

/// The extent that all pools share; `None` if they differ.
fn common_extent(rank: &RankSummary) -> Option<Extent> {
    let mut extents = rank.pools.iter().map(|(_, pool)| pool.extent);
    let first = extents.next().unwrap_or(Extent::Bank);
    extents.all(|extent| extent == first).then_some(first)
}

/// The unit in the column names of a table of all pools. If pools differ, each row names its extent ([`pool_cell`]).
fn common_unit(rank: &RankSummary) -> &'static str {
    unit(common_extent(rank).unwrap_or(Extent::Device))
}

/// The name of a pool in a table of all pools.
fn pool_cell(rank: &RankSummary, name: &str, pool: &PoolSummary) -> String {
    let of = match pool.extent {
        _ if common_extent(rank).is_some() => "",
        Extent::Bank => " (per bank)",
        Extent::Core => " (per core)",
        Extent::Device => " (device)",
    };
    cell(name, NAME) + of
}

/// MiB with three decimals.
fn mb(bytes: Option<u64>) -> String {
    bytes.map_or_else(unknown, |bytes| mib(bytes, 3))
}

/// Whole MiB.
fn whole_mb(bytes: Option<u64>) -> String {
    bytes.map_or_else(unknown, |bytes| mib(bytes, 0))
}

/// A share in percent.
fn share(part: Option<u64>, whole: Option<u64>) -> String {
    match part.zip(whole) {
        Some((_, 0)) => none(),
        Some((part, whole)) => percent(part, whole),
        None => unknown(),
    }
}

/// The share of a pool's capacity that its peak uses, with its level if little is left.
fn of_capacity(pool: &PoolSummary) -> String {
    let share = share(pool.peak_per_bank, pool.capacity_per_bank);
    match pool.level {
        Some(Level::Full) => format!("{share} (full)"),
        Some(Level::High) => format!("{share} (high)"),
        Some(Level::Ok) | None => share,
    }
}

fn number(number: Option<impl ToString>) -> String {
    number.map_or_else(none, |number| number.to_string())
}

/// `1x32x64 (bf16)`.
fn typed(dims: Option<&[u64]>, dtype: Option<&str>) -> String {
    let dims = dims.map_or_else(unknown, |dims| cell(&shape(dims), SHAPE));
    dtype.map_or_else(|| dims.clone(), |dtype| format!("{dims} ({})", cell(dtype, NAME)))
}

fn named(name: Option<&str>) -> String {
    name.map_or_else(unknown, |name| cell(name, NAME))
}

fn location(loc: Option<&str>) -> String {
    loc.map_or_else(none, |loc| cell(loc, LOCATION))
}

fn unknown() -> String {
    "unknown".into()
}

fn none() -> String {
    "–".into()
}
