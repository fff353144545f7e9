//! Weights and inputs declared by the graphs, and weights that are stored twice.

use rustc_hash::FxHashSet;
use ttmem_model::{Argument, ArgumentKind, Class, Moment, PoolId, Profile, Rank, StrId, TensorId, TypeId};

/// Totals of the arguments that the graphs of a rank declare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// The number of arguments. An argument shared by several graphs counts once.
    pub count: usize,
    /// The size of their elements.
    pub bytes: u64,
}

/// All distinct arguments: those with the same name, kind and type count once.
pub fn declared<'a>(rank: &'a Rank, kinds: &'a [ArgumentKind]) -> impl Iterator<Item = &'a Argument> + 'a {
    let mut seen: FxHashSet<(StrId, Option<TypeId>)> = FxHashSet::default();
    rank.modules
        .iter()
        .flat_map(|module| &module.arguments)
        .filter(|argument| kinds.contains(&argument.kind))
        .filter(move |argument| argument.name.is_none_or(|name| seen.insert((name, argument.ty))))
}

/// The totals of the arguments of some kinds; `None` if no graph was printed.
pub fn total(profile: &Profile, rank: &Rank, kinds: &[ArgumentKind]) -> Option<Declared> {
    if rank.modules.iter().all(|module| module.arguments.is_empty()) {
        return None;
    }
    let mut total = Declared::default();
    for argument in declared(rank, kinds) {
        let bytes = argument.ty.and_then(|ty| profile.tensor_type(ty)?.declared.get());
        total.count += 1;
        total.bytes = total.bytes.saturating_add(bytes.unwrap_or(0));
    }
    Some(total)
}

/// The kinds of arguments that are weights.
pub const WEIGHTS: [ArgumentKind; 2] = [ArgumentKind::Parameter, ArgumentKind::Constant];

/// A weight that a graph declares.
#[derive(Clone, Copy, Debug)]
pub struct Weight<'a> {
    /// The declaration in the graph.
    pub argument: &'a Argument,
    /// Whether it is stored twice; `None` if unknown.
    pub kept_twice: Option<bool>,
}

/// All distinct weights, largest first. `twice` are those that are [stored twice](kept_twice).
pub fn by_size<'a>(profile: &Profile, rank: &'a Rank, twice: Option<&[TensorId]>) -> Vec<Weight<'a>> {
    let twice = twice.map(|twice| arguments_of(rank, twice));
    let by_name = |arguments: &[&Argument]| -> FxHashSet<(StrId, Option<TypeId>)> {
        arguments.iter().filter_map(|argument| Some((argument.name?, argument.ty))).collect()
    };
    let named = twice.as_deref().map(by_name);
    let is_twice = |argument: &Argument| match argument.name {
        Some(name) => Some(named.as_ref()?.contains(&(name, argument.ty))),
        None => Some(twice.as_ref()?.iter().any(|known| std::ptr::eq(*known, argument))),
    };
    let mut list: Vec<Weight<'a>> = declared(rank, &WEIGHTS)
        .map(|argument| Weight { argument, kept_twice: is_twice(argument) })
        .collect();
    let bytes = |weight: &Weight<'_>| profile.tensor_type(weight.argument.ty?)?.declared.get();
    list.sort_by_key(|weight| std::cmp::Reverse(bytes(weight)));
    list
}

/// The arguments that the given tensors come from.
fn arguments_of<'a>(rank: &'a Rank, tensors: &[TensorId]) -> Vec<&'a Argument> {
    let argument =
        |origin: ttmem_model::Origin| rank.module(origin.module)?.arguments.get(origin.argument as usize);
    let is_one = |origin: &ttmem_model::Origin| tensors.binary_search(&origin.tensor).is_ok();
    rank.origins.iter().filter(is_one).filter_map(argument).collect()
}

/// The weights that are live in a pool together with a tensor computed from them; `None` if the input has no tensors.
pub fn kept_twice(rank: &Rank, pool: PoolId, at: Moment) -> Option<Vec<TensorId>> {
    if !rank.has_tensors() {
        return None;
    }
    let tensors = &rank.tensors;
    let alive = |index: usize| {
        tensors.born.get(index).is_some_and(|born| *born <= at)
            && at < tensors.dies[index]
            && tensors.pool[index] == pool
    };
    let mut originals: Vec<TensorId> = rank
        .derivations
        .iter()
        .filter(|row| alive(row.tensor.index()) && alive(row.source.index()))
        .filter(|row| tensors.class[row.source.index()] == Class::Weight)
        .map(|row| row.source)
        .collect();
    originals.sort_unstable();
    originals.dedup();
    Some(originals)
}

/// The total declared size of tensors.
pub fn declared_bytes(profile: &Profile, rank: &Rank, tensors: &[TensorId]) -> u64 {
    let declared = |id: &TensorId| profile.tensor_type(rank.tensors.ty[id.index()]?)?.declared.get();
    tensors.iter().filter_map(declared).fold(0, u64::saturating_add)
}
