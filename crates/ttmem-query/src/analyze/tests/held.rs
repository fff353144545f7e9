use super::*;
use crate::analyze::held::over_time;

#[test]
fn unobserved_moments_are_reconstructed_from_the_last_state() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.run("main");
    evidence.steps(4, "ttnn.add");
    evidence.state(dram, before(0), 100);
    evidence.tensor(tensor(dram, 30, after(0), NEVER));
    evidence.tensor(tensor(dram, 20, after(1), after(3)));
    // Two readings at one moment: the first may be the highest.
    evidence.state(dram, after(2), 400);
    evidence.state(dram, after(2), 300);
    let profile = evidence.finish();
    let held: Vec<_> = over_time(&account(&profile, dram)).changes().collect();
    let expected = [
        (before(0), 100),
        (after(0), 130),
        (after(1), 150),
        (after(2), 400),
        (after(2), 300),
        (after(3), 280),
    ];
    assert_eq!(held, expected);
}

#[test]
fn a_pool_without_readings_has_an_empty_curve() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.step("ttnn.add");
    evidence.tensor(tensor(dram, 30, after(0), NEVER));
    evidence.reading(dram, before(0), Reading { free: Some(7), ..Reading::default() });
    assert_eq!(over_time(&account(&evidence.finish(), dram)).changes().count(), 0);
}

proptest! {
    /// Compared with one query per moment.
    #[test]
    fn the_curve_agrees_with_held_at_each_moment(memory in Memory::any()) {
        let (profile, pool) = memory.profile();
        let account = account(&profile, pool);
        let curve = over_time(&account);
        for at in moments(first(&profile)) {
            let (found, held) = (curve.value_at(at), account.held(at).map(|held| held.per_bank));
            // Without tensors, moments between readings are unknown and the curve stays constant.
            prop_assert!(found == held || (held.is_none() && !first(&profile).has_tensors()), "{:?}", at);
        }
        prop_assert!(curve.value.windows(2).all(|pair| pair[0] != pair[1]), "only changes");
    }
}
