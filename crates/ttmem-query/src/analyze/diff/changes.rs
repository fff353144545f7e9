//! The differences between corresponding tensors, and their effect on the peak of each pool.

use std::cmp::Ordering;

use ttmem_model::{Bytes, Moment, PoolId, Rank, Step, TensorId, TensorType, difference};

use super::align::Alignment;
use super::overlaps::Overlaps;
use super::tensors::{Matched, Pair};
use super::{Both, MANY_STEPS, Side};
use crate::analyze::Account;
use crate::analyze::peak::{Peak, peak};
use crate::analyze::span::Span;
use crate::threads::both;

/// The comparison of two ranks.
#[derive(Debug)]
pub struct Compared {
    /// The corresponding steps.
    pub alignment: Alignment,
    /// The pools of either rank.
    pub pools: Vec<PoolPeaks>,
    /// The tensors that differ.
    pub changes: Vec<Change>,
    /// The tensors that these overlap in one rank only.
    pub overlaps: Overlaps,
}

/// A pool of both ranks, with their peaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolPeaks {
    /// The name of the pool.
    pub name: String,
    /// The pool of each rank.
    pub ids: Both<Option<PoolId>>,
    /// The peak of each rank.
    pub peaks: Peaks,
    /// The compared moment: the higher peak, and the corresponding moment of the other rank.
    pub at: Both<Option<Moment>>,
    /// The rank whose peak is compared.
    pub higher: Higher,
}

/// The rank with the higher peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Higher {
    /// The first one.
    Before,
    /// The second one.
    After,
    /// The peaks are equal, and at corresponding moments.
    Neither,
}

/// The peak of each rank.
pub type Peaks = Both<Option<Peak>>;

/// A tensor that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The most important difference.
    pub kind: ChangeKind,
    /// The tensor of each rank.
    pub tensors: Both<Option<TensorId>>,
    /// The bytes per bank that it takes at the compared moment of its pool.
    pub at_peak: Both<u64>,
}

impl Change {
    /// The effect on the peak, in bytes per bank.
    pub fn effect(&self) -> i64 {
        difference(self.at_peak.after, self.at_peak.before)
    }
}

/// A difference between tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub enum ChangeKind {
    /// Only the second rank has it.
    Appeared,
    /// Only the first rank has it.
    Vanished,
    /// It is in another pool.
    Pool,
    /// It has another element type.
    Dtype,
    /// It has another memory layout.
    Layout,
    /// It has another shape or size.
    Resized,
    /// It is freed later, relative to the other operations, or no longer freed.
    FreedLater,
    /// It is freed earlier.
    FreedEarlier,
    /// It is allocated later, relative to the other operations.
    AllocatedLater,
    /// It is allocated earlier.
    AllocatedEarlier,
    /// The operation that allocates it has another place in the order of operations.
    Reordered,
}

impl ChangeKind {
    /// Whether only one rank has the tensor.
    pub fn is_one_sided(self) -> bool {
        matches!(self, Self::Appeared | Self::Vanished)
    }

    /// The kind if the ranks are exchanged.
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            Self::Appeared => Self::Vanished,
            Self::Vanished => Self::Appeared,
            Self::FreedLater => Self::FreedEarlier,
            Self::FreedEarlier => Self::FreedLater,
            Self::AllocatedLater => Self::AllocatedEarlier,
            Self::AllocatedEarlier => Self::AllocatedLater,
            Self::Pool | Self::Dtype | Self::Layout | Self::Resized | Self::Reordered => self,
        }
    }
}

