//! Out-of-memory errors: their cause, and the tensor that did not fit.

use ttmem_model::{CurveKind, Fault, FaultDetail, FaultKind, Moment, Profile, Rank, StrId, TypeId};

use super::ledger::Breakdown;

/// The cause of an out-of-memory error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Enough memory was free, but not contiguously.
    Fragmentation,
    /// Not enough memory was free.
    Capacity,
    /// The request is larger than a bank.
    NeverFits,
    /// Circular buffers and L1 buffers do not fit into L1 together.
    CircularBuffers,
    /// A trace does not fit into the trace region.
    TraceRegion,
    /// The allocation would lie below the lowest allowed address.
    AddressLimit,
    /// Other processes use the device.
    OtherProcess,
    /// The process reached a limit that is lower than the memory of the device.
    MemoryLimit,
    /// Private pools, such as those of CUDA graphs, hold memory that other allocations cannot use.
    PrivatePools,
    /// Memory that PyTorch does not manage fills the device.
    NonPytorch,
    /// An inference server has too little memory for its KV cache.
    KvCache,
    /// The input does not contain the cause.
    Unknown,
}

impl Cause {
    const ALL: [Self; 12] = [
        Self::Fragmentation,
        Self::Capacity,
        Self::NeverFits,
        Self::CircularBuffers,
        Self::TraceRegion,
        Self::AddressLimit,
        Self::OtherProcess,
        Self::MemoryLimit,
        Self::PrivatePools,
        Self::NonPytorch,
        Self::KvCache,
        Self::Unknown,
    ];

    /// Parses the name of a cause; [`Cause::Unknown`] for any other text.
    pub fn parse(name: &str) -> Self {
        Self::ALL.into_iter().find(|cause| cause.as_str() == name).unwrap_or(Self::Unknown)
    }

    /// The name of the cause in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fragmentation => "fragmentation",
            Self::Capacity => "capacity",
            Self::NeverFits => "never_fits",
            Self::CircularBuffers => "circular_buffers",
            Self::TraceRegion => "trace_region",
            Self::AddressLimit => "address_limit",
            Self::OtherProcess => "other_process",
            Self::MemoryLimit => "memory_limit",
            Self::PrivatePools => "private_pools",
            Self::NonPytorch => "non_pytorch",
            Self::KvCache => "kv_cache",
            Self::Unknown => "unknown",
        }
    }
}

/// The source of errors about a KV cache.
const KV_CACHE: &str = "kv_cache";

/// The verdict on an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// The error that the verdict explains.
    pub fault: &'a Fault,
    /// Its details.
    pub detail: FaultDetail,
    /// The cause of the error.
    pub cause: Cause,
    /// Whether the numbers are from the error message; if not, they are from the last state before it.
    pub from_message: bool,
    /// The free bytes of each bank.
    pub free: Option<u64>,
    /// The largest free block of a bank.
    pub largest_free: Option<u64>,
    /// The size of a bank.
    pub capacity: Option<u64>,
    /// The excess of circular buffers over the available L1 of a core.
    pub overlap: Option<u64>,
    /// The tensors whose size matches the request.
    pub belongs_to: Vec<Owner>,
    /// The parts of the device's memory, if the error states them.
    pub breakdown: Option<Breakdown>,
}

impl Verdict<'_> {
    /// The largest block of a bank that the allocation could have used.
    pub fn largest_usable(&self) -> Option<u64> {
        self.detail.largest_placeable.or(self.largest_free)
    }

    /// Whether the error is from the history of an allocator, which knows its free blocks.
    pub fn is_from_history(&self) -> bool {
        self.breakdown.is_some() && is_from_history(self.fault)
    }

    /// Whether a program's buffers do not fit even if L1 has no tensors.
    pub fn exceeds_empty_l1(&self) -> bool {
        // tt-metal checks this first, so a clash with tensors means that the buffers alone would fit.
        self.fault.kind == FaultKind::CircularBuffersTooLarge
    }

    /// The missing bytes per bank; contiguous bytes if fragmentation is the cause.
    pub fn lacks(&self) -> Option<u64> {
        let requested = self.fault.requested_per_bank;
        let is_by_size = self.is_from_history() && self.cause != Cause::MemoryLimit;
        if let Some(breakdown) = self.breakdown.as_ref().filter(|_| !is_by_size) {
            return breakdown.lacks(self.cause);
        }
        match self.cause {
            Cause::Capacity => requested?.checked_sub(self.free?),
            Cause::Fragmentation => requested?.checked_sub(self.largest_usable()?),
            Cause::NeverFits => requested?.checked_sub(self.capacity?),
            Cause::CircularBuffers => self.overlap,
            _ => None,
        }
    }
}

