//! Iterations that were recorded without details.
//!
//! The live tracker records some iterations of a program (a training step, a generated token) completely: the modules
//! that run, and the stack of each allocation. It records further iterations that allocate in the same order without
//! modules and stacks, which costs the program much less. Here these iterations get the details of the complete one
//! that they repeat. Sizes may differ: a KV cache grows with every token.
//!
//! An iteration lasts from the start of a model's forward pass to the start of the next one.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHasher};
use ttmem_model::{
    Call, CallEnd, CallId, Calls, During, History, HistoryAction, LaneId, Nanoseconds, OpId, Outcome, PoolId,
    Rank, ScopeId, ScopeKind,
};

use super::late_calls::{reorder, steps_before};

/// The number of different complete iterations of a model that an iteration is compared with.
const MAX_PATTERNS: usize = 16;

/// What is known about iterations without details.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// Allocations without details, and the ones that they repeat, by their numbers in a pool.
    pub repeated: Vec<Repeated>,
    /// The number of iterations without details.
    pub bare: u64,
    /// The number of those with allocations of a pass that no other one has.
    pub unlike: u64,
}

/// An allocation without details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    pub pool: PoolId,
    pub allocation: u32,
    pub like: u32,
    /// Whether the whole iteration is repeated.
    pub is_whole: bool,
}

/// Completes the rows and calls of iterations without details. `has_stack` returns whether an operation has a stack.
pub(super) fn complete(rank: &mut Rank, has_stack: impl Fn(OpId) -> bool) -> Learned {
    let models = model_calls(rank);
    if models.len() < 2 || rank.history.is_empty() {
        return Learned::default();
    }
    let mut learned = Learned::default();
    let mut rows: FxHashMap<usize, (OpId, During)> = FxHashMap::default();
    let mut calls = Calls::default();
    for pool in (0..rank.pools.len()).filter_map(PoolId::new) {
        let timeline = Timeline::of(rank, pool, &models, &has_stack);
        let full = timeline.iterations.iter().filter(|iteration| iteration.is_full).count();
        if full == 0 || full == timeline.iterations.len() {
            continue;
        }
        Completing { rank, timeline: &timeline, learned: &mut learned, rows: &mut rows, calls: &mut calls }
            .all();
    }
    if rows.is_empty() {
        return learned;
    }
    rank.history = with_details(std::mem::take(&mut rank.history), &rows);
    calls.iter().for_each(|call| rank.calls.push(call));
    reorder(rank);
    learned
}

fn with_details(history: History, rows: &FxHashMap<usize, (OpId, During)>) -> History {
    let (mut completed, mut index) = (History::default(), 0);
    history.consume(|row| {
        let mut row = *row;
        if let Some(&(op, during)) = rows.get(&index) {
            (row.op, row.during) = (op, during);
        }
        completed.push(row);
        index += 1;
    });
    completed
}

/// The outermost forward passes, in order.
fn model_calls(rank: &Rank) -> Vec<CallId> {
    let is_model = |call: &CallId| {
        kind_of(rank, *call) == Some(ScopeKind::Forward)
            && !rank.calls.parent[call.index()].is_some_and(|parent| is_pass(rank, parent))
    };
    (0..rank.calls.len()).filter_map(CallId::new).filter(is_model).collect()
}

fn kind_of(rank: &Rank, call: CallId) -> Option<ScopeKind> {
    let scope = rank.calls.scope.get(call.index())?;
    rank.scopes.kind.get(scope.index()).copied()
}

/// Whether a call is a forward or backward pass.
fn is_pass(rank: &Rank, call: CallId) -> bool {
    matches!(kind_of(rank, call), Some(ScopeKind::Forward | ScopeKind::Backward))
}

/// Whether a call is part of a pass. Only complete iterations have such calls.
fn is_part(rank: &Rank, call: CallId) -> bool {
    let parent = rank.calls.parent.get(call.index()).copied().flatten();
    is_pass(rank, call) && parent.is_some_and(|parent| is_pass(rank, parent))
}

