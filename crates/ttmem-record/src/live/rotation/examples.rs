//! Complete iterations of the program, with their modules, stacks and labels, for the next files of a recording.
//!
//! The tracker records only some iterations completely. Those that repeat them may be in later files, so that each file begins
//! with one complete iteration of each order of allocations and frees, as an example of the program's rank.
//! `ttmem_model::rules::iterations` decides for the writer and for the readers what an iteration is.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::rules::iterations::{Iteration, MAX_PATTERNS, Timeline, is_event, is_part, model_calls};
use ttmem_model::{
    Call, CallId, During, Event, HistoryAction, HistoryRow, Label, Nanoseconds, OpId, Outcome, PoolId, Rank,
    RankEvent, RankId, Result, ScopeId, ScopeKind, Scopes, StrId,
};

use super::kept::KeptCall;
use crate::event_file::{EventFile, id};

/// How often iterations are looked for: after this many rows.
const LOOK_EVERY: usize = 1 << 14;
/// The maximum number of rows, calls and labels of iterations that are not complete yet.
const MAX_RECENT: usize = 1 << 17;
/// The last iterations that wait for further rows and labels: those of an iteration may come during the next one.
const UNFINISHED: usize = 2;
/// Examples may take one in this many bytes of a file.
const SHARE: u64 = 8;
/// A row, call or label takes less than this in a file.
const ITEM_SIZE: u64 = 48;

/// A call of the last iterations.
#[derive(Clone, Copy, Debug)]
pub(in crate::live) struct RecentCall {
    pub call: KeptCall,
    /// The number of the enclosing call.
    pub parent: Option<u64>,
    /// The row in the current file, if it began in an earlier one.
    pub row: Option<CallId>,
}

impl RecentCall {
    /// The call without its parent.
    fn alone(&self) -> Call {
        let KeptCall { scope, lane, op, began, outcome, .. } = self.call;
        let outcome = outcome.map(|(outcome, _)| Outcome { ended: outcome.ended, ..Outcome::default() });
        Call { scope, lane, parent: None, op, began, first: 0, outcome }
    }
}

/// A complete iteration.
#[derive(Debug)]
struct Example {
    scope: ScopeId,
    /// The order of the allocations and frees in each pool.
    orders: Vec<(PoolId, u64)>,
    /// Its calls; parents are indexes of this list.
    calls: Vec<Call>,
    rows: Vec<HistoryRow>,
    labels: Vec<Label>,
}

impl Example {
    fn items(&self) -> usize {
        self.calls.len() + self.rows.len() + self.labels.len()
    }
}

/// The complete iterations, and the last iterations of the program.
#[derive(Debug, Default)]
pub(in crate::live) struct Examples {
    /// The maximum number of rows, calls and labels; 0 keeps nothing.
    max_items: usize,
    /// Whether an allocator has a history. Only then some iterations are not complete.
    is_needed: bool,
    /// Pools, threads and scopes, for the rank of the examples.
    pools: Vec<StrId>,
    lanes: Vec<StrId>,
    scopes: Scopes,
    /// By operation: whether it has a stack.
    has_stack: Vec<bool>,
    complete: Vec<Example>,
    /// Whether iterations were dropped since the last file.
    has_dropped: bool,
    /// What happened since the start of the last iterations.
    calls: Vec<RecentCall>,
    rows: Vec<(HistoryRow, Option<u64>)>,
    labels: Vec<Label>,
    /// The number of those rows that have stacks.
    with_stacks: usize,
    /// The model of the iteration of the last row, and the ones that have begun since.
    running: Option<u64>,
    later: VecDeque<(u64, Nanoseconds)>,
    /// The number of rows when iterations were last looked for.
    looked_at: usize,
}

impl Examples {
    /// As many as fit into a part of a file of this size.
    pub fn fitting(file: u64) -> Self {
        let max_items = usize::try_from(file / SHARE / ITEM_SIZE).unwrap_or(usize::MAX);
        Self { max_items, ..Self::default() }
    }

    /// Takes an event that is written unchanged.
    pub fn event(&mut self, event: &Event<'_>) {
        if self.max_items == 0 {
            return;
        }
        match *event {
            Event::OpStack(row) => {
                let op = row.op.index();
                if self.has_stack.len() <= op {
                    self.has_stack.resize(op + 1, false);
                }
                self.has_stack[op] = true;
            }
            Event::Of(_, RankEvent::Scope(scope)) => self.scopes.push(scope),
            Event::Of(_, RankEvent::Lane { name }) => self.lanes.push(name),
            Event::Of(_, RankEvent::AllocatorRules(..)) => self.is_needed = true,
            Event::Of(_, RankEvent::Label(label)) if self.is_needed => {
                self.labels.push(label);
                self.limit();
            }
            _ => {}
        }
    }

