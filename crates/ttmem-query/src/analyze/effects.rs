//! The effect of each step on memory, and the steps with the largest increases.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{Cursor, CurveKind, Moment, OpId, Profile, Step, StrId, difference};

use super::{Account, Span};

/// The change per bank that each step of a span caused in a pool, in order; `None` if unknown.
///
/// The change is measured if the states before and after the step were observed, otherwise it is the sum of the tensors
/// that the step allocated and freed. Changes between two programs belong to no step.
pub fn effects<'a>(account: &'a Account<'a>, span: Span) -> impl Iterator<Item = (Step, Option<i64>)> + 'a {
    let mut sweep = Sweep {
        account,
        measured: account.pool.curve(CurveKind::Allocated).map(|curve| curve.cursor()),
        reconstructed: account.explained_cursor(Moment::before(span.first)),
        last: None,
    };
    (span.first..span.end).map(move |step| (step, sweep.effect(step)))
}

/// A sweep through the steps in order.
struct Sweep<'a> {
    account: &'a Account<'a>,
    measured: Option<Cursor<'a>>,
    reconstructed: Option<Cursor<'a>>,
    /// The state after the last step, if it was observed right then.
    last: Option<u64>,
}

impl Sweep<'_> {
    fn effect(&mut self, step: Step) -> Option<i64> {
        let (before, after) = (Moment::before(step), Moment::after(step));
        let observed = &self.account.pool.observed;
        // The usual case if every step is observed: the state before this step is that after the last one.
        if let Some(last) = self.last.take()
            && observed.contains(after)
            && !observed.contains(before)
            && self.account.is_same_state(Moment::early(step), before)
        {
            self.last = self.measured.as_mut().and_then(|cursor| cursor.value_at(after));
            return self.last.map(|now| difference(now, last));
        }
        let measured = self.state_after(step).and_then(|observed| {
            let cursor = self.measured.as_mut()?;
            let (before, now) = (cursor.value_at(before)?, cursor.clone().value_at(observed)?);
            self.last = (observed == after).then_some(now);
            Some(difference(now, before))
        });
        measured.or_else(|| {
            let cursor = self.reconstructed.as_mut()?;
            let before = cursor.value_at(before).unwrap_or(0);
            Some(difference(cursor.value_at(after).unwrap_or(0), before))
        })
    }

    /// The moment when the state after a step was observed, if the state before it was observed too.
    ///
    /// Nothing happens between two steps of one program, so the state before the next step is the state after this one.
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

/// The steps of a span that added more memory than the rounding of the readings, with the bytes per bank.
pub fn added(account: &Account<'_>, span: Span) -> Vec<(Step, u64)> {
    if let Some(all) = added_after_steps(account, span) {
        return all;
    }
    // Most increases are allocations.
    let mut all = Vec::with_capacity(account.rank.tensors.len());
    let added = |(step, effect): (Step, Option<i64>)| Some((step, u64::try_from(effect?).ok()?));
    all.extend(effects(account, span).filter_map(added).filter(|(_, added)| *added > account.pool.quantum));
    all
}

/// The same as [`added`] if the pool was observed after every step and at no other moment, and if the input has no programs,
/// so that the changes of the curve are the effects of the steps. `None` otherwise.
fn added_after_steps(account: &Account<'_>, span: Span) -> Option<Vec<(Step, u64)>> {
    let curve = account.pool.curve(CurveKind::Allocated)?;
    let all = Moment::early(span.first)..=Moment::early(span.end);
    let has_programs = account.rank.top_level_runs().next().is_some();
    if has_programs || !account.pool.observed.are_early_sides(*all.start(), *all.end()) {
        return None;
    }
    let first = curve.at.partition_point(|at| at <= all.start());
    let mut before = *first.checked_sub(1).and_then(|last| curve.value.get(last))?;
    let mut found = Vec::with_capacity(account.rank.tensors.len().min(curve.at.len()));
    let mut changes = curve.changes_from(first).take_while(|(at, _)| at <= all.end()).peekable();
    while let Some((at, value)) = changes.next() {
        if changes.peek().is_some_and(|(next, _)| *next == at) {
            continue;
        }
        let added = value.saturating_sub(std::mem::replace(&mut before, value));
        if added > account.pool.quantum {
            found.push((at.position() - 1, added));
        }
    }
    Some(found)
}