/// An allocation of a pool.
#[derive(Clone, Copy, Debug)]
struct Allocation {
    /// The index of its row.
    row: usize,
    bytes: u64,
    op: OpId,
    during: During,
    time: Nanoseconds,
}

/// An allocation or a free.
#[derive(Clone, Copy, Debug)]
struct Event {
    action: Action,
    during: During,
    time: Nanoseconds,
}

/// Whether a row is an allocation or a free.
fn is_event(action: HistoryAction) -> bool {
    matches!(action, HistoryAction::Allocated | HistoryAction::Freed | HistoryAction::FreeRequested)
}

/// What an event does, independent of addresses and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Allocates,
    /// Frees an allocation of the iteration, by its number.
    FreesOwn(usize),
    /// Frees an allocation of another iteration.
    FreesOther,
}

/// An iteration: from the start of a model's forward pass to the start of the next one.
#[derive(Debug)]
struct Iteration {
    model: CallId,
    scope: ScopeId,
    /// Its allocations.
    allocations: Range<usize>,
    /// Its allocations and frees.
    events: Range<usize>,
    /// A hash of the order of its allocations and frees.
    order: u64,
    /// Whether stacks were recorded.
    is_full: bool,
}

/// The allocations of a pool, and the iterations that they belong to.
#[derive(Debug)]
struct Timeline {
    pool: PoolId,
    allocations: Vec<Allocation>,
    /// Allocations and frees.
    events: Vec<Event>,
    iterations: Vec<Iteration>,
}

impl Timeline {
    fn of(rank: &Rank, pool: PoolId, models: &[CallId], has_stack: &impl Fn(OpId) -> bool) -> Self {
        let (allocations, events, iterations) = (Vec::new(), Vec::new(), Vec::new());
        let mut timeline = Self { pool, allocations, events, iterations };
        let mut order = FxHasher::default();
        // Where an address was allocated: the number of iterations at that time, and the number in its iteration.
        let mut places: FxHashMap<u64, (usize, usize)> = FxHashMap::default();
        let mut later = models.iter().copied().peekable();
        // Other rows may be out of order: a peak is reported when it is read, which is before the history is.
        let rows = rank.history.iter().enumerate();
        for (index, row) in rows.filter(|(_, row)| row.pool == pool && is_event(row.action)) {
            while let Some(model) =
                later.next_if(|model| timeline.has_begun(rank, *model, row.time, row.during))
            {
                timeline.begin(rank, model, std::mem::take(&mut order).finish());
            }
            let first = timeline.iterations.last().map_or(0, |iteration| iteration.allocations.start);
            let (iteration, number) = (timeline.iterations.len(), timeline.allocations.len() - first);
            let action = match row.action {
                HistoryAction::Allocated => {
                    places.insert(row.address, (iteration, number));
                    let (bytes, op, during, time) = (row.bytes, row.op, row.during, row.time);
                    timeline.allocations.push(Allocation { row: index, bytes, op, during, time });
                    if let Some(iteration) = timeline.iterations.last_mut() {
                        iteration.is_full |= has_stack(op);
                    }
                    Action::Allocates
                }
                _ => {
                    let own = places.remove(&row.address).filter(|(of, _)| *of == iteration);
                    own.map_or(Action::FreesOther, |(_, number)| Action::FreesOwn(number))
                }
            };
            action.hash(&mut order);
            timeline.events.push(Event { action, during: row.during, time: row.time });
        }
        timeline.end(order.finish());
        timeline
    }

    /// Whether a model's forward pass has begun before a row. Clocks may put the first rows of a pass before it.
    fn has_begun(&self, rank: &Rank, model: CallId, time: Nanoseconds, during: During) -> bool {
        let is_of_last = self.iterations.last().is_some_and(|last| during == During::Call(last.model));
        during == During::Call(model) || time >= rank.calls.began[model.index()] && !is_of_last
    }

    fn begin(&mut self, rank: &Rank, model: CallId, order: u64) {
        self.end(order);
        let (allocations, events) = (self.allocations.len(), self.events.len());
        self.iterations.push(Iteration {
            model,
            scope: rank.calls.scope[model.index()],
            allocations: allocations..allocations,
            events: events..events,
            order: 0,
            is_full: false,
        });
    }

