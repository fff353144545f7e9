//! Hot paths: scopes sorted by the total time of their calls.
//!
//! A scope that only waits for nested calls is not a hot path. Scopes are therefore ranked by own time: the duration of
//! a call minus that of the calls nested in it on the same lane. Calls on other lanes run in parallel and are not
//! subtracted.

use ttmem_model::{CallId, Nanoseconds, Rank, ScopeId};

use super::clock::Stretch;

/// The totals of all calls of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotPath {
    /// The scope.
    pub scope: ScopeId,
    /// The number of calls.
    pub count: u64,
    /// The number of calls whose duration is known.
    pub timed: u64,
    /// The total duration of these calls, including nested calls.
    pub total: Nanoseconds,
    /// The total duration without nested calls; `None` if the individual calls were not kept.
    pub own: Option<Nanoseconds>,
    /// The duration of the longest call.
    pub longest: Nanoseconds,
    /// The longest call, or the first if no duration is known; `None` if the call was not kept.
    pub longest_call: Option<usize>,
    /// Bytes allocated minus bytes freed; `None` if unknown for one of the calls.
    pub change: Option<i64>,
}

impl HotPath {
    /// The sort key: the own time if known, otherwise the total time.
    pub fn heat(&self) -> Nanoseconds {
        self.own.unwrap_or(self.total)
    }
}

/// All scopes that were called, hottest first.
pub fn hot_paths(rank: &Rank) -> Vec<HotPath> {
    let Some(stretch) = Stretch::of(rank) else { return Vec::new() };
    let own = own_times(rank, stretch);
    let empty = |scope| HotPath {
        scope,
        count: 0,
        timed: 0,
        total: 0,
        own: Some(0),
        longest: 0,
        longest_call: None,
        change: Some(0),
    };
    let mut paths: Vec<HotPath> = (0..rank.scopes.len()).filter_map(ScopeId::new).map(empty).collect();
    for (call, scope) in rank.calls.scope.iter().enumerate() {
        let Some(path) = paths.get_mut(scope.index()) else { continue };
        path.count += 1;
        path.change =
            path.change.and_then(|sum| rank.call_change(call).map(|change| sum.saturating_add(change)));
        path.longest_call = path.longest_call.or(Some(call));
        let Some(until) = stretch.until(rank, call) else { continue };
        let took = until.saturating_sub(rank.calls.began[call]);
        path.timed += 1;
        path.total = path.total.saturating_add(took);
        path.own = path.own.map(|sum| sum.saturating_add(own[call]));
        if path.timed == 1 || took > path.longest {
            (path.longest, path.longest_call) = (took, Some(call));
        }
    }
    for (scope, totals) in &rank.further_calls {
        let Some(path) = paths.get_mut(scope.index()) else { continue };
        path.count = path.count.saturating_add(totals.count);
        path.timed = path.timed.saturating_add(totals.count);
        path.total = path.total.saturating_add(totals.time);
        path.own = None;
        path.change = path.change.map(|sum| sum.saturating_add(totals.change()));
        if totals.longest > path.longest {
            (path.longest, path.longest_call) = (totals.longest, None);
        }
    }
    paths.retain(|path| path.count > 0);
    paths.sort_by_key(|path| std::cmp::Reverse((path.heat(), path.count)));
    paths
}

/// The duration of each call without nested calls; 0 if unknown.
fn own_times(rank: &Rank, stretch: Stretch) -> Vec<Nanoseconds> {
    let calls = &rank.calls;
    let until = |call: usize| stretch.until(rank, call).unwrap_or(calls.began[call]);
    let mut own: Vec<Nanoseconds> =
        (0..calls.len()).map(|call| until(call).saturating_sub(calls.began[call])).collect();
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|&call| calls.began[call]);
    // The end of the part of each call that nested calls cover. Nested calls may overlap, and count once.
    let mut covered: Vec<Nanoseconds> = calls.began.clone();
    for call in order {
        let Some(parent) = calls.parent[call].map(CallId::index) else { continue };
        if calls.lane.get(parent) != Some(&calls.lane[call]) {
            continue;
        }
        let from = calls.began[call].max(covered[parent]);
        let to = until(call).min(until(parent));
        own[parent] = own[parent].saturating_sub(to.saturating_sub(from));
        covered[parent] = covered[parent].max(to);
    }
    own
}
