//! The calls that are running at a given time, for events that do not name their call.

use ttmem_model::{CallEnd, CallId, During, Nanoseconds, Rank, ScopeKind};

/// The maximum number of enclosing calls searched.
const MAX_DEPTH: usize = 256;

/// The running calls as time advances.
#[derive(Debug)]
pub(super) struct OpenCalls<'a> {
    rank: &'a Rank,
    now: Nanoseconds,
    next: usize,
    /// Ordered by start time, with their end times.
    open: Vec<(CallId, Nanoseconds)>,
}

impl<'a> OpenCalls<'a> {
    /// Starts before the first call.
    pub fn new(rank: &'a Rank) -> Self {
        Self { rank, now: 0, next: 0, open: Vec::new() }
    }

    /// Advances to a time.
    pub fn advance(&mut self, now: Nanoseconds) {
        self.now = now;
        while let Some(&began) = self.rank.calls.began.get(self.next).filter(|began| **began <= now) {
            let ended = match self.rank.call_end(self.next) {
                CallEnd::At(ended) => ended,
                CallEnd::Open => Nanoseconds::MAX,
                CallEnd::Unknown => began,
            };
            self.open.extend(CallId::new(self.next).map(|call| (call, ended)));
            self.next += 1;
        }
        // Only the innermost call matters, so it is enough to remove ended calls from the end.
        while self.open.last().is_some_and(|(_, ended)| *ended < now) {
            self.open.pop();
        }
    }

    fn is_operation(&self, call: CallId) -> bool {
        let scope = self.rank.calls.scope.get(call.index());
        scope.and_then(|scope| self.rank.scopes.kind.get(scope.index())) == Some(&ScopeKind::Framework)
    }

    /// The framework operation that runs inside a call. The program's own calls do not know about operations.
    fn operation_in(&self, call: CallId) -> Option<CallId> {
        let (last, _) = *self.open.last()?;
        let calls = &self.rank.calls;
        let outer = |call: &CallId| calls.parent.get(call.index()).copied().flatten();
        let mut around = std::iter::successors(Some(last), outer).take(MAX_DEPTH);
        (self.is_operation(last) && around.any(|around| around == call)).then_some(last)
    }

    /// The innermost call named by the program that began inside an operation, on the same thread, and is still
    /// running. The source of the operation does not know about such calls. For example, PyTorch's profiler has a range
    /// around an optimizer's step, and the step begins inside it.
    fn named_in(&self, operation: CallId) -> Option<CallId> {
        let lane = |call: CallId| self.rank.calls.lane.get(call.index());
        let inside = self.open.iter().rev().take_while(|(call, _)| *call > operation);
        let mut running = inside.filter(|(call, ended)| {
            *ended >= self.now && !self.is_operation(*call) && lane(*call) == lane(operation)
        });
        running.next().map(|(call, _)| *call)
    }

    /// The call that an event belongs to.
    pub fn during(&self, during: During) -> Option<CallId> {
        match during {
            During::Call(call) if self.is_operation(call) => Some(self.named_in(call).unwrap_or(call)),
            During::Call(call) => Some(self.operation_in(call).unwrap_or(call)),
            During::NoCall => None,
            During::ByTime => self.open.last().map(|(call, _)| *call),
        }
    }
}
