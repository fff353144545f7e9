//! Places the history of a single allocator while it is being read.
//!
//! The contents of memory before a history follow from those after it, so in general a history can be placed only when all of
//! it is known. But most programs that record a history start recording before they allocate. So the rows are placed as if
//! memory had been empty before, and in the end [`PlacedAlone::begins_empty`] tells whether it was.

use ttmem_model::rules::allocator::Contents;
use ttmem_model::{
    AllocatorRules, HistoryAction, HistoryRow, Nanoseconds, OpId, OpKind, Pool, Profile, Rank, StrId,
};

use super::device::Device;
use super::learned::Learned;
use super::place::{Placing, is_step};
use super::placed::Placed;

/// The history of the only allocator, placed for a rank without calls and labels. The operations of its steps have to be set.
#[derive(Debug)]
pub(crate) struct PlacedAlone {
    placed: Placed,
    device: Device,
    /// The operations of the rows, in the order of their first steps.
    ops: Vec<OpId>,
    /// The rows about segments.
    segments: Vec<(HistoryAction, u64, u64)>,
    /// The operations of the steps, and whether the steps free memory.
    does: Vec<(OpId, bool)>,
}

/// The expected length of a history, to reserve memory for. It need not be right.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    pub rows: usize,
    pub allocations: usize,
}

/// Rows that are being placed.
pub(crate) struct PlacingAlone<'a> {
    placing: Placing<'a>,
    /// For each operation, whether a step has it.
    seen: Vec<bool>,
    ops: Vec<OpId>,
    segments: Vec<(HistoryAction, u64, u64)>,
    last: Nanoseconds,
    is_possible: bool,
}

/// Places the rows that a function passes on. `None` if they contradict an empty memory before the first one, or if they are
/// not ordered by time.
pub(crate) fn place_alone(
    expected: Expected,
    rows: impl FnOnce(&mut PlacingAlone<'_>),
) -> Option<PlacedAlone> {
    let pool = Pool::new(StrId::new(0)?, Some(1), 0);
    let rank = Rank { pools: vec![pool], ..Rank::default() };
    let learned = Learned::default();
    let mut placing = Placing::new(&rank, false, &learned);
    placing.reserve(expected.rows, expected.allocations);
    let (seen, ops, segments) = Default::default();
    let mut alone = PlacingAlone { placing, seen, ops, segments, last: 0, is_possible: true };
    rows(&mut alone);
    let PlacingAlone { mut placing, ops, segments, is_possible, .. } = alone;
    let device = placing.take_device();
    let placed = placing.finish();
    let does = Vec::new();
    is_possible.then_some(PlacedAlone { placed, device, ops, segments, does })
}

impl PlacingAlone<'_> {
    /// Places a row. Returns `false` if the rows cannot be placed alone; then no further ones are needed.
    #[inline]
    pub fn row(&mut self, row: &HistoryRow) -> bool {
        if is_step(row.action) {
            let op = row.op.index();
            if self.seen.get(op) != Some(&true) {
                self.new_op(row.op);
            }
        } else if row.action != HistoryAction::FreeCompleted {
            self.segments.push((row.action, row.address, row.bytes));
        }
        self.placing.row_at(row.time, row);
        self.is_possible &= row.time >= self.last && !self.placing.is_contradicted();
        self.last = row.time;
        self.is_possible
    }

    #[cold]
    fn new_op(&mut self, op: OpId) {
        if self.seen.len() <= op.index() {
            self.seen.resize(op.index() + 1, false);
        }
        self.seen[op.index()] = true;
        self.ops.push(op);
    }
}

impl PlacedAlone {
    /// Whether memory was empty before the first row, if these are its contents after the last one, and if the allocator has
    /// the default settings.
    pub fn begins_empty(&self, end: &Contents, rules: AllocatorRules) -> bool {
        // The first row about an address allocates, or it would contradict an empty memory.
        let has_been_allocated = end.blocks().iter().all(|(address, _)| self.device.has(*address));
        let before = end.clone().before(self.segments.iter().copied());
        has_been_allocated && !before.has_segments() && rules == AllocatorRules::default()
    }

    /// The operations of the rows, in the order of their first steps.
    pub fn ops(&self) -> &[OpId] {
        &self.ops
    }

    /// Replaces the operations of the rows, which are those of [`PlacedAlone::ops`]. Each comes with whether its steps free
    /// memory. `began` is subtracted from the times of the rows.
    pub fn complete(&mut self, ops: Vec<(OpId, bool)>, began: Nanoseconds) {
        let last = self.ops.iter().map(|op| op.index() + 1).max().unwrap_or(0);
        let mut now = vec![None; last];
        for (row, (op, _)) in self.ops.iter().zip(&ops) {
            now[row.index()] = Some(*op);
        }
        for op in &mut self.placed.steps.op {
            *op = now.get(op.index()).copied().flatten().unwrap_or(*op);
        }
        for time in &mut self.placed.times.value {
            *time = time.saturating_sub(began);
        }
        self.does = ops;
    }

