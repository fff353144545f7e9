//! What the pools of a rank report, and how it is held against the steps.

use super::super::tables::Tables;
use super::super::view::View;
use super::{At, PoolState, RankState};
use crate::error::{Error, Result};
use crate::model::{Moment, PoolId, RankEvent, Reading, difference};

impl RankState {
    /// Takes a state down. `false` when it cannot be read.
    pub fn state(
        &mut self,
        pool: &[u8],
        text: &[u8],
        moment: Moment,
        at: At,
        tables: &mut Tables<'_>,
    ) -> Result<bool> {
        let index = match self.pools.iter().position(|known| known.name == pool) {
            Some(index) if self.pools[index].text == text => index,
            found => {
                let Some(view) = View::parse(text) else { return Ok(false) };
                self.changed_view(found, pool, text, view, at, tables)?
            }
        };
        self.last_pool = Some(index);
        let state = &self.pools[index];
        let (id, view) = (state.id, state.view);
        let allocated = view.allocated.bytes();
        let reading = Reading {
            allocated: Some(allocated),
            free: Some(view.free.bytes()),
            largest_free: Some(view.largest_free.bytes()),
            capacity: Some(view.total.bytes()),
            ..Reading::default()
        };
        tables.say(self.id, RankEvent::State(id, moment, reading))?;
        self.observe(index, allocated, moment, tables)?;
        Ok(true)
    }

    /// Takes a state down that is exact.
    pub fn exact_state(
        &mut self,
        pool: &[u8],
        banks: u32,
        reading: Reading,
        moment: Moment,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let index = self.exact_pool(pool, banks, reading.capacity.unwrap_or(0), tables)?;
        tables.say(self.id, RankEvent::State(self.pools[index].id, moment, reading))?;
        match reading.allocated {
            Some(allocated) => self.observe(index, allocated, moment, tables),
            None => Ok(()),
        }
    }

    /// The pool of that name, which is defined if it is new.
    pub fn exact_pool(
        &mut self,
        pool: &[u8],
        banks: u32,
        capacity: u64,
        tables: &mut Tables<'_>,
    ) -> Result<usize> {
        let index = match self.pools.iter().position(|known| known.name == pool) {
            Some(index) => index,
            None => self.add_pool(pool, Some(banks), capacity, tables)?,
        };
        if self.pools[index].banks.is_none() {
            self.learn_banks(index, banks, capacity, tables)?;
        }
        Ok(index)
    }

    /// The pool of that name.
    pub fn pool_id(&self, name: &[u8]) -> Option<PoolId> {
        self.pools.iter().find(|pool| pool.name == name).map(|pool| pool.id)
    }

    /// Takes down that a pool shows what it showed last.
    pub fn same_state(&mut self, pool: usize, moment: Moment, tables: &mut Tables<'_>) -> Result<()> {
        let state = &self.pools[pool];
        let allocated = state.view.allocated.bytes();
        tables.say(self.id, RankEvent::Unchanged(state.id, moment))?;
        self.observe(pool, allocated, moment, tables)
    }

    /// The pool whose state was taken down last.
    pub fn last_pool(&self) -> Option<usize> {
        self.last_pool
    }

    /// A view that is not the one before: the pool may be new, and the numbers may be wrong.
    pub(super) fn changed_view(
        &mut self,
        found: Option<usize>,
        pool: &[u8],
        text: &[u8],
        view: View,
        at: At,
        tables: &mut Tables<'_>,
    ) -> Result<usize> {
        if let Some(wrong) = view.contradiction() {
            let pool = String::from_utf8_lossy(pool);
            tables.warn(
                Some(at.line),
                format!("the device reports {wrong} in {pool}; its numbers are taken as they are"),
            )?;
        }
        let index = match found {
            Some(index) => index,
            None => self.add_pool(pool, Some(view.banks), view.total.bytes(), tables)?,
        };
        if self.pools[index].banks.is_none() {
            self.learn_banks(index, view.banks, view.total.bytes(), tables)?;
        }
        let state = &mut self.pools[index];
        state.text.clear();
        state.text.extend_from_slice(text);
        state.view = view;
        Ok(index)
    }

    /// A pool that tensors named before its first state: now their sizes can be told.
    fn learn_banks(
        &mut self,
        index: usize,
        banks: u32,
        capacity: u64,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let pool = &mut self.pools[index];
        (pool.banks, pool.capacity) = (Some(banks), capacity);
        let id = pool.id;
        tables.say(self.id, RankEvent::Banks(id, banks))?;
        let alignment = self.alignment();
        self.lives.learn_sizes(id, |ty| tables.type_facts(ty).footprint?.per_bank(banks, alignment));
        Ok(())
    }

    pub(super) fn add_pool(
        &mut self,
        name: &[u8],
        banks: Option<u32>,
        capacity: u64,
        tables: &mut Tables<'_>,
    ) -> Result<usize> {
        let index = self.pools.len();
        let id = PoolId::new(index).ok_or_else(|| Error::NotThere("too many pools".into()))?;
        let text = tables.text(name)?;
        tables.say(self.id, RankEvent::Pool { name: text, banks, quantum: self.quantum })?;
        self.pools.push(PoolState {
            id,
            name: name.to_vec(),
            banks,
            capacity,
            text: Vec::new(),
            view: View::default(),
            gap: None,
        });
        Ok(index)
    }

    /// Holds what a pool says against what the steps since should have done.
    pub(super) fn observe(
        &mut self,
        index: usize,
        allocated: u64,
        moment: Moment,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let pool = &mut self.pools[index];
        let between_programs = self.frames.is_empty();
        if let Some(level) = self.levels.get_mut(index) {
            if between_programs && moment == Moment::early(self.steps) {
                // After a submit: this is what the program really left.
                *level = Some(allocated);
            } else if let Some(before) = *level {
                pool.gap = Some(difference(allocated, before));
                // Inputs may still arrive between the submit and the first operation.
                *level = level.filter(|_| between_programs);
            }
        }
        if let Some((step, marks)) = self.lives.observe(pool.id, allocated) {
            tables.say(self.id, RankEvent::Marks(step, marks))?;
        }
        Ok(())
    }
}