/// Compares two ranks.
pub fn compare(sides: &Both<Side<'_>>) -> Compared {
    let is_large = sides.before.rank.steps.len() > MANY_STEPS;
    let (peaks, (alignment, matched)) = both(
        is_large,
        || peaks(sides),
        || {
            let alignment = Alignment::of(sides);
            let matched = Matched::of(sides, &alignment);
            (alignment, matched)
        },
    );
    let pools: Vec<PoolPeaks> = peaks.into_iter().map(|peaks| pool(sides, &alignment, peaks)).collect();
    let lives = Lives { sides: *sides, alignment: &alignment, pools: &pools };
    let mut changes: Vec<Change> = matched.pairs.iter().filter_map(|pair| lives.change(pair)).collect();
    changes.extend(matched.unmatched.before.iter().map(|tensor| lives.vanished(*tensor)));
    changes.extend(matched.unmatched.after.iter().map(|tensor| lives.appeared(*tensor)));
    let overlaps = Overlaps::of(sides, &pools, &matched.pairs, &changes);
    Compared { alignment, pools, changes, overlaps }
}

/// The pools of both ranks with their peaks, by name, in the order of the first rank.
fn peaks(sides: &Both<Side<'_>>) -> Vec<(String, Both<Option<PoolId>>, Peaks)> {
    let names = |side: Side<'_>| -> Vec<String> {
        side.rank.pools.iter().map(|pool| side.profile.text(pool.name).to_owned()).collect()
    };
    let mut all = names(sides.before);
    for name in names(sides.after) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    let peak_of = |rank: &Rank, id: Option<PoolId>| {
        peak(&Account::new(rank, id?)?, Span::recorded(rank)).filter(|peak| peak.per_bank > 0)
    };
    let with_peaks = |name: String| {
        let ids = sides.map(|side| side.rank.pool_named(side.profile, &name).map(|(id, _)| id));
        let before = peak_of(sides.before.rank, ids.before);
        let after = peak_of(sides.after.rank, ids.after);
        (name, ids, Both { before, after })
    };
    all.into_iter().map(with_peaks).collect()
}

fn pool(
    sides: &Both<Side<'_>>,
    alignment: &Alignment,
    (name, ids, peaks): (String, Both<Option<PoolId>>, Peaks),
) -> PoolPeaks {
    let higher = higher(alignment, peaks);
    let at = compared_moments(sides, alignment, peaks, higher);
    PoolPeaks { name, ids, peaks, at, higher }
}

/// The rank whose peak is compared. Of equal peaks, it is the one that comes first in the order of corresponding steps.
fn higher(alignment: &Alignment, peaks: Peaks) -> Higher {
    let order = |peak: Peak, steps: &[Step]| (place(peak.at, steps), peak.at.index() % 2);
    let (Some(before), Some(after)) = (peaks.before, peaks.after) else {
        return if peaks.after.is_some() { Higher::After } else { Higher::Before };
    };
    let earlier = || order(after, &alignment.pairs.after).cmp(&order(before, &alignment.pairs.before));
    match before.per_bank.cmp(&after.per_bank).then_with(earlier) {
        Ordering::Less => Higher::After,
        Ordering::Greater => Higher::Before,
        Ordering::Equal => Higher::Neither,
    }
}

/// The moment of the compared peak, and the corresponding one of the other rank.
fn compared_moments(
    sides: &Both<Side<'_>>,
    alignment: &Alignment,
    peaks: Peaks,
    higher: Higher,
) -> Both<Option<Moment>> {
    let at = peaks.map(|peak| peak.map(|peak| peak.at));
    let pairs = alignment.pairs.as_ref();
    match higher {
        Higher::Neither => at,
        Higher::Before => {
            Both { after: at.before.map(|at| corresponding(at, pairs, sides.after.rank)), ..at }
        }
        Higher::After => {
            Both { before: at.after.map(|at| corresponding(at, pairs.swapped(), sides.before.rank)), ..at }
        }
    }
}

/// The number of corresponding steps before a moment.
fn place(at: Moment, steps: &[Step]) -> usize {
    if at == Moment::NEVER { usize::MAX } else { steps.partition_point(|step| *step < at.position()) }
}

