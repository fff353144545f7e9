//! Replays the allocations of a program with the model of tt-metal's allocator.
//!
//! If the replay gives every allocation the address that it had, it also tells what would happen if the program were
//! changed: [`Replay::run`] replays it with a [`Plan`] up to the failure.

use std::collections::BTreeMap;

use ttmem_model::{CurveKind, Fault, FaultKind, Moment, Pool, PoolId, Profile, Rank, TensorId};

use super::allocator::{Bank, SearchFrom};

/// The number of free blocks that `reproduce` looks at, at most.
const MAX_WORK: usize = 100_000_000;

/// The allocations of a rank in their order, and the banks that they are made in.
#[derive(Clone, Debug)]
pub struct Replay {
    pools: Vec<Option<ReplayPool>>,
    allocations: Vec<Option<Allocation>>,
    actions: Vec<Action>,
    /// The programs that ran, and where their buffers end in L1.
    programs: Vec<Program>,
    /// The largest number of free blocks, found by `reproduce`.
    holes: usize,
}

/// A program in L1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The pool of the tensors.
    pub pool: PoolId,
    /// When it runs.
    pub at: Moment,
    /// Where its buffers end; `None` if that is unknown.
    pub end: Option<u64>,
}

/// A pool whose banks have known addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayPool {
    /// The first address of a bank.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// The addresses and sizes of allocations are multiples of this.
    pub alignment: u64,
    /// The end of the bank where allocations usually begin.
    pub from: SearchFrom,
    /// Whether all its allocations are known, with their sizes.
    pub is_complete: bool,
}

impl ReplayPool {
    fn bank(&self) -> Bank {
        Bank::new(self.start..self.end, self.alignment)
    }
}

/// An allocation to replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Its pool.
    pub pool: PoolId,
    /// Its size per bank.
    pub bytes: u64,
    /// The end of the bank where the search for a place begins.
    pub from: SearchFrom,
    /// The address that it had; `None` if the input does not have it.
    pub address: Option<u64>,
    /// When it was made.
    pub born: Moment,
    /// When it was freed.
    pub dies: Moment,
}

impl Allocation {
    /// Whether it is there at a moment.
    pub fn is_live(&self, at: Moment) -> bool {
        self.born <= at && at < self.dies
    }

    /// Whether it existed before the first step.
    pub fn is_earlier(&self) -> bool {
        self.born == Moment::START
    }
}

/// What a program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Action {
    at: Moment,
    kind: ActionKind,
    row: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ActionKind {
    // A step frees memory before it allocates some.
    Free,
    Allocate,
}

/// How well the replay reproduces the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reproduction {
    /// The number of allocations with a known address.
    pub allocations: usize,
    /// The number of them that have the same address in the replay.
    pub reproduced: usize,
    /// The first allocation that has another address, and that address.
    pub first_difference: Option<(TensorId, Option<u64>)>,
    /// Whether there are too many free blocks to replay everything.
    pub is_partial: bool,
}

impl Reproduction {
    /// Whether there are addresses to compare, and all of them are the same.
    pub fn has_addresses(&self) -> bool {
        self.allocations > 0 && self.first_difference.is_none() && !self.is_partial
    }
}

/// What has to work at the moment of the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// An allocation of this size per bank.
    Allocate {
        /// Its pool.
        pool: PoolId,
        /// Its size per bank.
        bytes: u64,
    },
    /// A program whose buffers end at this address of L1.
    Run {
        /// The pool of the tensors.
        pool: PoolId,
        /// The end of the program's buffers.
        end: u64,
    },
}

/// Changes of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Allocations that are made in another pool, with their size per bank there.
    pub moved: BTreeMap<usize, (PoolId, u64)>,
    /// Allocations that are made earlier.
    pub made: BTreeMap<usize, Moment>,
    /// Allocations that are freed earlier.
    pub freed: BTreeMap<usize, Moment>,
    /// Allocations with another size per bank.
    pub resized: BTreeMap<usize, u64>,
    /// Pools with other addresses.
    pub pools: BTreeMap<usize, (u64, u64)>,
    /// The allocation that failed is made at this moment already.
    pub early: Option<Moment>,
}

/// The result of a changed program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It works, with this many bytes to spare: the rest of the largest free block, or the distance to the lowest tensor.
    Works(u64),
    /// The goal lacks this many bytes.
    Lacks(u64),
    /// Something else fails before.
    FailsEarlier,
}

