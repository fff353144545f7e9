//! Assigns the rows of a history to the steps of a profile by their times. The resulting tensors, levels, calls and
//! snapshots look as if they had been recorded live.

use rustc_hash::FxHashMap;
use ttmem_model::rules::outcomes::outcomes;
use ttmem_model::{
    Bytes, CallEnd, CallId, Class, During, History, HistoryAction, HistoryRow, Holder, Label, Labels, Moment,
    Nanoseconds, OpId, OpKind, PoolId, Profile, Rank, RankId, Reading, ScopeKind, Step, StepMarks,
    StepNumber, StepRow, Tensor, TypeId,
};

use super::ahead::replay_ahead;
use super::device::{Change, Device, Effect, Levels, Made};
use super::known::{Known, allocations, strength};
use super::late_calls::order_calls;
use super::learned::{Learned, Like, complete};
use super::notes::{Notes, OutOfMemory};
use super::open_calls::OpenCalls;
use super::placed::Placed;

/// From this number of rows on, allocators are replayed in a second thread.
const MANY_ROWS: usize = 50_000;
/// The maximum difference between clocks.
const NEAR: Nanoseconds = 1_000_000;

/// Places the histories of all ranks. A profile without a history is not changed.
pub fn place(profile: &mut Profile) {
    let mut examples = std::mem::take(&mut profile.examples);
    for index in 0..profile.ranks.len() {
        let rank = &mut profile.ranks[index];
        if rank.history.is_empty() && rank.labels.is_empty() {
            continue;
        }
        let mut rank = std::mem::take(rank);
        order_calls(&mut rank);
        let mut example = RankId::new(index)
            .and_then(|rank| examples.remove(&rank))
            .filter(|example| has_names_of(&rank, example));
        example.iter_mut().for_each(order_calls);
        let learned = complete(&mut rank, example.as_ref(), |op| profile.stacks.of_op(op).is_some());
        let examples = example.as_ref().map_or_else(Vec::new, allocations);
        let survey = Survey::of(&rank, profile.ops.len());
        for op in (0..profile.ops.len()).filter(|op| survey.only_frees(*op)).filter_map(OpId::new) {
            profile.ops.set_kind(op, OpKind::Deallocate);
        }
        let (rank, notes) = place_rank(rank, &survey, &learned, &examples);
        profile.ranks[index] = rank;
        notes.report(profile, index);
    }
}

/// Whether a rank has the scopes and threads of its examples, under the same ids.
fn has_names_of(rank: &Rank, example: &Rank) -> bool {
    example.scopes.iter().eq(rank.scopes.iter().take(example.scopes.len()))
        && rank.lanes.starts_with(&example.lanes)
}

/// What a first look at the rows of a history tells.
struct Survey {
    /// For each operation, what it does.
    does: Vec<Does>,
    /// Whether the rows are ordered by time, belong to no known call, and are not counters.
    is_in_order: bool,
    /// Whether a part of the history is missing.
    has_gaps: bool,
    rows: usize,
    steps: usize,
    blocks: usize,
}

/// What an operation does.
#[derive(Clone, Copy, Default)]
struct Does {
    free: bool,
    other: bool,
}

impl Survey {
    fn of(rank: &Rank, ops: usize) -> Self {
        let mut does = vec![Does::default(); ops];
        for op in &rank.steps.op {
            does[op.index()].other = true;
        }
        let (mut last, mut is_in_order, mut has_gaps) = (0, true, false);
        let (mut rows, mut steps, mut blocks) = (0, 0, 0);
        rank.history.iter().for_each(|row| {
            let does = &mut does[row.op.index()];
            match row.action {
                HistoryAction::FreeRequested | HistoryAction::Freed => does.free = true,
                HistoryAction::There | HistoryAction::Allocated => {
                    does.other = true;
                    blocks += 1;
                }
                HistoryAction::OutOfMemory => does.other = true,
                HistoryAction::Highest => is_in_order = false,
                HistoryAction::Forgotten => has_gaps = true,
                _ => {}
            }
            rows += 1;
            steps += usize::from(is_step(row.action));
            is_in_order &= row.time >= last && !matches!(row.during, During::Call(_));
            last = row.time;
        });
        Self { does, is_in_order, has_gaps, rows, steps, blocks }
    }

