//! Const-eval results are much larger than the weights they were computed from.

use rustc_hash::FxHashMap;
use ttmem_model::TensorId;

use super::load_cached::made_by_const_eval;
use super::phrases::by_count;
use super::{Effect, Finding, LARGE_SHARE, Rule, Situation, Statement, Urgency};
use crate::analyze::simulation::Change;
use crate::words::size;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "weights_expanded";

/// A result is expanded if it is at least this many times as large as its sources.
const EXPANDED: u64 = 2;

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let Some(banks) = pool.label.banks.map(u64::from).filter(|banks| *banks > 0) else { return Vec::new() };
    let sources = declared_sources(situation);
    let expanded: Vec<(TensorId, u64)> = made_by_const_eval(situation, &pool)
        .into_iter()
        .filter_map(|tensor| Some((tensor, *sources.get(&tensor)?)))
        .filter(|(tensor, source)| {
            let padded = situation.ty(*tensor).and_then(|ty| ty.padded.get()).unwrap_or(0);
            *source > 0 && padded >= source.saturating_mul(EXPANDED)
        })
        .collect();
    let tensors: Vec<TensorId> = expanded.iter().map(|(tensor, _)| *tensor).collect();
    let per_bank = situation.sum(&tensors);
    let Some(&largest) = tensors.iter().max_by_key(|tensor| situation.per_bank(**tensor)) else {
        return Vec::new();
    };
    if !pool.is_share(per_bank, LARGE_SHARE) {
        return Vec::new();
    }
    let beyond_source = |(tensor, source): &(TensorId, u64)| {
        Change::Smaller(*tensor, situation.per_bank(*tensor).saturating_sub(source.div_ceil(banks)))
    };
    let changes = expanded.iter().map(beyond_source).collect();
    let sources = expanded.iter().map(|(_, source)| *source).fold(0, u64::saturating_add);
    let typed = situation.ty(largest).map_or_else(String::new, |ty| format!(", {}", situation.typed(ty)));
    let statement = Statement::new(format!(
        "{} const-eval {}, expanded from {} of weights, {} {}; the largest is {}{typed}.",
        tensors.len(),
        by_count(tensors.len(), "result", "results"),
        size(sources),
        by_count(tensors.len(), "takes", "take"),
        pool.share(per_bank),
        situation.name(largest),
    ));
    let effect = Effect::lowers(
        "Broadcasting the weights at each use, instead of storing them expanded, lowers",
        changes,
    );
    let finding = pool.finding(NAME, statement).steps(situation.made_by(largest));
    vec![finding.tensors(tensors).effect(effect)]
}

/// For each tensor that was computed from arguments, the declared size of those arguments.
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