impl Outcome {
    /// Whether it works.
    pub fn works(self) -> bool {
        matches!(self, Self::Works(_))
    }
}

impl Replay {
    /// The allocations of a rank; `None` if it has no pool whose banks have known addresses.
    pub fn of(profile: &Profile, rank: &Rank) -> Option<Self> {
        let pools = rank.pools.iter().map(|pool| of_pool(profile, pool)).collect();
        Self::in_pools(rank, pools)
    }

    /// The same for a runtime log, which has no addresses: banks begin at 0, and the error has the size of a bank.
    pub fn of_runtime(profile: &Profile, rank: &Rank, fault: &Fault) -> Option<Self> {
        if fault.kind == FaultKind::CircularBuffersClash {
            return Self::of_clash(profile, rank, fault);
        }
        let name = profile.text(fault.pool?);
        let (id, pool) = rank.pool_named(profile, name).filter(|_| profile.source.format == "tt_log")?;
        let mut pools = vec![None; rank.pools.len()];
        *pools.get_mut(id.index())? = Some(ReplayPool {
            start: 0,
            end: fault.bank_size?,
            alignment: alignment(name, pool.banks?)?,
            from: SearchFrom::of_pool(name),
            is_complete: true,
        });
        Self::in_pools(rank, pools)
    }

    /// The L1 of a runtime log with a clash. Its tensors lie below the region for small buffers, so the lowest one has the
    /// address of the message only if that region has the size that the log states.
    fn of_clash(profile: &Profile, rank: &Rank, fault: &Fault) -> Option<Self> {
        let (l1, pool) = rank.pool_named(profile, "L1").filter(|_| profile.source.format == "tt_log")?;
        let (_, small) = rank.pool_named(profile, "L1_SMALL")?;
        let alignment = alignment("L1", pool.banks?)?;
        let size: u64 = if alignment == 32 { 1_499_136 } else { 1_572_864 };
        let capacity = |pool: &Pool| pool.curve(CurveKind::Capacity)?.value_at(Moment::NEVER);
        let bank = capacity(pool)?;
        let mut pools = vec![None; rank.pools.len()];
        let from = SearchFrom::of_pool("L1");
        *pools.get_mut(l1.index())? =
            Some(ReplayPool { start: 0, end: bank, alignment, from, is_complete: true });
        let mut replay = Self::in_pools(rank, pools)?;
        let lowest = replay.lowest_at(l1, Moment::after(fault.step?))?;
        let top = fault.limit?.checked_add(bank.checked_sub(lowest)?)?;
        // The log rounds sizes.
        let region = size.checked_sub(top)?;
        if region.abs_diff(capacity(small)?) > small.quantum {
            return None;
        }
        if let Some(Some(pool)) = replay.pools.get_mut(l1.index()) {
            (pool.start, pool.end) = (top.saturating_sub(bank), top);
        }
        Some(replay)
    }

    fn in_pools(rank: &Rank, mut pools: Vec<Option<ReplayPool>>) -> Option<Self> {
        if pools.iter().all(Option::is_none) {
            return None;
        }
        for (pool, _) in &rank.not_watched {
            if let Some(Some(pool)) = pools.get_mut(pool.index()) {
                pool.is_complete = false;
            }
        }
        let tensors = &rank.tensors;
        let mut allocations = Vec::with_capacity(tensors.len());
        let mut actions = Vec::new();
        for row in 0..tensors.len() {
            let (pool, born, dies) = (tensors.pool[row], tensors.born[row], tensors.dies[row]);
            let Some(known) = pools.get_mut(pool.index()).and_then(Option::as_mut) else {
                allocations.push(None);
                continue;
            };
            let address = TensorId::new(row).and_then(|id| rank.placements.of(id)).map(|found| found.address);
            let Some(bytes) = tensors.per_bank[row].get() else {
                known.is_complete = false;
                allocations.push(None);
                continue;
            };
            allocations.push(Some(Allocation { pool, bytes, from: known.from, address, born, dies }));
            actions.push(Action { at: born, kind: ActionKind::Allocate, row });
            if dies != Moment::NEVER {
                actions.push(Action { at: dies, kind: ActionKind::Free, row });
            }
        }
        let order = |row: usize| {
            let placement = TensorId::new(row).and_then(|id| rank.placements.of(id));
            placement.map_or(u64::MAX, |placement| u64::from(placement.order))
        };
        actions.sort_by_key(|action| (action.at, action.kind, order(action.row), action.row));
        Some(Self { pools, allocations, actions, programs: Vec::new(), holes: 0 })
    }

