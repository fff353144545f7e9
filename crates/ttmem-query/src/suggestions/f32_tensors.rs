//! Tensors are stored as f32; bf16 would take half as much.

use ttmem_model::TensorId;

use super::phrases::by_count;
use super::{Finding, LARGE_SHARE, Rule, Situation, Statement, Urgency};

pub(super) const RULE: Rule = Rule { names: &[NAME], urgency: Urgency::Change, find };

const NAME: &str = "f32_tensors";

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let is_wide = |tensor: &TensorId| situation.stored(*tensor).is_some_and(|(_, stored)| stored == "f32");
    let alive: Vec<TensorId> = situation.alive(&pool).filter(is_wide).collect();
    let per_bank = situation.sum(&alive);
    if !pool.is_share(per_bank, LARGE_SHARE) {
        return Vec::new();
    }
    let halved = |tensor| Some((tensor, situation.interleaved(&pool, tensor)?.saved_by_halves()?));
    let saves = situation.fall_of(&pool, situation.ever_in(&pool).filter(is_wide).filter_map(halved));
    let count = alive.len();
    let takes = by_count(count, "f32 tensor takes", "f32 tensors take");
    let how = format!("Storing {} as bf16, if accuracy allows, lowers", by_count(count, "it", "them"));
    let statement =
        Statement::new(format!("{count} {takes} {}.", pool.share(per_bank))).advice(pool.lowers(&how, saves));
    vec![pool.finding(NAME, statement).tensors(alive).saves(saves)]
}
