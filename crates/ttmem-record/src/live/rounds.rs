//! The rounds of a program: its calls outside of all others, and what pools held when each began.
//!
//! Whether memory grows from round to round is seen by these alone, so a recording with a limit keeps the last of them
//! when it goes on in a new file: all of the last ones, not some of many, so that they can be counted.

use std::collections::VecDeque;

use super::kept::KeptCall;
use super::past::{After, Value};
use ttmem_model::Nanoseconds;

/// So many rounds are kept, if the limit of the recording leaves room for them.
const MAX_ROUNDS: u64 = 1024;
/// A round takes about a tenth of this in a file.
const BYTES_FOR_A_ROUND: u64 = 1024;

/// A round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// What it came to is known when it has ended.
    pub call: KeptCall,
    /// The last step before it began, and what pools held then.
    pub after: After,
    pub values: Vec<Value>,
}

/// The last rounds.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    kept: VecDeque<Round>,
    most: usize,
    /// From when on all are kept; `None`: from the beginning.
    pub since: Option<Nanoseconds>,
}

impl Rounds {
    /// As many as files of that size have room for.
    pub fn fitting(file: u64) -> Self {
        let most = (file / BYTES_FOR_A_ROUND).min(MAX_ROUNDS);
        Self { most: usize::try_from(most).unwrap_or(0), ..Self::default() }
    }

    /// Whether any are kept.
    pub fn are_kept(&self) -> bool {
        self.most > 0
    }

    pub fn began(&mut self, round: Round) {
        if self.kept.len() >= self.most {
            self.since = self.kept.pop_front().map(|round| round.call.began + 1);
        }
        self.kept.push_back(round);
    }

    /// A call ended, which may be a round.
    pub fn ended(&mut self, call: &KeptCall) {
        let found = self.kept.iter_mut().rev().find(|round| round.call.number <= call.number);
        if let Some(round) = found.filter(|round| round.call.number == call.number) {
            round.call.outcome = call.outcome;
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Round> {
        self.kept.iter()
    }

    /// The calls of all rounds, whose rows in a file may change.
    pub fn calls_mut(&mut self) -> impl Iterator<Item = &mut KeptCall> {
        self.kept.iter_mut().map(|round| &mut round.call)
    }
}