    /// Adds the programs that ran, in order: tensors must stay above their buffers.
    pub fn add_programs(&mut self, programs: Vec<Program>) {
        self.programs = programs;
    }

    /// Sets the size of a pool's banks.
    pub fn resize(&mut self, pool: PoolId, bank: u64) {
        if let Some(Some(pool)) = self.pools.get_mut(pool.index()) {
            pool.end = pool.start.saturating_add(bank);
        }
    }

    /// A pool whose banks have known addresses.
    pub fn pool(&self, pool: PoolId) -> Option<ReplayPool> {
        self.pools.get(pool.index()).copied().flatten()
    }

    /// The allocations that are live at a moment, with their rows.
    pub fn live(&self, pool: PoolId, at: Moment) -> impl Iterator<Item = (usize, Allocation)> + '_ {
        let rows =
            self.allocations.iter().enumerate().filter_map(|(row, allocation)| Some((row, (*allocation)?)));
        rows.filter(move |(_, allocation)| allocation.pool == pool && allocation.is_live(at))
    }

    /// An allocation.
    pub fn allocation(&self, row: usize) -> Option<Allocation> {
        self.allocations.get(row).copied().flatten()
    }

    /// The number of actions up to a moment.
    fn count(&self, until: Moment) -> usize {
        self.actions.partition_point(|action| action.at <= until)
    }

    /// About how long a run takes: all allocations are prepared, and each one looks at free blocks.
    pub fn cost(&self, until: Moment) -> usize {
        let blocks = 1 + self.holes / 8;
        self.allocations.len() / 8 + self.count(until).saturating_mul(blocks) + 1
    }

    /// Replays everything, and compares the addresses with those that the allocations had.
    ///
    /// An allocation may have been made from the other end of a bank: traces without a trace region are at the end
    /// of DRAM. Its address shows that, and the allocation keeps it.
    pub fn reproduce(&mut self) -> Reproduction {
        let mut banks: Vec<Option<Bank>> =
            self.pools.iter().map(|pool| pool.as_ref().map(ReplayPool::bank)).collect();
        let mut found = Reproduction::default();
        let (mut work, mut holes) = (0_usize, 0_usize);
        let mut places: Vec<Option<u64>> = vec![None; self.allocations.len()];
        for action in &self.actions {
            let Some(allocation) = &mut self.allocations[action.row] else { continue };
            let Some(Some(bank)) = banks.get_mut(allocation.pool.index()) else { continue };
            holes = holes.max(bank.free_blocks());
            work = work.saturating_add(bank.free_blocks());
            if work > MAX_WORK {
                found.is_partial = true;
                break;
            }
            if action.kind == ActionKind::Free {
                if let Some(address) = places[action.row] {
                    bank.free(address);
                }
                continue;
            }
            let Some(address) = allocation.address else {
                places[action.row] = bank.allocate(allocation.bytes, allocation.from);
                continue;
            };
            if !allocation.is_earlier() {
                found.allocations += 1;
                let is_at = |from| bank.search(allocation.bytes, from) == Some(address);
                if !is_at(allocation.from) && is_at(allocation.from.opposite()) {
                    allocation.from = allocation.from.opposite();
                }
                if is_at(allocation.from) {
                    found.reproduced += 1;
                } else if found.first_difference.is_none() {
                    let instead = bank.search(allocation.bytes, allocation.from);
                    found.first_difference = TensorId::new(action.row).map(|id| (id, instead));
                }
            }
            places[action.row] = bank.place(address, allocation.bytes).then_some(address);
        }
        self.holes = holes;
        found
    }

    /// The free bytes of a bank and its largest free block at a moment of the unchanged program.
    pub fn free_at(&self, pool: PoolId, until: Moment) -> Option<(u64, u64)> {
        self.bank_at(pool, until).map(|bank| (bank.free_bytes(), bank.largest_free()))
    }

    /// The lowest allocated address of a bank at a moment of the unchanged program.
    pub fn lowest_at(&self, pool: PoolId, until: Moment) -> Option<u64> {
        self.bank_at(pool, until)?.lowest()
    }

    /// The allocation with the lowest address at a moment of the unchanged program, and that address.
    pub fn lowest_allocation(&self, pool: PoolId, until: Moment) -> Option<(TensorId, u64)> {
        let plan = Plan::default();
        let state = self.state_at(&plan, until)?;
        let places = state.places.iter().enumerate();
        let in_pool =
            places.filter_map(|(row, place)| place.filter(|(of, _)| *of == pool).map(|(_, at)| (at, row)));
        let (address, row) = in_pool.min()?;
        Some((TensorId::new(row)?, address))
    }

    fn bank_at(&self, pool: PoolId, until: Moment) -> Option<Bank> {
        let plan = Plan::default();
        self.state_at(&plan, until)?.banks.get_mut(pool.index())?.take()
    }

    fn state_at<'a>(&'a self, plan: &'a Plan, until: Moment) -> Option<State<'a>> {
        let mut state = State::new(self, plan);
        for action in &self.actions[..self.count(until)] {
            match action.kind {
                ActionKind::Free => state.free(action.row),
                ActionKind::Allocate => {
                    state.allocate(action.row).then_some(())?;
                }
            }
        }
        Some(state)
    }

    /// Replays a changed program until a moment, and tries to reach the goal.
    pub fn run(&self, plan: &Plan, goal: Goal, until: Moment) -> Outcome {
        let mut state = State::new(self, plan);
        let in_order = |rows: &BTreeMap<usize, Moment>| {
            let mut rows: Vec<(Moment, usize)> = rows.iter().map(|(row, at)| (*at, *row)).collect();
            rows.sort_unstable();
            rows.into_iter().peekable()
        };
        let (mut frees, mut made) = (in_order(&plan.freed), in_order(&plan.made));
        let mut early = plan.early;
        let mut programs = self.programs.iter().filter(|program| program.at < until).peekable();
        for action in &self.actions[..self.count(until)] {
            while let Some(program) = programs.next_if(|program| program.at < action.at) {
                if !state.leaves_room_for(program) {
                    return Outcome::FailsEarlier;
                }
            }
            while let Some((_, row)) = frees.next_if(|(at, _)| *at < action.at) {
                state.free(row);
            }
            while let Some((_, row)) = made.next_if(|(at, _)| *at < action.at) {
                if !state.allocate(row) {
                    return Outcome::FailsEarlier;
                }
            }
            if early.take_if(|at| *at < action.at).is_some() && !state.reach(goal) {
                return Outcome::FailsEarlier;
            }
            match action.kind {
                ActionKind::Free => state.free(action.row),
                ActionKind::Allocate if plan.made.contains_key(&action.row) => {}
                ActionKind::Allocate => {
                    if !state.allocate(action.row) {
                        return Outcome::FailsEarlier;
                    }
                }
            }
        }
        if !programs.all(|program| state.leaves_room_for(program)) {
            return Outcome::FailsEarlier;
        }
        for (_, row) in frees {
            state.free(row);
        }
        if plan.early.is_some() && early.is_none() {
            // It was made before, and left enough room for everything else.
            return Outcome::Works(state.spare(goal));
        }
        state.outcome(goal)
    }
}

