//! The lifetimes of allocations, reconciled with the reported pool usage.
//!
//! An operation's text lists its results, but only the reported usage shows whether memory was allocated. After each
//! step, the layouts predict the change of each pool, and the next state is compared with the prediction. If they
//! differ by the size of a tensor, the reported usage is taken as correct: the result is a view of an operand, the
//! operand was consumed, or a deallocation freed nothing.
//!
//! Lifetimes are only emitted when their run has ended, because only then it is known which of its arguments are new.
//! Remaining differences are not explained here; the analysis reports them.

use rustc_hash::FxHashSet;
use ttmem_model::{
    Alias, Bytes, Class, Derivation, Error, ModuleId, Moment, Origin, PoolId, RankEvent, RankId, Result,
    RunId, Step, StepMarks, StepNumber, StrId, Tensor, TensorId,
};

use super::tables::{Tables, TypeRef};
use super::view::QUANTUM;

/// An allocation, by its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct AllocRef(u32);

/// An allocation and what is known about its tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alloc {
    pub ty: TypeRef,
    pub pool: PoolId,
    pub per_bank: Option<u64>,
    born: Moment,
    dies: Moment,
    class: Class,
    run: Option<RunId>,
    /// The name of that run's program.
    program: StrId,
    ssa: StrId,
    step: Option<Step>,
    name: Option<StrId>,
    /// The number of holders: see [`Lives::hold`].
    holders: u32,
    /// The allocation that turned out to be the same memory.
    same_as: Option<AllocRef>,
    /// Its row, once it was emitted.
    tensor: Option<TensorId>,
}

impl Alloc {
    /// An allocation with one holder, live until it is ended.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        ty: TypeRef,
        (pool, per_bank): (PoolId, Option<u64>),
        born: Moment,
        class: Class,
        (run, program): (Option<RunId>, StrId),
        ssa: StrId,
        step: Option<Step>,
    ) -> Self {
        Self {
            ty,
            pool,
            per_bank,
            born,
            dies: Moment::NEVER,
            class,
            run,
            program,
            ssa,
            step,
            name: None,
            holders: 1,
            same_as: None,
            tensor: None,
        }
    }

    /// Whether it is still allocated.
    pub fn is_alive(&self) -> bool {
        self.dies == Moment::NEVER
    }

    pub fn class(&self) -> Class {
        self.class
    }

    /// The name from a graph.
    pub fn name(&self) -> Option<StrId> {
        self.name
    }
}

/// A change of a pool since it was last observed.
#[derive(Clone, Debug)]
enum Change {
    Born {
        alloc: AllocRef,
        step: Step,
        operands: Vec<AllocRef>,
    },
    Died(AllocRef),
    /// A deallocation of something that has other holders.
    Released(AllocRef, Moment),
    /// A deallocation whose line is missing, and the candidates it may have freed, the most likely first.
    Lost(Vec<AllocRef>, Moment),
}

/// The account of one pool.
#[derive(Debug, Default)]
struct Account {
    /// The usage when the pool was last observed.
    observed: Option<u64>,
    /// The change since then according to the layouts.
    predicted: i64,
    since: Vec<Change>,
}

/// All allocations of a rank.
#[derive(Debug, Default)]
pub(super) struct Lives {
    slots: Vec<Alloc>,
    vacant: Vec<AllocRef>,
    /// Allocated since lifetimes were last emitted, in order.
    young: Vec<AllocRef>,
    /// Emitted before and changed since.
    changed: Vec<AllocRef>,
    aliases: Vec<(AllocRef, Option<RunId>, StrId, StrId)>,
    derivations: Vec<(AllocRef, AllocRef)>,
    origins: Vec<(AllocRef, ModuleId, u32)>,
    said_aliases: FxHashSet<(TensorId, StrId, StrId)>,
    accounts: Vec<Account>,
    tensors: usize,
}

impl Lives {
    /// The allocation that a reference stands for, following all merges.
    pub fn resolve(&self, alloc: AllocRef) -> AllocRef {
        let mut alloc = alloc;
        while let Some(same) = self.slots[alloc.0 as usize].same_as {
            alloc = same;
        }
        alloc
    }

    /// The allocation that a reference stands for, after identical ones were merged.
    pub fn get(&self, alloc: AllocRef) -> &Alloc {
        &self.slots[self.resolve(alloc).0 as usize]
    }

    /// The same for changing it. A tensor that was already emitted is emitted again.
    fn get_mut(&mut self, alloc: AllocRef) -> &mut Alloc {
        let alloc = self.resolve(alloc);
        self.note_change(alloc);
        &mut self.slots[alloc.0 as usize]
    }

