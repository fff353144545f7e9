//! Complete iterations of the program, with their modules, stacks and labels, for the next files of a recording.
//!
//! The tracker records only some iterations completely. Those that repeat them may be in later files, so that each file begins
//! with one complete iteration of each order of allocations and frees: as a separate rank, which is an example of the
//! program's rank. `ttmem_model::rules::iterations` decides for the writer and for the readers what an iteration is.

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::FxHashMap;
use ttmem_model::rules::iterations::{MAX_PATTERNS, Timeline, is_event, is_part, model_calls};
use ttmem_model::{
    Call, CallId, During, Event, HistoryAction, HistoryRow, Label, Nanoseconds, OpId, Outcome, PoolId, Rank,
    RankEvent, RankId, Result, ScopeId, ScopeKind, Scopes,
};

use super::kept::KeptCall;
use crate::event_file::{EventFile, id};

/// How often iterations are looked for: after this many rows.
const LOOK_EVERY: usize = 1 << 14;
/// The maximum number of rows, calls and labels of iterations that are not complete yet.
const MAX_RECENT: usize = 1 << 18;
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
    /// Pools, scopes and threads, in order, for the rank of the examples.
    names: Vec<RankEvent>,
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
            Event::Of(_, event @ RankEvent::Scope(scope)) => {
                self.scopes.push(scope);
                self.names.push(event);
            }
            Event::Of(_, event @ RankEvent::Lane { .. }) => self.names.push(event),
            Event::Of(_, RankEvent::AllocatorRules(..)) => self.is_needed = true,
            Event::Of(_, RankEvent::Label(label)) if self.is_needed => self.labels.push(label),
            _ => {}
        }
    }

    /// Adds the next pool.
    pub fn pool(&mut self, pool: RankEvent) {
        self.names.push(pool);
    }

    /// Adds a call that has begun, with the number of the enclosing one.
    pub fn entered(&mut self, call: KeptCall, parent: Option<u64>) {
        if !self.is_needed || self.max_items == 0 {
            return;
        }
        let kind = |scope: ScopeId| self.scopes.kind.get(scope.index()).copied();
        let outer = parent.and_then(|parent| kind(self.calls.get(self.find(parent)?)?.call.scope));
        let is_in_pass = matches!(outer, Some(ScopeKind::Forward | ScopeKind::Backward));
        if kind(call.scope) == Some(ScopeKind::Forward) && !is_in_pass {
            self.later.push_back((call.number, call.began));
        }
        self.calls.push(RecentCall { call, parent, row: None });
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

    /// The calls since the start of the iteration of the last row.
    pub fn since_iteration(&mut self) -> &mut [RecentCall] {
        let first =
            self.running.map_or(0, |running| self.calls.partition_point(|call| call.call.number < running));
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
        !std::mem::take(&mut self.has_dropped) && !has_parts && !self.complete.is_empty()
    }

    fn has_stack(&self, op: OpId) -> bool {
        self.has_stack.get(op.index()).copied().unwrap_or(false)
    }

    /// Takes complete iterations out of the last ones, and forgets those that are not complete.
    fn look(&mut self) {
        let until = self.rows.last().map_or(0, |(row, _)| row.time);
        let rank = self.recent();
        let mut models = model_calls(&rank);
        models.retain(|model| rank.calls.began[model.index()] <= until);
        if models.len() > UNFINISHED {
            self.take_complete(&rank, &models);
        }
        self.scopes = rank.scopes;
        if self.rows.len().max(self.calls.len()).max(self.labels.len()) > MAX_RECENT {
            (self.rows, self.calls, self.labels, self.with_stacks) = Default::default();
            (self.running, self.later) = Default::default();
            self.has_dropped = true;
        }
        self.looked_at = self.rows.len();
    }

    /// The last iterations as a rank, with the scopes; without a history if no row has a stack.
    fn recent(&mut self) -> Rank {
        let mut rank = Rank { scopes: std::mem::take(&mut self.scopes), ..Rank::default() };
        let of = |number: u64| self.find(number).and_then(CallId::new);
        for recent in &self.calls {
            rank.calls.push(Call { parent: recent.parent.and_then(of), ..recent.alone() });
        }
        let rows = if self.with_stacks > 0 { self.rows.as_slice() } else { &[] };
        for &(row, call) in rows {
            let during = call.and_then(of).map_or(row.during, During::Call);
            rank.history.push(HistoryRow { during, ..row });
        }
        rank
    }

    /// Takes the complete iterations, and forgets everything before the last ones.
    fn take_complete(&mut self, rank: &Rank, models: &[CallId]) {
        let ended = models.len() - UNFINISHED;
        let next = models[ended];
        if self.with_stacks == 0 {
            let (number, began) = (self.calls[next.index()].call.number, rank.calls.began[next.index()]);
            let is_next =
                |(row, call): &(HistoryRow, Option<u64>)| *call == Some(number) || row.time >= began;
            let before = self.rows.iter().position(is_next).unwrap_or(self.rows.len());
            self.rows.drain(..before);
        } else {
            let has_stack = |op: OpId| self.has_stack(op);
            let pools: BTreeSet<PoolId> = self.rows.iter().map(|(row, _)| row.pool).collect();
            let pools = pools.into_iter();
            let timelines: Vec<Timeline> =
                pools.map(|pool| Timeline::of(rank, pool, models, &has_stack)).collect();
            let found: Vec<Example> =
                (0..ended).filter_map(|index| self.example(rank, &timelines, models, index)).collect();
            self.forget_rows_before(&timelines, ended);
            for example in found {
                self.add(example);
            }
        }
        let began = rank.calls.began[next.index()];
        self.calls.drain(..next.index());
        self.labels.retain(|label| label.time >= began);
    }

    /// An iteration, if it is complete in a pool.
    fn example(
        &self,
        rank: &Rank,
        timelines: &[Timeline],
        models: &[CallId],
        index: usize,
    ) -> Option<Example> {
        let of_iteration =
            timelines.iter().filter_map(|timeline| Some((timeline, timeline.iterations.get(index)?)));
        if !of_iteration.clone().any(|(_, iteration)| iteration.is_full) {
            return None;
        }
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
        // When each allocation began, and when its address was used again or freed.
        let mut lives: FxHashMap<(PoolId, u64), Vec<(Nanoseconds, Nanoseconds)>> = FxHashMap::default();
        let is_made = |row: &HistoryRow| row.action == HistoryAction::Allocated;
        for (_, row) in rows.iter().filter(|(_, row)| is_made(row)) {
            lives.entry((row.pool, row.address)).or_default().push((row.time, Nanoseconds::MAX));
        }
        let Some(&(first, _)) = rows.first() else { return Vec::new() };
        for (row, _) in &self.rows[first..] {
            let Some(lives) = lives.get_mut(&(row.pool, row.address)) else { continue };
            for life in lives.iter_mut().filter(|life| life.0 < row.time && row.time < life.1) {
                life.1 = row.time;
            }
        }
        let labeled = self.labels.iter().filter_map(|label| {
            let lives = lives.get(&(label.pool, label.address))?;
            let life = lives.iter().find(|life| (life.0..life.1).contains(&label.time))?;
            Some(Label { time: life.0, ..*label })
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
        if self.complete.iter().map(Example::items).sum::<usize>() > self.max_items {
            self.complete.clear();
            self.has_dropped = true;
        }
    }

    /// Writes the complete iterations as the second rank of a file.
    pub fn write(&self, file: &mut EventFile) -> Result<()> {
        if self.complete.is_empty() {
            return Ok(());
        }
        let (program, rank) = (id(RankId::new, 0)?, id(RankId::new, 1)?);
        file.write(Event::Rank { label: None })?;
        let mut say = |event| file.write(Event::Of(rank, event));
        say(RankEvent::ExampleOf(program))?;
        self.names.iter().try_for_each(|name| say(*name))?;
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
