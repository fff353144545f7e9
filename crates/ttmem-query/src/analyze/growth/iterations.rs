//! The iterations of a program: its repeated runs, training steps, calls or operations.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use ttmem_model::rules::passes::Passes;
use ttmem_model::{
    CallId, Moment, OpId, OpKind, Position, Profile, Rank, Run, ScopeId, ScopeKind, Step, StrId,
};

/// The fewest iterations that can show whether memory grows.
pub const MIN_ITERATIONS: usize = 6;
/// The fewest operations that have to repeat together to be iterations.
const MIN_OPERATIONS: usize = 3;

/// What an iteration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A run of a program.
    Run(StrId),
    /// A pass through several programs.
    Pass,
    /// A step of an optimizer.
    Step(ScopeId),
    /// A call of a named part of the program.
    Call(ScopeId),
    /// From one execution of an operation to the next.
    Operation(OpId),
}

/// The iterations of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iterations {
    /// What an iteration is.
    pub unit: Unit,
    /// When each of them begins, and when the last one ends.
    moments: Vec<Moment>,
}

impl Iterations {
    fn new(unit: Unit, begins: impl Iterator<Item = Position>, end: Position) -> Option<Self> {
        let mut moments: Vec<Moment> = begins.map(Moment::late).collect();
        let is_ordered = moments.is_sorted();
        let end = moments.last().map_or(Moment::late(end), |last| Moment::late(end).max(*last));
        let is_enough = moments.len() >= MIN_ITERATIONS;
        moments.push(end);
        (is_ordered && is_enough).then_some(Self { unit, moments })
    }

    /// The number of iterations; never 0.
    pub fn count(&self) -> usize {
        self.begins().len()
    }

    /// When each iteration begins.
    pub fn begins(&self) -> &[Moment] {
        self.moments.split_last().map_or(&[], |(_, begins)| begins)
    }

    /// When each iteration begins, and when the last one ends.
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }
}

/// The possible iterations of a rank, best first. Those with fewer than [`MIN_ITERATIONS`] are left out.
pub fn candidates(profile: &Profile, rank: &Rank) -> Vec<Iterations> {
    if !rank.runs.is_empty() {
        return of_runs(rank).into_iter().collect();
    }
    if !rank.calls.is_empty() {
        return of_calls(rank);
    }
    of_operations(profile, rank).into_iter().collect()
}

/// The passes of a log with several runs. If they do not repeat often enough, the runs of the program that runs most: the
/// decode graph after a prefill graph.
fn of_runs(rank: &Rank) -> Option<Iterations> {
    let runs: Vec<&Run> = rank.top_level_runs().map(|(_, run)| run).collect();
    // What the program frees after its last run does not matter.
    let end = runs.last().filter(|run| run.finished).map_or_else(|| rank.end(), |run| run.end);
    let passes = Passes::of(rank);
    let before_last = passes.count().saturating_sub(1);
    let period = passes.last_begins()?.checked_div(before_last).unwrap_or(runs.len()).max(1);
    let unit = if period == 1 { Unit::Run(runs.first()?.program) } else { Unit::Pass };
    let of_passes = Iterations::new(unit, runs.iter().step_by(period).map(|run| run.first), end);
    of_passes.or_else(|| {
        let mut alike: BTreeMap<_, Vec<Position>> = BTreeMap::new();
        for run in &runs {
            alike.entry((run.program, run.module)).or_default().push(run.first);
        }
        let ((program, _), begins) =
            alike.into_iter().max_by_key(|(kind, begins)| (begins.len(), Reverse(*kind)))?;
        Iterations::new(Unit::Run(program), begins.into_iter(), end)
    })
}

