//! Memory that grows with every round of what a program repeats: a leak, or a cache.

use rustc_hash::FxHashMap;

use super::{Finding, PoolAtPeak, Situation, WORTH_SAYING, What};
use ttmem_model::{CallId, Class, Moment, OpId, Rank, ScopeId, ScopeKind, TensorId};

/// Fewer rounds than this do not show that something grows.
const FEWEST_ROUNDS: usize = 16;
/// The later rounds are looked at in so many parts.
const PARTS: usize = 4;

/// What is left behind by every round of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// What is repeated.
    pub scope: ScopeId,
    /// Over how many rounds.
    pub rounds: usize,
    /// How much more there is after these rounds, in each bank.
    pub per_bank: u64,
    /// The operation whose tensors grew most.
    pub most: Option<Grown>,
}

/// The tensors of an operation that became more, or larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grown {
    /// The operation.
    pub op: OpId,
    /// How they grew.
    pub how: How,
    /// How many tensors there are more, or how many were replaced by larger ones.
    pub count: usize,
    /// How much more they take, in each bank.
    pub per_bank: u64,
}

/// How the tensors of an operation grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Every round leaves more of them.
    More,
    /// There are as many as before; larger ones take their place, as `torch.cat` makes them.
    Larger,
    /// They are a cache of keys and values.
    Cache,
}

/// What is repeated most leaves something behind every time.
pub fn grows(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let Some((scope, calls)) = most_repeated(situation.rank) else { return Vec::new() };
    // What a program needs all the time, it has after the first half.
    let later = &calls[calls.len() / 2..];
    let begins = |call: &CallId| Moment::late(situation.rank.calls.first[call.index()]);
    let level = |at: Moment| pool.account.held(at).map(|held| held.per_bank);
    let Some(levels) = later.iter().map(|call| level(begins(call))).collect::<Option<Vec<u64>>>() else {
        return Vec::new();
    };
    let low = low_points(&levels);
    let (Some(&(first, lowest)), Some(&(last, highest))) = (low.first(), low.last()) else {
        return Vec::new();
    };
    // The rounds between the two low points, and not all that were looked at, have left this behind.
    let (rounds, per_bank) = (last - first, highest.saturating_sub(lowest));
    let at_end = level(Moment::late(situation.rank.end())).unwrap_or(0);
    let stays = at_end >= lowest.saturating_add(per_bank / 2);
    let rises = low.is_sorted_by(|(_, before), (_, after)| before < after);
    if !rises || !stays || !pool.is_share(per_bank, WORTH_SAYING) {
        return Vec::new();
    }
    let most = most_grown(situation, &pool, begins(&later[first]), begins(&later[last]));
    let step = most.and_then(|most| {
        (0..situation.rank.end()).rev().find(|step| situation.rank.op_id(*step) == Some(most.op))
    });
    let what = What::Grows(Growth { scope, rounds, per_bank, most });
    vec![Finding { step, ..pool.finding(what) }]
}

/// The lowest level of each part of some rounds, and in which round that is. A nested loop goes up and down: what
/// grows has ever higher low points.
fn low_points(levels: &[u64]) -> Vec<(usize, u64)> {
    let len = levels.len().div_ceil(PARTS).max(1);
    let part = |(number, part): (usize, &[u64])| {
        let (at, level) = part.iter().enumerate().min_by_key(|(_, level)| **level)?;
        Some((number * len + at, *level))
    };
    levels.chunks(len).enumerate().filter_map(part).collect()
}

/// The tensors of an operation that are alive at one of two moments.
#[derive(Default)]
struct Alive {
    before: (usize, u64),
    after: (usize, u64),
    /// Those of the later moment that are a cache.
    cache: (usize, u64),
}

/// The operation whose tensors take most more at a later moment than at an earlier one.
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
    // People know an operation by its name and line, whatever its stack.
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
    }
    let grown = |(op, alive): (OpId, Alive)| {
        let per_bank = alive.after.1.checked_sub(alive.before.1).filter(|more| *more > 0)?;
        let more = alive.after.0.saturating_sub(alive.before.0);
        let (how, count) = match more {
            _ if alive.cache.1 > alive.after.1 / 2 => (How::Cache, alive.cache.0),
            0 => (How::Larger, alive.after.0),
            more => (How::More, more),
        };
        Some(Grown { op, how, count, per_bank })
    };
    found.into_values().filter_map(grown).max_by_key(|grown| (grown.per_bank, std::cmp::Reverse(grown.op)))
}

/// The outermost scope that was called most often in one thread, and those calls, in order.
fn most_repeated(rank: &Rank) -> Option<(ScopeId, Vec<CallId>)> {
    let mut calls: FxHashMap<_, Vec<CallId>> = FxHashMap::default();
    for (index, call) in rank.calls.iter().enumerate() {
        let is_named = rank.scopes.get(call.scope.index())?.kind != ScopeKind::Framework;
        // Of earlier ones, a recording that has reached its limit has only some.
        let is_counted = rank.calls_since.is_none_or(|since| call.began >= since);
        if call.parent.is_none() && is_named && is_counted {
            calls.entry((call.scope, call.lane)).or_default().extend(CallId::new(index));
        }
    }
    let most = calls.into_iter().max_by_key(|(key, calls)| (calls.len(), std::cmp::Reverse(*key)));
    most.filter(|(_, calls)| calls.len() >= FEWEST_ROUNDS).map(|((scope, _), calls)| (scope, calls))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_points_say_in_which_round_they_are() {
        let steady: Vec<u64> = (0..20).map(|round| 100 + round * 7).collect();
        assert_eq!(low_points(&steady), [(0, 100), (5, 135), (10, 170), (15, 205)]);
        assert_eq!(low_points(&[9, 5, 8, 6, 7]), [(1, 5), (3, 6), (4, 7)]);
        assert_eq!(low_points(&[]), []);
    }
}
