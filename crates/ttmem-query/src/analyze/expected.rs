//! The maximum size of a tensor class, which is compared with its expected size.
//!
//! A class is measured at its own maximum and not at the peak of a pool: all weights and caches are allocated at
//! that moment, whatever else is. Parameters are measured when forward passes begin and end: in between, a conversion may
//! hold two copies of them. The size of a tensor is its size on the device, including padding, over all pools.
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
    let (start, last) = (span.start(), span.last(rank));
    let is_there = |index: &usize| tensors.born[*index] <= last && tensors.dies[*index] > start;
    let mut of_class: Vec<usize> = if class == Class::KvCache {
        key_value_caches(profile, rank, span).into_iter().map(TensorId::index).collect()
    } else {
        (0..tensors.len()).filter(|index| tensors.class[*index] == class).collect()
    };
    of_class.sort_unstable();
    let found: Vec<usize> = of_class.into_iter().filter(is_there).collect();
    if found.is_empty() {
        return Taken::NoneOfClass;
    }
    let sized: Vec<(usize, u64)> =
        found.iter().filter_map(|index| Some((*index, bytes(rank, *index)?))).collect();
    if sized.len() < found.len() {
        return Taken::NoSize(found.len() - sized.len());
    }
    let life =
        |(index, bytes): &(usize, u64)| (tensors.born[*index].max(start), tensors.dies[*index], *bytes);
    let in_use = if class == Class::Parameter { moments_in_use(rank) } else { Vec::new() };
    let in_use = in_use.into_iter().filter(|at| (start..=last).contains(at));
    let highest = highest_at(in_use, sized.iter().map(life));
    // All tensors may have size 0.
    let highest = highest.or_else(|| LiveSums::of(sized.iter().map(life)).highest());
    let (at, bytes) = highest.unwrap_or((start, 0));
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

/// The starts and ends of forward passes: models are used then, and not converted.
fn moments_in_use(rank: &Rank) -> Vec<Moment> {
    let kind = |call: usize| rank.scopes.kind.get(rank.calls.scope[call].index()).copied();
    let is_outermost = |call: &usize| {
        let outer = rank.calls.parent[*call].and_then(|outer| kind(outer.index()));
        kind(*call) == Some(ScopeKind::Forward) && outer != Some(ScopeKind::Forward)
    };
    let ends = |call: usize| {
        let end = rank.calls.outcome[call].map(|outcome| outcome.end);
        [Some(rank.calls.first[call]), end].into_iter().flatten().map(Moment::early)
    };
    (0..rank.calls.len()).filter(is_outermost).flat_map(ends).collect()
}

/// The highest sum of lives (from, until, bytes) at some moments. `None`: it is always 0.
fn highest_at(
    moments: impl Iterator<Item = Moment>,
    lives: impl Iterator<Item = (Moment, Moment, u64)>,
) -> Option<(Moment, u64)> {
    let (mut born, mut gone): (Vec<_>, Vec<_>) =
        lives.map(|(born, dies, bytes)| ((born, bytes), (dies, bytes))).unzip();
    for changes in [&mut born, &mut gone] {
        changes.sort_unstable_by_key(|(at, _)| *at);
        changes.iter_mut().fold(0_u64, |sum, (_, bytes)| {
            *bytes = sum.saturating_add(*bytes);
            *bytes
        });
    }
    let until = |changes: &[(Moment, u64)], at: Moment| {
        let count = changes.partition_point(|(moment, _)| *moment <= at);
        count.checked_sub(1).map_or(0, |last| changes[last].1)
    };
    let sums = moments.map(|at| (at, until(&born, at).saturating_sub(until(&gone, at))));
    let most = sums.reduce(|most, next| if next.1 > most.1 { next } else { most });
    most.filter(|(_, bytes)| *bytes > 0)
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
