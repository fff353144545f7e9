//! The result of placing a history: steps, tensors and levels, and the new positions of the steps that were recorded
//! live.

use std::sync::Arc;

use ttmem_model::{
    CallId, Curve, CurveKind, FromStep, Holder, Moment, Nanoseconds, OpId, Pool, Position, Rank, Reading,
    Restored, Step, StepNumber, StepRow, Steps, Tensor, TensorId, Tensors,
};

use super::device::{Levels, Made};
use super::known::Known;
use super::notes::Notes;

/// The result of placing a history.
#[derive(Debug)]
pub(super) struct Placed {
    pub steps: Steps,
    pub times: FromStep<Nanoseconds>,
    pub within: FromStep<Option<CallId>>,
    /// The new number of each step that was recorded live.
    pub now: Vec<Step>,
    pub made: Tensors,
    pub requires_grad: Vec<(usize, bool)>,
    pub holders: Vec<(usize, Holder)>,
    /// The operations of tensors that existed before the history.
    pub restored: Vec<(usize, OpId)>,
    /// The curves of each pool.
    curves: Vec<Curves>,
    pub notes: Notes,
}

/// The curves of a pool.
#[derive(Debug)]
enum Curves {
    /// All of them, because nothing was observed live.
    Whole(Box<Whole>),
    /// Those of the history, to be combined with those observed live.
    Part(Vec<(Moment, Reading)>),
}

/// A pool with the curves of its levels, which become part of it at the end.
#[derive(Debug)]
struct Whole {
    pool: Pool,
    allocated: Curve,
    /// `None` as long as it is equal to that of the allocated bytes: a free seldom waits for a stream.
    active: Option<Curve>,
    reserved: Curve,
    requested: Curve,
}

impl Curves {
    fn new(pool: &Pool) -> Self {
        if !pool.observed.is_empty() {
            return Self::Part(Vec::new());
        }
        let [allocated, reserved, requested] = Default::default();
        let mut pool = pool.clone();
        pool.is_sum_of_tensors = true;
        Self::Whole(Box::new(Whole { pool, allocated, active: None, reserved, requested }))
    }
}

impl Whole {
    fn push(&mut self, at: Moment, levels: Levels) {
        if !self.pool.look(at) {
            return;
        }
        if levels.active != levels.allocated && self.active.is_none() {
            self.active = Some(self.allocated.clone());
        }
        if let Some(active) = &mut self.active {
            active.push(at, levels.active);
        }
        self.allocated.push(at, levels.allocated);
        self.reserved.push(at, levels.reserved);
        self.requested.push(at, levels.requested);
    }

    fn read(&mut self, at: Moment, reading: &Reading) {
        if let Some(allocated) = reading.allocated
            && self.pool.look(at)
        {
            self.pool.is_sum_of_tensors = false;
            self.active.get_or_insert_with(|| self.allocated.clone());
            self.allocated.push(at, allocated);
        }
        self.pool.observe(at, &Reading { allocated: None, ..*reading });
    }

    fn reserve(&mut self, steps: usize) {
        self.allocated.reserve(steps);
        self.requested.reserve(steps);
    }

    fn finish(self) -> Pool {
        let Self { mut pool, allocated, active, reserved, requested } = self;
        if allocated.at.is_empty() {
            return pool;
        }
        let allocated = Arc::new(allocated);
        pool.set_curve(CurveKind::Active, active.map_or_else(|| Arc::clone(&allocated), Arc::new));
        pool.set_curve(CurveKind::Allocated, allocated);
        pool.set_curve(CurveKind::Reserved, reserved.into());
        pool.set_curve(CurveKind::Requested, requested.into());
        pool
    }
}

impl Placed {
    pub fn new(rank: &Rank) -> Self {
        Self {
            steps: Steps::default(),
            times: FromStep::default(),
            within: FromStep::default(),
            now: Vec::with_capacity(rank.steps.len()),
            made: Tensors::default(),
            requires_grad: Vec::new(),
            holders: Vec::new(),
            restored: Vec::new(),
            curves: rank.pools.iter().map(Curves::new).collect(),
            notes: Notes::default(),
        }
    }

    /// Reserves memory for a number of steps and tensors.
    pub fn reserve(&mut self, steps: usize, tensors: usize) {
        self.steps.reserve(steps);
        self.times.reserve(steps);
        self.made.reserve(tensors);
        if let [Curves::Whole(only)] = self.curves.as_mut_slice() {
            only.reserve(steps);
        }
    }

