//! What the tensors of a class took at most: what an expectation is held against.
//!
//! A class is measured at the moment at which its own tensors took most, not at the peak of a pool: weights and caches
//! are whole then, whatever else is there. Tensors count with all that they take of the device, padding included, in all
//! pools together. Caches of keys and values are those of [`key_value_caches`], whatever their class is in the evidence.

use ttmem_model::rules::live::LiveSums;
use ttmem_model::{Class, Moment, PoolId, Profile, Rank, TensorId};

use super::Span;
use super::caches::key_value_caches;

/// What a class took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The most that it took at one moment.
    Most(Most),
    /// The evidence has no tensors.
    NoTensors,
    /// No tensor is known to be of the class.
    NoneOfClass,
    /// So many tensors of the class have a size that is not known.
    NoSize(usize),
}

/// The most that a class took at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Most {
    /// In all pools together.
    pub bytes: u64,
    /// When that was first reached.
    pub at: Moment,
    /// In each pool then; those without are left out.
    pub by_pool: Vec<(PoolId, u64)>,
}

/// The most that the tensors of a class took at one moment of a span.
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
    // All of them may be empty.
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

/// Whether a tensor is known to be of a class.
pub fn has(rank: &Rank, class: Class) -> bool {
    rank.tensors.class.contains(&class)
}

/// What a tensor takes of the device.
fn bytes(rank: &Rank, tensor: usize) -> Option<u64> {
    let per_bank = rank.tensors.per_bank[tensor].get()?;
    let banks = rank.pools.get(rank.tensors.pool[tensor].index())?.banks?;
    per_bank.checked_mul(banks.into())
}
