//! The lives of allocations, held against what the device says.
//!
//! An operation's text says what it makes; whether memory was really taken, only the device's numbers say. So
//! after each step the layouts predict how the pools change, and when the next state comes the prediction is
//! held against it. Where they differ by just the size of a tensor, the device is believed: the result is a
//! view of an operand, or the operand was consumed, or a deallocation gave nothing back.
//!
//! Lives are held back until the run that they belong to has ended, because only then is it known which of its
//! arguments are new. What is left over is not explained here; the analysis shows it.

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

/// An allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alloc {
    pub ty: TypeRef,
    pub pool: PoolId,
    pub per_bank: Option<u64>,
    born: Moment,
    dies: Moment,
    class: Class,
    run: Option<RunId>,
    /// The name of the program of that run.
    program: StrId,
    ssa: StrId,
    step: Option<Step>,
    name: Option<StrId>,
    /// How many hold it: see [`Lives::hold`].
    holders: u32,
    /// It turned out to be the same memory as another.
    same_as: Option<AllocRef>,
    /// Its row, once it was said.
    tensor: Option<TensorId>,
}

impl Alloc {
    /// An allocation with one holder that lives until it is ended.
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

    /// Whether it is still there.
    pub fn is_alive(&self) -> bool {
        self.dies == Moment::NEVER
    }

    pub fn class(&self) -> Class {
        self.class
    }

    /// The name that a graph gives it.
    pub fn name(&self) -> Option<StrId> {
        self.name
    }
}

/// What happened to a pool since it was last observed.
#[derive(Clone, Debug)]
enum Change {
    Born {
        alloc: AllocRef,
        step: Step,
        operands: Vec<AllocRef>,
    },
    Died(AllocRef),
    /// A deallocation of something that others still hold.
    Released(AllocRef, Moment),
    /// A deallocation whose line is missing, and what it may have freed, the likeliest first.
    Lost(Vec<AllocRef>, Moment),
}

/// The account of one pool.
#[derive(Debug, Default)]
struct Account {
    /// What it held when it was last observed.
    observed: Option<u64>,
    /// What the layouts say has changed since.
    predicted: i64,
    since: Vec<Change>,
}

/// All allocations of a rank.
#[derive(Debug, Default)]
pub(super) struct Lives {
    slots: Vec<Alloc>,
    vacant: Vec<AllocRef>,
    /// Born since lives were last said, in order.
    young: Vec<AllocRef>,
    /// Said before, and changed since.
    changed: Vec<AllocRef>,
    aliases: Vec<(AllocRef, Option<RunId>, StrId, StrId)>,
    derivations: Vec<(AllocRef, AllocRef)>,
    origins: Vec<(AllocRef, ModuleId, u32)>,
    said_aliases: FxHashSet<(TensorId, StrId, StrId)>,
    accounts: Vec<Account>,
    tensors: usize,
}

impl Lives {
    /// The allocation that a reference stands for, through all that it turned out to be.
    pub fn resolve(&self, alloc: AllocRef) -> AllocRef {
        let mut alloc = alloc;
        while let Some(same) = self.slots[alloc.0 as usize].same_as {
            alloc = same;
        }
        alloc
    }

    /// An allocation.
    pub fn get(&self, alloc: AllocRef) -> &Alloc {
        &self.slots[self.resolve(alloc).0 as usize]
    }

    /// An allocation, to be changed.
    fn get_mut(&mut self, alloc: AllocRef) -> &mut Alloc {
        let alloc = self.resolve(alloc);
        self.note_change(alloc);
        &mut self.slots[alloc.0 as usize]
    }