    /// Whether an operation only frees memory.
    fn only_frees(&self, op: usize) -> bool {
        self.does[op].free && !self.does[op].other
    }
}

/// An item on the timeline.
#[derive(Clone, Copy, Debug)]
enum Item {
    /// A step that was recorded live.
    Step(Step),
    /// A row of the history.
    Row(HistoryRow),
    /// A label recorded for an address.
    Label(Label),
    /// What keeps the block at an address alive.
    HeldBy(PoolId, u64, Holder),
}

/// Places a rank. `examples` are further allocations of each pool that some of its iterations repeat.
fn place_rank(mut rank: Rank, survey: &Survey, learned: &Learned, examples: &[Vec<Known>]) -> (Rank, Notes) {
    let history = std::mem::take(&mut rank.history);
    let labels = std::mem::take(&mut rank.labels);
    let holders = std::mem::take(&mut rank.address_holders);
    let mut placing = Placing::new(&rank, !labels.is_empty() || !examples.is_empty(), learned);
    placing.examples = examples;
    placing.placed.reserve(rank.steps.len() + survey.steps, survey.blocks);
    let is_history_only = rank.steps.is_empty() && labels.is_empty() && holders.is_empty();
    if is_history_only && survey.is_in_order {
        // Rows are released as they are placed.
        if survey.rows >= MANY_ROWS && !survey.has_gaps {
            let devices = std::mem::take(&mut placing.devices);
            placing.devices =
                replay_ahead(devices, history, |row, change| placing.change(row, row.time, change));
        } else {
            history.consume(|row| placing.row_at(row.time, row));
        }
    } else {
        for (time, item) in in_order(&rank, &history, &labels, &holders) {
            placing.item(time, item);
        }
    }
    let placed = placing.finish();
    let notes = placed.give(&mut rank);
    let found = outcomes(&rank);
    rank.calls.outcome = found.calls;
    for tensor in found.gone_inside {
        let class = &mut rank.tensors.class[tensor.index()];
        if matches!(class, Class::Unknown | Class::Activation) {
            *class = Class::Temporary;
        }
    }
    (rank, notes)
}

/// All items with a time, ordered by time.
fn in_order(
    rank: &Rank,
    history: &History,
    labels: &Labels,
    holders: &[(PoolId, u64, Holder)],
) -> Vec<(Nanoseconds, Item)> {
    let mut items = Vec::with_capacity(rank.steps.len() + history.len() + labels.len());
    let mut times = rank.times.iter().peekable();
    let mut time = 0;
    for step in 0..rank.end() {
        while let Some((_, later)) = times.next_if(|(from, _)| *from <= step) {
            time = time.max(later);
        }
        items.push((time, Item::Step(step)));
    }
    let mut last: FxHashMap<PoolId, Nanoseconds> = FxHashMap::default();
    for row in history.iter() {
        if row.action == HistoryAction::Highest {
            // Reported when it is read, which is before the history is.
            items.push((row.time, Item::Row(row)));
            continue;
        }
        let (during, time) = within_call(rank, &row);
        let last = last.entry(row.pool).or_default();
        *last = time.max(*last);
        items.push((*last, Item::Row(HistoryRow { during, ..row })));
    }
    let starts = starts(history);
    items.extend(labels.iter().map(|label| {
        // A label of a long-lived tensor may be older than the remaining history.
        let start = starts.get(&label.pool).copied().filter(|_| lasts(label.class)).unwrap_or(0);
        (label.time.max(start), Item::Label(label))
    }));
    let held_by = |&(pool, at, holder): &(PoolId, u64, Holder)| {
        // A file that continues a recording begins with the blocks that existed then.
        let start = starts.get(&pool).copied().filter(|_| rank.thinned.is_some()).unwrap_or(0);
        (holder.time.max(start), Item::HeldBy(pool, at, holder))
    };
    items.extend(holders.iter().map(held_by));
    // Stable sort: items with the same time keep the order of the kinds above.
    items.sort_by_key(|(time, _)| *time);
    items
}

