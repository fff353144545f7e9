//! Caches of keys and values, which grow with the length of the context.

use super::{Finding, Situation, What};
use crate::analyze::caches::key_value_caches;
use ttmem_model::TensorId;

/// Caches that hold at least this share of the peak, in percent, dominate it.
const DOMINATES: u64 = 30;

/// Caches of keys and values, where they dominate the peak.
pub fn dominate(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let caches = key_value_caches(situation.profile, situation.rank, situation.span);
    let is_cache = |tensor: &TensorId| caches.contains(tensor);
    let alive: Vec<TensorId> = pool.alive(situation.rank).into_iter().filter(is_cache).collect();
    let per_bank = situation.sum(&alive);
    if !pool.is_share(per_bank, DOMINATES) {
        return Vec::new();
    }
    let halved =
        situation.ever_in(&pool).filter(is_cache).map(|tensor| (tensor, situation.per_bank(tensor) / 2));
    let what = What::Caches { count: alive.len(), per_bank };
    vec![Finding { saves: situation.fall_of(&pool, halved), ..pool.finding(what) }]
}
