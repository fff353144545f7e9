//! Memory grows with every call of a repeated part of the program: a leak or a cache.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use ttmem_model::{CallId, Class, Moment, OpId, Rank, ScopeId, ScopeKind, Step, TensorId};

use super::phrases::{brief, by_count};
use super::{Finding, MIN_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};

pub(super) const RULE: Rule =
    Rule { names: &["grows", "tensors_grow", "kv_cache_grows"], urgency: Urgency::Risk, find };

/// Minimum number of calls that can show whether memory grows.
const MIN_CALLS: usize = 16;
/// The number of parts that the later calls are divided into.
const PARTS: usize = 4;

/// The operation whose tensors grew most.
#[derive(Debug)]
struct Grown {
    op: OpId,
    how: How,
    /// The number of tensors that were added, or replaced by larger ones.
    count: usize,
    /// The total growth per bank.
    per_bank: u64,
    /// The tensors that are live only at the later moment.
    tensors: Vec<TensorId>,
}

/// How the tensors of an operation grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Every call leaves more tensors.
    More,
    /// The number of tensors is constant; larger ones replace them, as with `torch.cat`.
    Larger,
    /// The tensors are a KV cache.
    Cache,
}

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    situation.main_with_tensors().and_then(|pool| look(situation, &pool)).into_iter().collect()
}

fn look(situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Option<Finding> {
    let (scope, calls) = most_repeated(situation.rank)?;
    // In the first half, a program allocates memory that it keeps for the whole run.
    let later = &calls[calls.len() / 2..];
    let begins = |call: &CallId| Moment::late(situation.rank.calls.first[call.index()]);
    let level = |at: Moment| pool.account.held(at).map(|held| held.per_bank);
    let levels = later.iter().map(|call| level(begins(call))).collect::<Option<Vec<u64>>>()?;
    let low = low_points(&levels);
    let (&(first, lowest), &(last, highest)) = (low.first()?, low.last()?);
    // Only the calls between the two low points caused the difference.
    let (count, per_bank) = (last - first, highest.saturating_sub(lowest));
    let at_end = level(Moment::late(end_of_work(situation.rank))).unwrap_or(0);
    let stays = at_end >= lowest.saturating_add(per_bank / 2);
    let rises = low.is_sorted_by(|(_, before), (_, after)| before < after);
    if !rises || !stays || !pool.is_share(per_bank, MIN_SHARE) {
        return None;
    }
    let most = most_grown(situation, pool, begins(&later[first]), begins(&later[last]));
    let found = headline(situation, pool, scope, (count, per_bank));
    let Some(most) = most else { return Some(pool.finding("grows", Statement::new(found))) };
    let name = match most.how {
        How::More => "grows",
        How::Larger => "tensors_grow",
        How::Cache => "kv_cache_grows",
    };
    let is_of_it = |step: &Step| situation.rank.op_id(*step) == Some(most.op);
    let step = (0..situation.rank.end()).rev().find(is_of_it);
    let statement = most.explain(situation, pool, Statement::new(found));
    Some(pool.finding(name, statement).steps(step).tensors(most.tensors))
}

/// The position where the last call returned: a program that ends frees everything. The end of the rank if a call has not
/// returned.
fn end_of_work(rank: &Rank) -> Step {
    let ends = rank.calls.outcome.iter().map(|outcome| outcome.map(|outcome| outcome.end));
    ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max()).unwrap_or_else(|| rank.end())
}

fn headline(
    situation: &Situation<'_>,
    pool: &PoolAtPeak<'_>,
    scope: ScopeId,
    (count, per_bank): (usize, u64),
) -> String {
    let (profile, rank) = (situation.profile, situation.rank);
    let name = rank.scopes.get(scope.index()).map_or("an unnamed scope", |scope| profile.text(scope.name));
    let each = per_bank / u64::try_from(count.max(1)).unwrap_or(1);
    format!(
        "Each call to {} adds {} to {} on average: {} over {count} calls.",
        brief(name),
        pool.label.per_bank(each),
        pool.label.name,
        pool.label.with_total(per_bank),
    )
}

impl Grown {
    /// Adds which operation's tensors grow, and what to do about it.
    fn explain(&self, situation: &Situation<'_>, pool: &PoolAtPeak<'_>, found: Statement) -> Statement {
        let ops = &situation.profile.ops;
        let loc = ops.loc(self.op).map(|loc| format!(" at {}", brief(situation.profile.text(loc))));
        let op = ops.name(self.op).map_or_else(|| "an operation".into(), |op| situation.op(op));
        let count = self.count;
        let tensors =
            format!("{count} {} from {op}{}", by_count(count, "tensor", "tensors"), loc.unwrap_or_default());
        let more = pool.label.per_bank(self.per_bank);
        let (detail, advice) = match self.how {
            How::More => (
                format!("The largest part is {tensors}: {more}."),
                "If this is a leak, retain less: keep `loss.item()` instead of the loss with its graph, and avoid \
                 lists that only grow.",
            ),
            How::Larger => (
                format!(
                    "{tensors} {} replaced by larger ones, which take {more} more.",
                    by_count(count, "is", "are")
                ),
                "A KV cache grows like this with every token; to bound it, limit the number of tokens or allocate a \
                 fixed-size cache. If this is not a cache, drop data that is no longer needed before concatenating.",
            ),
            How::Cache => (
                format!(
                    "Most of it is the KV cache ({tensors}): {more}. It grows with every token, which is expected."
                ),
                "To bound it, limit the number of tokens, or use a fixed-size cache or a sliding window (in \
                 transformers, `cache_implementation=\"static\"`).",
            ),
        };
        found.detail(detail).advice(advice.to_owned())
    }
}

