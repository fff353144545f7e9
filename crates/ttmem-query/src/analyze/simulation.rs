//! The peak of a pool if the program were changed: replays the observed states of the pool with changes to its tensors.
//!
//! The states are those of the unchanged program. A change only adds or removes bytes while it applies, so memory that
//! belongs to no tensor stays as it was observed, and another moment may become the peak.

use std::cmp::Reverse;

use ttmem_model::{Moment, Rank, TensorId};

use super::{Account, Span, held};

/// A change to the memory of a program. All sizes are per bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A tensor is smaller by these bytes while it is live.
    Smaller(TensorId, u64),
    /// A tensor is not allocated in this pool.
    NotAllocated(TensorId),
    /// A tensor is freed at a moment, if that is before the moment when it was freed.
    FreedAt(TensorId, Moment),
    /// A tensor is allocated at another moment, earlier or later.
    AllocatedAt(TensorId, Moment),
    /// A tensor is freed at the first moment and allocated again at the second, as when it is recomputed.
    Away(TensorId, Moment, Moment),
    /// Memory that the change itself needs, between two moments.
    Added(Moment, Moment, u64),
}

impl Change {
    /// The tensor that it is about.
    pub fn tensor(&self) -> Option<TensorId> {
        match self {
            Self::Smaller(tensor, _)
            | Self::NotAllocated(tensor)
            | Self::FreedAt(tensor, _)
            | Self::AllocatedAt(tensor, _)
            | Self::Away(tensor, ..) => Some(*tensor),
            Self::Added(..) => None,
        }
    }
}

/// The observed states of a pool that a set of changes may turn into the peak.
#[derive(Clone, Debug)]
pub struct Simulation<'a> {
    rank: &'a Rank,
    /// The peak of the unchanged program.
    peak: u64,
    /// No subset of the changes results in a lower peak.
    least: u64,
    /// The states that may exceed `least`.
    states: Vec<(Moment, u64)>,
}

impl<'a> Simulation<'a> {
    /// Prepares the replay of any subset of the changes, within a span.
    pub fn new(account: &Account<'a>, span: Span, changes: &[Change]) -> Self {
        let rank = account.rank;
        let (freed, added) = all_deltas(rank, changes);
        let levels = levels(account);
        let readings = || levels.iter().copied().filter(|(at, _)| span.contains(*at, rank));
        let (mut peak, mut least) = (0, 0);
        let mut freed = Cursor::new(&freed);
        for (at, held) in readings() {
            peak = held.max(peak);
            least = apply(held, freed.at(at)).max(least);
        }
        let mut added = Cursor::new(&added);
        let matters = |(at, held): &(Moment, u64)| apply(*held, added.at(*at)) > least;
        Self { rank, peak, least, states: readings().filter(matters).collect() }
    }

    /// The peak of the unchanged program, per bank.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// The peak with a subset of the changes, per bank.
    pub fn peak_with(&self, changes: &[Change]) -> u64 {
        self.highest_with(changes).1
    }

    /// The first moment of the peak with a subset of the changes, if it is one of the states that the changes affect, and the peak.
    pub fn highest_with(&self, changes: &[Change]) -> (Option<Moment>, u64) {
        let matters: Vec<Change> = changes.iter().copied().filter(|change| self.matters(change)).collect();
        let deltas = deltas(self.rank, &matters);
        let mut deltas = Cursor::new(&deltas);
        let levels = self.states.iter().map(|(at, held)| (Some(*at), apply(*held, deltas.at(*at))));
        let highest = levels.max_by_key(|(at, level)| (*level, Reverse(*at)));
        highest.filter(|(_, level)| *level >= self.least).unwrap_or((None, self.least))
    }

    /// Whether a change applies to one of the states.
    fn matters(&self, change: &Change) -> bool {
        let life = change.tensor().and_then(|tensor| Life::of(self.rank, tensor));
        let (from, until) = match (change, life) {
            (Change::Added(from, until, _), _) => (*from, *until),
            (Change::AllocatedAt(_, at), Some(life)) => (life.born.min(*at), life.dies),
            (_, Some(life)) => (life.born, life.dies),
            (_, None) => return false,
        };
        let first = self.states.partition_point(|(at, _)| *at < from);
        self.states.get(first).is_some_and(|(at, _)| *at < until)
    }

    /// The reduction of the peak by a subset of the changes, per bank.
    pub fn saving(&self, changes: &[Change]) -> u64 {
        self.peak.saturating_sub(self.peak_with(changes))
    }
}

