//! The smallest changes after which a program no longer runs out of memory, each verified by replaying the program.

use ttmem_model::{Fault, FaultDetail, FaultKind, Moment, PoolId, Profile, Rank, Step, StepNumber, TensorId};

use super::l1::L1;
use super::replay::{Allocation, Goal, Outcome, Plan, Replay, Reproduction};

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
    /// Whether the failure happens in the replay as well. If not, there are no ways out.
    pub is_reproduced: bool,
    /// The bytes per bank that are missing in the replay.
    pub lacks: Option<u64>,
    /// The ways out, the smallest first.
    pub ways: Vec<Way>,
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
    let reproduction = replay.reproduce();
    let detail = rank.fault_detail(fault);
    let nothing = WaysOut { reproduction, is_reproduced: false, lacks: None, ways: Vec::new() };
    let Some(mut search) = Search::new(profile, rank, &replay, fault, &detail) else { return Some(nothing) };
    if !reproduction.has_addresses() && !search.has_the_numbers_of(fault) {
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
    Some(WaysOut { reproduction, is_reproduced: true, lacks: Some(lacks), ways })
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
}

impl<'a> Search<'a> {
    fn new(
        profile: &'a Profile,
        rank: &'a Rank,
        replay: &'a Replay,
        fault: &Fault,
        detail: &FaultDetail,
    ) -> Option<Self> {
        let step = fault.step?;
        let until = Moment::after(step);
        let named = |name: &str| rank.pool_named(profile, name).map(|(id, _)| id);
        let goal = match fault.kind {
            FaultKind::CircularBuffersClash => Goal::Run { pool: named("L1")?, end: fault.region_end? },
            FaultKind::OutOfMemory if detail.is_refusal => {
                let pool = named("L1").filter(|_| fault.pool.map(|pool| profile.text(pool)) == Some("L1"))?;
                Goal::Run { pool, end: refused_end(rank, replay, pool, until, fault)? }
            }
            FaultKind::OutOfMemory => {
                let pool = named(profile.text(fault.pool?))?;
                Goal::Allocate { pool, bytes: fault.requested_per_bank? }
            }
            _ => return None,
        };
        let (Goal::Run { pool, .. } | Goal::Allocate { pool, .. }) = goal;
        replay.pool(pool).filter(|pool| pool.is_complete)?;
        let first = detail.first_step.map_or(step, StepNumber::get).min(step);
        Some(Self { profile, rank, replay, goal, pool, first, until, budget: BUDGET })
    }

    /// Whether a replay without addresses has the free memory of the message, and as large a free block.
    fn has_the_numbers_of(&self, fault: &Fault) -> bool {
        let found = self.replay.free_at(self.pool, self.until);
        let has_no_addresses = self.rank.placements.is_empty();
        has_no_addresses && found.is_some() && found == fault.free.zip(fault.largest_free)
    }

