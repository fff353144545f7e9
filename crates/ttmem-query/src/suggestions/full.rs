//! A pool is nearly full at its peak.

use super::{Finding, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::words::percent;

pub(super) const RULE: Rule = Rule {
    names: &["dram_over_90", "dram_over_80", "l1_over_95", "l1_over_90"],
    urgency: Urgency::Risk,
    find,
};

/// Above the first share of a bank, in percent, a pool is fuller than it should be; above the second it may run out.
const DRAM: [u64; 2] = [80, 90];
/// Kernels also need room in L1, which no state shows; but nothing else allocates there.
const L1: [u64; 2] = [90, 95];

/// A pool that is fuller than it should be.
#[derive(Clone, Copy, Debug)]
struct Full {
    /// The share of a bank that it is over, in percent.
    over: u64,
    /// The share that it should be under, in percent.
    target: u64,
    peak: u64,
    capacity: u64,
}

impl Full {
    fn new(peak: u64, capacity: u64, [target, risk]: [u64; 2]) -> Option<Self> {
        let is_over = |percent: u64| u128::from(peak) * 100 > u128::from(capacity) * u128::from(percent);
        let over = [risk, target].into_iter().find(|percent| is_over(*percent))?;
        (capacity > 0).then_some(Self { over, target, peak, capacity })
    }

    /// What is left of each bank at the peak.
    fn left(&self) -> u64 {
        self.capacity.saturating_sub(self.peak)
    }

    /// By how much the peak must fall for the pool to be under its target.
    fn too_much(&self) -> u64 {
        let target = u128::from(self.capacity) * u128::from(self.target) / 100;
        self.peak.saturating_sub(u64::try_from(target).unwrap_or(u64::MAX))
    }
}

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let look = |pool: &PoolAtPeak<'_>| {
        let limits = match pool.label.name {
            "DRAM" => DRAM,
            "L1" => L1,
            _ => return None,
        };
        let full = Full::new(pool.peak.per_bank, pool.capacity?, limits)?;
        let name = match (pool.label.name, full.over) {
            ("L1", 95..) => "l1_over_95",
            ("L1", _) => "l1_over_90",
            (_, 90..) => "dram_over_90",
            _ => "dram_over_80",
        };
        Some(pool.finding(name, statement(situation, pool, full)).steps(situation.cause(pool)))
    };
    situation.pools.iter().filter_map(look).collect()
}

fn statement(situation: &Situation<'_>, pool: &PoolAtPeak<'_>, full: Full) -> Statement {
    let label = pool.label;
    let found = Statement::new(format!(
        "{} is {} full at its peak, {} are left.",
        label.name,
        percent(full.peak, full.capacity),
        label.with_total(full.left())
    ));
    let goal = format!("Taking {} off brings it to {}%", label.with_total(full.too_much()), full.target);
    if label.name == "L1" {
        return found
            .detail(
                "Kernels need room there for circular buffers, too: operations may spill to DRAM and get slower, or \
                 fail."
                    .to_owned(),
            )
            .advice(format!("{goal}: move tensors to DRAM, or shard them over more cores."));
    }
    let is_risky = full.over >= 90 && situation.verdict.is_none();
    found
        .detail(is_risky.then(|| "Risk of running out of memory.".to_owned()))
        .advice(format!("{goal}: reduce the batch or the model."))
}
