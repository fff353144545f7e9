//! The parts of a device's memory when an allocation failed, and the part that is the cause.

use ttmem_model::{Amount, FaultLedger, Ledger, ProcessUse};

use super::oom::Cause;

/// The parts of a device's memory. They do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breakdown {
    /// The numbers of the error.
    pub ledger: Ledger,
    /// The parts, in the order of their display. Unknown parts are left out.
    pub parts: Vec<Part>,
    /// Whether the parts are the whole device, within the rounding. `None` if the error does not state all of them.
    pub adds_up: Option<bool>,
    /// The process in the list that must be this process, because no other one can hold its tensors.
    pub own_pid: Option<u64>,
    /// The processes in the list, if any of them may be this process. They are not parts, because one of them is counted
    /// already.
    pub unclear: Vec<ProcessUse>,
}

/// A part of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What holds the memory.
    pub kind: PartKind,
    /// Its size.
    pub amount: Amount,
}

/// What holds a part of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Tensors.
    Allocated,
    /// Private pools, such as those of CUDA graphs.
    PrivatePools,
    /// The allocator, without using it.
    Unallocated,
    /// This process, outside its allocator.
    NonPytorch,
    /// Anything outside the allocator of this process, including other processes.
    Outside,
    /// Another process.
    Process(u64),
    /// Something that the error does not name.
    Unattributed,
    /// Nothing.
    Free,
}

impl PartKind {
    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allocated => "allocated",
            Self::PrivatePools => "private_pools",
            Self::Unallocated => "unallocated",
            Self::NonPytorch => "non_pytorch",
            Self::Outside => "outside",
            Self::Process(_) => "process",
            Self::Unattributed => "unattributed",
            Self::Free => "free",
        }
    }
}

/// A part is large if it is at least one in this many bytes of the device.
const LARGE: u64 = 10;
/// A CUDA context with its libraries may be this large on any device.
const CONTEXT: u64 = 1 << 30;
/// Unused memory of the allocator matters if it is at least one in this many bytes of the device.
const RELEVANT: u64 = 50;

impl Breakdown {
    /// The parts of the device's memory at an error.
    pub fn of(fault: &FaultLedger) -> Self {
        let own = Own::of(fault);
        let process = fault.ledger.process.filter(|_| own.pid.is_none()).and(own.process);
        let ledger = Ledger { process, ..fault.ledger };
        let mut parts = Vec::new();
        let mut add = |kind, amount: Option<Amount>| {
            parts.extend(amount.map(|amount| Part { kind, amount }));
        };
        let tensors = match (ledger.allocated, ledger.private_pools) {
            // The allocated memory of a message includes private pools.
            (Some(allocated), Some(private)) => allocated.minus(private),
            (allocated, _) => allocated,
        };
        add(PartKind::Allocated, tensors);
        add(PartKind::PrivatePools, ledger.private_pools);
        add(PartKind::Unallocated, ledger.unallocated);
        let non_pytorch = own.process.and_then(|process| process.minus(reserved(&ledger)?));
        let non_pytorch = ledger.other.or(non_pytorch);
        add(PartKind::NonPytorch, non_pytorch);
        for process in own.others() {
            add(PartKind::Process(process.pid), Some(process.amount));
        }
        let known = parts.iter().fold(Amount::exact(0), |sum, part| sum.plus(part.amount));
        let used = ledger.capacity.zip(ledger.free).and_then(|(capacity, free)| capacity.minus(free));
        let rest = used.map(|used| used.minus(known));
        // Without all numbers of the allocator, the rest contains some of its memory.
        let is_outside = non_pytorch.is_none() && reserved(&ledger).is_some();
        let kind = if is_outside { PartKind::Outside } else { PartKind::Unattributed };
        let rest_part = rest.flatten().filter(|rest| rest.bytes > rest.quantum);
        parts.extend(rest_part.map(|amount| Part { kind, amount }));
        parts.extend(ledger.free.map(|amount| Part { kind: PartKind::Free, amount }));
        let adds_up = rest.filter(|_| reserved(&ledger).is_some()).map(|rest| rest.is_some());
        let (own_pid, unclear) = (own.pid, if own.is_unclear { own.listed } else { Vec::new() });
        Self { ledger, parts, adds_up, own_pid, unclear }
    }

