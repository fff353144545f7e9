//! The timelines of both inputs on one axis, as columns for the page.
//!
//! A place of the axis is a step of one input, or corresponding steps of both. The moments in the columns count places: place
//! `i` has the moments `2i` and `2i + 1`, as a position of a profile has. Unknown values are missing, never zero.
//!
//! | table | row |
//! |---|---|
//! | `axis` | consecutive places of one `kind`: 0 both, 1 and 2 only the first or second input, 3 and 4 a step of the first or second input that the other has elsewhere |
//! | `moved` | corresponding steps with another place in the order |
//! | `before`, `after` | a step of each input: the row of its operation |
//! | `before_ops`, `after_ops` | a distinct operation of each input; the texts are those of the input |
//! | `pool.0.before`, `pool.0.after` | a change of a pool's use in each input; it is unknown after the end of the input |
//! | `changes` | a listed change: the number of its rows in the following tables |
//! | `live_before`, `live_after` | the bytes that the tensors of a change hold from a moment on |

use serde::Serialize;
use ttmem_model::{Bytes, Curve, Moment, OpId, PoolId, Profile, Rank, Step, TensorId};

use super::listed::Listed;
use super::sentences::most_changed;
use super::{Diff, PoolDiff, RankDiff};
use crate::about::Extent;
use crate::analyze::diff::{Axis, Both, Compared, PoolPeaks, Side, StretchKind};
use crate::analyze::{Account, held, oom};
use crate::timeline::{Column, Numbering, Pattern, Texts, ascending, maybe, numbers, sizes};

/// A comparison with the timelines of both inputs.
#[derive(Debug)]
pub struct AlignedDiff<'a> {
    /// The comparison.
    pub answer: Diff,
    /// Its ranks, in the same order.
    pub ranks: Vec<AlignedRank<'a>>,
}

/// A rank of both inputs on one axis.
#[derive(Debug)]
pub struct AlignedRank<'a> {
    sides: Both<Side<'a>>,
    axis: Axis,
    moved: Vec<Both<Step>>,
    outline: AlignedOutline,
    /// The use of each pool.
    pools: Vec<Both<BytesOverTime>>,
    /// The bytes that the tensors of each listed change hold.
    changes: Vec<Both<BytesOverTime>>,
}

/// Facts about a rank that are not columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct AlignedOutline {
    /// The number of places of the axis.
    pub places: u32,
    /// The place where each input ran out of memory.
    pub before_failed: Option<u32>,
    /// See `before_failed`.
    pub after_failed: Option<u32>,
    /// The pools, by number.
    pub pools: Vec<AlignedPool>,
    /// The pool to show first.
    pub first_pool: usize,
}

/// Facts about a pool that are not columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct AlignedPool {
    /// The name of the pool.
    pub name: String,
    /// The unit that its sizes refer to.
    pub extent: Extent,
    /// The granularity that the inputs round to.
    pub quantum: u64,
    /// The moment of each peak, if anything was allocated.
    pub before_peak: Option<usize>,
    /// See `before_peak`.
    pub after_peak: Option<usize>,
}

/// Bytes per bank, as changes on the axis; `None` while they are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct BytesOverTime {
    at: Vec<Moment>,
    value: Vec<Option<u64>>,
}

impl<'a> AlignedRank<'a> {
    pub(super) fn new(
        sides: &Both<Side<'a>>,
        compared: &Compared,
        changes: &Listed<'_>,
        diff: &RankDiff,
    ) -> Self {
        let axis = Axis::of(sides, &compared.alignment);
        let used = compared.pools.iter().filter(|pool| diff.pools.get(&pool.name).is_some());
        let (outlines, pools): (Vec<AlignedPool>, Vec<Both<BytesOverTime>>) =
            used.map(|pool| (pool_outline(sides, &axis, pool), curves(sides, &axis, pool))).unzip();
        let failed =
            |side: Side<'_>, places: &[u32]| places.get(oom::fatal(side.rank)?.step? as usize).copied();
        let outline = AlignedOutline {
            places: axis.len,
            before_failed: failed(sides.before, &axis.places.before),
            after_failed: failed(sides.after, &axis.places.after),
            first_pool: first_pool(&diff.pools.0, &outlines),
            pools: outlines,
        };
        let of_tensors = |tensors: &[Both<Option<TensorId>>]| Both {
            before: live_bytes(sides.before.rank, tensors.iter().filter_map(|pair| pair.before)).on(
                &axis,
                &axis.places.before,
                Some(0),
            ),
            after: live_bytes(sides.after.rank, tensors.iter().filter_map(|pair| pair.after)).on(
                &axis,
                &axis.places.after,
                Some(0),
            ),
        };
        let changes = changes.tensors().into_iter().take(diff.changes.len()).map(of_tensors).collect();
        let moved = compared.alignment.reordered.clone();
        Self { sides: *sides, axis, moved, outline, pools, changes }
    }

