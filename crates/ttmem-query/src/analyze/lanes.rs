//! Packs calls into the rows of a chart: calls in one row do not overlap, and nested calls are below their parent.
//!
//! Each lane (a thread or stream) has its own rows, grouped by nesting depth: first the outermost calls of the lane,
//! below them the calls nested in those, and so on. A depth has as many rows as it has concurrent calls, usually one,
//! because the calls of a thread are sequential. Concurrent tasks need more rows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ttmem_model::{CallEnd, CallId, Nanoseconds, Rank};

/// The rows where calls are drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// The row of each call within its lane, from 0.
    pub row: Vec<u32>,
    /// The number of rows of each lane.
    pub rows: Vec<u32>,
}

/// Packs the calls of a rank.
pub fn pack(rank: &Rank) -> Packing {
    let calls = &rank.calls;
    let bar = |(call, depth): (usize, u32)| Bar {
        lane: calls.lane[call].index(),
        depth,
        began: calls.began[call],
        end: room_until(rank, call),
    };
    let bars: Vec<Bar> = depths(rank).into_iter().enumerate().map(bar).collect();
    pack_bars(rank.lanes.len(), &bars)
}

/// The time until which a call occupies its row. A call without a known end occupies one nanosecond.
fn room_until(rank: &Rank, call: usize) -> Nanoseconds {
    match rank.call_end(call) {
        CallEnd::At(end) => end,
        CallEnd::Open => Nanoseconds::MAX,
        CallEnd::Unknown => rank.calls.began[call].saturating_add(1),
    }
}

/// The nesting depth of each call in its lane.
fn depths(rank: &Rank) -> Vec<u32> {
    let calls = &rank.calls;
    let mut depths: Vec<u32> = Vec::with_capacity(calls.len());
    for call in 0..calls.len() {
        // A parent is always an earlier row.
        let parent = calls.parent[call].map(CallId::index).filter(|parent| *parent < call);
        let outer = parent.filter(|parent| calls.lane[*parent] == calls.lane[call]);
        depths.push(outer.map_or(0, |outer| depths[outer].saturating_add(1)));
    }
    depths
}

/// A call to be packed.
#[derive(Clone, Copy, Debug)]
struct Bar {
    lane: usize,
    depth: u32,
    began: Nanoseconds,
    end: Nanoseconds,
}

fn pack_bars(lanes: usize, bars: &[Bar]) -> Packing {
    let mut order: Vec<usize> = (0..bars.len()).collect();
    order.sort_unstable_by_key(|&bar| (bars[bar].lane, bars[bar].depth, bars[bar].began, bar));
    let mut packing = Packing { row: vec![0; bars.len()], rows: vec![0; lanes] };
    for level in order.chunk_by(|&a, &b| (bars[a].lane, bars[a].depth) == (bars[b].lane, bars[b].depth)) {
        let Some(first) = packing.rows.get_mut(bars[level[0]].lane) else { continue };
        let mut rows = Rows::default();
        for &bar in level {
            packing.row[bar] = first.saturating_add(rows.place(bars[bar].began, bars[bar].end));
        }
        *first = first.saturating_add(rows.count);
    }
    packing
}

/// The rows of one depth.
#[derive(Default)]
struct Rows {
    count: u32,
    /// The occupied rows, with the one that becomes free first on top.
    taken: BinaryHeap<Reverse<(Nanoseconds, u32)>>,
    /// The free rows, with the uppermost on top.
    free: BinaryHeap<Reverse<u32>>,
}

