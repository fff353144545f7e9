//! Finds the tensors of two ranks that correspond: the results of corresponding steps, in order, and tensors without a
//! step by their names.

use rustc_hash::FxHashMap;
use ttmem_model::{Bytes, Class, Step, StepNumber, TensorId};

use super::align::Alignment;
use super::{Both, Side};

/// Corresponding tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub tensors: Both<TensorId>,
    /// Whether the step that allocates them has moved.
    pub is_reordered: bool,
}

/// The tensors of two ranks.
#[derive(Debug, Default)]
pub(super) struct Matched {
    pub pairs: Vec<Pair>,
    /// The tensors without a corresponding one.
    pub unmatched: Both<Vec<TensorId>>,
}

impl Matched {
    pub fn of(sides: &Both<Side<'_>>, alignment: &Alignment) -> Self {
        let results = sides.map(Results::of);
        let mut matched = Self::default();
        let mut is_matched = sides.map(|side| vec![false; side.rank.tensors.len()]);
        let in_order = alignment.pairs.before.iter().zip(&alignment.pairs.after);
        let in_order = in_order.map(|(&before, &after)| (Both { before, after }, false));
        let reordered = alignment.reordered.iter().map(|pair| (*pair, true));
        for (steps, is_reordered) in in_order.chain(reordered) {
            let of_steps = (results.before.of_step(steps.before), results.after.of_step(steps.after));
            for (before, after) in of_steps.0.iter().zip(of_steps.1) {
                matched.add(Both { before: *before, after: *after }, is_reordered, &mut is_matched);
            }
        }
        matched.by_name(sides, &mut is_matched);
        matched.unmatched = is_matched.map(|is_matched| {
            (0..is_matched.len()).filter(|index| !is_matched[*index]).filter_map(TensorId::new).collect()
        });
        matched
    }

    fn add(&mut self, tensors: Both<TensorId>, is_reordered: bool, is_matched: &mut Both<Vec<bool>>) {
        is_matched.before[tensors.before.index()] = true;
        is_matched.after[tensors.after.index()] = true;
        self.pairs.push(Pair { tensors, is_reordered });
    }

    /// Tensors without a step: arguments, and allocations from before the beginning. First those that are equal in all
    /// respects, then those with equal names.
    fn by_name(&mut self, sides: &Both<Side<'_>>, is_matched: &mut Both<Vec<bool>>) {
        for key in [equal as fn(Side<'_>, usize) -> Option<Key<'_>>, same_name] {
            let mut waiting: FxHashMap<Key<'_>, Vec<TensorId>> = FxHashMap::default();
            let without_step = |side: Side<'_>, is_matched: &[bool]| -> Vec<usize> {
                let tensors = &side.rank.tensors;
                let is_made = |at: usize| tensors.step[at].is_some_and(|step| is_aligned(side, step.get()));
                (0..tensors.len()).filter(|&at| !is_matched[at] && !is_made(at)).collect()
            };
            for index in without_step(sides.before, &is_matched.before).into_iter().rev() {
                if let Some((key, id)) = key(sides.before, index).zip(TensorId::new(index)) {
                    waiting.entry(key).or_default().push(id);
                }
            }
            for index in without_step(sides.after, &is_matched.after) {
                let Some((key, after)) = key(sides.after, index).zip(TensorId::new(index)) else { continue };
                if let Some(before) = waiting.get_mut(&key).and_then(Vec::pop) {
                    self.add(Both { before, after }, false, is_matched);
                }
            }
        }
    }
}

/// Whether a step is one of those that are aligned.
fn is_aligned(side: Side<'_>, step: Step) -> bool {
    side.rank.op_id(step).is_some_and(|op| side.profile.ops.kind(op).is_reported())
}

/// What tensors without a step are recognized by.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    name: Option<&'a str>,
    class: Class,
    /// Shape, element type and bytes, if they must be equal.
    exactly: Option<(&'a [u64], &'a str, Option<u64>)>,
}

fn equal(side: Side<'_>, index: usize) -> Option<Key<'_>> {
    let tensors = &side.rank.tensors;
    let ty = tensors.ty.get(index).copied().flatten().and_then(|ty| side.profile.tensor_type(ty));
    let (shape, dtype) = ty.map_or((&[][..], ""), |ty| (&ty.shape, side.profile.text(ty.dtype)));
    let exactly = Some((shape, dtype, tensors.per_bank.get(index).copied().and_then(Bytes::get)));
    Some(Key { name: name(side, index), class: *tensors.class.get(index)?, exactly })
}

fn same_name(side: Side<'_>, index: usize) -> Option<Key<'_>> {
    let name = Some(name(side, index)?);
    Some(Key { name, class: *side.rank.tensors.class.get(index)?, exactly: None })
}

fn name(side: Side<'_>, index: usize) -> Option<&str> {
    let tensors = &side.rank.tensors;
    let name = tensors.name.get(index).copied().flatten();
    name.or_else(|| tensors.ssa.get(index).copied().flatten()).map(|name| side.profile.text(name))
}

/// The tensors that steps allocate, in the order of steps.
struct Results {
    steps: Vec<Step>,
    tensors: Vec<TensorId>,
}

impl Results {
    fn of(side: Side<'_>) -> Self {
        let steps = side.rank.tensors.step.iter().enumerate();
        let mut all: Vec<(Step, TensorId)> = steps
            .filter_map(|(index, step)| Some((step.map(StepNumber::get)?, TensorId::new(index)?)))
            .collect();
        all.sort_unstable();
        let (steps, tensors) = all.into_iter().unzip();
        Self { steps, tensors }
    }

    fn of_step(&self, step: Step) -> &[TensorId] {
        let first = self.steps.partition_point(|other| *other < step);
        let count = self.steps[first..].iter().take_while(|other| **other == step).count();
        &self.tensors[first..first + count]
    }
}
