//! The sentences of a verdict: what an out-of-memory error means, and what to do about it.

use ttmem_model::Step;

use super::statement::Statement;
use super::summary::View;
use super::words::{brief_line, shape, size};
use crate::analyze::oom::{Cause, Part, Verdict};

/// Names have at most this many characters in a sentence.
const MAX_NAME: usize = 60;
/// Locations have at most this many.
const MAX_LOCATION: usize = 80;

/// What happened, in one sentence.
pub(super) fn headline(pool: Option<&str>, cause: Cause) -> String {
    let pool = pool.unwrap_or("Memory");
    match cause {
        Cause::Fragmentation => format!("Out of memory: {pool} is fragmented."),
        Cause::Capacity if pool == "cpu" => {
            "Out of memory: the host does not have that much memory free.".to_owned()
        }
        Cause::Capacity => format!("Out of memory: {pool} is full."),
        Cause::NeverFits => format!("Out of memory: this can never fit into {pool}."),
        Cause::CircularBuffers => "Out of L1: the circular buffers of a kernel do not fit.".to_owned(),
        Cause::TraceRegion => {
            "Out of memory: a trace does not fit into the region kept for traces.".to_owned()
        }
        Cause::AddressLimit => {
            "Out of L1: an allocation reached the lowest address that is allowed.".to_owned()
        }
        Cause::Unknown => "Out of memory.".to_owned(),
    }
}

impl View<'_> {
    /// The sentences of a verdict.
    pub(super) fn statement(&self, verdict: &Verdict<'_>) -> Statement {
        let pool = verdict.fault.pool.map(|pool| self.profile.text(pool));
        let who = verdict.fault.step.map_or_else(|| "The program".to_owned(), |step| self.failed_step(step));
        let detail = format!("{who} {}{}{}", request(verdict), self.owner(verdict), self.held_then(verdict));
        Statement::new(headline(pool, verdict.cause)).detail(detail).advice(advice(pool, verdict).to_owned())
    }

    /// `Step 107, ttnn.full at "cache.13",`.
    fn failed_step(&self, step: Step) -> String {
        let Some(op) = self.profile.op_name(self.rank, step) else { return format!("Step {step}") };
        let loc =
            self.profile.op_loc(self.rank, step).map(|loc| format!(" at {}", brief_line(loc, MAX_LOCATION)));
        let part = self.part_of(step).map(|part| format!(" in {}", brief_line(&part, MAX_NAME)));
        let (loc, part) = (loc.unwrap_or_default(), part.unwrap_or_default());
        format!("Step {step}, {}{loc}{part},", brief_line(op, MAX_NAME))
    }

    /// The tensor of the size that did not fit.
    fn owner(&self, verdict: &Verdict<'_>) -> String {
        let owner = verdict.belongs_to.iter().find_map(|owner| {
            let ty = self.profile.tensor_type(owner.ty)?;
            Some((owner, ty))
        });
        let Some((owner, ty)) = owner else { return String::new() };
        let ssa = self.profile.text(owner.ssa);
        let name =
            owner.name.map_or_else(|| ssa.to_owned(), |name| format!("{} ({ssa})", self.profile.text(name)));
        let what = match owner.part {
            Part::Result => "its result",
            Part::Operand => "its operand",
            Part::Argument => "the argument",
        };
        let wide = if owner.widened { ", if its elements are made twice as wide on the way" } else { "" };
        let (shape, dtype) = (shape(&ty.shape), self.profile.text(ty.dtype));
        let [name, shape, dtype] = [&name, &*shape, dtype].map(|text| brief_line(text, MAX_NAME));
        format!(" That is the size of {what} {name}, {shape} {dtype}{wide}.")
    }

    /// What tensors held when an allocation of a recorded program failed, and how to list them.
    fn held_then(&self, verdict: &Verdict<'_>) -> String {
        let Some(held) = self.allocated_then(verdict) else { return String::new() };
        let step = verdict.fault.step;
        let see = step.map_or_else(String::new, |step| format!(" (`--at {step}` lists them)"));
        format!(" Tensors held {} then{see}.", size(held))
    }
}

