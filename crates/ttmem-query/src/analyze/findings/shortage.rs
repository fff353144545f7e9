//! Memory that was lacking, lies in pieces, or is nobody's.

use super::{Finding, PoolAtPeak, Situation, WORTH_SAYING, What};
use crate::analyze::fragmentation::{self, Fragmented};
use crate::analyze::oom::{self, Cause};
use crate::analyze::residue;
use ttmem_model::{PoolId, StrId, difference};

/// What a request lacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Why there was no memory.
    pub cause: Cause,
    /// What was asked of each bank.
    pub requested: Option<u64>,
    /// What was free of each.
    pub free: Option<u64>,
    /// The largest piece of it.
    pub largest_free: Option<u64>,
    /// The size of a bank.
    pub capacity: Option<u64>,
    /// By how much circular buffers do not fit, on a core.
    pub overlap: Option<u64>,
}

impl Shortage {
    /// How many bytes of each bank more would have been enough, in one piece where that is what was lacking.
    pub fn lacks(&self) -> Option<u64> {
        match self.cause {
            Cause::Capacity => self.requested?.checked_sub(self.free?),
            Cause::Fragmentation => self.requested?.checked_sub(self.largest_free?),
            Cause::NeverFits => self.requested?.checked_sub(self.capacity?),
            Cause::CircularBuffers => self.overlap,
            Cause::TraceRegion | Cause::AddressLimit | Cause::Unknown => None,
        }
    }
}

/// Bytes that no tensor explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unexplained {
    /// All of them.
    pub per_bank: u64,
    /// Those of operations that keep something once for each shape.
    pub once_for_each_shape: u64,
    /// Those that were there before the first step.
    pub from_before: u64,
    /// The operation that left most behind, how much, and in how many steps.
    pub most: Option<(StrId, u64, usize)>,
}

/// The error that ended the program.
pub fn out_of_memory(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(fault) = situation.fault else { return Vec::new() };
    let (profile, rank) = (situation.profile, situation.rank);
    let named = fault.pool.and_then(|name| rank.pool_named(profile, profile.text(name)));
    let Some(pool) = named.map(|(id, _)| id).or_else(|| PoolId::new(0)) else { return Vec::new() };
    let verdict = oom::verdict(profile, rank, fault);
    let known = situation.pools.iter().find(|known| known.account.id == pool);
    let shortage = Shortage {
        cause: verdict.cause,
        requested: fault.requested_per_bank,
        free: verdict.free,
        largest_free: verdict.largest_free,
        capacity: fault.bank_size.or_else(|| known.and_then(|known| known.capacity)),
        overlap: fault.region_end.zip(fault.limit).and_then(|(end, limit)| end.checked_sub(limit)),
    };
    vec![Finding { pool, what: What::OutOfMemory(shortage), step: fault.step, saves: None }]
}

/// Free memory in pieces, at the peak or where it is worst.
pub fn pieces(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main() else { return Vec::new() };
    let Some(capacity) = pool.capacity else { return Vec::new() };
    let state = pool.account.pool.reading(pool.peak.at);
    let at_peak = state.free.zip(state.largest_free);
    let at_peak = at_peak.map(|(free, largest_free)| Fragmented { at: pool.peak.at, free, largest_free });
    let worst = fragmentation::worst(pool.account, situation.span);
    let found = [at_peak, worst].into_iter().flatten().find(|found| is_in_pieces(found, capacity));
    // Where it ended the program, that was said.
    let is_fatal =
        |fault| oom::verdict(situation.profile, situation.rank, fault).cause == Cause::Fragmentation;
    let found = found.filter(|_| !situation.fault.is_some_and(is_fatal));
    let finding = |found: Fragmented| Finding {
        step: Some(found.at.position()),
        ..pool.finding(What::Fragmented(found))
    };
    found.map(finding).into_iter().collect()
}

/// Less than half of what is free is in one piece, and less than a quarter of a bank. Where less than a hundredth
/// of the bank is free it is full, and pieces are not what is wrong.
fn is_in_pieces(found: &Fragmented, capacity: u64) -> bool {
    found.largest_free < found.free.div_ceil(2)
        && found.largest_free < capacity / 4
        && u128::from(found.free) * 100 >= u128::from(capacity)
}

/// Bytes of the peak that no tensor explains.
pub fn unexplained(situation: &Situation<'_>) -> Vec<Finding> {
    situation.main().and_then(|pool| left_behind(situation, &pool)).into_iter().collect()
}

fn left_behind(situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Option<Finding> {
    let explained = pool.account.explained(pool.peak.at)?;
    let live = ttmem_model::rules::live::live_set(situation.rank, pool.account.id, pool.peak.at)?;
    let rest = u64::try_from(difference(pool.peak.per_bank, explained)).ok()?;
    // A sum with a part that is not known explains nothing.
    if live.unknown > 0 || rest <= pool.account.pool.quantum || !pool.is_share(rest, WORTH_SAYING) {
        return None;
    }
    let rows = residue::by_operation(situation.profile, pool.account, pool.peak.at);
    let kept = |row: &residue::LeftBehind| u64::try_from(row.per_bank).unwrap_or(0);
    let is_once = |row: &&residue::LeftBehind| !row.steps.is_empty() && row.first_uses == row.steps.len();
    let is_from_before = |row: &&residue::LeftBehind| row.who == Some(residue::Who::Before);
    let sum =
        |rows: &mut dyn Iterator<Item = &residue::LeftBehind>| rows.map(kept).fold(0, u64::saturating_add);
    let most = rows.iter().filter(|row| kept(row) > 0).find(|row| row.op.is_some());
    let what = What::Unexplained(Unexplained {
        per_bank: rest,
        once_for_each_shape: sum(&mut rows.iter().filter(is_once)).min(rest),
        from_before: sum(&mut rows.iter().filter(is_from_before)).min(rest),
        most: most.and_then(|row| Some((row.op?, kept(row), row.steps.len()))),
    });
    let step = most.and_then(|row| row.steps.first().copied());
    Some(Finding { step, ..pool.finding(what) })
}
