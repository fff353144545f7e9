//! An execution that is told operation by operation, for evidence of the same runtime that is no log.
//!
//! The rules of a log hold: programs nest, names are of their program, and what the device says decides what an operation
//! did. Only the states are exact.

use ttmem_model::{Moment, RankEvent, Reading, Result, Sink, Step};

use super::rank::{At, Began, RankState};
use super::tables::Tables;

/// A rank, being told.
pub(crate) struct Told<'s> {
    pub tables: Tables<'s>,
    rank: RankState,
    /// Where in the file we are.
    pub offset: u64,
}

impl<'s> Told<'s> {
    pub fn new(sink: &'s mut dyn Sink) -> Result<Self> {
        let mut tables = Tables::new(sink);
        let rank = RankState::exact(tables.rank(None)?);
        Ok(Self { tables, rank, offset: 0 })
    }

    fn at(&self) -> At {
        At { line: 0, offset: self.offset, next: self.offset }
    }

    /// An operation begins; what the device held before it belongs to the moment that is returned. What is no operation's
    /// text is taken for a name.
    pub fn begins(&mut self, text: &[u8]) -> Result<Moment> {
        let at = self.at();
        if self.rank.executing(text, at, &mut self.tables)? == Began::Unreadable {
            self.rank.named(text, at, &mut self.tables)?;
        }
        Ok(Moment::before(self.rank.steps().saturating_sub(1)))
    }

    /// A program starts, at the top or inside the operation that began last.
    pub fn starts(&mut self, program: &[u8]) -> Result<()> {
        let at = self.at();
        self.rank.starting(program, at, &mut self.tables).map(drop)
    }

    /// A program ends.
    pub fn ends(&mut self, program: &[u8]) -> Result<()> {
        let at = self.at();
        self.rank.finished(program, at, &mut self.tables).map(drop)
    }

    /// What a pool holds at a moment.
    pub fn state(&mut self, pool: &[u8], banks: u32, reading: Reading, at: Moment) -> Result<()> {
        self.rank.exact_state(pool, banks, reading, at, &mut self.tables)
    }

    /// What a pool showed besides, at a moment at which it is not known what the steps should have done.
    pub fn glimpse(&mut self, pool: &[u8], banks: u32, reading: Reading, at: Moment) -> Result<()> {
        self.rank.exact_pool(pool, banks, reading.capacity.unwrap_or(0), &mut self.tables)?;
        self.say(pool, |id| RankEvent::State(id, at, reading))
    }

    /// Says something of a pool.
    pub fn say(&mut self, pool: &[u8], event: impl FnOnce(ttmem_model::PoolId) -> RankEvent) -> Result<()> {
        match self.rank.pool_id(pool) {
            Some(id) => self.tables.say(self.rank.id(), event(id)),
            None => Ok(()),
        }
    }

    /// How many steps there were.
    pub fn steps(&self) -> Step {
        self.rank.steps()
    }

    /// Says what is known at the end.
    pub fn close(mut self) -> Result<Tables<'s>> {
        let at = self.at();
        self.rank.close(at, &mut self.tables)?;
        Ok(self.tables)
    }
}
