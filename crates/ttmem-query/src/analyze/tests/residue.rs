use super::*;
use crate::analyze::residue::{Change, LeftBehind, Who, by_operation, changes};

#[test]
fn unexplained_changes_are_attributed_to_the_steps_between_two_states() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool_of("DRAM", Some(8), 10);
    evidence.run("main");
    evidence.step("ttnn.to_device");
    evidence.step("ttnn.conv2d");
    evidence.op(OpKind::Deallocate, "ttnn.deallocate", &[], &[]);
    evidence.step("ttnn.embedding");
    evidence.end_run();
    evidence.run("main");
    evidence.step("ttnn.conv2d");
    evidence.op(OpKind::Deallocate, "ttnn.deallocate", &[], &[]);
    evidence.step("ttnn.add");
    evidence.step("ttnn.add");
    evidence.end_run();
    evidence.tensor(tensor(dram, 100, after(1), NEVER));
    let states = [
        (before(0), 50),
        // Within the rounding. The level stays, so small changes still add up.
        (after(0), 58),
        (after(1), 165),
        // Only one of the two steps computes.
        (after(3), 265),
        (before(4), 365),
        (after(4), 345),
        // A single step that computes nothing.
        (after(5), 305),
        (after(7), 405),
    ];
    for (at, held) in states {
        evidence.state(dram, at, held);
    }
    let profile = evidence.finish();
    let account = account(&profile, dram);
    let change = |at, per_bank, who| Change { at, per_bank, who };
    let expected = [
        change(before(0), 50, Who::Before),
        change(after(1), 15, Who::Step(1)),
        change(after(3), 100, Who::Step(3)),
        change(before(4), 100, Who::Outside),
        change(after(4), -20, Who::Step(4)),
        change(after(5), -40, Who::Step(5)),
        change(after(7), 100, Who::OneOf(6, 7)),
    ];
    assert_eq!(changes(&profile, &account, NEVER), expected);
    assert_eq!(changes(&profile, &account, after(2)), expected[..2]);

    let left = by_operation(&profile, &account, NEVER);
    let named: Vec<_> = left
        .iter()
        .map(|row| (row.op.map(|op| profile.text(op)), row.who, row.per_bank, &row.steps[..], row.first_uses))
        .collect();
    let expected = [
        (None, Some(Who::Outside), 100, &[][..], 0),
        (None, Some(Who::OneOf(6, 7)), 100, &[], 0),
        (Some("ttnn.embedding"), None, 100, &[3], 1),
        (None, Some(Who::Before), 50, &[], 0),
        (Some("ttnn.deallocate"), None, -40, &[5], 0),
        // The sum of two steps.
        (Some("ttnn.conv2d"), None, -5, &[1, 4], 1),
    ];
    assert_eq!(named, expected);
}

#[test]
fn each_combination_of_types_has_a_first_use() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    let (small, large) = (evidence.tiled(&[32, 32]), evidence.tiled(&[64, 64]));
    evidence.state(dram, before(0), 0);
    // Other types make another first use, other names don't.
    for (step, (operand, ty)) in (0..).zip([("%0", small), ("%1", small), ("%2", large), ("%0", small)]) {
        evidence.op(OpKind::Compute, "ttnn.conv2d", &[(operand, Some(ty))], &[]);
        evidence.state(dram, after(step), 10 * (u64::from(step) + 1));
    }
    evidence.tensor(tensor(dram, 0, START, NEVER));
    let op = Some(evidence.text("ttnn.conv2d"));
    let profile = evidence.finish();
    let row = LeftBehind { op, who: None, per_bank: 40, steps: vec![0, 1, 2, 3], first_uses: 2 };
    assert_eq!(by_operation(&profile, &account(&profile, dram), NEVER), [row]);
}

#[test]
fn changes_observed_before_a_program_are_outside_programs() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    for _ in 0..2 {
        evidence.run("main");
        evidence.step("ttnn.add");
        evidence.step("ttnn.add");
        evidence.end_run();
    }
    evidence.tensor(tensor(dram, 1, after(3), NEVER));
    evidence.state(dram, after(0), 0);
    evidence.state(dram, before(2), 50);
    let profile = evidence.finish();
    let expected = Change { at: before(2), per_bank: 50, who: Who::Outside };
    assert_eq!(changes(&profile, &account(&profile, dram), NEVER), [expected]);
}

#[test]
fn nothing_is_unexplained_without_tensors() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.state(dram, before(0), 50);
    let profile = evidence.finish();
    assert_eq!(changes(&profile, &account(&profile, dram), NEVER), []);
    assert_eq!(by_operation(&profile, &account(&profile, dram), NEVER), []);
}

#[test]
fn huge_changes_saturate() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.step("ttnn.add");
    evidence.tensor(tensor(dram, u64::MAX - 1, after(0), NEVER));
    evidence.state(dram, before(0), u64::MAX);
    evidence.state(dram, after(0), 0);
    let profile = evidence.finish();
    let account = account(&profile, dram);
    let found: Vec<i64> = changes(&profile, &account, NEVER).iter().map(|change| change.per_bank).collect();
    assert_eq!(found, [i64::MAX, i64::MIN]);
    let left = by_operation(&profile, &account, NEVER);
    assert_eq!(left.iter().map(|row| row.per_bank).collect::<Vec<_>>(), [i64::MIN, i64::MAX]);
}

proptest! {
    #[test]
    fn changes_add_up_to_the_unexplained_bytes(memory in Memory::any(), until in 0..26_usize) {
        let (profile, pool) = memory.profile();
        let (account, until) = (account(&profile, pool), Moment::from_index(until).unwrap());
        let sum: i64 = changes(&profile, &account, until).iter().map(|change| change.per_bank).sum();
        let by_operation: i64 = by_operation(&profile, &account, until).iter().map(|row| row.per_bank).sum();
        prop_assert_eq!(sum, by_operation);
        let last = account.readings().take_while(|(at, _)| *at <= until).last();
        if let Some((at, held)) = last && let Some(explained) = account.explained(at) {
            let unexplained = ttmem_model::difference(held, explained);
            prop_assert!((sum - unexplained).unsigned_abs() <= account.pool.quantum, "{} {}", sum, unexplained);
        }
    }
}
