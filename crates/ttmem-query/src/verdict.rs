//! The sentences of an out-of-memory verdict: what the error means and what to do about it.

use ttmem_model::{FaultKind, Rank, Step};

use super::faults::buffer_kind;
use super::statement::Statement;
use super::summary::View;
use super::words::{brief_line, shape, size};
use crate::analyze::oom::{Cause, Part, Verdict};

/// Maximum number of characters of a name in a sentence.
const MAX_NAME: usize = 60;
/// Maximum number of characters of a source location in a sentence.
const MAX_LOCATION: usize = 80;

/// The headline of a verdict, in one sentence.
pub(super) fn headline(pool: Option<&str>, cause: Cause) -> String {
    let pool = pool.unwrap_or("Memory");
    match cause {
        Cause::Fragmentation => format!("Out of memory: {pool} is fragmented."),
        Cause::Capacity if pool == "cpu" => {
            "Out of memory: the host does not have enough free memory.".to_owned()
        }
        Cause::NeverFits if pool == "cpu" => {
            "Out of memory: the request exceeds the memory of the host.".to_owned()
        }
        Cause::Capacity => format!("Out of memory: {pool} is full."),
        Cause::NeverFits => format!("Out of memory: the request exceeds the capacity of {pool}."),
        Cause::CircularBuffers => "Out of L1: a kernel's circular buffers do not fit.".to_owned(),
        Cause::TraceRegion => "Out of memory: a trace does not fit into the trace region.".to_owned(),
        Cause::AddressLimit => "Out of L1: an allocation reached the lowest allowed address.".to_owned(),
        Cause::OtherProcess => format!("Out of memory: another process uses {pool}."),
        Cause::MemoryLimit => format!("Out of memory: the program reached its memory limit on {pool}."),
        Cause::PrivatePools => {
            format!("Out of memory: private pools hold memory of {pool} that other allocations cannot use.")
        }
        Cause::NonPytorch => format!("Out of memory: memory outside PyTorch's allocator fills {pool}."),
        Cause::KvCache => "Out of memory: the KV cache does not fit.".to_owned(),
        Cause::Unknown => "Out of memory.".to_owned(),
    }
}

/// The headline of a verdict whose details are known.
fn headline_of(pool: Option<&str>, verdict: &Verdict<'_>) -> String {
    match (verdict.cause, pool) {
        (_, Some(pool)) if verdict.detail.is_refusal => {
            format!("Out of {pool}: an operation needs more than is available.")
        }
        (Cause::CircularBuffers, _) => format!("Out of L1: a kernel's {} do not fit.", buffers(verdict)),
        (cause, pool) => headline(pool, cause),
    }
}

