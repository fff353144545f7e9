//! Iterations that were recorded without details.
//!
//! The live tracker records some iterations of a program (a training step, a generated token) completely: the modules
//! that run, and the stack of each allocation. It records further iterations that allocate in the same order without
//! modules and stacks, which costs the program much less. Here these iterations get the details of the complete one
//! that they repeat. Sizes may differ: a KV cache grows with every token.
//!
//! The complete one may be in an earlier file of the recording. Then the newest file has a copy of it: an example
//! (`Profile::examples`).

use std::ops::Range;

use rustc_hash::FxHashMap;
use ttmem_model::rules::iterations::{
    Action, Allocation, Iteration, MAX_PATTERNS, Timeline, is_part, is_pass, model_calls,
};
use ttmem_model::{
    Call, CallEnd, CallId, Calls, During, History, LaneId, Nanoseconds, OpId, Outcome, PoolId, Rank, ScopeId,
};

use super::late_calls::{reorder, steps_before};

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
    pub like: Like,
    /// Whether the whole iteration is repeated.
    pub is_whole: bool,
    /// Whether the same number of bytes is requested.
    pub is_same_size: bool,
}

/// The allocation that another one repeats, by its number in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Like {
    Own(u32),
    /// One of the rank with examples.
    Example(u32),
}

/// Completes the rows and calls of iterations without details. `examples` has further complete iterations, and `has_stack`
/// returns whether an operation has a stack.
pub(super) fn complete(
    rank: &mut Rank,
    examples: Option<&Rank>,
    has_stack: impl Fn(OpId) -> bool,
) -> Learned {
    let models = model_calls(rank);
    if rank.history.is_empty() {
        return Learned::default();
    }
    let example_models = examples.map(model_calls).unwrap_or_default();
    let mut learned = Learned::default();
    let mut rows: FxHashMap<usize, (OpId, During)> = FxHashMap::default();
    let mut calls = Calls::default();
    for pool in (0..rank.pools.len()).filter_map(PoolId::new) {
        let timeline = Timeline::of(rank, pool, &models, &has_stack);
        let examples = examples.map(|rank| (rank, Timeline::of(rank, pool, &example_models, &has_stack)));
        let mut patterns = Patterns::default();
        if let Some((rank, timeline)) = &examples {
            patterns.add_all(rank, timeline, true);
        }
        patterns.add_all(rank, &timeline, false);
        if patterns.0.is_empty() || timeline.iterations.iter().all(|iteration| iteration.is_full) {
            continue;
        }
        Completing { rank, timeline: &timeline, learned: &mut learned, rows: &mut rows, calls: &mut calls }
            .all(&patterns);
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

/// Completes the iterations of a pool.
struct Completing<'a> {
    rank: &'a Rank,
    timeline: &'a Timeline,
    learned: &'a mut Learned,
    rows: &'a mut FxHashMap<usize, (OpId, During)>,
    calls: &'a mut Calls,
}

impl Completing<'_> {
    fn all(&mut self, patterns: &Patterns<'_>) {
        let timeline = self.timeline;
        for (index, iteration) in timeline.iterations.iter().enumerate().filter(|(_, one)| !one.is_full) {
            if iteration.allocations.is_empty() {
                continue;
            }
            let known = patterns.0.get(&iteration.scope).map_or(&[][..], Vec::as_slice);
            let found = best(timeline, iteration, known).filter(|(pattern, _)| {
                iteration.allocations.len() == pattern.allocations().len()
                    || !self.may_lack_beginning(iteration)
            });
            self.learned.bare += 1;
            let count = found.map_or(0, |(_, count)| count);
            self.learned.unlike += u64::from(self.lacks_parts(index, count));
            if let Some((pattern, count)) = found {
                self.repeat(index, pattern, count);
            }
        }
    }

    /// Whether an iteration may have begun in the previous file of the recording.
    fn may_lack_beginning(&self, iteration: &Iteration) -> bool {
        self.rank.thinned.is_some() && iteration.events.start == 0
    }

    /// Whether allocations of a pass remain without details after the first ones.
    fn lacks_parts(&self, index: usize, count: usize) -> bool {
        let rest = &self.timeline.allocations_of(&self.timeline.iterations[index])[count..];
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
        let (own, like) = (timeline.allocations_of(iteration), pattern.allocations());
        let calls = self.copy_calls(index, pattern, count);
        for (number, (own, like)) in own.iter().zip(like).take(count).enumerate() {
            let call =
                pattern.call_of.get(number).copied().flatten().and_then(|call| calls.get(call).copied());
            let during = call.flatten().map_or(own.during, During::Call);
            self.rows.insert(own.row, (like.op, during));
            let number_in = |range: &Range<usize>| u32::try_from(range.start + number).unwrap_or(u32::MAX);
            let is_like = number_in(&pattern.iteration.allocations);
            self.learned.repeated.push(Repeated {
                pool: timeline.pool,
                allocation: number_in(&iteration.allocations),
                like: if pattern.is_example { Like::Example(is_like) } else { Like::Own(is_like) },
                is_whole: iteration.order == pattern.iteration.order,
                is_same_size: own.bytes == like.bytes,
            });
        }
    }

    /// Adds the calls of a pattern to an iteration. Returns their ids; `None` for calls without allocations.
    fn copy_calls(&mut self, index: usize, pattern: &Pattern<'_>, count: usize) -> Vec<Option<CallId>> {
        let iteration = &self.timeline.iterations[index];
        let own = self.timeline.allocations_of(iteration);
        // If memory is freed in another order, calls end with their last allocation.
        let events = self.timeline.events_of(iteration);
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
    let own = timeline.allocations_of(iteration);
    if let Some(same) = known.iter().find(|pattern| pattern.iteration.order == iteration.order) {
        return Some((same, own.len()));
    }
    let common = |pattern: &'p Pattern<'a>| {
        let like = pattern.allocations();
        let is_same = |(a, b): &(&Allocation, &Allocation)| a.bytes == b.bytes;
        let same = own.iter().zip(like).filter(is_same).count();
        // Memory may be freed in another order: a garbage collector decides when.
        let is_whole = own.len() == like.len() && same * 10 >= own.len() * 9;
        if is_whole {
            return (pattern, own.len());
        }
        let first = own.iter().zip(like).take_while(is_same).count();
        // Actions may be the same by chance, so half of the sizes have to be the same as well.
        let first_actions = pattern.common_allocations(timeline, iteration);
        let same = own.iter().zip(like).take(first_actions).filter(is_same).count();
        (pattern, if same * 2 >= first_actions { first.max(first_actions) } else { first })
    };
    known.iter().map(common).max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 0)
}

