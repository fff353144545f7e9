//! What ran when: the answers to the chart's questions, from recordings and from calls that are made up.

use std::borrow::Cow;
use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use ttmem::analyze::chain::longest_chain;
use ttmem::analyze::hot_paths::hot_paths;
use ttmem::analyze::lanes::pack;
use ttmem::analyze::overlaps::overlaps;
use ttmem::model::{
    Builder, Call, CallId, CallTotals, Event, LaneId, Outcome, Profile, RankEvent, RankId, Reading, Scope,
    ScopeId, ScopeKind, Sink, StrId,
};
use ttmem::query::{GanttRequest, gantt, highest_peak};
use ttmem::record::live::{Allocation, Recorder};
use ttmem::{Error, read};

const NAMES: usize = 6;

/// A call that is made up.
#[derive(Clone, Copy, Debug)]
struct Made {
    name: usize,
    lane: usize,
    parent: Option<usize>,
    began: u64,
    /// `None`: it still ran.
    ended: Option<u64>,
}

fn made(name: usize, lane: usize, began: u64, ended: u64) -> Made {
    Made { name, lane, parent: None, began, ended: Some(ended) }
}

/// A profile of calls; `further` calls of the first scope are not kept one by one.
fn profile(calls: &[Made], further: Option<CallTotals>) -> Profile {
    let mut builder = Builder::new();
    let mut say = |event: Event<'_>| builder.take(event).unwrap();
    say(Event::Rank { label: None });
    for name in 0..NAMES {
        say(Event::Text(Cow::Owned(format!("op{name}"))));
    }
    let rank = RankId::new(0).unwrap();
    let mut of = |event: RankEvent| say(Event::Of(rank, event));
    for lane in 0..3 {
        of(RankEvent::Lane { name: StrId::new(lane).unwrap() });
    }
    for name in 0..NAMES {
        let name = StrId::new(name).unwrap();
        of(RankEvent::Scope(Scope { name, parent: None, kind: ScopeKind::Operation }));
    }
    for call in calls {
        of(RankEvent::Call(Call {
            scope: ScopeId::new(call.name).unwrap(),
            lane: LaneId::new(call.lane).unwrap(),
            parent: call.parent.and_then(CallId::new),
            op: None,
            began: call.began,
            first: 0,
            outcome: call.ended.map(|ended| Outcome { ended, ..Outcome::default() }),
        }));
    }
    if let Some(totals) = further {
        of(RankEvent::CallTotals(ScopeId::new(0).unwrap(), totals));
    }
    say(Event::End);
    builder.finish()
}

/// Calls of which a parent is always an earlier one that it is inside of.
fn any_calls() -> impl Strategy<Value = Vec<Made>> {
    let row = (0..NAMES, 0..3_usize, 0..200_u64, 0..60_u64, any::<prop::sample::Index>(), 0..10_u8);
    vec(row, 0..60).prop_map(|mut rows| {
        rows.sort_by_key(|row| row.2);
        let mut calls: Vec<Made> = Vec::new();
        for (name, lane, began, length, parent, chance) in rows {
            let inside = (chance < 6 && !calls.is_empty()).then(|| parent.index(calls.len()));
            let ended = (chance != 9).then_some(began + length);
            calls.push(Made { name, lane, parent: inside, began, ended });
        }
        calls
    })
}

/// Defects 24 and 25 of the tool before: pauses were drawn as calls, and a call's time was that of the next.
#[test]
fn calls_begin_and_end_when_they_did_and_pauses_are_no_calls() {
    let ms = 1_000_000;
    let calls = [
        made(0, 0, 0, ms),
        made(1, 0, 51 * ms, 52 * ms),
        made(0, 0, 352 * ms, 353 * ms),
        made(1, 0, 403 * ms, 404 * ms),
    ];
    let profile = profile(&calls, None);
    let answer = gantt(&profile, &GanttRequest::default()).unwrap();
    let found = &answer.ranks[0].calls;
    assert_eq!(found.began_ns, [0, 51 * ms, 352 * ms, 403 * ms]);
    assert_eq!(found.ended_ns, [ms, 52 * ms, 353 * ms, 404 * ms].map(Some));
    assert_eq!(found.scope, [0, 1, 0, 1]);
    assert_eq!(answer.ranks[0].outline.lanes[0].rows, 1);
    let hot = &answer.ranks[0].outline.hot_paths;
    assert!(
        hot.iter()
            .all(|path| path.count == 2 && path.total_ns == Some(2 * ms) && path.longest_ns == Some(ms))
    );
    assert_eq!((answer.ranks[0].outline.chain.time_ns, answer.ranks[0].outline.chain.calls), (4 * ms, 4));
}

