//! The L1 of a core while a step runs: what is in it, and the headroom between the program's buffers and the tensors.
//!
//! From the lowest address: the reserved part, the buffers of the running program, the headroom, the tensors, and the
//! region for small buffers. If the end of the program's buffers is above the lowest tensor, the program cannot run.

use rustc_hash::FxHashMap;
use ttmem_model::{
    CoreMemory, CoreRange, CoreRanges, CurveKind, Fault, FaultKind, Moment, Pool, PoolId, Profile,
    ProgramBuffer, ProgramBufferKind, Rank, Step, StepMarks, StrId,
};

/// Addresses of program buffers are multiples of this.
const ALIGNMENT: u64 = 32;

/// The L1 of a rank's cores.
pub struct L1<'a> {
    /// The layout, if the input has it.
    pub memory: Option<CoreMemory>,
    /// Whether nothing ran: sizes are right, but addresses are unknown.
    pub is_estimate: bool,
    /// The pool of the tensors.
    pub pool: Option<PoolId>,
    profile: &'a Profile,
    rank: &'a Rank,
    cores: FxHashMap<StrId, CoreRanges>,
}

/// What is in a core's L1 while a step runs. Of the cores, the one whose program buffers end highest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepUse {
    /// The bytes of the tensors, without those in the region for small buffers.
    pub tensors: Option<u64>,
    /// The address of the lowest tensor; the end of the tensors' region if there is none. For an estimate, the address
    /// that tensors without gaps would reach.
    pub lowest_tensor: Option<u64>,
    /// The program.
    pub program: ProgramUse,
}

/// The buffers of a program on a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramUse {
    /// Whether a program runs.
    pub runs: bool,
    /// Whether its buffers are known.
    pub is_known: bool,
    /// Whether its buffers did not fit. Then the message has their end.
    pub failed: bool,
    /// The bytes of its circular buffers.
    pub circular: u64,
    /// The bytes of its dataflow buffers.
    pub dataflow: u64,
    /// The bytes of its scratchpads.
    pub scratchpads: u64,
    /// The address where its buffers end; the end of the reserved part without a program.
    pub end: Option<u64>,
}

impl ProgramUse {
    /// The bytes of all its buffers.
    pub fn bytes(&self) -> u64 {
        self.circular.saturating_add(self.dataflow).saturating_add(self.scratchpads)
    }
}

impl StepUse {
    /// The lowest tensor address minus the end of the program's buffers. Negative if they overlap.
    pub fn headroom(&self) -> Option<i64> {
        let (lowest, end) = (self.lowest_tensor?, self.program.end?);
        Some(ttmem_model::difference(lowest, end))
    }

    /// Whether the program's buffers are unknown, so that their end may be higher.
    pub fn is_open(&self) -> bool {
        self.program.runs && !self.program.is_known && !self.program.failed
    }
}

/// A program buffer with its place on its cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedBuffer {
    /// The buffer.
    pub buffer: ProgramBuffer,
    /// The first address; computed if the input does not have it.
    pub start: u64,
}

impl PlacedBuffer {
    /// One past the last address.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.buffer.bytes)
    }
}

impl<'a> L1<'a> {
    /// The L1 of a rank; `None` if the input has neither its layout nor programs.
    pub fn of(profile: &'a Profile, rank: &'a Rank) -> Option<Self> {
        if rank.core_memory.is_none() && rank.program_buffers.is_empty() {
            return None;
        }
        let mut cores = FxHashMap::default();
        for &id in rank.program_buffers.cores.iter().chain(rank.placements.cores.iter().flatten()) {
            cores.entry(id).or_insert_with(|| CoreRanges::parse(profile.text(id)).unwrap_or_default());
        }
        let pool = rank.pool_named(profile, "L1").map(|(id, _)| id);
        let is_estimate = rank.sessions.iter().any(|session| session.estimated);
        Some(Self { memory: rank.core_memory, is_estimate, pool, profile, rank, cores })
    }

    /// The end of the tensors' region.
    pub fn top(&self) -> Option<u64> {
        self.memory.map(|memory| memory.size.saturating_sub(memory.small))
    }

    /// The cores of a program buffer or tensor.
    pub fn cores(&self, id: StrId) -> Option<&CoreRanges> {
        self.cores.get(&id)
    }

    /// What is in L1 while each step runs.
    pub fn steps(&self) -> Vec<StepUse> {
        let lowest = self.lowest_tensors();
        let steps = 0..self.rank.end();
        let mut uses: Vec<StepUse> =
            steps.map(|step| self.step(step, lowest.get(step as usize).copied().flatten())).collect();
        for (step, found) in (0..).zip(&mut uses) {
            // These buffers are those of an empty L1, and some operations take less if less is free.
            let is_impossible =
                found.headroom().is_some_and(|headroom| headroom < 0) && self.is_from_estimate(step);
            let marks = self.rank.steps.marks.get(step as usize).copied().unwrap_or_default();
            if is_impossible && marks.has(StepMarks::FAILED) {
                found.program.failed = true;
            } else if is_impossible {
                found.program = self.unknown_program();
            }
        }
        for fault in self.rank.faults.iter().filter(|fault| is_of_program(fault)) {
            if let Some(step) = fault.step.filter(|step| *step < self.rank.end()) {
                uses[step as usize] = self.clash(step, fault, uses[step as usize]);
            }
        }
        uses
    }

