//! Elements that are wider than they may have to be.

use super::{Finding, LARGE, Situation, What};
use ttmem_model::{Class, TensorId};

/// Weights that hold at least this share of the peak, in percent, are most of it.
const MOST_OF_IT: u64 = 50;

/// 32-bit floats that would take half of it as bf16.
pub fn wide(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let is_wide = |tensor: &TensorId| situation.stored(*tensor).is_some_and(|(_, stored)| stored == "f32");
    let alive: Vec<TensorId> = pool.alive(situation.rank).into_iter().filter(is_wide).collect();
    let per_bank = situation.sum(&alive);
    if !pool.is_share(per_bank, LARGE) {
        return Vec::new();
    }
    let halved = |tensor| Some((tensor, situation.interleaved(&pool, tensor)?.saved_by_halves()?));
    let saves = situation.fall_of(&pool, situation.ever_in(&pool).filter(is_wide).filter_map(halved));
    let what = What::Wide { count: alive.len(), per_bank };
    vec![Finding { saves, ..pool.finding(what) }]
}

/// Weights in bf16, where block floats would take about half of it.
pub fn plain_weights(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let is_plain = |tensor: &TensorId| {
        situation.rank.tensors.class[tensor.index()] == Class::Weight
            && situation
                .stored(*tensor)
                .is_some_and(|(layout, stored)| stored == "bf16" && layout.tile.is_some())
    };
    let alive: Vec<TensorId> = pool.alive(situation.rank).into_iter().filter(is_plain).collect();
    let per_bank = situation.sum(&alive);
    if !pool.is_share(per_bank, MOST_OF_IT) {
        return Vec::new();
    }
    let blocks = |tensor| Some((tensor, situation.interleaved(&pool, tensor)?.saved_by_bfp8()?));
    let saves = situation.fall_of(&pool, situation.ever_in(&pool).filter(is_plain).filter_map(blocks));
    let what = What::PlainWeights { count: alive.len(), per_bank };
    vec![Finding { saves, ..pool.finding(what) }]
}
