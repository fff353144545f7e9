//! The page: a profile in a single, self-contained HTML file.
//!
//! The file is the page that `web/` builds, with the data in place of a marker: blocks of packed columns (see
//! [`block`]), each in a script element that browsers do not run.
//!
//! | element | block |
//! |---|---|
//! | `ttmem-head` | the summary, and explanations of errors |
//! | `ttmem-texts` | the texts that columns refer to |
//! | `ttmem-rank-0` … | the columns of a rank, from `query::timeline` |
//! | `ttmem-gantt-0` … | the Gantt chart of a rank, from `query::gantt`, if there are times |
//! | `ttmem-ir` | the lines of all graphs |
//! | `ttmem-ir-0` … | the mapping of those lines to a rank's operations |
//!
//! The pages of `ttmem gantt` and `ttmem diff` have other blocks; see `gantt.rs` and `diff.rs`.
//!
//! The page unpacks a block on first use: graph texts, for example, only when their section is opened.

mod allocations;
mod block;
mod diff;
mod gantt;
mod graphs;
mod lines;

use std::io::{self, Write};
use std::iter;

use rayon::prelude::*;
use serde::Serialize;

pub use self::diff::diff_page;
pub use self::gantt::gantt_page;

use self::allocations::AboutAllocations;
use self::block::Block;
use self::gantt::{AboutGantt, gantt_block};
use self::graphs::{AboutModule, Graphs};
use self::lines::Lines;
use super::threads::with_threads;
use ttmem_model::Profile;
use ttmem_query::timeline::{RankOutline, Texts, Timeline};
use ttmem_query::{RankGantt, Summary, in_order};

/// The page without data.
const PAGE: &str = include_str!("../../assets/report.html");
const TITLE: &str = "ttmem:title";
const DATA: &str = "<!--ttmem:data-->";

/// Writes the page of a profile. `summary` is the complete summary of the same profile.
pub fn page(profile: &Profile, summary: &Summary, name: &str, out: &mut dyn Write) -> io::Result<()> {
    with_data(PAGE, name, with_threads(|| blocks(profile, summary, name))?, out)
}

/// Fills name and data into a page that `web/` built.
fn with_data(page: &str, name: &str, blocks: Vec<(String, String)>, out: &mut dyn Write) -> io::Result<()> {
    let (head, rest) = page.split_once(TITLE).unwrap_or((page, ""));
    let (middle, end) = rest.split_once(DATA).unwrap_or((rest, ""));
    out.write_all(head.as_bytes())?;
    write!(out, "{} · ttmem", Escaped(name))?;
    out.write_all(middle.as_bytes())?;
    for (id, data) in blocks {
        writeln!(out, "<script type=\"application/x-ttmem\" id=\"ttmem-{id}\">{data}</script>")?;
    }
    out.write_all(end.as_bytes())
}