    /// The facts that are not columns.
    pub fn outline(&self) -> &AlignedOutline {
        &self.outline
    }

    /// The columns. `texts` are those of both profiles.
    pub fn columns(&self, texts: &mut Both<Texts<'a>>, mut emit: impl FnMut(Column)) {
        let stretches = || self.axis.stretches.iter();
        emit(numbers("axis.kind", stretches().map(|stretch| kind_number(stretch.kind))));
        emit(numbers("axis.len", stretches().map(|stretch| stretch.len.into())));
        emit(ascending("moved.before", self.moved.iter().map(|pair| pair.before.into())));
        emit(ascending("moved.after", self.moved.iter().map(|pair| pair.after.into())));
        steps("before", self.sides.before, &mut texts.before, &mut emit);
        steps("after", self.sides.after, &mut texts.after, &mut emit);
        for (number, curves) in self.pools.iter().enumerate() {
            for (name, curve) in [("before", &curves.before), ("after", &curves.after)] {
                let table = format!("pool.{number}.{name}");
                emit(moments(&format!("{table}.at"), &curve.at));
                let bytes = curve.value.iter().copied();
                emit(sizes(&format!("{table}.held"), Pattern::RepeatingSteps, bytes));
            }
        }
        live_columns("before", self.changes.iter().map(|both| &both.before), &mut emit);
        live_columns("after", self.changes.iter().map(|both| &both.after), &mut emit);
    }
}

/// What the tensors of each change hold in an input.
fn live_columns<'b>(
    name: &str,
    changes: impl Iterator<Item = &'b BytesOverTime> + Clone,
    emit: &mut impl FnMut(Column),
) {
    emit(numbers(&format!("changes.{name}"), changes.clone().map(|live| live.at.len() as u64)));
    let at = changes.clone().flat_map(|live| live.at.iter()).map(|at| at.index() as u64);
    emit(ascending(&format!("live_{name}.at"), at));
    let held = changes.flat_map(|live| live.value.iter().copied());
    emit(sizes(&format!("live_{name}.held"), Pattern::RepeatingSteps, held));
}

/// The steps of an input and their operations.
fn steps<'a>(name: &str, side: Side<'a>, texts: &mut Texts<'a>, emit: &mut impl FnMut(Column)) {
    let profile: &'a Profile = side.profile;
    let mut ops = Numbering::new(profile.ops.len(), OpId::index);
    emit(numbers(&format!("{name}.op"), side.rank.steps.op.iter().map(|op| ops.number(*op).into())));
    let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let names = ops.list.iter().map(|op| profile.ops.name(*op).map(|text| index(texts.number(text))));
    emit(maybe(&format!("{name}_ops.name"), names));
    let locs = ops.list.iter().map(|op| profile.ops.loc(*op).map(|text| index(texts.number(text))));
    emit(maybe(&format!("{name}_ops.loc"), locs));
}

fn moments(name: &str, at: &[Moment]) -> Column {
    ascending(name, at.iter().map(|at| at.index() as u64))
}

fn kind_number(kind: StretchKind) -> u64 {
    match kind {
        StretchKind::Both => 0,
        StretchKind::Before => 1,
        StretchKind::After => 2,
        StretchKind::MovedBefore => 3,
        StretchKind::MovedAfter => 4,
    }
}

