//! Names of allocations that the code explains: recomputed activations, copies of weights, buffers of communication.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{CallId, Class, LaneId, Profile, Rank, ScopeKind, StrId, TensorId, TypeId};

use super::made_by;
use super::passes::Passes;
use super::roles::Role;

const RECOMPUTED: &str = "recomputed activation";
/// The allocator rounds sizes up to a multiple of this.
const BLOCK: u64 = 512;

/// Names the allocations of a rank that have no name.
pub(super) fn set(profile: &mut Profile, rank: &mut Rank, roles: &[Role]) {
    let mut names = Names::default();
    let all = if roles.iter().any(|role| role.has_names()) { 0..rank.tensors.len() } else { 0..0 };
    for tensor in all {
        let role = made_by(rank, tensor).and_then(|op| roles.get(op.index()));
        let class = rank.tensors.class[tensor];
        if let Some(name) = role.and_then(|role| role.name(class)) {
            names.give(profile, rank, tensor, name);
        }
    }
    for tensor in recomputed(rank) {
        names.give(profile, rank, tensor, RECOMPUTED);
    }
    for (tensor, weight) in copies_of_weights(profile, rank) {
        let name = format!("autocast copy of {}", profile.text(weight));
        names.give(profile, rank, tensor, &name);
    }
}

/// Names that were given, each stored once.
#[derive(Debug, Default)]
struct Names(FxHashMap<String, Option<StrId>>);

impl Names {
    fn give(&mut self, profile: &mut Profile, rank: &mut Rank, tensor: usize, name: &str) {
        if rank.tensors.name[tensor].is_none() {
            let id = match self.0.get(name) {
                Some(known) => *known,
                None => *self.0.entry(name.to_owned()).or_insert(profile.strings.push(name)),
            };
            rank.tensors.name[tensor] = id;
        }
    }
}

fn is_transient(class: Class) -> bool {
    matches!(class, Class::Activation | Class::Temporary)
}

/// The kind and the name of the scope that made an allocation.
fn made_in(rank: &Rank, tensor: usize) -> Option<(ScopeKind, StrId)> {
    let scope = rank.made_in(TensorId::new(tensor)?)?.index();
    Some((*rank.scopes.kind.get(scope)?, *rank.scopes.name.get(scope)?))
}

/// What modules allocate in forward passes during a backward pass: `torch.utils.checkpoint` runs them again. On devices, it
/// does so in threads of the autograd engine, which run nothing else. Other threads may run models at the same time.
fn recomputed(rank: &Rank) -> Vec<usize> {
    let passes = Passes::of(rank);
    if !passes.has_backward() {
        return Vec::new();
    }
    let kind = |call: CallId| rank.scopes.kind.get(rank.calls.scope[call.index()].index()).copied();
    let forwards =
        (0..rank.calls.len()).filter_map(CallId::new).filter(|call| kind(*call) == Some(ScopeKind::Forward));
    let outside = forwards.filter(|call| !passes.is_backward(rank.calls.first[call.index()]));
    let of_program: FxHashSet<LaneId> = outside.map(|call| rank.calls.lane[call.index()]).collect();
    let is_part_of_backward = |call: CallId| {
        let mut outer = std::iter::successors(Some(call), |call| rank.calls.parent[call.index()]);
        outer.any(|call| kind(call) == Some(ScopeKind::Backward))
    };
    let is_recomputed = |tensor: &usize| {
        let (tensor, step) = (*tensor, rank.tensors.step[*tensor]);
        is_transient(rank.tensors.class[tensor])
            && step.is_some_and(|step| passes.is_backward(step.get()))
            && made_in(rank, tensor).is_some_and(|(kind, _)| kind == ScopeKind::Forward)
            && step.and_then(|step| rank.within.get(step.get()).flatten()).is_some_and(|call| {
                !of_program.contains(&rank.calls.lane[call.index()]) || is_part_of_backward(call)
            })
    };
    (0..rank.tensors.len()).filter(is_recomputed).collect()
}

/// The copies that autocast makes of float32 weights: what a module allocates in addition to its outputs, with half the size of its
/// weight. If several allocations of a call have that size, none is named.
fn copies_of_weights(profile: &Profile, rank: &Rank) -> Vec<(usize, StrId)> {
    let weights = halved_weights(profile, rank);
    if weights.is_empty() {
        return Vec::new();
    }
    let mut found: BTreeMap<(u32, StrId), Option<usize>> = BTreeMap::new();
    for tensor in 0..rank.tensors.len() {
        let Some(step) = rank.tensors.step[tensor] else { continue };
        if !is_transient(rank.tensors.class[tensor]) || rank.tensors.ty[tensor].is_some() {
            continue;
        }
        let Some((ScopeKind::Forward, module)) = made_in(rank, tensor) else { continue };
        let Some(&(weight, bytes)) = weights.get(profile.text(module)) else { continue };
        let Some(call) = rank.within.get(step.get()).flatten() else { continue };
        if rank.tensors.per_bank[tensor].get() == Some(bytes) {
            let call = u32::try_from(call.index()).unwrap_or(u32::MAX);
            found.entry((call, weight)).and_modify(|tensor| *tensor = None).or_insert(Some(tensor));
        }
    }
    found.into_iter().filter_map(|((_, weight), tensor)| Some((tensor?, weight))).collect()
}

/// By module: its weight, and the size of a block with half as many bytes.
fn halved_weights<'p>(profile: &'p Profile, rank: &Rank) -> FxHashMap<&'p str, (StrId, u64)> {
    let is_float =
        |ty: TypeId| profile.tensor_type(ty).is_some_and(|ty| profile.text(ty.dtype) == "torch.float32");
    let weight = |tensor: usize| {
        let name = rank.tensors.name[tensor]?;
        let module = profile.text(name).strip_suffix(".weight")?;
        let ty = rank.tensors.ty[tensor].filter(|ty| is_float(*ty))?;
        let bytes = profile.tensor_type(ty)?.logical.get()?;
        Some((module, (name, (bytes / 2).next_multiple_of(BLOCK))))
    };
    let parameters = (0..rank.tensors.len()).filter(|&tensor| rank.tensors.class[tensor] == Class::Parameter);
    parameters.filter_map(weight).collect()
}