    /// The size of a part.
    pub fn part(&self, kind: PartKind) -> Option<Amount> {
        self.parts.iter().find(|part| part.kind == kind).map(|part| part.amount)
    }

    /// The memory of other processes.
    pub fn other_processes(&self) -> Option<Amount> {
        let others = self.parts.iter().filter(|part| matches!(part.kind, PartKind::Process(_)));
        others.map(|part| part.amount).reduce(Amount::plus)
    }

    /// The memory that the allocator of the process reserves.
    pub fn reserved(&self) -> Option<Amount> {
        reserved(&self.ledger)
    }

    /// The missing bytes: of the device, or of the limit if the process reached it.
    pub fn lacks(&self, cause: Cause) -> Option<u64> {
        let requested = self.ledger.requested?;
        match cause {
            Cause::MemoryLimit => {
                requested.plus(self.limited()?).bytes.checked_sub(self.ledger.allowed?.bytes)
            }
            Cause::NeverFits => requested.bytes.checked_sub(self.ledger.capacity?.bytes),
            Cause::Capacity | Cause::OtherProcess | Cause::PrivatePools | Cause::NonPytorch => {
                requested.bytes.checked_sub(self.ledger.free?.bytes)
            }
            _ => None,
        }
    }

    /// The cause of the failure.
    pub fn cause(&self) -> Cause {
        let Ledger { requested, capacity, free, unallocated, .. } = self.ledger;
        let Some(requested) = requested else { return Cause::Unknown };
        if capacity.is_some_and(|capacity| is_more(requested, capacity)) {
            return Cause::NeverFits;
        }
        let is_fragmented = self.is_fragmented(requested);
        // PyTorch checks the limit before it asks the device. Without the memory of a device, the limit is all there is.
        if self.is_limited(requested) && !(is_fragmented && capacity.is_none()) {
            return Cause::MemoryLimit;
        }
        let obstacle = capacity.and_then(|capacity| self.largest_obstacle(requested, free, capacity));
        if is_fragmented {
            // Other memory that is much larger says more than the unused memory of the allocator.
            let is_small = |bytes: u64| unallocated.is_some_and(|unused| unused.bytes < bytes / 2);
            return obstacle
                .filter(|(_, bytes)| is_small(*bytes))
                .map_or(Cause::Fragmentation, |(cause, _)| cause);
        }
        match (free, capacity) {
            (Some(free), Some(_)) if is_more(self.needed(requested), free) || self.is_nearly_full() => {
                obstacle.map_or(Cause::Capacity, |(cause, _)| cause)
            }
            (None, Some(capacity)) if self.cannot_fit(requested, capacity) => Cause::Capacity,
            (Some(free), _) if requested.quantum == 0 && free.quantum == 0 => {
                without_capacity(requested, free)
            }
            _ => Cause::Unknown,
        }
    }

    /// Whether the message of an allocator does not state its unused memory, perhaps because it is cut off.
    pub fn lacks_unallocated(&self) -> bool {
        self.ledger.capacity.is_some() && self.ledger.unallocated.is_none()
    }

    /// The cause if the unused memory of the allocator is unknown, as far as it does not depend on that.
    pub fn certain_cause(&self) -> Cause {
        let Ledger { requested, capacity, allocated, .. } = self.ledger;
        let needed = requested.zip(allocated).map(|(requested, allocated)| requested.plus(allocated));
        match self.cause() {
            cause @ (Cause::NeverFits | Cause::MemoryLimit) => cause,
            _ if needed.zip(capacity).is_some_and(|(needed, capacity)| is_more(needed, capacity)) => {
                Cause::Capacity
            }
            _ => Cause::Unknown,
        }
    }

    /// The memory that the driver must have for a request: PyTorch asks for whole segments.
    fn needed(&self, requested: Amount) -> Amount {
        let is_by_segments = self.ledger.allocated.is_some() && requested.bytes < SEGMENTS_UP_TO;
        let bytes = if is_by_segments { segment_for(requested.bytes) } else { requested.bytes };
        Amount { bytes, ..requested }
    }