    pub fn end(&self) -> Position {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX).min(Moment::MAX_STEPS)
    }

    pub fn step(&mut self, row: StepRow, time: Nanoseconds, within: Option<CallId>) {
        let step = self.end();
        if step >= Moment::MAX_STEPS - 1 {
            return;
        }
        self.steps.push(row);
        self.times.set(step, time);
        self.within.set(step, within);
    }

    /// Marks these tensors as freed at the current position.
    pub fn all_gone(&mut self, gone: impl IntoIterator<Item = Made>) {
        let at = Moment::early(self.end());
        gone.into_iter().for_each(|gone| self.made.dies[gone] = at);
    }

    /// What labels say about a tensor so far.
    pub fn known(&self, made: Made) -> Option<Known> {
        let Tensor { ty, class, name, .. } = self.made.get(made)?;
        Some(Known { ty, class, name })
    }

    /// Sets what labels say about a tensor.
    pub fn relabel(&mut self, made: Made, known: Known) {
        let Known { ty, class, name } = known;
        (self.made.ty[made], self.made.class[made], self.made.name[made]) = (ty, class, name);
    }

    /// Sets the levels of a pool at the current position.
    pub fn levels(&mut self, pool: usize, levels: Levels) {
        let at = Moment::early(self.end());
        match &mut self.curves[pool] {
            Curves::Whole(whole) => whole.push(at, levels),
            Curves::Part(states) => states.push((at, levels.reading())),
        }
    }

    /// Records that a part of a pool's history is missing.
    pub fn gap(&mut self, pool: usize) {
        if let Curves::Whole(whole) = &mut self.curves[pool] {
            whole.pool.is_sum_of_tensors = false;
        }
    }

    /// Sets other values of a pool at the current position.
    pub fn reading(&mut self, pool: usize, reading: Reading) {
        let at = Moment::early(self.end());
        match &mut self.curves[pool] {
            Curves::Whole(whole) => whole.read(at, &reading),
            Curves::Part(states) => states.push((at, reading)),
        }
    }

    /// Gives the first pool the properties of another one.
    pub fn adopt(&mut self, like: &Pool) {
        if let Some(Curves::Whole(whole)) = self.curves.first_mut() {
            let Pool { name, banks, quantum, layout, rules, totals, sampled, .. } = like.clone();
            let pool = &mut whole.pool;
            (pool.name, pool.banks, pool.quantum) = (name, banks, quantum);
            (pool.layout, pool.rules, pool.totals, pool.sampled) = (layout, rules, totals, sampled);
        }
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
        let from = self.position_after(steps);
        let until = self.now.get(steps as usize).copied().unwrap_or_else(|| self.end());
        let is_before = |step: &Nanoseconds| if is_end { *step <= time } else { *step < time };
        let entry = self.times.value.partition_point(is_before);
        let at = self.times.step.get(entry).copied().unwrap_or_else(|| self.end());
        at.clamp(from, until.max(from))
    }

    /// Writes the result to the rank.
    pub fn give(mut self, rank: &mut Rank) -> Notes {
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
        let made = std::mem::take(&mut self.made);
        if seen_live == 0 {
            rank.tensors = made;
        } else {
            made.iter().for_each(|tensor| rank.tensors.push(tensor));
        }
        for &(made, does) in &self.requires_grad {
            rank.requires_grad.extend(TensorId::new(seen_live + made).map(|tensor| (tensor, does)));
        }
        for &(made, holder) in &self.holders {
            rank.holders.extend(TensorId::new(seen_live + made).map(|tensor| (tensor, holder)));
        }
        for &(made, op) in &self.restored {
            let restored = Restored { op: Some(op), scope: None };
            rank.restored.extend(TensorId::new(seen_live + made).map(|tensor| (tensor, restored)));
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
        for (pool, curves) in rank.pools.iter_mut().zip(std::mem::take(&mut self.curves)) {
            *pool = match curves {
                Curves::Whole(whole) => whole.finish(),
                Curves::Part(states) => self.combined(pool, states),
            };
        }
        (rank.steps, rank.times, rank.within) = (self.steps, self.times, self.within);
        self.notes
    }

    /// Combines the states of a pool that were observed live with those from its history.
    fn combined(&self, was: &Pool, states: Vec<(Moment, Reading)>) -> Pool {
        let mut all = states;
        let said = was.replay(&mut |at, reading| {
            all.push((self.moment(at), reading.unwrap_or_default()));
            Ok(())
        });
        debug_assert!(said.is_ok(), "merging states cannot fail");
        all.sort_by_key(|(at, _)| *at);
        let mut pool = Pool::new(was.name, was.banks, was.quantum);
        (pool.totals, pool.maps, pool.rules) = (was.totals, was.maps.clone(), was.rules);
        for (at, reading) in all {
            pool.observe(at, &reading);
        }
        pool
    }
}
