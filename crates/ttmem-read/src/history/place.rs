//! Assigns the rows of a history to the steps of a profile by their times. The resulting tensors, levels, calls and
//! snapshots look as if they had been recorded live.

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::rules::outcomes::outcomes;
use ttmem_model::{
    Bytes, CallEnd, CallId, Class, During, History, HistoryAction, HistoryRow, Label, Labels, Moment,
    Nanoseconds, OpId, OpKind, PoolId, Profile, Rank, Reading, ScopeKind, Step, StepMarks, StepNumber,
    StepRow, Tensor, TypeId,
};

use super::device::{Device, Effect};
use super::late_calls::order_calls;
use super::notes::{Notes, OutOfMemory};
use super::open_calls::OpenCalls;
use super::placed::Placed;

/// The maximum difference between clocks.
const NEAR: Nanoseconds = 1_000_000;

/// Places the histories of all ranks. A profile without a history is not changed.
pub fn place(profile: &mut Profile) {
    for index in 0..profile.ranks.len() {
        let rank = &mut profile.ranks[index];
        if rank.history.is_empty() && rank.labels.is_empty() {
            continue;
        }
        let rank = std::mem::take(rank);
        let frees = only_frees(&rank);
        let ops = (0..profile.ops.len()).filter_map(OpId::new).filter(|op| frees.contains(op));
        for op in ops.collect::<Vec<_>>() {
            profile.ops.set_kind(op, OpKind::Deallocate);
        }
        let (rank, notes) = place_rank(rank);
        profile.ranks[index] = rank;
        notes.report(profile, index);
    }
}

/// The operations of a history that only free memory.
fn only_frees(rank: &Rank) -> FxHashSet<OpId> {
    let frees = |action| matches!(action, HistoryAction::FreeRequested | HistoryAction::Freed);
    let is_of_block = |action| {
        use HistoryAction::{Allocated, OutOfMemory, There};
        frees(action) || matches!(action, There | Allocated | OutOfMemory)
    };
    let ops_that = |are_frees: bool| {
        let rows =
            rank.history.iter().filter(move |row| frees(row.action) == are_frees && is_of_block(row.action));
        rows.map(|row| row.op).collect::<FxHashSet<OpId>>()
    };
    let mut others = ops_that(false);
    others.extend(rank.steps.iter().map(|step| step.op));
    ops_that(true).into_iter().filter(|op| !others.contains(op)).collect()
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
}