/// The moment of the other rank that corresponds to a moment. `pairs.before` are the steps of this rank.
fn corresponding(at: Moment, pairs: Both<&Vec<Step>>, other: &Rank) -> Moment {
    let place = place(at, pairs.before);
    let position = at.position();
    let is_right_after =
        place > 0 && pairs.before[place - 1] + 1 == position && at == Moment::early(position);
    if is_right_after {
        return Moment::after(pairs.after[place - 1]);
    }
    pairs.after.get(place).map_or_else(|| Moment::late(other.end()), |next| Moment::before(*next))
}

/// The tensors of both ranks with their lives.
#[derive(Clone, Copy)]
struct Lives<'a> {
    sides: Both<Side<'a>>,
    alignment: &'a Alignment,
    pools: &'a [PoolPeaks],
}

/// The life of a tensor, in corresponding steps.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Life {
    born: usize,
    dies: usize,
}

impl Lives<'_> {
    fn vanished(&self, tensor: TensorId) -> Change {
        let before = self.held(self.sides.before, tensor, |pool| pool.ids.before, |pool| pool.at.before);
        Change {
            kind: ChangeKind::Vanished,
            tensors: Both { before: Some(tensor), after: None },
            at_peak: Both { before, after: 0 },
        }
    }

    fn appeared(&self, tensor: TensorId) -> Change {
        let after = self.held(self.sides.after, tensor, |pool| pool.ids.after, |pool| pool.at.after);
        Change {
            kind: ChangeKind::Appeared,
            tensors: Both { before: None, after: Some(tensor) },
            at_peak: Both { before: 0, after },
        }
    }

    /// The difference of corresponding tensors, if there is one.
    fn change(&self, pair: &Pair) -> Option<Change> {
        let Both { before, after } = pair.tensors;
        let lives = Both {
            before: life(self.sides.before, before, &self.alignment.pairs.before),
            after: life(self.sides.after, after, &self.alignment.pairs.after),
        };
        let by_type = self.by_type(pair);
        let kind = by_type.or_else(|| by_life(lives, pair.is_reordered))?;
        let mut at_peak =
            Both { before: self.vanished(before).at_peak.before, after: self.appeared(after).at_peak.after };
        if lives.before == lives.after && kind != ChangeKind::Pool {
            // They live at the same moments, even if a moment in between does not correspond exactly.
            at_peak = self.together(pair.tensors);
        }
        Some(Change { kind, tensors: Both { before: Some(before), after: Some(after) }, at_peak })
    }

    /// The bytes of tensors with the same life at the compared moment.
    fn together(&self, tensors: Both<TensorId>) -> Both<u64> {
        let held = Both {
            before: self.held(
                self.sides.before,
                tensors.before,
                |pool| pool.ids.before,
                |pool| pool.at.before,
            ),
            after: self.held(self.sides.after, tensors.after, |pool| pool.ids.after, |pool| pool.at.after),
        };
        let pool = self.sides.after.rank.tensors.pool.get(tensors.after.index()).copied();
        let peaks = self.pools.iter().find(|peaks| peaks.ids.after == pool);
        let is_live = match peaks.map(|peaks| peaks.higher) {
            Some(Higher::Before) => held.before > 0,
            Some(Higher::After) => held.after > 0,
            Some(Higher::Neither) | None => held.before > 0 && held.after > 0,
        };
        let sizes = Both {
            before: bytes(self.sides.before, tensors.before),
            after: bytes(self.sides.after, tensors.after),
        };
        if is_live { sizes } else { Both::default() }
    }

    /// The bytes of a tensor at the compared moment of its pool; 0 if it is not live at that time.
    fn held(
        &self,
        side: Side<'_>,
        tensor: TensorId,
        id: impl Fn(&PoolPeaks) -> Option<PoolId>,
        at: impl Fn(&PoolPeaks) -> Option<Moment>,
    ) -> u64 {
        let tensors = &side.rank.tensors;
        let index = tensor.index();
        let pool = tensors.pool.get(index).copied();
        let at = self.pools.iter().find(|peaks| id(peaks) == pool).and_then(at);
        let is_live = at.is_some_and(|at| tensors.born[index] <= at && at < tensors.dies[index]);
        if is_live { bytes(side, tensor) } else { 0 }
    }

    /// The difference in pool, type or size.
    fn by_type(&self, pair: &Pair) -> Option<ChangeKind> {
        let (first, second) = (self.sides.before, self.sides.after);
        let Both { before, after } = pair.tensors;
        if pool_name(first, before) != pool_name(second, after) {
            return Some(ChangeKind::Pool);
        }
        if let (Some(a), Some(b)) = (ty(first, before), ty(second, after)) {
            if stored_dtype(first, a) != stored_dtype(second, b) {
                return Some(ChangeKind::Dtype);
            }
            if a.shape != b.shape {
                return Some(ChangeKind::Resized);
            }
            if layout(first, a) != layout(second, b) {
                return Some(ChangeKind::Layout);
            }
        }
        (size(first, before) != size(second, after)).then_some(ChangeKind::Resized)
    }
}

