//! What each step added: the steps that added most.

use super::{Account, Span};
use crate::model::{CurveKind, Moment, Step, difference};

/// The effects of the steps of a rank on one pool.
#[derive(Debug)]
pub struct Effects<'a> {
    account: &'a Account<'a>,
    /// The positions at which a top-level program begins: what happens there belongs to no step.
    starts: Vec<u32>,
}

impl<'a> Effects<'a> {
    /// Prepares to answer for a pool.
    pub fn new(account: &'a Account<'a>) -> Self {
        Self { account, starts: account.rank.top_level_runs().map(|(_, run)| run.first).collect() }
    }

    /// What changed in each bank from before a step to after it; `None` where nothing tells.
    ///
    /// Measured where both sides were observed, otherwise what the tensors say.
    pub fn of(&self, step: Step) -> Option<i64> {
        self.measured(step).or_else(|| self.rebuilt(step))
    }

    fn measured(&self, step: Step) -> Option<i64> {
        let pool = self.account.pool;
        let curve = pool.curve(CurveKind::Allocated)?;
        let before = Moment::before(step);
        let next = step.checked_add(1)?;
        // Nothing happens between two steps of one program, so the state before the next is the one after this.
        let between_programs = self.starts.binary_search(&next).is_ok();
        let after =
            [Moment::after(step), Moment::late(next)].into_iter().find(|at| pool.observed.contains(*at))?;
        if !pool.observed.contains(before) || (between_programs && after == Moment::late(next)) {
            return None;
        }
        Some(difference(curve.value_at(after)?, curve.value_at(before)?))
    }

    fn rebuilt(&self, step: Step) -> Option<i64> {
        let (after, before) = (Moment::after(step), Moment::before(step));
        Some(difference(self.account.explained(after)?, self.account.explained(before)?))
    }

    /// The steps of a span that added most, the largest first.
    pub fn largest(&self, span: Span, most: usize) -> Vec<(Step, u64)> {
        let quantum = self.account.pool.quantum;
        let added = |step| Some((step, u64::try_from(self.of(step)?).ok()?));
        let mut steps: Vec<(Step, u64)> =
            (span.first..span.end).filter_map(added).filter(|(_, added)| *added > quantum).collect();
        steps.sort_by_key(|&(step, added)| (std::cmp::Reverse(added), step));
        steps.truncate(most);
        steps
    }
}
