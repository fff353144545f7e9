//! Memory that no tensor explains, attributed to the operations that left it allocated.
//!
//! On a real card, some operations keep memory that is not part of a tensor layout: mapping tables, prepared weights,
//! cached kernels. The unexplained bytes are compared from state to state, and each change is attributed to the
//! operation that ran between the two states.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{Moment, OpId, OpKind, Profile, Rank, Step, StrId, TypeId, difference};

use super::Account;

/// The cause of a change of the unexplained bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Allocated before the first step.
    Before,
    /// Changed between two programs.
    Outside,
    /// The step between two states.
    Step(Step),
    /// One of several steps between two states.
    OneOf(Step, Step),
}

/// A change of the unexplained bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The moment when it was observed.
    pub at: Moment,
    /// The change per bank.
    pub per_bank: i64,
    /// The step or event that the change is attributed to.
    pub who: Who,
}

/// The changes of a pool's unexplained bytes up to a moment. They add up to the unexplained bytes at that moment,
/// except for the rounding of one state.
pub fn changes(profile: &Profile, account: &Account<'_>, until: Moment) -> Vec<Change> {
    let (rank, pool) = (account.rank, account.pool);
    let starts: FxHashSet<u32> = rank.top_level_runs().map(|(_, run)| run.first).collect();
    let mut found = Vec::new();
    if account.is_all_explained() {
        return found;
    }
    let Some(mut sums) = account.explained_cursor(Moment::START) else { return found };
    // In the thinned part of a recording, the tensors are known only at some moments.
    let thinned = rank.thinned.filter(|_| rank.tensors.pool.contains(&account.id));
    let known = Moment::early(thinned.map_or(0, |thinned| thinned.until));
    let mut before: Option<(Moment, i64)> = None;
    let readings = account.readings().skip_while(|(at, _)| *at < known);
    for (at, allocated) in readings.take_while(|(at, _)| *at <= until) {
        let explained = sums.value_at(at).unwrap_or(0);
        let unexplained = difference(allocated, explained);
        let (since, level) = before.unwrap_or((Moment::START, 0));
        let change = unexplained.saturating_sub(level);
        // A change within the rounding is ignored. The level is kept, so that small changes still add up.
        if change.unsigned_abs() <= pool.quantum {
            before = Some((at, level));
            continue;
        }
        let who = if before.is_none() { Who::Before } else { who(profile, rank, since, at, &starts) };
        found.push(Change { at, per_bank: change, who });
        before = Some((at, unexplained));
    }
    found
}

/// The cause of a change between two states.
fn who(profile: &Profile, rank: &Rank, since: Moment, at: Moment, starts: &FxHashSet<u32>) -> Who {
    let steps = since.position()..at.position();
    if steps.is_empty() || (at == Moment::late(at.position()) && starts.contains(&at.position())) {
        return Who::Outside;
    }
    let keeps = |step: &Step| matches!(profile.op_kind(rank, *step), OpKind::Compute | OpKind::Call);
    let mut computing = steps.clone().filter(keeps);
    match (computing.next(), computing.next()) {
        (Some(step), None) => Who::Step(step),
        (None, _) if steps.len() == 1 => Who::Step(steps.start),
        _ => Who::OneOf(steps.start, steps.end - 1),
    }
}

/// The unexplained bytes attributed to an operation, over all its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// The operation's name; `None` if the bytes are not attributed to a single operation.
    pub op: Option<StrId>,
    /// The cause, if it is not a single operation.
    pub who: Option<Who>,
    /// The unexplained bytes per bank.
    pub per_bank: i64,
    /// The steps that changed them.
    pub steps: Vec<Step>,
    /// The number of these steps that ran with types and attributes not used before.
    pub first_uses: usize,
}

/// The unexplained bytes of a pool at a moment, by operation, largest first.
pub fn by_operation(profile: &Profile, account: &Account<'_>, until: Moment) -> Vec<LeftBehind> {
    let rank = account.rank;
    let changes = changes(profile, account, until);
    if changes.is_empty() {
        return Vec::new();
    }
    let first = first_uses(profile, rank);
    let mut rows: BTreeMap<(Option<StrId>, u8), LeftBehind> = BTreeMap::new();
    for change in changes {
        let (op, kind) = match change.who {
            Who::Step(step) => (rank.op_id(step).and_then(|op| profile.ops.name(op)), 0),
            Who::Before => (None, 1),
            Who::Outside => (None, 2),
            Who::OneOf(..) => (None, 3),
        };
        let row = rows.entry((op, kind)).or_insert_with(|| LeftBehind {
            op,
            who: op.is_none().then_some(change.who),
            per_bank: 0,
            steps: Vec::new(),
            first_uses: 0,
        });
        row.per_bank = row.per_bank.saturating_add(change.per_bank);
        if let Who::Step(step) = change.who {
            row.steps.push(step);
            row.first_uses += usize::from(first.contains(&step));
        }
    }
    let mut rows: Vec<LeftBehind> = rows.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.per_bank.unsigned_abs()));
    rows
}

/// The key of an execution in a program cache: everything except names and locations.
type Signature = (StrId, Vec<Option<TypeId>>, Vec<Option<TypeId>>, Option<StrId>);

/// The steps that run their operation with types and attributes not used before.
fn first_uses(profile: &Profile, rank: &Rank) -> FxHashSet<Step> {
    let mut seen_ops: FxHashSet<OpId> = FxHashSet::default();
    let mut first: FxHashMap<Signature, Step> = FxHashMap::default();
    for (step, &op) in (0..).zip(&rank.steps.op) {
        if !seen_ops.insert(op) {
            continue;
        }
        if let Some(op) = profile.ops.get(op) {
            first.entry((op.name, op.operand_types, op.result_types, op.attributes)).or_insert(step);
        }
    }
    first.into_values().collect()
}
