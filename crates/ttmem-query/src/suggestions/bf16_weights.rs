//! Weights are stored as bf16; block floats would take about half as much.

use ttmem_model::{Class, TensorId};

use super::phrases::by_count;
use super::{Effect, Finding, Rule, Situation, Statement, Urgency};
use crate::analyze::simulation::Change;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "bf16_weights";

/// Minimum share of the peak, in percent, that bf16 weights must take.
const MIN_WEIGHT_SHARE: u64 = 50;

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let is_bf16_weight = |tensor: &TensorId| {
        let stored = situation.stored(*tensor);
        situation.rank.tensors.class[tensor.index()] == Class::Weight
            && stored.is_some_and(|(layout, stored)| stored == "bf16" && layout.tile.is_some())
    };
    let alive: Vec<TensorId> = situation.alive(&pool).filter(is_bf16_weight).collect();
    let per_bank = situation.sum(&alive);
    if !pool.is_share(per_bank, MIN_WEIGHT_SHARE) {
        return Vec::new();
    }
    let blocks = |tensor| Some((tensor, situation.interleaved(&pool, tensor)?.saved_by_bfp8()?));
    let changes = situation.ever_in(&pool).filter(is_bf16_weight).filter_map(blocks);
    let changes: Vec<Change> = changes.map(|(tensor, saved)| Change::Smaller(tensor, saved)).collect();
    let count = alive.len();
    let takes = by_count(count, "bf16 weight takes", "bf16 weights take");
    let how = format!("Storing {} as bfp_bf8, if accuracy allows, lowers", by_count(count, "it", "them"));
    let statement = Statement::new(format!("{count} {takes} {}.", pool.share(per_bank)));
    vec![pool.finding(NAME, statement).tensors(alive).effect(Effect::lowers(how, changes))]
}
