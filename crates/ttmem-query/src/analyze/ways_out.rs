//! The smallest changes after which a program no longer runs out of memory, each verified by replaying the program.

use ttmem_model::{Fault, FaultKind, Moment, PoolId, Profile, Rank, Step, StepNumber, TensorId};

use super::l1::{L1, StepUse};
use super::replay::{Allocation, Goal, Outcome, Plan, Program, Replay, Reproduction};

/// The maximum number of actions that the search replays, so that it takes less than a second.
const BUDGET: usize = 4_000_000;
/// The maximum number of tensors that a change may consist of, and that are tried.
const MAX_CANDIDATES: usize = 256;
/// The bytes of a tile of 32 x 32 elements as bfloat8_b, and as other types.
const BFLOAT8_TILE: u64 = 1088;

/// What is known about a failure, and what would have avoided it.
#[derive(Clone, Debug)]
pub struct WaysOut {
    /// How well the replay reproduces the program.
    pub reproduction: Reproduction,
    /// Whether the failure also happens in the replay. If it does not, there are no ways out.
    pub is_reproduced: bool,
    /// The bytes per bank that are missing in the replay.
    pub lacks: Option<u64>,
    /// The ways out, the smallest first.
    pub ways: Vec<Way>,
    /// The changes that are not enough, even if all tensors are changed.
    pub not_enough: Vec<&'static str>,
}

/// A change after which the program does not fail at this point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The change.
    pub change: Change,
    /// The bytes per bank that it concerns.
    pub bytes: u64,
    /// The bytes per bank to spare afterwards; `None` if unknown.
    pub margin: Option<u64>,
    /// Whether it is not known if DRAM has room.
    pub assumes_dram: bool,
}

/// A change of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Make these allocations in DRAM instead of L1.
    MoveToDram(Vec<TensorId>),
    /// Make the allocation that failed in DRAM instead of L1.
    RequestToDram,
    /// Free these allocations before a step.
    FreeBefore(Step, Vec<TensorId>),
    /// Store these tensors as bfloat8_b.
    Bfloat8(Vec<TensorId>),
    /// Make the allocation that failed before a step.
    AllocateBefore(Step),
    /// Make these allocations, which split the free memory, before a step.
    AllocateFirst(Step, Vec<TensorId>),
    /// Open the device with this `l1_small_size`.
    SmallRegion {
        /// The size that the region has.
        from: u64,
        /// The size that it should have.
        to: u64,
    },
}

/// Searches the ways out of a failure; `None` if the input does not have the addresses of the allocator's banks.
pub fn ways_out(profile: &Profile, rank: &Rank, fault: &Fault) -> Option<WaysOut> {
    let mut replay = Replay::of(profile, rank).or_else(|| Replay::of_runtime(profile, rank, fault))?;
    // The message knows best: a report does not mention a trace region, which is taken from DRAM.
    let failed = fault.pool.and_then(|pool| rank.pool_named(profile, profile.text(pool)));
    if let Some((bank, (pool, _))) = fault.bank_size.zip(failed) {
        replay.resize(pool, bank);
    }
    replay.add_programs(programs(profile, rank));
    let reproduction = replay.reproduce();
    let nothing =
        WaysOut { reproduction, is_reproduced: false, lacks: None, ways: Vec::new(), not_enough: Vec::new() };
    let has_no_addresses = rank.placements.is_empty() && !reproduction.is_partial;
    let Some(mut search) = Search::new(profile, rank, &replay, fault) else { return Some(nothing) };
    if !reproduction.has_addresses() && !has_no_addresses {
        return Some(nothing);
    }
    let Outcome::Lacks(lacks) = search.run(&Plan::default()) else { return Some(nothing) };
    let mut ways: Vec<Way> = [
        search.small_region(),
        search.move_to_dram(),
        search.free_before(),
        search.bfloat8(),
        search.allocate_before(),
        search.allocate_first(),
        search.request_to_dram(),
    ]
    .into_iter()
    .flatten()
    .collect();
    ways.sort_by_key(|way| way.bytes);
    let not_enough = search.not_enough;
    Some(WaysOut { reproduction, is_reproduced: true, lacks: Some(lacks), ways, not_enough })
}

