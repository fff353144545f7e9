//! The result of placing a history: steps, tensors and levels, and the new positions of the steps that were recorded
//! live.

use ttmem_model::{
    CallId, FromStep, Moment, Nanoseconds, Pool, Position, Rank, Reading, Step, StepNumber, StepRow, Steps,
    Tensor, TensorId,
};

use super::device::Made;
use super::notes::Notes;

/// The result of placing a history.
pub(super) struct Placed {
    pub steps: Steps,
    pub step_times: Vec<Nanoseconds>,
    pub times: FromStep<Nanoseconds>,
    pub within: FromStep<Option<CallId>>,
    /// The new number of each step that was recorded live.
    pub now: Vec<Step>,
    pub made: Vec<Tensor>,
    pub requires_grad: Vec<(usize, bool)>,
    /// The levels of each pool.
    pub states: Vec<Vec<(Moment, Reading)>>,
    pub notes: Notes,
}

impl Placed {
    pub fn end(&self) -> Position {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX).min(Moment::MAX_STEPS)
    }

    pub fn step(&mut self, row: StepRow, time: Nanoseconds, within: Option<CallId>) {
        let step = self.end();
        if step >= Moment::MAX_STEPS - 1 {
            return;
        }
        self.steps.push(row);
        self.step_times.push(time);
        self.times.set(step, time);
        self.within.set(step, within);
    }

    /// Marks these tensors as freed at the current position.
    pub fn all_gone(&mut self, gone: impl IntoIterator<Item = Made>) {
        let at = Moment::early(self.end());
        gone.into_iter().for_each(|gone| self.made[gone].dies = at);
    }

    /// Sets the levels of a pool at the current position.
    pub fn state(&mut self, pool: usize, reading: Reading) {
        let at = Moment::early(self.end());
        self.states[pool].push((at, reading));
    }

    /// Converts an earlier moment to the new steps.
    fn moment(&self, at: Moment) -> Moment {
        if at == Moment::NEVER {
            return at;
        }
        let is_late = at == Moment::late(at.position());
        let position = self.position_after(at.position());
        if is_late { Moment::late(position) } else { Moment::early(position) }
    }

    /// The position after the given number of steps that were recorded live.
    fn position_after(&self, steps: Position) -> Position {
        let last = (steps as usize).checked_sub(1).and_then(|last| self.now.get(last));
        last.map_or(0, |last| last + 1)
    }

    /// The position at a time, for an event that came after the given number of steps that were recorded live.
    fn position_at(&self, steps: Position, time: Nanoseconds, is_end: bool) -> Position {
        let (from, until) = (self.position_after(steps), self.now.get(steps as usize).copied());
        let (from, until) = (from as usize, until.map_or(self.steps.len(), |until| until as usize));
        let between = self.step_times.get(from..until).unwrap_or_default();
        let inside = between.partition_point(|&step| if is_end { step <= time } else { step < time });
        u32::try_from(from + inside).unwrap_or(u32::MAX)
    }

    /// Writes the result to the rank.
    pub fn give(&self, rank: &mut Rank) {
        for fault in &mut rank.faults {
            fault.step = fault.step.and_then(|step| self.position_after(step + 1).checked_sub(1));
        }
        let seen_live = rank.tensors.len();
        for tensor in 0..seen_live {
            let (born, dies) = (rank.tensors.born[tensor], rank.tensors.dies[tensor]);
            (rank.tensors.born[tensor], rank.tensors.dies[tensor]) = (self.moment(born), self.moment(dies));
            let step = rank.tensors.step[tensor].and_then(|step| self.now.get(step.get() as usize));
            rank.tensors.step[tensor] = step.copied().and_then(StepNumber::new);
        }
        self.made.iter().for_each(|&tensor| rank.tensors.push(tensor));
        for &(made, does) in &self.requires_grad {
            rank.requires_grad.extend(TensorId::new(seen_live + made).map(|tensor| (tensor, does)));
        }
        for index in 0..rank.calls.len() {
            let (began, first) = (rank.calls.began[index], rank.calls.first[index]);
            rank.calls.first[index] = self.position_at(first, began, false);
            if let Some(outcome) = &mut rank.calls.outcome[index] {
                outcome.end = self.position_at(outcome.end, outcome.ended, true);
            }
        }
        for snapshot in &mut rank.snapshots {
            snapshot.at = Moment::early(self.position_at(snapshot.at.position(), snapshot.time, true));
        }
        for (pool, states) in rank.pools.iter_mut().zip(&self.states) {
            *pool = self.pool(pool, states);
        }
        rank.steps = self.steps.clone();
        (rank.times, rank.within) = (self.times.clone(), self.within.clone());
        (rank.history, rank.labels) = Default::default();
    }

    /// Combines the earlier states of a pool with those from its history.
    fn pool(&self, was: &Pool, states: &[(Moment, Reading)]) -> Pool {
        let mut all = states.to_vec();
        let said = was.replay(&mut |at, reading| {
            all.push((self.moment(at), reading.unwrap_or_default()));
            Ok(())
        });
        debug_assert!(said.is_ok(), "merging states cannot fail");
        all.sort_by_key(|(at, _)| *at);
        let mut pool = Pool::new(was.name, was.banks, was.quantum);
        (pool.totals, pool.maps) = (was.totals, was.maps.clone());
        for (at, reading) in all {
            pool.observe(at, &reading);
        }
        pool
    }
}
