use super::*;
use crate::analyze::survivors::survivors;

/// The indices of the survivors at the end, of tensors of `bytes` that are freed or not.
fn found(tensors: &[(u64, bool)], small: u64) -> Vec<usize> {
    let mut evidence = Evidence::new();
    let (dram, l1) = (evidence.pool("DRAM"), evidence.pool("L1"));
    evidence.run("main");
    evidence.steps(100, "ttnn.full");
    for (step, &(bytes, is_freed)) in (0..).zip(tensors) {
        evidence.tensor(tensor(dram, bytes, after(step), if is_freed { after(90) } else { NEVER }));
        // Another pool does not matter.
        evidence.tensor(tensor(l1, 1, after(step), NEVER));
    }
    let profile = evidence.finish();
    let tensors = survivors(first(&profile), dram, after(95), small);
    tensors.into_iter().map(|tensor| tensor.index() / 2).collect()
}

const FREED: (u64, bool) = (8, true);
const LIVE: (u64, bool) = (2, false);

#[test]
fn live_tensors_between_freed_ones_are_survivors() {
    assert_eq!(found(&[FREED, LIVE, FREED, LIVE, FREED], 10), [1, 3]);
}

#[test]
fn neighbors_separate_free_blocks_together() {
    assert_eq!(found(&[FREED, LIVE, LIVE, FREED], 10), [1, 2]);
    assert_eq!(found(&[FREED, LIVE, LIVE, FREED], 3), [] as [usize; 0]);
}

#[test]
fn the_first_and_the_last_tensors_separate_nothing() {
    assert_eq!(found(&[LIVE, FREED, LIVE], 10), [] as [usize; 0]);
    assert_eq!(found(&[], 10), [] as [usize; 0]);
}

#[test]
fn large_tensors_and_tensors_of_unknown_size_are_not_survivors() {
    assert_eq!(found(&[FREED, (11, false), FREED], 10), [] as [usize; 0]);
    assert_eq!(found(&[FREED, (0, false), FREED], 10), [] as [usize; 0]);
}
