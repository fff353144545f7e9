//! A pool is nearly full at its peak.

use super::{Finding, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::device::is_torch;
use crate::level::{Level, Limits};
use crate::words::percent;

pub(super) const RULE: Rule = Rule::new(
    &["dram_over_90", "dram_over_80", "l1_over_95", "l1_over_90", "memory_over_90", "memory_over_80"],
    Urgency::Risk,
    find,
);

/// A pool whose peak is above its limit.
#[derive(Clone, Copy, Debug)]
struct Full {
    /// High or full.
    level: Level,
    /// The share of its capacity that its peak should not exceed, in percent.
    target: u64,
    peak: u64,
    capacity: u64,
}

impl Full {
    fn new(peak: u64, capacity: u64, limits: Limits) -> Option<Self> {
        let level = limits.level(peak, capacity).filter(|level| *level > Level::Ok)?;
        Some(Self { level, target: limits.high, peak, capacity })
    }

    /// The free bytes per bank at the peak.
    fn left(&self) -> u64 {
        self.capacity.saturating_sub(self.peak)
    }

    /// The excess of an amount over the target, per bank.
    fn excess(&self, bytes: u64) -> u64 {
        let target = u128::from(self.capacity) * u128::from(self.target) / 100;
        let target = u64::try_from(target).unwrap_or(u64::MAX);
        bytes.saturating_sub(target)
    }
}

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let look = |pool: &PoolAtPeak<'_>| {
        if !is_judged(pool.label.name) {
            return None;
        }
        let limits = situation.thresholds.limits(pool.label.name);
        let full = Full::new(pool.peak.per_bank, pool.capacity?, limits)?;
        let name = match (pool.label.name, full.level) {
            ("L1", Level::Full) => "l1_over_95",
            ("L1", _) => "l1_over_90",
            ("DRAM", Level::Full) => "dram_over_90",
            ("DRAM", _) => "dram_over_80",
            (_, Level::Full) => "memory_over_90",
            _ => "memory_over_80",
        };
        Some(pool.finding(name, statement(situation, pool, full)).steps(situation.cause(pool)))
    };
    situation.pools.iter().filter_map(look).collect()
}

/// Whether it is a risk if the pool is full. The program sizes the other regions (L1_SMALL, TRACE, circular buffers) to
/// fit their contents, so those may be full.
fn is_judged(pool: &str) -> bool {
    matches!(pool, "DRAM" | "L1") || is_torch(pool)
}

fn statement(situation: &Situation<'_>, pool: &PoolAtPeak<'_>, full: Full) -> Statement {
    let label = pool.label;
    let share = percent(full.peak, full.capacity);
    // A verdict on this pool states how much was free when it ran out.
    let found = Statement::new(if situation.ran_out(label.name) {
        format!("{} is {share} full at its peak.", label.name)
    } else {
        format!("{} is {share} full at its peak; {} is free.", label.name, label.with_total(full.left()))
    });
    // A program that failed needs the memory that it requested, and perhaps more later.
    let failed = situation.verdict.filter(|_| situation.ran_out(label.name));
    let needed = failed.map_or(full.peak, |verdict| {
        let requested = verdict.fault.requested_per_bank.unwrap_or(0);
        // The peak may have been earlier.
        let then = verdict.fault.allocated.unwrap_or(full.peak);
        full.peak.max(then.saturating_add(requested))
    });
    let least = if failed.is_some() { "at least " } else { "" };
    let saving = label.with_total(full.excess(needed));
    let goal = format!("To stay below {}%, save {least}{saving}", full.target);
    if label.name == "L1" {
        return found
            .detail(
                "Kernels also need L1 for their circular buffers: operations may spill to DRAM and become slower, or \
                 fail."
                    .to_owned(),
            )
            .advice(format!("{goal}: move tensors to DRAM or shard them over more cores."));
    }
    let is_risky = full.level == Level::Full && situation.verdict.is_none();
    found
        .detail(is_risky.then(|| "The program may run out of memory.".to_owned()))
        .advice(format!("{goal}: reduce the batch size or the model size."))
}