/// The largest increases among those of [`added`], largest first.
pub fn largest(added: &[(Step, u64)], most: usize) -> Vec<(Step, u64)> {
    let mut heap: BinaryHeap<Reverse<(u64, Reverse<Step>)>> = BinaryHeap::new();
    for &(step, added) in added {
        if heap.len() == most && heap.peek().is_none_or(|Reverse((least, _))| added <= *least) {
            continue;
        }
        heap.push(Reverse((added, Reverse(step))));
        if heap.len() > most {
            heap.pop();
        }
    }
    heap.into_sorted_vec().into_iter().map(|Reverse((added, Reverse(step)))| (step, added)).collect()
}

/// Identical steps: the same operation with a result of the same shape and type, and the same effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The first of them.
    pub first: Step,
    /// The last of them.
    pub last: Step,
    /// The number of steps.
    pub count: usize,
    /// The memory that each of them added, per bank.
    pub added: u64,
    /// Their source locations, without repetitions.
    pub locations: Vec<StrId>,
}

/// The steps that added the most memory, identical ones as one; the largest increase first. The increases are those of
/// [`added`].
///
/// Increases that differ by no more than the rounding of the readings are the same.
pub fn increases(
    profile: &Profile,
    account: &Account<'_>,
    all: &[(Step, u64)],
    count: usize,
) -> Vec<Repeated> {
    // The same type of two graphs has two numbers, so types are compared by their content.
    type Key<'a> = (Option<&'a str>, Option<(&'a [u64], StrId)>);
    let quantum = account.pool.quantum;
    let mut kinds: FxHashMap<Key<'_>, usize> = FxHashMap::default();
    let mut kind_of: Vec<Option<usize>> = vec![None; profile.ops.len()];
    let mut found: Vec<BTreeMap<u64, usize>> = Vec::new();
    let mut increases: Vec<Repeated> = Vec::new();
    let mut seen: FxHashSet<(usize, StrId)> = FxHashSet::default();
    // An operation adds the same again and again. Keys that are near one another are never added, so this never changes.
    let mut same_as: FxHashMap<(OpId, u64), usize> = FxHashMap::default();
    for &(step, added) in all {
        let op = account.rank.op_id(step);
        let of_op = op.and_then(|op| same_as.get(&(op, added)));
        if let Some(repeated) = of_op.and_then(|known| increases.get_mut(*known)) {
            repeated.last = step;
            repeated.count += 1;
            continue;
        }
        let known_kind = op.and_then(|op| kind_of.get(op.index()).copied().flatten());
        let kind = known_kind.unwrap_or_else(|| {
            let ty = op.and_then(|op| profile.tensor_type(profile.ops.result_type(op)?));
            let key = (profile.op_name(account.rank, step), ty.map(|ty| (&ty.shape[..], ty.dtype)));
            let next = kinds.len();
            *kinds.entry(key).or_insert(next)
        });
        if let Some(slot) = op.and_then(|op| kind_of.get_mut(op.index())) {
            *slot = Some(kind);
        }
        if found.len() <= kind {
            found.push(BTreeMap::new());
        }
        let known = &mut found[kind];
        let near = added.saturating_sub(quantum)..=added.saturating_add(quantum);
        let same = known.range(near).next().map_or(added, |(same, _)| *same);
        let index = *known.entry(same).or_insert(increases.len());
        if index == increases.len() {
            increases.push(Repeated { first: step, last: step, count: 0, added, locations: Vec::new() });
        }
        let repeated = &mut increases[index];
        repeated.last = step;
        repeated.count += 1;
        let loc = op.and_then(|op| profile.ops.loc(op));
        repeated.locations.extend(loc.filter(|loc| seen.insert((index, *loc))));
        same_as.extend(op.map(|op| ((op, added), index)));
    }
    increases.sort_unstable_by_key(|repeated| (Reverse(repeated.added), repeated.first));
    increases.truncate(count);
    increases
}
