//! Memory grows with every iteration of the program: a leak or a cache.

use super::{Finding, MIN_SHARE, Rule, Situation, Urgency};
use crate::growth::GrowthVerdict;

pub(super) const RULE: Rule = Rule::new(&["grows", "tensors_grow", "kv_cache_grows"], Urgency::Risk, find);

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    look(situation).into_iter().collect()
}

fn look(situation: &Situation<'_>) -> Option<Finding> {
    let found = situation.growth?;
    let pool = situation.pools.iter().find(|pool| pool.account.id == found.pool)?;
    let added = found.growth.origins.iter().map(|grown| grown.per_bank).fold(0, u64::saturating_add);
    if !pool.is_share(added, MIN_SHARE) {
        return None;
    }
    let name = match found.summary.verdict {
        GrowthVerdict::Grows => "grows",
        GrowthVerdict::TensorsGrow => "tensors_grow",
        GrowthVerdict::KvCacheGrows => "kv_cache_grows",
        GrowthVerdict::Steady => return None,
    };
    let most = found.growth.origins.first()?;
    let step = found.summary.survivors.first().and_then(|survivor| survivor.step);
    let statement = found.summary.statement.clone();
    Some(pool.finding(name, statement).steps(step).tensors(most.tensors.clone()))
}
