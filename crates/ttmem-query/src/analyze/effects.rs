//! What each step added: the steps that added most.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ttmem_model::{Cursor, CurveKind, Moment, Step, difference};

use super::{Account, Span};

/// What the steps of a span changed in each bank of a pool, in order; `None` where nothing tells.
///
/// Measured where both sides of a step were observed, otherwise what the tensors say. What happens between two
/// programs belongs to no step.
pub fn effects<'a>(account: &'a Account<'a>, span: Span) -> impl Iterator<Item = (Step, Option<i64>)> + 'a {
    let mut sweep = Sweep {
        account,
        measured: account.pool.curve(CurveKind::Allocated).map(|curve| curve.cursor()),
        rebuilt: account.explained_cursor(Moment::before(span.first)),
    };
    (span.first..span.end).map(move |step| (step, sweep.effect(step)))
}

/// Goes through the steps in order.
struct Sweep<'a> {
    account: &'a Account<'a>,
    measured: Option<Cursor<'a>>,
    rebuilt: Option<Cursor<'a>>,
}

impl Sweep<'_> {
    fn effect(&mut self, step: Step) -> Option<i64> {
        let (before, after) = (Moment::before(step), Moment::after(step));
        let measured = self.state_after(step).and_then(|observed| {
            let cursor = self.measured.as_mut()?;
            let (before, after) = (cursor.value_at(before)?, cursor.clone().value_at(observed)?);
            Some(difference(after, before))
        });
        measured.or_else(|| {
            let cursor = self.rebuilt.as_mut()?;
            let before = cursor.value_at(before).unwrap_or(0);
            Some(difference(cursor.value_at(after).unwrap_or(0), before))
        })
    }

    /// When the state after a step was observed, if the one before it was too.
    ///
    /// Nothing happens between two steps of one program, so the state before the next is the one after this.
    fn state_after(&self, step: Step) -> Option<Moment> {
        let observed = &self.account.pool.observed;
        let (before, after) = (Moment::before(step), Moment::after(step));
        let early = Moment::early(step);
        let known_before = observed.contains(before)
            || observed.contains(early) && self.account.is_same_state(early, before);
        let late = Moment::late(step.checked_add(1)?);
        let later = || observed.contains(late) && self.account.is_same_state(after, late);
        if !known_before {
            None
        } else if observed.contains(after) {
            Some(after)
        } else {
            later().then_some(late)
        }
    }
}

/// The steps of a span that added most, the largest first.
pub fn largest(account: &Account<'_>, span: Span, most: usize) -> Vec<(Step, u64)> {
    let added = |(step, effect): (Step, Option<i64>)| Some((u64::try_from(effect?).ok()?, Reverse(step)));
    let mut heap = BinaryHeap::new();
    for step in effects(account, span).filter_map(added).filter(|(added, _)| *added > account.pool.quantum) {
        heap.push(Reverse(step));
        if heap.len() > most {
            heap.pop();
        }
    }
    heap.into_sorted_vec().into_iter().map(|Reverse((added, Reverse(step)))| (step, added)).collect()
}
