//! The calls that run at a time, for what nobody has said the call of.

use ttmem_model::{CallEnd, CallId, During, Nanoseconds, Rank, ScopeKind};

/// Further out than this nobody looks.
const DEEPEST: usize = 256;

/// The calls that run, as time goes on.
#[derive(Debug)]
pub(super) struct OpenCalls<'a> {
    rank: &'a Rank,
    now: Nanoseconds,
    next: usize,
    /// In the order that they began, with their ends.
    open: Vec<(CallId, Nanoseconds)>,
}

impl<'a> OpenCalls<'a> {
    /// Before the first.
    pub fn new(rank: &'a Rank) -> Self {
        Self { rank, now: 0, next: 0, open: Vec::new() }
    }

    /// It is later now.
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
        // Only what is asked for has to be right: the innermost one.
        while self.open.last().is_some_and(|(_, ended)| *ended < now) {
            self.open.pop();
        }
    }

    fn is_operation(&self, call: CallId) -> bool {
        let scope = self.rank.calls.scope.get(call.index());
        scope.and_then(|scope| self.rank.scopes.kind.get(scope.index())) == Some(&ScopeKind::Framework)
    }

    /// The operation of the framework that runs inside of a call: whoever named the call knows of no operations.
    fn operation_in(&self, call: CallId) -> Option<CallId> {
        let (last, _) = *self.open.last()?;
        let calls = &self.rank.calls;
        let outer = |call: &CallId| calls.parent.get(call.index()).copied().flatten();
        let mut around = std::iter::successors(Some(last), outer).take(DEEPEST);
        (self.is_operation(last) && around.any(|around| around == call)).then_some(last)
    }

    /// The innermost call with a name of the program's that began inside of an operation, in its thread, and still runs:
    /// whoever names the operation knows of no such calls. PyTorch's profiler has a range around an optimizer's step, for
    /// example, inside of which the step begins.
    fn named_in(&self, operation: CallId) -> Option<CallId> {
        let lane = |call: CallId| self.rank.calls.lane.get(call.index());
        let inside = self.open.iter().rev().take_while(|(call, _)| *call > operation);
        let mut running = inside.filter(|(call, ended)| {
            *ended >= self.now && !self.is_operation(*call) && lane(*call) == lane(operation)
        });
        running.next().map(|(call, _)| *call)
    }

    /// The call in which something happened.
    pub fn during(&self, during: During) -> Option<CallId> {
        match during {
            During::Call(call) if self.is_operation(call) => Some(self.named_in(call).unwrap_or(call)),
            During::Call(call) => Some(self.operation_in(call).unwrap_or(call)),
            During::NoCall => None,
            During::ByTime => self.open.last().map(|(call, _)| *call),
        }
    }
}
