//! Problems of a history to report: lost entries, inconsistent entries, and failed allocations.

use std::collections::BTreeMap;

use ttmem_model::words::{by_count, counted};
use ttmem_model::{Fault, FaultKind, PoolId, Profile, Step, StrId, Warning};

/// What to report about a history after it is placed.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// By pool: the number of lost allocations, and of frees without an allocation.
    pub forgotten: BTreeMap<usize, u64>,
    pub unmatched: BTreeMap<usize, u64>,
    /// Failed allocations.
    pub out_of_memory: Vec<OutOfMemory>,
}

/// A failed allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutOfMemory {
    pub pool: PoolId,
    pub step: Step,
    /// The requested bytes.
    pub requested: u64,
    /// The free bytes of the allocator and the driver together, and the largest free block.
    pub free: u64,
    pub largest_free: u64,
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
        for fault in self.out_of_memory {
            let Some((pool, name)) = name(profile, fault.pool.index()) else { continue };
            let message = format!("{name} is out of memory: {} bytes requested", fault.requested);
            let Some(message) = profile.strings.push(&message) else { continue };
            profile.ranks[rank].faults.push(out_of_memory(&fault, pool, message));
        }
    }
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
        free: Some(fault.free),
        largest_free: Some(fault.largest_free),
        region_end: None,
        limit: None,
        message,
        line: 0,
        ended_program: fault.is_last,
    }
}
