//! Restores the tensors live at a peak from the file that contains it, which a recording with a size limit keeps next
//! to the newest file.
//!
//! The newest file has the height and time of each pool's peak, but represents all tensors that have been freed since
//! by a single row. The file with the peak has them individually. Both files describe the same allocations with the
//! same strings, because a file begins with all strings of the files before it. Tensors in both files are matched by
//! size, type, operation and time of allocation; the remaining ones must match exactly what the single row represents.
//!
//! If an allocator has a history, the newest file has only the height of the peak, and no tensors at that moment: those in
//! the file with the peak must add up to the height.

use std::collections::BTreeMap;

use ttmem_model::rules::peak::{Peak, peak};
use ttmem_model::rules::{Account, Span};
use ttmem_model::{
    Moment, Nanoseconds, OpId, PoolId, Profile, Rank, Restored, StrId, Tensor, TensorId, TypeId,
};

/// The properties that identify an allocation.
type Key = (u64, Option<TypeId>, Option<OpId>, Option<Nanoseconds>);

/// The number of strings, operations, types and scopes that both files of a recording have under the same ids.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    strings: usize,
    ops: usize,
    types: usize,
    scopes: usize,
}

impl Shared {
    /// Those of another file, as it was read. `None`: it belongs to another recording.
    pub fn of(profile: &Profile, other: &Profile) -> Option<Self> {
        let scopes = other.ranks.first()?.scopes.len();
        let (strings, ops, types) = (other.strings.len(), other.ops.len(), other.types.len());
        is_of_same_recording(profile, other).then_some(Self { strings, ops, types, scopes })
    }
}

/// Whether the tensors live at the peak of the pool with the highest usage are represented by a single row, or missing.
pub fn lacks_peak(profile: &Profile) -> bool {
    let is_lacking = |rank: &Rank, pool: PoolId, peak: Peak| {
        row_for_all(rank, pool, peak.at).is_some() || is_missing(rank, pool, peak)
    };
    profile.ranks.iter().any(|rank| highest(rank).is_some_and(|(pool, peak)| is_lacking(rank, pool, peak)))
}

/// Restores the tensors live at peaks from another file of the same recording. The error is the reason why it can't be
/// used.
pub fn restore_peak(profile: &mut Profile, other: &Profile, shared: Shared) -> Result<(), &'static str> {
    // Names that reading gave.
    let given = other.strings.iter().skip(shared.strings).map(|name| profile.strings.push(name)).collect();
    let (Some(rank), Some(from)) = (profile.ranks.first_mut(), other.ranks.first()) else {
        return Err("the file has no memory data");
    };
    let from = &Source { rank: from, shared, given };
    let main = highest(rank).map(|(pool, _)| pool);
    for pool in (0..rank.pools.len()).filter_map(PoolId::new) {
        let restored = match peak_of(rank, pool) {
            Some(peak) if is_missing(rank, pool, peak) => restore_all(rank, from, pool, peak),
            _ => restore(rank, from, pool),
        };
        // For the other pools, the file need not contain the peak.
        if main == Some(pool) {
            restored?;
        }
    }
    Ok(())
}

/// The file with the peak.
struct Source<'a> {
    rank: &'a Rank,
    shared: Shared,
    /// The ids here of its further strings.
    given: Vec<Option<StrId>>,
}

