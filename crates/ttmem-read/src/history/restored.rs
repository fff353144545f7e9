//! Restores the tensors live at a peak from the file that contains it, which a recording with a size limit keeps next
//! to the newest file.
//!
//! The newest file has the height and time of each pool's peak, but represents all tensors that have been freed since
//! by a single row. The file with the peak has them individually. Both files describe the same allocations with the
//! same strings, because a file begins with all strings of the files before it. Tensors in both files are matched by
//! size, type, operation and time of allocation; the remaining ones must match exactly what the single row represents.

use std::collections::BTreeMap;

use ttmem_model::rules::peak::{Peak, peak};
use ttmem_model::rules::{Account, Span};
use ttmem_model::{Moment, Nanoseconds, OpId, PoolId, Profile, Rank, Restored, Tensor, TensorId, TypeId};

/// The properties that identify an allocation.
type Key = (u64, Option<TypeId>, Option<OpId>, Option<Nanoseconds>);

/// Whether the tensors live at the peak of the pool with the highest usage are represented by a single row.
pub fn lacks_peak(profile: &Profile) -> bool {
    profile
        .ranks
        .iter()
        .any(|rank| highest(rank).is_some_and(|(pool, peak)| row_for_all(rank, pool, peak.at).is_some()))
}

/// Restores the tensors live at peaks from another file of the same recording. The error is the reason why it can't be
/// used.
pub fn restore_peak(profile: &mut Profile, other: &Profile) -> Result<(), &'static str> {
    if !is_of_same_recording(profile, other) {
        return Err("the file belongs to another recording");
    }
    let (Some(rank), Some(from)) = (profile.ranks.first_mut(), other.ranks.first()) else {
        return Err("the file has no memory data");
    };
    let main = highest(rank).map(|(pool, _)| pool);
    for pool in (0..rank.pools.len()).filter_map(PoolId::new) {
        let restored = restore(rank, from, pool);
        // For the other pools, the file need not contain the peak.
        if main == Some(pool) {
            restored?;
        }
    }
    Ok(())
}

fn restore(rank: &mut Rank, from: &Rank, pool: PoolId) -> Result<(), &'static str> {
    let Some(here) = peak_of(rank, pool) else { return Ok(()) };
    let Some(row) = row_for_all(rank, pool, here.at) else { return Ok(()) };
    let there = peak_of(from, pool).filter(|there| there.per_bank == here.per_bank);
    let there = there.filter(|there| from.time_of(there.at) == rank.time_of(here.at));
    let there = there.ok_or("the file does not contain the peak")?;
    if row_for_all(from, pool, there.at).is_some() {
        return Err("the file does not contain the tensors live at the peak");
    }
    let gone = gone_since(rank, here.at, from, there.at, pool);
    let bytes: u64 = gone.iter().map(|tensor| from.tensors.per_bank[tensor.index()].or_zero()).sum();
    let fits = rank.tensors.per_bank[row.index()].or_zero() == bytes
        && rank.stands_for.get(&row).copied() == u64::try_from(gone.len()).ok();
    if !fits {
        return Err("the tensors in the file do not add up to the peak");
    }
    put_in_place(rank, row, here.at, from, &gone);
    Ok(())
}

/// The pool with the highest peak among those with tensors.
fn highest(rank: &Rank) -> Option<(PoolId, Peak)> {
    rank.thinned?;
    let pools = (0..rank.pools.len()).filter_map(PoolId::new);
    let pools = pools.filter(|pool| rank.tensors.pool.contains(pool));
    let peaks = pools.filter_map(|pool| Some((pool, peak_of(rank, pool)?)));
    peaks.reduce(|most, next| if next.1.per_bank > most.1.per_bank { next } else { most })
}

fn peak_of(rank: &Rank, pool: PoolId) -> Option<Peak> {
    peak(&Account::new(rank, pool)?, Span::recorded(rank))
}

