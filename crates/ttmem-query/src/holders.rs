//! What keeps tensors alive, according to searches of the running program.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use ttmem_model::{Holder, PoolId, Profile, Rank, StrId, TensorId};

/// What kept tensors alive at the last search for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct HoldersSummary {
    /// The time of the search, since the start of the recording.
    pub time_ns: u64,
    /// What kept tensors alive, by references and pool, largest first.
    pub rows: Vec<HolderRow>,
    /// The number of rows, including those that are not listed.
    pub count: usize,
}

/// Tensors that are kept alive in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct HolderRow {
    /// The references from a variable of the program to the tensors; `*` stands for any index, key or number in a key.
    pub chain: String,
    /// The pool of the tensors.
    pub pool: String,
    /// The number of tensors.
    pub tensors: usize,
    /// Their size per bank.
    pub per_bank: u64,
}

/// The result of the last search, with at most `most` rows. `None` if there was no search, or if it found nothing.
pub(super) fn holders(profile: &Profile, rank: &Rank, most: usize) -> Option<HoldersSummary> {
    let time = rank.holders.values().map(|holder| holder.time).max()?;
    let mut sums: BTreeMap<(PoolId, StrId), (u64, usize)> = BTreeMap::new();
    for (tensor, holder) in rank.holders.iter().filter(|(_, holder)| holder.time == time) {
        let Some(pool) = rank.tensors.pool.get(tensor.index()) else { continue };
        let (bytes, tensors) = sums.entry((*pool, holder.chain)).or_default();
        *bytes = bytes.saturating_add(per_bank(rank, *tensor));
        *tensors += 1;
    }
    let mut rows: Vec<HolderRow> = sums
        .into_iter()
        .map(|((pool, chain), (per_bank, tensors))| HolderRow {
            chain: profile.text(chain).to_owned(),
            pool: rank
                .pools
                .get(pool.index())
                .map_or_else(String::new, |pool| profile.text(pool.name).to_owned()),
            tensors,
            per_bank,
        })
        .collect();
    // The sort is stable: equal rows stay in the order of pools and of first appearance.
    rows.sort_by_key(|row| Reverse(row.per_bank));
    let count = rows.len();
    rows.truncate(most);
    Some(HoldersSummary { time_ns: time, rows, count })
}

/// What keeps a tensor alive.
pub(super) fn holder_of(profile: &Profile, rank: &Rank, tensor: TensorId) -> Option<String> {
    rank.holders.get(&tensor).map(|holder| profile.text(holder.chain).to_owned())
}

/// What keeps most of the bytes of several tensors alive.
#[derive(Debug)]
pub(super) struct MainHolder {
    /// The references.
    pub chain: String,
    /// The tensors, if they are not all: `9 of 12 tensors`.
    pub part: Option<String>,
}

/// What keeps at least half of the bytes of these tensors alive. `None` if that is unknown.
pub(super) fn main_holder(profile: &Profile, rank: &Rank, tensors: &[TensorId]) -> Option<MainHolder> {
    if rank.holders.is_empty() {
        return None;
    }
    let mut sums: BTreeMap<StrId, (u64, usize)> = BTreeMap::new();
    let mut all = 0_u64;
    for tensor in tensors {
        let size = per_bank(rank, *tensor);
        all = all.saturating_add(size);
        if let Some(Holder { chain, .. }) = rank.holders.get(tensor) {
            let (bytes, count) = sums.entry(*chain).or_default();
            *bytes = bytes.saturating_add(size);
            *count += 1;
        }
    }
    let (chain, (bytes, count)) =
        sums.into_iter().max_by_key(|(chain, (bytes, _))| (*bytes, Reverse(*chain)))?;
    let part = (count < tensors.len()).then(|| format!("{count} of {} tensors", tensors.len()));
    (bytes >= all.div_ceil(2)).then(|| MainHolder { chain: profile.text(chain).to_owned(), part })
}

fn per_bank(rank: &Rank, tensor: TensorId) -> u64 {
    rank.tensors.per_bank.get(tensor.index()).map_or(0, |bytes| bytes.or_zero())
}
