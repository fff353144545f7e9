//! Calls that were learned of when they were over get their place: among the others in the order that they began, and
//! inside of the call that ran then.

use rustc_hash::FxHashMap;
use ttmem_model::{
    Call, CallEnd, CallId, Calls, During, FromStep, LaneId, Nanoseconds, Outcome, Position, Rank, Scope,
    ScopeId, ScopeKind, StrId,
};

/// Puts the calls of a rank in order, if there are any that came late. They are operations of the framework.
pub(super) fn order_calls(rank: &mut Rank) {
    let is_late = |scope: &ScopeId| rank.scopes.kind.get(scope.index()) == Some(&ScopeKind::Framework);
    if !rank.calls.scope.iter().any(is_late) {
        return;
    }
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
    for during in &mut rank.history.during {
        if let During::Call(call) = *during {
            *during = moved(call).map_or(During::ByTime, During::Call);
        }
    }
    put_inside(rank);
}

/// The rows in the order that they began; of one time, as they were told: outer ones first.
fn in_order(rank: &Rank) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank.calls.len()).collect();
    order.sort_by_key(|&row| rank.calls.began[row]);
    order
}

/// Finds what operations were inside of that nobody has said it of, and the scopes that follow from it.
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
        // Who said what it was inside of knows only operations: a call that began later is inside of that.
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

/// The calls that run on each thread; and the backward passes, which threads of the engine work for.
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

    /// The innermost call on a thread at a time. On one that has no calls of its own, the backward pass.
    fn around(&mut self, lane: LaneId, now: Nanoseconds) -> Option<CallId> {
        let open = self.lanes.get_mut(&lane).unwrap_or(&mut self.backward);
        while open.last().is_some_and(|(_, ended)| *ended < now) {
            open.pop();
        }
        open.last().map(|(call, _)| *call)
    }
}

/// How many steps were seen before a time: when it was told of a call, there may have been more.
fn steps_before(rank: &Rank, time: Nanoseconds) -> Position {
    let entry = rank.times.value.partition_point(|&step| step < time);
    rank.times.step.get(entry).copied().unwrap_or(rank.end())
}

/// The scopes of operations, by what they are inside of.
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