    /// Adds the history to the first rank of a profile.
    pub fn give(mut self, profile: &mut Profile) {
        let mut does = vec![[false; 2]; profile.ops.len()];
        for (op, frees) in self.does {
            if let Some(does) = does.get_mut(op.index()) {
                does[usize::from(frees)] = true;
            }
        }
        let only_frees = (0..does.len()).filter(|op| does[*op] == [false, true]);
        for op in only_frees.filter_map(OpId::new) {
            profile.ops.set_kind(op, OpKind::Deallocate);
        }
        let Some(rank) = profile.ranks.first_mut() else { return };
        if let Some(pool) = rank.pools.first() {
            self.placed.adopt(pool);
        }
        let notes = self.placed.give(rank);
        notes.report(profile, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ttmem_model::{Builder, Bytes, During, Event, Op, PoolId, RankEvent, RankId, Sink};

    use super::*;

    /// An action of a program, with the number of a block and a size.
    type Drawn = (u8, u8, u64);

    fn is_free(action: HistoryAction) -> bool {
        matches!(action, HistoryAction::Freed | HistoryAction::FreeRequested)
    }

    /// One of two operations that an action may have.
    fn op(action: HistoryAction, which: usize) -> usize {
        match action {
            HistoryAction::FreeCompleted => 0,
            action if is_free(action) => 1 + which,
            _ => 3 + which,
        }
    }

    /// The rows of a program, and the contents of memory after them. The first `before` actions are not among the rows.
    fn rows(drawn: &[Drawn], before: usize) -> (Vec<HistoryRow>, Contents, Contents) {
        let (pool, block, during) = (PoolId::new(0).unwrap(), Bytes::UNKNOWN, During::ByTime);
        let row = |action, address, bytes, op: usize, time| HistoryRow {
            pool,
            action,
            address,
            bytes,
            block,
            op: OpId::new(op).unwrap(),
            during,
            time,
        };
        let (mut all, mut contents, mut start) = (Vec::new(), Contents::default(), Contents::default());
        let mut live = [0_u8; 16];
        for (index, &(kind, slot, bytes)) in drawn.iter().enumerate() {
            if index == before {
                start = contents.clone();
                all.clear();
            }
            let (state, address) = (&mut live[usize::from(slot) % 16], u64::from(slot % 16) * (8 << 20));
            let time = index as u64 / 2;
            let action = match (kind % 5, *state) {
                (0, 0) => {
                    all.push(row(HistoryAction::Reserved, address, 8 << 20, 0, time));
                    contents.apply(all.last().unwrap());
                    HistoryAction::Allocated
                }
                (_, 1 | 4) if kind % 2 == 0 => HistoryAction::OutOfMemory,
                (1, 1) => HistoryAction::Freed,
                (_, 1) => HistoryAction::FreeRequested,
                (_, 2) => HistoryAction::FreeCompleted,
                (_, 3) => HistoryAction::Allocated,
                _ => continue,
            };
            *state = match action {
                HistoryAction::Allocated => 1,
                HistoryAction::FreeRequested => 2,
                HistoryAction::Freed | HistoryAction::FreeCompleted => 3,
                _ => *state,
            };
            all.push(row(action, address, bytes, op(action, usize::from(kind % 2)), time));
            contents.apply(all.last().unwrap());
        }
        if before >= drawn.len() {
            (start, all) = (contents.clone(), Vec::new());
        }
        (all, start, contents)
    }

    /// A profile with five operations and a pool.
    fn profile(rows: &[HistoryRow]) -> Profile {
        let mut builder = Builder::new();
        builder.take(Event::Text("CUDA:0".into())).unwrap();
        for _ in 0..5 {
            builder.take(Event::Op(Op::new(StrId::new(0).unwrap(), OpKind::Compute))).unwrap();
        }
        builder.take(Event::Rank { label: None }).unwrap();
        let rank = RankId::new(0).unwrap();
        let pool = RankEvent::Pool { name: StrId::new(0).unwrap(), banks: Some(1), quantum: 0 };
        builder.take(Event::Of(rank, pool)).unwrap();
        let rules = RankEvent::AllocatorRules(PoolId::new(0).unwrap(), AllocatorRules::default());
        builder.take(Event::Of(rank, rules)).unwrap();
        for row in rows {
            builder.history(rank, *row).unwrap();
        }
        builder.finish()
    }

    proptest! {
        /// A history that is placed alone is the one that its rows give. If memory was in use before, that is noticed.
        #[test]
        fn a_history_is_the_same_or_refused(
            drawn in prop::collection::vec((any::<u8>(), any::<u8>(), 0_u64..6 << 20), 0..200),
            before in prop_oneof![2 => Just(0_usize), 1 => 0_usize..50],
        ) {
            let (rows, start, end) = rows(&drawn, before);
            let placed = place_alone(Expected::default(), |alone| {
                let _ = rows.iter().all(|row| alone.row(row));
            });
            let placed = placed.filter(|placed| placed.begins_empty(&end, AllocatorRules::default()));
            prop_assert_eq!(placed.is_some(), start.is_empty());
            // Without rows, there is nothing to place.
            if let Some(mut placed) = placed.filter(|_| !rows.is_empty()) {
                let frees = |op: &OpId| rows.iter().any(|row| row.op == *op && is_free(row.action));
                let ops = placed.ops().iter().map(|op| (*op, frees(op))).collect();
                placed.complete(ops, 0);
                let mut found = profile(&[]);
                placed.give(&mut found);
                let mut wanted = profile(&rows);
                super::super::place(&mut wanted);
                prop_assert_eq!(found, wanted);
            }
        }
    }
}
