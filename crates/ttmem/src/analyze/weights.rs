//! Weights and inputs: what the graphs declare, and what is kept twice.

use rustc_hash::FxHashSet;

use crate::model::{Argument, ArgumentKind, Class, Moment, PoolId, Profile, Rank, StrId, TypeId};

/// The arguments that the graphs of a rank declare, of some kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// How many there are, those that several graphs share counted once.
    pub count: usize,
    /// The bytes of their elements.
    pub bytes: u64,
}

/// All distinct arguments: those of the same name, kind and type are one.
pub fn declared<'a>(rank: &'a Rank, kinds: &'a [ArgumentKind]) -> impl Iterator<Item = &'a Argument> + 'a {
    let mut seen: FxHashSet<(StrId, Option<TypeId>)> = FxHashSet::default();
    rank.modules
        .iter()
        .flat_map(|module| &module.arguments)
        .filter(|argument| kinds.contains(&argument.kind))
        .filter(move |argument| argument.name.is_none_or(|name| seen.insert((name, argument.ty))))
}

/// How much the graphs of a rank declare; `None` where no graph was printed.
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

/// The bytes of the elements of weights that are on the device although what was computed from them is kept too.
pub fn kept_twice(profile: &Profile, rank: &Rank, pool: PoolId, at: Moment) -> Option<u64> {
    if !rank.has_tensors() {
        return None;
    }
    let tensors = &rank.tensors;
    let alive = |index: usize| {
        tensors.born.get(index).is_some_and(|born| *born <= at)
            && at < tensors.dies[index]
            && tensors.pool[index] == pool
    };
    let mut originals: Vec<usize> = rank
        .derivations
        .iter()
        .map(|row| (row.tensor.index(), row.source.index()))
        .filter(|&(result, source)| alive(result) && alive(source) && tensors.class[source] == Class::Weight)
        .map(|(_, source)| source)
        .collect();
    originals.sort_unstable();
    originals.dedup();
    let declared = |index: usize| profile.tensor_type(tensors.ty[index]?)?.declared.get();
    Some(originals.into_iter().filter_map(declared).fold(0, u64::saturating_add))
}
