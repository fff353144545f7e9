//! Iterations of a program in the history of an allocator: from the start of a model's forward pass to the start of the
//! next one. A training step is one, and so is a generated token.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHasher};

use crate::{CallId, During, HistoryAction, HistoryRow, Nanoseconds, OpId, PoolId, Rank, ScopeId, ScopeKind};

/// The maximum number of different complete iterations of a model that an iteration is compared with.
pub const MAX_PATTERNS: usize = 16;

/// The outermost forward passes of a rank, in order.
pub fn model_calls(rank: &Rank) -> Vec<CallId> {
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
pub fn is_pass(rank: &Rank, call: CallId) -> bool {
    matches!(kind_of(rank, call), Some(ScopeKind::Forward | ScopeKind::Backward))
}

/// Whether a call is part of a pass. Only complete iterations have such calls.
pub fn is_part(rank: &Rank, call: CallId) -> bool {
    let parent = rank.calls.parent.get(call.index()).copied().flatten();
    is_pass(rank, call) && parent.is_some_and(|parent| is_pass(rank, parent))
}

/// Whether a row of a history is an allocation or a free.
pub fn is_event(action: HistoryAction) -> bool {
    matches!(action, HistoryAction::Allocated | HistoryAction::Freed | HistoryAction::FreeRequested)
}

/// An allocation of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Allocation {
    /// The index of its row in the history.
    pub row: usize,
    /// The requested bytes.
    pub bytes: u64,
    /// The operation, with its stack.
    pub op: OpId,
    /// The call.
    pub during: During,
    /// The time.
    pub time: Nanoseconds,
}

/// An allocation or a free.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What it does.
    pub action: Action,
    /// The call.
    pub during: During,
    /// The time.
    pub time: Nanoseconds,
}

/// What an event does, independent of addresses and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Allocates memory.
    Allocates,
    /// Frees an allocation of the iteration, by its number.
    FreesOwn(usize),
    /// Frees an allocation of another iteration.
    FreesOther,
}

/// An iteration.
#[derive(Clone, Debug)]
pub struct Iteration {
    /// The call of the model.
    pub model: CallId,
    /// The scope of that call.
    pub scope: ScopeId,
    /// Its allocations.
    pub allocations: Range<usize>,
    /// Its allocations and frees.
    pub events: Range<usize>,
    /// A hash of the order of its allocations and frees.
    pub order: u64,
    /// Whether it is complete: stacks were recorded.
    pub is_full: bool,
}

/// The allocations of a pool, and the iterations that they belong to.
#[derive(Debug)]
pub struct Timeline {
    /// The pool.
    pub pool: PoolId,
    /// The allocations, in order.
    pub allocations: Vec<Allocation>,
    /// The allocations and frees, in order.
    pub events: Vec<Event>,
    /// The iterations, in order.
    pub iterations: Vec<Iteration>,
}

impl Timeline {
    /// The timeline of a pool. `models` are the calls of models, and `has_stack` returns whether an operation has a stack.
    pub fn of(rank: &Rank, pool: PoolId, models: &[CallId], has_stack: &impl Fn(OpId) -> bool) -> Self {
        let (allocations, events, iterations) = (Vec::new(), Vec::new(), Vec::new());
        let mut timeline = Self { pool, allocations, events, iterations };
        let mut order = FxHasher::default();
        // Where an address was allocated: the number of iterations at that time, and the number in its iteration.
        let mut places: FxHashMap<u64, (usize, usize)> = FxHashMap::default();
        let mut later = models.iter().copied().peekable();
        // Other rows may be out of order: a peak is reported when it is read, which is before the history is.
        let rows = rank.history.iter().enumerate();
        for (index, row) in rows.filter(|(_, row)| row.pool == pool && is_event(row.action)) {
            while let Some(model) = later.next_if(|model| timeline.has_begun(rank, *model, &row)) {
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
    fn has_begun(&self, rank: &Rank, model: CallId, row: &HistoryRow) -> bool {
        let is_of_last = self.iterations.last().is_some_and(|last| row.during == During::Call(last.model));
        row.during == During::Call(model) || row.time >= rank.calls.began[model.index()] && !is_of_last
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

    /// The events of an iteration.
    pub fn events_of(&self, iteration: &Iteration) -> &[Event] {
        &self.events[iteration.events.clone()]
    }

    /// The allocations of an iteration.
    pub fn allocations_of(&self, iteration: &Iteration) -> &[Allocation] {
        &self.allocations[iteration.allocations.clone()]
    }
}
