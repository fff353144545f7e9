use super::*;
use crate::analyze::contents::{Content, contents, totals};

#[test]
fn largest_tensors_come_first_and_ties_go_to_the_earlier() {
    let mut evidence = Evidence::new();
    let (dram, l1) = (evidence.pool("DRAM"), evidence.pool("L1"));
    evidence.step("aten::mm");
    evidence.step("aten::mm");
    for (bytes, born, dies) in [(10, START, NEVER), (30, START, after(1)), (30, after(0), NEVER)] {
        evidence.tensor(tensor(dram, bytes, born, dies));
    }
    evidence.tensor(tensor(l1, 7, after(0), after(1)));
    let profile = evidence.finish();
    let content = |pool, bytes, count, largest: &[usize]| {
        let largest = largest.iter().map(|index| tensor_id(*index)).collect();
        Content { pool, bytes, count, largest }
    };
    let asked = contents(first(&profile), &[START, before(1), after(1)], 2);
    // L1 is listed from its first tensor on.
    assert_eq!(asked[0], [content(dram, 40, 2, &[1, 0])]);
    assert_eq!(asked[1], [content(dram, 70, 3, &[1, 2]), content(l1, 7, 1, &[3])]);
    assert_eq!(asked[2], [content(dram, 40, 2, &[2, 0]), content(l1, 0, 0, &[])]);
    assert_eq!(totals(first(&profile)), [40, 77, 40]);
    assert_eq!(contents(first(&Evidence::new().finish()), &[START], 2), [vec![]]);
}

#[test]
fn a_row_for_several_allocations_adds_their_count_and_is_not_listed() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.step("aten::mm");
    let many = evidence.tensor(tensor(dram, 500, START, after(0)));
    evidence.say(RankEvent::StandsFor(many, 40));
    let one = evidence.tensor(tensor(dram, 10, START, NEVER));
    let profile = evidence.finish();
    let content = |bytes, count| vec![Content { pool: dram, bytes, count, largest: vec![one] }];
    assert_eq!(contents(first(&profile), &[START, after(0)], 9), [content(510, 41), content(10, 1)]);
}

#[test]
fn counts_saturate() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    let many = evidence.tensor(tensor(dram, 500, START, NEVER));
    evidence.say(RankEvent::StandsFor(many, u64::MAX));
    evidence.tensor(tensor(dram, 10, START, NEVER));
    assert_eq!(contents(first(&evidence.finish()), &[START], 0)[0][0].count, u64::MAX);
}

proptest! {
    /// Compared with a scan of all tensors.
    #[test]
    fn contents_equal_the_live_tensors(memory in Memory::any(), top in 0..4_usize) {
        let (profile, _) = memory.profile();
        let rank = first(&profile);
        let asked: Vec<Moment> = moments(rank).collect();
        for (at, found) in asked.iter().zip(contents(rank, &asked, top)) {
            for content in found {
                let mut alive: Vec<usize> = rank.live(content.pool, *at).collect();
                let size = |index: &usize| rank.tensors.per_bank[*index].or_zero();
                prop_assert_eq!(content.bytes, alive.iter().map(size).sum::<u64>(), "{:?}", at);
                prop_assert_eq!(content.count, alive.len() as u64);
                alive.sort_by_key(|index| std::cmp::Reverse(size(index)));
                alive.truncate(top);
                prop_assert_eq!(content.largest, alive.into_iter().map(tensor_id).collect::<Vec<_>>());
            }
        }
        let pools = || (0..rank.pools.len()).filter_map(PoolId::new);
        for (position, total) in (0..).zip(totals(rank)) {
            let alive = pools().flat_map(|pool| rank.live(pool, Moment::late(position)));
            let expected: u64 = alive.map(|index| rank.tensors.per_bank[index].or_zero()).sum();
            prop_assert_eq!(total, expected, "{}", position);
        }
    }
}
