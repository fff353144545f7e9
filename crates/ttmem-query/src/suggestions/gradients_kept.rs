//! Gradients stay allocated after the optimizer has used them, until the next backward pass.

use ttmem_model::{Class, Moment, Rank, ScopeKind, TensorId};

use super::{Effect, Finding, MIN_SHARE, Rule, Situation, Statement, Urgency};
use crate::analyze::simulation::Change;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "gradients_kept";

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let rank = situation.rank;
    let Some(pool) = situation.main_with_tensors().filter(|_| !rank.calls.is_empty()) else {
        return Vec::new();
    };
    let ends = ends_of_optimizer_steps(rank);
    let is_gradient = |tensor: &TensorId| rank.tensors.class[tensor.index()] == Class::Gradient;
    let freed: Vec<(TensorId, Moment)> = situation
        .ever_in(&pool)
        .filter(is_gradient)
        .filter_map(|tensor| Some((tensor, used_until(rank, tensor, &ends)?)))
        .collect();
    let at_peak = |(tensor, from): &&(TensorId, Moment)| {
        *from <= pool.peak.at && pool.peak.at < rank.tensors.dies[tensor.index()]
    };
    let listed: Vec<TensorId> = freed.iter().filter(at_peak).map(|(tensor, _)| *tensor).collect();
    let per_bank = situation.sum(&listed);
    if !pool.is_share(per_bank, MIN_SHARE) {
        return Vec::new();
    }
    let statement = Statement::new(format!(
        "Gradients that the optimizer has already used are still allocated at the {} peak: {}.",
        pool.label.name,
        pool.share(per_bank)
    ));
    let changes = freed.into_iter().map(|(tensor, at)| Change::FreedAt(tensor, at)).collect();
    let effect = Effect::lowers(
        "Calling optimizer.zero_grad() right after optimizer.step(), instead of before the backward pass, lowers",
        changes,
    );
    vec![pool.finding(NAME, statement).tensors(listed).effect(effect)]
}

/// The positions where calls of optimizers end, in order.
fn ends_of_optimizer_steps(rank: &Rank) -> Vec<u32> {
    let is_optimizer = |call: &usize| {
        let scope = rank.calls.scope[*call];
        rank.scopes.kind.get(scope.index()) == Some(&ScopeKind::Optimizer)
    };
    let calls = (0..rank.calls.len()).filter(is_optimizer);
    let mut ends: Vec<u32> = calls.filter_map(|call| Some(rank.calls.outcome[call]?.end)).collect();
    ends.sort_unstable();
    ends
}

/// The moment after the last step of an optimizer that saw a gradient, if the program later frees the gradient. The
/// gradients of the last iteration are not freed, and do not count.
fn used_until(rank: &Rank, tensor: TensorId, ends: &[u32]) -> Option<Moment> {
    let (born, dies) = (rank.tensors.born[tensor.index()], rank.tensors.dies[tensor.index()]);
    let last = ends.partition_point(|end| Moment::late(*end) < dies).checked_sub(1)?;
    let end = *ends.get(last)?;
    // The states at the end of the step are those with the gradient.
    let from = Moment::early(end.saturating_add(1));
    (dies != Moment::NEVER && born < Moment::early(end) && from < dies).then_some(from)
}
