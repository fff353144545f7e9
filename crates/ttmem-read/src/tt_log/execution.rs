//! Processes an execution operation by operation, for formats of the same runtime other than logs.
//!
//! The rules are those of a log: programs nest, names are local to their program, and the reported usage determines
//! what an operation did. The difference is that states are exact.

use ttmem_model::{Moment, RankEvent, Reading, Result, Sink, Step};

use super::rank::{At, Began, RankState};
use super::tables::Tables;

/// The execution of one rank.
pub(crate) struct Execution<'s> {
    pub tables: Tables<'s>,
    rank: RankState,
    /// The current offset in the file.
    pub offset: u64,
}

impl<'s> Execution<'s> {
    pub fn new(sink: &'s mut dyn Sink) -> Result<Self> {
        let mut tables = Tables::new(sink);
        let rank = RankState::exact(tables.rank(None)?);
        Ok(Self { tables, rank, offset: 0 })
    }

    fn at(&self) -> At {
        At { line: 0, offset: self.offset, next: self.offset }
    }

    /// Begins an operation. The returned moment is the one before it, which the previous state belongs to. Text that is
    /// not an operation is used as the operation's name.
    pub fn begins(&mut self, text: &[u8]) -> Result<Moment> {
        let at = self.at();
        if self.rank.executing(text, at, &mut self.tables)? == Began::Unreadable {
            self.rank.named(text, at, &mut self.tables)?;
        }
        Ok(Moment::before(self.rank.steps().saturating_sub(1)))
    }

    /// Starts a program, at the top level or inside the current operation.
    pub fn starts(&mut self, program: &[u8]) -> Result<()> {
        let at = self.at();
        self.rank.starting(program, at, &mut self.tables).map(drop)
    }

    /// Ends a program.
    pub fn ends(&mut self, program: &[u8]) -> Result<()> {
        let at = self.at();
        self.rank.finished(program, at, &mut self.tables).map(drop)
    }

    /// Records the usage of a pool at a moment.
    pub fn state(&mut self, pool: &[u8], banks: u32, reading: Reading, at: Moment) -> Result<()> {
        self.rank.exact_state(pool, banks, reading, at, &mut self.tables)
    }

    /// Records an additional reading of a pool, at a moment when the effects of the steps so far are not known.
    pub fn glimpse(&mut self, pool: &[u8], banks: u32, reading: Reading, at: Moment) -> Result<()> {
        self.rank.exact_pool(pool, banks, reading.capacity.unwrap_or(0), &mut self.tables)?;
        self.say(pool, |id| RankEvent::State(id, at, reading))
    }

    /// Emits an event of a pool.
    pub fn say(&mut self, pool: &[u8], event: impl FnOnce(ttmem_model::PoolId) -> RankEvent) -> Result<()> {
        match self.rank.pool_id(pool) {
            Some(id) => self.tables.say(self.rank.id(), event(id)),
            None => Ok(()),
        }
    }

    /// The number of steps so far.
    pub fn steps(&self) -> Step {
        self.rank.steps()
    }

    /// Emits what is known at the end.
    pub fn close(mut self) -> Result<Tables<'s>> {
        let at = self.at();
        self.rank.close(at, &mut self.tables)?;
        Ok(self.tables)
    }
}
