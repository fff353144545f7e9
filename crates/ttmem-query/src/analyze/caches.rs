//! Identifies KV caches, for suggestions and expectations.

use rustc_hash::FxHashSet;
use ttmem_model::{Class, OpId, Profile, Rank, StrId, TensorId};

use super::Span;
use super::names::Names;

/// The KV caches of a rank.
///
/// A KV cache is a tensor that the input classifies as one, a tensor that an operation of the span updates in place
/// (`ttnn.update_cache`, `ttnn.paged_fill_cache`, …), or an argument that the attention of a decode step reads. A
/// weight is never a KV cache.
pub fn key_value_caches(profile: &Profile, rank: &Rank, span: Span) -> FxHashSet<TensorId> {
    let class = |tensor: &TensorId| rank.tensors.class.get(tensor.index()).copied();
    let mut caches = used_as_caches(profile, rank, span);
    caches.retain(|tensor| class(tensor) != Some(Class::Weight));
    let tensors = (0..rank.tensors.len()).filter_map(TensorId::new);
    caches.extend(tensors.filter(|tensor| class(tensor) == Some(Class::KvCache)));
    caches
}

/// The tensors that the steps of a span use as caches.
fn used_as_caches(profile: &Profile, rank: &Rank, span: Span) -> FxHashSet<TensorId> {
    let caches_of = |op: OpId| op_caches(profile, op).unwrap_or_default();
    let caches: Vec<Vec<StrId>> = (0..profile.ops.len()).filter_map(OpId::new).map(caches_of).collect();
    let wanted: FxHashSet<StrId> = caches.iter().flatten().copied().collect();
    if wanted.is_empty() {
        return FxHashSet::default();
    }
    let names = Names::of(profile, rank, &wanted);
    let mut used = FxHashSet::default();
    for step in span.first..span.end {
        let caches = rank.op_id(step).and_then(|op| caches.get(op.index()));
        used.extend(caches.into_iter().flatten().filter_map(|name| names.meant(step, *name)));
    }
    used
}

/// The operands of an operation that are caches.
fn op_caches(profile: &Profile, op: OpId) -> Option<Vec<StrId>> {
    let name = profile.text(profile.ops.name(op)?);
    let operands = || Some(profile.ops.get(op)?.operands);
    if name.ends_with("update_cache") || name.ends_with("fill_cache") {
        return operands()?.first().map(|cache| vec![*cache]);
    }
    // Queries, keys and values that were computed for this call are not a cache.
    let is_argument = |name: &StrId| profile.text(*name).starts_with("%arg");
    let is_attention = name.ends_with("scaled_dot_product_attention_decode");
    is_attention.then(|| Some(operands()?.get(1..3)?.iter().copied().filter(is_argument).collect()))?
}