    /// Adds the next pool.
    pub fn pool(&mut self, name: StrId) {
        self.pools.push(name);
    }

    /// Adds a call that has begun, with the number of the enclosing one.
    pub fn entered(&mut self, call: KeptCall, parent: Option<u64>) {
        if !self.is_needed || self.max_items == 0 {
            return;
        }
        let kind = |scope: ScopeId| self.scopes.kind.get(scope.index()).copied();
        let outer = self.scopes.parent.get(call.scope.index()).copied().flatten().and_then(kind);
        let is_in_pass = matches!(outer, Some(ScopeKind::Forward | ScopeKind::Backward));
        if kind(call.scope) == Some(ScopeKind::Forward) && !is_in_pass {
            self.later.push_back((call.number, call.began));
        }
        self.calls.push(RecentCall { call, parent, row: None });
        self.limit();
    }

    /// Adds the end of a call.
    pub fn returned(&mut self, ended: &KeptCall) {
        if let Some(at) = self.find(ended.number) {
            self.calls[at].call.outcome = ended.outcome;
        }
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.calls.binary_search_by_key(&number, |call| call.call.number).ok()
    }

    /// The row of a call that began in an earlier file.
    pub fn row_of(&self, number: u64) -> Option<CallId> {
        self.calls[self.find(number)?].row
    }

    /// The calls since the start of the iteration of the last row: further rows may belong to them. None if there are too
    /// many.
    pub fn since_iteration(&mut self) -> &mut [RecentCall] {
        let is_before = |running: u64| self.calls.partition_point(|call| call.call.number < running);
        let first = self.running.map_or(self.calls.len(), is_before);
        let is_short = self.calls.len() - first <= self.max_items;
        let first = if is_short { first } else { self.calls.len() };
        &mut self.calls[first..]
    }

    /// Forgets which calls are in the current file.
    pub fn forget_file(&mut self) {
        self.calls.iter_mut().for_each(|call| call.row = None);
    }

    /// Whether an iteration begins with a row.
    pub fn begins_with(&mut self, row: &HistoryRow, call: Option<u64>) -> bool {
        if !is_event(row.action) || call.is_some() && call == self.running {
            return false;
        }
        let before = self.running;
        while let Some(&(model, _)) =
            self.later.front().filter(|(model, began)| call == Some(*model) || row.time >= *began)
        {
            self.running = Some(model);
            self.later.pop_front();
        }
        self.running != before
    }

    /// Adds a row of a history, and the number of its call.
    pub fn history(&mut self, row: HistoryRow, call: Option<u64>) {
        if self.max_items == 0 {
            return;
        }
        self.is_needed = true;
        if is_event(row.action) {
            self.rows.push((row, call));
            self.with_stacks += usize::from(self.has_stack(row.op));
            if self.rows.len() >= self.looked_at + LOOK_EVERY {
                self.look();
            }
        }
    }

    /// Ends a file. Returns whether the examples have all complete iterations since the start.
    pub fn end_file(&mut self) -> bool {
        self.look();
        let rank = self.recent();
        let has_parts = (0..rank.calls.len()).filter_map(CallId::new).any(|call| is_part(&rank, call));
        self.scopes = rank.scopes;
        let is_waiting = has_parts || self.with_stacks > 0;
        !std::mem::take(&mut self.has_dropped) && !is_waiting && !self.complete.is_empty()
    }

    fn has_stack(&self, op: OpId) -> bool {
        self.has_stack.get(op.index()).copied().unwrap_or(false)
    }

    /// Takes complete iterations out of the last ones, and forgets those that are not complete.
    fn look(&mut self) {
        let until = self.read_until();
        let mut rank = self.recent();
        let mut models = model_calls(&rank);
        models.retain(|model| rank.calls.began[model.index()] <= until);
        if models.len() > UNFINISHED {
            self.take_complete(&mut rank, &models);
        }
        self.scopes = rank.scopes;
        self.limit();
        self.looked_at = self.rows.len();
    }

    /// The time until which the histories of all devices in use are here: they are read one after another.
    fn read_until(&self) -> Nanoseconds {
        let mut last: FxHashMap<PoolId, Nanoseconds> = FxHashMap::default();
        for (row, _) in self.rows.iter().rev().take(LOOK_EVERY) {
            last.entry(row.pool).or_insert(row.time);
        }
        last.into_values().min().unwrap_or(0)
    }