    fn end(&mut self, order: u64) {
        if let Some(last) = self.iterations.last_mut() {
            (last.allocations.end, last.events.end) = (self.allocations.len(), self.events.len());
            last.order = order;
        }
    }

    /// The number of allocations before two iterations do something different.
    fn common_allocations(&self, one: &Iteration, other: &Iteration) -> usize {
        let [one, other] = [one, other].map(|iteration| &self.events[iteration.events.clone()]);
        let common = one.iter().zip(other).take_while(|(one, other)| one.action == other.action);
        common.filter(|(event, _)| event.action == Action::Allocates).count()
    }

    fn of_iteration(&self, iteration: &Iteration) -> &[Allocation] {
        &self.allocations[iteration.allocations.clone()]
    }
}

/// Completes the iterations of a pool.
struct Completing<'a> {
    rank: &'a Rank,
    timeline: &'a Timeline,
    learned: &'a mut Learned,
    rows: &'a mut FxHashMap<usize, (OpId, During)>,
    calls: &'a mut Calls,
}

impl Completing<'_> {
    fn all(&mut self) {
        let timeline = self.timeline;
        let mut patterns: FxHashMap<ScopeId, Vec<Pattern<'_>>> = FxHashMap::default();
        for (index, iteration) in timeline.iterations.iter().enumerate().filter(|(_, one)| one.is_full) {
            let known = patterns.entry(iteration.scope).or_default();
            // The last of equal iterations: the first ones of a program may differ in their details.
            known.retain(|pattern| pattern.iteration.order != iteration.order);
            known.truncate(MAX_PATTERNS - 1);
            known.insert(0, Pattern::of(self.rank, timeline, index));
        }
        for (index, iteration) in timeline.iterations.iter().enumerate().filter(|(_, one)| !one.is_full) {
            if iteration.allocations.is_empty() {
                continue;
            }
            let known = patterns.get(&iteration.scope).map_or(&[][..], Vec::as_slice);
            let found = best(timeline, iteration, known);
            self.learned.bare += 1;
            let count = found.map_or(0, |(_, count)| count);
            self.learned.unlike += u64::from(self.lacks_parts(index, count));
            if let Some((pattern, count)) = found {
                self.repeat(index, pattern, count);
            }
        }
    }

    /// Whether allocations of a pass remain without details after the first ones.
    fn lacks_parts(&self, index: usize, count: usize) -> bool {
        let rest = &self.timeline.of_iteration(&self.timeline.iterations[index])[count..];
        let recorded = recorded_calls(self.rank, self.timeline, index);
        let passes = recorded.values().flatten().filter(|call| is_pass(self.rank, **call));
        let spans: Vec<_> = passes.map(|call| self.span(*call)).collect();
        let is_inside = |one: &Allocation| spans.iter().any(|(from, to)| (*from..=*to).contains(&one.time));
        rest.iter().any(is_inside)
    }

    /// Gives the first allocations of an iteration the details of another one.
    fn repeat(&mut self, index: usize, pattern: &Pattern<'_>, count: usize) {
        let timeline = self.timeline;
        let iteration = &timeline.iterations[index];
        let (own, like) = (timeline.of_iteration(iteration), timeline.of_iteration(pattern.iteration));
        let calls = self.copy_calls(index, pattern, count);
        for (number, (own, like)) in own.iter().zip(like).take(count).enumerate() {
            let call =
                pattern.call_of.get(number).copied().flatten().and_then(|call| calls.get(call).copied());
            let during = call.flatten().map_or(own.during, During::Call);
            self.rows.insert(own.row, (like.op, during));
            let number_in = |range: &Range<usize>| u32::try_from(range.start + number).unwrap_or(u32::MAX);
            self.learned.repeated.push(Repeated {
                pool: timeline.pool,
                allocation: number_in(&iteration.allocations),
                like: number_in(&pattern.iteration.allocations),
                is_whole: iteration.order == pattern.iteration.order,
            });
        }
    }

    /// Adds the calls of a pattern to an iteration. Returns their ids; `None` for calls without allocations.
    fn copy_calls(&mut self, index: usize, pattern: &Pattern<'_>, count: usize) -> Vec<Option<CallId>> {
        let iteration = &self.timeline.iterations[index];
        let own = self.timeline.of_iteration(iteration);
        // If memory is freed in another order, calls end with their last allocation.
        let events = &self.timeline.events[iteration.events.clone()];
        let events = if iteration.order == pattern.iteration.order { events } else { &[] };
        let recorded = recorded_calls(self.rank, self.timeline, index);
        let mut copies: Vec<Option<CallId>> = Vec::with_capacity(pattern.calls.len());
        for part in &pattern.calls {
            if part.first >= count {
                copies.push(None);
                continue;
            }
            let parent = match part.parent {
                Parent::Part(parent) => copies.get(parent).copied().flatten(),
                Parent::Recorded(scope, nth) => {
                    recorded.get(&scope).and_then(|calls| calls.get(nth).copied())
                }
            };
            let (earliest, latest) = parent.map_or((0, Nanoseconds::MAX), |parent| self.span(parent));
            let within = |time: Nanoseconds| time.clamp(earliest, latest.max(earliest));
            let last = own[part.last.min(count - 1)].time;
            let last = events.get(part.last_event).map_or(last, |event| last.max(event.time));
            let (began, ended) = (within(own[part.first].time), within(last));
            let end = steps_before(self.rank, ended);
            self.calls.push(Call {
                scope: part.scope,
                lane: part.lane,
                parent,
                op: None,
                began,
                first: steps_before(self.rank, began),
                outcome: Some(Outcome { ended: ended.max(began), end, ..Outcome::default() }),
            });
            copies.push(CallId::new(self.rank.calls.len() + self.calls.len() - 1));
        }
        copies
    }

    /// The start and the end of a call, which may be a new one.
    fn span(&self, call: CallId) -> (Nanoseconds, Nanoseconds) {
        if let Some(new) = call.index().checked_sub(self.rank.calls.len()) {
            let ended = self.calls.outcome[new].map_or(Nanoseconds::MAX, |outcome| outcome.ended);
            return (self.calls.began[new], ended);
        }
        let ended = match self.rank.call_end(call.index()) {
            CallEnd::At(ended) => ended,
            CallEnd::Open | CallEnd::Unknown => Nanoseconds::MAX,
        };
        (self.rank.calls.began[call.index()], ended)
    }
}

