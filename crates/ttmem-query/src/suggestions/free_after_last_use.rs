//! Tensors stay allocated after the last operation that uses them.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{Moment, OpId, Step, TensorId};

use super::phrases::by_count;
use super::{Effect, Finding, MIN_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::simulation::{Change, Simulation};
use crate::analyze::uses;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "free_after_last_use";

/// How often the next highest moment is looked at: each pass of a program may have the same peak.
const MAX_ROUNDS: usize = 32;

/// Tensors that are at most this fraction of the peak are not looked at.
const SMALL: u64 = 4096;

/// A tensor that could be freed earlier.
#[derive(Clone, Copy, Debug)]
struct Idle {
    tensor: TensorId,
    last_use: Step,
    /// When it would be free: a deallocation right after the last use is another step.
    from: Moment,
}

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let idle = idle(situation, &pool);
    if idle.is_empty() {
        return Vec::new();
    }
    let chosen = chosen(situation, &pool, &idle);
    let dies = |tensor: TensorId| situation.rank.tensors.dies[tensor.index()];
    let at_peak = |one: &&Idle| one.from <= pool.peak.at && pool.peak.at < dies(one.tensor);
    let listed: Vec<Idle> = chosen.iter().filter(at_peak).copied().collect();
    let tensors: Vec<TensorId> = listed.iter().map(|one| one.tensor).collect();
    let per_bank = situation.sum(&tensors);
    let Some(largest) =
        listed.iter().max_by_key(|one| (situation.per_bank(one.tensor), Reverse(one.last_use)))
    else {
        return Vec::new();
    };
    if !pool.is_share(per_bank, MIN_SHARE) {
        return Vec::new();
    }
    let count = tensors.len();
    let statement = Statement::new(format!(
        "{count} {} allocated at the {} peak although no later operation uses {}: {}.",
        by_count(count, "tensor is", "tensors are"),
        pool.label.name,
        by_count(count, "it", "them"),
        pool.share(per_bank),
    ))
    .detail(format!(
        "{} is the last to use {}, which step {} deallocates.",
        situation.step(largest.last_use),
        situation.name(largest.tensor),
        dies(largest.tensor).position().saturating_sub(1),
    ));
    let how = format!("Deallocating {} right after its last use lowers", by_count(count, "it", "each"));
    let mut steps: Vec<Step> = listed.iter().map(|one| one.last_use).collect();
    steps.sort_unstable();
    steps.dedup();
    let effect = Effect::lowers(how, chosen.iter().map(freed).collect());
    vec![pool.finding(NAME, statement).steps(steps).tensors(tensors).effect(effect)]
}

fn freed(one: &Idle) -> Change {
    Change::FreedAt(one.tensor, one.from)
}

/// The tensors of a pool that are freed explicitly, but at least one step later than possible.
fn idle(situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Vec<Idle> {
    let (profile, rank) = (situation.profile, situation.rank);
    if !uses::are_known(profile, rank) {
        return Vec::new();
    }
    let dies = |tensor: TensorId| rank.tensors.dies[tensor.index()];
    let may_be_idle = |tensor: &TensorId| {
        let made = situation.made_by(*tensor).filter(|step| *step >= situation.span.first);
        made.is_some_and(|step| Moment::after(step.saturating_add(1)) < dies(*tensor))
            && situation.per_bank(*tensor) > pool.peak.per_bank / SMALL
            && uses::is_deallocated(profile, rank, *tensor)
    };
    let candidates: Vec<TensorId> = situation.ever_in(pool).filter(may_be_idle).collect();
    let uses = uses::uses(profile, rank, situation.span, candidates.iter().copied());
    let idle = candidates.into_iter().filter_map(|tensor| {
        let last_use = uses.get(&tensor)?.last;
        let from = Moment::after(last_use.saturating_add(1));
        (from < dies(tensor)).then_some(Idle { tensor, last_use, from })
    });
    idle.collect()
}

/// Those that lower the peak: the ones that are idle at the highest moment, then at the one that is highest without them,
/// and so on. Results of the same operation are freed in all passes.
fn chosen(situation: &Situation<'_>, pool: &PoolAtPeak<'_>, idle: &[Idle]) -> Vec<Idle> {
    let rank = situation.rank;
    let all: Vec<Change> = idle.iter().map(freed).collect();
    let simulation = Simulation::new(pool.account, situation.span, &all);
    let mut by_op: FxHashMap<OpId, Vec<usize>> = FxHashMap::default();
    for (index, one) in idle.iter().enumerate() {
        if let Some(op) = rank.made_by(one.tensor).filter(|_| rank.usages.is_empty()) {
            by_op.entry(op).or_default().push(index);
        }
    }
    let (mut chosen, mut changes, mut seen) = (Vec::new(), Vec::new(), FxHashSet::default());
    for _ in 0..MAX_ROUNDS {
        let (Some(at), _) = simulation.highest_with(&changes) else { break };
        let is_idle = |one: &Idle| one.from <= at && at < rank.tensors.dies[one.tensor.index()];
        let before = chosen.len();
        for (index, one) in idle.iter().enumerate().filter(|(_, one)| is_idle(one)) {
            let op = rank.made_by(one.tensor);
            let same = op.and_then(|op| by_op.get(&op)).map_or(&[][..], Vec::as_slice);
            for &index in same.iter().chain([&index]) {
                if seen.insert(index) {
                    chosen.push(idle[index]);
                }
            }
        }
        if chosen.len() == before {
            break;
        }
        changes = chosen.iter().map(freed).collect();
    }
    chosen
}
