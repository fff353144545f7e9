//! The pool usage before each operation.

use ttmem_model::words::counted_as;
use ttmem_model::{Error, Moment, PoolId, RankEvent, RankId, Reading, Result};

use super::notes::Notes;
use super::rows::{PoolConfig, PoolState};
use super::values::Mib;
use crate::json::field::{ByName, Object};
use crate::tt_log::tables::Tables;
use crate::tt_log::view::QUANTUM;

/// The maximum number of pools.
const MAX_POOLS: usize = 64;

/// The pools of a rank.
#[derive(Debug, Default)]
pub(super) struct Pools {
    /// The pools listed before the rows that were not emitted yet.
    listed: Vec<Listed>,
    known: Vec<Known>,
    /// Whether any state of the pools was read.
    pub observed: bool,
    /// The number of states of pools beyond the limit.
    beyond: u64,
}

#[derive(Debug)]
struct Listed {
    name: String,
    banks: Option<u32>,
    total: Option<Mib>,
}

#[derive(Debug)]
struct Known {
    id: PoolId,
    name: String,
    banks: Option<u32>,
    total: Option<Mib>,
}

/// The numbers of a state.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    banks: Option<u32>,
    total: Option<Mib>,
    allocated: Option<Mib>,
    free: Option<Mib>,
    largest_free: Option<Mib>,
}

impl State {
    fn new(state: &PoolState, notes: &mut Notes) -> Self {
        Self {
            banks: notes.known(state.banks, "numBanks"),
            total: notes.known(state.total, "totalBytesPerBank_MB"),
            allocated: notes.known(state.allocated, "totalBytesAllocatedPerBank_MB"),
            free: notes.known(state.free, "totalBytesFreePerBank_MB"),
            largest_free: notes.known(state.largest_free, "largestContiguousBytesFreePerBank_MB"),
        }
    }

    fn sizes(&self) -> [Option<Mib>; 4] {
        [self.total, self.allocated, self.free, self.largest_free]
    }
}

impl Pools {
    /// Adds the pools listed before the rows.
    pub fn list(&mut self, config: ByName<PoolConfig>, notes: &mut Notes) {
        for (name, config) in config.0 {
            let Some(Object(config)) = notes.known(config, "memory_config") else { continue };
            self.listed.push(Listed {
                name,
                // tt-memory-profiler 0.x writes 0 if the number is unknown.
                banks: notes.known(config.num_banks, "num_banks").filter(|banks| *banks > 0),
                total: notes.known(config.total, "total_bytes_per_bank_MB"),
            });
        }
    }

    /// Records the states before a step.
    pub fn observe(
        &mut self,
        rank: RankId,
        at: Moment,
        states: ByName<PoolState>,
        notes: &mut Notes,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let mut found: Vec<(String, State)> = Vec::with_capacity(states.0.len());
        for (name, state) in states.0 {
            match notes.known(state, "memory") {
                Some(Object(state)) => found.push((name, State::new(&state, notes))),
                None => found.push((name, State::default())),
            }
        }
        self.say_listed(rank, &found, tables)?;
        for (name, state) in found {
            self.state(rank, at, name, state, tables)?;
        }
        Ok(())
    }

    /// Emits the pools listed before the rows, in that order. Their first states show how they are rounded.
    fn say_listed(&mut self, rank: RankId, first: &[(String, State)], tables: &mut Tables<'_>) -> Result<()> {
        for Listed { name, banks, total } in std::mem::take(&mut self.listed) {
            if self.known.len() >= MAX_POOLS || self.known.iter().any(|known| known.name == name) {
                continue;
            }
            let state = first.iter().find(|(other, _)| *other == name);
            let mut state = state.map_or_else(State::default, |(_, state)| *state);
            state.banks = state.banks.or(banks);
            state.total = state.total.or(total);
            self.add(rank, name, state, tables)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        rank: RankId,
        name: String,
        state: State,
        tables: &mut Tables<'_>,
    ) -> Result<Option<usize>> {
        if self.known.len() >= MAX_POOLS {
            return Ok(None);
        }
        let index = self.known.len();
        let id = PoolId::new(index).ok_or_else(|| Error::NotFound("too many pools".into()))?;
        let is_rounded = state.sizes().into_iter().flatten().all(Mib::is_rounded);
        let quantum = if is_rounded { QUANTUM } else { 0 };
        let text = tables.text(name.as_bytes())?;
        tables.say(rank, RankEvent::Pool { name: text, banks: state.banks, quantum })?;
        self.known.push(Known { id, name, banks: state.banks, total: state.total });
        Ok(Some(index))
    }

    fn state(
        &mut self,
        rank: RankId,
        at: Moment,
        name: String,
        state: State,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let known = self.known.iter().position(|known| known.name == name);
        let Some(index) =
            known.map_or_else(|| self.add(rank, name, state, tables), |index| Ok(Some(index)))?
        else {
            self.beyond += 1;
            return Ok(());
        };
        let pool = &mut self.known[index];
        if let (None, Some(banks)) = (pool.banks, state.banks) {
            pool.banks = Some(banks);
            tables.say(rank, RankEvent::Banks(pool.id, banks))?;
        }
        // A pool without a reading is null in the file.
        if state.sizes().iter().all(Option::is_none) {
            return Ok(());
        }
        let bytes = |mib: Option<Mib>| mib.map(Mib::bytes);
        let reading = Reading {
            allocated: bytes(state.allocated),
            free: bytes(state.free),
            largest_free: bytes(state.largest_free),
            capacity: bytes(state.total.or(pool.total)),
            ..Reading::default()
        };
        self.observed = true;
        tables.say(rank, RankEvent::State(pool.id, at, reading))
    }

    /// Emits the pools that no row has, and warns about skipped states.
    pub fn finish(&mut self, rank: RankId, notes: &mut Notes, tables: &mut Tables<'_>) -> Result<()> {
        self.say_listed(rank, &[], tables)?;
        if self.beyond > 0 {
            let states = counted_as(self.beyond, "state of the others was", "states of the others were");
            notes.warn(format!("the file has more than {MAX_POOLS} pools; {states} skipped"));
        }
        Ok(())
    }
}
