//! The Gantt chart as a separate page and as a part of the report's page.
//!
//! | element | block |
//! |---|---|
//! | `ttmem-head` | the names of the page and the ranks |
//! | `ttmem-texts` | the texts that columns refer to |
//! | `ttmem-gantt-0` … | the columns of a rank, from `query::gantt` |

use std::io::{self, Write};

use rayon::prelude::*;
use serde::Serialize;
use ttmem_model::{Nanoseconds, Profile};
use ttmem_query::gantt::Outline;
use ttmem_query::{Extent, Gantt, RankGantt};

use super::block::Block;
use super::{Texts, texts_block, with_data};
use crate::threads::with_threads;

/// The page without data.
const PAGE: &str = include_str!("../../assets/gantt.html");
/// Writes the page of a Gantt response.
pub fn gantt_page(profile: &Profile, answer: &Gantt<'_>, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let blocks = with_threads(|| blocks(profile, answer, name))?;
    with_data(PAGE, name, blocks, out)
}

fn blocks(profile: &Profile, answer: &Gantt<'_>, name: &str) -> serde_json::Result<Vec<(String, String)>> {
    let mut texts = Texts::new(profile);
    let ranks: Vec<Block> = answer.ranks.iter().map(|rank| gantt_block(rank, &mut texts)).collect();
    let head = Head {
        name,
        file: answer.file,
        generator: concat!("ttmem ", env!("CARGO_PKG_VERSION")),
        ranks: answer.ranks.iter().map(|rank| rank.outline.rank).collect(),
    };
    let mut packed = vec![
        ("head".to_owned(), Block::default().pack(&head)?),
        ("texts".to_owned(), texts_block(&texts).pack(&Nothing {})?),
    ];
    let pack = |(number, (block, rank)): (usize, (Block, &RankGantt<'_>))| {
        Ok((format!("gantt-{number}"), block.pack(&AboutGantt::new(rank))?))
    };
    let of_ranks: serde_json::Result<Vec<(String, String)>> =
        ranks.into_par_iter().zip(&answer.ranks).enumerate().map(pack).collect();
    packed.extend(of_ranks?);
    Ok(packed)
}

/// The columns of a rank.
pub(super) fn gantt_block<'a>(rank: &RankGantt<'a>, texts: &mut Texts<'a>) -> Block {
    let mut block = Block::default();
    rank.columns(texts, |column| block.add(column));
    block
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "GanttPageHead"))]
pub(super) struct Head<'a> {
    name: &'a str,
    file: &'a str,
    generator: &'static str,
    ranks: Vec<Option<&'a str>>,
}

/// The header of a rank's block.
#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "GanttHead"))]
pub(super) struct AboutGantt<'a> {
    #[serde(flatten)]
    outline: &'a Outline<'a>,
    unit_ns: Nanoseconds,
    pools: Vec<AboutPool<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "GanttPool"))]
struct AboutPool<'a> {
    name: &'a str,
    extent: Extent,
    quantum: u64,
    has_tensors: bool,
}

impl<'a> AboutGantt<'a> {
    pub fn new(rank: &'a RankGantt<'_>) -> Self {
        let pools = rank.memory.iter();
        Self {
            outline: &rank.outline,
            unit_ns: rank.unit(),
            pools: pools
                .map(|memory| AboutPool {
                    name: memory.pool,
                    extent: memory.extent,
                    quantum: memory.quantum,
                    has_tensors: memory.has_tensors,
                })
                .collect(),
        }
    }
}