/// The banks of a changed program.
struct State<'a> {
    replay: &'a Replay,
    plan: &'a Plan,
    banks: Vec<Option<Bank>>,
    /// Where allocations are: pool and address.
    places: Vec<Option<(PoolId, u64)>>,
}

impl<'a> State<'a> {
    fn new(replay: &'a Replay, plan: &'a Plan) -> Self {
        let bank = |(index, pool): (usize, &Option<ReplayPool>)| {
            let pool = pool.as_ref()?;
            let (start, end) = plan.pools.get(&index).copied().unwrap_or((pool.start, pool.end));
            Some(Bank::new(start..end, pool.alignment))
        };
        let banks = replay.pools.iter().enumerate().map(bank).collect();
        Self { replay, plan, banks, places: vec![None; replay.allocations.len()] }
    }

    /// Makes an allocation. Returns whether it fits.
    fn allocate(&mut self, row: usize) -> bool {
        let Some(allocation) = self.replay.allocations[row] else { return true };
        let (pool, bytes, from) = match self.plan.moved.get(&row) {
            Some((pool, bytes)) => {
                (*pool, *bytes, self.replay.pool(*pool).map_or(SearchFrom::Bottom, |pool| pool.from))
            }
            None => (allocation.pool, allocation.bytes, allocation.from),
        };
        let bytes = self.plan.resized.get(&row).copied().unwrap_or(bytes);
        // A pool without known addresses is assumed to have room.
        let Some(Some(bank)) = self.banks.get_mut(pool.index()) else { return true };
        let address = match allocation.address {
            // The addresses of older allocations do not depend on the program.
            Some(address) if allocation.is_earlier() && pool == allocation.pool => {
                let shift = self.plan.pools.get(&pool.index()).map(|(start, end)| {
                    let was = self.replay.pool(pool).map_or((0, 0), |pool| (pool.start, pool.end));
                    match allocation.from {
                        SearchFrom::Bottom => start.wrapping_sub(was.0),
                        SearchFrom::Top => end.wrapping_sub(was.1),
                    }
                });
                let address = address.wrapping_add(shift.unwrap_or(0));
                bank.place(address, bytes).then_some(address)
            }
            _ => bank.allocate(bytes, from),
        };
        self.places[row] = address.map(|address| (pool, address));
        address.is_some()
    }

