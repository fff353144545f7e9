//! The page of a comparison.
//!
//! | element | block |
//! |---|---|
//! | `ttmem-head` | the comparison, as in JSON |
//! | `ttmem-texts-before`, `ttmem-texts-after` | the texts that the columns of each input refer to |
//! | `ttmem-diff-0` … | the columns of a rank, from `query::AlignedRank` |

use std::io::{self, Write};

use rayon::prelude::*;
use serde::Serialize;
use ttmem_model::Profile;
use ttmem_query::analyze::diff::Both;
use ttmem_query::timeline::Texts;
use ttmem_query::{AlignedDiff, AlignedRank, Diff};

use super::block::Block;
use super::{texts_block, with_data};
use crate::name_of_file;
use crate::threads::with_threads;

/// The page without data.
const PAGE: &str = include_str!("../../assets/diff.html");

/// Writes the page of a comparison of two profiles.
pub fn diff_page(
    before: &Profile,
    after: &Profile,
    aligned: &AlignedDiff<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let name = |file: &str| name_of_file(file).rsplit('/').next().unwrap_or_default().to_owned();
    let names = [&aligned.answer.before.file, &aligned.answer.after.file].map(|file| name(file));
    let title = names.join(" → ");
    let blocks = with_threads(|| blocks(Both { before, after }, aligned, names))?;
    with_data(PAGE, &title, blocks, out)
}

fn blocks<'a>(
    profiles: Both<&'a Profile>,
    aligned: &AlignedDiff<'a>,
    names: [String; 2],
) -> serde_json::Result<Vec<(String, String)>> {
    let mut texts = profiles.map(Texts::new);
    let mut columns = |rank: &AlignedRank<'a>| {
        let mut block = Block::default();
        rank.columns(&mut texts, |column| block.add(column));
        block
    };
    let ranks: Vec<Block> = aligned.ranks.iter().map(&mut columns).collect();
    let head =
        DiffHead { names, generator: concat!("ttmem ", env!("CARGO_PKG_VERSION")), diff: &aligned.answer };
    let mut packed = vec![
        ("head".to_owned(), Block::default().pack(&head)?),
        ("texts-before".to_owned(), texts_block(&texts.before).pack(&Nothing {})?),
        ("texts-after".to_owned(), texts_block(&texts.after).pack(&Nothing {})?),
    ];
    let pack = |(number, (block, rank)): (usize, (Block, &AlignedRank<'_>))| {
        Ok((format!("diff-{number}"), block.pack(rank.outline())?))
    };
    let of_ranks: serde_json::Result<Vec<(String, String)>> =
        ranks.into_par_iter().zip(&aligned.ranks).enumerate().map(pack).collect();
    packed.extend(of_ranks?);
    Ok(packed)
}

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "DiffPageHead"))]
pub(super) struct DiffHead<'a> {
    /// The names of both files, without their folders.
    names: [String; 2],
    generator: &'static str,
    diff: &'a Diff,
}