impl View<'_> {
    /// The headline, detail and advice of a verdict.
    pub(super) fn statement(&self, verdict: &Verdict<'_>) -> Statement {
        let has_parts = !verdict.is_from_history() || verdict.cause == Cause::MemoryLimit;
        if let Some(breakdown) = verdict.breakdown.as_ref().filter(|_| has_parts) {
            return self.ledger_statement(verdict, breakdown);
        }
        let pool = verdict.fault.pool.map(|pool| self.profile.text(pool));
        let step = verdict.fault.step.map(|step| self.failed_step(step));
        let who = step.unwrap_or_else(|| self.failed_operation(verdict));
        let what = if verdict.detail.is_refusal { need(pool, verdict) } else { self.request(verdict) };
        let owner = self.owner(verdict);
        let held = self.held_then(verdict);
        let continued = continued(self.rank, verdict).map(str::to_owned);
        let parts = [Some(format!("{who} {what}{owner}")), held, continued];
        let detail = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let is_expandable = verdict.cause == Cause::Fragmentation && self.has_expandable_segments(verdict);
        let advice =
            if is_expandable { FEWER_SIZES_WHEN_EXPANDABLE.to_owned() } else { advice(pool, verdict) };
        Statement::new(headline_of(pool, verdict)).detail(detail).advice(advice)
    }

    /// `ttnn.softmax at model.py:12`.
    pub(super) fn failed_operation(&self, verdict: &Verdict<'_>) -> String {
        let op = self.op_of(verdict.fault, &verdict.detail).map(|op| brief_line(op, MAX_NAME));
        let loc = self.loc_of(verdict.fault, &verdict.detail).map(|loc| brief_line(loc, MAX_LOCATION));
        match (op, loc) {
            (Some(op), Some(loc)) => format!("{op} at {loc}"),
            (Some(op), None) => op,
            (None, Some(loc)) => format!("The program at {loc}"),
            (None, None) => "The program".to_owned(),
        }
    }

    /// What was requested and what was available.
    fn request(&self, verdict: &Verdict<'_>) -> String {
        let fault = verdict.fault;
        let (end, limit) = (fault.region_end, fault.limit);
        match (fault.kind, end, limit) {
            (
                FaultKind::CircularBuffersClash | FaultKind::CircularBuffersTooLarge,
                Some(end),
                Some(limit),
            ) => self.program_buffers(verdict, end, limit),
            (FaultKind::TraceRegion, Some(mark), Some(address)) => format!(
                "placed a trace buffer at address {address}, but memory below address {mark} was in use while the trace \
                 was captured."
            ),
            (FaultKind::TraceRegion, None, Some(region)) if fault.requested_total.is_some() => {
                let trace = fault.requested_total.map_or_else(String::new, size);
                format!("needs {trace} for a trace, but the trace region has {}.", size(region))
            }
            (FaultKind::AddressLimit, Some(address), Some(lowest)) => {
                format!("needs L1 down to address {address}, but the lowest allowed address is {lowest}.")
            }
            _ => request(verdict),
        }
    }

    /// The buffers of a program that overlap tensors or exceed L1.
    fn program_buffers(&self, verdict: &Verdict<'_>, end: u64, limit: u64) -> String {
        let (detail, buffers) = (&verdict.detail, buffers(verdict));
        let cores =
            detail.cores.map(|cores| format!(" on cores {}", brief_line(self.profile.text(cores), MAX_NAME)));
        let cores = cores.unwrap_or_default();
        let program = detail.program.map_or_else(String::new, |program| format!(" (program {program})"));
        let excess = verdict.overlap.map(size);
        if verdict.exceeds_empty_l1() {
            let excess = excess.map_or_else(String::new, |excess| format!(", {excess} too much"));
            return format!(
                "needs {buffers} up to address {end}{cores}{program}, but L1 ends at address {limit}{excess}."
            );
        }
        let excess = excess.map_or_else(String::new, |excess| format!(": they overlap by {excess}"));
        format!(
            "needs {buffers} up to address {end}{cores}{program}, but the lowest L1 buffer is at address \
             {limit}{excess}."
        )
    }

    /// `Step 107, ttnn.full at "cache.13",`.
    pub(super) fn failed_step(&self, step: Step) -> String {
        let Some(op) = self.profile.op_name(self.rank, step) else { return format!("Step {step}") };
        let loc =
            self.profile.op_loc(self.rank, step).map(|loc| format!(" at {}", brief_line(loc, MAX_LOCATION)));
        let part = self.part_of(step).map(|part| format!(" in {}", brief_line(&part, MAX_NAME)));
        let (loc, part) = (loc.unwrap_or_default(), part.unwrap_or_default());
        format!("Step {step}, {}{loc}{part},", brief_line(op, MAX_NAME))
    }

    /// The sentence about the tensor whose size matches the failed request.
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
        let wide = if owner.widened { " with elements twice as wide as declared" } else { "" };
        let (shape, dtype) = (shape(&ty.shape), self.profile.text(ty.dtype));
        let [name, shape, dtype] = [&name, &*shape, dtype].map(|text| brief_line(text, MAX_NAME));
        format!(" The requested size matches {what} {name}, {shape} {dtype}{wide}.")
    }

    /// The sentence about the memory held by tensors when an allocation of a recorded program failed.
    pub(super) fn held_then(&self, verdict: &Verdict<'_>) -> Option<String> {
        let held = self.allocated_then(verdict)?;
        let step = verdict.fault.step;
        let see = step.map_or_else(String::new, |step| format!(" (`--at {step}` lists them)"));
        Some(format!("Tensors held {} at that point{see}.", size(held)))
    }
}

/// `circular buffers` or `dataflow buffers`.
fn buffers(verdict: &Verdict<'_>) -> String {
    format!("{} buffers", verdict.detail.buffers.map_or("circular", buffer_kind))
}

