//! The named parts of a program: the tensors they allocated, and the totals of their calls.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{
    CallEnd, CallTotals, Class, Nanoseconds, Profile, Rank, Scope, ScopeId, ScopeKind, StrId, TensorId,
};

use super::answer::{MadeIn, Ran};
use crate::analyze::scopes::{Alike, totals};

/// The named parts of a program.
pub(super) struct Parts<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    alike: Alike<'a>,
}

impl<'a> Parts<'a> {
    /// The named parts of a rank; `None` if it has none.
    pub fn of(profile: &'a Profile, rank: &'a Rank) -> Option<Self> {
        let has_scopes = rank.scopes.iter().next().is_some();
        has_scopes.then(|| Self { profile, rank, alike: Alike::new(profile, rank) })
    }

    /// The name of the part that allocated a tensor.
    pub fn name(&self, tensor: TensorId) -> Option<String> {
        let scope = self.rank.scopes.get(self.rank.made_in(tensor)?.index())?;
        Some(self.profile.text(scope.name).to_owned())
    }

    /// That name with `*` in place of layer numbers.
    pub fn layers(&self, tensor: TensorId) -> Option<String> {
        self.alike.name(self.rank.made_in(tensor)?)
    }

    /// The parts that allocated tensors, largest first; similar layers are one row. Tensors of the model itself are not
    /// included: they have names, and it does not matter where they were allocated.
    pub fn makers(&self, tensors: &[TensorId]) -> Vec<MadeIn> {
        #[derive(Default)]
        struct Sum {
            names: FxHashSet<StrId>,
            tensors: usize,
            per_bank: u64,
        }
        let mut sums: FxHashMap<Option<(String, ScopeKind)>, Sum> = FxHashMap::default();
        for tensor in tensors.iter().filter(|tensor| self.is_made(**tensor)) {
            let scope = self.rank.made_in(*tensor);
            let row = scope.and_then(|scope| self.rank.scopes.get(scope.index()));
            let kind = row.as_ref().map(|row| row.kind);
            let sum = sums.entry(scope.and_then(|scope| self.alike.name(scope)).zip(kind)).or_default();
            sum.names.extend(row.map(|row| row.name));
            sum.tensors += 1;
            sum.per_bank = sum.per_bank.saturating_add(self.rank.tensors.per_bank[tensor.index()].or_zero());
        }
        let row = |(who, sum): (Option<(String, ScopeKind)>, Sum)| {
            let (name, kind) = who.unzip();
            let kind = kind.map(ScopeKind::as_str);
            MadeIn { name, kind, scopes: sum.names.len(), tensors: sum.tensors, per_bank: sum.per_bank }
        };
        let mut rows: Vec<MadeIn> = sums.into_iter().map(row).collect();
        rows.sort_by(|a, b| b.per_bank.cmp(&a.per_bank).then_with(|| a.name.cmp(&b.name)));
        rows
    }

    /// Whether a tensor was produced by running the model: neither part of the model nor an input.
    fn is_made(&self, tensor: TensorId) -> bool {
        let class = self.rank.tensors.class.get(tensor.index());
        matches!(class, Some(Class::Activation | Class::Temporary | Class::Unknown))
    }

    /// The calls in order, with their totals: named operations, models, backward passes and optimizer steps, but not
    /// the modules inside models.
    pub fn ran(&self) -> Vec<Ran> {
        let mut children: BTreeMap<Option<ScopeId>, Vec<ScopeId>> = BTreeMap::new();
        for (index, scope) in self.rank.scopes.iter().enumerate() {
            children.entry(scope.parent).or_default().extend(ScopeId::new(index));
        }
        let (totals, untracked, mut retained) = (totals(self.rank), self.untracked(), self.retained());
        let mut rows = Vec::new();
        let top = children.get(&None).into_iter().flatten().rev();
        let mut waiting: Vec<(ScopeId, usize)> = top.map(|scope| (*scope, 0)).collect();
        while let Some((id, depth)) = waiting.pop() {
            let Some(scope) = self.rank.scopes.get(id.index()) else { continue };
            let is_listed = !self.is_part(&scope);
            if is_listed {
                let of = |totals: &[CallTotals]| totals.get(id.index()).copied().unwrap_or_default();
                let untracked = untracked.get(id.index()).copied().unwrap_or_default();
                let row = self.row(&scope, depth, &of(&totals), &untracked);
                rows.push(with_retained(row, retained.get_mut(id.index())));
            }
            let inside = children.get(&Some(id)).into_iter().flatten().rev();
            waiting.extend(inside.map(|scope| (*scope, depth + usize::from(is_listed))));
        }
        rows
    }

