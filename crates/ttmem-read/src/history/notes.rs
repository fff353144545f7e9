//! Problems of a history to report: lost entries, inconsistent entries, and failed allocations.

use std::collections::BTreeMap;

use ttmem_model::words::{by_count, counted};
use ttmem_model::{
    Amount, Curve, CurveKind, Fault, FaultKind, FaultLedger, Ledger, MemorySetting, PoolId, Profile, Rank,
    Step, StrId, Warning,
};

use super::device::Levels;

/// What to report about a history after it is placed.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// By pool: the number of lost allocations, and of frees without an allocation.
    pub forgotten: BTreeMap<usize, u64>,
    pub unmatched: BTreeMap<usize, u64>,
    /// Failed allocations.
    pub out_of_memory: Vec<OutOfMemory>,
    /// The number of iterations without details, and of those that differ from all complete ones.
    pub bare: u64,
    pub unlike: u64,
}

/// A failed allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutOfMemory {
    pub pool: PoolId,
    pub step: Step,
    /// The requested bytes.
    pub requested: u64,
    /// The free bytes of the driver.
    pub device_free: u64,
    /// The free bytes in the allocator's segments, and the largest free block there.
    pub free: u64,
    pub largest_free: u64,
    /// The levels of the allocator.
    pub levels: Levels,
    /// Whether nothing was allocated in the pool afterwards.
    pub is_last: bool,
}

impl Notes {
    /// Adds the warnings and faults to the profile.
    pub fn report(self, profile: &mut Profile, rank: usize) {
        let name = |profile: &Profile, pool: usize| {
            profile.ranks[rank].pools.get(pool).map(|pool| (pool.name, profile.text(pool.name).to_owned()))
        };
        let warn = |profile: &mut Profile, message| profile.warnings.push(Warning { line: None, message });
        for (pool, count) in self.forgotten {
            let Some((_, name)) = name(profile, pool) else { continue };
            let message = format!(
                "{} in {name} {} overwritten in the allocator's history before it was read; the peak is known, but \
                 part of it can't be attributed to tensors",
                counted(count, "allocation"),
                by_count(count, "was", "were")
            );
            warn(profile, message);
        }
        for (pool, count) in self.unmatched {
            let Some((_, name)) = name(profile, pool) else { continue };
            let message = format!(
                "{} in {name} {} inconsistent with earlier events and skipped, so usage may be wrong",
                counted(count, "event"),
                by_count(count, "was", "were")
            );
            warn(profile, message);
        }
        if self.unlike > 0 {
            let message = format!(
                "{} of {} recorded without modules and source lines {} from all that were recorded with them, so \
                 part of the memory can't be attributed to modules",
                self.unlike,
                counted(self.bare, "iteration"),
                by_count(self.unlike, "differs", "differ")
            );
            warn(profile, message);
        }
        for fault in self.out_of_memory {
            let Some((pool, name)) = name(profile, fault.pool.index()) else { continue };
            let message = format!("{name} is out of memory: {} bytes requested", fault.requested);
            let Some(message) = profile.strings.push(&message) else { continue };
            let ledger = ledger(profile, rank, &fault, &name);
            let Rank { faults, ledgers, .. } = &mut profile.ranks[rank];
            ledgers.extend(u32::try_from(faults.len()).ok().map(|index| (index, ledger)));
            faults.push(out_of_memory(&fault, pool, message));
        }
    }
}

/// The parts of the device's memory that a failed allocation and the allocator's settings tell.
fn ledger(profile: &mut Profile, rank: usize, fault: &OutOfMemory, pool: &str) -> FaultLedger {
    let Levels { allocated, reserved, .. } = fault.levels;
    let rules = profile.ranks[rank].pools.get(fault.pool.index()).and_then(|pool| pool.rules);
    let is_expandable = rules.is_some_and(|rules| rules.is_expandable);
    let limit = rules.and_then(|rules| rules.limit);
    // A tracker records the size of the device; a snapshot does not have it.
    let capacity = profile.ranks[rank].pools.get(fault.pool.index());
    let capacity = capacity.and_then(|pool| pool.curve(CurveKind::Capacity)).and_then(Curve::last);
    let mut text = |text: &str| profile.strings.push(text);
    let ledger = Ledger {
        source: text("pytorch"),
        platform: text(pool.split(':').next().unwrap_or(pool)),
        requested: Some(Amount::exact(fault.requested)),
        capacity: capacity.map(Amount::exact),
        allowed: limit.map(Amount::exact),
        free: Some(Amount::exact(fault.device_free)),
        allocated: Some(Amount::exact(allocated)),
        unallocated: Some(Amount::exact(reserved.saturating_sub(allocated))),
        ..Ledger::default()
    };
    let expandable = is_expandable
        .then(|| {
            let (name, value) = (text("PYTORCH_CUDA_ALLOC_CONF")?, text("expandable_segments:True")?);
            Some(MemorySetting { name, value })
        })
        .flatten();
    FaultLedger { ledger, settings: expandable.into_iter().collect(), ..FaultLedger::default() }
}

fn out_of_memory(fault: &OutOfMemory, pool: StrId, message: StrId) -> Fault {
    Fault {
        kind: FaultKind::OutOfMemory,
        pool: Some(pool),
        step: Some(fault.step),
        requested_total: Some(fault.requested),
        requested_per_bank: Some(fault.requested),
        banks: Some(1),
        bank_size: None,
        allocated: None,
        // The driver's free memory is one more free block.
        free: Some(fault.free.saturating_add(fault.device_free)),
        largest_free: Some(fault.largest_free.max(fault.device_free)),
        region_end: None,
        limit: None,
        message,
        line: 0,
        ended_program: fault.is_last,
    }
}