/// The need of an operation that refused to run.
fn need(pool: Option<&str>, verdict: &Verdict<'_>) -> String {
    let of_pool = pool.map_or_else(String::new, |pool| format!(" of {pool}"));
    let per_core = if pool.is_some_and(|pool| pool.starts_with("L1")) { " per core" } else { "" };
    match (verdict.fault.requested_per_bank, verdict.free) {
        (Some(need), Some(available)) => {
            let short = need.checked_sub(available).filter(|short| *short > 0);
            let short = short.map_or_else(String::new, |bytes| format!(", {} short", size(bytes)));
            format!(
                "needs {}{of_pool}{per_core}, but only {} is available{short}.",
                size(need),
                size(available)
            )
        }
        (Some(need), None) => format!("needs {}{of_pool}{per_core}, more than is available.", size(need)),
        (None, Some(available)) => {
            format!("needs more than the {}{of_pool}{per_core} that is available.", size(available))
        }
        (None, None) => format!("needs more{of_pool} than is available."),
    }
}

fn request(verdict: &Verdict<'_>) -> String {
    if verdict.cause == Cause::CircularBuffers {
        let overlap = verdict.overlap.map_or_else(String::new, |bytes| format!(" by {}", size(bytes)));
        return format!("needs {} that exceed the available L1{overlap}.", buffers(verdict));
    }
    let fault = verdict.fault;
    let requested = match (fault.requested_per_bank, fault.banks, fault.requested_total) {
        (Some(per_bank), Some(banks), Some(total)) if banks > 1 => {
            format!("requested {} in each of {banks} banks ({} in total)", size(per_bank), size(total))
        }
        (Some(_), _, Some(total)) => format!("requested {}", size(total)),
        (None, _, Some(total)) => {
            return format!("requested {} in total; the amount per bank is unknown.", size(total));
        }
        _ => "requested an unknown amount".to_owned(),
    };
    let unit = if fault.banks.is_some_and(|banks| banks > 1) { " per bank" } else { "" };
    if let (Cause::NeverFits, Some(capacity), Some(lacks)) =
        (verdict.cause, verdict.capacity, verdict.lacks())
    {
        return format!("{requested}; the capacity is {}{unit}, {} short.", size(capacity), size(lacks));
    }
    let available =
        if verdict.cause == Cause::Fragmentation { verdict.largest_usable() } else { verdict.free };
    let short = fault.requested_per_bank.zip(available).and_then(|(wanted, had)| wanted.checked_sub(had));
    let short = short.filter(|short| *short > 0);
    let short = short.map_or_else(String::new, |bytes| format!(", {} short", size(bytes)));
    if let (Some(free), Some(largest)) = (verdict.free, verdict.detail.largest_placeable) {
        return placeable(
            verdict,
            &requested,
            &format!("{}{unit} was free", size(free)),
            &size(largest),
            &short,
        );
    }
    match (verdict.free, verdict.largest_free) {
        (Some(free), Some(largest)) if largest < free && size(largest) != size(free) => {
            let (free, largest) = (size(free), size(largest));
            if verdict.cause == Cause::Fragmentation {
                format!(
                    "{requested}; {free}{unit} was free, but the largest free block was {largest}{short}."
                )
            } else {
                format!("{requested}; {free}{unit} was free{short} (largest free block {largest}).")
            }
        }
        (Some(free), _) => format!("{requested}; {}{unit} was free{short}.", size(free)),
        _ => format!("{requested}."),
    }
}

/// A request that other allocations restrict to some windows.
fn placeable(verdict: &Verdict<'_>, requested: &str, free: &str, largest: &str, short: &str) -> String {
    let windows = match (verdict.detail.placeable, verdict.detail.windows) {
        (Some(bytes), Some(1)) => format!("{} of it in one window", size(bytes)),
        (Some(bytes), Some(windows)) => format!("{} of it in {windows} windows", size(bytes)),
        (Some(bytes), None) => format!("{} of it", size(bytes)),
        (None, _) => "part of it".to_owned(),
    };
    format!(
        "{requested}; {free}, but other allocations leave only {windows} for this one, and the largest window was \
         {largest}{short}."
    )
}

/// The advice on fragmentation in PyTorch's caching allocator.
pub(super) const EXPANDABLE_SEGMENTS: &str = "Enable expandable segments (PYTORCH_ALLOC_CONF=expandable_segments:True; before PyTorch 2.9, \
     PYTORCH_CUDA_ALLOC_CONF) so that the allocator can merge its free blocks, or make the tensor smaller.";

/// The same if they are enabled.
pub(super) const FEWER_SIZES_WHEN_EXPANDABLE: &str = "Expandable segments are enabled already. Use tensors of fewer different sizes (pad inputs to a few lengths) or \
     a smaller batch.";

/// The advice on a device that is full of tensors.
pub(super) const SMALLER_TENSORS: &str = "Free or shrink the tensors that are live at the peak, largest first: use a smaller batch, bf16, activation \
     checkpointing, an optimizer with less state, or more devices.";