/// The lowest tensor of a clash in a runtime log, and its address, if a replay gives it the address of the message.
pub fn lowest_of_clash(profile: &Profile, rank: &Rank, fault: &Fault) -> Option<(TensorId, u64)> {
    let replay =
        Replay::of_runtime(profile, rank, fault).filter(|_| fault.kind == FaultKind::CircularBuffersClash)?;
    let pool = rank.pool_named(profile, "L1").map(|(id, _)| id)?;
    let found = replay.lowest_allocation(pool, Moment::after(fault.step?))?;
    Some(found).filter(|(_, address)| Some(*address) == fault.limit)
}

/// The programs that steps run, and where their buffers end.
fn programs(profile: &Profile, rank: &Rank) -> Vec<Program> {
    let pool = rank.pool_named(profile, "L1").map(|(id, _)| id);
    let (Some(pool), Some(l1)) = (pool, L1::of(profile, rank)) else { return Vec::new() };
    let runs = |(step, found): (Step, StepUse)| {
        let program = found.program;
        let end = program.end.filter(|_| program.is_known);
        (program.runs && !program.failed).then_some(Program { pool, at: Moment::after(step), end })
    };
    (0..).zip(l1.steps()).filter_map(runs).collect()
}

struct Search<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    replay: &'a Replay,
    goal: Goal,
    /// The pool that is short of memory.
    pool: PoolId,
    /// The first step of the call that failed.
    first: Step,
    /// The moment of the failure.
    until: Moment,
    budget: usize,
    /// The size of the allocation that failed, on the device.
    requested_total: Option<u64>,
    not_enough: Vec<&'static str>,
}

impl<'a> Search<'a> {
    fn new(profile: &'a Profile, rank: &'a Rank, replay: &'a Replay, fault: &Fault) -> Option<Self> {
        let (step, detail) = (fault.step?, rank.fault_detail(fault));
        let named = |name: &str| rank.pool_named(profile, name).map(|(id, _)| id);
        let pool_of_fault = fault.pool.map(|pool| profile.text(pool));
        let pool = match fault.kind {
            FaultKind::CircularBuffersClash => named("L1")?,
            FaultKind::OutOfMemory if detail.is_refusal => {
                named("L1").filter(|_| pool_of_fault == Some("L1"))?
            }
            FaultKind::OutOfMemory => named(pool_of_fault?)?,
            _ => return None,
        };
        replay.pool(pool).filter(|pool| pool.is_complete)?;
        let until = moment_of_failure(rank, replay, pool, step, fault)?;
        let goal = match fault.kind {
            FaultKind::CircularBuffersClash => Goal::Run { pool, end: fault.region_end? },
            _ if detail.is_refusal => Goal::Run { pool, end: refused_end(rank, replay, pool, until, fault)? },
            _ => Goal::Allocate { pool, bytes: fault.requested_per_bank? },
        };
        let first = detail.first_step.map_or(step, StepNumber::get).min(step);
        Some(Self {
            profile,
            rank,
            replay,
            goal,
            pool,
            first,
            until,
            budget: BUDGET,
            requested_total: fault.requested_total,
            not_enough: Vec::new(),
        })
    }

    fn run(&mut self, plan: &Plan) -> Outcome {
        self.budget = self.budget.saturating_sub(self.replay.cost(self.until));
        self.replay.run(plan, self.goal, self.until)
    }