    fn free(&mut self, row: usize) {
        let Some((pool, address)) = self.places[row].take() else { return };
        if let Some(Some(bank)) = self.banks.get_mut(pool.index()) {
            bank.free(address);
        }
    }

    /// Whether tensors are above a program's buffers. Only changes that move tensors down matter.
    fn leaves_room_for(&self, program: &Program) -> bool {
        let index = program.pool.index();
        let resized = self.plan.pools.get(&index).zip(self.replay.pool(program.pool));
        let moves_down = self.plan.early.is_some()
            || !self.plan.made.is_empty()
            || resized.is_some_and(|(new, old)| new.1 < old.end);
        let Some(Some(bank)) = self.banks.get(index).filter(|_| moves_down) else { return true };
        // If it is unknown where the buffers end, it is unknown whether there is room.
        program.end.is_some_and(|end| bank.lowest().is_none_or(|lowest| lowest >= end))
    }

    /// Makes the allocation that failed. Returns whether it fits.
    fn reach(&mut self, goal: Goal) -> bool {
        let Goal::Allocate { pool, bytes } = goal else { return false };
        let from = self.replay.pool(pool).map_or(SearchFrom::Bottom, |pool| pool.from);
        let Some(Some(bank)) = self.banks.get_mut(pool.index()) else { return false };
        bank.allocate(bytes, from).is_some()
    }

    /// The bytes to spare once the goal is reached.
    fn spare(&self, goal: Goal) -> u64 {
        let (Goal::Allocate { pool, .. } | Goal::Run { pool, .. }) = goal;
        self.banks.get(pool.index()).and_then(Option::as_ref).map_or(0, Bank::largest_free)
    }

    fn outcome(&self, goal: Goal) -> Outcome {
        match goal {
            Goal::Allocate { pool, bytes } => {
                let Some(Some(bank)) = self.banks.get(pool.index()) else { return Outcome::FailsEarlier };
                let (largest, need) = (bank.largest_free(), bank.rounded(bytes));
                match largest.checked_sub(need) {
                    Some(spare) => Outcome::Works(spare),
                    None => Outcome::Lacks(need - largest),
                }
            }
            Goal::Run { pool, end } => {
                let Some(Some(bank)) = self.banks.get(pool.index()) else { return Outcome::FailsEarlier };
                let top = self.plan.pools.get(&pool.index()).map(|(_, end)| *end);
                let top = top.or(self.replay.pool(pool).map(|pool| pool.end)).unwrap_or(end);
                let lowest = bank.lowest().unwrap_or(top);
                match lowest.checked_sub(end) {
                    Some(spare) => Outcome::Works(spare),
                    None => Outcome::Lacks(end - lowest),
                }
            }
        }
    }
}

fn of_pool(profile: &Profile, pool: &Pool) -> Option<ReplayPool> {
    let layout = pool.layout?;
    let capacity = pool.curve(CurveKind::Capacity)?.value_at(Moment::NEVER)?;
    let end = layout.start.checked_add(capacity)?;
    let from = SearchFrom::of_pool(profile.text(pool.name));
    Some(ReplayPool { start: layout.start, end, alignment: layout.alignment, from, is_complete: true })
}

/// The alignment of a pool's allocations: the number of banks tells the architecture.
fn alignment(pool: &str, banks: u32) -> Option<u64> {
    match (pool, banks) {
        // Wormhole and Blackhole.
        ("DRAM", 12) | ("L1" | "L1_SMALL", ..=80) => Some(32),
        ("DRAM", 7 | 8) | ("L1" | "L1_SMALL", _) => Some(64),
        _ => None,
    }
}