impl Rows {
    /// Returns a row for a call. Calls must be placed in the order of their start times.
    fn place(&mut self, began: Nanoseconds, end: Nanoseconds) -> u32 {
        while let Some(&Reverse((ended, row))) = self.taken.peek()
            && ended <= began
        {
            self.taken.pop();
            self.free.push(Reverse(row));
        }
        let row = self.free.pop().map_or(self.count, |Reverse(row)| row);
        self.count = self.count.max(row + 1);
        self.taken.push(Reverse((end, row)));
        row
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use ttmem_model::{RankEvent, Seen};

    use super::*;
    use crate::analyze::tests::{Evidence, first};

    #[test]
    fn nested_calls_are_below_their_parent_on_the_same_lane() {
        let mut evidence = Evidence::new();
        let (scope, main, other) = (evidence.scope("a"), evidence.lane("main"), evidence.lane("other"));
        evidence.lane("idle");
        let outer = evidence.call(scope, main, None, (0, 100));
        let inner = evidence.call(scope, main, Some(outer), (0, 50));
        // A task on another lane is at the top there.
        let task = evidence.call(scope, other, Some(inner), (0, 100));
        evidence.call(scope, other, Some(task), (0, 10));
        evidence.call(scope, main, Some(inner), (10, 20));
        evidence.call(scope, main, Some(outer), (50, 60));
        evidence.call(scope, other, None, (100, 110));
        let packing = pack(first(&evidence.finish()));
        assert_eq!(packing, Packing { row: vec![0, 1, 0, 1, 2, 1, 0], rows: vec![3, 2, 0] });
        assert_eq!(pack(first(&Evidence::new().finish())), Packing::default());
    }

    #[test]
    fn open_calls_keep_their_row_and_calls_without_an_end_take_one_moment() {
        let mut evidence = Evidence::new();
        let (scope, lane) = (evidence.scope("a"), evidence.lane("main"));
        evidence.open_call(scope, lane, None, 0);
        for began in [5, 5, 6] {
            let call = evidence.open_call(scope, lane, None, began);
            evidence.say(RankEvent::Seen(call, Seen::default()));
        }
        evidence.call(scope, lane, None, (1_000_000, 1_000_001));
        assert_eq!(pack(first(&evidence.finish())).row, [0, 1, 2, 1, 1]);
    }

    fn bars(times: &[(u64, u64)]) -> Vec<Bar> {
        times.iter().map(|&(began, end)| Bar { lane: 0, depth: 0, began, end }).collect()
    }

    /// In Pie's tracker, the third bar was painted over the second.
    #[test]
    fn a_free_row_is_reused() {
        assert_eq!(pack_bars(1, &bars(&[(0, 10), (5, 15), (10, 12)])).row, [0, 1, 0]);
    }

    /// In Pie's tracker, calls of 20 µs were drawn as 100 µs, and so took six lanes.
    #[test]
    fn sequential_calls_take_one_row() {
        let times: Vec<(u64, u64)> = (0..1000).map(|n| (n * 20_000, (n + 1) * 20_000)).collect();
        let packing = pack_bars(1, &bars(&times));
        assert_eq!(packing.rows, [1]);
        // The same with a clock that stands still.
        assert_eq!(pack_bars(1, &bars(&[(7, 7); 1000])).rows, [1]);
    }

    /// In Pie's tracker, a quadratic algorithm took 82 s for 16,000 calls. With one, this test would not finish.
    #[test]
    fn many_calls_at_once_are_packed_in_a_few_comparisons() {
        let times: Vec<(u64, u64)> = (0..200_000).map(|n| (n, n + 1000)).collect();
        let packing = pack_bars(1, &bars(&times));
        assert_eq!(packing.rows, [1000]);
        let last = packing.row.iter().max();
        assert_eq!(last, Some(&999));
    }

    fn any_bars() -> impl Strategy<Value = Vec<Bar>> {
        let bar = (0..3_usize, 0..3_u32, 0..60_u64, 0..20_u64).prop_map(|(lane, depth, began, length)| Bar {
            lane,
            depth,
            began,
            end: began + length,
        });
        vec(bar, 0..80)
    }

    proptest! {
        #[test]
        fn bars_in_one_row_do_not_overlap(bars in any_bars()) {
            let packing = pack_bars(3, &bars);
            for (a, first) in bars.iter().enumerate() {
                prop_assert!(packing.row[a] < packing.rows[first.lane]);
                for (b, second) in bars.iter().enumerate().skip(a + 1) {
                    let same_row = first.lane == second.lane && packing.row[a] == packing.row[b];
                    let at_once = first.began < second.end && second.began < first.end;
                    prop_assert!(!(same_row && at_once), "{:?} over {:?}", first, second);
                }
            }
        }

        #[test]
        fn a_depth_has_as_many_rows_as_calls_at_a_time(bars in any_bars()) {
            let packing = pack_bars(3, &bars);
            for lane in 0..3 {
                let most = |depth| {
                    let here = |bar: &&Bar| bar.lane == lane && bar.depth == depth;
                    // A call without duration overlaps nothing, but has a row.
                    let runs = |bar: &Bar, at: u64| bar.began == at || (bar.began < at && at < bar.end);
                    let long = |bar: &&Bar| bar.began < bar.end;
                    let at_a_time = |at| {
                        let short = bars.iter().filter(here).any(|bar| bar.began == at && bar.end == at);
                        bars.iter().filter(here).filter(long).filter(|bar| runs(bar, at)).count()
                            + usize::from(short)
                    };
                    let most = (0..60).map(at_a_time).max().unwrap_or(0);
                    let least = (0..60)
                        .map(|at| bars.iter().filter(here).filter(long).filter(|bar| runs(bar, at)).count())
                        .max()
                        .unwrap_or(0);
                    (least, most)
                };
                let bounds = (0..3).map(most).fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
                let rows = packing.rows[lane] as usize;
                prop_assert!(bounds.0 <= rows && rows <= bounds.1, "{} of {:?}", rows, bounds);
            }
        }

        #[test]
        fn nested_calls_are_below_outer_calls(bars in any_bars()) {
            let packing = pack_bars(3, &bars);
            for (a, first) in bars.iter().enumerate() {
                for (b, second) in bars.iter().enumerate() {
                    if first.lane == second.lane && first.depth < second.depth {
                        prop_assert!(packing.row[a] < packing.row[b]);
                    }
                }
            }
        }
    }
}