    /// The segment that the driver did not have, although the requested bytes were free.
    pub fn missing_segment(&self) -> Option<u64> {
        let (requested, free) = (self.ledger.requested?, self.ledger.free?);
        let needed = self.needed(requested);
        (requested.bytes < free.bytes && is_more(needed, free)).then_some(needed.bytes)
    }

    /// Whether so little of the device is free that the driver may refuse a request that would fit.
    pub fn is_nearly_full(&self) -> bool {
        let (requested, free) = (self.ledger.requested, self.ledger.free);
        let whole = requested.zip(free).zip(self.ledger.capacity);
        whole.is_some_and(|((requested, free), capacity)| {
            free.bytes < capacity.bytes / NEARLY_FULL
                && free.bytes < self.needed(requested).bytes.saturating_mul(2).max(NO_ROOM)
        })
    }

    /// Whether the unused memory of the allocator would be enough, and is a relevant part of the device.
    pub fn is_fragmented(&self, requested: Amount) -> bool {
        let Some(unused) = self.ledger.unallocated else { return false };
        // If the device has room for the request, it does not fail because of the free blocks.
        let needed = self.needed(requested);
        if self.ledger.capacity.is_some() && self.ledger.free.is_some_and(|free| needed.bytes < free.bytes) {
            return false;
        }
        let whole = self.ledger.capacity.or(self.ledger.allowed);
        // An allocator cannot reserve more than there is; such numbers prove nothing.
        let is_possible =
            self.reserved().zip(whole).is_none_or(|(reserved, whole)| !is_more(reserved, whole));
        let is_relevant = whole.is_none_or(|whole| unused.bytes >= whole.bytes / RELEVANT);
        unused.bytes >= requested.bytes && is_relevant && is_possible
    }

    /// Whether the request does not fit next to the memory of this process, so that the free memory need not be known.
    fn cannot_fit(&self, requested: Amount, capacity: Amount) -> bool {
        let rest = self.reserved().and_then(|reserved| capacity.minus(reserved));
        rest.is_some_and(|rest| is_more(requested, rest))
    }

    /// Whether the request exceeds the limit of the process, which is lower than the memory of the device.
    fn is_limited(&self, requested: Amount) -> bool {
        let Some(allowed) = self.ledger.allowed else { return false };
        let is_lower = self.ledger.capacity.is_none_or(|capacity| is_more(capacity, allowed));
        let asked = if requested.quantum == 0 { segment_for(requested.bytes) } else { requested.bytes };
        let needed = Amount { bytes: asked, ..requested }.plus(self.limited().unwrap_or(Amount::exact(0)));
        is_lower && needed.bytes.saturating_add(needed.quantum) > allowed.bytes
    }

    /// The unused memory of the allocator, if it would be enough for the request.
    pub fn unused_for_request(&self) -> Option<Amount> {
        let Ledger { requested, unallocated, capacity, allowed, .. } = self.ledger;
        let relevant = capacity.or(allowed)?.bytes / RELEVANT;
        unallocated.filter(|unused| unused.bytes >= requested.map_or(u64::MAX, |one| one.bytes).max(relevant))
    }

    /// The memory that counts towards the limit of the process. An allocator that owns its limit reserves all of it.
    pub fn limited(&self) -> Option<Amount> {
        let ledger = &self.ledger;
        let own = if ledger.capacity.is_some() { self.reserved() } else { None }.or(ledger.allocated);
        Some(own?.plus(ledger.other.unwrap_or(Amount::exact(0))))
    }

    /// The largest part without which the request would have fit, if it is large, and its size.
    fn largest_obstacle(
        &self,
        requested: Amount,
        free: Option<Amount>,
        capacity: Amount,
    ) -> Option<(Cause, u64)> {
        let free = free.filter(|free| is_more(self.needed(requested), *free) || self.is_nearly_full())?;
        let outside = self.part(PartKind::NonPytorch).or(self.part(PartKind::Outside));
        let candidates = [
            (Cause::OtherProcess, self.other_processes()),
            (Cause::PrivatePools, self.part(PartKind::PrivatePools)),
            (Cause::NonPytorch, outside),
        ];
        let is_obstacle = |cause: Cause, amount: &Amount| {
            let is_context = cause == Cause::NonPytorch && amount.bytes < CONTEXT;
            amount.bytes >= capacity.bytes / LARGE
                && !is_context
                && requested.bytes <= free.bytes.saturating_add(amount.bytes)
        };
        candidates
            .into_iter()
            .filter_map(|(cause, amount)| {
                Some((cause, amount.filter(|amount| is_obstacle(cause, amount))?.bytes))
            })
            .max_by_key(|(_, bytes)| *bytes)
    }
}