/// The states of a pool. A recording stores few of them; the others follow from its tensors.
fn levels(account: &Account<'_>) -> Vec<(Moment, u64)> {
    let is_recording = account.rank.began.is_some();
    if is_recording || account.is_all_explained() {
        return held::over_time(account).changes().collect();
    }
    account.readings().collect()
}

/// Adds a difference to a level.
fn apply(level: u64, difference: i64) -> u64 {
    level.saturating_add_signed(difference)
}

/// Differences of a level, each from a moment on.
type Deltas = Vec<(Moment, i64)>;

/// The sum of differences up to a moment, for queries in order.
struct Cursor<'a> {
    deltas: &'a [(Moment, i64)],
    next: usize,
    sum: i64,
}

impl<'a> Cursor<'a> {
    fn new(deltas: &'a [(Moment, i64)]) -> Self {
        Self { deltas, next: 0, sum: 0 }
    }

    fn at(&mut self, at: Moment) -> i64 {
        while let Some((_, delta)) = self.deltas.get(self.next).filter(|(moment, _)| *moment <= at) {
            self.sum = self.sum.saturating_add(*delta);
            self.next += 1;
        }
        self.sum
    }
}

/// What the changes add and remove, in order.
fn deltas(rank: &Rank, changes: &[Change]) -> Deltas {
    let (mut freed, added) = all_deltas(rank, changes);
    freed.extend(added);
    freed.sort_unstable();
    freed
}

/// What the changes remove, and what they add, each in order.
fn all_deltas(rank: &Rank, changes: &[Change]) -> (Deltas, Deltas) {
    let (mut freed, mut added) = (Deltas::new(), Deltas::new());
    let mut of_tensors: Vec<(TensorId, Change)> = Vec::with_capacity(changes.len());
    for change in changes {
        match (*change, change.tensor()) {
            (Change::Added(from, until, bytes), _) => put(&mut added, from, until, signed(bytes)),
            (change, Some(tensor)) => of_tensors.push((tensor, change)),
            _ => {}
        }
    }
    of_tensors.sort_by_key(|(tensor, _)| *tensor);
    for of_tensor in of_tensors.chunk_by(|a, b| a.0 == b.0) {
        if let Some(life) = of_tensor.first().and_then(|(tensor, _)| Life::of(rank, *tensor)) {
            life.change(of_tensor.iter().map(|(_, change)| *change), &mut freed, &mut added);
        }
    }
    freed.sort_unstable();
    added.sort_unstable();
    (freed, added)
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn put(deltas: &mut Deltas, from: Moment, until: Moment, difference: i64) {
    if from < until && difference != 0 {
        deltas.push((from, difference));
        deltas.push((until, difference.saturating_neg()));
    }
}

/// When a tensor is live, and its size.
struct Life {
    born: Moment,
    dies: Moment,
    bytes: u64,
}

impl Life {
    fn of(rank: &Rank, tensor: TensorId) -> Option<Self> {
        let row = tensor.index();
        let bytes = rank.tensors.per_bank.get(row)?.get()?;
        Some(Self { born: rank.tensors.born[row], dies: rank.tensors.dies[row], bytes })
    }

    /// Adds the differences of all changes to this tensor. Of several smaller sizes, the smallest counts once, so bytes
    /// that two changes remove are not counted twice.
    fn change(&self, changes: impl Iterator<Item = Change>, freed: &mut Deltas, added: &mut Deltas) {
        let (mut smaller, mut earlier, mut gone) = (0, None, Vec::new());
        for change in changes {
            match change {
                Change::Smaller(_, bytes) => smaller = bytes.min(self.bytes).max(smaller),
                Change::NotAllocated(_) => gone.push((self.born, self.dies)),
                Change::FreedAt(_, at) => gone.push((at, self.dies)),
                Change::AllocatedAt(_, at) if at < self.born => earlier = earlier.min(Some(at)).or(Some(at)),
                Change::AllocatedAt(_, at) => gone.push((self.born, at)),
                Change::Away(_, from, until) => gone.push((from, until)),
                Change::Added(..) => {}
            }
        }
        let rest = signed(self.bytes - smaller);
        put(freed, self.born, self.dies, signed(smaller).saturating_neg());
        if let Some(earlier) = earlier {
            put(added, earlier, self.born, rest);
        }
        gone.sort_unstable();
        let mut covered = self.born;
        for (from, until) in gone {
            let (from, until) = (from.max(covered), until.min(self.dies));
            put(freed, from, until, rest.saturating_neg());
            covered = covered.max(until);
        }
    }
}