#[test]
fn own_time_is_without_what_is_inside_on_the_same_lane() {
    let inside = |made: Made, parent| Made { parent: Some(parent), ..made };
    let calls = [
        made(0, 0, 0, 100),
        inside(made(1, 0, 10, 40), 0),
        // A task that overlaps the call before: what they share counts once.
        inside(made(2, 0, 30, 50), 0),
        // Beside it, on another lane.
        inside(made(3, 1, 50, 90), 0),
        // Longer than what it is inside of.
        inside(made(4, 0, 95, 120), 0),
    ];
    let profile = profile(&calls, None);
    let own = |scope: usize| {
        let paths = hot_paths(&profile.ranks[0]);
        paths.iter().find(|path| path.scope.index() == scope).unwrap().own
    };
    assert_eq!((0..5).map(own).collect::<Vec<_>>(), [55, 30, 20, 40, 25].map(Some));
    let hottest: Vec<usize> = hot_paths(&profile.ranks[0]).iter().map(|path| path.scope.index()).collect();
    assert_eq!(hottest, [0, 3, 1, 4, 2]);
}

#[test]
fn calls_that_are_not_kept_count() {
    let totals =
        CallTotals { count: 10, time: 1000, longest: 300, allocated: 70, freed: 20, ..CallTotals::default() };
    let profile = profile(&[made(0, 0, 0, 100)], Some(totals));
    let path = hot_paths(&profile.ranks[0])[0];
    assert_eq!(
        (path.count, path.total, path.own, path.longest, path.longest_call),
        (11, 1100, None, 300, None)
    );
    assert_eq!(path.change, Some(50));
    let answer = gantt(&profile, &GanttRequest::default()).unwrap();
    assert_eq!(answer.ranks[0].outline.further_calls, 10);
}

#[test]
fn what_ran_at_once_is_added_up_by_what_it_is() {
    let calls = [
        made(0, 0, 0, 100),
        made(1, 1, 10, 30),
        made(1, 1, 40, 90),
        made(2, 2, 80, 95),
        // When one ends as the other begins, they did not meet.
        made(3, 1, 100, 110),
    ];
    let profile = profile(&calls, None);
    let found = overlaps(&profile.ranks[0]);
    let sets: Vec<(usize, u64, u64, (u64, u64))> =
        found.sets.iter().map(|set| (set.lanes, set.time, set.count, set.longest)).collect();
    assert_eq!(sets, [(2, 60, 2, (40, 80)), (3, 10, 1, (80, 90)), (2, 5, 1, (90, 95))]);
    assert_eq!(found.time, 75);
    assert_eq!(found.sets[0].calls, [0, 2]);
    assert_eq!(found.sets[1].calls, [0, 2, 3]);
}

#[test]
fn a_call_that_still_ran_has_run_until_the_end() {
    let calls = [Made { ended: None, ..made(0, 0, 10, 0) }, made(1, 1, 20, 50)];
    let profile = profile(&calls, None);
    let answer = gantt(&profile, &GanttRequest::default()).unwrap();
    let rank = &answer.ranks[0];
    assert_eq!((rank.calls.ended_ns[0], rank.calls.still_ran[0], rank.calls.change[0]), (None, true, None));
    assert_eq!(rank.outline.overlaps.time_ns, 30);
    assert_eq!(rank.outline.chain.time_ns, 40);
}

#[test]
fn evidence_without_calls_says_what_is_missing() {
    let log = format!("{}/../../corpus/tt_log/vae-decoder.log", env!("CARGO_MANIFEST_DIR"));
    let profile = read::open(&log).unwrap();
    let error = gantt(&profile, &GanttRequest::default()).unwrap_err();
    assert!(matches!(&error, Error::NoMemoryData { .. }) && error.exit_code() == 4);
    assert!(error.to_string().contains("ttmem track"), "{error}");
}

/// The chart of a real recording: its memory is as high as the recorder says, and calls are where they were.
#[test]
fn a_recording_is_drawn_with_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ttmem");
    let mut recorder = Recorder::recording_to(&path).unwrap();
    let (lane, pool) = (recorder.lane("MainThread"), recorder.pool("cpu", false));
    let name = recorder.text("aten::empty");
    let op = recorder.op(name, None, None);
    let mut places = Vec::new();
    for round in 0..50_u64 {
        let scope = recorder.scope(None, "round", ScopeKind::Operation);
        let call = recorder.enter(scope, lane, None, None).unwrap();
        let allocation = Allocation {
            pool,
            bytes: 1000 * (1 + round % 7),
            op,
            ty: None,
            class: ttmem::model::Class::Unknown,
            within: Some(call),
        };
        places.push(recorder.allocated(allocation).unwrap());
        if round % 3 == 0 {
            recorder.freed(places.swap_remove(0), Some(call));
        }
        recorder.exit(call);
        recorder.release(call);
    }
    let figures = recorder.pools().next().unwrap().1;
    recorder.finish().unwrap();
    let profile = read::open(path.to_str().unwrap()).unwrap();
    let answer = gantt(&profile, &GanttRequest::default()).unwrap();
    let rank = &answer.ranks[0];
    let memory = &rank.memory[0];
    assert_eq!(memory.per_bank.iter().max(), Some(&figures.peak));
    assert_eq!(memory.per_bank.last(), Some(&figures.now));
    assert!(memory.at_ns.is_sorted() && rank.calls.began_ns.is_sorted());
    assert_eq!((rank.calls.began_ns.len(), rank.outline.lanes[0].rows), (50, 1));
    assert!(rank.calls.change.iter().all(Option::is_some));
}