/// The cause if the requested and the free bytes are exact, as in an allocator's history, and no part of the device says
/// more.
fn without_capacity(requested: Amount, free: Amount) -> Cause {
    if requested.bytes > free.bytes {
        return Cause::Capacity;
    }
    // A driver may refuse memory if only a little more is free. If there is plenty, it was PyTorch that refused.
    let is_plenty = segment_for(requested.bytes).saturating_mul(2) <= free.bytes;
    if is_plenty { Cause::MemoryLimit } else { Cause::Unknown }
}

/// From this size on, PyTorch requests what it needs, rounded by less than the numbers of its messages.
const SEGMENTS_UP_TO: u64 = 10 << 20;
/// A device is nearly full if less than one in this many bytes is free, and less than `NO_ROOM` or twice what is needed.
const NEARLY_FULL: u64 = 50;
const NO_ROOM: u64 = 16 << 20;

/// The bytes that PyTorch requests from the driver for an allocation.
fn segment_for(bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    if bytes <= MIB {
        2 * MIB
    } else if bytes < 10 * MIB {
        20 * MIB
    } else {
        bytes.checked_next_multiple_of(2 * MIB).unwrap_or(bytes)
    }
}

/// Whether one number is larger than another by more than the rounding.
fn is_more(one: Amount, other: Amount) -> bool {
    one.bytes > other.bytes && !one.is_near(other)
}

/// The memory that the allocator of the process reserves.
fn reserved(ledger: &Ledger) -> Option<Amount> {
    Some(ledger.allocated?.plus(ledger.unallocated?))
}

/// The process that failed.
struct Own {
    /// Its memory.
    process: Option<Amount>,
    /// Its ID, if the message lists it among others: in a container, it does not know its own ID on the host.
    pid: Option<u64>,
    /// Whether any of the listed processes may be this one.
    is_unclear: bool,
    /// The listed processes with a possible size.
    listed: Vec<ProcessUse>,
}

impl Own {
    fn of(fault: &FaultLedger) -> Self {
        let ledger = &fault.ledger;
        let reserved = reserved(ledger);
        // Some drivers report 0 or an enormous number.
        let is_possible =
            |process: &Amount| ledger.capacity.is_none_or(|capacity| !is_more(*process, capacity));
        let holds_all = |process: &Amount| reserved.is_none_or(|reserved| !is_more(reserved, *process));
        let stated = ledger.process.filter(|process| is_possible(process) && holds_all(process));
        let listed: Vec<ProcessUse> =
            fault.processes.iter().filter(|process| is_possible(&process.amount)).copied().collect();
        if stated.is_some() || listed.is_empty() {
            return Self { process: stated, pid: None, is_unclear: false, listed };
        }
        let sum = listed.iter().fold(Amount::exact(0), |sum, process| sum.plus(process.amount));
        let used = ledger.capacity.zip(ledger.free).and_then(|(capacity, free)| capacity.minus(free));
        let (Some(used), Some(_)) = (used, reserved) else {
            return Self { process: None, pid: None, is_unclear: true, listed };
        };
        // Is there room for this process next to the listed ones?
        let room = used.minus(sum);
        if room.is_some_and(|mut room| {
            room.bytes = room.bytes.saturating_add(room.quantum);
            holds_all(&room)
        }) {
            return Self { process: None, pid: None, is_unclear: false, listed };
        }
        let mut able = listed.iter().filter(|process| holds_all(&process.amount));
        let only = able.next().copied().filter(|_| able.next().is_none());
        let (process, pid) = (only.map(|one| one.amount), only.map(|one| one.pid));
        Self { process, pid, is_unclear: only.is_none(), listed }
    }

    /// The processes that are certainly other ones.
    fn others(&self) -> impl Iterator<Item = &ProcessUse> {
        self.listed.iter().filter(|process| !self.is_unclear && self.pid != Some(process.pid))
    }
}
