//! Where the time goes: scopes by how often they run, times how long.
//!
//! A scope that only waits for what is inside of it is no hot path. So what counts is a call's own time: its length less
//! that of the calls inside of it on the same lane. (What it began on other lanes ran beside it.)

use ttmem_model::{CallId, Nanoseconds, Rank, ScopeId};

use super::clock::Stretch;

/// What all calls of a scope came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotPath {
    /// The scope.
    pub scope: ScopeId,
    /// How often it was called.
    pub count: u64,
    /// Of how many calls it is known how long they took.
    pub timed: u64,
    /// How long those took together, with what is inside of them.
    pub total: Nanoseconds,
    /// The same without what is inside; `None` where calls are not kept one by one.
    pub own: Option<Nanoseconds>,
    /// The longest.
    pub longest: Nanoseconds,
    /// Which call that was; the first, where no length is known; `None` where it is not kept.
    pub longest_call: Option<usize>,
    /// What the calls allocated less what they gave back; `None` where that is not known of all of them.
    pub change: Option<i64>,
}

impl HotPath {
    /// What scopes are sorted by: how often, times how long on average, which is how long together.
    pub fn heat(&self) -> Nanoseconds {
        self.own.unwrap_or(self.total)
    }
}

/// All scopes that were called, the hottest first.
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

/// How long each call took without the calls inside of it; 0 where its length is not known.
fn own_times(rank: &Rank, stretch: Stretch) -> Vec<Nanoseconds> {
    let calls = &rank.calls;
    let until = |call: usize| stretch.until(rank, call).unwrap_or(calls.began[call]);
    let mut own: Vec<Nanoseconds> =
        (0..calls.len()).map(|call| until(call).saturating_sub(calls.began[call])).collect();
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|&call| calls.began[call]);
    // Until when each call is covered by calls inside of it: tasks may overlap, and count once.
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