    /// Forgets the last iterations if they are too long, or never end.
    fn limit(&mut self) {
        if self.rows.len().max(self.calls.len()).max(self.labels.len()) > MAX_RECENT {
            (self.rows, self.calls, self.labels, self.with_stacks) = Default::default();
            (self.running, self.later, self.looked_at) = Default::default();
            self.has_dropped = true;
        }
    }

    /// The calls of the last iterations as a rank, with the scopes.
    fn recent(&mut self) -> Rank {
        let mut rank = Rank { scopes: std::mem::take(&mut self.scopes), ..Rank::default() };
        for recent in &self.calls {
            rank.calls
                .push(Call { parent: recent.parent.and_then(|number| self.call(number)), ..recent.alone() });
        }
        rank
    }

    /// The row of a call in `recent`.
    fn call(&self, number: u64) -> Option<CallId> {
        self.find(number).and_then(CallId::new)
    }

    /// Takes the complete iterations, and forgets everything before the last ones.
    fn take_complete(&mut self, rank: &mut Rank, models: &[CallId]) {
        let ended = models.len() - UNFINISHED;
        let next = models[ended];
        if self.with_stacks == 0 {
            let (number, began) = (self.calls[next.index()].call.number, rank.calls.began[next.index()]);
            let is_next =
                |(row, call): &(HistoryRow, Option<u64>)| *call == Some(number) || row.time >= began;
            let before = self.rows.iter().position(is_next).unwrap_or(self.rows.len());
            self.rows.drain(..before);
        } else {
            self.take_examples(rank, models, ended);
        }
        let began = rank.calls.began[next.index()];
        self.calls.drain(..next.index());
        self.labels.retain(|label| label.time >= began);
    }

    /// Takes the complete ones of the first iterations, and forgets the rows of all of these.
    fn take_examples(&mut self, rank: &mut Rank, models: &[CallId], ended: usize) {
        for &(row, call) in &self.rows {
            let during = call.and_then(|number| self.call(number)).map_or(row.during, During::Call);
            rank.history.push(HistoryRow { during, ..row });
        }
        let has_stack = |op: OpId| self.has_stack(op);
        let pools: BTreeSet<PoolId> = self.rows.iter().map(|(row, _)| row.pool).collect();
        let timeline = |pool| Timeline::of(rank, pool, models, &has_stack);
        let timelines: Vec<Timeline> = pools.into_iter().map(timeline).collect();
        // Only the last of equal iterations is kept.
        let mut orders = FxHashSet::default();
        let is_wanted = |index: &usize| {
            let of_pools: Vec<Option<&Iteration>> =
                timelines.iter().map(|timeline| timeline.iterations.get(*index)).collect();
            let order: Vec<Option<u64>> = of_pools.iter().map(|one| one.map(|one| one.order)).collect();
            of_pools.into_iter().flatten().any(|one| one.is_full)
                && orders.insert((rank.calls.scope[models[*index].index()], order))
        };
        let wanted = (0..ended).rev().filter(is_wanted);
        let found: Vec<Example> =
            wanted.filter_map(|index| self.example(rank, &timelines, models, index)).collect();
        self.forget_rows_before(&timelines, ended);
        for example in found.into_iter().rev() {
            self.add(example);
        }
    }

    /// A complete iteration.
    fn example(
        &self,
        rank: &Rank,
        timelines: &[Timeline],
        models: &[CallId],
        index: usize,
    ) -> Option<Example> {
        let of_iteration =
            timelines.iter().filter_map(|timeline| Some((timeline, timeline.iterations.get(index)?)));
        let (first, end) = (models[index].index(), models.get(index + 1)?.index());
        let calls = (first..end).filter_map(|call| rank.calls.get(call)).map(|call| {
            let parent = call.parent.and_then(|parent| CallId::new(parent.index().checked_sub(first)?));
            Call { parent, first: 0, ..call }
        });
        let of_example = |during: During| match during {
            During::Call(call) if call.index() < end => {
                call.index().checked_sub(first).and_then(CallId::new).map_or(During::ByTime, During::Call)
            }
            During::Call(_) => During::ByTime,
            during => during,
        };
        let mut rows: Vec<(usize, HistoryRow)> = Vec::new();
        for (timeline, iteration) in of_iteration.clone() {
            let own =
                self.rows_of(timeline.pool).skip(iteration.events.start).zip(timeline.events_of(iteration));
            rows.extend(
                own.map(|((at, row), event)| (at, HistoryRow { during: of_example(event.during), ..*row })),
            );
        }
        rows.sort_unstable_by_key(|(at, _)| *at);
        Some(Example {
            scope: rank.calls.scope[first],
            orders: of_iteration.map(|(timeline, iteration)| (timeline.pool, iteration.order)).collect(),
            calls: calls.collect(),
            labels: self.labels_of(&rows),
            rows: rows.into_iter().map(|(_, row)| row).collect(),
        })
    }