    /// Whether a scope belongs to another row: a module of a model or of its backward pass, or a framework operation.
    fn is_part(&self, scope: &Scope) -> bool {
        let parent = scope.parent.and_then(|parent| self.rank.scopes.kind.get(parent.index()));
        let is_module = |kind| matches!(kind, ScopeKind::Forward | ScopeKind::Backward);
        scope.kind == ScopeKind::Framework
            || is_module(scope.kind) && parent.is_some_and(|kind| is_module(*kind))
    }

    fn row(&self, scope: &Scope, depth: usize, totals: &CallTotals, untracked: &Untracked) -> Ran {
        // If one call is unknown, so is the sum.
        let known = (untracked.calls == 0 && totals.count > 0).then_some(totals);
        let change = known.map(CallTotals::change);
        Ran {
            name: self.profile.text(scope.name).to_owned(),
            kind: scope.kind.as_str(),
            depth,
            calls: totals.count.saturating_add(untracked.calls),
            running: untracked.running,
            time_ns: untracked.is_timed().then(|| totals.time.saturating_add(untracked.time)),
            longest_ns: untracked.is_timed().then(|| totals.longest.max(untracked.longest)),
            peak_bytes: known.map(|totals| totals.peak),
            allocated_bytes: known.map(|totals| totals.allocated),
            kept_bytes: known.map(|totals| totals.kept),
            retained_per_call_bytes: None,
            retaining_calls: None,
            change_bytes: change.or_else(|| untracked.change.filter(|_| totals.count == 0)),
        }
    }

    /// The bytes that each finished call retained, by scope.
    fn retained(&self) -> Vec<Vec<u64>> {
        let mut retained = vec![Vec::new(); self.rank.scopes.len()];
        for call in self.rank.calls.iter() {
            if let (Some(outcome), Some(of)) = (call.outcome, retained.get_mut(call.scope.index())) {
                of.push(outcome.kept);
            }
        }
        retained
    }

    /// The calls without an outcome, by scope: those that were still running, and those recorded by another source.
    fn untracked(&self) -> Vec<Untracked> {
        let mut found = vec![Untracked::default(); self.rank.scopes.len()];
        for (index, call) in self.rank.calls.iter().enumerate() {
            let (None, Some(of)) = (call.outcome, found.get_mut(call.scope.index())) else { continue };
            let took = match self.rank.call_end(index) {
                CallEnd::Open => {
                    of.running += 1;
                    continue;
                }
                CallEnd::At(ended) => ended.saturating_sub(call.began),
                CallEnd::Unknown => {
                    of.untimed += 1;
                    0
                }
            };
            let before = if of.calls == 0 { Some(0) } else { of.change };
            of.change = before.zip(self.rank.call_change(index)).map(|(sum, more)| sum.saturating_add(more));
            of.calls += 1;
            of.time = of.time.saturating_add(took);
            of.longest = of.longest.max(took);
        }
        found
    }
}

/// A row with what its calls retained, if it is known.
fn with_retained(row: Ran, calls: Option<&mut Vec<u64>>) -> Ran {
    let Some(calls) = calls.filter(|calls| !calls.is_empty() && row.kept_bytes.is_some()) else { return row };
    let is_every_call = calls.len() as u64 == row.calls;
    let retaining = calls.iter().filter(|bytes| **bytes > 0).count() as u64;
    // Of two in the middle, the lower one: what half of the calls retain is not what a call retains.
    let middle = (calls.len() - 1) / 2;
    let (_, median, _) = calls.select_nth_unstable(middle);
    Ran { retained_per_call_bytes: Some(*median), retaining_calls: is_every_call.then_some(retaining), ..row }
}

/// Calls of a scope that were not tracked to their end.
#[derive(Clone, Copy, Default)]
struct Untracked {
    /// Calls that were still running when the input ended.
    running: u64,
    /// Calls that finished.
    calls: u64,
    /// Finished calls whose duration is unknown.
    untimed: u64,
    time: Nanoseconds,
    longest: Nanoseconds,
    change: Option<i64>,
}

impl Untracked {
    /// Whether the duration of every call is known.
    fn is_timed(&self) -> bool {
        self.untimed == 0
    }
}
