//! The analyzed part of a rank: all of it, one run, or the last pass.

use super::passes::Passes;
use crate::{Moment, Position, Rank, RunId};

/// A range of positions, both ends inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first position.
    pub first: Position,
    /// The last position; its step is not part of the span.
    pub end: Position,
}

impl Span {
    /// The whole rank.
    pub fn whole(rank: &Rank) -> Self {
        Self { first: 0, end: rank.end() }
    }

    /// The whole rank, except the const-eval programs of earlier passes at the beginning of cut-outs written up to
    /// 0.1.0 ([`CutOut::first`](crate::CutOut::first)).
    pub fn recorded(rank: &Rank) -> Self {
        let first = rank.cut_out.map_or(0, |cut_out| cut_out.first.min(rank.end()));
        Self { first, ..Self::whole(rank) }
    }

    /// The last pass, up to the end; `None` if there are no runs.
    pub fn of_last_pass(rank: &Rank) -> Option<Self> {
        let first = rank.run(*Passes::of(rank).last().first()?)?.first;
        Some(Self { first: first.min(rank.end()), ..Self::whole(rank) })
    }

    /// One run.
    pub fn of_run(rank: &Rank, run: RunId) -> Option<Self> {
        let run = rank.run(run)?;
        Some(Self { first: run.first, end: run.end.max(run.first).min(rank.end()) })
    }

    /// The first moment. If the span begins with a run, it is right before the first step.
    pub fn start(self) -> Moment {
        if self.first == 0 { Moment::START } else { Moment::late(self.first) }
    }

    /// The last moment: right after the last step, or after everything at the very end.
    pub fn last(self, rank: &Rank) -> Moment {
        if self.end == rank.end() { Moment::late(self.end) } else { Moment::early(self.end) }
    }

    /// Whether a moment is in the span.
    pub fn contains(self, at: Moment, rank: &Rank) -> bool {
        self.start() <= at && at <= self.last(rank)
    }
}
