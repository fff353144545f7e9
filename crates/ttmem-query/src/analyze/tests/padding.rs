use super::*;
use crate::analyze::padding::{Padding, padding};

#[test]
fn the_tensors_with_most_padding_come_first() {
    let mut evidence = Evidence::new();
    let (dram, l1) = (evidence.pool("DRAM"), evidence.pool("L1"));
    evidence.step("ttnn.add");
    let [ten, forty, none, less] = [(90, 100), (60, 100), (50, 50), (50, 40)]
        .map(|(logical, padded)| Some(evidence.sized(None, Some(logical), Some(padded))));
    let mut add = |pool, ty, born, dies| evidence.tensor(Tensor { ty, ..tensor(pool, 1, born, dies) });
    let late = add(dram, ten, before(0), NEVER);
    let early = add(dram, ten, START, NEVER);
    let largest = add(dram, forty, START, after(0));
    add(dram, none, START, NEVER);
    add(dram, less, START, NEVER);
    add(dram, None, START, NEVER);
    add(l1, forty, START, NEVER);
    let profile = evidence.finish();
    let asked = |at, most| padding(&profile, first(&profile), dram, at, most);
    let worst = vec![(largest, 40), (early, 10), (late, 10)];
    let (padded, logical) = (100 + 100 + 100 + 50 + 40, 90 + 90 + 60 + 50 + 50);
    assert_eq!(asked(before(0), 9), Some(Padding { padded, logical, worst: worst.clone() }));
    assert_eq!(asked(before(0), 2).unwrap().worst, worst[..2]);
    assert_eq!(asked(after(0), 9).unwrap().worst, worst[1..]);
}

#[test]
fn padding_is_unknown_if_no_tensor_has_a_type() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.step("aten::mm");
    let unknown = Some(evidence.sized(Some(9), Some(9), None));
    evidence.tensor(tensor(dram, 1, START, after(0)));
    evidence.tensor(Tensor { ty: unknown, ..tensor(dram, 1, START, after(0)) });
    let profile = evidence.finish();
    assert_eq!(padding(&profile, first(&profile), dram, START, 9), None);
    // An empty pool has no padding.
    assert_eq!(padding(&profile, first(&profile), dram, after(0), 9), Some(Padding::default()));
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    let profile = evidence.finish();
    assert_eq!(padding(&profile, first(&profile), dram, START, 9), None);
}