/// The pool that the verdict is about. If no peak has changed, it is the one with the highest peak.
fn first_pool(pools: &[(String, PoolDiff)], outlines: &[AlignedPool]) -> usize {
    let highest = || {
        let known = pools.iter().filter(|(_, pool)| !pool.sampled);
        known.max_by_key(|(_, pool)| pool.before_per_bank)
    };
    let first = most_changed(pools).or_else(highest);
    first.and_then(|(name, _)| outlines.iter().position(|pool| pool.name == *name)).unwrap_or(0)
}

fn pool_outline(sides: &Both<Side<'_>>, axis: &Axis, pool: &PoolPeaks) -> AlignedPool {
    let of = |side: Side<'_>, id: Option<PoolId>| {
        let pool = side.rank.pools.get(id?.index())?;
        Some((pool.banks, pool.quantum))
    };
    let known = [of(sides.after, pool.ids.after), of(sides.before, pool.ids.before)];
    let peak = |at: Option<Moment>, places: &[u32]| {
        at.filter(|at| *at != Moment::NEVER).map(|at| axis.moment(places, at).index())
    };
    let at = pool.peaks.map(|peak| peak.map(|peak| peak.at));
    AlignedPool {
        name: pool.name.clone(),
        extent: Extent::of(&pool.name, known.iter().flatten().find_map(|(banks, _)| *banks)),
        quantum: known.iter().flatten().map(|(_, quantum)| *quantum).max().unwrap_or(0),
        before_peak: peak(at.before, &axis.places.before),
        after_peak: peak(at.after, &axis.places.after),
    }
}

/// The use of a pool in both inputs, with every change.
fn curves(sides: &Both<Side<'_>>, axis: &Axis, pool: &PoolPeaks) -> Both<BytesOverTime> {
    let held = |side: Side<'_>, id: Option<PoolId>, places: &[u32]| {
        let account = id.and_then(|id| Account::new(side.rank, id));
        let Curve { at, value } = account.map_or_else(Curve::default, |account| held::over_time(&account));
        BytesOverTime { at, value: value.into_iter().map(Some).collect() }.on(axis, places, None)
    };
    Both {
        before: held(sides.before, pool.ids.before, &axis.places.before),
        after: held(sides.after, pool.ids.after, &axis.places.after),
    }
}

/// The bytes per bank that tensors hold over time; unknown while the size of a live one is.
fn live_bytes(rank: &Rank, tensors: impl Iterator<Item = TensorId>) -> BytesOverTime {
    let mut events: Vec<(Moment, bool, Option<u64>)> = Vec::new();
    for index in tensors.map(TensorId::index) {
        let (Some(born), Some(dies)) = (rank.tensors.born.get(index), rank.tensors.dies.get(index)) else {
            continue;
        };
        let bytes = rank.tensors.per_bank.get(index).copied().and_then(Bytes::get);
        events.push((*born, true, bytes));
        if *dies != Moment::NEVER {
            events.push((*dies, false, bytes));
        }
    }
    events.sort_unstable();
    let (mut sum, mut unknown) = (0_u64, 0_usize);
    let mut live = BytesOverTime::default();
    for of_moment in events.chunk_by(|a, b| a.0 == b.0) {
        // In reverse, allocations come first, so that the sum never falls below zero.
        for (_, is_born, bytes) in of_moment.iter().rev() {
            match (is_born, bytes) {
                (true, Some(bytes)) => sum = sum.saturating_add(*bytes),
                (false, Some(bytes)) => sum = sum.saturating_sub(*bytes),
                (true, None) => unknown += 1,
                (false, None) => unknown = unknown.saturating_sub(1),
            }
        }
        live.at.extend(of_moment.first().map(|(at, _, _)| *at));
        live.value.push((unknown == 0).then_some(sum));
    }
    live
}

impl BytesOverTime {
    /// The same bytes, from moments of a rank to those of the axis. `end` is the value after the end of the rank.
    fn on(mut self, axis: &Axis, places: &[u32], end: Option<u64>) -> Self {
        self.at.iter_mut().for_each(|at| *at = axis.moment(places, *at));
        if let Some(at) = axis.end_of(places).filter(|_| !self.at.is_empty()) {
            self.at.push(at);
            self.value.push(end);
        }
        self
    }
}
