//! The program ran out of memory: how much was missing.

use ttmem_model::PoolId;

use super::phrases::{PoolLabel, brief};
use super::{Finding, Rule, Situation, Statement, Urgency};
use crate::about::Extent;
use crate::analyze::oom::{Cause, Verdict};
use crate::device::is_torch;
use crate::faults::buffer_kind;
use crate::words::size;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Failure, find);

const NAME: &str = "out_of_memory";
/// The pool of tensors on the host.
const CPU: &str = "cpu";

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(verdict) = situation.verdict else { return Vec::new() };
    let (profile, rank) = (situation.profile, situation.rank);
    let named = verdict.fault.pool.and_then(|name| rank.pool_named(profile, profile.text(name)));
    let first = || PoolId::new(0).filter(|_| !rank.pools.is_empty());
    let Some(pool) = named.map(|(id, _)| id).or_else(first) else { return Vec::new() };
    let step = verdict.fault.step;
    let op = || verdict.detail.op.map_or_else(|| "A request".into(), |op| brief(profile.text(op)));
    let who = step.map_or_else(op, |step| situation.step(step));
    // The verdict has the parts of the device's memory, or the limit; there is nothing to add.
    if verdict.breakdown.is_some() && (!verdict.is_from_history() || verdict.cause == Cause::MemoryLimit) {
        return Vec::new();
    }
    vec![Finding::new(NAME, pool, statement(&who, verdict, situation.pool_label(pool))).steps(step)]
}

fn statement(who: &str, verdict: &Verdict<'_>, label: PoolLabel<'_>) -> Statement {
    let pool = label.name;
    // A pool of a PyTorch device is named after the device.
    let memory = if is_torch(pool) { format!("{pool} memory") } else { pool.to_owned() };
    let known = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".into(), size);
    let requested = verdict.fault.requested_per_bank;
    let amount = requested.map_or_else(|| "an unknown amount".into(), |bytes| label.per_bank(bytes));
    let requests = format!("requested {amount}");
    let (free, largest) = (known(verdict.free), known(verdict.largest_usable()));
    match (verdict.cause, verdict.lacks()) {
        (Cause::Capacity, Some(lacks)) => Statement::new(format!(
            "{who} needs {} more {memory}{}: it {requests}, and {free} was free.",
            label.per_bank(lacks),
            label.on_device(lacks)
        ))
        .advice(format!(
            "Free that amount before this step, or request less: {}.",
            if pool.starts_with("L1") {
                "use smaller blocks, more cores, or DRAM instead"
            } else {
                "use a smaller batch, a narrower dtype, or more devices"
            }
        )),
        (Cause::Fragmentation, Some(lacks)) => Statement::new(format!(
            "{who} needs {} more contiguous {memory}: it {requests}, {free} was free, but the largest free block was \
             {largest}.",
            label.per_bank(lacks)
        ))
        .advice("Allocate long-lived tensors first, or free the tensors between the free blocks.".to_owned()),
        (Cause::NeverFits, Some(_)) => {
            let whole = match label.extent() {
                _ if pool == CPU => "the host",
                Extent::Bank => "a bank",
                Extent::Core => "a core",
                Extent::Device => "the device",
            };
            Statement::new(format!("{who} {requests} of {pool}, but {whole} has {}.", known(verdict.capacity)))
                .advice(never_fits(pool, requested.unwrap_or(0), verdict.capacity))
        }
        (Cause::CircularBuffers, Some(lacks)) => Statement::new(format!(
            "{who} needs {} more L1 per core for its {} buffers.",
            size(lacks),
            verdict.detail.buffers.map_or("circular", buffer_kind)
        ))
        .advice(if verdict.exceeds_empty_l1() {
            "Use smaller blocks, more cores, or a DRAM-sharded program config.".to_owned()
        } else {
            "Move that amount of live L1 tensors to DRAM, shard over more cores, or use smaller blocks."
                .to_owned()
        }),
        (Cause::TraceRegion, _) => Statement::new(format!("{who} {requests} for a trace."))
            .advice("Open the device with a larger trace_region_size.".to_owned()),
        (Cause::Unknown, _) if requested.is_some() && verdict.largest_free.is_some() => {
            Statement::new(format!("{who} {requests} of {pool}, although a block of {largest} was free."))
                .advice(
                    "Check whether the program sets its own memory limit, and whether other programs use the device."
                        .to_owned(),
                )
        }
        _ => Statement::new(format!(
            "{who} ran out of {pool}; the log does not say how much was missing."
        )),
    }
}

fn never_fits(pool: &str, requested: u64, capacity: Option<u64>) -> String {
    if pool == "L1_SMALL" {
        return format!("Open the device with an l1_small_size of {requested} B or more.");
    }
    if pool == CPU {
        return "Split the tensor, or store it in a narrower dtype.".to_owned();
    }
    let parts = capacity.map_or(2, |capacity| requested.div_ceil(capacity.max(1)));
    format!("Split the tensor into at least {parts} parts, or shard it over at least {parts} devices.")
}
