//! Tensors that the failing operation does not use fill L1.

use std::cmp::Reverse;

use rustc_hash::FxHashSet;
use ttmem_model::{Moment, StrId, TensorId};

use super::phrases::by_count;
use super::{Effect, Finding, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::names::Names;
use crate::analyze::oom::Cause;
use crate::analyze::simulation::Change;
use crate::analyze::ways_out::ways_out;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "l1_residents";

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    look(situation).into_iter().collect()
}

fn look(situation: &Situation<'_>) -> Option<Finding> {
    let verdict = situation.verdict.filter(|verdict| verdict.cause == Cause::Capacity)?;
    let (step, lacks) = (verdict.fault.step?, verdict.lacks()?);
    let pool = *situation.pools.iter().find(|pool| pool.label.name == "L1" && situation.ran_out("L1"))?;
    // Ways out are about the same tensors, and are verified.
    let has_ways_out = || {
        let found = ways_out(situation.profile, situation.rank, verdict.fault);
        found.is_some_and(|found| !found.ways.is_empty())
    };
    let mut others = unused_by(situation, &pool, step);
    others.sort_by_key(|tensor| (Reverse(situation.per_bank(*tensor)), *tensor));
    let mut freed = 0_u64;
    let mut enough = Vec::new();
    for tensor in &others {
        if freed >= lacks {
            break;
        }
        freed = freed.saturating_add(situation.per_bank(*tensor));
        enough.push(*tensor);
    }
    if freed < lacks || enough.is_empty() || has_ways_out() {
        return None;
    }
    let (all, count) = (others.len(), enough.len());
    let statement = Statement::new(format!(
        "{} finds {all} L1 {} that it does not use: {}.",
        situation.step(step),
        by_count(all, "tensor", "tensors"),
        pool.share(situation.sum(&others)),
    ));
    let advice = format!(
        "Moving the largest {} to DRAM frees {}, which is as much as the operation lacks.",
        by_count(count, "one", &count.to_string()),
        pool.label.per_bank(freed),
    );
    let changes = enough.iter().map(|tensor| Change::NotAllocated(*tensor)).collect();
    let effect = Effect::lowers(format!("{advice} It lowers"), changes).otherwise(advice);
    Some(pool.finding(NAME, statement).steps([step]).tensors(enough).effect(effect))
}

/// The tensors in L1 when a step begins that are not among its operands.
fn unused_by(situation: &Situation<'_>, pool: &PoolAtPeak<'_>, step: u32) -> Vec<TensorId> {
    let (profile, rank) = (situation.profile, situation.rank);
    let operands: Vec<StrId> = profile.op_of(rank, step).map(|op| op.operands).unwrap_or_default();
    // Without operands, it is unknown what the operation uses.
    if operands.is_empty() {
        return Vec::new();
    }
    let names = Names::of(profile, rank, &operands.iter().copied().collect());
    let used: FxHashSet<TensorId> = operands.iter().filter_map(|name| names.meant(step, *name)).collect();
    let live = rank.live(pool.account.id, Moment::before(step)).filter_map(TensorId::new);
    live.filter(|tensor| !used.contains(tensor) && situation.per_bank(*tensor) > 0).collect()
}