/// The start times of the pools' histories.
fn starts(history: &History) -> FxHashMap<PoolId, Nanoseconds> {
    let mut starts = FxHashMap::default();
    for row in history.iter().filter(|row| row.action != HistoryAction::Highest) {
        starts.entry(row.pool).or_insert(row.time);
    }
    starts
}

/// Whether tensors of a class usually live as long as the program.
fn lasts(class: Class) -> bool {
    matches!(class, Class::Weight | Class::Parameter | Class::Optimizer | Class::Buffer | Class::KvCache)
}

/// The call that a row belongs to, and the row's time. Clocks with microsecond resolution may put a row just outside
/// its call. A row that is far from its call belongs to a thread whose call was never reported as ended.
fn within_call(rank: &Rank, row: &HistoryRow) -> (During, Nanoseconds) {
    let During::Call(call) = row.during else { return (row.during, row.time) };
    let began = rank.calls.began.get(call.index()).copied().unwrap_or(0);
    let ended = match rank.call_end(call.index()) {
        CallEnd::At(ended) => ended.max(began),
        CallEnd::Open | CallEnd::Unknown => Nanoseconds::MAX,
    };
    let inside = row.time.clamp(began, ended);
    if inside.abs_diff(row.time) > NEAR { (During::ByTime, row.time) } else { (row.during, inside) }
}

/// Whether a row confirms existing memory after a gap in the history.
fn says_what_is_there(action: HistoryAction) -> bool {
    matches!(
        action,
        HistoryAction::There | HistoryAction::Reserved | HistoryAction::Mapped | HistoryAction::Forgotten
    )
}

/// Whether a row is a separate step. Driver calls of the allocator belong to the allocation that needs them.
pub(super) fn is_step(action: HistoryAction) -> bool {
    matches!(
        action,
        HistoryAction::Allocated
            | HistoryAction::FreeRequested
            | HistoryAction::Freed
            | HistoryAction::OutOfMemory
    )
}

pub(super) struct Placing<'a> {
    rank: &'a Rank,
    /// The devices, by pool.
    devices: Vec<Device>,
    open: OpenCalls<'a>,
    placed: Placed,
    /// For each allocated tensor, its operation and the requested bytes; `None` if there are no types to learn.
    origin: Option<Vec<Option<(OpId, u64)>>>,
    learned: &'a Learned,
    /// The allocations of each pool, in order, that some iterations repeat.
    examples: &'a [Vec<Known>],
    /// The allocations of each pool, in order, if iterations without details repeat some of them.
    made: Vec<Vec<Made>>,
}

impl<'a> Placing<'a> {
    pub fn new(rank: &'a Rank, has_labels: bool, learned: &'a Learned) -> Self {
        let origin = has_labels.then(Vec::new);
        let devices = rank.pools.iter().map(|pool| Device::new(pool.rules.unwrap_or_default()));
        Self {
            rank,
            devices: devices.collect(),
            open: OpenCalls::new(rank),
            placed: Placed::new(rank),
            origin,
            learned,
            examples: &[],
            made: vec![Vec::new(); rank.pools.len()],
        }
    }

    /// Reserves memory for a number of rows and for the allocations among them.
    pub fn reserve(&mut self, rows: usize, allocations: usize) {
        // The expected number may be that of a corrupt file.
        const MAX: usize = 1 << 26;
        self.placed.reserve(rows.min(MAX), allocations.min(MAX));
    }