/// A tensor whose size matches the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Whether the tensor is a result, an operand or an argument.
    pub part: Part,
    /// The SSA name in the step.
    pub ssa: StrId,
    /// The name in the model.
    pub name: Option<StrId>,
    /// The declared type.
    pub ty: TypeId,
    /// The size matches only if the elements are twice as wide as declared, such as bf16 converted to f32.
    pub widened: bool,
}

/// The role of a tensor in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The step would have allocated it.
    Result,
    /// The step reads it.
    Operand,
    /// An argument of the program.
    Argument,
}

/// The out-of-memory error that ended the program; the last one if there are several. If the input is about operations
/// and not about programs (a capture, a database, or only errors), it is the last one, even if the program went on.
pub fn fatal(rank: &Rank) -> Option<&Fault> {
    let is_of_memory = |fault: &&Fault| fault.kind != FaultKind::Exception;
    let fatal = rank.faults.iter().filter(is_of_memory).rfind(|fault| fault.ended_program);
    fatal.or_else(|| rank.faults.iter().rfind(is_of_memory).filter(|_| !knows_programs(rank)))
}

/// Whether the input says which errors programs survived: a runtime log, or a recording. A snapshot, which has the segments
/// of its allocator, only shows that the allocator was used afterwards.
fn knows_programs(rank: &Rank) -> bool {
    !rank.runs.is_empty() || rank.began.is_some() && rank.reserved.is_empty()
}

/// The cause of an error, with the numbers that show it.
pub fn verdict<'a>(profile: &Profile, rank: &Rank, fault: &'a Fault) -> Verdict<'a> {
    let (mut free, mut largest_free, mut capacity) = (fault.free, fault.largest_free, fault.bank_size);
    let detail = rank.fault_detail(fault);
    let breakdown = rank.ledger(fault).map(Breakdown::of);
    // Only the verdict on a plain out-of-memory error depends on the free bytes. An operation's check has its own limit.
    let needs_state = fault.kind == FaultKind::OutOfMemory
        && !detail.is_refusal
        && breakdown.is_none()
        && (free.is_none() || largest_free.is_none());
    let from_message = !needs_state;
    if needs_state {
        let state = state_before(profile, rank, fault);
        free = free.or_else(|| state.and_then(|(free, ..)| free));
        largest_free = largest_free.or_else(|| state.and_then(|(_, largest, _)| largest));
        capacity = capacity.or_else(|| state.and_then(|(.., capacity)| capacity));
    }
    let cause = match fault.kind {
        FaultKind::CircularBuffersClash | FaultKind::CircularBuffersTooLarge => Cause::CircularBuffers,
        FaultKind::TraceRegion => Cause::TraceRegion,
        FaultKind::AddressLimit => Cause::AddressLimit,
        FaultKind::Exception => Cause::Unknown,
        FaultKind::OutOfMemory => {
            let largest = detail.largest_placeable.or(largest_free);
            let by_size = || out_of_memory(fault.requested_per_bank, capacity, free, largest);
            let source = breakdown.as_ref().and_then(|breakdown| breakdown.ledger.source);
            match &breakdown {
                Some(_) if source.is_some_and(|source| profile.text(source) == KV_CACHE) => Cause::KvCache,
                // A history knows the free blocks. Only a limit of the program does not follow from them.
                Some(breakdown) if is_from_history(fault) => match by_size() {
                    Cause::Unknown => breakdown.cause(),
                    cause => cause,
                },
                Some(breakdown)
                    if breakdown.lacks_unallocated()
                        && source.is_some_and(|source| profile.text(source) == "pytorch") =>
                {
                    breakdown.certain_cause()
                }
                Some(breakdown) => breakdown.cause(),
                None => by_size(),
            }
        }
    };
    Verdict {
        fault,
        detail,
        cause,
        from_message,
        free,
        largest_free,
        capacity,
        overlap: overlap(fault),
        belongs_to: owners(profile, rank, fault),
        breakdown,
    }
}