fn request(verdict: &Verdict<'_>) -> String {
    if verdict.cause == Cause::CircularBuffers {
        let overlap = verdict.overlap.map_or_else(String::new, |bytes| format!(" by {}", size(bytes)));
        return format!("needs circular buffers that reach beyond what is left of L1{overlap}.");
    }
    let fault = verdict.fault;
    let asked = match (fault.requested_per_bank, fault.banks, fault.requested_total) {
        (Some(per_bank), Some(banks), Some(total)) if banks > 1 => {
            format!("asked for {} of each of {banks} banks ({} in all)", size(per_bank), size(total))
        }
        (Some(_), _, Some(total)) => format!("asked for {}", size(total)),
        (None, _, Some(total)) => {
            return format!("asked for {} in all; how much of each bank is unknown.", size(total));
        }
        _ => "asked for an unknown amount".to_owned(),
    };
    match (verdict.free, verdict.largest_free) {
        (Some(free), Some(largest)) if largest < free && size(largest) != size(free) => {
            format!("{asked}; {} were free, but the largest piece has {}.", size(free), size(largest))
        }
        (Some(free), _) => format!("{asked}; {} were free.", size(free)),
        _ => format!("{asked}."),
    }
}

/// Whether PyTorch's caching allocator manages the memory of a pool.
fn has_caching_allocator(pool: &str) -> bool {
    pool.starts_with("cuda") || pool.starts_with("xpu")
}

fn advice(pool: Option<&str>, verdict: &Verdict<'_>) -> &'static str {
    if pool == Some("L1_SMALL") {
        return "What helps: a larger l1_small_size when the device is opened.";
    }
    let is_cached = pool.is_some_and(has_caching_allocator);
    match verdict.cause {
        _ if pool == Some("cpu") => {
            "What helps: a smaller batch, a narrower dtype, freeing what is alive, or more memory. A limit of the \
             process (`ulimit -v`, a container) counts, too."
        }
        Cause::Fragmentation if is_cached => {
            "What helps: expandable segments (PYTORCH_ALLOC_CONF=expandable_segments:True, before PyTorch 2.9 \
             PYTORCH_CUDA_ALLOC_CONF), with which the allocator joins its pieces; or make the tensor smaller."
        }
        Cause::Capacity if is_cached => {
            "What helps: free or shrink what is alive at the peak, the largest first: a smaller batch, bf16, \
             checkpointed activations, an optimizer with less state, or more devices."
        }
        Cause::Fragmentation => {
            "What helps: allocate what lives long (weights, caches) before what lives short, free the tensors \
             between the pieces (see what is alive at the peak), or make the tensor smaller."
        }
        Cause::Capacity => {
            "What helps: free or shrink what is alive at the peak, the largest first: a smaller batch, a narrower \
             dtype (bf16, bfp8), less padding, or more devices."
        }
        Cause::NeverFits => {
            "What helps: split the tensor, shard it over more devices, or store it in a narrower dtype."
        }
        Cause::CircularBuffers => {
            "What helps: move L1 tensors that are alive here to DRAM, shard over more cores, or use smaller blocks \
             in the program configuration."
        }
        Cause::TraceRegion => {
            "What helps: a larger trace_region_size when the device is opened, or a smaller trace."
        }
        Cause::AddressLimit => {
            "What helps: smaller or fewer L1 tensors, or interleaving them over more cores."
        }
        Cause::Unknown if verdict.fault.requested_per_bank.is_none() => {
            "The error message does not say how much was needed of each bank, so the cause is unknown. Start with what is \
             alive at the peak."
        }
        Cause::Unknown if verdict.largest_free.is_some() => {
            "That much was free in one piece: the program may have a limit of its own, or share the device with others."
        }
        Cause::Unknown => "The log does not tell why; a newer tt-metal prints what was free.",
    }
}
