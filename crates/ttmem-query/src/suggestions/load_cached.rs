//! Const-eval results are a large part of the peak. This is normal, and explains the peak.

use ttmem_model::{Class, OpKind, Step, TensorId};

use super::{Finding, LARGE_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Note, find);

const NAME: &str = "load_cached";

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let steps = situation.span.first..situation.span.end;
    let is_load = |step: &Step| situation.profile.op_kind(situation.rank, *step) == OpKind::LoadCached;
    let loads: Vec<Step> = steps.filter(is_load).collect();
    let (Some(first), Some(last)) = (loads.first(), loads.last()) else { return Vec::new() };
    let made = made_by_const_eval(situation, &pool);
    let per_bank = situation.sum(&made);
    if !pool.is_share(per_bank, LARGE_SHARE) {
        return Vec::new();
    }
    let total = situation.rank.steps.len();
    let who = match loads.len() {
        1 => format!("Step {first} of {total}, ttcore.load_cached, loads"),
        count => format!("{count} ttcore.load_cached, steps {first} to {last} of {total}, load"),
    };
    let statement = Statement::new(format!(
        "{who} weights that const-eval programs computed once; they take {} and stay allocated.",
        pool.share(per_bank)
    ))
    .detail("This is normal.".to_owned());
    vec![pool.finding(NAME, statement).steps(loads).tensors(made)]
}

/// The const-eval results that are live at the peak.
pub(super) fn made_by_const_eval(situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Vec<TensorId> {
    // No other operation produces weights.
    let is_made = |tensor: &TensorId| {
        situation.rank.tensors.class[tensor.index()] == Class::Weight
            && situation.profile.made(situation.rank, *tensor).op.is_some()
    };
    situation.alive(pool).filter(is_made).collect()
}