fn pool_name(side: Side<'_>, tensor: TensorId) -> Option<&str> {
    let pool = side.rank.tensors.pool.get(tensor.index())?;
    side.rank.pools.get(pool.index()).map(|pool| side.profile.text(pool.name))
}

/// The element type, and the one in memory.
fn stored_dtype<'a>(side: Side<'a>, ty: &TensorType) -> (&'a str, Option<&'a str>) {
    let stored = ty.layout.as_ref().map(|layout| side.profile.text(layout.stored_dtype));
    (side.profile.text(ty.dtype), stored)
}

/// How a tensor is spread over banks and cores.
#[derive(PartialEq, Eq)]
struct Spread<'a> {
    kind: Option<&'a str>,
    tile: Option<(u32, u32)>,
    shard: &'a [u64],
}

fn layout<'a>(side: Side<'a>, ty: &'a TensorType) -> Option<Spread<'a>> {
    let layout = ty.layout.as_ref()?;
    let kind = layout.spread.map(|spread| side.profile.text(spread));
    Some(Spread { kind, tile: layout.tile, shard: &layout.shard })
}

/// The difference of two lives.
fn by_life(lives: Both<Life>, is_reordered: bool) -> Option<ChangeKind> {
    let Both { before, after } = lives;
    if is_reordered {
        return Some(ChangeKind::Reordered);
    }
    match (before.dies.cmp(&after.dies), before.born.cmp(&after.born)) {
        (Ordering::Less, _) => Some(ChangeKind::FreedLater),
        (Ordering::Greater, _) => Some(ChangeKind::FreedEarlier),
        (Ordering::Equal, Ordering::Less) => Some(ChangeKind::AllocatedLater),
        (Ordering::Equal, Ordering::Greater) => Some(ChangeKind::AllocatedEarlier),
        (Ordering::Equal, Ordering::Equal) => None,
    }
}

fn life(side: Side<'_>, tensor: TensorId, steps: &[Step]) -> Life {
    let tensors = &side.rank.tensors;
    Life {
        born: place(tensors.born[tensor.index()], steps),
        dies: place(tensors.dies[tensor.index()], steps),
    }
}

fn ty(side: Side<'_>, tensor: TensorId) -> Option<&TensorType> {
    side.rank.tensors.ty.get(tensor.index()).copied().flatten().and_then(|ty| side.profile.tensor_type(ty))
}

fn size(side: Side<'_>, tensor: TensorId) -> Option<u64> {
    side.rank.tensors.per_bank.get(tensor.index()).copied().and_then(Bytes::get)
}

fn bytes(side: Side<'_>, tensor: TensorId) -> u64 {
    size(side, tensor).unwrap_or(0)
}
