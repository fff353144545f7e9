use ttmem_model::{BankLayout, Placement};

use super::*;
use crate::analyze::replay::{Goal, Outcome, Plan, Replay};

const CAPACITY: u64 = 1024;

/// A bank of 1024 bytes in L1, with allocations of these bytes, births, deaths and addresses. Each is made after those
/// before it.
fn in_l1(tensors: &[(u64, Step, Option<Step>, u64)]) -> (Profile, PoolId) {
    let mut evidence = Evidence::new();
    let l1 = evidence.pool("L1");
    evidence.say(RankEvent::BankLayout(l1, BankLayout { start: 0, alignment: 32 }));
    evidence.run("main");
    evidence.steps(20, "ttnn.empty");
    let capacity = Reading { capacity: Some(CAPACITY), ..Reading::default() };
    evidence.reading(l1, Moment::START, capacity);
    for (order, &(bytes, born, dies, address)) in (0..).zip(tensors) {
        let id = evidence.tensor(tensor(l1, bytes, after(born), dies.map_or(NEVER, after)));
        evidence.say(RankEvent::Placed(Placement { tensor: id, address, order, cores: None }));
    }
    (evidence.finish(), l1)
}

#[test]
fn addresses_are_reproduced_from_the_top() {
    let (profile, _) = in_l1(&[
        (96, 0, None, 928),
        (64, 1, Some(2), 864),
        (32, 1, None, 832),
        // In the hole that step 2 leaves.
        (32, 2, None, 896),
        (64, 3, None, 768),
        // From the other end.
        (32, 4, None, 0),
    ]);
    let mut replay = Replay::of(&profile, first(&profile)).unwrap();
    let found = replay.reproduce();
    assert_eq!((found.allocations, found.reproduced, found.first_difference), (6, 6, None));
}

#[test]
fn another_address_is_a_difference() {
    let (profile, _) = in_l1(&[(96, 0, None, 928), (64, 1, None, 800), (32, 2, None, 896)]);
    let found = Replay::of(&profile, first(&profile)).unwrap().reproduce();
    assert_eq!((found.allocations, found.reproduced), (3, 2));
    assert_eq!(found.first_difference, Some((tensor_id(1), Some(864))));
}

#[test]
fn a_profile_without_addresses_of_banks_cannot_be_replayed() {
    let mut evidence = Evidence::new();
    evidence.pool("DRAM");
    let profile = evidence.finish();
    assert!(Replay::of(&profile, first(&profile)).is_none());
}

#[test]
fn a_plan_changes_what_follows() {
    // 256 bytes are free below, and 256 bytes in the hole of step 3.
    let (profile, l1) =
        in_l1(&[(256, 0, None, 768), (256, 1, Some(3), 512), (256, 2, None, 256), (32, 4, None, 736)]);
    let mut replay = Replay::of(&profile, first(&profile)).unwrap();
    assert_eq!(replay.reproduce().first_difference, None);
    let request = Goal::Allocate { pool: l1, bytes: 300 };
    let run = |plan: &Plan, goal| replay.run(plan, goal, after(5));
    // The request takes 320 bytes, as addresses are multiples of 32.
    assert_eq!(run(&Plan::default(), request), Outcome::Lacks(64));
    let freed = Plan { freed: [(2, before(5))].into(), ..Plan::default() };
    assert_eq!(run(&freed, request), Outcome::Works(736 - 320));
    let resized = Plan { resized: [(2, 128)].into(), ..Plan::default() };
    assert_eq!(run(&resized, request), Outcome::Works(384 - 320));
    // In a pool whose banks are not known, there is room.
    let moved = Plan { moved: [(3, (PoolId::new(7).unwrap(), 32))].into(), ..Plan::default() };
    assert_eq!(run(&moved, request), Outcome::Lacks(64));
    let larger = Plan { pools: [(0, (0, 1088))].into(), ..Plan::default() };
    assert_eq!(run(&larger, request), Outcome::Works(0));
    let smaller = Plan { pools: [(0, (0, 512))].into(), ..Plan::default() };
    assert_eq!(run(&smaller, request), Outcome::FailsEarlier);
    // Before step 2, the largest block has 512 bytes; what follows no longer fits then.
    let early = |step| Plan { early: Some(before(step)), ..Plan::default() };
    assert_eq!(run(&early(2), request), Outcome::FailsEarlier);
    let (profile, l1) = in_l1(&[(256, 0, None, 768), (256, 1, Some(3), 512), (32, 2, None, 480)]);
    let mut replay = Replay::of(&profile, first(&profile)).unwrap();
    replay.reproduce();
    let request = Goal::Allocate { pool: l1, bytes: 480 };
    assert_eq!(replay.run(&Plan::default(), request, after(5)), Outcome::Works(0));
    let goal = Goal::Allocate { pool: l1, bytes: 500 };
    assert_eq!(replay.run(&Plan::default(), goal, after(5)), Outcome::Lacks(32));
    assert_eq!(replay.run(&early(2), goal, after(5)), Outcome::FailsEarlier);
}

#[test]
fn a_program_needs_the_memory_below_the_lowest_tensor() {
    let (profile, l1) = in_l1(&[(256, 0, None, 768), (256, 1, None, 512)]);
    let mut replay = Replay::of(&profile, first(&profile)).unwrap();
    replay.reproduce();
    let run = |plan: &Plan, end| replay.run(plan, Goal::Run { pool: l1, end }, after(5));
    assert_eq!(run(&Plan::default(), 500), Outcome::Works(12));
    assert_eq!(run(&Plan::default(), 600), Outcome::Lacks(88));
    // What was allocated later moves up if the first tensor is not there, but not if it is freed later.
    let moved = Plan { moved: [(0, (PoolId::new(7).unwrap(), 1))].into(), ..Plan::default() };
    assert_eq!(run(&moved, 600), Outcome::Works(168));
    let freed = Plan { freed: [(0, before(3))].into(), ..Plan::default() };
    assert_eq!(run(&freed, 600), Outcome::Lacks(88));
    let both = Plan { freed: [(0, before(3)), (1, before(3))].into(), ..Plan::default() };
    assert_eq!(run(&both, 600), Outcome::Works(424));
}