/// The lowest level in each part of the calls, with the index of its call. In a nested loop the level goes up and down;
/// if memory grows, each low point is higher than the one before.
fn low_points(levels: &[u64]) -> Vec<(usize, u64)> {
    let len = levels.len().div_ceil(PARTS).max(1);
    let part = |(number, part): (usize, &[u64])| {
        let (at, level) = part.iter().enumerate().min_by_key(|(_, level)| **level)?;
        Some((number * len + at, *level))
    };
    levels.chunks(len).enumerate().filter_map(part).collect()
}

/// The tensors of an operation that are live at one of two moments: their number and their size per bank.
#[derive(Default)]
struct Alive {
    before: (usize, u64),
    after: (usize, u64),
    /// The KV cache tensors at the later moment.
    cache: (usize, u64),
    /// The tensors that are live only at the later moment.
    new: Vec<TensorId>,
}

/// The operation whose tensors grew most between two moments.
fn most_grown(
    situation: &Situation<'_>,
    pool: &PoolAtPeak<'_>,
    earlier: Moment,
    later: Moment,
) -> Option<Grown> {
    let tensors = &situation.rank.tensors;
    let is_alive = |tensor: TensorId, at: Moment| {
        tensors.born[tensor.index()] <= at && at < tensors.dies[tensor.index()]
    };
    let ops = &situation.profile.ops;
    // Users identify an operation by its name and line, regardless of the call stack.
    let mut found: FxHashMap<_, (OpId, Alive)> = FxHashMap::default();
    for tensor in situation.ever_in(pool) {
        let (before, after) = (is_alive(tensor, earlier), is_alive(tensor, later));
        let op = situation.made_by(tensor).and_then(|step| situation.rank.op_id(step));
        let (true, Some(op)) = (before || after, op) else { continue };
        let (_, alive) = found.entry((ops.name(op), ops.loc(op))).or_insert_with(|| (op, Alive::default()));
        let bytes = situation.per_bank(tensor);
        let is_cache = after && tensors.class[tensor.index()] == Class::KvCache;
        let sums = [(before, &mut alive.before), (after, &mut alive.after), (is_cache, &mut alive.cache)];
        for (_, (count, sum)) in sums.into_iter().filter(|(counts, _)| *counts) {
            *count += 1;
            *sum = sum.saturating_add(bytes);
        }
        if !before {
            alive.new.push(tensor);
        }
    }
    let grown = |(op, alive): (OpId, Alive)| {
        let per_bank = alive.after.1.checked_sub(alive.before.1).filter(|more| *more > 0)?;
        let more = alive.after.0.saturating_sub(alive.before.0);
        let (how, count) = match more {
            _ if alive.cache.1 > alive.after.1 / 2 => (How::Cache, alive.cache.0),
            0 => (How::Larger, alive.after.0),
            more => (How::More, more),
        };
        Some(Grown { op, how, count, per_bank, tensors: alive.new })
    };
    found.into_values().filter_map(grown).max_by_key(|grown| (grown.per_bank, Reverse(grown.op)))
}

/// The outermost scope with the most calls in one thread, and those calls in order.
fn most_repeated(rank: &Rank) -> Option<(ScopeId, Vec<CallId>)> {
    let mut calls: FxHashMap<_, Vec<CallId>> = FxHashMap::default();
    for (index, call) in rank.calls.iter().enumerate() {
        let is_named = rank.scopes.get(call.scope.index())?.kind != ScopeKind::Framework;
        // A recording that reached its size limit contains only some of the earlier calls.
        let is_counted = rank.calls_since.is_none_or(|since| call.began >= since);
        if call.parent.is_none() && is_named && is_counted {
            calls.entry((call.scope, call.lane)).or_default().extend(CallId::new(index));
        }
    }
    let most = calls.into_iter().max_by_key(|(key, calls)| (calls.len(), Reverse(*key)));
    most.filter(|(_, calls)| calls.len() >= MIN_CALLS).map(|((scope, _), calls)| (scope, calls))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_points_have_the_index_of_their_call() {
        let steady: Vec<u64> = (0..20).map(|round| 100 + round * 7).collect();
        assert_eq!(low_points(&steady), [(0, 100), (5, 135), (10, 170), (15, 205)]);
        assert_eq!(low_points(&[9, 5, 8, 6, 7]), [(1, 5), (3, 6), (4, 7)]);
        assert_eq!(low_points(&[]), []);
    }
}
