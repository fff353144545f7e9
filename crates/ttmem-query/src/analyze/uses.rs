//! The first and last uses of tensors by operations.
//!
//! The uses of a tensor are known if the input names the operands of every operation, or states the last use itself. Uses
//! outside the input, such as those of another graph or of the host, are not known.

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{Moment, OpId, OpKind, Profile, Rank, Step, StepNumber, StrId, TensorId, Usage};

use super::Span;
use super::names::Names;

/// The steps that use a tensor after the step that allocated it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uses {
    /// The first one; `None` if the input only states the last one.
    pub first: Option<Step>,
    /// The last one.
    pub last: Step,
}

/// Whether uses can be known: the input names tensors, or states their uses.
pub fn are_known(profile: &Profile, rank: &Rank) -> bool {
    let is_complete = profile.complete && profile.skipped_lines == 0;
    is_complete && !(rank.usages.is_empty() && rank.aliases.is_empty() && rank.tensors.ssa.is_default())
}

/// The uses of some tensors by the steps of a span.
///
/// It is empty if operations are missing from the input, because they may use any tensor.
pub fn uses(
    profile: &Profile,
    rank: &Rank,
    span: Span,
    tensors: impl IntoIterator<Item = TensorId>,
) -> FxHashMap<TensorId, Uses> {
    if !are_known(profile, rank) {
        return FxHashMap::default();
    }
    let tensors: FxHashSet<TensorId> = tensors.into_iter().collect();
    if tensors.is_empty() {
        return FxHashMap::default();
    }
    if !rank.usages.is_empty() {
        let stated = |usage: Usage| {
            Some((usage.tensor, Uses { first: None, last: usage.last_use.map(StepNumber::get)? }))
        };
        return rank
            .usages
            .iter()
            .filter(|usage| tensors.contains(&usage.tensor))
            .filter_map(stated)
            .collect();
    }
    by_operands(profile, rank, span, &tensors)
}

fn by_operands(
    profile: &Profile,
    rank: &Rank,
    span: Span,
    tensors: &FxHashSet<TensorId>,
) -> FxHashMap<TensorId, Uses> {
    let own = tensors.iter().filter_map(|tensor| rank.tensors.ssa[tensor.index()]);
    let aliases = rank.aliases.iter().filter(|alias| tensors.contains(&alias.tensor));
    let wanted: FxHashSet<StrId> = own.chain(aliases.map(|alias| alias.ssa)).collect();
    let is_use = |op: OpId| profile.ops.kind(op) != OpKind::Deallocate;
    let operands_of = |op: OpId| {
        let op = profile.ops.get(op).filter(|_| is_use(op));
        let operands = op.map(|op| op.operands).unwrap_or_default();
        operands.into_iter().filter(|name| wanted.contains(name)).collect::<Vec<StrId>>()
    };
    let operands: Vec<Vec<StrId>> = (0..profile.ops.len()).filter_map(OpId::new).map(operands_of).collect();
    let mut uses: FxHashMap<TensorId, Uses> = FxHashMap::default();
    let names = Names::of(profile, rank, &wanted);
    for step in span.first..span.end {
        let operands = rank.op_id(step).and_then(|op| operands.get(op.index()));
        let meant = operands.into_iter().flatten().filter_map(|name| names.meant(step, *name));
        for tensor in meant.filter(|tensor| tensors.contains(tensor)) {
            let known = uses.entry(tensor).or_insert(Uses { first: Some(step), last: step });
            known.last = known.last.max(step);
        }
    }
    uses
}

/// Whether an operation freed a tensor explicitly, so that the program did not return it.
pub fn is_deallocated(profile: &Profile, rank: &Rank, tensor: TensorId) -> bool {
    let dies = rank.tensors.dies.get(tensor.index()).copied().unwrap_or(Moment::NEVER);
    let step = dies.position().checked_sub(1).filter(|_| dies != Moment::NEVER);
    step.is_some_and(|step| {
        let name = profile.op_name(rank, step).unwrap_or_default();
        profile.op_kind(rank, step) == OpKind::Deallocate || name.ends_with("deallocate")
    })
}
