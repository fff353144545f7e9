//! Weights are stored twice: as originals and as const-eval results.

use rustc_hash::FxHashMap;
use ttmem_model::{Class, Moment, TensorId};

use super::phrases::by_count;
use super::{Effect, Finding, MIN_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::simulation::Change;
use crate::analyze::weights;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "weights_kept_twice";

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let twice = weights::kept_twice(situation.rank, pool.account.id, pool.peak.at).unwrap_or_default();
    let per_bank = situation.sum(&twice);
    if !pool.is_share(per_bank, MIN_SHARE) {
        return Vec::new();
    }
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
    ));
    let effect = Effect::lowers(free, originals_freed(situation, &pool));
    vec![pool.finding(NAME, statement).tensors(twice).effect(effect)]
}

/// Originals are freed when everything that is computed from them exists; until then both are live.
fn originals_freed(situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Vec<Change> {
    let rank = situation.rank;
    let in_pool = |tensor: TensorId| rank.tensors.pool.get(tensor.index()) == Some(&pool.account.id);
    let mut freed: FxHashMap<TensorId, Moment> = FxHashMap::default();
    for row in rank.derivations.iter() {
        let is_weight = rank.tensors.class.get(row.source.index()) == Some(&Class::Weight);
        let born = |tensor: TensorId| rank.tensors.born.get(tensor.index()).copied();
        if let Some((original, result)) = born(row.source).zip(born(row.tensor))
            && in_pool(row.source)
            && in_pool(row.tensor)
            && is_weight
        {
            let both = original.max(result);
            let is_made = situation.made_by(row.tensor).is_some_and(|step| step >= situation.span.first);
            let from = if is_made { Moment::early(both.position().saturating_add(1)) } else { both };
            let at = freed.entry(row.source).or_insert(from);
            *at = from.max(*at);
        }
    }
    freed.into_iter().map(|(tensor, at)| Change::FreedAt(tensor, at)).collect()
}
