//! Memory states: their moments, and the comparison with the expected effects of the steps.

use ttmem_model::{Moment, PoolId, RankEvent, Reading, Result};

use super::super::tables::Tables;
use super::super::view::View;
use super::detail::Orphan;
use super::frame::{Current, Frame};
use super::pools::{Pool, When};
use super::{At, RankState};

impl RankState {
    /// `Device memory state before operation …`: the moment of the states that follow.
    ///
    /// `None` if no step can have printed the header, but an earlier step lacks one: lines of two processes are
    /// interleaved. Without such a step, the line of the operation is missing.
    pub fn state_header(
        &mut self,
        op_type: &[u8],
        at: At,
        tables: &mut Tables<'_>,
    ) -> Result<Option<Moment>> {
        if let Some(step) = self.programs.current_mut().and_then(Current::take_state) {
            self.detail.state();
            return Ok(Some(Moment::before(step)));
        }
        match self.detail.header() {
            Orphan::Interleaved => return Ok(None),
            Orphan::LostOperation => self.inconsistencies.lost_operation(at.line),
            Orphan::Operation => {}
        }
        self.lost_operation(op_type, at, tables).map(Some)
    }

    /// Begins a step that is only known by its type and state. Returns the moment of its state.
    pub fn lost_operation(&mut self, op_type: &[u8], at: At, tables: &mut Tables<'_>) -> Result<Moment> {
        let op = tables.op_type(op_type)?;
        self.begin_step(op, at, tables)?;
        if let Some(frame) = self.programs.innermost_mut() {
            if self.detail.has_texts() {
                frame.miss_operation();
            }
            frame.current_mut().and_then(Current::take_state);
        }
        Ok(Moment::before(self.programs.steps() - 1))
    }

    /// The moment of states without a header: before the operation that lacks one, otherwise the current moment.
    pub fn headless(&mut self) -> Moment {
        match self.programs.current_mut().and_then(Current::take_state) {
            Some(step) => Moment::before(step),
            None => self.now(),
        }
    }

    /// `Device memory state before submit`
    pub fn before_submit(&mut self, at: At) -> Moment {
        self.programs.submit();
        self.begins.submit(at);
        self.now()
    }

    /// `Device memory state after submit`
    pub fn after_submit(&mut self, tables: &mut Tables<'_>) -> Result<Moment> {
        if self.programs.depth() == 1 && self.programs.innermost().is_some_and(Frame::is_nameless) {
            self.end_top(true, None, tables)?;
        }
        // If no operation was printed, both states of a submit have the same position, one after the other.
        let steps = self.programs.steps();
        Ok(if self.programs.is_submit_empty() { Moment::late(steps) } else { Moment::early(steps) })
    }

    /// The moment of a separate state: the current one.
    pub fn now(&self) -> Moment {
        Moment::late(self.programs.steps())
    }

    /// Records a state. `false` if it cannot be parsed.
    pub fn state(
        &mut self,
        pool: &[u8],
        text: &[u8],
        moment: Moment,
        at: At,
        tables: &mut Tables<'_>,
    ) -> Result<bool> {
        let index = match self.pools.find(pool) {
            Some(index) if self.pools.get(index).shows(text) => index,
            found => {
                let Some(view) = View::parse(text) else { return Ok(false) };
                self.changed_view(found, pool, text, view, at, tables)?
            }
        };
        let pool = self.pools.read(index, moment);
        let (id, view) = (pool.id(), pool.view());
        let reading = Reading {
            allocated: Some(view.allocated.bytes()),
            free: Some(view.free.bytes()),
            largest_free: Some(view.largest_free.bytes()),
            capacity: Some(view.total.bytes()),
            ..Reading::default()
        };
        tables.say(self.id, RankEvent::State(id, moment, reading))?;
        self.observe(index, view.allocated.bytes(), moment, tables)?;
        Ok(true)
    }

    /// Records an exact state.
    pub fn exact_state(
        &mut self,
        pool: &[u8],
        banks: u32,
        reading: Reading,
        moment: Moment,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let index = self.exact_pool(pool, banks, reading.capacity.unwrap_or(0), tables)?;
        tables.say(self.id, RankEvent::State(self.pools.get(index).id(), moment, reading))?;
        match reading.allocated {
            Some(allocated) => self.observe(index, allocated, moment, tables),
            None => Ok(()),
        }
    }

    /// The pool of this name, which is defined if it is new.
    pub fn exact_pool(
        &mut self,
        pool: &[u8],
        banks: u32,
        capacity: u64,
        tables: &mut Tables<'_>,
    ) -> Result<usize> {
        let index = match self.pools.find(pool) {
            Some(index) => index,
            None => self.pools.add(pool, Some(banks), capacity, tables)?,
        };
        self.learn_banks(index, banks, capacity, tables)?;
        Ok(index)
    }

    /// The pool of this name.
    pub fn pool_id(&self, name: &[u8]) -> Option<PoolId> {
        self.pools.named(name).map(Pool::id)
    }

    /// Records that the state of a pool has not changed.
    pub fn same_state(&mut self, pool: usize, moment: Moment, tables: &mut Tables<'_>) -> Result<()> {
        let state = self.pools.get(pool);
        let allocated = state.view().allocated.bytes();
        tables.say(self.id, RankEvent::Unchanged(state.id(), moment))?;
        self.observe(pool, allocated, moment, tables)
    }

    /// Whether a pool's last view has exactly this text.
    pub fn shows(&self, pool: &[u8], text: &[u8]) -> bool {
        self.pools.named(pool).is_some_and(|known| known.shows(text))
    }

    /// The pool of the last recorded state.
    pub fn last_pool(&self) -> Option<usize> {
        self.pools.latest()
    }

    /// Handles a view that differs from the previous one: the pool may be new, and the numbers may be inconsistent.
    fn changed_view(
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
                format!("the device reports a {pool} state with {wrong}; the numbers are shown as reported"),
            )?;
        }
        let index = match found {
            Some(index) => index,
            None => self.pools.add(pool, Some(view.banks), view.total.bytes(), tables)?,
        };
        self.learn_banks(index, view.banks, view.total.bytes(), tables)?;
        if self.pools.get(index).has_other_banks(&view) {
            self.inconsistencies.other_banks(at.line);
        }
        self.pools.show(index, text, view);
        Ok(index)
    }

    /// Sets the banks of a pool that tensors named before its first state, and the sizes of these tensors.
    fn learn_banks(
        &mut self,
        index: usize,
        banks: u32,
        capacity: u64,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        if self.pools.learn_banks(index, banks, capacity, tables)? {
            let alignment = self.pools.alignment();
            let size = |ty| tables.type_facts(ty).footprint?.per_bank(banks, alignment);
            self.lives.learn_sizes(self.pools.get(index).id(), size);
        }
        Ok(())
    }

    /// Compares a state with the expected effects of the steps since the last one.
    fn observe(
        &mut self,
        index: usize,
        allocated: u64,
        moment: Moment,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let when = match self.programs.is_idle() {
            true if moment == Moment::early(self.programs.steps()) => When::After,
            true => When::Between,
            false => When::Running,
        };
        self.pools.observe(index, allocated, when);
        if let Some((step, marks)) = self.lives.observe(self.pools.get(index).id(), allocated) {
            tables.say(self.id, RankEvent::Marks(step, marks))?;
        }
        Ok(())
    }
}