fn is_from_history(fault: &Fault) -> bool {
    fault.step.is_some() && fault.largest_free.is_some()
}

/// The excess of a program's buffers. The addresses of other errors are not compared with a size.
fn overlap(fault: &Fault) -> Option<u64> {
    let is_of_buffers =
        matches!(fault.kind, FaultKind::CircularBuffersClash | FaultKind::CircularBuffersTooLarge);
    let (end, limit) = fault.region_end.zip(fault.limit).filter(|_| is_of_buffers)?;
    end.checked_sub(limit)
}

fn out_of_memory(need: Option<u64>, capacity: Option<u64>, free: Option<u64>, largest: Option<u64>) -> Cause {
    let Some(need) = need else { return Cause::Unknown };
    if capacity.is_some_and(|capacity| need > capacity) {
        return Cause::NeverFits;
    }
    match (free, largest) {
        (Some(free), _) if need > free => Cause::Capacity,
        (Some(_), Some(largest)) if need > largest => Cause::Fragmentation,
        _ => Cause::Unknown,
    }
}

/// Free bytes, largest free block and capacity of the fault's pool in the state before its step; if the fault happened
/// outside programs, in the last state.
fn state_before(
    profile: &Profile,
    rank: &Rank,
    fault: &Fault,
) -> Option<(Option<u64>, Option<u64>, Option<u64>)> {
    let name = profile.text(fault.pool?);
    let (_, pool) = rank.pool_named(profile, name)?;
    let at = fault.step.map_or(Moment::late(rank.end()), Moment::before);
    let value = |kind| pool.curve(kind).and_then(|curve| curve.value_at(at));
    Some((value(CurveKind::Free), value(CurveKind::LargestFree), value(CurveKind::Capacity)))
}

/// The tensors whose size matches the request: those of the step, or else the arguments.
fn owners(profile: &Profile, rank: &Rank, fault: &Fault) -> Vec<Owner> {
    let Some(requested) = fault.requested_total else { return Vec::new() };
    let of_step = of_step(profile, rank, fault, requested);
    if !of_step.is_empty() {
        return of_step;
    }
    let arguments = rank.modules.iter().flat_map(|module| &module.arguments);
    let candidates =
        arguments.filter_map(|argument| Some((Part::Argument, argument.ssa, argument.name, argument.ty?)));
    fitting(profile, candidates, requested)
}

fn of_step(profile: &Profile, rank: &Rank, fault: &Fault, requested: u64) -> Vec<Owner> {
    let Some(op) = fault.step.and_then(|step| profile.op_of(rank, step)) else { return Vec::new() };
    let results = op.results.iter().zip(&op.result_types).map(|(ssa, ty)| (Part::Result, *ssa, *ty));
    let operands = op.operands.iter().zip(&op.operand_types).map(|(ssa, ty)| (Part::Operand, *ssa, *ty));
    let candidates = results.chain(operands).filter_map(|(part, ssa, ty)| Some((part, ssa, None, ty?)));
    fitting(profile, candidates, requested)
}

/// The candidates of exactly the requested size; if there are none, those of half the size, which a conversion to wider
/// elements explains.
fn fitting(
    profile: &Profile,
    candidates: impl Iterator<Item = (Part, StrId, Option<StrId>, TypeId)>,
    requested: u64,
) -> Vec<Owner> {
    let mut owners: Vec<Owner> = Vec::new();
    for (part, ssa, name, ty) in candidates {
        let Some(sizes) = profile.tensor_type(ty).map(|ty| [ty.padded.get(), ty.logical.get()]) else {
            continue;
        };
        let exact = sizes.contains(&Some(requested));
        let widened = sizes.iter().flatten().any(|size| size.checked_mul(2) == Some(requested));
        if exact || widened {
            owners.push(Owner { part, ssa, name, ty, widened: !exact });
        }
    }
    if owners.iter().any(|owner| !owner.widened) {
        owners.retain(|owner| !owner.widened);
    }
    owners
}
