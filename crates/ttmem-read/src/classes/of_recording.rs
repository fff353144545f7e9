//! Completes the classes of a recording's allocations.
//!
//! The tracker knows modules, parameters, gradients and optimizers. It does not know what the code between them
//! allocates: a loss, a conversion, a cache.

use ttmem_model::{Class, OpId, Position, Profile, Rank, ScopeKind, StepNumber};

use super::roles::{Role, roles};
use super::{freed_at, made_by, workspaces};

/// Sets the classes of allocations that have none, and of workspaces and caches.
pub(crate) fn complete(profile: &mut Profile) {
    let roles = roles(profile);
    let role = |op: Option<OpId>| op.and_then(|op| roles.get(op.index()).copied()).unwrap_or(Role::NoPython);
    let mut ranks = std::mem::take(&mut profile.ranks);
    for rank in &mut ranks {
        let passes = Passes::of(rank);
        for tensor in 0..rank.tensors.len() {
            let was = rank.tensors.class[tensor];
            let made = role(made_by(rank, tensor));
            rank.tensors.class[tensor] = match (was, made) {
                (Class::Unknown, Role::Parameters) => Class::Parameter,
                (Class::Unknown, Role::OptimizerState) => Class::Optimizer,
                (Class::Unknown, Role::OptimizerStep) if freed_at(rank, tensor).is_some() => Class::Temporary,
                // What a cache allocates in a forward pass. In training, only autograd may keep it.
                (Class::Unknown | Class::Activation, Role::KvCache) => match passes.class(rank, tensor) {
                    Class::Unknown => Class::KvCache,
                    shorter => shorter,
                },
                (Class::Unknown, Role::Forward | Role::Other) => passes.class(rank, tensor),
                _ => was,
            };
        }
        workspaces::name(profile, rank, &roles);
    }
    profile.ranks = ranks;
}

/// The steps of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pass {
    first: Position,
    end: Position,
}

/// The passes of a rank, in order.
#[derive(Debug, Default)]
struct Passes {
    forward: Vec<Pass>,
    backward: Vec<Pass>,
}

impl Passes {
    fn of(rank: &Rank) -> Self {
        let mut passes = Self::default();
        for index in 0..rank.calls.len() {
            let kind = |index: usize| rank.scopes.kind.get(rank.calls.scope.get(index)?.index()).copied();
            let outer = rank.calls.parent[index].and_then(|parent| kind(parent.index()));
            let into = match kind(index) {
                Some(ScopeKind::Forward) if outer != Some(ScopeKind::Forward) => &mut passes.forward,
                Some(ScopeKind::Backward) if outer != Some(ScopeKind::Backward) => &mut passes.backward,
                _ => continue,
            };
            let first = rank.calls.first[index];
            let end = rank.calls.outcome[index].map_or(Position::MAX, |outcome| outcome.end.max(first));
            into.push(Pass { first, end });
        }
        passes.forward.sort_unstable();
        passes.backward.sort_unstable();
        passes
    }

    /// The class of an allocation outside all modules: an activation if autograd keeps it for the next backward pass,
    /// temporary if it is gone before the next pass of any kind, otherwise unknown.
    fn class(&self, rank: &Rank, tensor: usize) -> Class {
        let Some(made) = rank.tensors.step[tensor].map(StepNumber::get) else { return Class::Unknown };
        let Some(freed) = freed_at(rank, tensor) else { return Class::Unknown };
        let next = |passes: &[Pass]| passes.get(passes.partition_point(|pass| pass.first <= made)).copied();
        let (forward, backward) = (next(&self.forward), next(&self.backward));
        if backward.is_some_and(|pass| (pass.first..pass.end).contains(&freed)) {
            return Class::Activation;
        }
        let follows_one = self.forward.first().is_some_and(|pass| pass.end <= made);
        let soonest = forward.into_iter().chain(backward).map(|pass| pass.first).min();
        // After the last pass, nothing is known about what follows.
        let is_short = soonest.is_some_and(|first| freed < first);
        if follows_one && is_short { Class::Temporary } else { Class::Unknown }
    }
}
