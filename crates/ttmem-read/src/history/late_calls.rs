//! Inserts calls that were only reported after they ended, ordered by start time, inside the call that was running at
//! the time.

use rustc_hash::FxHashMap;
use ttmem_model::{
    Call, CallEnd, CallId, Calls, During, FromStep, LaneId, Nanoseconds, Outcome, Position, Rank, Scope,
    ScopeId, ScopeKind, StrId,
};

/// Orders the calls of a rank if some were reported late. These are framework operations.
pub(super) fn order_calls(rank: &mut Rank) {
    let is_late = |scope: &ScopeId| rank.scopes.kind.get(scope.index()) == Some(&ScopeKind::Framework);
    if !rank.calls.scope.iter().any(is_late) {
        return;
    }
    reorder(rank);
    put_inside(rank);
}

/// Orders the calls of a rank by start time.
pub(super) fn reorder(rank: &mut Rank) {
    let order = in_order(rank);
    let mut now = vec![None; order.len()];
    for (index, &before) in order.iter().enumerate() {
        now[before] = CallId::new(index);
    }
    let moved = |call: CallId| now.get(call.index()).copied().flatten();
    let mut calls = Calls::default();
    for row in order.iter().filter_map(|&before| rank.calls.get(before)) {
        calls.push(Call { parent: row.parent.and_then(moved), ..row });
    }
    rank.calls = calls;
    rank.seen = std::mem::take(&mut rank.seen)
        .into_iter()
        .filter_map(|(call, seen)| Some((moved(call)?, seen)))
        .collect();
    let mut within = FromStep::default();
    rank.within.iter().for_each(|(step, call)| within.set(step, call.and_then(moved)));
    rank.within = within;
    for during in rank.history.during_mut() {
        if let During::Call(call) = *during {
            *during = moved(call).map_or(During::ByTime, During::Call);
        }
    }
}

/// The rows ordered by start time; at equal times in their original order, outer calls first.
fn in_order(rank: &Rank) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank.calls.len()).collect();
    order.sort_by_key(|&row| rank.calls.began[row]);
    order
}

/// Finds the enclosing calls of operations that have none, and the resulting scopes.
fn put_inside(rank: &mut Rank) {
    let mut scopes = Inner::of(rank);
    let mut open = OpenByLane::default();
    for index in 0..rank.calls.len() {
        let (Some(id), Some(row)) = (CallId::new(index), rank.calls.get(index)) else { break };
        let Some(scope) = rank.scopes.get(row.scope.index()) else { continue };
        if scope.kind != ScopeKind::Framework {
            let ended = match rank.call_end(index) {
                CallEnd::At(ended) => ended,
                CallEnd::Open | CallEnd::Unknown => Nanoseconds::MAX,
            };
            open.push(row.lane, scope.kind, id, ended);
            continue;
        }
        // The recorded parent can only be an operation; a call that began after that operation is the closer parent.
        let parent = row.parent.max(open.around(row.lane, row.began));
        let outer = parent.and_then(|parent| rank.calls.scope.get(parent.index()).copied());
        rank.calls.parent[index] = parent;
        rank.calls.first[index] = steps_before(rank, row.began);
        if let Some(outcome) = row.outcome {
            let end = steps_before(rank, outcome.ended);
            rank.calls.outcome[index] = Some(Outcome { end, ..outcome });
        }
        rank.calls.scope[index] = scopes.find(rank, outer, scope.name, row.scope);
    }
}

/// The running calls of each thread, and the running backward passes, which autograd engine threads work for.
#[derive(Default)]
struct OpenByLane {
    lanes: FxHashMap<LaneId, Vec<(CallId, Nanoseconds)>>,
    backward: Vec<(CallId, Nanoseconds)>,
}

impl OpenByLane {
    fn push(&mut self, lane: LaneId, kind: ScopeKind, call: CallId, ended: Nanoseconds) {
        self.lanes.entry(lane).or_default().push((call, ended));
        if kind == ScopeKind::Backward {
            self.backward.push((call, ended));
        }
    }

    /// The innermost call of a thread at a time. For a thread without calls, the backward pass.
    fn around(&mut self, lane: LaneId, now: Nanoseconds) -> Option<CallId> {
        let open = self.lanes.get_mut(&lane).unwrap_or(&mut self.backward);
        while open.last().is_some_and(|(_, ended)| *ended < now) {
            open.pop();
        }
        open.last().map(|(call, _)| *call)
    }
}

/// The number of steps before a time. When the call was reported, there may have been more.
pub(super) fn steps_before(rank: &Rank, time: Nanoseconds) -> Position {
    let entry = rank.times.value.partition_point(|&step| step < time);
    rank.times.step.get(entry).copied().unwrap_or(rank.end())
}

/// The scopes of operations, by their enclosing scope.
struct Inner(FxHashMap<(Option<ScopeId>, StrId), ScopeId>);

impl Inner {
    fn of(rank: &Rank) -> Self {
        let of = |(index, scope): (usize, Scope)| Some(((scope.parent, scope.name), ScopeId::new(index)?));
        let inner = rank.scopes.iter().enumerate().filter(|(_, scope)| scope.kind == ScopeKind::Framework);
        Self(inner.filter_map(of).collect())
    }

    fn find(&mut self, rank: &mut Rank, outer: Option<ScopeId>, name: StrId, otherwise: ScopeId) -> ScopeId {
        if let Some(known) = self.0.get(&(outer, name)) {
            return *known;
        }
        let Some(new) = ScopeId::new(rank.scopes.len()) else { return otherwise };
        rank.scopes.push(Scope { name, parent: outer, kind: ScopeKind::Framework });
        self.0.insert((outer, name), new);
        new
    }
}
