//! Tensors by a condition, over the whole input: those that are not live at a peak as well.

use std::cmp::Reverse;

use serde::Serialize;
use ttmem_model::{Error, Profile, Rank, Result, TensorId};

use super::allocations::Sum;
use super::answer::LiveTensor;
use super::filter::Filter;
use super::ranks::{files_in_order, in_order};
use super::summary::{Request, View};

/// The tensors to find.
#[derive(Clone, Debug, Default)]
pub struct FindRequest {
    /// The rank, by its index in the summary's `ranks`.
    pub rank: usize,
    /// The condition; `None` for all tensors.
    pub filter: Option<Filter>,
    /// A text in the name, operation, source line or call stack, regardless of case.
    pub text: Option<String>,
    /// The pool; `None` for all pools.
    pub pool: Option<String>,
    /// The number of tensors to skip.
    pub offset: usize,
    /// The number of tensors to list.
    pub limit: usize,
}

/// The tensors that match.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// All tensors that match, and their bytes per bank. Tensors of unknown size have no bytes.
    pub total: Sum,
    /// The number of matching tensors whose size is unknown.
    pub unknown_sizes: u64,
    /// The requested part of them, largest first.
    pub tensors: Vec<FoundTensor>,
}

/// A tensor that matches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundTensor {
    /// Its pool.
    pub pool: String,
    /// The tensor, as in the summary.
    #[serde(flatten)]
    pub tensor: LiveTensor,
}

/// Finds tensors of a rank, largest first.
pub fn find(profiles: &[Profile], request: &FindRequest) -> Result<Found> {
    let (profile, rank) = nth_rank(profiles, request.rank)?;
    let pool = pool_index(profile, rank, request.pool.as_deref())?;
    let text = request.text.as_deref().map(Filter::containing);
    let filters = request.filter.iter().chain(&text);
    let matchers: Vec<_> = filters.map(|filter| filter.matcher(profile, rank)).collect();
    let tensors = &rank.tensors;
    let is_of_pool = |id: &TensorId| pool.is_none_or(|pool| tensors.pool[id.index()].index() == pool);
    let mut found: Vec<TensorId> = (0..tensors.len())
        .filter_map(TensorId::new)
        .filter(is_of_pool)
        .filter(|id| matchers.iter().all(|matcher| matcher.matches(*id)))
        .collect();
    let size = |id: &TensorId| tensors.per_bank[id.index()].get();
    found.sort_by_cached_key(|id| (Reverse(size(id)), id.index()));
    let sizes = found.iter().filter_map(size);
    let view = Request::default();
    let view = View::new(profile, rank, &view)?;
    let row = |id: &TensorId| {
        let pool = rank.pools.get(tensors.pool[id.index()].index())?;
        Some(FoundTensor { pool: profile.text(pool.name).to_owned(), tensor: view.tensor(*id)? })
    };
    Ok(Found {
        total: Sum { count: found.len() as u64, bytes: sizes.fold(0, u64::saturating_add) },
        unknown_sizes: found.iter().filter(|id| size(id).is_none()).count() as u64,
        tensors: found.iter().skip(request.offset).take(request.limit).filter_map(row).collect(),
    })
}

/// A rank, by its index in the summary's `ranks`.
pub(super) fn nth_rank(profiles: &[Profile], index: usize) -> Result<(&Profile, &Rank)> {
    let all = files_in_order(profiles).into_iter();
    let mut ranks = all.flat_map(|profile| in_order(profile).into_iter().map(move |rank| (profile, rank)));
    ranks.nth(index).ok_or_else(|| Error::NotFound(format!("no rank with index {index}")))
}

fn pool_index(profile: &Profile, rank: &Rank, wanted: Option<&str>) -> Result<Option<usize>> {
    let Some(wanted) = wanted else { return Ok(None) };
    let names: Vec<&str> = rank.pools.iter().map(|pool| profile.text(pool.name)).collect();
    let found = names.iter().position(|name| *name == wanted);
    let missing = || Error::NotFound(format!("no pool {wanted}: available pools are {}", names.join(", ")));
    found.map(Some).ok_or_else(missing)
}
