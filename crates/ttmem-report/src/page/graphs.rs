//! The graph texts of all ranks, and the mapping of their lines to operations.
//!
//! Ranks that run the same graph share its lines. Texts are parsed in parallel: they are the largest part of most
//! pages.

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use serde::Serialize;
use ttmem_model::{OpId, Profile, Rank, StrId};
use ttmem_query::ir::{Executed, GraphText, STAGES, source_of};
use ttmem_query::timeline::{Column, Kind, Pattern, Texts, Timeline};
use xxhash_rust::xxh3::xxh3_128;

use super::block::Block;
use super::lines::Lines;

/// The stage whose operations are executed.
const RUNS: &str = "ttnn";

/// The number of texts that a thread parses at a time.
const TOGETHER: usize = 16;

/// A graph of a rank.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "GraphHead"))]
pub(super) struct AboutModule {
    name: Option<String>,
    stages: Vec<AboutStage>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "GraphStage"))]
struct AboutStage {
    stage: &'static str,
    /// The index of its first line among the lines of all graphs.
    first: usize,
    lines: usize,
}

/// The graphs of all ranks.
pub(super) struct Graphs {
    /// The lines of all graphs.
    pub lines: Lines,
    /// For each rank its graphs, and a block that maps lines to operations.
    pub ranks: Vec<(Vec<AboutModule>, Block)>,
}

/// A text of one or more graphs.
struct Shared<'a> {
    text: &'a str,
    /// The graphs that have it: rank, module, stage.
    users: Vec<(usize, usize, &'static str)>,
}

/// A parsed text.
struct Parts {
    lines: usize,
    /// Lines with their location numbers, if an executed operation has that location.
    locations: Vec<(u32, u64)>,
    /// For each user, the lines of the operations that ran there.
    operations: Vec<Vec<(u32, OpId, StrId)>>,
}

impl Graphs {
    /// Parses the texts of all ranks.
    pub fn new(profile: &Profile, ranks: &[(&Rank, Timeline<'_>)], texts: &Texts<'_>) -> Self {
        let shared = shared_texts(profile, ranks);
        let executed: Vec<Executed<'_>> =
            ranks.par_iter().map(|(rank, _)| Executed::new(profile, rank)).collect();
        let numbers: FxHashMap<&str, u64> =
            (0..).zip(texts.list()).map(|(number, text)| (text.as_ref(), number)).collect();
        let done: Vec<(Lines, Vec<Parts>)> =
            shared.par_chunks(TOGETHER).map(|some| take_apart(some, &executed, &numbers)).collect();
        let mut lines = Lines::default();
        let mut of_ranks: Vec<Links> = ranks.iter().map(|_| Links::default()).collect();
        let mut modules: Vec<Vec<AboutModule>> =
            ranks.iter().map(|(rank, _)| about_modules(profile, rank)).collect();
        let mut shared = shared.iter();
        for (some, parts) in done {
            let mut first = lines.len();
            lines.append(some);
            for (part, text) in parts.iter().zip(shared.by_ref()) {
                for (user, &(rank, module, stage)) in text.users.iter().enumerate() {
                    modules[rank][module].stages.push(AboutStage { stage, first, lines: part.lines });
                    of_ranks[rank].add(first, part, user, &ranks[rank].1, texts);
                }
                first += part.lines;
            }
        }
        for module in modules.iter_mut().flatten() {
            module.stages.sort_by_key(|stage| STAGES.iter().position(|known| *known == stage.stage));
        }
        Self { lines, ranks: modules.into_iter().zip(of_ranks.into_iter().map(Links::block)).collect() }
    }
}

fn about_modules(profile: &Profile, rank: &Rank) -> Vec<AboutModule> {
    let name = |module: &ttmem_model::Module| module.name.map(|name| profile.text(name).to_owned());
    rank.modules.iter().map(|module| AboutModule { name: name(module), stages: Vec::new() }).collect()
}

/// The distinct texts, each with all graphs that have it.
fn shared_texts<'a>(profile: &'a Profile, ranks: &[(&Rank, Timeline<'_>)]) -> Vec<Shared<'a>> {
    let mut shared: Vec<Shared<'a>> = Vec::new();
    let mut known: FxHashMap<u128, usize> = FxHashMap::default();
    for (rank_number, (rank, _)) in ranks.iter().enumerate() {
        for (module_number, module) in rank.modules.iter().enumerate() {
            for stage in STAGES {
                let Some(text) = source_of(profile, module, stage) else { continue };
                let place = *known.entry(xxh3_128(text.as_bytes())).or_insert_with(|| {
                    shared.push(Shared { text, users: Vec::new() });
                    shared.len() - 1
                });
                shared[place].users.push((rank_number, module_number, stage));
            }
        }
    }
    shared
}

fn take_apart(
    shared: &[Shared<'_>],
    executed: &[Executed<'_>],
    numbers: &FxHashMap<&str, u64>,
) -> (Lines, Vec<Parts>) {
    let mut lines = Lines::default();
    let part = |shared: &Shared<'_>| {
        let text = GraphText::new(shared.text);
        for line in text.lines() {
            lines.push(line);
        }
        Parts {
            lines: text.lines().len(),
            locations: text.located(|loc| numbers.get(loc).copied()),
            operations: shared
                .users
                .iter()
                .map(|&(rank, module, stage)| match stage {
                    RUNS => executed[rank].lines(module, &text),
                    _ => Vec::new(),
                })
                .collect(),
        }
    };
    let parts = shared.iter().map(part).collect();
    (lines, parts)
}

/// The mapping of lines to a rank's operations.
#[derive(Default)]
struct Links {
    locations: Vec<[u64; 2]>,
    operations: Vec<[u64; 3]>,
}

impl Links {
    fn add(&mut self, first: usize, part: &Parts, user: usize, timeline: &Timeline<'_>, texts: &Texts<'_>) {
        let first = first as u64;
        self.locations.extend(part.locations.iter().map(|(line, loc)| [first + u64::from(*line), *loc]));
        let operation = |&(line, op, program): &(u32, OpId, StrId)| {
            let (op, program) = (timeline.op_number(op)?, texts.find(program)?);
            Some([first + u64::from(line), op.into(), program.into()])
        };
        self.operations.extend(part.operations[user].iter().filter_map(operation));
    }

    fn block(self) -> Block {
        let mut block = Block::default();
        add_table(&mut block, ["loc_line", "loc"], self.locations);
        add_table(&mut block, ["op_line", "op", "op_program"], self.operations);
        block
    }
}

/// Adds rows as columns, sorted and without duplicates.
fn add_table<const N: usize>(block: &mut Block, names: [&str; N], mut rows: Vec<[u64; N]>) {
    rows.sort_unstable();
    rows.dedup();
    for (place, name) in names.into_iter().enumerate() {
        let values = rows.iter().map(|row| row[place]).collect();
        block.add(Column { name: name.to_owned(), kind: Kind::Number, pattern: Pattern::Ascending, values });
    }
}
