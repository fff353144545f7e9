//! What the pools of a rank report, and how it is held against the steps.

use super::super::tables::Tables;
use super::super::view::View;
use super::{At, PoolState, RankState};
use ttmem_model::{Error, Result};
use ttmem_model::{Moment, PoolId, RankEvent, Reading, difference};

impl RankState {
    /// `Device memory state before operation …`: when the states that follow were taken.
    ///
    /// `None` when the header belongs to no step that could have printed it, but a step before lacks one: lines of two
    /// processes are interleaved. Without such a step, the line of the operation is missing.
    pub fn state_header(
        &mut self,
        op_type: &[u8],
        at: At,
        tables: &mut Tables<'_>,
    ) -> Result<Option<Moment>> {
        let waiting = self.frames.last_mut().and_then(|frame| frame.current.as_mut());
        if let Some(current) = waiting.filter(|current| !current.has_state) {
            current.has_state = true;
            self.has_operation_states |= self.has_texts;
            return Ok(Some(Moment::before(current.step)));
        }
        // The text of an operation that could not be read: its type is all that is known of it.
        let skipped = std::mem::take(&mut self.skipped_operation);
        if self.has_texts && !self.types_only && !skipped {
            if self.stateless > 0 {
                return Ok(None);
            }
            self.doubts.lost.0 += 1;
            self.doubts.lost.1.get_or_insert(at.line);
        }
        self.lost_operation(op_type, at, tables).map(Some)
    }

    /// Begins a step of which only the type and the state are known; when its state was taken.
    pub fn lost_operation(&mut self, op_type: &[u8], at: At, tables: &mut Tables<'_>) -> Result<Moment> {
        self.types_only = !self.has_texts;
        let op = tables.op_type(op_type)?;
        self.begin_step(op, at, tables)?;
        if let Some(frame) = self.frames.last_mut() {
            frame.has_gaps |= self.has_texts;
            if let Some(current) = &mut frame.current {
                current.has_state = true;
            }
        }
        Ok(Moment::before(self.steps - 1))
    }

    /// When states without a header were taken: before the operation that has none, or as far as we are.
    pub fn headless(&mut self) -> Moment {
        let waiting = self.frames.last_mut().and_then(|frame| frame.current.as_mut());
        match waiting.filter(|current| !current.has_state) {
            Some(current) => {
                current.has_state = true;
                Moment::before(current.step)
            }
            None => self.now(),
        }
    }

    /// `Device memory state before submit`
    pub fn before_submit(&mut self, at: At) -> Moment {
        self.submitted = Some(self.steps);
        self.submit.get_or_insert(at);
        self.nameless.get_or_insert(at);
        Moment::late(self.steps)
    }

    /// `Device memory state after submit`
    pub fn after_submit(&mut self, tables: &mut Tables<'_>) -> Result<Moment> {
        if self.frames.len() == 1 && self.frames.last().is_some_and(|frame| frame.run.is_none()) {
            self.end_top(true, None, tables)?;
        }
        // Where no operation was printed, both states of a submit are of one position, one after the other.
        let unseen = self.submitted == Some(self.steps);
        Ok(if unseen { Moment::late(self.steps) } else { Moment::early(self.steps) })
    }

    /// When a state that stands alone was taken: as far as we are.
    pub fn now(&self) -> Moment {
        Moment::late(self.steps)
    }

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
        self.pools[index].first.get_or_insert(allocated);
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

    /// Whether a pool shows just this.
    pub fn shows(&self, pool: &[u8], text: &[u8]) -> bool {
        self.pools.iter().any(|known| known.name == pool && known.text == text)
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
        if self.has_other_banks(pool, &view) {
            self.doubts.other_banks.get_or_insert(at.line);
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
            first: None,
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
