//! What the parts of a program did, as the program names them: who made what is alive, and what its operations came to.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{
    CallEnd, CallTotals, Class, Nanoseconds, Profile, Rank, Scope, ScopeId, ScopeKind, StrId, TensorId,
};

use super::answer::{MadeIn, Ran};
use crate::analyze::scopes::{Alike, totals};

/// The parts of a program that names some.
pub(super) struct Parts<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    alike: Alike<'a>,
}

impl<'a> Parts<'a> {
    /// `None` where the evidence names none.
    pub fn of(profile: &'a Profile, rank: &'a Rank) -> Option<Self> {
        let has_scopes = rank.scopes.iter().next().is_some();
        has_scopes.then(|| Self { profile, rank, alike: Alike::new(profile, rank) })
    }

    /// What a tensor was made in.
    pub fn name(&self, tensor: TensorId) -> Option<String> {
        let scope = self.rank.scopes.get(self.rank.made_in(tensor)?.index())?;
        Some(self.profile.text(scope.name).to_owned())
    }

    /// Where tensors were made, those of layers that are alike together, the most first. What belongs to the model is not
    /// in it: that has names, and is there wherever it was made.
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

    /// Whether a tensor is one that running made: not a part of the model, nor given to it.
    fn is_made(&self, tensor: TensorId) -> bool {
        let class = self.rank.tensors.class.get(tensor.index());
        matches!(class, Some(Class::Activation | Class::Temporary | Class::Unknown))
    }

    /// What ran, in order, with what it came to: the operations that the program names, models, backward passes and steps
    /// of optimizers. Not the modules inside of models.
    pub fn ran(&self) -> Vec<Ran> {
        let mut children: BTreeMap<Option<ScopeId>, Vec<ScopeId>> = BTreeMap::new();
        for (index, scope) in self.rank.scopes.iter().enumerate() {
            children.entry(scope.parent).or_default().extend(ScopeId::new(index));
        }
        let (totals, unwatched) = (totals(self.rank), self.unwatched());
        let mut rows = Vec::new();
        let top = children.get(&None).into_iter().flatten().rev();
        let mut waiting: Vec<(ScopeId, usize)> = top.map(|scope| (*scope, 0)).collect();
        while let Some((id, depth)) = waiting.pop() {
            let Some(scope) = self.rank.scopes.get(id.index()) else { continue };
            let is_told = !self.is_part(&scope);
            if is_told {
                let of = |totals: &[CallTotals]| totals.get(id.index()).copied().unwrap_or_default();
                let unwatched = unwatched.get(id.index()).copied().unwrap_or_default();
                rows.push(self.row(&scope, depth, &of(&totals), &unwatched));
            }
            let inside = children.get(&Some(id)).into_iter().flatten().rev();
            waiting.extend(inside.map(|scope| (*scope, depth + usize::from(is_told))));
        }
        rows
    }

    /// Whether a scope is a part of what another tells: a module of a model or of its backward pass, or an operation of the
    /// framework.
    fn is_part(&self, scope: &Scope) -> bool {
        let parent = scope.parent.and_then(|parent| self.rank.scopes.kind.get(parent.index()));
        let is_module = |kind| matches!(kind, ScopeKind::Forward | ScopeKind::Backward);
        scope.kind == ScopeKind::Framework
            || is_module(scope.kind) && parent.is_some_and(|kind| is_module(*kind))
    }

    fn row(&self, scope: &Scope, depth: usize, totals: &CallTotals, unwatched: &Unwatched) -> Ran {
        // A sum with a part that is not known is not known.
        let known = (unwatched.calls == 0 && totals.count > 0).then_some(totals);
        let change = known.map(CallTotals::change);
        Ran {
            name: self.profile.text(scope.name).to_owned(),
            kind: scope.kind.as_str(),
            depth,
            calls: totals.count.saturating_add(unwatched.calls),
            running: unwatched.running,
            time_ns: unwatched.is_timed().then(|| totals.time.saturating_add(unwatched.time)),
            longest_ns: unwatched.is_timed().then(|| totals.longest.max(unwatched.longest)),
            peak_bytes: known.map(|totals| totals.peak),
            allocated_bytes: known.map(|totals| totals.allocated),
            kept_bytes: known.map(|totals| totals.kept),
            change_bytes: change.or_else(|| unwatched.change.filter(|_| totals.count == 0)),
        }
    }

    /// The calls without an outcome, by scope: those that still run, and those of which others have told.
    fn unwatched(&self) -> Vec<Unwatched> {
        let mut found = vec![Unwatched::default(); self.rank.scopes.len()];
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

/// Calls of a scope that nobody watched to their end.
#[derive(Clone, Copy, Default)]
struct Unwatched {
    /// Those that still ran when the evidence ended.
    running: u64,
    /// The others.
    calls: u64,
    /// Those of them whose length is unknown.
    untimed: u64,
    time: Nanoseconds,
    longest: Nanoseconds,
    change: Option<i64>,
}

impl Unwatched {
    /// Whether the length of every call is known.
    fn is_timed(&self) -> bool {
        self.untimed == 0
    }
}
