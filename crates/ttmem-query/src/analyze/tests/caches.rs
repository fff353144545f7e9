use ttmem_model::{Class, OpKind, Profile, Tensor, TensorId};

use super::*;
use crate::analyze::caches::key_value_caches;

/// A program with the arguments `%arg0` to `%arg3`, the second of which is a weight, and a value `%5`.
fn arguments() -> (Evidence, [TensorId; 5]) {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    let run = evidence.run("main");
    let tensors = ["%arg0", "%arg1", "%arg2", "%arg3", "%5"].map(|name| {
        let class = if name == "%arg1" { Class::Weight } else { Class::Input };
        let ssa = Some(evidence.text(name));
        evidence.tensor(Tensor { class, run: Some(run), ssa, ..tensor(dram, 64, START, NEVER) })
    });
    (evidence, tensors)
}

fn found(profile: &Profile, span: Span) -> Vec<TensorId> {
    let mut found: Vec<TensorId> = key_value_caches(profile, first(profile), span).into_iter().collect();
    found.sort_unstable();
    found
}

#[test]
fn the_first_operand_of_a_cache_update_is_a_cache() {
    let (mut evidence, [cache, _, _, filled, _]) = arguments();
    evidence.op(OpKind::Compute, "ttnn.update_cache", &[("%arg0", None), ("%arg2", None)], &[]);
    evidence.op(OpKind::Compute, "ttnn.paged_fill_cache", &[("%arg3", None), ("%5", None)], &[]);
    evidence.op(OpKind::Compute, "ttnn.add", &[("%arg2", None)], &[]);
    evidence.op(OpKind::Compute, "ttnn.fill_cache", &[], &[]);
    // A weight is never a cache.
    evidence.op(OpKind::Compute, "ttnn.update_cache", &[("%arg1", None)], &[]);
    let profile = evidence.finish();
    assert_eq!(found(&profile, whole(&profile)), [cache, filled]);
}

#[test]
fn keys_and_values_of_decode_attention_are_caches_if_they_are_arguments() {
    let (mut evidence, [_, _, keys, values, _]) = arguments();
    let decode = "ttnn.paged_scaled_dot_product_attention_decode";
    let [query, weight, arg2, arg3, computed] = ["%arg0", "%arg1", "%arg2", "%arg3", "%5"].map(|n| (n, None));
    evidence.op(OpKind::Compute, decode, &[query, arg2, computed, arg3], &[]);
    evidence.op(OpKind::Compute, decode, &[query, weight, arg3], &[]);
    evidence.op(OpKind::Compute, decode, &[arg3, query], &[]);
    evidence.op(OpKind::Compute, "ttnn.scaled_dot_product_attention", &[arg3, query, query], &[]);
    let profile = evidence.finish();
    assert_eq!(found(&profile, whole(&profile)), [keys, values]);
    // Only steps of the span count.
    assert_eq!(found(&profile, Span { first: 0, end: 1 }), [keys]);
    assert_eq!(found(&profile, Span { first: 2, end: 4 }), []);
}

#[test]
fn tensors_classified_as_kv_cache_are_caches() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    let cache = evidence.tensor(Tensor { class: Class::KvCache, ..tensor(dram, 64, START, START) });
    evidence.tensor(tensor(dram, 64, START, NEVER));
    let profile = evidence.finish();
    assert_eq!(found(&profile, whole(&profile)), [cache]);
    let empty = Evidence::new().finish();
    assert_eq!(found(&empty, whole(&empty)), []);
}
