//! Overlaps: scopes that ran at the same time on different lanes, and for how long.
//!
//! The current call of a lane is the running call that began last. Whenever two or more lanes have a current call, the
//! scopes of these calls form a set; intervals with the same set are added up. The number of overlaps is therefore the
//! number of different sets, however many calls there are, and only calls that overlap are compared.

use std::collections::{BTreeSet, BinaryHeap};

use rustc_hash::FxHashMap;
use ttmem_model::{Nanoseconds, Rank, ScopeId};
use xxhash_rust::xxh3::xxh3_64;

use super::clock::Stretch;

/// Maximum number of different sets to list. The others only count towards the total time.
const MAX_SETS: usize = 1 << 16;
/// Maximum number of calls to name in a set.
pub const MAX_NAMED: usize = 8;

/// Scopes that ran at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The number of lanes.
    pub lanes: usize,
    /// The total duration of all intervals.
    pub time: Nanoseconds,
    /// The number of intervals.
    pub count: u64,
    /// The start and end of the longest interval.
    pub longest: (Nanoseconds, Nanoseconds),
    /// The calls that ran in the longest interval, one per lane; at most [`MAX_NAMED`].
    pub calls: Vec<usize>,
}

/// The overlaps of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlaps {
    /// The sets of scopes, longest first.
    pub sets: Vec<Overlap>,
    /// The total time during which two or more lanes had a running call.
    pub time: Nanoseconds,
}

/// The overlaps of a rank.
pub fn overlaps(rank: &Rank) -> Overlaps {
    let Some(stretch) = Stretch::of(rank) else { return Overlaps::default() };
    // Ends come before starts of the same time: consecutive calls do not overlap.
    let mut changes: Vec<(Nanoseconds, bool, usize)> = Vec::with_capacity(rank.calls.len() * 2);
    for call in 0..rank.calls.len() {
        let (began, Some(until)) = (rank.calls.began[call], stretch.until(rank, call)) else { continue };
        if until > began {
            changes.extend([(began, true, call), (until, false, call)]);
        }
    }
    changes.sort_unstable();
    let mut sweep = Sweep::new(rank);
    for now in changes.chunk_by(|a, b| a.0 == b.0) {
        sweep.at(now);
    }
    sweep.finish()
}

/// A sweep through time.
struct Sweep<'a> {
    rank: &'a Rank,
    lanes: Vec<Lane>,
    runs: Vec<bool>,
    /// The lanes that have a running call.
    busy: BTreeSet<usize>,
    /// A sum of hashes that identifies the set of their scopes.
    mark: u64,
    since: Nanoseconds,
    sets: FxHashMap<(u64, usize), Overlap>,
    time: Nanoseconds,
}

#[derive(Clone, Default)]
struct Lane {
    /// The running calls, with the one that began last on top, and some calls that have ended.
    calls: BinaryHeap<(Nanoseconds, usize)>,
    current: Option<usize>,
}

impl<'a> Sweep<'a> {
    fn new(rank: &'a Rank) -> Self {
        Self {
            rank,
            lanes: vec![Lane::default(); rank.lanes.len()],
            runs: vec![false; rank.calls.len()],
            busy: BTreeSet::new(),
            mark: 0,
            since: 0,
            sets: FxHashMap::default(),
            time: 0,
        }
    }

    /// Applies all changes of one time.
    fn at(&mut self, changes: &[(Nanoseconds, bool, usize)]) {
        let Some(&(time, ..)) = changes.first() else { return };
        let mut touched: Vec<usize> = Vec::with_capacity(changes.len());
        for &(_, begins, call) in changes {
            let lane = self.rank.calls.lane[call].index();
            self.runs[call] = begins;
            if begins && let Some(lane) = self.lanes.get_mut(lane) {
                lane.calls.push((time, call));
            }
            touched.push(lane);
        }
        touched.sort_unstable();
        touched.dedup();
        let next: Vec<(usize, Option<usize>)> =
            touched.into_iter().map(|lane| (lane, self.innermost(lane))).collect();
        let mark = next.iter().fold(self.mark, |mark, &(lane, call)| {
            let before = self.lanes.get(lane).and_then(|lane| lane.current);
            mark.wrapping_sub(self.mark_of(before)).wrapping_add(self.mark_of(call))
        });
        if mark != self.mark {
            self.close(time);
            (self.mark, self.since) = (mark, time);
        }
        for (lane, call) in next {
            let Some(known) = self.lanes.get_mut(lane) else { continue };
            known.current = call;
            if call.is_some() {
                self.busy.insert(lane);
            } else {
                self.busy.remove(&lane);
            }
        }
    }

    /// The current call of a lane.
    fn innermost(&mut self, lane: usize) -> Option<usize> {
        let calls = &mut self.lanes.get_mut(lane)?.calls;
        while let Some(&(_, call)) = calls.peek() {
            if self.runs[call] {
                return Some(call);
            }
            calls.pop();
        }
        None
    }

    /// The contribution of a call's scope to the sum.
    fn mark_of(&self, call: Option<usize>) -> u64 {
        // Sums must differ for different sets, so the hash must not be nearly linear.
        let hash = |scope: ScopeId| xxh3_64(&scope.index().to_le_bytes());
        call.map_or(0, |call| hash(self.rank.calls.scope[call]))
    }

    /// Ends the current interval.
    fn close(&mut self, now: Nanoseconds) {
        let (from, lasted) = (self.since, now.saturating_sub(self.since));
        if self.busy.len() < 2 || lasted == 0 {
            return;
        }
        self.time = self.time.saturating_add(lasted);
        let key = (self.mark, self.busy.len());
        if self.sets.len() >= MAX_SETS && !self.sets.contains_key(&key) {
            return;
        }
        let set = self.sets.entry(key).or_insert(Overlap {
            lanes: self.busy.len(),
            time: 0,
            count: 0,
            longest: (from, from),
            calls: Vec::new(),
        });
        set.time = set.time.saturating_add(lasted);
        set.count += 1;
        if lasted > set.longest.1 - set.longest.0 {
            set.longest = (from, now);
            set.calls =
                self.busy.iter().take(MAX_NAMED).filter_map(|lane| self.lanes[*lane].current).collect();
        }
    }

    fn finish(self) -> Overlaps {
        let mut sets: Vec<Overlap> = self.sets.into_values().collect();
        sets.sort_by_key(|set| (std::cmp::Reverse(set.time), set.longest.0));
        Overlaps { sets, time: self.time }
    }
}