    /// Takes the device of the first pool.
    pub fn take_device(&mut self) -> Device {
        self.devices.first_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether a row of the first pool contradicted the rows before it.
    #[inline]
    pub fn is_contradicted(&self) -> bool {
        self.devices.first().is_some_and(|device| device.is_contradicted)
    }

    fn item(&mut self, time: Nanoseconds, item: Item) {
        self.open.advance(time);
        match item {
            Item::Step(step) => self.step_as_it_was(step, time),
            Item::Row(row) => self.row(&row, time),
            Item::Label(label) => self.label(&label),
            Item::HeldBy(pool, address, holder) => {
                let made = self.devices.get(pool.index()).and_then(|device| device.at(address));
                self.placed.holders.extend(made.map(|made| (made, holder)));
            }
        }
    }

    pub fn row_at(&mut self, time: Nanoseconds, row: &HistoryRow) {
        self.open.advance(time);
        self.row(row, time);
    }

    fn step_as_it_was(&mut self, step: Step, time: Nanoseconds) {
        let Some(row) = self.rank.steps.get(step as usize) else { return };
        let within = self.rank.within.get(step).flatten();
        self.placed.now.push(self.placed.end());
        self.placed.step(row, time, within);
    }

    fn row(&mut self, row: &HistoryRow, time: Nanoseconds) {
        let (pool, next) = (row.pool.index(), self.placed.made.len());
        let Some(device) = self.devices.get_mut(pool) else { return };
        if device.has_doubtful() && !says_what_is_there(row.action) {
            self.placed.all_gone(device.take_doubtful());
        }
        let change = device.change(row, next);
        if row.action == HistoryAction::Highest && device.was_higher(row.bytes) {
            self.placed.reading(pool, Reading { allocated: Some(row.bytes), ..Reading::default() });
        }
        if row.action == HistoryAction::Forgotten {
            self.placed.gap(pool);
            let forgotten = self.placed.notes.forgotten.entry(pool).or_default();
            *forgotten = forgotten.saturating_add(row.bytes);
        }
        self.changed(row, time, change);
    }

    /// Places a row with the change that it makes.
    fn change(&mut self, row: &HistoryRow, time: Nanoseconds, change: Change) {
        self.open.advance(time);
        self.changed(row, time, change);
    }

    fn changed(&mut self, row: &HistoryRow, time: Nanoseconds, change: Change) {
        let is_step = is_step(row.action);
        let during = self.open.during(row.during).filter(|_| is_step);
        if is_step {
            let step = StepRow { op: row.op, run: None, offset: 0, marks: StepMarks::default() };
            self.placed.step(step, time, during);
        }
        match change.effect {
            Effect::None => {}
            Effect::New(block) => self.new_tensor(row, block, during),
            Effect::Gone(made) => self.placed.all_gone([made]),
        }
        self.placed.levels(row.pool.index(), change.levels);
        if let Some(free) = change.free {
            self.out_of_memory(row, *free, change.levels);
        }
    }

    fn out_of_memory(&mut self, row: &HistoryRow, (free, largest_free): (u64, u64), levels: Levels) {
        self.placed.notes.out_of_memory.push(OutOfMemory {
            pool: row.pool,
            step: self.placed.end().saturating_sub(1),
            requested: row.bytes,
            device_free: row.address,
            free,
            largest_free,
            levels,
            is_last: true,
        });
        let (free, largest_free) = (Some(free), Some(largest_free));
        self.placed.reading(row.pool.index(), Reading { free, largest_free, ..Reading::default() });
    }

    fn new_tensor(&mut self, row: &HistoryRow, block: u64, during: Option<CallId>) {
        let is_made = row.action == HistoryAction::Allocated;
        if is_made && !self.learned.repeated.is_empty() {
            self.made[row.pool.index()].push(self.placed.made.len());
        }
        for fault in self.placed.notes.out_of_memory.iter_mut().filter(|fault| fault.pool == row.pool) {
            // The program continued after the failed allocation.
            fault.is_last &= !is_made;
        }
        let step = self.placed.end().checked_sub(1).filter(|_| is_made);
        // The first operation is that of rows without one.
        if !is_made && row.op.index() > 0 {
            self.placed.restored.push((self.placed.made.len(), row.op));
        }
        self.placed.made.push(Tensor {
            ty: None,
            pool: row.pool,
            per_bank: Bytes::known(block),
            born: Moment::early(self.placed.end()),
            dies: Moment::NEVER,
            class: self.class_in(during),
            run: None,
            ssa: None,
            step: step.and_then(StepNumber::new),
            name: None,
        });
        if let Some(origin) = &mut self.origin {
            origin.push(is_made.then_some((row.op, row.bytes)));
        }
    }

    /// The class of a tensor allocated in a call, unless a label says otherwise.
    fn class_in(&self, call: Option<CallId>) -> Class {
        let call = call.and_then(|call| self.rank.named_call(call));
        let scope = call.and_then(|call| self.rank.calls.scope.get(call.index()));
        match scope.and_then(|scope| self.rank.scopes.kind.get(scope.index())) {
            Some(ScopeKind::Forward) => Class::Activation,
            Some(ScopeKind::Backward | ScopeKind::Optimizer) => Class::Temporary,
            Some(ScopeKind::Operation | ScopeKind::Framework) | None => Class::Unknown,
        }
    }

    fn label(&mut self, label: &Label) {
        let made = self.devices.get(label.pool.index()).and_then(|device| device.at(label.address));
        let Some(made) = made.or_else(|| self.found(label)) else { return };
        let Some(mut known) = self.placed.known(made) else { return };
        known.add(label);
        self.placed.relabel(made, known);
        if let Some(does) = label.requires_grad {
            self.placed.requires_grad.push((made, does));
        }
    }

    /// Adds a tensor that existed before recording began, in memory without segments.
    fn found(&mut self, label: &Label) -> Option<usize> {
        let device = self.devices.get_mut(label.pool.index())?;
        let (made, op) = (self.placed.made.len(), OpId::new(0)?);
        let Label { pool, address, bytes, time, .. } = *label;
        let (action, during, block) = (HistoryAction::There, During::NoCall, Bytes::known(bytes));
        let row = HistoryRow { pool, action, address, bytes, block, op, during, time };
        if bytes == 0
            || !lasts(label.class)
            || !device.is_unbounded()
            || device.apply(&row, made) != Effect::New(bytes)
        {
            return None;
        }
        let levels = device.levels();
        self.new_tensor(&row, bytes, None);
        self.placed.levels(pool.index(), levels);
        Some(made)
    }

    pub fn finish(mut self) -> Placed {
        self.repeat_labels();
        self.learn_types();
        (self.placed.notes.bare, self.placed.notes.unlike) = (self.learned.bare, self.learned.unlike);
        for (pool, mut device) in self.devices.into_iter().enumerate() {
            self.placed.all_gone(device.take_doubtful());
            if device.unmatched > 0 {
                self.placed.notes.unmatched.insert(pool, device.unmatched);
            }
        }
        self.placed
    }

    /// Labels tensors of iterations without details like those that they repeat.
    fn repeat_labels(&mut self) {
        for repeated in &self.learned.repeated {
            let pool = repeated.pool.index();
            let made = |number: u32| self.made.get(pool)?.get(number as usize).copied();
            let like = match repeated.like {
                Like::Own(number) => made(number).and_then(|made| self.placed.known(made)),
                Like::Example(number) => {
                    self.examples.get(pool).and_then(|made| made.get(number as usize)).copied()
                }
            };
            let (Some(own), Some(like)) = (made(repeated.allocation), like) else { continue };
            let Some(mut known) = self.placed.known(own) else { continue };
            // What an iteration allocates becomes an input of the next one, if there is one.
            let is_known = repeated.is_whole || like.class != Class::Input;
            if is_known && strength(like.class) > strength(known.class) {
                known.class = like.class;
            }
            known.name = known.name.or(like.name);
            known.ty = known.ty.or(like.ty.filter(|_| repeated.is_same_size));
            self.placed.relabel(own, known);
        }
    }

    /// Tensors of the same size allocated by the same line get the same type, unless the known types differ.
    fn learn_types(&mut self) {
        let Some(origins) = &self.origin else { return };
        let types = &mut self.placed.made.ty;
        let mut known: FxHashMap<(OpId, u64), Option<TypeId>> = FxHashMap::default();
        for (ty, origin) in types.iter().zip(origins) {
            if let (Some(ty), Some(origin)) = (*ty, *origin) {
                known
                    .entry(origin)
                    .and_modify(|have| *have = have.filter(|have| *have == ty))
                    .or_insert(Some(ty));
            }
        }
        for (index, origin) in origins.iter().enumerate() {
            if types[index].is_none()
                && let Some(ty) = origin.and_then(|origin| known.get(&origin).copied().flatten())
            {
                types[index] = Some(ty);
            }
        }
    }
}