    /// Adds an allocation from before the step that first named it.
    pub fn add(&mut self, alloc: Alloc) -> AllocRef {
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.slots[slot.0 as usize] = alloc;
                slot
            }
            None => {
                self.slots.push(alloc);
                // Slots are reused, and four billion live tensors do not fit in memory.
                AllocRef(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
            }
        };
        self.young.push(slot);
        slot
    }

    /// Adds an allocation made by a step.
    pub fn bear(&mut self, alloc: Alloc, step: Step, operands: Vec<AllocRef>) -> AllocRef {
        let (pool, size) = (alloc.pool, signed(alloc.per_bank));
        let alloc = self.add(alloc);
        let account = self.account(pool);
        account.predicted = account.predicted.saturating_add(size);
        account.since.push(Change::Born { alloc, step, operands });
        alloc
    }

    /// The live allocations.
    pub fn alive(&self) -> impl Iterator<Item = &Alloc> {
        self.slots.iter().filter(|slot| slot.same_as.is_none() && slot.is_alive() && slot.holders != VACANT)
    }

    /// The maximum bytes per bank that allocations can use in a pool at a moment of the first program. Deallocated
    /// ones are included, because a deallocation may not free memory.
    pub fn max_at(&self, pool: PoolId, at: Moment) -> u64 {
        let may_be = |slot: &&Alloc| slot.pool == pool && slot.born <= at && slot.same_as.is_none();
        self.slots.iter().filter(may_be).filter_map(|slot| slot.per_bank).fold(0, u64::saturating_add)
    }

    /// The row of an allocation, if it was emitted.
    pub fn said_as(&self, alloc: AllocRef) -> Option<TensorId> {
        self.get(alloc).tensor
    }

    /// The usage of a pool when it was last observed.
    pub fn observed(&self, pool: PoolId) -> Option<u64> {
        self.accounts.get(pool.index()).and_then(|account| account.observed)
    }

    /// Sets the moment when an allocation began to exist.
    pub fn exists_since(&mut self, alloc: AllocRef, born: Moment) {
        self.get_mut(alloc).born = born;
    }

    /// Sets the name that a graph gives to an allocation.
    pub fn set_name(&mut self, alloc: AllocRef, name: Option<StrId>) {
        self.get_mut(alloc).name = name;
    }

    pub fn set_class(&mut self, alloc: AllocRef, class: Class) {
        self.get_mut(alloc).class = class;
    }

    /// Adds a holder. Each name in a program (`Frame`), each result in the `Cache` and each output among the
    /// `Residents` is a holder. So is the result of a nested program until the caller's step is settled. A new
    /// allocation is held by the name it was made for.
    pub fn hold(&mut self, alloc: AllocRef) {
        self.get_mut(alloc).holders += 1;
    }

    /// Removes a holder. The last one ends the lifetime; `force` ends it for all holders.
    pub fn release(&mut self, alloc: AllocRef, at: Moment, force: bool) {
        let alloc = self.resolve(alloc);
        let held = self.get_mut(alloc);
        held.holders = held.holders.saturating_sub(1);
        if !held.is_alive() {
            return;
        }
        let pool = held.pool;
        if held.holders == 0 || force {
            self.end(alloc, at);
            self.account(pool).since.push(Change::Died(alloc));
        } else {
            self.account(pool).since.push(Change::Released(alloc, at));
        }
    }

    /// Records a deallocation of an unknown tensor. The next change of the pool identifies it by its size.
    pub fn release_unknown(&mut self, candidates: &[AllocRef], at: Moment) {
        for account in &mut self.accounts {
            account.since.push(Change::Lost(candidates.to_vec(), at));
        }
    }

    /// Ends a lifetime between programs, without attributing it to a step.
    pub fn end_outside(&mut self, alloc: AllocRef, at: Moment) {
        let alloc = self.resolve(alloc);
        self.get_mut(alloc).dies = at;
    }

    fn end(&mut self, alloc: AllocRef, at: Moment) {
        let ended = self.get_mut(alloc);
        ended.dies = at;
        let (pool, size) = (ended.pool, signed(ended.per_bank));
        let account = self.account(pool);
        account.predicted = account.predicted.saturating_sub(size);
    }

    /// Merges an allocation with an older one, as another name for it.
    pub fn unite(&mut self, younger: AllocRef, older: AllocRef) {
        let (younger, older) = (self.resolve(younger), self.resolve(older));
        if younger == older {
            return;
        }
        let gone = self.slots[younger.0 as usize];
        self.slots[younger.0 as usize].same_as = Some(older);
        self.aliases.push((older, gone.run, gone.program, gone.ssa));
        let kept = self.get_mut(older);
        kept.holders += gone.holders;
        if !gone.is_alive() {
            kept.dies = gone.dies;
        }
    }

    /// Sets the sizes of a pool's allocations that were unknown when they were found.
    pub fn learn_sizes(&mut self, pool: PoolId, size: impl Fn(TypeRef) -> Option<u64>) {
        for slot in &self.young {
            let alloc = &mut self.slots[slot.0 as usize];
            if alloc.pool == pool && alloc.per_bank.is_none() {
                alloc.per_bank = size(alloc.ty);
            }
        }
    }

    /// Adds another name to an allocation.
    pub fn alias(&mut self, alloc: AllocRef, run: Option<RunId>, program: StrId, ssa: StrId) {
        self.aliases.push((alloc, run, program, ssa));
    }

    /// Records the source that an allocation was computed from.
    pub fn derive(&mut self, alloc: AllocRef, source: AllocRef) {
        self.derivations.push((alloc, source));
    }

    /// Records the argument that an allocation originates from.
    pub fn originate(&mut self, alloc: AllocRef, module: ModuleId, argument: u32) {
        self.origins.push((alloc, module, argument));
    }

    /// Compares the account of a pool with the reported usage. Returns the step that created a view, if one did.
    pub fn observe(&mut self, pool: PoolId, allocated: u64) -> Option<(Step, StepMarks)> {
        let account = self.account(pool);
        let since = std::mem::take(&mut account.since);
        let predicted = std::mem::take(&mut account.predicted);
        let before = account.observed.replace(allocated);
        let measured = signed(Some(allocated)) - signed(Some(before?));
        let left = measured.saturating_sub(predicted);
        let explained = if near(left, 0) { None } else { self.explain(&since, left) };
        if let Some(account) = self.accounts.get_mut(pool.index()) {
            // The vector is reused, without its content.
            account.since = since;
            account.since.clear();
        }
        explained
    }

    /// Restarts the account of a pool at the end of a program, and returns the expected usage.
    pub fn settle(&mut self, pool: PoolId) -> Option<u64> {
        let account = self.account(pool);
        account.since.clear();
        let predicted = std::mem::take(&mut account.predicted);
        let level = account.observed?.saturating_add_signed(predicted);
        account.observed = Some(level);
        Some(level)
    }

    /// Corrects the account if the difference matches the size of a tensor.
    fn explain(&mut self, since: &[Change], left: i64) -> Option<(Step, StepMarks)> {
        let mut births = since.iter().filter(|change| matches!(change, Change::Born { .. }));
        match (births.next(), births.next()) {
            (Some(Change::Born { alloc, step, operands }), None) => {
                self.explain_birth(*alloc, *step, operands, left)
            }
            (None, _) => {
                self.explain_deaths(since, left);
                None
            }
            // Several results between two observations: it is unknown which of them it was.
            _ => None,
        }
    }

    fn explain_birth(
        &mut self,
        alloc: AllocRef,
        step: Step,
        operands: &[AllocRef],
        left: i64,
    ) -> Option<(Step, StepMarks)> {
        let born = *self.get(alloc);
        let alive = |lives: &Self, operand: &AllocRef| {
            let operand = lives.get(*operand);
            operand.is_alive() && operand.pool == born.pool
        };
        let size = born.per_bank?;
        if born.is_alive() && near(left, -signed(Some(size))) {
            let same_size =
                |operand: &&AllocRef| alive(self, operand) && self.get(**operand).per_bank == Some(size);
            if let Some(&operand) = operands.iter().find(same_size) {
                self.unite(alloc, operand);
                return Some((step, StepMarks::VIEW));
            }
        }
        let consumed =
            |operand: &&AllocRef| alive(self, operand) && near(left, -signed(self.get(**operand).per_bank));
        if let Some(&operand) = operands.iter().find(consumed) {
            self.get_mut(operand).dies = Moment::after(step);
        }
        None
    }

    fn explain_deaths(&mut self, since: &[Change], left: i64) {
        match *since {
            // Deallocated, but nothing was freed: it has a holder that the log does not show.
            [Change::Died(alloc)] if near(left, signed(self.get(alloc).per_bank)) => {
                let alloc = self.get_mut(alloc);
                (alloc.dies, alloc.holders) = (Moment::NEVER, 1);
            }
            // Other holders were assumed, but the memory was freed.
            [Change::Released(alloc, at)] if near(left, -signed(self.get(alloc).per_bank)) => {
                self.get_mut(alloc).dies = at;
            }
            [Change::Lost(ref candidates, at)] => {
                let is_it = |alloc: &&AllocRef| {
                    let alloc = self.get(**alloc);
                    alloc.is_alive()
                        && alloc.per_bank.is_some_and(|size| size > 0 && near(left, -signed(Some(size))))
                };
                if let Some(&alloc) = candidates.iter().find(is_it) {
                    self.get_mut(alloc).dies = at;
                }
            }
            _ => {}
        }
    }

    fn account(&mut self, pool: PoolId) -> &mut Account {
        if self.accounts.len() <= pool.index() {
            self.accounts.resize_with(pool.index() + 1, Account::default);
        }
        &mut self.accounts[pool.index()]
    }

    fn note_change(&mut self, alloc: AllocRef) {
        if self.slots[alloc.0 as usize].tensor.is_some() {
            self.changed.push(alloc);
        }
    }

    /// Emits all deferred lifetimes, and forgets those that have ended.
    pub fn say(&mut self, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        let mut touched = std::mem::take(&mut self.young);
        for &slot in &touched {
            if self.slots[slot.0 as usize].same_as.is_none() {
                self.say_one(slot, rank, tables)?;
            }
        }
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        self.say_changes(&changed, rank, tables)?;
        self.say_names(rank, tables)?;
        touched.append(&mut changed);
        for slot in touched {
            let alloc = &mut self.slots[slot.0 as usize];
            let done = alloc.same_as.is_some() || !alloc.is_alive();
            if done && alloc.holders != VACANT {
                alloc.holders = VACANT;
                self.vacant.push(slot);
            }
        }
        Ok(())
    }

    fn say_one(&mut self, slot: AllocRef, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        let id = TensorId::new(self.tensors)
            .ok_or_else(|| Error::NotFound("the log has too many tensors; split it".into()))?;
        self.tensors += 1;
        let alloc = &mut self.slots[slot.0 as usize];
        alloc.tensor = Some(id);
        let tensor = Tensor {
            ty: Some(tables.type_facts(alloc.ty).id),
            pool: alloc.pool,
            per_bank: Bytes::from(alloc.per_bank),
            born: alloc.born,
            dies: alloc.dies,
            class: alloc.class,
            run: alloc.run,
            ssa: Some(alloc.ssa),
            step: alloc.step.and_then(StepNumber::new),
            name: alloc.name,
        };
        tables.say(rank, RankEvent::Tensor(tensor))
    }

    fn say_changes(&self, changed: &[AllocRef], rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        for slot in changed {
            let alloc = &self.slots[slot.0 as usize];
            if let (Some(tensor), false) = (alloc.tensor, alloc.is_alive()) {
                tables.say(rank, RankEvent::Dies(tensor, alloc.dies))?;
            }
        }
        Ok(())
    }

    /// Emits each name once, regardless of the number of runs that use it.
    fn say_names(&mut self, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        for (alloc, run, program, ssa) in std::mem::take(&mut self.aliases) {
            let alloc = self.get(alloc);
            let Some(tensor) = alloc.tensor else { continue };
            let own = (alloc.program, alloc.ssa) == (program, ssa);
            if !own && self.said_aliases.insert((tensor, program, ssa)) {
                tables.say(rank, RankEvent::Alias(Alias { tensor, run, ssa }))?;
            }
        }
        for (alloc, module, argument) in std::mem::take(&mut self.origins) {
            if let Some(tensor) = self.get(alloc).tensor {
                tables.say(rank, RankEvent::Origin(Origin { tensor, module, argument }))?;
            }
        }
        for (alloc, source) in std::mem::take(&mut self.derivations) {
            if let (Some(tensor), Some(source)) = (self.get(alloc).tensor, self.get(source).tensor) {
                tables.say(rank, RankEvent::Derived(Derivation { tensor, source }))?;
            }
        }
        Ok(())
    }
}

/// The number of holders of an unused slot.
const VACANT: u32 = u32::MAX;

fn signed(bytes: Option<u64>) -> i64 {
    i64::try_from(bytes.unwrap_or(0)).unwrap_or(i64::MAX)
}

/// Whether two differences are equal within the rounding of the two states.
pub(super) fn near(a: i64, b: i64) -> bool {
    a.saturating_sub(b).unsigned_abs() <= QUANTUM
}
