//! What is to be said of a history: what it has lost, what makes no sense in it, and where memory ran out.

use std::collections::BTreeMap;

use ttmem_model::{Fault, FaultKind, PoolId, Profile, Step, StrId, Warning};

/// What is to be said of a history when it is placed.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// By pool: how many allocations were forgotten, and how many things were given back that were not there.
    pub forgotten: BTreeMap<usize, u64>,
    pub unmatched: BTreeMap<usize, u64>,
    /// Where memory ran out.
    pub out_of_memory: Vec<OutOfMemory>,
}

/// Where memory ran out.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutOfMemory {
    pub pool: PoolId,
    pub step: Step,
    /// What was asked for.
    pub requested: u64,
    /// What the allocator and the driver had left together, and the largest piece of it.
    pub free: u64,
    pub largest_free: u64,
    /// Nothing was allocated there afterwards.
    pub is_last: bool,
}

impl Notes {
    /// Says it.
    pub fn tell(self, profile: &mut Profile, rank: usize) {
        let name = |profile: &Profile, pool: usize| {
            profile.ranks[rank].pools.get(pool).map(|pool| (pool.name, profile.text(pool.name).to_owned()))
        };
        let warn = |profile: &mut Profile, message| profile.warnings.push(Warning { line: None, message });
        for (pool, count) in self.forgotten {
            let Some((_, name)) = name(profile, pool) else { continue };
            let message = format!(
                "{count} allocations of {name} fell out of the allocator's history before it was read: the most that was \
                 in use is known, but not by what"
            );
            warn(profile, message);
        }
        for (pool, count) in self.unmatched {
            let Some((_, name)) = name(profile, pool) else { continue };
            let message =
                format!("{count} events of {name} do not follow from those before, and were left out");
            warn(profile, message);
        }
        for fault in self.out_of_memory {
            let Some((pool, name)) = name(profile, fault.pool.index()) else { continue };
            let message = format!("{name} is out of memory: {} bytes were asked for", fault.requested);
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
