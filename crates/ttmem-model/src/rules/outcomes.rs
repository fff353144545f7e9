//! The outcomes of calls, computed from the lifetimes of tensors: allocated bytes, peak, bytes kept.
//!
//! A recorder that sees allocations as they happen records the outcomes itself. If allocations are reported afterwards,
//! outcomes are derived from the steps and their calls.

use super::calls::CallRef;
use super::calls::RunningCalls;
use crate::{CallEnd, CallId, Nanoseconds, Outcome, Position, Rank, StepNumber, TensorId};

/// The outcomes of a rank's calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Per call; `None` if it has not ended.
    pub calls: Vec<Option<Outcome>>,
    /// The allocations that were freed before the end of the call that made them, or of its innermost named call.
    pub gone_inside: Vec<TensorId>,
}

/// The start or end of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    position: Position,
    time: Nanoseconds,
    is_end: bool,
    call: CallId,
}

/// The start or end of a tensor's lifetime.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    /// The step that causes it.
    step: u32,
    is_gone: bool,
    tensor: u32,
}

/// Computes the outcomes of a rank's calls.
pub fn outcomes(rank: &Rank) -> Outcomes {
    if rank.calls.is_empty() {
        return Outcomes::default();
    }
    let mut following = Following {
        rank,
        calls: RunningCalls::default(),
        at: vec![None; rank.calls.len()],
        owner: vec![None; rank.tensors.len()],
        named: vec![None; rank.tensors.len()],
        found: Outcomes { calls: vec![None; rank.calls.len()], gone_inside: Vec::new() },
    };
    let (mut edges, mut within) = (edges(rank).into_iter().peekable(), rank.within.iter().peekable());
    let mut call = None;
    for change in changes(rank) {
        while let Some(edge) = edges.next_if(|edge| edge.position <= change.step) {
            following.edge(edge);
        }
        while let Some((_, value)) = within.next_if(|(step, _)| *step <= change.step) {
            call = value;
        }
        following.change(change, call);
    }
    edges.for_each(|edge| following.edge(edge));
    following.found
}

fn edges(rank: &Rank) -> Vec<Edge> {
    let mut edges = Vec::with_capacity(rank.calls.len() * 2);
    for (index, call) in rank.calls.iter().enumerate() {
        let Some(id) = CallId::new(index) else { break };
        edges.push(Edge { position: call.first, time: call.began, is_end: false, call: id });
        if let (Some(outcome), CallEnd::At(time)) = (call.outcome, rank.call_end(index)) {
            let position = outcome.end.max(call.first);
            edges.push(Edge { position, time, is_end: true, call: id });
        }
    }
    edges.sort_unstable();
    edges
}

fn changes(rank: &Rank) -> Vec<Change> {
    let mut changes = Vec::with_capacity(rank.tensors.len() * 2);
    for (index, tensor) in (0..rank.tensors.len()).zip(0..) {
        let (made, dies) = (rank.tensors.step[index], rank.tensors.dies[index]);
        changes.extend(made.map(|made| Change { step: StepNumber::get(made), is_gone: false, tensor }));
        if let Some(step) = dies.position().checked_sub(1).filter(|step| *step < rank.end()) {
            changes.push(Change { step, is_gone: true, tensor });
        }
    }
    changes.sort_unstable();
    changes
}

struct Following<'a> {
    rank: &'a Rank,
    calls: RunningCalls,
    /// The slots of the calls so far.
    at: Vec<Option<CallRef>>,
    /// The call that made a tensor.
    owner: Vec<Option<CallRef>>,
    /// The same, but the innermost named call.
    named: Vec<Option<CallRef>>,
    found: Outcomes,
}

impl Following<'_> {
    fn edge(&mut self, edge: Edge) {
        let index = edge.call.index();
        if edge.is_end {
            let ended = self.at[index].and_then(|at| self.calls.exit(at, edge.time));
            let end = edge.position;
            self.found.calls[index] = ended.map(|outcome| Outcome { end, ..outcome });
            return;
        }
        let Some(call) = self.rank.calls.get(index) else { return };
        // A call is never released here, because a later one may refer to it.
        let parent = call.parent.and_then(|parent| self.at[parent.index()]);
        self.at[index] = self.calls.enter(call.scope, parent, call.began);
    }

    fn change(&mut self, change: Change, within: Option<CallId>) {
        let (tensor, is_gone) = (change.tensor as usize, change.is_gone);
        let named = within.filter(|_| !is_gone).and_then(|call| self.rank.named_call(call));
        let within = within.and_then(|call| self.at[call.index()]);
        let bytes = self.rank.tensors.per_bank[tensor].or_zero();
        if !is_gone {
            self.owner[tensor] = self.calls.allocated(within, bytes);
            self.named[tensor] = named.and_then(|call| self.at[call.index()]);
            return;
        }
        let (owner, named) = (self.owner[tensor].take(), self.named[tensor].take());
        if self.calls.runs(owner) || self.calls.runs(named) {
            self.found.gone_inside.extend(TensorId::new(tensor));
        }
        self.calls.freed(owner, self.calls.running(within), bytes);
    }
}