    fn name(&self, pool: PoolId) -> &'a str {
        self.rank.pools.get(pool.index()).map_or("", |pool| self.profile.text(pool.name))
    }

    fn is_in_l1(&self) -> bool {
        self.name(self.pool) == "L1"
    }

    /// The allocations in the pool that is short of memory when it fails, the largest first.
    fn candidates(&self) -> Vec<(usize, Allocation)> {
        let mut live: Vec<(usize, Allocation)> = self.replay.live(self.pool, self.until).collect();
        live.sort_by_key(|(row, allocation)| (std::cmp::Reverse(allocation.bytes), *row));
        live
    }

    /// Those that are not older than the program. What a program computes from or to decides on its buffers, so its own
    /// tensors are left alone.
    fn changeable(&self) -> Vec<(usize, Allocation)> {
        // A runtime log has no last uses, but the names of operands.
        let operands = self.profile.op_of(self.rank, self.first).map(|op| op.operands).unwrap_or_default();
        let is_of_program = |row: usize, allocation: &Allocation| {
            let usage = TensorId::new(row).and_then(|id| self.rank.usages.of(id));
            let last = usage.and_then(|usage| usage.last_use).map(StepNumber::get);
            let ssa = self.rank.tensors.ssa.get(row).copied().flatten();
            if ssa.is_some_and(|ssa| operands.contains(&ssa)) {
                return true;
            }
            allocation.born > Moment::before(self.first) || last.is_some_and(|last| last >= self.first)
        };
        let runs = matches!(self.goal, Goal::Run { .. });
        let mut found = self.candidates();
        found.retain(|(row, allocation)| {
            !(allocation.is_earlier() || runs && is_of_program(*row, allocation))
        });
        found
    }

    /// Makes some of the L1 tensors in DRAM.
    fn move_to_dram(&mut self) -> Option<Way> {
        if !self.is_in_l1() {
            return None;
        }
        let dram = self.rank.pool_named(self.profile, "DRAM").map(|(id, _)| id)?;
        let candidates: Vec<Candidate> = self
            .changeable()
            .into_iter()
            .map(|(row, allocation)| {
                let there = self.bytes_in_dram(row, dram).unwrap_or(0);
                Candidate { row, bytes: allocation.bytes, there }
            })
            .collect();
        let plan = |chosen: &[Candidate]| Plan {
            moved: chosen.iter().map(|candidate| (candidate.row, (dram, candidate.there))).collect(),
            ..Plan::default()
        };
        let found = self.smallest("moving tensors to DRAM", &candidates, plan)?;
        let is_known = self.replay.pool(dram).is_some_and(|dram| dram.is_complete)
            && found.candidates.iter().all(|candidate| candidate.there > 0);
        let assumes_dram = !is_known && !self.is_empty(dram);
        Some(Way { assumes_dram, ..found.way(Change::MoveToDram) })
    }

    /// Whether a pool has no tensors when it fails. Empty DRAM has room for everything in L1.
    fn is_empty(&self, pool: PoolId) -> bool {
        self.rank.live(pool, self.until).next().is_none()
    }

    /// The size per bank of a tensor if it were interleaved in DRAM; `None` if that is unknown.
    fn bytes_in_dram(&self, row: usize, dram: PoolId) -> Option<u64> {
        let banks = u64::from(self.rank.pools.get(dram.index())?.banks?).max(1);
        let ty = self.profile.tensor_type(self.rank.tensors.ty.get(row).copied().flatten()?)?;
        let layout = ty.layout.as_ref().filter(|layout| layout.tile == Some((32, 32)))?;
        let tile = tile_bytes(self.profile.text(layout.stored_dtype))?;
        let tiles = ty.padded.get()?.div_ceil(tile);
        tiles.div_ceil(banks).checked_mul(tile)
    }

    /// Frees tensors that no later operation has used.
    fn free_before(&mut self) -> Option<Way> {
        let at = Moment::before(self.first);
        let is_unused = |row: usize| {
            let usage = TensorId::new(row).and_then(|id| self.rank.usages.of(id));
            usage.is_some_and(|usage| usage.last_use.is_none_or(|last| last.get() < self.first))
        };
        let candidates: Vec<Candidate> = self
            .candidates()
            .into_iter()
            .filter(|(row, allocation)| is_unused(*row) && allocation.born <= at)
            .map(|(row, allocation)| Candidate { row, bytes: allocation.bytes, there: 0 })
            .collect();
        let plan = |chosen: &[Candidate]| Plan {
            freed: chosen.iter().map(|candidate| (candidate.row, at)).collect(),
            ..Plan::default()
        };
        let first = self.first;
        let found = self.smallest("freeing tensors", &candidates, plan)?;
        Some(found.way(|tensors| Change::FreeBefore(first, tensors)))
    }

    /// Stores tensors in a smaller type.
    fn bfloat8(&mut self) -> Option<Way> {
        let candidates: Vec<Candidate> = self
            .changeable()
            .into_iter()
            .filter_map(|(row, allocation)| {
                let there = self.as_bfloat8(row, allocation.bytes)?;
                Some(Candidate { row, bytes: allocation.bytes, there })
            })
            .collect();
        let plan = |chosen: &[Candidate]| Plan {
            resized: chosen.iter().map(|candidate| (candidate.row, candidate.there)).collect(),
            ..Plan::default()
        };
        let found = self.smallest("bfloat8_b", &candidates, plan)?;
        let saved = |candidate: &Candidate| candidate.bytes.saturating_sub(candidate.there);
        let bytes = found.candidates.iter().map(saved).sum();
        Some(Way { bytes, ..found.way(Change::Bfloat8) })
    }

    /// The size per bank of a tensor as bfloat8_b; `None` if its elements are not larger than that.
    fn as_bfloat8(&self, row: usize, bytes: u64) -> Option<u64> {
        let ty = self.profile.tensor_type(self.rank.tensors.ty.get(row).copied().flatten()?)?;
        let layout = ty.layout.as_ref().filter(|layout| layout.tile == Some((32, 32)))?;
        let tile = match self.profile.text(layout.stored_dtype) {
            dtype @ ("bf16" | "f32") => tile_bytes(dtype)?,
            _ => return None,
        };
        bytes.is_multiple_of(tile).then(|| bytes / tile * BFLOAT8_TILE)
    }

    /// Makes small allocations that stay before those that are freed, so that these leave one free block.
    fn allocate_first(&mut self) -> Option<Way> {
        let Goal::Allocate { bytes, pool } = self.goal else { return None };
        let is_small = |(row, allocation): &(usize, Allocation)| {
            allocation.bytes < bytes && !allocation.is_earlier() && self.is_created(*row)
        };
        let stay: Vec<(usize, Allocation)> = self.candidates().into_iter().filter(is_small).collect();
        let gone = |allocation: &Allocation| allocation.pool == pool && allocation.dies <= self.until;
        let rows = (0..self.rank.tensors.len()).filter_map(|row| self.replay.allocation(row));
        let first = rows.filter(gone).map(|allocation| allocation.born).min()?;
        let step = first.earlier().position();
        let at = Moment::before(step);
        let candidates: Vec<Candidate> = stay
            .into_iter()
            .filter(|(_, allocation)| allocation.born > at)
            .map(|(row, allocation)| Candidate { row, bytes: allocation.bytes, there: 0 })
            .collect();
        let plan = |chosen: &[Candidate]| Plan {
            made: chosen.iter().map(|candidate| (candidate.row, at)).collect(),
            ..Plan::default()
        };
        let found = self.smallest("another order", &candidates, plan)?;
        Some(found.way(|tensors| Change::AllocateFirst(step, tensors)))
    }

    /// Whether an operation made a tensor that depends on no other, so that it could be made earlier.
    fn is_created(&self, row: usize) -> bool {
        let step = self.rank.tensors.step.get(row).copied().flatten().map(StepNumber::get);
        step.is_some_and(|step| self.is_creation(step))
    }

    fn is_creation(&self, step: Step) -> bool {
        const CREATIONS: [&str; 8] =
            ["empty", "zeros", "ones", "full", "arange", "rand", "from_torch", "as_tensor"];
        let name = self.profile.op_name(self.rank, step).unwrap_or_default();
        CREATIONS.contains(&name.rsplit(['.', ':']).next().unwrap_or_default())
    }

    /// Makes the allocation that failed before another step: the latest one where that helps.
    fn allocate_before(&mut self) -> Option<Way> {
        let Goal::Allocate { bytes, pool } = self.goal else { return None };
        if !self.is_creation(self.first) {
            return None;
        }
        let mut births: Vec<Moment> =
            self.replay.live(pool, self.until).map(|(_, allocation)| allocation.born).collect();
        births.sort_unstable();
        births.dedup();
        births.into_iter().rev().take(MAX_CANDIDATES).find_map(|born| {
            let step = born.earlier().position().min(self.first);
            let plan = Plan { early: Some(Moment::before(step)), ..Plan::default() };
            match self.within_budget().then(|| self.run(&plan))? {
                Outcome::Works(margin) => {
                    let change = Change::AllocateBefore(step);
                    Some(Way { change, bytes, margin: Some(margin), assumes_dram: false })
                }
                _ => None,
            }
        })
    }

    /// Makes the allocation that failed in DRAM.
    fn request_to_dram(&mut self) -> Option<Way> {
        let Goal::Allocate { bytes, .. } = self.goal else { return None };
        let (dram, pool) = self.rank.pool_named(self.profile, "DRAM").filter(|_| self.is_in_l1())?;
        let way = |margin: Option<u64>| {
            let assumes_dram = margin.is_none() && !self.is_empty(dram);
            Some(Way { change: Change::RequestToDram, bytes, margin, assumes_dram })
        };
        let Some(total) = self.requested_total.filter(|_| self.replay.pool(dram).is_some()) else {
            return way(None);
        };
        // The largest page is a tile of f32.
        let pages = total.div_ceil(4096).div_ceil(u64::from(pool.banks.unwrap_or(1)).max(1));
        let goal = Goal::Allocate { pool: dram, bytes: pages.saturating_mul(4096) };
        match self.replay.run(&Plan::default(), goal, self.until) {
            Outcome::Works(margin) => way(Some(margin)),
            _ => None,
        }
    }

    /// Changes the region for small buffers.
    fn small_region(&mut self) -> Option<Way> {
        let memory = self.rank.core_memory?;
        let named = |name| self.rank.pool_named(self.profile, name).map(|(id, _)| id);
        let (l1, small) = (named("L1"), named("L1_SMALL"));
        let unit = self.replay.pool(self.pool)?.alignment.max(1);
        let is_short = small == Some(self.pool);
        // The range of sizes that may work, as a difference from the present size.
        let most = if is_short {
            self.least_headroom()? / unit
        } else if Some(self.pool) == l1 {
            let used = small.map_or(0, |small| self.used_by_small(small, memory.size));
            memory.small.saturating_sub(used) / unit
        } else {
            return None;
        };
        let plan = |units: u64| {
            let change = units.saturating_mul(unit);
            let to = if is_short {
                memory.small.saturating_add(change)
            } else {
                memory.small.saturating_sub(change)
            };
            let top = memory.size.saturating_sub(to);
            let of_l1 = l1.map(|pool| (pool.index(), (memory.reserved, top)));
            let of_small = small.map(|pool| (pool.index(), (top, memory.size)));
            (to, Plan { pools: of_l1.into_iter().chain(of_small).collect(), ..Plan::default() })
        };
        let (mut low, mut high) = (1, most);
        if most == 0 || !self.run(&plan(most).1).works() {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.run(&plan(middle).1).works() {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let (to, plan) = plan(low);
        let Outcome::Works(margin) = self.run(&plan) else { return None };
        let change = Change::SmallRegion { from: memory.small, to };
        Some(Way { change, bytes: low.saturating_mul(unit), margin: Some(margin), assumes_dram: false })
    }

    /// The bytes of the region for small buffers that were used so far.
    fn used_by_small(&self, small: PoolId, top: u64) -> u64 {
        let rows = 0..self.rank.tensors.len();
        let in_it = rows.filter_map(|row| self.replay.allocation(row)).filter(|row| row.pool == small);
        let lowest = in_it.filter(|row| row.born <= self.until).filter_map(|row| row.address).min();
        lowest.map_or(0, |lowest| top.saturating_sub(lowest))
    }

    /// The least headroom of a program so far: L1 may shrink by that. `None` if the buffers of a program are unknown.
    fn least_headroom(&self) -> Option<u64> {
        let l1 = L1::of(self.profile, self.rank)?;
        let steps: Vec<StepUse> = l1.steps().into_iter().take(self.until.position() as usize).collect();
        if steps.iter().any(StepUse::is_open) {
            return None;
        }
        u64::try_from(steps.iter().filter_map(StepUse::headroom).min()?).ok()
    }

    fn within_budget(&self) -> bool {
        self.budget > 0
    }

    /// The smallest set of candidates that works: leaving out any of them does not.
    fn smallest(
        &mut self,
        what: &'static str,
        candidates: &[Candidate],
        plan: impl Fn(&[Candidate]) -> Plan,
    ) -> Option<Chosen> {
        let is_all = candidates.len() <= MAX_CANDIDATES;
        let candidates = &candidates[..candidates.len().min(MAX_CANDIDATES)];
        if candidates.is_empty() || !self.within_budget() {
            return None;
        }
        if !self.run(&plan(candidates)).works() {
            if is_all {
                self.not_enough.push(what);
            }
            return None;
        }
        let mut best: Option<Chosen> = None;
        // One tensor, the smallest that is enough.
        for candidate in candidates.iter().rev() {
            if !self.within_budget() {
                return None;
            }
            if let Outcome::Works(margin) = self.run(&plan(std::slice::from_ref(candidate))) {
                best = Some(Chosen { candidates: vec![*candidate], margin });
                break;
            }
        }
        // All tensors, without those that are not needed: the largest or the smallest are left out first.
        for smallest_first in [false, true] {
            let Some(found) = self.reduced(candidates, smallest_first, &plan) else { break };
            if best.as_ref().is_none_or(|best| found.rank() < best.rank()) {
                best = Some(found);
            }
        }
        best
    }

    /// The candidates without those that are not needed, in rounds until none can be left out; `None` if that takes too
    /// long.
    fn reduced(
        &mut self,
        candidates: &[Candidate],
        smallest_first: bool,
        plan: &impl Fn(&[Candidate]) -> Plan,
    ) -> Option<Chosen> {
        let mut chosen = candidates.to_vec();
        loop {
            let before = chosen.len();
            let mut order = chosen.clone();
            if smallest_first {
                order.reverse();
            }
            for left_out in order {
                let without: Vec<Candidate> =
                    chosen.iter().filter(|candidate| candidate.row != left_out.row).copied().collect();
                if !self.within_budget() {
                    return None;
                }
                if !without.is_empty() && self.run(&plan(&without)).works() {
                    chosen = without;
                }
            }
            if chosen.len() == before {
                break;
            }
        }
        match self.run(&plan(&chosen)) {
            Outcome::Works(margin) => Some(Chosen { candidates: chosen, margin }),
            _ => None,
        }
    }
}

/// A tensor that may be changed.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    row: usize,
    /// Its size per bank.
    bytes: u64,
    /// Its size per bank after the change.
    there: u64,
}