    /// Adds an allocation that was there before the step that first named it.
    pub fn add(&mut self, alloc: Alloc) -> AllocRef {
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.slots[slot.0 as usize] = alloc;
                slot
            }
            None => {
                self.slots.push(alloc);
                // Slots are reused; four billion living tensors do not fit in memory.
                AllocRef(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
            }
        };
        self.young.push(slot);
        slot
    }

    /// Adds an allocation that a step made.
    pub fn bear(&mut self, alloc: Alloc, step: Step, operands: Vec<AllocRef>) -> AllocRef {
        let (pool, size) = (alloc.pool, signed(alloc.per_bank));
        let alloc = self.add(alloc);
        let account = self.account(pool);
        account.predicted = account.predicted.saturating_add(size);
        account.since.push(Change::Born { alloc, step, operands });
        alloc
    }

    /// The allocations that are alive.
    pub fn alive(&self) -> impl Iterator<Item = &Alloc> {
        self.slots.iter().filter(|slot| slot.same_as.is_none() && slot.is_alive() && slot.holders != VACANT)
    }

    /// The most bytes per bank that allocations can take of a pool at a moment of the first program. Those that were
    /// deallocated before count: a deallocation need not give memory back.
    pub fn most_at(&self, pool: PoolId, at: Moment) -> u64 {
        let may_be = |slot: &&Alloc| slot.pool == pool && slot.born <= at && slot.same_as.is_none();
        self.slots.iter().filter(may_be).filter_map(|slot| slot.per_bank).fold(0, u64::saturating_add)
    }

    /// The row that an allocation was said as, if it was.
    pub fn said_as(&self, alloc: AllocRef) -> Option<TensorId> {
        self.get(alloc).tensor
    }

    /// What a pool held when it was last looked at.
    pub fn observed(&self, pool: PoolId) -> Option<u64> {
        self.accounts.get(pool.index()).and_then(|account| account.observed)
    }

    /// Sets the moment since which an allocation exists.
    pub fn exists_since(&mut self, alloc: AllocRef, born: Moment) {
        self.get_mut(alloc).born = born;
    }

    /// Sets the name that a graph gives an allocation.
    pub fn set_name(&mut self, alloc: AllocRef, name: Option<StrId>) {
        self.get_mut(alloc).name = name;
    }

    pub fn set_class(&mut self, alloc: AllocRef, class: Class) {
        self.get_mut(alloc).class = class;
    }

    /// Adds a holder. Each name of a program (`Frame`), each result in the `Cache` and each output among the `Residents`
    /// is one holder, as is what a nested program returns until the caller's step is settled. A new allocation is held by
    /// what it was made for.
    pub fn hold(&mut self, alloc: AllocRef) {
        self.get_mut(alloc).holders += 1;
    }

    /// Takes a holder away; the last one ends the life, and force ends it for all.
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

    /// Something was freed, and the log does not say what: what shrinks by its size tells.
    pub fn release_unknown(&mut self, candidates: &[AllocRef], at: Moment) {
        for account in &mut self.accounts {
            account.since.push(Change::Lost(candidates.to_vec(), at));
        }
    }

    /// Ends a life between programs: no step is charged with it.
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

    /// Makes one allocation another name of an older one.
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

    /// Gives the allocations of a pool the sizes that could not be told when they were found.
    pub fn learn_sizes(&mut self, pool: PoolId, size: impl Fn(TypeRef) -> Option<u64>) {
        for slot in &self.young {
            let alloc = &mut self.slots[slot.0 as usize];
            if alloc.pool == pool && alloc.per_bank.is_none() {
                alloc.per_bank = size(alloc.ty);
            }
        }
    }

    /// Gives an allocation a further name.
    pub fn alias(&mut self, alloc: AllocRef, run: Option<RunId>, program: StrId, ssa: StrId) {
        self.aliases.push((alloc, run, program, ssa));
    }

    /// Remembers what an allocation was computed from.
    pub fn derive(&mut self, alloc: AllocRef, source: AllocRef) {
        self.derivations.push((alloc, source));
    }

    /// Remembers which argument an allocation goes back to.
    pub fn originate(&mut self, alloc: AllocRef, module: ModuleId, argument: u32) {
        self.origins.push((alloc, module, argument));
    }

    /// Holds the account of a pool against what the device says. Says which step made a view, if one did.
    pub fn observe(&mut self, pool: PoolId, allocated: u64) -> Option<(Step, StepMarks)> {
        let account = self.account(pool);
        let since = std::mem::take(&mut account.since);
        let predicted = std::mem::take(&mut account.predicted);
        let before = account.observed.replace(allocated);
        let measured = signed(Some(allocated)) - signed(Some(before?));
        let left = measured.saturating_sub(predicted);
        let explained = if near(left, 0) { None } else { self.explain(&since, left) };
        if let Some(account) = self.accounts.get_mut(pool.index()) {
            // The vector is used again; its content is not.
            account.since = since;
            account.since.clear();
        }
        explained
    }

    /// Starts the account of a pool anew at a program's end, and says what it should hold now.
    pub fn settle(&mut self, pool: PoolId) -> Option<u64> {
        let account = self.account(pool);
        account.since.clear();
        let predicted = std::mem::take(&mut account.predicted);
        let level = account.observed?.saturating_add_signed(predicted);
        account.observed = Some(level);
        Some(level)
    }

    /// Believes the device where a difference is just the size of a tensor.
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
            // Several results between two observations: nobody knows which of them it was.
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
            // It was deallocated, but nothing was given back: somebody holds it whom we do not know.
            [Change::Died(alloc)] if near(left, signed(self.get(alloc).per_bank)) => {
                let alloc = self.get_mut(alloc);
                (alloc.dies, alloc.holders) = (Moment::NEVER, 1);
            }
            // We thought that others hold it, and the device took it back.
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

    /// Says all lives that were held back, and forgets those that have ended.
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
        let id = TensorId::new(self.tensors).ok_or_else(|| {
            Error::NotThere("the log has more tensors than can be numbered; split it".into())
        })?;
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

    /// A name is said once, however many runs use it.
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

/// The number of holders of a slot that nobody uses.
const VACANT: u32 = u32::MAX;

fn signed(bytes: Option<u64>) -> i64 {
    i64::try_from(bytes.unwrap_or(0)).unwrap_or(i64::MAX)
}

/// Equal but for the rounding of the two states that a difference is made of.
pub(super) fn near(a: i64, b: i64) -> bool {
    a.saturating_sub(b).unsigned_abs() <= QUANTUM
}