    fn run(&mut self, plan: &Plan) -> Outcome {
        self.budget = self.budget.saturating_sub(self.replay.cost(self.until).max(1));
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

    /// Makes some of the L1 tensors in DRAM.
    fn move_to_dram(&mut self) -> Option<Way> {
        if !self.is_in_l1() {
            return None;
        }
        let dram = self.rank.pool_named(self.profile, "DRAM").map(|(id, _)| id)?;
        let candidates: Vec<Candidate> = self
            .candidates()
            .into_iter()
            .filter(|(_, allocation)| !allocation.is_earlier())
            .filter_map(|(row, allocation)| {
                let there = self.bytes_in_dram(row, dram)?;
                Some(Candidate { row, bytes: allocation.bytes, there })
            })
            .collect();
        let plan = |chosen: &[Candidate]| Plan {
            moved: chosen.iter().map(|candidate| (candidate.row, (dram, candidate.there))).collect(),
            ..Plan::default()
        };
        let found = self.smallest(&candidates, plan)?;
        Some(found.way(Change::MoveToDram))
    }

    /// The size per bank of a tensor if it were interleaved in DRAM.
    fn bytes_in_dram(&self, row: usize, dram: PoolId) -> Option<u64> {
        let banks = u64::from(self.rank.pools.get(dram.index())?.banks?);
        let ty = self.profile.tensor_type(self.rank.tensors.ty.get(row).copied().flatten()?)?;
        let total = ty.padded.get()?;
        let tile = ty.layout.as_ref().and_then(|layout| layout.tile).and_then(|_| {
            let dtype = ty.layout.as_ref().map(|layout| layout.stored_dtype)?;
            tile_bytes(self.profile.text(dtype))
        });
        match tile.filter(|tile| total.is_multiple_of(*tile)) {
            Some(tile) => total.checked_div(tile)?.div_ceil(banks).checked_mul(tile),
            None => Some(total.div_ceil(banks)),
        }
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
        let found = self.smallest(&candidates, plan)?;
        Some(found.way(|tensors| Change::FreeBefore(first, tensors)))
    }

    /// Stores tensors in a smaller type.
    fn bfloat8(&mut self) -> Option<Way> {
        let candidates: Vec<Candidate> = self
            .candidates()
            .into_iter()
            .filter(|(_, allocation)| !allocation.is_earlier())
            .filter_map(|(row, allocation)| {
                let there = self.as_bfloat8(row, allocation.bytes)?;
                Some(Candidate { row, bytes: allocation.bytes, there })
            })
            .collect();
        let plan = |chosen: &[Candidate]| Plan {
            resized: chosen.iter().map(|candidate| (candidate.row, candidate.there)).collect(),
            ..Plan::default()
        };
        let found = self.smallest(&candidates, plan)?;
        Some(found.way(Change::Bfloat8))
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
        let found = self.smallest(&candidates, plan)?;
        Some(found.way(|tensors| Change::AllocateFirst(step, tensors)))
    }

    /// Whether an operation made a tensor that depends on no other, so that it could be made earlier.
    fn is_created(&self, row: usize) -> bool {
        let step = self.rank.tensors.step.get(row).copied().flatten().map(StepNumber::get);
        step.is_some_and(|step| self.is_creation(step))
    }

    fn is_creation(&self, step: Step) -> bool {
        const CREATIONS: [&str; 9] =
            ["empty", "zeros", "ones", "full", "arange", "rand", "from_torch", "as_tensor", "to_device"];
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
                    Some(Way { change: Change::AllocateBefore(step), bytes, margin: Some(margin) })
                }
                _ => None,
            }
        })
    }

    /// Makes the allocation that failed in DRAM.
    fn request_to_dram(&mut self) -> Option<Way> {
        let Goal::Allocate { bytes, .. } = self.goal else { return None };
        let (dram, pool) = self.rank.pool_named(self.profile, "DRAM").filter(|_| self.is_in_l1())?;
        let l1_banks = u64::from(self.rank.pools.get(self.pool.index())?.banks?);
        let there = bytes.checked_mul(l1_banks)?.div_ceil(u64::from(pool.banks?));
        let way = |margin| Some(Way { change: Change::RequestToDram, bytes, margin });
        // A tensor of L1 always fits into empty DRAM, even if the addresses of its banks are not known.
        if self.replay.pool(dram).is_none() {
            return if self.rank.live(dram, self.until).next().is_none() { way(None) } else { None };
        }
        let goal = Goal::Allocate { pool: dram, bytes: there };
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
        let unit = self.replay.pool(self.pool)?.alignment;
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
            let to = if is_short { memory.small + units * unit } else { memory.small - units * unit };
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
        Some(Way { change, bytes: low * unit, margin: Some(margin) })
    }

    /// The bytes of the region for small buffers that were used so far.
    fn used_by_small(&self, small: PoolId, top: u64) -> u64 {
        let rows = 0..self.rank.tensors.len();
        let in_it = rows.filter_map(|row| self.replay.allocation(row)).filter(|row| row.pool == small);
        let lowest = in_it.filter(|row| row.born <= self.until).filter_map(|row| row.address).min();
        lowest.map_or(0, |lowest| top.saturating_sub(lowest))
    }

    /// The least headroom of a program so far: L1 may shrink by that.
    fn least_headroom(&self) -> Option<u64> {
        let l1 = L1::of(self.profile, self.rank)?;
        let steps = l1.steps();
        let until = self.until.position() as usize;
        let headroom = steps.iter().take(until + 1).filter_map(super::l1::StepUse::headroom).min()?;
        u64::try_from(headroom).ok()
    }

    fn within_budget(&self) -> bool {
        self.budget > 0
    }

    /// The smallest set of candidates that works: leaving out any of them does not.
    fn smallest(&mut self, candidates: &[Candidate], plan: impl Fn(&[Candidate]) -> Plan) -> Option<Chosen> {
        let candidates = &candidates[..candidates.len().min(MAX_CANDIDATES)];
        if candidates.is_empty() || !self.run(&plan(candidates)).works() {
            return None;
        }
        let mut best: Option<Chosen> = None;
        // One tensor, the smallest that is enough.
        for candidate in candidates.iter().rev() {
            if !self.within_budget() {
                break;
            }
            if let Outcome::Works(margin) = self.run(&plan(std::slice::from_ref(candidate))) {
                best = Some(Chosen { candidates: vec![*candidate], margin });
                break;
            }
        }
        // All tensors, without those that are not needed: the largest or the smallest are left out first.
        for smallest_first in [false, true] {
            let mut order: Vec<Candidate> = candidates.to_vec();
            if smallest_first {
                order.reverse();
            }
            let mut chosen = candidates.to_vec();
            for left_out in order {
                if !self.within_budget() {
                    return best;
                }
                let without: Vec<Candidate> =
                    chosen.iter().filter(|candidate| candidate.row != left_out.row).copied().collect();
                if !without.is_empty() && self.run(&plan(&without)).works() {
                    chosen = without;
                }
            }
            let Outcome::Works(margin) = self.run(&plan(&chosen)) else { continue };
            let found = Chosen { candidates: chosen, margin };
            if best.as_ref().is_none_or(|best| found.rank() < best.rank()) {
                best = Some(found);
            }
        }
        best
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
        Way { change: change(tensors), bytes: self.bytes(), margin: Some(self.margin) }
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