/// The blocks with their names, in order of use.
fn blocks(profile: &Profile, summary: &Summary, name: &str) -> serde_json::Result<Vec<(String, String)>> {
    let mut texts = Texts::new(profile);
    let mut columns = Vec::new();
    let mut ranks = Vec::new();
    let mut gantts = Vec::new();
    for rank in in_order(profile) {
        let mut timeline = Timeline::new(profile, rank);
        let parts = timeline.columns(&mut texts, Block::add);
        columns.push((timeline.outline(), Block::joined(parts)));
        let gantt = RankGantt::new(profile, rank);
        gantts.push(gantt.map(|gantt| (gantt_block(&gantt, &mut texts), gantt)));
        ranks.push((rank, timeline));
    }
    let allocations = all_allocations(profile, summary);
    let has_stacks = columns.iter().any(|(outline, _)| outline.has_stacks);
    let graphs = Graphs::new(profile, &ranks, &texts);
    let mut jobs: Vec<(String, Block, About<'_>)> = Vec::new();
    jobs.push(("head".into(), Block::default(), About::All(Box::new(head(summary, name, has_stacks)))));
    jobs.push(("texts".into(), texts_block(&texts), About::Nothing {}));
    let per_rank = columns.into_iter().zip(graphs.ranks).zip(allocations);
    for (number, (((outline, block), (modules, links)), allocations)) in per_rank.enumerate() {
        let about = AboutRank { outline, modules, allocations };
        jobs.push((format!("rank-{number}"), block, About::Rank(about)));
        jobs.push((format!("ir-{number}"), links, About::Nothing {}));
    }
    for (number, (block, gantt)) in
        gantts.iter_mut().enumerate().filter_map(|(number, made)| Some((number, made.as_mut()?)))
    {
        jobs.push((format!("gantt-{number}"), std::mem::take(block), About::Gantt(AboutGantt::new(gantt))));
    }
    let mut lines = Block::default();
    graphs.lines.add_to(&mut lines, "ir");
    jobs.push(("ir".into(), lines, About::Nothing {}));
    jobs.into_par_iter().map(|(id, block, about)| Ok((id, block.pack(&about)?))).collect()
}

/// The allocations of each rank, in the order of the ranks.
fn all_allocations(profile: &Profile, summary: &Summary) -> Vec<Option<AboutAllocations>> {
    let found = summary.ranks.iter().map(|rank| rank.allocations.as_ref()).chain(iter::repeat(None));
    in_order(profile)
        .into_iter()
        .zip(found)
        .map(|(rank, found)| found.map(|found| AboutAllocations::new(profile, rank, found)))
        .collect()
}

fn texts_block(texts: &Texts<'_>) -> Block {
    let mut block = Block::default();
    let mut lines = Lines::default();
    texts.list().iter().for_each(|text| lines.push(text));
    lines.add_to(&mut block, "texts");
    block
}

/// The header of a block.
#[derive(Serialize)]
#[serde(untagged)]
enum About<'a> {
    Nothing {},
    All(Box<AboutAll<'a>>),
    Rank(AboutRank),
    Gantt(AboutGantt<'a>),
}

#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "RankHead"))]
struct AboutRank {
    #[serde(flatten)]
    outline: RankOutline,
    /// The compiled graphs, with the range of their text in the lines of the block `ir`.
    modules: Vec<AboutModule>,
    /// The allocations of a caching allocator by their properties; null if the summary has none.
    allocations: Option<AboutAllocations>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "PageHead"))]
struct AboutAll<'a> {
    name: &'a str,
    generator: &'static str,
    summary: Summary,
    /// Whether a rank has call stacks.
    has_stacks: bool,
}

fn head<'a>(summary: &Summary, name: &'a str, has_stacks: bool) -> AboutAll<'a> {
    AboutAll {
        name,
        has_stacks,
        generator: concat!("ttmem ", env!("CARGO_PKG_VERSION")),
        summary: without_lists(summary),
    }
}

/// The summary without lists that the page has elsewhere: tensors are columns, and groups of allocations are in the header
/// of their rank.
fn without_lists(summary: &Summary) -> Summary {
    let mut summary = summary.clone();
    for rank in &mut summary.ranks {
        for moment in rank.peaks.0.iter_mut().map(|(_, moment)| moment).chain(&mut rank.peak) {
            moment.live = None;
            moment.residue = None;
        }
        if let Some(allocations) = &mut rank.allocations {
            for list in [&mut allocations.groups, &mut allocations.busiest] {
                list.clear();
            }
            allocations.reserved.clear();
        }
    }
    summary
}

/// Adds the types that the pages read.
#[cfg(feature = "typescript")]
pub(super) fn declare(declarations: &mut ttmem_query::typescript::Declarations) {
    declarations.add::<AboutAll<'static>>();
    declarations.add::<AboutRank>();
    declarations.add::<AboutGantt<'static>>();
    declarations.add::<gantt::Head<'static>>();
    declarations.add::<diff::DiffHead<'static>>();
    declarations.add::<ttmem_query::AlignedOutline>();
}

/// HTML-escaped text.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}