    /// The labels of the allocations among these rows, at the times of the allocations.
    fn labels_of(&self, rows: &[(usize, HistoryRow)]) -> Vec<Label> {
        let Some(&(first, _)) = rows.first() else { return Vec::new() };
        // When each allocation began, and when its address was used again or freed.
        let mut lives: FxHashMap<(PoolId, u64), Vec<Range<Nanoseconds>>> = FxHashMap::default();
        let mut own = rows.iter().map(|(at, _)| *at).peekable();
        for (at, (row, _)) in self.rows.iter().enumerate().skip(first) {
            let is_own = own.next_if_eq(&at).is_some() && row.action == HistoryAction::Allocated;
            let of_address = lives.get_mut(&(row.pool, row.address));
            if let Some(last) = of_address.and_then(|lives| lives.last_mut()) {
                last.end = last.end.min(row.time);
            }
            if is_own {
                lives.entry((row.pool, row.address)).or_default().push(row.time..Nanoseconds::MAX);
            }
        }
        let labeled = self.labels.iter().filter_map(|label| {
            let lives = lives.get(&(label.pool, label.address))?;
            let after = lives.partition_point(|life| life.start <= label.time);
            let life = lives.get(after.checked_sub(1)?).filter(|life| life.contains(&label.time))?;
            Some(Label { time: life.start, ..*label })
        });
        labeled.collect()
    }

    /// Forgets the rows before an iteration.
    fn forget_rows_before(&mut self, timelines: &[Timeline], iteration: usize) {
        let mut is_kept = vec![true; self.rows.len()];
        for timeline in timelines {
            let start =
                timeline.iterations.get(iteration).map_or(timeline.events.len(), |one| one.events.start);
            self.rows_of(timeline.pool).take(start).for_each(|(at, _)| is_kept[at] = false);
        }
        let mut is_kept = is_kept.into_iter();
        self.rows.retain(|_| is_kept.next().unwrap_or(true));
        self.with_stacks = self.rows.iter().filter(|(row, _)| self.has_stack(row.op)).count();
    }

    /// The rows of a pool, with their indexes.
    fn rows_of(&self, pool: PoolId) -> impl Iterator<Item = (usize, &HistoryRow)> {
        let rows = self.rows.iter().enumerate().map(|(at, (row, _))| (at, row));
        rows.filter(move |(_, row)| row.pool == pool)
    }

    /// Adds a complete iteration. It replaces an earlier one with the same order.
    fn add(&mut self, example: Example) {
        self.complete.retain(|have| have.scope != example.scope || have.orders != example.orders);
        let of_model = |have: &&Example| have.scope == example.scope;
        if self.complete.iter().filter(of_model).count() >= MAX_PATTERNS
            && let Some(oldest) = self.complete.iter().position(|have| have.scope == example.scope)
        {
            self.complete.remove(oldest);
        }
        self.complete.push(example);
        let mut items: usize = self.complete.iter().map(Example::items).sum();
        while items > self.max_items {
            items -= self.complete.remove(0).items();
            self.has_dropped = true;
        }
    }

    /// Writes the complete iterations.
    pub fn write(&self, file: &mut EventFile) -> Result<()> {
        if self.complete.is_empty() {
            return Ok(());
        }
        let (program, example) = (id(RankId::new, 0)?, id(RankId::new, 1)?);
        file.write(Event::Example(program))?;
        let mut say = |event| file.write(Event::Of(example, event));
        let mut pools = self.pools.iter();
        pools.try_for_each(|&name| say(RankEvent::Pool { name, banks: Some(1), quantum: 0 }))?;
        self.lanes.iter().try_for_each(|&name| say(RankEvent::Lane { name }))?;
        self.scopes.iter().try_for_each(|scope| say(RankEvent::Scope(scope)))?;
        let mut before = 0;
        for example in &self.complete {
            let call_id = |call: CallId| id(CallId::new, before + call.index());
            for (index, call) in example.calls.iter().enumerate() {
                let parent = call.parent.map(call_id).transpose()?;
                say(RankEvent::Call(Call { parent, outcome: None, ..*call }))?;
                if let Some(outcome) = call.outcome {
                    say(RankEvent::Returned(id(CallId::new, before + index)?, outcome))?;
                }
            }
            for row in &example.rows {
                let during = match row.during {
                    During::Call(call) => During::Call(call_id(call)?),
                    during => during,
                };
                say(RankEvent::History(HistoryRow { during, ..*row }))?;
            }
            example.labels.iter().try_for_each(|label| say(RankEvent::Label(*label)))?;
            before += example.calls.len();
        }
        Ok(())
    }
}
