//! Weights are stored twice: as originals and as const-eval results.

use rustc_hash::FxHashMap;
use ttmem_model::{Class, Moment, TensorId};

use super::phrases::by_count;
use super::{Finding, MIN_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::lowered::Saving;
use crate::analyze::weights;

pub(super) const RULE: Rule = Rule { names: &[NAME], urgency: Urgency::Change, find };

const NAME: &str = "weights_kept_twice";

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let twice = weights::kept_twice(situation.rank, pool.account.id, pool.peak.at).unwrap_or_default();
    let per_bank = situation.sum(&twice);
    if !pool.is_share(per_bank, MIN_SHARE) {
        return Vec::new();
    }
    let saves = situation.fall(&pool, &savings(situation, &pool));
    let free = by_count(
        twice.len(),
        "Freeing the original after const-eval, if nothing else reads it, lowers",
        "Freeing the originals after const-eval, if nothing else reads them, lowers",
    );
    let statement = Statement::new(format!(
        "{} {} stored twice in {} at its peak, as the original and as a const-eval result; {} {}.",
        twice.len(),
        by_count(twice.len(), "weight is", "weights are"),
        pool.label.name,
        by_count(twice.len(), "the original takes", "the originals take"),
        pool.share(per_bank),
    ))
    .advice(pool.lowers(free, saves));
    vec![pool.finding(NAME, statement).tensors(twice).saves(saves)]
}

/// The savings from freeing originals. An original can only be freed once its const-eval result is computed; both are
/// live until then.
fn savings(situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Vec<Saving> {
    let rank = situation.rank;
    let in_pool = |tensor: TensorId| rank.tensors.pool.get(tensor.index()) == Some(&pool.account.id);
    let mut savings: FxHashMap<TensorId, Saving> = FxHashMap::default();
    for row in rank.derivations.iter() {
        let is_weight = rank.tensors.class.get(row.source.index()) == Some(&Class::Weight);
        if let Some(saving) = Saving::of(rank, row.source, situation.per_bank(row.source))
            && in_pool(row.source)
            && in_pool(row.tensor)
            && is_weight
        {
            let both = rank.tensors.born[row.tensor.index()].max(saving.from);
            let is_made = situation.made_by(row.tensor).is_some_and(|step| step >= situation.span.first);
            let from = if is_made { Moment::early(both.position().saturating_add(1)) } else { both };
            let known = savings.entry(row.source).or_insert(Saving { from, ..saving });
            known.from = known.from.min(from);
        }
    }
    savings.into_values().collect()
}