/// Whether PyTorch's caching allocator manages a pool.
fn has_caching_allocator(pool: &str) -> bool {
    ["cuda", "hip", "xpu"].iter().any(|kind| pool.starts_with(kind))
}

/// The size that a region needs, in whole KiB: what it holds and what was requested.
fn needed(verdict: &Verdict<'_>) -> Option<u64> {
    let held = verdict.capacity?.saturating_sub(verdict.free?);
    held.checked_add(verdict.fault.requested_per_bank?)?.checked_next_multiple_of(1024)
}

/// The sentence about an error that did not end the program. In a log, other lines may follow the end of a program.
pub(super) fn continued(rank: &Rank, verdict: &Verdict<'_>) -> Option<&'static str> {
    let has_continued = !verdict.fault.ended_program && !rank.has_only_faults();
    has_continued.then_some(CONTINUED)
}

/// The sentence about an error that the program survived.
pub(super) const CONTINUED: &str = "The program continued after this error.";

fn advice(pool: Option<&str>, verdict: &Verdict<'_>) -> String {
    if pool == Some("L1_SMALL") {
        let needed = needed(verdict);
        let least =
            needed.map_or_else(String::new, |bytes| format!(": at least {bytes} bytes ({})", size(bytes)));
        return format!("Open the device with a larger l1_small_size{least}.");
    }
    let is_step = verdict.fault.step.is_some();
    let then = if is_step { "at this step" } else { "at this point" };
    match verdict.cause {
        _ if verdict.detail.is_refusal && pool.is_some_and(|pool| pool.starts_with("L1")) => format!(
            "Move the L1 tensors that are live {then} to DRAM, shard over more cores, or give the operation less work \
             per core: smaller blocks in the program config, or smaller inputs."
        ),
        Cause::CircularBuffers if verdict.exceeds_empty_l1() => {
            "The buffers do not fit even if L1 is empty, so moving tensors does not help. Use smaller blocks in the program \
             config, more cores, or a DRAM-sharded program config."
                .to_owned()
        }
        Cause::CircularBuffers => format!(
            "Move the L1 tensors that are live {then} to DRAM, shard over more cores, or use smaller blocks in the \
             program config."
        ),
        Cause::TraceRegion if verdict.fault.region_end.is_some() => {
            "Open the device with a trace_region_size, or allocate and free less while the trace is captured."
                .to_owned()
        }
        _ => usual_advice(pool, verdict).to_owned(),
    }
}

fn usual_advice(pool: Option<&str>, verdict: &Verdict<'_>) -> &'static str {
    let is_cached = pool.is_some_and(has_caching_allocator);
    match verdict.cause {
        _ if pool == Some("cpu") => {
            "Use a smaller batch or a narrower dtype, free live tensors, or add memory. Check the limits of the \
             process as well (`ulimit -v`, container limits)."
        }
        Cause::Fragmentation if is_cached => EXPANDABLE_SEGMENTS,
        Cause::Capacity if is_cached => SMALLER_TENSORS,
        Cause::Fragmentation => {
            "Allocate long-lived tensors (weights, caches) before short-lived ones, free the tensors between the \
             free blocks, or make the tensor smaller."
        }
        Cause::Capacity => {
            "Free or shrink the tensors that are live at the peak, largest first: use a smaller batch, a narrower \
             dtype (bf16, bfp8), less padding, or more devices."
        }
        Cause::NeverFits => "Split the tensor, shard it over more devices, or store it in a narrower dtype.",
        Cause::CircularBuffers => "Shard over more cores, or use smaller blocks in the program config.",
        Cause::TraceRegion => "Open the device with a larger trace_region_size, or make the trace smaller.",
        Cause::AddressLimit => "Use smaller or fewer L1 tensors, or interleave them over more cores.",
        // Only errors with a ledger have these causes.
        Cause::OtherProcess
        | Cause::MemoryLimit
        | Cause::PrivatePools
        | Cause::NonPytorch
        | Cause::KvCache => "",
        Cause::Unknown if verdict.fault.requested_per_bank.is_none() => {
            "The error message does not give the size per bank, so the cause is unknown. Start with the tensors \
             that are live at the peak."
        }
        Cause::Unknown if verdict.largest_free.is_some() => {
            "A large enough block was free: the program may have set its own limit, or share the device with \
             another program."
        }
        Cause::Unknown => {
            "The log does not contain the cause; newer versions of tt-metal print how much memory was free."
        }
    }
}
