//! The rounds of a program: its outermost calls, and the levels of pools at the start of each.
//!
//! They show whether memory grows from round to round. So a recording with a limit carries the last rounds into the
//! next file: all of the last ones instead of a sample, so that they can be counted.

use std::collections::VecDeque;

use ttmem_model::Nanoseconds;

use super::kept::KeptCall;
use super::past::{After, Value};

/// The maximum number of rounds, if the limit of the recording allows it.
const MAX_ROUNDS: u64 = 1024;
/// A round actually takes about a tenth of this.
const BYTES_FOR_A_ROUND: u64 = 1024;

/// An outermost call, such as a training step.
#[derive(Clone, Debug)]
pub(in crate::live) struct Round {
    /// The outcome is known after it ended.
    pub call: KeptCall,
    /// The last step before the start, and the levels of pools at that time.
    pub after: After,
    pub values: Vec<Value>,
}

/// The last rounds.
#[derive(Debug, Default)]
pub(in crate::live) struct Rounds {
    kept: VecDeque<Round>,
    max: usize,
    /// All rounds since this time are kept; `None`: since the start.
    pub since: Option<Nanoseconds>,
}

impl Rounds {
    /// As many rounds as fit into a file of this size.
    pub fn fitting(file: u64) -> Self {
        let max = (file / BYTES_FOR_A_ROUND).min(MAX_ROUNDS);
        Self { max: usize::try_from(max).unwrap_or(0), ..Self::default() }
    }

    /// Whether any are kept.
    pub fn are_kept(&self) -> bool {
        self.max > 0
    }

    pub fn began(&mut self, round: Round) {
        if self.kept.len() >= self.max {
            self.since = self.kept.pop_front().map(|round| round.call.began + 1);
        }
        self.kept.push_back(round);
    }

    /// Records the end of a call, if it is a round.
    pub fn ended(&mut self, call: &KeptCall) {
        let found = self.kept.iter_mut().rev().find(|round| round.call.number <= call.number);
        if let Some(round) = found.filter(|round| round.call.number == call.number) {
            round.call.outcome = call.outcome;
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Round> {
        self.kept.iter()
    }

    /// The calls of all rounds, to update their rows.
    pub fn calls_mut(&mut self) -> impl Iterator<Item = &mut KeptCall> {
        self.kept.iter_mut().map(|round| &mut round.call)
    }
}