impl Source<'_> {
    /// Adds a tensor of this file, for some moments.
    fn add(&self, rank: &mut Rank, tensor: TensorId, born: Moment, dies: Moment) -> Option<TensorId> {
        let was = self.rank.tensors.get(tensor.index())?;
        let name = was.name.and_then(|name| match name.index().checked_sub(self.shared.strings) {
            Some(given) => self.given.get(given).copied().flatten(),
            None => Some(name),
        });
        let ty = was.ty.filter(|ty| ty.index() < self.shared.types);
        let scope = self.rank.made_in(tensor).filter(|scope| scope.index() < self.shared.scopes);
        let made = Restored { op: self.op(self.rank.made_by(tensor)), scope };
        let id = TensorId::new(rank.tensors.len())?;
        rank.tensors.push(Tensor { born, dies, step: None, run: None, name, ty, ..was });
        rank.restored.insert(id, made);
        if let Some(&does) = self.rank.requires_grad.get(&tensor) {
            rank.requires_grad.insert(id, does);
        }
        if let Some(&holder) = self.rank.holders.get(&tensor) {
            rank.holders.insert(id, holder);
        }
        Some(id)
    }

    fn op(&self, op: Option<OpId>) -> Option<OpId> {
        op.filter(|op| op.index() < self.shared.ops)
    }
}

/// Adds all tensors live at a peak, if this file has only its height.
fn restore_all(rank: &mut Rank, from: &Source<'_>, pool: PoolId, here: Peak) -> Result<(), &'static str> {
    let there = peak_of(from.rank, pool).filter(|there| there.per_bank == here.per_bank);
    let there = there.ok_or("the file does not contain the peak")?;
    let live: Vec<TensorId> = from.rank.live(pool, there.at).filter_map(TensorId::new).collect();
    let bytes = |tensor: &TensorId| from.rank.tensors.per_bank[tensor.index()].or_zero();
    if live.iter().map(bytes).sum::<u64>() != here.per_bank {
        return Err("the tensors in the file do not add up to the peak");
    }
    let after = Moment::early(here.at.position().saturating_add(1));
    for tensor in live {
        if from.add(rank, tensor, here.at, after).is_none() {
            break;
        }
    }
    let cause = there.at.position().checked_sub(1).and_then(|step| from.op(from.rank.op_id(step)));
    let step = here.at.position().checked_sub(1).and_then(|step| rank.steps.op.get_mut(step as usize));
    if let (Some(cause), Some(op)) = (cause, step) {
        *op = cause;
    }
    Ok(())
}

/// Whether a pool has tensors, but none at its peak: only the height is kept.
fn is_missing(rank: &Rank, pool: PoolId, peak: Peak) -> bool {
    let has_tensors = rank.tensors.pool.contains(&pool);
    peak.per_bank > 0 && has_tensors && rank.live(pool, peak.at).next().is_none()
}

fn restore(rank: &mut Rank, from: &Source<'_>, pool: PoolId) -> Result<(), &'static str> {
    let Some(here) = peak_of(rank, pool) else { return Ok(()) };
    let Some(row) = row_for_all(rank, pool, here.at) else { return Ok(()) };
    let there = peak_of(from.rank, pool).filter(|there| there.per_bank == here.per_bank);
    let there = there.filter(|there| from.rank.time_of(there.at) == rank.time_of(here.at));
    let there = there.ok_or("the file does not contain the peak")?;
    if row_for_all(from.rank, pool, there.at).is_some() {
        return Err("the file does not contain the tensors live at the peak");
    }
    let gone = gone_since(rank, here.at, from.rank, there.at, pool);
    let bytes: u64 = gone.iter().map(|tensor| from.rank.tensors.per_bank[tensor.index()].or_zero()).sum();
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
fn put_in_place(rank: &mut Rank, row: TensorId, at: Moment, from: &Source<'_>, gone: &[TensorId]) {
    let (born, dies) = (rank.tensors.born[row.index()], rank.tensors.dies[row.index()]);
    let after = Moment::early(at.position().saturating_add(1)).min(dies);
    let Some(for_all) = rank.tensors.get(row.index()) else { return };
    let count = rank.stands_for.get(&row).copied().unwrap_or(0);
    rank.tensors.dies[row.index()] = at.max(born);
    if after < dies
        && let Some(id) = TensorId::new(rank.tensors.len())
    {
        rank.tensors.push(Tensor { born: after, ..for_all });
        rank.stands_for.insert(id, count);
    }
    for &tensor in gone {
        if from.add(rank, tensor, at, after).is_none() {
            break;
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
