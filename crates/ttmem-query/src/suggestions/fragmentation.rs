//! Free memory is fragmented, at the peak or at the worst moment.

use super::{Finding, Rule, Situation, Statement, Urgency};
use crate::about::Extent;
use crate::analyze::fragmentation::{Fragmented, worst};
use crate::analyze::oom::Cause;
use crate::words::size;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "fragmentation";

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    // If fragmentation ended the program, the verdict already reports it.
    if situation.verdict.is_some_and(|verdict| verdict.cause == Cause::Fragmentation) {
        return Vec::new();
    }
    let Some(pool) = situation.main() else { return Vec::new() };
    let Some(capacity) = pool.capacity else { return Vec::new() };
    let state = pool.account.pool.reading(pool.peak.at);
    let at_peak = state.free.zip(state.largest_free);
    let at_peak = at_peak.map(|(free, largest_free)| Fragmented { at: pool.peak.at, free, largest_free });
    let found = [at_peak, worst(pool.account, situation.span)];
    let Some(found) = found.into_iter().flatten().find(|found| is_fragmented(found, capacity)) else {
        return Vec::new();
    };
    let statement = Statement::new(format!(
        "Before step {}, {} of {} is free, but the largest free block is {}: larger requests{} fail.",
        found.at.position(),
        pool.label.per_bank(found.free),
        pool.label.name,
        size(found.largest_free),
        match pool.label.extent() {
            Extent::Bank => " per bank",
            Extent::Core => " per core",
            Extent::Device => "",
        },
    ))
    .advice("Allocate long-lived tensors (weights, caches) before short-lived ones.".to_owned());
    vec![pool.finding(NAME, statement).steps([found.at.position()])]
}

/// Whether the largest free block is less than half of the free bytes and less than a quarter of a bank. If less than
/// 1% of the bank is free, the bank is full, and fragmentation is not the problem.
fn is_fragmented(found: &Fragmented, capacity: u64) -> bool {
    found.largest_free < found.free.div_ceil(2)
        && found.largest_free < capacity / 4
        && u128::from(found.free) * 100 >= u128::from(capacity)
}
