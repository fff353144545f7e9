//! KV caches, which grow with the context length, dominate the peak.

use ttmem_model::TensorId;

use super::phrases::by_count;
use super::{Finding, Rule, Situation, Statement, Urgency};
use crate::analyze::caches::key_value_caches;

pub(super) const RULE: Rule = Rule { names: &[NAME], urgency: Urgency::Change, find };

const NAME: &str = "kv_cache";

/// KV caches dominate the peak if they take at least this share of it, in percent.
const DOMINATES: u64 = 30;

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let caches = key_value_caches(situation.profile, situation.rank, situation.span);
    let is_cache = |tensor: &TensorId| caches.contains(tensor);
    let alive: Vec<TensorId> = situation.alive(&pool).filter(is_cache).collect();
    let per_bank = situation.sum(&alive);
    if !pool.is_share(per_bank, DOMINATES) {
        return Vec::new();
    }
    let halved = |tensor| (tensor, situation.per_bank(tensor) / 2);
    let saves = situation.fall_of(&pool, situation.ever_in(&pool).filter(is_cache).map(halved));
    let takes = by_count(alive.len(), "KV cache takes", "KV caches take");
    let statement = Statement::new(format!("{} {takes} {}.", alive.len(), pool.share(per_bank)))
        .advice(pool.lowers("Halving the context length or the batch size lowers", saves));
    vec![pool.finding(NAME, statement).tensors(alive).saves(saves)]
}