/// The calls that are recorded in every iteration, by scope.
fn recorded_calls(rank: &Rank, timeline: &Timeline, index: usize) -> FxHashMap<ScopeId, Vec<CallId>> {
    let mut found: FxHashMap<ScopeId, Vec<CallId>> = FxHashMap::default();
    let first = timeline.iterations[index].model.index();
    let end = timeline.iterations.get(index + 1).map_or(rank.calls.len(), |next| next.model.index());
    for call in (first..end).filter_map(CallId::new).filter(|call| !is_part(rank, *call)) {
        found.entry(rank.calls.scope[call.index()]).or_default().push(call);
    }
    found
}

/// The complete iteration that an iteration repeats, and the number of allocations that it has in common with it.
fn best<'p, 'a>(
    timeline: &Timeline,
    iteration: &Iteration,
    known: &'p [Pattern<'a>],
) -> Option<(&'p Pattern<'a>, usize)> {
    let own = timeline.of_iteration(iteration);
    if let Some(same) = known.iter().find(|pattern| pattern.iteration.order == iteration.order) {
        return Some((same, own.len()));
    }
    let common = |pattern: &'p Pattern<'a>| {
        let like = timeline.of_iteration(pattern.iteration);
        let is_same = |(a, b): &(&Allocation, &Allocation)| a.bytes == b.bytes;
        let same = own.iter().zip(like).filter(is_same).count();
        // Memory may be freed in another order: a garbage collector decides when.
        let is_whole = own.len() == like.len() && same * 10 >= own.len() * 9;
        if is_whole {
            return (pattern, own.len());
        }
        let first = own.iter().zip(like).take_while(is_same).count();
        // Actions may be the same by chance, so half of the sizes have to be the same as well.
        let first_actions = timeline.common_allocations(iteration, pattern.iteration);
        let same = own.iter().zip(like).take(first_actions).filter(is_same).count();
        (pattern, if same * 2 >= first_actions { first.max(first_actions) } else { first })
    };
    known.iter().map(common).max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 0)
}

