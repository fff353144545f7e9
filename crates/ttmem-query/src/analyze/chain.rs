//! The longest chain of calls without overlap: the time that more threads cannot reduce.
//!
//! The chain consists of innermost calls of all lanes: calls without nested calls. These do the actual work; a call
//! that encloses them also spans the pauses between them, and a single call around everything would be the whole chain.
//! Of all sets of innermost calls that do not overlap, the chain is the one with the longest total time: weighted
//! interval scheduling, by sorting and one pass.

use ttmem_model::{Nanoseconds, Rank};

use super::clock::Stretch;

/// Calls that each begin after the previous one has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The total duration of the calls, without the pauses between them.
    pub time: Nanoseconds,
    /// The calls, in order.
    pub calls: Vec<usize>,
}

/// The longest chain of a rank.
pub fn longest_chain(rank: &Rank) -> Chain {
    let Some(stretch) = Stretch::of(rank) else { return Chain::default() };
    let mut is_innermost = vec![true; rank.calls.len()];
    for parent in rank.calls.parent.iter().flatten() {
        if let Some(innermost) = is_innermost.get_mut(parent.index()) {
            *innermost = false;
        }
    }
    let interval = |call: usize| {
        let (began, end) = (rank.calls.began[call], stretch.until(rank, call)?);
        (end > began).then_some(Interval { began, end, call })
    };
    let calls = (0..rank.calls.len()).filter(|&call| is_innermost[call]);
    heaviest(calls.filter_map(interval).collect())
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    began: Nanoseconds,
    end: Nanoseconds,
    call: usize,
}

fn heaviest(mut intervals: Vec<Interval>) -> Chain {
    intervals.sort_by_key(|interval| (interval.end, interval.began));
    // For every n, the longest chain of the first n intervals; for each interval, the number that end before it starts.
    let mut best: Vec<Nanoseconds> = vec![0];
    let mut before = Vec::with_capacity(intervals.len());
    for (index, interval) in intervals.iter().enumerate() {
        let earlier = intervals[..index].partition_point(|other| other.end <= interval.began);
        before.push(earlier);
        best.push(best[index].max(best[earlier].saturating_add(interval.end - interval.began)));
    }
    let mut calls = Vec::new();
    let mut rest = intervals.len();
    while rest > 0 {
        if best[rest] == best[rest - 1] {
            rest -= 1;
        } else {
            calls.push(intervals[rest - 1].call);
            rest = before[rest - 1];
        }
    }
    calls.reverse();
    Chain { time: best.last().copied().unwrap_or(0), calls }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use ttmem_model::{CallId, RankEvent, Seen};

    use super::*;
    use crate::analyze::tests::{Evidence, first};

    fn intervals(times: &[(u64, u64)]) -> Vec<Interval> {
        let interval =
            |(call, &(began, length)): (usize, &(u64, u64))| Interval { began, end: began + length, call };
        times.iter().enumerate().map(interval).collect()
    }

    #[test]
    fn short_calls_in_a_row_beat_one_long_call() {
        let chain = heaviest(intervals(&[(0, 10), (2, 3), (10, 10), (5, 14), (20, 1)]));
        assert_eq!(chain, Chain { time: 21, calls: vec![0, 2, 4] });
        assert_eq!(heaviest(Vec::new()), Chain::default());
    }

    #[test]
    fn a_chain_is_made_of_the_innermost_calls_of_all_lanes() {
        let mut evidence = Evidence::new();
        let (scope, main, other) = (evidence.scope("a"), evidence.lane("main"), evidence.lane("other"));
        let around = evidence.call(scope, main, None, (0, 100));
        let parts = [
            evidence.call(scope, main, Some(around), (0, 30)),
            evidence.call(scope, other, Some(around), (30, 80)),
        ];
        evidence.call(scope, main, Some(around), (30, 60));
        // Calls without duration and calls with an unknown end are skipped.
        evidence.call(scope, main, None, (85, 85));
        let unknown = evidence.open_call(scope, main, None, 86);
        evidence.say(RankEvent::Seen(unknown, Seen::default()));
        // An open call lasts until the end.
        let open = evidence.open_call(scope, other, None, 90);
        let calls = [parts[0], parts[1], open].map(CallId::index).to_vec();
        assert_eq!(longest_chain(first(&evidence.finish())), Chain { time: 30 + 50 + 10, calls });
        assert_eq!(longest_chain(first(&Evidence::new().finish())), Chain::default());
    }

    proptest! {
        /// Compares the result with all possible sets.
        #[test]
        fn no_set_without_overlap_takes_longer(times in vec((0..40_u64, 1..15_u64), 0..10)) {
            let all = intervals(&times);
            let chain = heaviest(all.clone());
            let apart = |set: &[&Interval]| {
                let mut set = set.to_vec();
                set.sort_by_key(|interval| interval.began);
                set.windows(2).all(|pair| pair[0].end <= pair[1].began)
            };
            let taken: Vec<&Interval> = chain.calls.iter().map(|call| &all[*call]).collect();
            prop_assert!(apart(&taken));
            prop_assert!(taken.windows(2).all(|pair| pair[0].end <= pair[1].began), "in order");
            let time = |set: &[&Interval]| set.iter().map(|interval| interval.end - interval.began).sum::<u64>();
            prop_assert_eq!(time(&taken), chain.time);
            for choice in 0..1_u32 << all.len() {
                let set: Vec<&Interval> =
                    all.iter().enumerate().filter(|(n, _)| choice >> n & 1 == 1).map(|(_, i)| i).collect();
                prop_assert!(!apart(&set) || time(&set) <= chain.time);
            }
        }
    }
}
