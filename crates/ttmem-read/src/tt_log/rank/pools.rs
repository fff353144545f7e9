//! The memory pools of a rank: their banks, what each showed last, and what each should hold between programs.

use ttmem_model::{Error, Moment, PoolId, RankEvent, RankId, Result, difference};

use super::super::tables::{Tables, TypeRef};
use super::super::types::{Alignment, Place};
use super::super::view::{QUANTUM, View};

/// The pools, in the order they appeared.
#[derive(Debug)]
pub(super) struct Pools {
    rank: RankId,
    rows: Vec<Pool>,
    /// The unit to which states are rounded.
    quantum: u64,
    /// The pool whose state was read last.
    latest: Option<usize>,
    /// A top-level program has ended.
    has_ended: bool,
    /// What the pools should hold since then.
    levels: Vec<Option<u64>>,
}

/// One pool.
#[derive(Debug)]
pub(super) struct Pool {
    id: PoolId,
    name: Vec<u8>,
    /// `None` for a pool that only a layout names so far.
    banks: Option<u32>,
    capacity: u64,
    /// The last view as text: most lines repeat the one before.
    text: Vec<u8>,
    view: View,
    /// When it was first seen, and what it held then.
    first: Option<(Moment, u64)>,
    /// The change between the last program and this one, if both ends are known.
    gap: Option<i64>,
}

/// When a state was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// While a program runs.
    Running,
    /// Between two programs.
    Between,
    /// Directly after a program: it shows what the program left.
    After,
}

impl Pools {
    /// The pools of a rank whose states are rounded to a unit.
    pub fn new(rank: RankId, quantum: u64) -> Self {
        Self { rank, rows: Vec::new(), quantum, latest: None, has_ended: false, levels: Vec::new() }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.rows.iter()
    }

    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.rows.iter().position(|pool| pool.name == name)
    }

    pub fn named(&self, name: &[u8]) -> Option<&Pool> {
        self.rows.iter().find(|pool| pool.name == name)
    }

    pub fn get(&self, index: usize) -> &Pool {
        &self.rows[index]
    }

    /// The pool whose state was read last.
    pub fn latest(&self) -> Option<usize> {
        self.latest
    }

    /// Defines a pool.
    pub fn add(
        &mut self,
        name: &[u8],
        banks: Option<u32>,
        capacity: u64,
        tables: &mut Tables<'_>,
    ) -> Result<usize> {
        let index = self.rows.len();
        let id = PoolId::new(index).ok_or_else(|| Error::NotThere("too many pools".into()))?;
        let text = tables.text(name)?;
        tables.say(self.rank, RankEvent::Pool { name: text, banks, quantum: self.quantum })?;
        self.rows.push(Pool {
            id,
            name: name.to_vec(),
            banks,
            capacity,
            text: Vec::new(),
            view: View::default(),
            first: None,
            gap: None,
        });
        Ok(index)
    }

    /// Gives a pool that tensors named before its first state its banks. Returns `false` if it had them.
    pub fn learn_banks(
        &mut self,
        index: usize,
        banks: u32,
        capacity: u64,
        tables: &mut Tables<'_>,
    ) -> Result<bool> {
        let pool = &mut self.rows[index];
        if pool.banks.is_some() {
            return Ok(false);
        }
        (pool.banks, pool.capacity) = (Some(banks), capacity);
        tables.say(self.rank, RankEvent::Banks(pool.id, banks))?;
        Ok(true)
    }

    /// Changes what a pool shows.
    pub fn show(&mut self, index: usize, text: &[u8], view: View) {
        let pool = &mut self.rows[index];
        pool.text.clear();
        pool.text.extend_from_slice(text);
        pool.view = view;
    }

    /// Notes that a state of what a pool shows was read.
    pub fn read(&mut self, index: usize, at: Moment) -> &Pool {
        self.latest = Some(index);
        let pool = &mut self.rows[index];
        pool.first.get_or_insert((at, pool.view.allocated.bytes()));
        pool
    }

    /// The pool of a type and what it takes of each bank; `None` for what is not on the device.
    pub fn place(&mut self, ty: TypeRef, tables: &mut Tables<'_>) -> Result<Option<(PoolId, Option<u64>)>> {
        let facts = tables.type_facts(ty);
        let Some(name) = facts.place.and_then(Place::pool) else { return Ok(None) };
        let index = match self.find(name.as_bytes()) {
            Some(index) => index,
            None => self.add(name.as_bytes(), None, 0, tables)?,
        };
        let pool = &self.rows[index];
        let per_bank = pool.banks.and_then(|banks| facts.footprint?.per_bank(banks, self.alignment()));
        Ok(Some((pool.id, per_bank)))
    }

    /// What a tensor of a type takes of each bank of a pool; `None` if it is not in that pool.
    pub fn bytes_in(&self, pool: &[u8], ty: TypeRef, tables: &Tables<'_>) -> Option<u64> {
        let facts = tables.type_facts(ty);
        let name = facts.place.and_then(Place::pool).filter(|name| name.as_bytes() == pool)?;
        let banks = self.named(name.as_bytes())?.banks?;
        facts.footprint?.per_bank(banks, self.alignment())
    }

    /// Wormhole's banks have one or two GiB, Blackhole's four; nothing in the log names the chip.
    pub fn alignment(&self) -> Alignment {
        const LARGEST_WORMHOLE_BANK: u64 = 2 << 30;
        let dram = self.named(b"DRAM");
        Alignment {
            dram: if dram.is_some_and(|dram| dram.capacity > LARGEST_WORMHOLE_BANK) { 64 } else { 32 },
        }
    }
}