    /// A step whose program did not fit. It did not run, but the message has its addresses.
    fn clash(&self, step: Step, fault: &Fault, found: StepUse) -> StepUse {
        let computed = self.program(step);
        let is_it = computed.is_known && computed.end == fault.region_end;
        let program = if is_it { computed } else { self.unknown_program() };
        let program = ProgramUse { failed: true, end: fault.region_end.or(program.end), ..program };
        // If the buffers do not even fit into an empty L1, the limit is its size.
        let lowest = fault.limit.filter(|_| fault.kind == FaultKind::CircularBuffersClash);
        StepUse { program, lowest_tensor: lowest.or(found.lowest_tensor), ..found }
    }

    fn unknown_program(&self) -> ProgramUse {
        let end = self.memory.map(|memory| memory.reserved);
        ProgramUse { runs: true, end, ..ProgramUse::default() }
    }

    /// Whether the buffers of a step's program are from a capture without dispatch, in a profile of a real run.
    pub fn is_from_estimate(&self, step: Step) -> bool {
        !self.is_estimate && self.rank.program_buffers.of(step).any(|buffer| buffer.address.is_none())
    }

    fn step(&self, step: Step, lowest: Option<u64>) -> StepUse {
        let tensors = self.tensors_at(Moment::after(step));
        let lowest_tensor = match lowest {
            Some(lowest) => Some(lowest),
            None if tensors == Some(0) => self.top(),
            None if self.is_estimate => {
                self.top().zip(tensors).map(|(top, tensors)| top.saturating_sub(tensors))
            }
            None => None,
        };
        StepUse { tensors, lowest_tensor, program: self.program(step) }
    }

    /// The bytes of tensors at a moment; 0 if there never are any.
    fn tensors_at(&self, at: Moment) -> Option<u64> {
        let Some(pool) = self.pool.and_then(|pool| self.rank.pools.get(pool.index())) else { return Some(0) };
        value_at(pool, at)
    }

    /// The lowest tensor address after each step; `None` for a step without tensors, or with one without an address.
    fn lowest_tensors(&self) -> Vec<Option<u64>> {
        let Some(pool) = self.pool else { return Vec::new() };
        let tensors = &self.rank.tensors;
        let mut changes: Vec<(Moment, bool, Option<u64>)> = Vec::new();
        let mut placements = self.rank.placements.iter().peekable();
        for row in (0..tensors.len()).filter(|row| tensors.pool[*row] == pool) {
            while placements.next_if(|placement| placement.tensor.index() < row).is_some() {}
            let address = placements.peek().filter(|placement| placement.tensor.index() == row);
            let address = address.map(|placement| placement.address);
            changes.push((tensors.born[row], true, address));
            changes.push((tensors.dies[row], false, address));
        }
        changes.sort_unstable();
        let mut live: std::collections::BTreeMap<Option<u64>, u64> = std::collections::BTreeMap::new();
        let mut changes = changes.into_iter().peekable();
        let mut at_step = |step: Step| {
            while let Some((_, is_born, address)) = changes.next_if(|(at, ..)| *at <= Moment::after(step)) {
                let count = live.entry(address).or_insert(0);
                *count = if is_born { *count + 1 } else { count.saturating_sub(1) };
                if *count == 0 {
                    live.remove(&address);
                }
            }
            // `None` is the first key: then the lowest address is unknown.
            live.keys().next().copied().flatten()
        };
        (0..self.rank.end()).map(&mut at_step).collect()
    }

    /// The program of a step, on the core where its buffers end highest.
    pub fn program(&self, step: Step) -> ProgramUse {
        let placed = self.placed(step);
        let marks = self.rank.steps.marks.get(step as usize).copied().unwrap_or_default();
        let is_unknown = marks.has(StepMarks::UNKNOWN_PROGRAM);
        let reserved = self.memory.map(|memory| memory.reserved);
        let nothing = ProgramUse { runs: is_unknown, end: reserved, ..ProgramUse::default() };
        let on_core = |core: (u32, u32)| {
            let on = placed.iter().filter(|placed| self.is_on(placed.buffer.cores, core));
            let own = on.filter(|placed| !placed.buffer.borrowed);
            let mut found = ProgramUse { runs: true, is_known: true, ..nothing };
            for placed in own {
                let bytes = placed.buffer.bytes;
                match placed.buffer.kind {
                    ProgramBufferKind::Circular => found.circular = found.circular.saturating_add(bytes),
                    ProgramBufferKind::Dataflow => found.dataflow = found.dataflow.saturating_add(bytes),
                    ProgramBufferKind::Scratchpad => {
                        found.scratchpads = found.scratchpads.saturating_add(bytes);
                    }
                }
                let has_place = reserved.is_some() || placed.buffer.address.is_some();
                found.end = found.end.max(Some(placed.end()).filter(|_| has_place));
            }
            found
        };
        let cores = self.corners(&placed);
        cores.into_iter().map(on_core).max_by_key(|found| (found.end, found.bytes())).unwrap_or(nothing)
    }

