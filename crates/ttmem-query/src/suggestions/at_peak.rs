//! The operands and result of a matmul or reduction at the peak are a large part of it.

use rustc_hash::FxHashSet;
use ttmem_model::{OpId, OpKind, Step, StrId, TensorId};

use super::{Effect, Finding, LARGE_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::names::Names;
use crate::analyze::simulation::Change;
use crate::analyze::{Span, effects};

pub(super) const RULE: Rule = Rule::new(&["matmul_at_peak", "reduction_at_peak"], Urgency::Change, find);

/// Operations whose memory use is well understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// The result has rows times columns elements.
    Matmul,
    /// May need intermediate buffers.
    Reduction,
}

impl Family {
    /// The family of an operation, which is named `ttnn.matmul`, or `MatmulOp` in some inputs.
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
        let intermediate = "The operation may also need intermediate buffers, which are not included.";
        (self == Self::Reduction).then(|| intermediate.to_owned())
    }
}

/// Examines the step that brought the pool to its peak, and the step that begins there.
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
    let changes = result.map_or_else(Vec::new, |_| computed_in_halves(situation, pool, op));
    let (does, place) = if caused { ("brings", "to its peak") } else { ("starts with", "at its peak") };
    let takes = match result.and_then(|result| situation.ty(result)) {
        Some(ty) => format!("its operands and result, {}, take", situation.typed(ty)),
        None if rank.has_tensors() => "its operands take".into(),
        None => "it adds".into(),
    };
    let split = "Computing its result in two halves, each consumed before the next is allocated, lowers";
    let effect = Effect::lowers(split, changes)
        .otherwise("Split the operation so that less of this memory is live at once.".to_owned());
    let statement = Statement::new(format!(
        "{} {does} {} {place}: {takes} {}.",
        situation.step(step),
        pool.label.name,
        pool.share(per_bank)
    ))
    .detail(family.detail());
    Some(pool.finding(family.name(), statement).steps([step]).tensors(tensors).effect(effect))
}

/// The increase caused by a step, per bank.
fn added(pool: &PoolAtPeak<'_>, step: Step) -> u64 {
    let only = Span { first: step, end: step.saturating_add(1) };
    let effect = effects::effects(pool.account, only).next().and_then(|(_, effect)| effect);
    effect.map_or(0, |effect| u64::try_from(effect).unwrap_or(0))
}

/// The operands and results of a step that are live at the peak.
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

/// An operation computes its results in two halves, one after the other.
fn computed_in_halves(situation: &Situation<'_>, pool: &PoolAtPeak<'_>, op: OpId) -> Vec<Change> {
    let is_made = |tensor: &TensorId| {
        let step = situation.made_by(*tensor).filter(|step| *step >= situation.span.first);
        step.and_then(|step| situation.rank.op_id(step)) == Some(op)
    };
    let results = situation.ever_in(pool).filter(is_made);
    results.map(|tensor| Change::Smaller(tensor, situation.per_bank(tensor) / 2)).collect()
}
