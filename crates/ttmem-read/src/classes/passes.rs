//! The forward and backward passes of a recording, and what they show about allocations.

use ttmem_model::{Class, Position, Rank, ScopeKind, StepNumber};

use super::freed_at;
use super::roles::Role;

/// The steps of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pass {
    first: Position,
    end: Position,
}

/// The passes of a rank, in order.
#[derive(Debug, Default)]
pub(super) struct Passes {
    forward: Vec<Pass>,
    backward: Vec<Pass>,
    /// Those of `backward` that are not part of another one, which recomputes a block and its gradients. They do not
    /// overlap: two of different threads at the same time are one here.
    outer_backward: Vec<Pass>,
}

impl Passes {
    pub fn of(rank: &Rank) -> Self {
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
        for &pass in &passes.backward {
            match passes.outer_backward.last_mut() {
                Some(outer) if pass.first < outer.end => outer.end = outer.end.max(pass.end),
                _ => passes.outer_backward.push(pass),
            }
        }
        passes
    }

    /// The class of an allocation by code that trains on several devices.
    pub fn class_in_parallel(&self, rank: &Rank, tensor: usize, role: Role) -> Option<Class> {
        Some(match role {
            Role::UnshardedParameters => Class::Parameter,
            Role::AllGather => Class::Workspace,
            // The buffer is freed in the same pass; its result are the gradients.
            Role::ReduceScatter if self.is_freed_in_its_pass(rank, tensor) => Class::Workspace,
            Role::GradientBuckets | Role::ReduceScatter => Class::Gradient,
            _ => return None,
        })
    }

    fn is_freed_in_its_pass(&self, rank: &Rank, tensor: usize) -> bool {
        let pass = rank.tensors.step[tensor].and_then(|made| self.backward_at(made.get()));
        pass.zip(freed_at(rank, tensor)).is_some_and(|(pass, freed)| freed < pass.end)
    }

    /// Whether an allocation is there after the second backward pass that follows it.
    fn outlives_an_iteration(&self, made: Position, freed: Option<Position>) -> bool {
        let following = self.outer_backward.partition_point(|pass| pass.first <= made);
        let second = self.outer_backward.get(following + 1);
        second.is_some_and(|second| match freed {
            Some(freed) => freed >= second.end,
            None => self.outer_backward.len() > following + 2,
        })
    }

    /// Whether there are backward passes.
    pub fn has_backward(&self) -> bool {
        !self.backward.is_empty()
    }

    /// Whether a position is in a backward pass.
    pub fn is_backward(&self, at: Position) -> bool {
        self.backward_at(at).is_some()
    }

    fn backward_at(&self, at: Position) -> Option<Pass> {
        let started = self.outer_backward.partition_point(|pass| pass.first <= at);
        self.outer_backward[..started].last().copied().filter(|pass| at < pass.end)
    }

    /// The class of an allocation outside all modules: an activation if autograd keeps it for the next backward pass, or
    /// if it is computed from a model's output, right before that pass, and does not outlive the pass after; temporary if it is gone before the next pass of any
    /// kind; otherwise unknown.
    pub fn class(&self, rank: &Rank, tensor: usize) -> Class {
        let Some(made) = rank.tensors.step[tensor].map(StepNumber::get) else { return Class::Unknown };
        let freed = freed_at(rank, tensor);
        let next = |passes: &[Pass]| passes.get(passes.partition_point(|pass| pass.first <= made)).copied();
        let (forward, backward) = (next(&self.forward), next(&self.backward));
        if let (Some(pass), Some(freed)) = (backward, freed)
            && (pass.first..pass.end).contains(&freed)
        {
            return Class::Activation;
        }
        let follows_one = self.forward.first().is_some_and(|pass| pass.end <= made);
        let soonest = forward.into_iter().chain(backward).map(|pass| pass.first).min();
        // A variable of the program may hold it longer than autograd: logits, for example, until the next iteration.
        let is_of_loss = backward
            .is_some_and(|pass| forward.is_none_or(|following| pass.first < following.first))
            && !self.outlives_an_iteration(made, freed);
        if is_of_loss && follows_one && freed.is_none_or(|freed| soonest.is_some_and(|first| freed >= first))
        {
            return Class::Activation;
        }
        // After the last pass, nothing is known about what follows.
        let is_short = soonest.zip(freed).is_some_and(|(first, freed)| freed < first);
        let follows_backward = self.outer_backward.first().is_some_and(|pass| pass.end <= made);
        if (follows_one || follows_backward) && is_short { Class::Temporary } else { Class::Unknown }
    }
}
