use std::collections::BTreeMap;

use super::*;
use crate::analyze::overlaps::{MAX_NAMED, Overlap, Overlaps, overlaps};

fn overlap(lanes: usize, time: u64, count: u64, longest: (u64, u64), calls: &[usize]) -> Overlap {
    Overlap { lanes, time, count, longest, calls: calls.to_vec() }
}

#[test]
fn intervals_with_the_same_scopes_are_added_up() {
    let mut evidence = Evidence::new();
    let [one, two] = ["one", "two"].map(|name| evidence.lane(name));
    let [a, b, c] = ["a", "b", "c"].map(|name| evidence.scope(name));
    evidence.call(a, one, None, (0, 10));
    evidence.call(b, two, None, (8, 20));
    // Consecutive calls don't overlap, and a call without duration overlaps nothing.
    evidence.call(c, one, None, (20, 30));
    evidence.call(c, two, None, (25, 25));
    // The same scopes with lanes swapped, for longer.
    evidence.call(b, one, None, (40, 50));
    evidence.call(a, two, None, (43, 90));
    let found = overlaps(first(&evidence.finish()));
    assert_eq!(found, Overlaps { sets: vec![overlap(2, 2 + 7, 2, (43, 50), &[4, 5])], time: 9 });
}

#[test]
fn the_current_call_of_a_lane_is_the_one_that_began_last() {
    let mut evidence = Evidence::new();
    let [one, two] = ["one", "two"].map(|name| evidence.lane(name));
    let [outer, inner, other] = ["outer", "inner", "other"].map(|name| evidence.scope(name));
    let around = evidence.call(outer, one, None, (0, 100));
    evidence.call(inner, one, Some(around), (20, 50));
    // An open call lasts until the end.
    evidence.open_call(other, two, None, 10);
    let found = overlaps(first(&evidence.finish()));
    let sets = vec![overlap(2, 10 + 50, 2, (50, 100), &[0, 2]), overlap(2, 30, 1, (20, 50), &[1, 2])];
    assert_eq!(found, Overlaps { sets, time: 90 });
}

#[test]
fn ties_are_ordered_by_the_start_of_their_longest_interval() {
    let mut evidence = Evidence::new();
    let [one, two] = ["one", "two"].map(|name| evidence.lane(name));
    let [a, b, c] = ["a", "b", "c"].map(|name| evidence.scope(name));
    evidence.call(a, one, None, (0, 20));
    evidence.call(c, two, None, (0, 10));
    evidence.call(b, two, None, (10, 20));
    let sets = overlaps(first(&evidence.finish())).sets;
    assert_eq!(sets, [overlap(2, 10, 1, (0, 10), &[0, 1]), overlap(2, 10, 1, (10, 20), &[0, 2])]);
    // Of equal intervals, the first is the longest.
    let mut evidence = Evidence::new();
    let [one, two] = ["one", "two"].map(|name| evidence.lane(name));
    let scope = evidence.scope("a");
    for began in [0, 10] {
        for lane in [one, two] {
            evidence.call(scope, lane, None, (began, began + 5));
        }
    }
    assert_eq!(overlaps(first(&evidence.finish())).sets, [overlap(2, 10, 2, (0, 5), &[0, 1])]);
    assert_eq!(overlaps(first(&Evidence::new().finish())), Overlaps::default());
}

#[test]
fn the_number_of_named_calls_is_limited() {
    let mut evidence = Evidence::new();
    let scope = evidence.scope("worker");
    for index in 0..MAX_NAMED + 3 {
        let lane = evidence.lane(&index.to_string());
        evidence.call(scope, lane, None, (0, 5));
    }
    let sets = overlaps(first(&evidence.finish())).sets;
    let named: Vec<usize> = (0..MAX_NAMED).collect();
    assert_eq!(sets, [overlap(MAX_NAMED + 3, 5, 1, (0, 5), &named)]);
}

proptest! {
    /// Compared with a scan of every nanosecond.
    #[test]
    fn each_set_lasts_as_long_as_its_scopes_run_at_once(
        calls in vec((0..4_usize, 0..3_usize, 0..40_u64, 0..15_u64), 0..20),
    ) {
        let mut evidence = Evidence::new();
        let lanes = ["1", "2", "3"].map(|name| evidence.lane(name));
        let scopes = ["a", "b", "c", "d"].map(|name| evidence.scope(name));
        for &(scope, lane, began, length) in &calls {
            evidence.call(scopes[scope], lanes[lane], None, (began, began + length));
        }
        let mut expected: BTreeMap<Vec<usize>, u64> = BTreeMap::new();
        for now in 0..60 {
            let runs = |lane: usize| {
                let here = calls.iter().enumerate().filter(|(_, (_, of, began, length))| {
                    *of == lane && (*began..began + length).contains(&now)
                });
                here.max_by_key(|(index, (_, _, began, _))| (*began, *index)).map(|(_, (scope, ..))| *scope)
            };
            let mut set: Vec<usize> = (0..3).filter_map(runs).collect();
            set.sort_unstable();
            if set.len() > 1 {
                *expected.entry(set).or_default() += 1;
            }
        }
        let profile = evidence.finish();
        let found = overlaps(first(&profile));
        prop_assert_eq!(found.time, expected.values().sum::<u64>());
        let scope = |call: &usize| first(&profile).calls.scope[*call].index();
        let of_set = |set: &Overlap| {
            let mut scopes: Vec<usize> = set.calls.iter().map(scope).collect();
            scopes.sort_unstable();
            (scopes, set.time)
        };
        prop_assert_eq!(found.sets.iter().map(of_set).collect::<BTreeMap<_, _>>(), expected);
        prop_assert!(found.sets.windows(2).all(|pair| pair[0].time >= pair[1].time));
    }
}
