//! The memory pools of a rank: their banks, last states, and expected usage between programs.

use ttmem_model::{Error, Moment, PoolId, RankEvent, RankId, Result, difference};

use super::super::tables::{Tables, TypeRef};
use super::super::types::{Alignment, Place};
use super::super::view::{QUANTUM, View};

/// The pools, in order of appearance.
#[derive(Debug)]
pub(super) struct Pools {
    rank: RankId,
    rows: Vec<Pool>,
    /// The rounding of states.
    quantum: u64,
    /// The pool whose state was read last.
    latest: Option<usize>,
    /// A top-level program has ended.
    has_ended: bool,
    /// The expected usage of the pools since then.
    levels: Vec<Option<u64>>,
}

/// One pool.
#[derive(Debug)]
pub(super) struct Pool {
    id: PoolId,
    name: Vec<u8>,
    /// `None` for a pool that only a layout has named so far.
    banks: Option<u32>,
    capacity: u64,
    /// The last view as text: most lines repeat the previous one.
    text: Vec<u8>,
    view: View,
    /// The moment of the first state, and the usage then.
    first: Option<(Moment, u64)>,
    /// The change between the previous program and this one, if both ends are known.
    gap: Option<i64>,
}

/// When a state was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// While a program is running.
    Running,
    /// Between two programs.
    Between,
    /// Directly after a program, so it shows the program's final usage.
    After,
}

impl Pools {
    /// The pools of a rank with the given rounding of states.
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
        let id = PoolId::new(index).ok_or_else(|| Error::NotFound("too many pools".into()))?;
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

    /// Sets the banks of a pool that tensors named before its first state. Returns `false` if it already had them.
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

    /// Changes the state of a pool.
    pub fn show(&mut self, index: usize, text: &[u8], view: View) {
        let pool = &mut self.rows[index];
        pool.text.clear();
        pool.text.extend_from_slice(text);
        pool.view = view;
    }

    /// Records that the current state of a pool was printed.
    pub fn read(&mut self, index: usize, at: Moment) -> &Pool {
        self.latest = Some(index);
        let pool = &mut self.rows[index];
        pool.first.get_or_insert((at, pool.view.allocated.bytes()));
        pool
    }

    /// The pool and bytes per bank of a type; `None` if it is not on the device.
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

    /// The bytes per bank of a type in a pool; `None` if it is not in that pool.
    pub fn bytes_in(&self, pool: &[u8], ty: TypeRef, tables: &Tables<'_>) -> Option<u64> {
        let facts = tables.type_facts(ty);
        let name = facts.place.and_then(Place::pool).filter(|name| name.as_bytes() == pool)?;
        let banks = self.named(name.as_bytes())?.banks?;
        facts.footprint?.per_bank(banks, self.alignment())
    }

    /// The alignment, by bank size, because the log does not name the chip: Wormhole's banks have 1 or 2 GiB,
    /// Blackhole's 4 GiB.
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

    /// Compares a state with the expected usage since the previous program.
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

    /// Sets the expected usage of each pool at the end of a top-level program.
    pub fn settle(&mut self, level: impl FnMut(PoolId) -> Option<u64>) {
        self.has_ended = true;
        self.levels = self.rows.iter().map(|pool| pool.id).map(level).collect();
        self.rows.iter_mut().for_each(|pool| pool.gap = None);
    }

    /// The pools with their expected usage since the previous program.
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

    /// Whether its last view has exactly this text.
    pub fn shows(&self, text: &[u8]) -> bool {
        self.text == text
    }

    /// Whether a state has given its number of banks.
    pub fn has_banks(&self) -> bool {
        self.banks.is_some()
    }

    /// The change between the previous program and this one, if both ends are known.
    pub fn gap(&self) -> Option<i64> {
        self.gap
    }

    /// The moment of the first state, and the usage then.
    pub fn first_state(&self) -> Option<(Moment, u64)> {
        self.first
    }

    /// Whether a state contradicts its known banks.
    pub fn has_other_banks(&self, view: &View) -> bool {
        let is_known = self.banks.is_some() && self.first.is_some();
        is_known && (self.view.banks, self.view.total) != (view.banks, view.total)
    }

    /// Whether the usage was at least as high in its first state.
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
