//! Tensors are filled with a value long before the first operation that uses them.

use std::cmp::Reverse;

use ttmem_model::{Class, Moment, OpId, OpKind, Step, TensorId};

use super::phrases::by_count;
use super::{Effect, Finding, MIN_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::reshaping::CREATION;
use crate::analyze::simulation::Change;
use crate::analyze::uses;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "allocate_later";

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let early = early(situation, &pool);
    let born = |tensor: TensorId| situation.rank.tensors.born[tensor.index()];
    let at_peak = |(tensor, first): &&(TensorId, Step)| {
        born(*tensor) <= pool.peak.at && pool.peak.at < Moment::before(*first)
    };
    let listed: Vec<(TensorId, Step)> = early.iter().filter(at_peak).copied().collect();
    let tensors: Vec<TensorId> = listed.iter().map(|(tensor, _)| *tensor).collect();
    let per_bank = situation.sum(&tensors);
    let largest = listed.iter().max_by_key(|(tensor, first)| (situation.per_bank(*tensor), Reverse(*first)));
    let Some(&(largest, first)) = largest.filter(|_| pool.is_share(per_bank, MIN_SHARE)) else {
        return Vec::new();
    };
    let count = tensors.len();
    let statement = Statement::new(format!(
        "{count} {} allocated before the {} peak and not used until later: {}.",
        by_count(count, "tensor is", "tensors are"),
        pool.label.name,
        pool.share(per_bank),
    ))
    .detail(format!(
        "{} is the first to use {}, which step {} allocates.",
        situation.step(first),
        situation.name(largest),
        situation.made_by(largest).unwrap_or_default(),
    ));
    // The saving is that of these tensors only; the same operations run in every pass.
    let ops: Vec<_> = tensors.iter().filter_map(|tensor| situation.rank.made_by(*tensor)).collect();
    let is_same =
        |(tensor, _): &&(TensorId, Step)| situation.rank.made_by(*tensor).is_some_and(|op| ops.contains(&op));
    let later = early
        .iter()
        .filter(is_same)
        .map(|(tensor, first)| Change::AllocatedAt(*tensor, Moment::before(*first)));
    let how = by_count(
        count,
        "Allocating it right before its first use lowers",
        "Allocating each right before its first use lowers",
    );
    let steps = listed.iter().filter_map(|(tensor, _)| situation.made_by(*tensor));
    let finding = pool.finding(NAME, statement).steps(steps).tensors(tensors);
    vec![finding.effect(Effect::lowers(how, later.collect()))]
}

/// The tensors that an operation without tensor operands fills at least one step before their first use, and the step of
/// that use.
fn early(situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Vec<(TensorId, Step)> {
    let (profile, rank) = (situation.profile, situation.rank);
    if !uses::are_known(profile, rank) {
        return Vec::new();
    }
    let fills = |op: OpId| {
        let op = profile.ops.get(op).filter(|op| op.kind == OpKind::Compute)?;
        let name = profile.text(op.name).strip_prefix("ttnn.")?;
        (CREATION.contains(&name) && op.operand_types.iter().all(Option::is_none)).then_some(())
    };
    // For each operation, because there are far fewer of them than tensors.
    let fills: Vec<bool> = (0..profile.ops.len()).map(|op| OpId::new(op).and_then(fills).is_some()).collect();
    let is_created = |tensor: TensorId| {
        let step = situation.made_by(tensor).filter(|step| *step >= situation.span.first)?;
        let is_filled = rank.op_id(step).and_then(|op| fills.get(op.index())) == Some(&true);
        let is_const_eval = || rank.run_of(step).is_some_and(|run| run.const_eval);
        (is_filled && !is_const_eval()).then_some(step)
    };
    let is_weight = |tensor: &TensorId| rank.tensors.class[tensor.index()] == Class::Weight;
    let candidates: Vec<(TensorId, Step)> = situation
        .ever_in(pool)
        .filter(|tensor| !is_weight(tensor))
        .filter_map(|tensor| Some((tensor, is_created(tensor)?)))
        .collect();
    let tensors = candidates.iter().map(|(tensor, _)| *tensor);
    let uses = uses::uses(profile, rank, situation.span, tensors);
    let first = |(tensor, made): (TensorId, Step)| {
        let first = uses.get(&tensor)?.first?;
        // It stays in its program.
        let is_same_run = rank.steps.run.get(made as usize) == rank.steps.run.get(first as usize);
        (is_same_run && first > made.saturating_add(1)).then_some((tensor, first))
    };
    candidates.into_iter().filter_map(first).collect()
}
