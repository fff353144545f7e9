//! A matmul or a reduction at the peak works on much of what is alive.

use rustc_hash::FxHashSet;
use ttmem_model::{OpId, OpKind, Step, StrId, TensorId};

use super::{Finding, LARGE_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::names::Names;
use crate::analyze::{Span, effects};

pub(super) const RULE: Rule =
    Rule { names: &["matmul_at_peak", "reduction_at_peak"], urgency: Urgency::Change, find };

/// Operations whose need for memory is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// Their results have rows times columns elements.
    Matmul,
    /// They need buffers between operand and result.
    Reduction,
}

impl Family {
    /// The family of an operation: `ttnn.matmul`, or `MatmulOp` where the evidence has only that.
    fn of(op: &str) -> Option<Self> {
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

    fn name(self) -> &'static str {
        match self {
            Self::Matmul => "matmul_at_peak",
            Self::Reduction => "reduction_at_peak",
        }
    }

    fn detail(self) -> Option<String> {
        let in_between = "It may need buffers in between, which no state shows.";
        (self == Self::Reduction).then(|| in_between.to_owned())
    }
}

/// Looks at the step that brought the pool to its peak, and at the one that begins there.
fn find(situation: &Situation<'_>) -> Vec<Finding> {
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
    if !pool.is_share(per_bank, LARGE_SHARE) {
        return None;
    }
    let result = tensors.iter().copied().find(|tensor| situation.made_by(*tensor) == Some(step));
    let saves = result.and_then(|_| fall_by_halves(situation, pool, op));
    let (does, place) = if caused { ("brings", "to its peak") } else { ("begins with", "at its peak") };
    let takes = match result.and_then(|result| situation.ty(result)) {
        Some(ty) => format!("its operands and result, {}, take", situation.typed(ty)),
        None if rank.has_tensors() => "its operands take".into(),
        None => "it adds".into(),
    };
    let split = "Split in two halves, each used before the next is made, its result lowers";
    let split = pool
        .lowers(split, saves)
        .unwrap_or_else(|| "Split it, so that less of that is there at once.".into());
    let statement = Statement::new(format!(
        "{} {does} {} {place}: {takes} {}.",
        situation.step(step),
        pool.label.name,
        pool.share(per_bank)
    ))
    .detail(family.detail())
    .advice(split);
    Some(pool.finding(family.name(), statement).steps([step]).tensors(tensors).saves(saves))
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
    situation.alive(pool).filter(is_part).collect()
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