/// Levels between programs.
impl Pools {
    /// Whether no top-level program has ended yet.
    pub fn is_first_program(&self) -> bool {
        !self.has_ended
    }

    /// Compares a state with what the pool should hold since the last program.
    pub fn observe(&mut self, index: usize, allocated: u64, when: When) {
        let Some(level) = self.levels.get_mut(index) else { return };
        if when == When::After {
            *level = Some(allocated);
        } else if let Some(before) = *level {
            self.rows[index].gap = Some(difference(allocated, before));
            // Inputs may still arrive between the submit and the first operation.
            *level = level.filter(|_| when == When::Between);
        }
    }

    /// Sets what each pool should hold from now on, at the end of a top-level program.
    pub fn settle(&mut self, level: impl FnMut(PoolId) -> Option<u64>) {
        self.has_ended = true;
        self.levels = self.rows.iter().map(|pool| pool.id).map(level).collect();
        self.rows.iter_mut().for_each(|pool| pool.gap = None);
    }

    /// The pools with what each should hold since the last program.
    pub fn levels(&self) -> impl Iterator<Item = (PoolId, u64)> {
        self.rows.iter().zip(&self.levels).filter_map(|(pool, level)| Some((pool.id, (*level)?)))
    }
}

impl Pool {
    pub fn id(&self) -> PoolId {
        self.id
    }

    pub fn view(&self) -> View {
        self.view
    }

    /// Whether it shows just this text.
    pub fn shows(&self, text: &[u8]) -> bool {
        self.text == text
    }

    /// Whether a state says how many banks it has.
    pub fn has_banks(&self) -> bool {
        self.banks.is_some()
    }

    /// The change between the last program and this one, if both ends are known.
    pub fn gap(&self) -> Option<i64> {
        self.gap
    }

    /// When it was first seen, and what it held then.
    pub fn first_state(&self) -> Option<(Moment, u64)> {
        self.first
    }

    /// Whether a state contradicts what is known of its banks.
    pub fn has_other_banks(&self, view: &View) -> bool {
        let is_known = self.banks.is_some() && self.first.is_some();
        is_known && (self.view.banks, self.view.total) != (view.banks, view.total)
    }

    /// Whether it held at least as much when it was first seen.
    pub fn began_with_at_least(&self, view: &View) -> bool {
        self.first.is_none_or(|(_, first)| view.allocated.bytes() <= first + QUANTUM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_pools_is_a_program() {
        let mut pools = Pools::new(RankId::new(0).unwrap(), 0);
        assert!(pools.is_first_program());
        pools.settle(|_| None);
        assert!(!pools.is_first_program());
    }
}