/// The steps of an optimizer, and the calls of the scope that is called most.
fn of_calls(rank: &Rank) -> Vec<Iterations> {
    let mut calls: FxHashMap<_, Vec<CallId>> = FxHashMap::default();
    for (index, call) in rank.calls.iter().enumerate() {
        let kind = rank.scopes.kind.get(call.scope.index());
        let is_named = kind.is_some_and(|kind| *kind != ScopeKind::Framework);
        // A recording that reached its size limit contains only some of the earlier calls.
        let is_counted = rank.calls_since.is_none_or(|since| call.began >= since);
        if call.parent.is_none() && is_named && is_counted {
            calls.entry((call.scope, call.lane)).or_default().extend(CallId::new(index));
        }
    }
    let is_optimizer = |scope: ScopeId| rank.scopes.kind.get(scope.index()) == Some(&ScopeKind::Optimizer);
    let mut ordered: Vec<_> = calls.into_iter().collect();
    ordered.sort_by_key(|(key, calls)| (Reverse(calls.len()), *key));
    let steps = ordered.iter().position(|((scope, _), _)| is_optimizer(*scope));
    let most = ordered.iter().position(|((scope, _), _)| !is_optimizer(*scope));
    let end = end_of_work(rank);
    let iterations = |at: usize| {
        let ((scope, _), calls) = &ordered[at];
        let unit = if is_optimizer(*scope) { Unit::Step(*scope) } else { Unit::Call(*scope) };
        Iterations::new(unit, calls.iter().map(|call| rank.calls.first[call.index()]), end)
    };
    steps.into_iter().chain(most).filter_map(iterations).collect()
}

/// The position where the last call returned: a program that ends frees everything. The end of the rank if a call has not
/// returned.
fn end_of_work(rank: &Rank) -> Position {
    let ends = rank.calls.outcome.iter().map(|outcome| outcome.map(|outcome| outcome.end));
    ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max()).unwrap_or_else(|| rank.end())
}

/// The executions of an operation that repeats evenly, for an input without programs and calls. Of several loops, the
/// outermost has the fewest iterations.
fn of_operations(profile: &Profile, rank: &Rank) -> Option<Iterations> {
    let executions = Executions::of(rank, profile.ops.len());
    let mut by_count: BTreeMap<usize, Vec<(OpId, &[Step])>> = BTreeMap::new();
    for op in (0..profile.ops.len()).filter_map(OpId::new) {
        let steps = executions.of_op(op);
        let is_computed = steps.len() >= MIN_ITERATIONS && profile.ops.kind(op) == OpKind::Compute;
        if is_computed && is_even(steps, rank.end()) {
            by_count.entry(steps.len()).or_default().push((op, steps));
        }
    }
    let together = by_count.into_values().find(|ops| ops.len() >= MIN_OPERATIONS)?;
    let (op, steps) = together.into_iter().min_by_key(|(_, steps)| steps.first().copied())?;
    Iterations::new(Unit::Operation(op), steps.iter().copied(), rank.end())
}

/// The steps of each operation.
struct Executions {
    steps: Vec<Step>,
    /// For each operation, the end of its steps in the list of all steps.
    ends: Vec<usize>,
}

impl Executions {
    fn of(rank: &Rank, ops: usize) -> Self {
        let mut ends = vec![0_usize; ops + 1];
        for op in &rank.steps.op {
            ends[op.index() + 1] += 1;
        }
        for op in 1..ends.len() {
            ends[op] += ends[op - 1];
        }
        // The start of an operation's steps becomes their end while they are added.
        let mut steps = vec![0; rank.steps.op.len()];
        for (step, op) in (0..).zip(&rank.steps.op) {
            steps[ends[op.index()]] = step;
            ends[op.index()] += 1;
        }
        Self { steps, ends }
    }

    fn of_op(&self, op: OpId) -> &[Step] {
        let before = op.index().checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.steps[before..self.ends[op.index()]]
    }
}

/// Whether steps are spread evenly over at least half of a rank.
fn is_even(steps: &[Step], end: Position) -> bool {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return false };
    if last - first < end / 2 {
        return false;
    }
    let mut gaps: Vec<Step> = steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let Some(longest) = gaps.iter().max().copied() else { return false };
    let middle = gaps.len() / 2;
    let (_, median, _) = gaps.select_nth_unstable(middle);
    longest <= median.saturating_mul(3)
}
