//! The scopes of a program: totals of their calls, and names of similar layers.

use rustc_hash::FxHashSet;
use ttmem_model::{CallTotals, Profile, Rank, ScopeId, ScopeKind};

/// Maximum nesting depth of modules. A malicious file could nest deeper.
const MAX_DEPTH: usize = 64;

/// The totals of the finished calls, by scope.
pub fn totals(rank: &Rank) -> Vec<CallTotals> {
    let mut totals = vec![CallTotals::default(); rank.scopes.len()];
    for call in rank.calls.iter() {
        if let (Some(outcome), Some(totals)) = (call.outcome, totals.get_mut(call.scope.index())) {
            totals.add(&outcome, outcome.ended.saturating_sub(call.began));
        }
    }
    for (scope, further) in &rank.further_calls {
        if let Some(totals) = totals.get_mut(scope.index()) {
            totals.add_all(further);
        }
    }
    totals
}

/// The names of modules without layer numbers, so that similar layers have the same name.
#[derive(Debug)]
pub struct Alike<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    /// The modules that contain others.
    blocks: FxHashSet<&'a str>,
}

impl<'a> Alike<'a> {
    /// Collects all modules of a rank.
    pub fn new(profile: &'a Profile, rank: &'a Rank) -> Self {
        let names = rank.scopes.iter().filter(|scope| is_module(scope.kind));
        let names = names.map(|scope| profile.text(scope.name));
        let outer = |name: &'a str| name.match_indices('.').take(MAX_DEPTH).map(|(at, _)| &name[..at]);
        let blocks = names.flat_map(outer).collect();
        Self { profile, rank, blocks }
    }

    /// The name of a scope, with `*` in place of a layer's number: `h.*.mlp`. A number without a name before it is
    /// kept, and so is the number of a module that contains no others, because its neighbors may be of another kind.
    pub fn name(&self, scope: ScopeId) -> Option<String> {
        let scope = self.rank.scopes.get(scope.index())?;
        let name = self.profile.text(scope.name);
        if !is_module(scope.kind) {
            return Some(name.to_owned());
        }
        let (mut alike, mut end, mut is_named) = (String::with_capacity(name.len()), 0, false);
        for part in name.split('.') {
            end += part.len();
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            let is_layer = is_number && is_named && self.blocks.contains(&name[..end]);
            is_named |= !is_number;
            alike.push_str(if is_layer { "*" } else { part });
            if end < name.len() {
                alike.push('.');
                end += 1;
            }
        }
        Some(alike)
    }
}

fn is_module(kind: ScopeKind) -> bool {
    matches!(kind, ScopeKind::Forward | ScopeKind::Backward)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::tests::{Evidence, first};
    use ttmem_model::{Outcome, RankEvent, Scope};

    #[test]
    fn totals_cover_ended_and_aggregated_calls() {
        let mut evidence = Evidence::new();
        let (lane, scope, other) = (evidence.lane("main"), evidence.scope("a"), evidence.scope("b"));
        for (began, ended, allocated, freed, peak) in [(0, 10, 50, 20, 60), (10, 40, 5, 30, 5)] {
            let call = evidence.open_call(scope, lane, None, began);
            let outcome = Outcome { ended, allocated, freed, peak, kept: 3, ..Outcome::default() };
            evidence.say(RankEvent::Returned(call, outcome));
        }
        evidence.open_call(scope, lane, None, 40);
        evidence.open_call(other, lane, None, 40);
        let both = CallTotals {
            count: 2,
            time: 40,
            longest: 30,
            allocated: 55,
            freed: 50,
            kept: 6,
            largest_change: 30,
            peak: 60,
        };
        let further = CallTotals { count: u64::MAX, time: 7, longest: 7, largest_change: -9, ..both };
        evidence.say(RankEvent::CallTotals(other, further));
        let profile = evidence.finish();
        assert_eq!(totals(first(&profile)), [both, further]);
        // Counts saturate.
        let mut profile = profile;
        profile.ranks[0].further_calls = [(scope, further)].into();
        let count = u64::MAX;
        let all = CallTotals { count, time: 47, allocated: 110, freed: 100, kept: 12, ..both };
        assert_eq!(totals(first(&profile)), [all, CallTotals::default()]);
        assert_eq!(totals(first(&Evidence::new().finish())), []);
    }

    #[test]
    fn layers_are_alike_and_their_neighbors_are_not() {
        let names = ["model", "h.0", "h.0.mlp", "h.1", "h.1.mlp.0", "features.0", "0", "1.h.12.x", "a..3.b"];
        let mut profile = Profile::default();
        let mut rank = Rank::default();
        for name in names {
            let name = profile.strings.push(name).unwrap();
            rank.scopes.push(Scope { name, parent: None, kind: ScopeKind::Forward });
        }
        let name = profile.strings.push("step.0.of").unwrap();
        rank.scopes.push(Scope { name, parent: None, kind: ScopeKind::Operation });
        let alike = Alike::new(&profile, &rank);
        let found: Vec<_> = (0..=names.len()).filter_map(|index| alike.name(ScopeId::new(index)?)).collect();
        let expected = [
            "model",
            "h.*",
            "h.*.mlp",
            "h.*",
            "h.*.mlp.0",
            "features.0",
            "0",
            "1.h.*.x",
            "a..*.b",
            "step.0.of",
        ];
        assert_eq!(found, expected);
    }
}
