//! Completes the classes of a recording's allocations.
//!
//! The tracker knows modules, parameters, gradients and optimizers. It does not know what the code between them
//! allocates: a loss, a conversion, a cache.

use ttmem_model::{Class, OpId, Profile};

use super::passes::Passes;
use super::roles::{Role, roles};
use super::{freed_at, made_by, names, workspaces};

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
                (_, role) if is_open(was) => passes.class_in_parallel(rank, tensor, role).unwrap_or(was),
                _ => was,
            };
        }
        workspaces::name(profile, rank, &roles);
        names::set(profile, rank, &roles);
    }
    profile.ranks = ranks;
}

/// Whether an allocation may have another class: the tracker derived this one from the time of the allocation.
fn is_open(class: Class) -> bool {
    matches!(class, Class::Unknown | Class::Activation | Class::Temporary)
}
