//! Which part of a rank is asked about: all of it, one run, or the last pass.

use super::passes::Passes;
use crate::{Moment, Position, Rank, RunId};

/// A range of positions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first position.
    pub first: Position,
    /// The last position; its step is not part of the span.
    pub end: Position,
}

impl Span {
    /// All of a rank.
    pub fn whole(rank: &Rank) -> Self {
        Self { first: 0, end: rank.end() }
    }

    /// All of a rank, without the const-eval programs of earlier passes with which cut-outs written up to 0.1.0 begin
    /// ([`CutOut::first`](crate::CutOut::first)).
    pub fn told(rank: &Rank) -> Self {
        let first = rank.cut_out.map_or(0, |cut_out| cut_out.first.min(rank.end()));
        Self { first, ..Self::whole(rank) }
    }

    /// The last pass, which reaches up to the end; `None` where there are no runs.
    pub fn of_last_pass(rank: &Rank) -> Option<Self> {
        let first = rank.run(*Passes::of(rank).last().first()?)?.first;
        Some(Self { first: first.min(rank.end()), ..Self::whole(rank) })
    }

    /// One run.
    pub fn of_run(rank: &Rank, run: RunId) -> Option<Self> {
        let run = rank.run(run)?;
        Some(Self { first: run.first, end: run.end.max(run.first).min(rank.end()) })
    }

    /// The first moment: a span that begins with a run begins right before its first step.
    pub fn start(self) -> Moment {
        if self.first == 0 { Moment::START } else { Moment::late(self.first) }
    }

    /// The last moment: right after the last step, and what followed it at the very end.
    pub fn last(self, rank: &Rank) -> Moment {
        if self.end == rank.end() { Moment::late(self.end) } else { Moment::early(self.end) }
    }

    /// Whether a moment is part of it.
    pub fn contains(self, at: Moment, rank: &Rank) -> bool {
        self.start() <= at && at <= self.last(rank)
    }
}