/// The row that represents several allocations at a moment.
fn row_for_all(rank: &Rank, pool: PoolId, at: Moment) -> Option<TensorId> {
    rank.live(pool, at).filter_map(TensorId::new).find(|tensor| rank.stands_for.contains_key(tensor))
}

/// The tensors that another file has at the peak and this one no longer has.
fn gone_since(rank: &Rank, at: Moment, from: &Rank, then: Moment, pool: PoolId) -> Vec<TensorId> {
    let mut kept: BTreeMap<Key, usize> = BTreeMap::new();
    for tensor in rank.live(pool, at).filter_map(TensorId::new) {
        if !rank.stands_for.contains_key(&tensor) {
            *kept.entry(key(rank, tensor)).or_default() += 1;
        }
    }
    let is_gone = |tensor: &TensorId| match kept.get_mut(&key(from, *tensor)) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    from.live(pool, then).filter_map(TensorId::new).filter(is_gone).collect()
}

fn key(rank: &Rank, tensor: TensorId) -> Key {
    let (tensors, index) = (&rank.tensors, tensor.index());
    let op = tensors.step[index].and_then(|step| rank.op_id(step.get()));
    (tensors.per_bank[index].or_zero(), tensors.ty[index], op, rank.time_of(tensors.born[index]))
}

/// Replaces the single row by individual rows at one moment. Before and after it the single row remains, because it is
/// not known which of them were live at those times.
fn put_in_place(rank: &mut Rank, row: TensorId, at: Moment, from: &Rank, gone: &[TensorId]) {
    let (born, dies) = (rank.tensors.born[row.index()], rank.tensors.dies[row.index()]);
    let after = Moment::early(at.position().saturating_add(1)).min(dies);
    let Some(for_all) = rank.tensors.get(row.index()) else { return };
    let count = rank.stands_for.get(&row).copied().unwrap_or(0);
    let add = |rank: &mut Rank, tensor: Tensor| {
        let id = TensorId::new(rank.tensors.len());
        rank.tensors.push(tensor);
        id
    };
    rank.tensors.dies[row.index()] = at.max(born);
    if after < dies
        && let Some(id) = add(rank, Tensor { born: after, ..for_all })
    {
        rank.stands_for.insert(id, count);
    }
    for &tensor in gone {
        let Some(was) = from.tensors.get(tensor.index()) else { continue };
        let made =
            Restored { op: was.step.and_then(|step| from.op_id(step.get())), scope: from.made_in(tensor) };
        let Some(id) = add(rank, Tensor { born: at, dies: after, step: None, run: None, ..was }) else {
            break;
        };
        rank.restored.insert(id, made);
        if let Some(&does) = from.requires_grad.get(&tensor) {
            rank.requires_grad.insert(id, does);
        }
        if let Some(&holder) = from.holders.get(&tensor) {
            rank.holders.insert(id, holder);
        }
    }
}

/// Whether both began at the same time, and the strings, pools and rows of one are a prefix of the other's.
fn is_of_same_recording(profile: &Profile, other: &Profile) -> bool {
    let ([rank], [from]) = (profile.ranks.as_slice(), other.ranks.as_slice()) else { return false };
    let has_names = other.strings.len() <= profile.strings.len()
        && other.strings.iter().zip(profile.strings.iter()).all(|(theirs, ours)| theirs == ours);
    let has_pools = from.pools.len() <= rank.pools.len()
        && from.pools.iter().zip(&rank.pools).all(|(theirs, ours)| theirs.name == ours.name);
    let rows = |profile: &Profile| (profile.types.len(), profile.ops.len());
    let has_rows = rows(other).0 <= rows(profile).0 && rows(other).1 <= rows(profile).1;
    let has_scopes = from.scopes.len() <= rank.scopes.len();
    rank.began.is_some() && rank.began == from.began && has_names && has_pools && has_rows && has_scopes
}
