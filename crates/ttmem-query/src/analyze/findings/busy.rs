//! What runs at the peak: matmuls and reductions that work on much of what is alive.

use rustc_hash::FxHashSet;

use super::{Finding, LARGE, PoolAtPeak, Situation, What};
use crate::analyze::names::Names;
use crate::analyze::{Span, effects};
use ttmem_model::{OpId, OpKind, Step, StrId, TensorId};

/// A step at the peak that works on much of what is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// What kind of operation it is.
    pub family: Family,
    /// Whether it brought the pool to its peak; if not, it begins there.
    pub caused: bool,
    /// What its operands and results take of the peak; what it added, where the evidence has no tensors.
    pub per_bank: u64,
    /// Its result, where that is alive at the peak.
    pub result: Option<TensorId>,
}

/// Operations that are known for what they do to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Their results are as large as rows times columns.
    Matmul,
    /// They need buffers of their own between operand and result.
    Reduction,
}

impl Family {
    /// The family of an operation: `ttnn.matmul`, or `MatmulOp` where that is all that is printed.
    pub fn of(op: &str) -> Option<Self> {
        let name = op.rsplit('.').next()?;
        let name = name.strip_suffix("Op").unwrap_or(name).replace('_', "").to_ascii_lowercase();
        let is_reduction = matches!(
            &*name,
            "mean"
                | "sum"
                | "max"
                | "min"
                | "prod"
                | "argmax"
                | "cumsum"
                | "morehcumsum"
                | "softmax"
                | "layernorm"
                | "rmsnorm"
                | "groupnorm"
                | "batchnorm"
                | "topk"
                | "sort"
        ) || name.starts_with("reduction");
        match name {
            name if name.ends_with("matmul") || name.ends_with("linear") => Some(Self::Matmul),
            _ => is_reduction.then_some(Self::Reduction),
        }
    }
}

/// The step that brought DRAM to its peak and the one that begins there, if they are of a family that is known
/// and work on much of what is alive.
pub fn at_peak(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main() else { return Vec::new() };
    let caused = situation.cause(&pool);
    let begins = Some(pool.peak.at.position()).filter(|step| {
        *step < situation.span.end
            && Some(*step) != caused
            && situation.profile.op_kind(situation.rank, *step) == OpKind::Compute
    });
    let look = |step: Step, caused: bool| look(situation, &pool, step, caused);
    let found = [caused.and_then(|step| look(step, true)), begins.and_then(|step| look(step, false))];
    found.into_iter().flatten().collect()
}

fn look(situation: &Situation<'_>, pool: &PoolAtPeak<'_>, step: Step, caused: bool) -> Option<Finding> {
    let (profile, rank) = (situation.profile, situation.rank);
    let family = Family::of(profile.op_name(rank, step)?)?;
    let op = rank.op_id(step)?;
    let tensors = alive_at(situation, pool, step, &profile.ops.get(op)?.operands);
    let per_bank = if rank.has_tensors() { situation.sum(&tensors) } else { added(pool, step) };
    if !pool.is_share(per_bank, LARGE) {
        return None;
    }
    let result = tensors.iter().copied().find(|tensor| situation.made_by(*tensor) == Some(step));
    let saves = result.and_then(|_| fall_by_halves(situation, pool, op));
    let what = What::Busy(Busy { family, caused, per_bank, result });
    Some(Finding { step: Some(step), saves, ..pool.finding(what) })
}

/// What a step added to each bank.
fn added(pool: &PoolAtPeak<'_>, step: Step) -> u64 {
    let only = Span { first: step, end: step.saturating_add(1) };
    let effect = effects::effects(pool.account, only).next().and_then(|(_, effect)| effect);
    effect.map_or(0, |effect| u64::try_from(effect).unwrap_or(0))
}

/// The operands and results of a step that are alive at the peak.
fn alive_at(
    situation: &Situation<'_>,
    pool: &PoolAtPeak<'_>,
    step: Step,
    operands: &[StrId],
) -> Vec<TensorId> {
    let names = Names::of(situation.profile, situation.rank, &operands.iter().copied().collect());
    let operands: FxHashSet<TensorId> =
        operands.iter().filter_map(|operand| names.meant(step, *operand)).collect();
    let is_part = |tensor: &TensorId| situation.made_by(*tensor) == Some(step) || operands.contains(tensor);
    pool.alive(situation.rank).into_iter().filter(is_part).collect()
}

/// By how much the peak would fall if an operation made its results in two halves, one after the other.
fn fall_by_halves(situation: &Situation<'_>, pool: &PoolAtPeak<'_>, op: OpId) -> Option<u64> {
    let is_made = |tensor: &TensorId| {
        let step = situation.made_by(*tensor).filter(|step| *step >= situation.span.first);
        step.and_then(|step| situation.rank.op_id(step)) == Some(op)
    };
    let results = situation.ever_in(pool).filter(is_made);
    situation.fall_of(pool, results.map(|tensor| (tensor, situation.per_bank(tensor) / 2)))
}
