//! The classes of a snapshot's allocations.

use ttmem_model::{Class, Moment, OpId, Profile, Rank};

use super::roles::{Role, roles};
use super::{freed_at, made_by, names, workspaces};

/// Sets the classes of all allocations.
pub(crate) fn classify(profile: &mut Profile) {
    let roles = roles(profile);
    let role = |op: Option<OpId>| op.and_then(|op| roles.get(op.index()).copied()).unwrap_or(Role::NoPython);
    let mut ranks = std::mem::take(&mut profile.ranks);
    for rank in &mut ranks {
        let freed = |rank: &Rank, tensor: usize| freed_by(rank, tensor).map(|op| role(Some(op)));
        // Without stacks of frees, nothing is known about the code that frees.
        let frees_have_stacks = (0..rank.tensors.len())
            .any(|tensor| freed(rank, tensor).is_some_and(|role| role != Role::NoPython));
        for tensor in 0..rank.tensors.len() {
            let made = role(made_by(rank, tensor));
            rank.tensors.class[tensor] = class(made, freed(rank, tensor), frees_have_stacks);
        }
        for tensor in gradients(rank, |tensor| role(made_by(rank, tensor)) == Role::NoPython) {
            rank.tensors.class[tensor] = Class::Gradient;
        }
        workspaces::name(profile, rank, &roles);
        names::set(profile, rank, &roles);
    }
    profile.ranks = ranks;
}

/// The operation that freed an allocation.
fn freed_by(rank: &Rank, tensor: usize) -> Option<OpId> {
    freed_at(rank, tensor).and_then(|step| rank.op_id(step))
}

fn class(made: Role, freed: Option<Role>, frees_have_stacks: bool) -> Class {
    match (made, freed) {
        (Role::Parameters | Role::UnshardedParameters, _) => Class::Parameter,
        (Role::OptimizerState, _) => Class::Optimizer,
        (Role::KvCache, _) => Class::KvCache,
        (Role::Workspace(_) | Role::AllGather, _) => Class::Workspace,
        // The buffer is freed in the same pass, its result by the next `zero_grad`.
        (Role::ReduceScatter, Some(freed)) if freed != Role::ZeroGrad => Class::Workspace,
        (Role::AccumulatesGradients | Role::GradientBuckets | Role::ReduceScatter, _)
        | (Role::NoPython, Some(Role::ZeroGrad)) => Class::Gradient,
        (Role::OptimizerStep, _)
        | (Role::Forward, Some(Role::Forward))
        | (Role::NoPython, Some(Role::NoPython)) => Class::Temporary,
        (Role::Forward, _) => Class::Activation,
        // A loss outside all modules, for example.
        (Role::Other, Some(Role::NoPython)) if frees_have_stacks => Class::Activation,
        (Role::NoPython | Role::ZeroGrad | Role::Other, _) => Class::Unknown,
    }
}

/// The allocations of the autograd engine that outlive their backward pass and have the size of a parameter: gradients
/// that nothing has freed yet. There are at most as many of them as parameters.
fn gradients(rank: &Rank, is_by_autograd: impl Fn(usize) -> bool) -> Vec<usize> {
    /// A block may keep this much of a larger free one.
    const REMAINDER: u64 = 1 << 20;
    let size = |tensor: usize| rank.tensors.per_bank[tensor].or_zero();
    let all = 0..rank.tensors.len();
    let mut parameters: Vec<u64> =
        all.clone().filter(|&tensor| rank.tensors.class[tensor] == Class::Parameter).map(size).collect();
    parameters.sort_unstable();
    let is_like_a_parameter = |bytes: u64| {
        let least = if bytes > REMAINDER { bytes - REMAINDER } else { bytes };
        let most = if bytes > REMAINDER { bytes.saturating_add(REMAINDER) } else { bytes };
        let first = parameters.partition_point(|parameter| *parameter < least);
        parameters.get(first).is_some_and(|parameter| *parameter <= most)
    };
    let found: Vec<usize> = all
        .filter(|&tensor| rank.tensors.class[tensor] == Class::Unknown)
        .filter(|&tensor| rank.tensors.dies[tensor] == Moment::NEVER)
        .filter(|&tensor| is_by_autograd(tensor) && is_like_a_parameter(size(tensor)))
        .collect();
    if found.len() <= parameters.len() { found } else { Vec::new() }
}
