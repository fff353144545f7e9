//! The maximum size of a tensor class, which is compared with its expected size.
//!
//! A class is measured at its own maximum and not at the peak of a pool: all weights and caches are allocated at
//! that moment, whatever else is. Parameters are measured from the first forward pass on: before it, a conversion may hold
//! two copies of them. The size of a tensor is its size on the device, including padding, over all pools.
//! KV caches are those of [`key_value_caches`], whatever their class in the input.

use ttmem_model::rules::live::LiveSums;
use ttmem_model::{Class, Moment, PoolId, Profile, Rank, ScopeKind, TensorId};

use super::Span;
use super::caches::key_value_caches;

/// The measured size of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The maximum over all steps.
    Most(Most),
    /// The input has no tensors.
    NoTensors,
    /// No tensor is known to belong to the class.
    NoneOfClass,
    /// The number of tensors of the class whose size is unknown.
    NoSize(usize),
}

/// The maximum size of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Most {
    /// The size over all pools.
    pub bytes: u64,
    /// The moment when it was first reached.
    pub at: Moment,
    /// The size in each pool at that moment. Pools without tensors of the class are skipped.
    pub by_pool: Vec<(PoolId, u64)>,
}

/// The maximum size of a class in a span.
pub fn taken(profile: &Profile, rank: &Rank, class: Class, span: Span) -> Taken {
    if !rank.has_tensors() {
        return Taken::NoTensors;
    }
    let tensors = &rank.tensors;
    let mut of_class: Vec<usize> = if class == Class::KvCache {
        key_value_caches(profile, rank, span).into_iter().map(TensorId::index).collect()
    } else {
        (0..tensors.len()).filter(|index| tensors.class[*index] == class).collect()
    };
    of_class.sort_unstable();
    let last = span.last(rank);
    let since = |start: Moment| {
        let is_there = |index: &&usize| tensors.born[**index] <= last && tensors.dies[**index] > start;
        let found: Vec<usize> = of_class.iter().filter(is_there).copied().collect();
        (!found.is_empty()).then_some((start, found))
    };
    let in_use = first_forward(rank).filter(|_| class == Class::Parameter);
    let in_use = in_use.and_then(|forward| since(forward.max(span.start())));
    let Some((start, found)) = in_use.or_else(|| since(span.start())) else {
        return Taken::NoneOfClass;
    };
    let sized: Vec<(usize, u64)> =
        found.iter().filter_map(|index| Some((*index, bytes(rank, *index)?))).collect();
    if sized.len() < found.len() {
        return Taken::NoSize(found.len() - sized.len());
    }
    let life =
        |(index, bytes): &(usize, u64)| (tensors.born[*index].max(start), tensors.dies[*index], *bytes);
    // All tensors may have size 0.
    let (at, bytes) = LiveSums::of(sized.iter().map(life)).highest().unwrap_or((start, 0));
    let mut by_pool: Vec<(PoolId, u64)> = Vec::new();
    for (index, bytes) in sized {
        if tensors.born[index].max(start) <= at && at < tensors.dies[index] {
            match by_pool.iter_mut().find(|(pool, _)| *pool == tensors.pool[index]) {
                Some((_, sum)) => *sum = sum.saturating_add(bytes),
                None => by_pool.push((tensors.pool[index], bytes)),
            }
        }
    }
    by_pool.sort_unstable();
    Taken::Most(Most { bytes, at, by_pool })
}

/// The start of the first forward pass.
fn first_forward(rank: &Rank) -> Option<Moment> {
    let is_forward = |call: &usize| {
        let scope = rank.calls.scope[*call].index();
        rank.scopes.kind.get(scope) == Some(&ScopeKind::Forward)
    };
    (0..rank.calls.len()).find(is_forward).map(|call| Moment::early(rank.calls.first[call]))
}

/// Whether a tensor is known to belong to a class.
pub fn has(rank: &Rank, class: Class) -> bool {
    rank.tensors.class.contains(&class)
}

/// The size of a tensor on the device.
fn bytes(rank: &Rank, tensor: usize) -> Option<u64> {
    let per_bank = rank.tensors.per_bank[tensor].get()?;
    let banks = rank.pools.get(rank.tensors.pool[tensor].index())?.banks?;
    per_bank.checked_mul(banks.into())
}
