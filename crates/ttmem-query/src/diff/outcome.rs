//! What decides about a comparison: the pools that count, errors, and inputs without anything that can be compared.

use serde::Serialize;
use ttmem_model::{Error, Profile, Result, Step};

use super::{Diff, PoolDiff, RankDiff, content};
use crate::analyze::diff::{Both, Side};
use crate::analyze::oom;

/// The memory of the process, which is sampled next to other pools.
const HOST: &str = "host";

/// The out-of-memory error that ended each input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct OutOfMemoryDiff {
    /// That of the first input; `None` if it did not run out of memory.
    pub before: Option<OutOfMemory>,
    /// That of the second input.
    pub after: Option<OutOfMemory>,
}

/// An out-of-memory error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct OutOfMemory {
    /// The pool; `None` if it is unknown.
    pub pool: Option<String>,
    /// The step that failed; `None` if it is unknown.
    pub step: Option<Step>,
}

impl OutOfMemoryDiff {
    pub(super) fn of(sides: &Both<Side<'_>>) -> Self {
        let of = |side: Side<'_>| {
            let fault = oom::fatal(side.rank)?;
            let pool = fault.pool.map(|pool| side.profile.text(pool).to_owned());
            Some(OutOfMemory { pool, step: fault.step })
        };
        Self { before: of(sides.before), after: of(sides.after) }
    }

    /// Whether only the second input ran out of memory.
    pub fn is_new(&self) -> bool {
        self.before.is_none() && self.after.is_some()
    }

    /// The difference in one sentence; `None` if there is none.
    pub(super) fn sentence(&self) -> Option<String> {
        let place =
            |error: &OutOfMemory| error.pool.as_ref().map_or_else(String::new, |pool| format!(" in {pool}"));
        match (&self.before, &self.after) {
            (None, Some(after)) => Some(format!(
                "AFTER runs out of memory{}, and BEFORE does not: the peak of AFTER is a lower bound.",
                place(after)
            )),
            (Some(before), None) => Some(format!(
                "BEFORE runs out of memory{}, and AFTER does not: the peak of BEFORE is a lower bound.",
                place(before)
            )),
            (Some(before), Some(after)) if before.pool != after.pool => Some(format!(
                "BEFORE runs out of memory{}, and AFTER{}: the peaks are lower bounds.",
                place(before),
                if after.pool.is_some() { place(after) } else { " in an unknown pool".to_owned() }
            )),
            _ => None,
        }
    }
}

impl PoolDiff {
    /// Whether an input ever allocates memory in the pool.
    pub(crate) fn is_used(&self) -> bool {
        [self.before_per_bank, self.after_per_bank].into_iter().flatten().any(|peak| peak > 0)
    }

    /// Whether an input uses the pool, and its peak in the other one is unknown.
    pub(super) fn is_one_sided(&self) -> bool {
        self.change_per_bank.is_none() && self.is_used()
    }
}

/// The pools whose peaks count. Sampled pools, such as the memory of the process, are left out if any pool is exact.
pub(crate) fn compared(pools: &[(String, PoolDiff)]) -> impl Iterator<Item = &(String, PoolDiff)> {
    let has = |is_it: &dyn Fn(&str, &PoolDiff) -> bool| {
        pools.iter().any(|(name, pool)| pool.is_used() && is_it(name, pool))
    };
    let has_exact = has(&|_, pool| !pool.sampled);
    let has_others = has(&|name, _| name != HOST);
    pools.iter().filter(move |(name, pool)| !(pool.sampled && (has_exact || has_others && name == HOST)))
}

/// An error if no rank has anything that can be compared: different training phases and errors alone cannot.
pub(super) fn something_compared(before: &Profile, after: &Profile, found: &Diff) -> Result<()> {
    if !found.ranks.iter().all(is_nothing) {
        return Ok(());
    }
    let files = format!("{} with {}", before.source.file, after.source.file);
    let has_phases = |profile: &Profile| content(profile).any(|rank| !rank.phases.is_empty());
    Err(Error::Usage(if has_phases(before) && has_phases(after) {
        format!(
            "cannot compare {files}: they have only training phases, and none in common; compare the output of `ttmem \
             phases` for each"
        )
    } else {
        format!(
            "cannot compare {files}: they have no peaks or operations; `ttmem summary` shows the contents of each"
        )
    }))
}

/// Whether a rank has nothing that was compared.
fn is_nothing(rank: &RankDiff) -> bool {
    let same_end = rank.out_of_memory.before.is_some() == rank.out_of_memory.after.is_some();
    rank.pools.0.is_empty() && rank.operations.before == 0 && rank.operations.after == 0 && same_end
}