/// The complete iterations of a pool, by their models; the last ones first.
#[derive(Default)]
struct Patterns<'a>(FxHashMap<ScopeId, Vec<Pattern<'a>>>);

impl<'a> Patterns<'a> {
    /// Adds the complete iterations of a rank, which are later than those before.
    fn add_all(&mut self, rank: &Rank, timeline: &'a Timeline, is_example: bool) {
        for (index, iteration) in timeline.iterations.iter().enumerate().filter(|(_, one)| one.is_full) {
            let known = self.0.entry(iteration.scope).or_default();
            // The last of equal iterations: the first ones of a program may differ in their details.
            known.retain(|pattern| pattern.iteration.order != iteration.order);
            known.truncate(MAX_PATTERNS - 1);
            known.insert(0, Pattern::of(rank, timeline, index, is_example));
        }
    }
}

/// A complete iteration, with its calls.
struct Pattern<'a> {
    timeline: &'a Timeline,
    iteration: &'a Iteration,
    is_example: bool,
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
    fn of(rank: &Rank, timeline: &'a Timeline, index: usize, is_example: bool) -> Self {
        let iteration = &timeline.iterations[index];
        let recorded = recorded_calls(rank, timeline, index);
        let (calls, call_of) = (Vec::new(), Vec::new());
        let mut pattern = Self { timeline, iteration, is_example, calls, call_of };
        let mut known: FxHashMap<CallId, usize> = FxHashMap::default();
        for (number, allocation) in pattern.allocations().iter().enumerate() {
            let part = match allocation.during {
                During::Call(call) => pattern.part(rank, call, number, &recorded, &mut known),
                During::NoCall | During::ByTime => None,
            };
            pattern.call_of.push(part);
        }
        for (number, event) in timeline.events_of(iteration).iter().enumerate() {
            let During::Call(call) = event.during else { continue };
            for call in parts_around(rank, call) {
                if let Some(&place) = known.get(&call) {
                    pattern.calls[place].last_event = number;
                }
            }
        }
        pattern
    }

    fn allocations(&self) -> &'a [Allocation] {
        self.timeline.allocations_of(self.iteration)
    }

    /// The number of allocations before an iteration does something else.
    fn common_allocations(&self, timeline: &Timeline, iteration: &Iteration) -> usize {
        let (own, other) = (self.timeline.events_of(self.iteration), timeline.events_of(iteration));
        let common = own.iter().zip(other).take_while(|(own, other)| own.action == other.action);
        common.filter(|(event, _)| event.action == Action::Allocates).count()
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
