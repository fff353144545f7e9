//! What an error means, in sentences, and what to do about it.

use super::table::{cut, one_line};
use super::units::{shape, size};
use ttmem_query::{Oom, RankSummary};

/// The verdict: what happened, where, and why.
pub(super) fn verdict(oom: &Oom) -> String {
    let pool = oom.pool.as_deref().unwrap_or("Memory");
    let step = match (oom.step, &oom.op) {
        (Some(step), Some(op)) => {
            let loc =
                oom.loc.as_ref().map_or_else(String::new, |loc| format!(" at {}", cut(&one_line(loc), 80)));
            let within = oom
                .within
                .as_ref()
                .map_or_else(String::new, |part| format!(" in {}", cut(&one_line(part), 60)));
            format!("Step {step}, {}{loc}{within},", cut(&one_line(op), 60))
        }
        (Some(step), None) => format!("Step {step}"),
        (None, _) => "The program".to_owned(),
    };
    format!("{} {step} {}{}{}", head(pool, oom.cause), request(oom), owner(oom), held(oom))
}

/// What tensors held when an allocation failed, and how to see which.
fn held(oom: &Oom) -> String {
    let Some(held) = oom.allocated_per_bank else { return String::new() };
    let see = oom.step.map_or_else(String::new, |step| format!(" (`--at {step}` lists them)"));
    format!(" Tensors held {} then{see}.", size(held))
}

/// The exception that ended the program, if it was not for memory.
pub(super) fn ended_by(rank: &RankSummary) -> Option<String> {
    let ended = rank.faults.iter().rfind(|fault| fault.kind == "exception" && fault.ended_program)?;
    Some(format!("The program ended with {}", cut(&one_line(&ended.message), 300)))
}

/// The verdict in a few words: what ran out.
pub(super) fn head(pool: &str, cause: &str) -> String {
    match cause {
        "fragmentation" => format!("Out of memory: {pool} is fragmented."),
        "capacity" if pool == "cpu" => {
            "Out of memory: the host does not have that much memory free.".to_owned()
        }
        "capacity" => format!("Out of memory: {pool} is full."),
        "never_fits" => format!("Out of memory: this can never fit into {pool}."),
        "circular_buffers" => "Out of L1: the circular buffers of a kernel do not fit.".to_owned(),
        "trace_region" => "Out of memory: a trace does not fit into the region kept for traces.".to_owned(),
        "address_limit" => "Out of L1: an allocation reached the lowest address that is allowed.".to_owned(),
        _ => "Out of memory.".to_owned(),
    }
}

fn request(oom: &Oom) -> String {
    if oom.cause == "circular_buffers" {
        let overlap = oom.overlap_bytes.map_or_else(String::new, |bytes| format!(" by {}", size(bytes)));
        return format!("needs circular buffers that reach beyond what is left of L1{overlap}.");
    }
    let asked = match (oom.requested_per_bank, oom.banks, oom.requested_total) {
        (Some(per_bank), Some(banks), Some(total)) if banks > 1 => {
            format!("asked for {} of each of {banks} banks ({} in all)", size(per_bank), size(total))
        }
        (Some(_), _, Some(total)) => format!("asked for {}", size(total)),
        (None, _, Some(total)) => {
            return format!("asked for {} in all; how much of each bank is unknown.", size(total));
        }
        _ => "asked for an unknown amount".to_owned(),
    };
    match (oom.free_per_bank, oom.largest_free_per_bank) {
        (Some(free), Some(largest)) if largest < free && size(largest) != size(free) => {
            format!("{asked}; {} were free, but the largest piece has {}.", size(free), size(largest))
        }
        (Some(free), _) => format!("{asked}; {} were free.", size(free)),
        _ => format!("{asked}."),
    }
}

fn owner(oom: &Oom) -> String {
    let Some(owner) = oom.belongs_to.first() else { return String::new() };
    let name =
        owner.name.as_deref().map_or_else(|| owner.ssa.clone(), |name| format!("{name} ({})", owner.ssa));
    let what = match owner.part {
        "result" => "its result",
        "operand" => "its operand",
        _ => "the argument",
    };
    let wide = if owner.widened { ", if its elements are made twice as wide on the way" } else { "" };
    let short = |text: &str| cut(&one_line(text), 60);
    let (shape, dtype) = (short(&shape(&owner.shape)), short(&owner.dtype));
    format!(" That is the size of {what} {}, {shape} {dtype}{wide}.", short(&name))
}

/// Whether PyTorch's own allocator cuts the memory of a device into pieces.
fn has_caching_allocator(pool: &str) -> bool {
    pool.starts_with("cuda") || pool.starts_with("xpu")
}

/// What to do about it.
pub(super) fn advice(oom: &Oom) -> &'static str {
    if oom.pool.as_deref() == Some("L1_SMALL") {
        return "What helps: a larger l1_small_size when the device is opened.";
    }
    let is_cached = oom.pool.as_deref().is_some_and(has_caching_allocator);
    match oom.cause {
        _ if oom.pool.as_deref() == Some("cpu") => {
            "What helps: a smaller batch, a narrower dtype, freeing what is alive, or more memory. A limit of the \
             process (`ulimit -v`, a container) counts, too."
        }
        "fragmentation" if is_cached => {
            "What helps: expandable segments (PYTORCH_ALLOC_CONF=expandable_segments:True, before PyTorch 2.9 \
             PYTORCH_CUDA_ALLOC_CONF), with which the allocator joins its pieces; or make the tensor smaller."
        }
        "capacity" if is_cached => {
            "What helps: free or shrink what is alive at the peak, the largest first: a smaller batch, bf16, \
             checkpointed activations, an optimizer with less state, or more devices."
        }
        "fragmentation" => {
            "What helps: allocate what lives long (weights, caches) before what lives short, free the tensors \
             between the pieces (see what is alive at the peak), or make the tensor smaller."
        }
        "capacity" => {
            "What helps: free or shrink what is alive at the peak, the largest first: a smaller batch, a narrower \
             dtype (bf16, bfp8), less padding, or more devices."
        }
        "never_fits" => {
            "What helps: split the tensor, shard it over more devices, or store it in a narrower dtype."
        }
        "circular_buffers" => {
            "What helps: move L1 tensors that are alive here to DRAM, shard over more cores, or use smaller blocks \
             in the program configuration."
        }
        "trace_region" => {
            "What helps: a larger trace_region_size when the device is opened, or a smaller trace."
        }
        "address_limit" => "What helps: smaller or fewer L1 tensors, or interleaving them over more cores.",
        _ if oom.requested_per_bank.is_none() => {
            "The error message does not say how much was needed of each bank, so the cause is unknown. Start with what is \
             alive at the peak."
        }
        _ if oom.largest_free_per_bank.is_some() => {
            "That much was free in one piece: the program may have a limit of its own, or share the device with others."
        }
        _ => "The log does not tell why; a newer tt-metal prints what was free.",
    }
}
