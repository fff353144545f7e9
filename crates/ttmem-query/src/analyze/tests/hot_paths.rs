use ttmem_model::{CallTotals, Seen};

use super::*;
use crate::analyze::hot_paths::{HotPath, hot_paths};

fn paths(evidence: Evidence) -> Vec<HotPath> {
    hot_paths(first(&evidence.finish()))
}

#[test]
fn own_time_excludes_nested_calls_of_the_same_lane() {
    let mut evidence = Evidence::new();
    let (main, other) = (evidence.lane("main"), evidence.lane("other"));
    let [outer, inner, beside, unused] =
        ["outer", "inner", "beside", "unused"].map(|name| evidence.scope(name));
    let around = evidence.call(outer, main, None, (0, 100));
    // Two overlapping tasks, one that ends after its parent, and one on another lane.
    evidence.call(inner, main, Some(around), (10, 50));
    evidence.call(inner, main, Some(around), (40, 70));
    evidence.call(inner, main, Some(around), (95, 120));
    evidence.call(beside, other, Some(around), (0, 100));
    let found = paths(evidence);
    let own: Vec<_> = found.iter().map(|path| (path.scope, path.count, path.total, path.own)).collect();
    let expected =
        [(beside, 1, 100, Some(100)), (inner, 3, 95, Some(95)), (outer, 1, 100, Some(100 - 60 - 5))];
    assert_eq!(own, expected, "{unused:?} was never called");
}

#[test]
fn ties_are_ordered_by_calls_and_then_by_scope() {
    let mut evidence = Evidence::new();
    let lane = evidence.lane("main");
    let [a, b, c] = ["a", "b", "c"].map(|name| evidence.scope(name));
    for (scope, began, ended) in [(c, 0, 10), (a, 10, 20), (b, 20, 24), (b, 24, 30)] {
        evidence.call(scope, lane, None, (began, ended));
    }
    let found = paths(evidence);
    assert_eq!(found.iter().map(|path| path.scope).collect::<Vec<_>>(), [b, a, c]);
    // The longest call of a scope; ties go to the first.
    assert_eq!((found[0].longest, found[0].longest_call), (6, Some(3)));
    let mut evidence = Evidence::new();
    let (lane, scope) = (evidence.lane("main"), evidence.scope("a"));
    for began in [0, 5, 10] {
        evidence.call(scope, lane, None, (began, began + 5));
    }
    assert_eq!(paths(evidence)[0].longest_call, Some(0));
}

#[test]
fn calls_with_an_unknown_end_are_counted_but_not_timed() {
    let mut evidence = Evidence::new();
    let (lane, scope, open) = (evidence.lane("main"), evidence.scope("seen"), evidence.scope("open"));
    let unseen = evidence.open_call(scope, lane, None, 0);
    evidence.say(RankEvent::Seen(unseen, Seen { ended: None, change: Some(7) }));
    let timed = evidence.open_call(scope, lane, None, 10);
    evidence.say(RankEvent::Seen(timed, Seen { ended: Some(14), change: Some(-2) }));
    // An open call lasts until the end.
    evidence.open_call(open, lane, None, 8);
    let found = paths(evidence);
    let [open, seen] = &found[..] else { panic!("{found:?}") };
    assert_eq!((open.timed, open.total, open.change), (1, 6, None));
    assert_eq!((seen.count, seen.timed, seen.total, seen.own), (2, 1, 4, Some(4)));
    assert_eq!((seen.longest_call, seen.change), (Some(1), Some(5)));
}

#[test]
fn the_first_call_is_the_longest_if_no_length_is_known() {
    let mut evidence = Evidence::new();
    let (lane, scope) = (evidence.lane("main"), evidence.scope("seen"));
    for began in [3, 4] {
        let call = evidence.open_call(scope, lane, None, began);
        evidence.say(RankEvent::Seen(call, Seen::default()));
    }
    let found = paths(evidence);
    assert_eq!((found[0].count, found[0].timed, found[0].longest_call), (2, 0, Some(0)));
    assert_eq!(found[0].change, None);
}

#[test]
fn aggregated_calls_have_no_own_time() {
    let mut evidence = Evidence::new();
    let (lane, scope, other) = (evidence.lane("main"), evidence.scope("a"), evidence.scope("b"));
    evidence.call(scope, lane, None, (0, 10));
    evidence.call(other, lane, None, (10, 60));
    let totals =
        |longest| CallTotals { count: 3, time: 90, longest, allocated: 8, freed: 9, ..CallTotals::default() };
    evidence.say(RankEvent::CallTotals(scope, totals(50)));
    evidence.say(RankEvent::CallTotals(other, CallTotals { time: 1, ..totals(50) }));
    let found = paths(evidence);
    let [a, b] = &found[..] else { panic!("{found:?}") };
    assert_eq!((a.scope, a.count, a.timed, a.total, a.own), (scope, 4, 4, 100, None));
    assert_eq!((a.heat(), a.change), (100, Some(-1)));
    // The longest call is aggregated; a single call of the same length is named.
    assert_eq!((a.longest, a.longest_call), (50, None));
    assert_eq!((b.scope, b.longest, b.longest_call), (other, 50, Some(1)));
    assert_eq!(paths(Evidence::new()), []);
}

proptest! {
    /// Nested calls of one lane: each moment belongs to one call.
    #[test]
    fn own_times_add_up_to_the_busy_time_of_a_lane(moves in vec((any::<bool>(), 0..9_u64), 0..40)) {
        let mut evidence = Evidence::new();
        let lane = evidence.lane("main");
        let scopes = ["a", "b", "c"].map(|name| evidence.scope(name));
        let (mut now, mut busy, mut running) = (0, 0, Vec::new());
        let end = |evidence: &mut Evidence, call, ended| {
            evidence.say(RankEvent::Returned(call, Outcome { ended, ..Outcome::default() }));
        };
        for (begins, pause) in moves {
            now += pause;
            busy += if running.is_empty() { 0 } else { pause };
            if begins {
                let scope = scopes[running.len() % scopes.len()];
                running.push(evidence.open_call(scope, lane, running.last().copied(), now));
            } else if let Some(call) = running.pop() {
                end(&mut evidence, call, now);
            }
        }
        for call in running {
            end(&mut evidence, call, now);
        }
        prop_assert_eq!(paths(evidence).iter().filter_map(|path| path.own).sum::<u64>(), busy);
    }
}
