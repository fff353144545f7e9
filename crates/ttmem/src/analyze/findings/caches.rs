//! Caches of keys and values, which grow with the length of the context.

use rustc_hash::FxHashSet;

use super::{Finding, Situation, What};
use crate::analyze::names::Names;
use crate::model::{Class, OpId, Profile, StrId, TensorId};

/// Caches that hold at least this share of the peak, in percent, dominate it.
const DOMINATES: u64 = 30;

/// Caches of keys and values, where they dominate the peak.
///
/// A cache is what an operation updates in place (`ttnn.update_cache`, `ttnn.paged_fill_cache` …), an argument that
/// a step of decoding attends over, or what the evidence calls one.
pub fn dominate(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let read = read_as_caches(situation);
    let class = |tensor: TensorId| situation.rank.tensors.class[tensor.index()];
    let is_cache = |tensor: &TensorId| match class(*tensor) {
        Class::KvCache => true,
        Class::Weight => false,
        _ => read.contains(tensor),
    };
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

/// What the steps use as caches.
fn read_as_caches(situation: &Situation<'_>) -> FxHashSet<TensorId> {
    let (profile, rank) = (situation.profile, situation.rank);
    let caches_of = |op: OpId| op_caches(profile, op).unwrap_or_default();
    let caches: Vec<Vec<StrId>> = (0..profile.ops.len()).filter_map(OpId::new).map(caches_of).collect();
    let wanted: FxHashSet<StrId> = caches.iter().flatten().copied().collect();
    if wanted.is_empty() {
        return FxHashSet::default();
    }
    let names = Names::of(profile, rank, &wanted);
    let mut read = FxHashSet::default();
    for step in situation.span.first..situation.span.end {
        let caches = rank.op_id(step).and_then(|op| caches.get(op.index()));
        read.extend(caches.into_iter().flatten().filter_map(|name| names.meant(step, *name)));
    }
    read
}

/// The operands of an operation that are caches.
fn op_caches(profile: &Profile, op: OpId) -> Option<Vec<StrId>> {
    let name = profile.text(profile.ops.name(op)?);
    let operands = || Some(profile.ops.get(op)?.operands);
    if name.ends_with("update_cache") || name.ends_with("fill_cache") {
        return operands()?.first().map(|cache| vec![*cache]);
    }
    // Queries, keys, values: what was computed for this call is no cache.
    let is_argument = |name: &StrId| profile.text(*name).starts_with("%arg");
    let is_attention = name.ends_with("scaled_dot_product_attention_decode");
    is_attention.then(|| Some(operands()?.get(1..3)?.iter().copied().filter(is_argument).collect()))?
}