/// A complete iteration, with its calls.
struct Pattern<'a> {
    iteration: &'a Iteration,
    /// The parts of its passes that allocate, outer ones first.
    calls: Vec<Part>,
    /// For each allocation, the part that it belongs to.
    call_of: Vec<Option<usize>>,
}

/// A part of a pass.
#[derive(Clone, Copy, Debug)]
struct Part {
    scope: ScopeId,
    lane: LaneId,
    parent: Parent,
    /// The first and the last allocation.
    first: usize,
    last: usize,
    /// The last allocation or free.
    last_event: usize,
}

#[derive(Clone, Copy, Debug)]
enum Parent {
    Part(usize),
    /// The n-th call of a scope in the iteration.
    Recorded(ScopeId, usize),
}

impl<'a> Pattern<'a> {
    fn of(rank: &Rank, timeline: &'a Timeline, index: usize) -> Self {
        let iteration = &timeline.iterations[index];
        let recorded = recorded_calls(rank, timeline, index);
        let mut pattern = Self { iteration, calls: Vec::new(), call_of: Vec::new() };
        let mut known: FxHashMap<CallId, usize> = FxHashMap::default();
        for (number, allocation) in timeline.of_iteration(iteration).iter().enumerate() {
            let part = match allocation.during {
                During::Call(call) => pattern.part(rank, call, number, &recorded, &mut known),
                During::NoCall | During::ByTime => None,
            };
            pattern.call_of.push(part);
        }
        for (number, event) in timeline.events[iteration.events.clone()].iter().enumerate() {
            let During::Call(call) = event.during else { continue };
            for call in parts_around(rank, call) {
                if let Some(&place) = known.get(&call) {
                    pattern.calls[place].last_event = number;
                }
            }
        }
        pattern
    }

    /// The part of a call, which lasts at least until this allocation; `None` if the call is not part of a pass.
    fn part(
        &mut self,
        rank: &Rank,
        call: CallId,
        number: usize,
        recorded: &FxHashMap<ScopeId, Vec<CallId>>,
        known: &mut FxHashMap<CallId, usize>,
    ) -> Option<usize> {
        let mut innermost = None;
        for call in parts_around(rank, call).into_iter().rev() {
            let place = match known.get(&call) {
                Some(&place) => place,
                None => {
                    let parent = match innermost {
                        Some(parent) => Parent::Part(parent),
                        None => recorded_parent(rank, rank.calls.parent[call.index()]?, recorded)?,
                    };
                    let (scope, lane) = (rank.calls.scope[call.index()], rank.calls.lane[call.index()]);
                    self.calls.push(Part { scope, lane, parent, first: number, last: number, last_event: 0 });
                    known.insert(call, self.calls.len() - 1);
                    self.calls.len() - 1
                }
            };
            self.calls[place].last = number;
            innermost = Some(place);
        }
        innermost
    }
}

/// A call and the calls around it that are parts of passes, innermost first.
fn parts_around(rank: &Rank, call: CallId) -> Vec<CallId> {
    let outer = |call: &CallId| rank.calls.parent.get(call.index()).copied().flatten();
    let around = std::iter::successors(Some(call), outer).take(rank.calls.len());
    around.take_while(|call| is_part(rank, *call)).collect()
}

fn recorded_parent(rank: &Rank, call: CallId, recorded: &FxHashMap<ScopeId, Vec<CallId>>) -> Option<Parent> {
    let scope = rank.calls.scope.get(call.index()).copied()?;
    let nth = recorded.get(&scope)?.iter().position(|one| *one == call)?;
    Some(Parent::Recorded(scope, nth))
}
