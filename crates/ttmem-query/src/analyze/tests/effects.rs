use super::*;
use crate::analyze::effects::{self, Repeated, effects};

fn largest(account: &Account<'_>, span: Span, most: usize) -> Vec<(Step, u64)> {
    effects::largest(&effects::added(account, span), most)
}

fn increases(profile: &Profile, account: &Account<'_>, span: Span, count: usize) -> Vec<Repeated> {
    effects::increases(profile, account, &effects::added(account, span), count)
}

fn all(profile: &Profile, pool: PoolId) -> Vec<Option<i64>> {
    effects(&account(profile, pool), whole(profile)).map(|(_, effect)| effect).collect()
}

#[test]
fn effects_are_measured_between_two_states_and_otherwise_taken_from_tensors() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.run("main");
    evidence.steps(3, "ttnn.add");
    evidence.end_run();
    for _ in 0..2 {
        evidence.run("main");
        evidence.step("ttnn.add");
        evidence.end_run();
    }
    // Tensors and states disagree, so the result shows which of them was used.
    for step in 0..5 {
        evidence.tensor(tensor(dram, 10 + u64::from(step), after(step), NEVER));
    }
    evidence.tensor(tensor(dram, 500, before(3), NEVER));
    evidence.state(dram, before(0), 100);
    evidence.state(dram, after(0), 300);
    evidence.state(dram, before(2), 250);
    evidence.state(dram, before(3), 900);
    evidence.state(dram, after(3), 900);
    evidence.state(dram, after(4), 990);
    let profile = evidence.finish();
    // Step 1: nothing happens between two steps of a program, so the states before and after it are known. Step 2: the
    // state before the next program is not the state after it. Step 3: the states are equal.
    // Step 4: the state after the program before it is not the state before it.
    assert_eq!(all(&profile, dram), [Some(200), Some(-50), Some(12), Some(0), Some(14)]);
}

#[test]
fn effects_are_unknown_without_states_and_tensors() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.step("ttnn.add");
    evidence.step("ttnn.add");
    evidence.state(dram, after(0), 300);
    evidence.state(dram, after(1), 500);
    let profile = evidence.finish();
    // The state before the first step is unknown.
    assert_eq!(all(&profile, dram), [None, Some(200)]);
    assert_eq!(largest(&account(&profile, dram), whole(&profile), 5), [(1, 200)]);
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    assert_eq!(all(&evidence.finish(), dram), []);
}

#[test]
fn largest_effects_come_first_and_ties_go_to_the_earlier_step() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool_of("DRAM", Some(8), 10);
    evidence.state(dram, before(0), 100);
    for (step, held) in (0..).zip([110, 150, 140, 190, 230, 241]) {
        evidence.step("ttnn.add");
        evidence.state(dram, after(step), held);
    }
    let profile = evidence.finish();
    let most = |most| largest(&account(&profile, dram), whole(&profile), most);
    // Step 0 added no more than the rounding, step 2 freed memory.
    assert_eq!(most(9), [(3, 50), (1, 40), (4, 40), (5, 11)]);
    assert_eq!(most(2), [(3, 50), (1, 40)]);
    assert_eq!(most(0), []);
    assert_eq!(largest(&account(&profile, dram), Span { first: 4, end: 5 }, 9), [(4, 40)]);
}

#[test]
fn steps_that_do_the_same_are_one_increase() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool_of("DRAM", Some(8), 10);
    let [small, same, large] = [[4, 4], [4, 4], [8, 4]].map(|shape| Some(evidence.tiled(&shape)));
    evidence.state(dram, before(0), 0);
    let mut held = 0;
    let steps = [
        ("ttnn.add", small, 100),
        ("ttnn.add", large, 200),
        ("ttnn.add", same, 105),
        ("ttnn.full", small, 100),
    ];
    for (step, (name, ty, added)) in (0..).zip(steps) {
        evidence.op(OpKind::Compute, name, &[], &[("%0", ty)]);
        held += added;
        evidence.state(dram, after(step), held);
    }
    let profile = evidence.finish();
    let found = increases(&profile, &account(&profile, dram), whole(&profile), 9);
    let found: Vec<_> = found.iter().map(|one| (one.first, one.last, one.count, one.added)).collect();
    // Rounding makes no difference; the operation and the shape do.
    assert_eq!(found, [(1, 1, 1, 200), (0, 2, 2, 100), (3, 3, 1, 100)]);
}

proptest! {
    #[test]
    fn effects_of_a_program_add_up_to_its_change(held in vec(0..1000_u64, 1..30)) {
        let mut evidence = Evidence::new();
        let dram = evidence.pool("DRAM");
        evidence.state(dram, before(0), held[0]);
        for (step, held) in (0..).zip(&held[1..]) {
            evidence.step("ttnn.add");
            evidence.state(dram, before(step + 1), *held);
        }
        let profile = evidence.finish();
        let sum: i64 = all(&profile, dram).into_iter().flatten().sum();
        prop_assert_eq!(sum, ttmem_model::difference(*held.last().unwrap(), held[0]));
    }
}