/// What a process has in all is the fullest pool, and nobody's: the one to look at has tensors.
#[test]
fn the_memory_of_the_process_is_told_from_pools_with_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ttmem");
    let mut recorder = Recorder::recording_to(&path).unwrap();
    let lane = recorder.lane("MainThread");
    let (host, cpu, cuda) =
        (recorder.pool("host", true), recorder.pool("cpu", false), recorder.pool("cuda:0", false));
    let name = recorder.text("aten::empty");
    let op = recorder.op(name, None, None);
    let scope = recorder.scope(None, "round", ScopeKind::Operation);
    let call = recorder.enter(scope, lane, None, None).unwrap();
    for (pool, bytes) in [(cpu, 3000), (cuda, 5000)] {
        let class = ttmem::model::Class::Unknown;
        recorder.allocated(Allocation { pool, bytes, op, ty: None, class, within: Some(call) }).unwrap();
    }
    recorder.reading(host, Reading { allocated: Some(90_000), ..Reading::default() });
    recorder.exit(call);
    recorder.release(call);
    recorder.finish().unwrap();
    let profile = read::open(path.to_str().unwrap()).unwrap();
    let answer = gantt(&profile, &GanttRequest::default()).unwrap();
    let memory = answer.ranks[0].memory.iter();
    let found: Vec<_> = memory.map(|memory| (memory.pool, memory.has_tensors)).collect();
    assert_eq!(found, [("host", false), ("cpu", true), ("cuda:0", true)]);
    assert_eq!(highest_peak(&profile, &profile.ranks[0]), Some(5000));
}

proptest! {
    #[test]
    fn no_bars_lie_over_each_other_and_parents_are_above(calls in any_calls()) {
        let profile = profile(&calls, None);
        let packing = pack(&profile.ranks[0]);
        for (a, first) in calls.iter().enumerate() {
            if let Some(parent) = first.parent.filter(|parent| calls[*parent].lane == first.lane) {
                prop_assert!(packing.row[parent] < packing.row[a]);
            }
            for (b, second) in calls.iter().enumerate().skip(a + 1) {
                let end = |call: &Made| call.ended.unwrap_or(u64::MAX);
                let at_once = first.began < end(second) && second.began < end(first);
                prop_assert!(!(first.lane == second.lane && packing.row[a] == packing.row[b] && at_once));
            }
        }
    }

    /// Time is looked at nanosecond by nanosecond.
    #[test]
    fn overlaps_are_what_a_clock_would_see(calls in any_calls()) {
        let profile = profile(&calls, None);
        let last = calls.iter().map(|call| call.ended.unwrap_or(0).max(call.began)).max().unwrap_or(0);
        let mut time = 0;
        for now in 0..last {
            let runs = |call: &&Made| call.began <= now && now < call.ended.unwrap_or(last);
            let lanes: BTreeSet<usize> = calls.iter().filter(runs).map(|call| call.lane).collect();
            time += u64::from(lanes.len() > 1);
        }
        let found = overlaps(&profile.ranks[0]);
        prop_assert_eq!(found.time, time);
        prop_assert_eq!(found.sets.iter().map(|set| set.time).sum::<u64>(), time);
        prop_assert!(found.sets.is_sorted_by_key(|set| std::cmp::Reverse(set.time)));
    }

    /// The chain is of innermost calls, in order, and no longer than all time.
    #[test]
    fn a_chain_is_one_after_the_other(calls in any_calls()) {
        let profile = profile(&calls, None);
        let last = calls.iter().map(|call| call.ended.unwrap_or(0).max(call.began)).max().unwrap_or(0);
        let chain = longest_chain(&profile.ranks[0]);
        let end = |call: usize| calls[call].ended.unwrap_or(last);
        prop_assert!(chain.calls.windows(2).all(|pair| end(pair[0]) <= calls[pair[1]].began));
        prop_assert!(chain.calls.iter().all(|call| calls.iter().all(|other| other.parent != Some(*call))));
        let time: u64 = chain.calls.iter().map(|call| end(*call) - calls[*call].began).sum();
        prop_assert_eq!(time, chain.time);
        // No single innermost call is longer.
        let longest = (0..calls.len()).filter(|call| calls.iter().all(|other| other.parent != Some(*call)));
        prop_assert!(longest.map(|call| end(call) - calls[call].began).max().unwrap_or(0) <= chain.time);
    }

    /// All own times of a lane add up to the time that it is in calls, where nothing overlaps and parents outlast.
    #[test]
    fn own_times_are_never_more_than_all_time(calls in any_calls()) {
        let profile = profile(&calls, None);
        for path in hot_paths(&profile.ranks[0]) {
            prop_assert!(path.own.unwrap() <= path.total && path.longest <= path.total);
            let of_scope: Vec<&Made> = calls.iter().filter(|call| call.name == path.scope.index()).collect();
            prop_assert_eq!(path.count, of_scope.len() as u64);
        }
    }
}