fn place_rank(mut rank: Rank) -> (Rank, Notes) {
    order_calls(&mut rank);
    let history = std::mem::take(&mut rank.history);
    let labels = std::mem::take(&mut rank.labels);
    let mut placing = Placing::new(&rank, !labels.is_empty());
    if rank.steps.is_empty() && labels.is_empty() && is_in_order(&history) {
        // Rows are released as they are placed.
        for row in history {
            placing.item(row.time, Item::Row(row));
        }
    } else {
        for (time, item) in in_order(&rank, &history, &labels) {
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

/// Whether the rows are ordered by time, belong to no known call, and are not counters.
fn is_in_order(history: &History) -> bool {
    let mut last = 0;
    history.iter().all(|row| {
        let is_later = row.time >= last;
        last = row.time;
        is_later && row.action != HistoryAction::Highest && !matches!(row.during, During::Call(_))
    })
}

/// All items with a time, ordered by time.
fn in_order(rank: &Rank, history: &History, labels: &Labels) -> Vec<(Nanoseconds, Item)> {
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
fn is_step(action: HistoryAction) -> bool {
    matches!(
        action,
        HistoryAction::Allocated
            | HistoryAction::FreeRequested
            | HistoryAction::Freed
            | HistoryAction::OutOfMemory
    )
}

struct Placing<'a> {
    rank: &'a Rank,
    devices: FxHashMap<PoolId, Device>,
    open: OpenCalls<'a>,
    placed: Placed,
    /// For each allocated tensor, its operation and the requested bytes; `None` if there are no types to learn.
    origin: Option<Vec<Option<(OpId, u64)>>>,
}

impl<'a> Placing<'a> {
    fn new(rank: &'a Rank, has_labels: bool) -> Self {
        let origin = has_labels.then(Vec::new);
        Self {
            rank,
            devices: FxHashMap::default(),
            open: OpenCalls::new(rank),
            placed: Placed::new(rank),
            origin,
        }
    }

    fn item(&mut self, time: Nanoseconds, item: Item) {
        self.open.advance(time);
        match item {
            Item::Step(step) => self.step_as_it_was(step, time),
            Item::Row(row) => self.row(&row, time),
            Item::Label(label) => self.label(&label),
        }
    }

    fn device(&mut self, pool: PoolId) -> &mut Device {
        let rules = || self.rank.pools.get(pool.index()).and_then(|pool| pool.rules).unwrap_or_default();
        self.devices.entry(pool).or_insert_with(|| Device::new(rules()))
    }

    fn step_as_it_was(&mut self, step: Step, time: Nanoseconds) {
        let Some(row) = self.rank.steps.get(step as usize) else { return };
        let within = self.rank.within.get(step).flatten();
        self.placed.now.push(self.placed.end());
        self.placed.step(row, time, within);
    }

    fn row(&mut self, row: &HistoryRow, time: Nanoseconds) {
        let (pool, next) = (row.pool.index(), self.placed.made.len());
        let device = self.device(row.pool);
        let gone = if says_what_is_there(row.action) { Vec::new() } else { device.take_doubtful() };
        self.placed.all_gone(gone);
        let device = self.device(row.pool);
        let effect = device.apply(row, next);
        let was_higher = row.action == HistoryAction::Highest && device.was_higher(row.bytes);
        let mut reading = device.reading();
        if row.action == HistoryAction::OutOfMemory {
            let (free, largest) = device.free_pieces();
            (reading.free, reading.largest_free) = (Some(free), Some(largest));
        }
        if was_higher {
            self.placed.state(pool, Reading { allocated: Some(row.bytes), ..Reading::default() });
        }
        if row.action == HistoryAction::Forgotten {
            let forgotten = self.placed.notes.forgotten.entry(pool).or_default();
            *forgotten = forgotten.saturating_add(row.bytes);
        }
        let during = self.open.during(row.during).filter(|_| is_step(row.action));
        if is_step(row.action) {
            let step = StepRow { op: row.op, run: None, offset: 0, marks: StepMarks::default() };
            self.placed.step(step, time, during);
        }
        match effect {
            Effect::None => {}
            Effect::New(block) => self.new_tensor(row, block, during),
            Effect::Gone(made) => self.placed.all_gone([made]),
        }
        if row.action == HistoryAction::OutOfMemory {
            let step = self.placed.end().saturating_sub(1);
            self.placed.notes.out_of_memory.push(OutOfMemory {
                pool: row.pool,
                step,
                requested: row.bytes,
                // The driver's free memory is one more free block.
                free: reading.free.unwrap_or(0).saturating_add(row.address),
                largest_free: reading.largest_free.unwrap_or(0).max(row.address),
                is_last: true,
            });
        }
        self.placed.state(pool, reading);
    }

    fn new_tensor(&mut self, row: &HistoryRow, block: u64, during: Option<CallId>) {
        let is_made = row.action == HistoryAction::Allocated;
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
        let device = self.device(label.pool);
        let Some(made) = device.at(label.address).or_else(|| self.found(label)) else { return };
        let Some(mut tensor) = self.placed.made.get(made) else { return };
        // A module's result or a tensor saved by autograd may also be a parameter, and a module's argument another's
        // result.
        let (was, is) = (strength(tensor.class), strength(label.class));
        if is > was || is == STRONGEST {
            (tensor.class, tensor.name) = (label.class, label.name.or(tensor.name));
            tensor.ty = label.ty.or(tensor.ty);
        }
        tensor.ty = tensor.ty.or(label.ty);
        tensor.name = tensor.name.or(label.name);
        self.placed.relabel(made, &tensor);
        if let Some(does) = label.requires_grad {
            self.placed.requires_grad.push((made, does));
        }
    }

    /// Adds a tensor that existed before recording began, in memory without segments.
    fn found(&mut self, label: &Label) -> Option<usize> {
        let device = self.devices.get_mut(&label.pool)?;
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
        let reading = device.reading();
        self.new_tensor(&row, bytes, None);
        self.placed.state(pool.index(), reading);
        Some(made)
    }

    fn finish(mut self) -> Placed {
        self.learn_types();
        let mut devices: Vec<_> = self.devices.into_iter().collect();
        devices.sort_unstable_by_key(|(pool, _)| *pool);
        for (pool, mut device) in devices {
            self.placed.all_gone(device.take_doubtful());
            if device.unmatched > 0 {
                self.placed.notes.unmatched.insert(pool.index(), device.unmatched);
            }
        }
        self.placed
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
        for (ty, origin) in types.iter_mut().zip(origins) {
            if ty.is_none() {
                *ty = origin.and_then(|origin| known.get(&origin).copied().flatten());
            }
        }
    }
}

const STRONGEST: u8 = 2;

/// The precedence of a class when a tensor has several labels.
fn strength(class: Class) -> u8 {
    match class {
        Class::Unknown | Class::Temporary | Class::Workspace => 0,
        Class::Activation | Class::Input | Class::Argument => 1,
        Class::Weight
        | Class::Parameter
        | Class::Gradient
        | Class::Optimizer
        | Class::KvCache
        | Class::Buffer => STRONGEST,
    }
}