/// A set of tensors whose change is enough.
struct Chosen {
    candidates: Vec<Candidate>,
    margin: u64,
}

impl Chosen {
    fn bytes(&self) -> u64 {
        self.candidates.iter().map(|candidate| candidate.bytes).sum()
    }

    fn rank(&self) -> (u64, usize) {
        (self.bytes(), self.candidates.len())
    }

    fn way(&self, change: impl FnOnce(Vec<TensorId>) -> Change) -> Way {
        let tensors = self.candidates.iter().filter_map(|candidate| TensorId::new(candidate.row)).collect();
        Way { change: change(tensors), bytes: self.bytes(), margin: Some(self.margin), assumes_dram: false }
    }
}

/// The bytes of a tile of 32 x 32 elements.
fn tile_bytes(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "f32" | "si32" | "u32" => 4096,
        "bf16" | "u16" => 2048,
        "bfp_bf8" => BFLOAT8_TILE,
        "bfp_bf4" => 576,
        "u8" => 1024,
        _ => return None,
    })
}

/// The address where tensors would have to begin for an operation that refused to run. It may use a part of the memory below
/// them, and the message has both its need and that part.
fn refused_end(rank: &Rank, replay: &Replay, pool: PoolId, until: Moment, fault: &Fault) -> Option<u64> {
    let (need, available) = (fault.requested_per_bank?, fault.free?);
    let reserved = rank.core_memory?.reserved;
    let lowest = replay.live(pool, until).filter_map(|(_, allocation)| allocation.address).min()?;
    let below = lowest.checked_sub(reserved).filter(|below| available > 0 && *below >= available)?;
    let needed = u128::from(need).checked_mul(u128::from(below))?.div_ceil(u128::from(available));
    reserved.checked_add(u64::try_from(needed).ok()?)
}

/// The moment when it failed: after the step that failed, or after one of the next steps, if the call freed memory before. It
/// has the free memory or the lowest tensor of the message.
fn moment_of_failure(
    rank: &Rank,
    replay: &Replay,
    pool: PoolId,
    step: Step,
    fault: &Fault,
) -> Option<Moment> {
    /// The number of steps of a call that are looked at.
    const MAX_STEPS: Step = 8;
    let is_it = |at: &Moment| match (fault.kind, fault.limit, fault.free.zip(fault.largest_free)) {
        (FaultKind::CircularBuffersClash, Some(limit), _) => replay.lowest_at(pool, *at) == Some(limit),
        (FaultKind::OutOfMemory, _, Some(numbers)) => replay.free_at(pool, *at) == Some(numbers),
        // A check of an operation has other numbers, and old messages have none.
        _ => !rank.placements.is_empty(),
    };
    let last = step.saturating_add(MAX_STEPS).min(rank.end().saturating_sub(1)).max(step);
    (step..=last).map(Moment::after).find(is_it)
}
