//! KV caches, which grow with the context length, dominate the peak.

use ttmem_model::TensorId;

use super::phrases::by_count;
use super::{Effect, Finding, Rule, Situation, Statement, Urgency};
use crate::analyze::caches::key_value_caches;
use crate::analyze::simulation::Change;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

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
    let halved = |tensor| Change::Smaller(tensor, situation.per_bank(tensor) / 2);
    let changes = situation.ever_in(&pool).filter(is_cache).map(halved).collect();
    let takes = by_count(alive.len(), "KV cache takes", "KV caches take");
    let statement = Statement::new(format!("{} {takes} {}.", alive.len(), pool.share(per_bank)));
    let effect = Effect::lowers("Halving the context length or the batch size lowers", changes);
    vec![pool.finding(NAME, statement).tensors(alive).effect(effect)]
}
