use ttmem_model::OpKind;

use super::*;
use crate::analyze::expected::{Most, Taken, has, taken};

fn weight(pool: PoolId, per_bank: u64, born: Moment, dies: Moment) -> Tensor {
    Tensor { class: Class::Weight, ..tensor(pool, per_bank, born, dies) }
}

fn weights(profile: &Profile, span: Span) -> Taken {
    taken(profile, first(profile), Class::Weight, span)
}

#[test]
fn a_class_is_measured_at_its_own_peak() {
    let mut evidence = Evidence::new();
    let (dram, l1) = (evidence.pool("DRAM"), evidence.pool_of("L1", Some(64), 0));
    evidence.steps(4, "ttnn.add");
    evidence.tensor(tensor(dram, 9999, after(2), NEVER));
    evidence.tensor(weight(dram, 100, START, after(1)));
    evidence.tensor(weight(dram, 50, after(0), NEVER));
    evidence.tensor(weight(l1, 2, after(0), NEVER));
    evidence.tensor(weight(dram, 100, after(1), after(2)));
    let profile = evidence.finish();
    // 8 banks of DRAM and 64 of L1. The same sum is reached again after step 1; the first moment counts.
    let most = Most { bytes: 150 * 8 + 2 * 64, at: after(0), by_pool: vec![(dram, 1200), (l1, 128)] };
    assert_eq!(weights(&profile, whole(&profile)), Taken::Most(most));
    // Older tensors count from the beginning of the span.
    let last = Most { bytes: 50 * 8 + 2 * 64, at: before(3), by_pool: vec![(dram, 400), (l1, 128)] };
    assert_eq!(weights(&profile, Span { first: 3, end: 4 }), Taken::Most(last));
    let early = Most { bytes: 800, at: START, by_pool: vec![(dram, 800)] };
    assert_eq!(weights(&profile, Span { first: 0, end: 0 }), Taken::Most(early));
}

#[test]
fn unknown_sizes_are_counted_instead_of_added() {
    let mut evidence = Evidence::new();
    let (dram, other) = (evidence.pool("DRAM"), evidence.pool_of("other", None, 0));
    evidence.step("ttnn.add");
    let empty = Evidence::new().finish();
    assert_eq!(weights(&empty, whole(&empty)), Taken::NoTensors);
    evidence.tensor(tensor(dram, 1, START, NEVER));
    evidence.tensor(weight(dram, 1, START, after(0)));
    evidence.tensor(Tensor { per_bank: Bytes::UNKNOWN, ..weight(dram, 0, START, NEVER) });
    evidence.tensor(weight(other, 1, START, NEVER));
    evidence.tensor(weight(dram, u64::MAX - 1, START, NEVER));
    let profile = evidence.finish();
    // An unknown size, an unknown number of banks, and an overflow.
    assert_eq!(weights(&profile, whole(&profile)), Taken::NoSize(3));
    let gradients = taken(&profile, first(&profile), Class::Gradient, whole(&profile));
    assert_eq!(gradients, Taken::NoneOfClass);
    assert!(has(first(&profile), Class::Weight) && !has(first(&profile), Class::Gradient));
}

#[test]
fn tensors_outside_the_span_do_not_count() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.steps(4, "ttnn.add");
    evidence.tensor(weight(dram, 100, START, before(1)));
    evidence.tensor(weight(dram, 100, before(2), NEVER));
    let profile = evidence.finish();
    assert_eq!(weights(&profile, Span { first: 1, end: 2 }), Taken::NoneOfClass);
    assert_ne!(weights(&profile, Span { first: 0, end: 2 }), Taken::NoneOfClass);
    assert_ne!(weights(&profile, Span { first: 1, end: 3 }), Taken::NoneOfClass);
}

#[test]
fn kv_caches_are_found_by_their_use() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    let run = evidence.run("main");
    let ssa = Some(evidence.text("%arg0"));
    evidence.tensor(Tensor { class: Class::Input, run: Some(run), ssa, ..tensor(dram, 5, START, NEVER) });
    evidence.op(OpKind::Compute, "ttnn.update_cache", &[("%arg0", None)], &[]);
    let profile = evidence.finish();
    let found = taken(&profile, first(&profile), Class::KvCache, whole(&profile));
    assert_eq!(found, Taken::Most(Most { bytes: 40, at: START, by_pool: vec![(dram, 40)] }));
}
