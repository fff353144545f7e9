//! Weights: kept twice, loaded from const-eval programs, expanded by them.

use rustc_hash::FxHashMap;

use super::{Finding, LARGE, PoolAtPeak, Situation, WORTH_SAYING, What};
use crate::analyze::lowered::Saving;
use crate::analyze::weights;
use ttmem_model::{Class, Moment, OpKind, Step, TensorId};

/// What const-eval programs made, and the steps that load it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// How many steps load something.
    pub loads: usize,
    /// The first of them.
    pub first: Step,
    /// The last of them.
    pub last: Step,
    /// What const-eval programs made and the pool holds at the peak.
    pub per_bank: u64,
}

/// What a const-eval program keeps is expanded if it takes at least so many times what it was made from.
const EXPANDED: u64 = 2;

/// Weights that are there as given and const-evaluated.
pub fn kept_twice(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let rank = situation.rank;
    let twice = weights::kept_twice(rank, pool.account.id, pool.peak.at).unwrap_or_default();
    let per_bank = situation.sum(&twice);
    if !pool.is_share(per_bank, WORTH_SAYING) {
        return Vec::new();
    }
    // An original can go once something was computed from it: if that is done here, both are there for one state.
    let mut savings: FxHashMap<TensorId, Saving> = FxHashMap::default();
    for row in rank.derivations.iter() {
        let in_pool = |tensor: TensorId| rank.tensors.pool.get(tensor.index()) == Some(&pool.account.id);
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
    let savings: Vec<Saving> = savings.into_values().collect();
    let what = What::KeptTwice { count: twice.len(), per_bank };
    vec![Finding { saves: situation.fall(&pool, &savings), ..pool.finding(what) }]
}

/// What const-eval programs made and keep, where that is a large part of the peak.
pub fn cached(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let steps = situation.span.first..situation.span.end;
    let loads: Vec<Step> =
        steps.filter(|step| situation.profile.op_kind(situation.rank, *step) == OpKind::LoadCached).collect();
    let per_bank = situation.sum(&made_by_const_eval(situation, &pool));
    let (Some(&first), Some(&last)) = (loads.first(), loads.last()) else { return Vec::new() };
    if !pool.is_share(per_bank, LARGE) {
        return Vec::new();
    }
    let what = What::Cached(Cached { loads: loads.len(), first, last, per_bank });
    vec![Finding { step: Some(first), ..pool.finding(what) }]
}

/// What const-eval programs made much larger than what they made it from.
pub fn expanded(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let Some(banks) = pool.account.pool.banks.map(u64::from).filter(|banks| *banks > 0) else {
        return Vec::new();
    };
    let sources = declared_sources(situation);
    let grown: Vec<(TensorId, u64)> = made_by_const_eval(situation, &pool)
        .into_iter()
        .filter_map(|tensor| Some((tensor, *sources.get(&tensor)?)))
        .filter(|(tensor, source)| {
            let padded = situation.ty(*tensor).and_then(|ty| ty.padded.get()).unwrap_or(0);
            *source > 0 && padded >= source.saturating_mul(EXPANDED)
        })
        .collect();
    let tensors: Vec<TensorId> = grown.iter().map(|(tensor, _)| *tensor).collect();
    let per_bank = situation.sum(&tensors);
    let Some(&largest) = tensors.iter().max_by_key(|tensor| situation.per_bank(**tensor)) else {
        return Vec::new();
    };
    if !pool.is_share(per_bank, LARGE) {
        return Vec::new();
    }
    let beyond_source = |(tensor, source): &(TensorId, u64)| {
        (*tensor, situation.per_bank(*tensor).saturating_sub(source.div_ceil(banks)))
    };
    let saves = situation.fall_of(&pool, grown.iter().map(beyond_source));
    let sources = grown.iter().map(|(_, source)| *source).fold(0, u64::saturating_add);
    let what = What::Expanded { largest, count: tensors.len(), per_bank, sources };
    vec![Finding { step: situation.made_by(largest), saves, ..pool.finding(what) }]
}

/// What const-eval programs made of what is alive at the peak.
fn made_by_const_eval(situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Vec<TensorId> {
    // Whatever else operations make is no weight.
    let is_made = |tensor: &TensorId| {
        situation.rank.tensors.class[tensor.index()] == Class::Weight
            && situation.profile.made(situation.rank, *tensor).op.is_some()
    };
    pool.alive(situation.rank).into_iter().filter(is_made).collect()
}

/// For each tensor that goes back to arguments, the bytes of their elements.
fn declared_sources(situation: &Situation<'_>) -> FxHashMap<TensorId, u64> {
    let mut sources: FxHashMap<TensorId, u64> = FxHashMap::default();
    for origin in situation.rank.origins.iter() {
        let argument = situation
            .rank
            .module(origin.module)
            .and_then(|module| module.arguments.get(origin.argument as usize));
        let ty = argument.and_then(|argument| situation.profile.tensor_type(argument.ty?));
        let bytes = ty.and_then(|ty| ty.declared.get()).unwrap_or(0);
        let sum = sources.entry(origin.tensor).or_default();
        *sum = sum.saturating_add(bytes);
    }
    sources
}