    /// The buffers of a step's program on the core where they end highest, without those in the memory of tensors.
    pub fn on_fullest_core(&self, step: Step) -> Vec<PlacedBuffer> {
        let placed = self.placed(step);
        let on_core = |core: (u32, u32)| -> Vec<PlacedBuffer> {
            let is_own =
                |placed: &&PlacedBuffer| !placed.buffer.borrowed && self.is_on(placed.buffer.cores, core);
            placed.iter().filter(is_own).copied().collect()
        };
        let end = |buffers: &Vec<PlacedBuffer>| buffers.iter().map(PlacedBuffer::end).max();
        self.corners(&placed).into_iter().map(on_core).max_by_key(end).unwrap_or_default()
    }

    /// Whether a buffer is on a core; a buffer whose cores cannot be read is on all of them.
    pub fn is_on(&self, cores: StrId, core: (u32, u32)) -> bool {
        self.cores.get(&cores).is_none_or(|cores| cores.ranges().is_empty() || cores.contains(core))
    }

    /// Cores that include one with every combination of buffers that has no larger combination. Of very many ranges, only
    /// the first core of each.
    fn corners(&self, placed: &[PlacedBuffer]) -> Vec<(u32, u32)> {
        const MANY: usize = 64;
        let ranges = placed.iter().filter_map(|placed| self.cores.get(&placed.buffer.cores));
        let mut first: Vec<(u32, u32)> =
            ranges.flat_map(CoreRanges::ranges).map(|range| range.first).collect();
        first.sort_unstable();
        first.dedup();
        if first.len() <= MANY {
            let columns = first.clone();
            first = columns.iter().flat_map(|(x, _)| columns.iter().map(move |(_, y)| (*x, *y))).collect();
            first.sort_unstable();
            first.dedup();
        }
        first.truncate(MANY * MANY);
        if first.is_empty() && !placed.is_empty() {
            first.push((0, 0));
        }
        first
    }

    /// The buffers of a step's program with their places. Without addresses in the input, they are computed by the rule
    /// of tt-metal: a buffer begins where the previous buffers of all core ranges that it touches end.
    pub fn placed(&self, step: Step) -> Vec<PlacedBuffer> {
        let buffers: Vec<ProgramBuffer> = self.rank.program_buffers.of(step).collect();
        let reserved = self.memory.map_or(0, |memory| memory.reserved);
        let mut ends = Ends { everywhere: reserved, of_ranges: Vec::new() };
        let ranges =
            buffers.iter().filter_map(|buffer| self.cores.get(&buffer.cores)).flat_map(CoreRanges::ranges);
        for range in ranges {
            if !ends.of_ranges.iter().any(|(have, _)| have == range) {
                ends.of_ranges.push((*range, reserved));
            }
        }
        let place = |buffer: &ProgramBuffer| {
            let start = match buffer.address {
                Some(address) => address,
                // Its place is that of a tensor, which is not in the input.
                None if buffer.borrowed => reserved,
                None => self.next_place(buffer, &mut ends),
            };
            PlacedBuffer { buffer: *buffer, start }
        };
        buffers.iter().map(place).collect()
    }

    /// The place of the next buffer: after all buffers on the core ranges that it touches. A buffer whose cores cannot be
    /// read is on all of them.
    fn next_place(&self, buffer: &ProgramBuffer, ends: &mut Ends) -> u64 {
        let cores = self.cores.get(&buffer.cores).filter(|cores| !cores.ranges().is_empty());
        let touches = |have: &CoreRange| cores.is_none_or(|cores| cores.touches(have));
        let below = ends.of_ranges.iter().filter(|(have, _)| touches(have)).map(|(_, end)| *end);
        let start = below.max().unwrap_or(0).max(ends.everywhere);
        let start = start.checked_next_multiple_of(ALIGNMENT).unwrap_or(start);
        let end = start.saturating_add(buffer.bytes);
        for (_, known) in ends.of_ranges.iter_mut().filter(|(have, _)| touches(have)) {
            *known = end;
        }
        if cores.is_none() {
            ends.everywhere = end;
        }
        start
    }

    /// The profile that it is about.
    pub fn profile(&self) -> &'a Profile {
        self.profile
    }
}

/// Whether the buffers of a program did not fit.
fn is_of_program(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::CircularBuffersClash | FaultKind::CircularBuffersTooLarge)
}

/// Where the buffers of a program end so far.
struct Ends {
    /// On all cores.
    everywhere: u64,
    /// On the cores of each range.
    of_ranges: Vec<(CoreRange, u64)>,
}

fn value_at(pool: &Pool, at: Moment) -> Option<u64> {
    pool.curve(CurveKind::Allocated)?.value_at(at)
}
