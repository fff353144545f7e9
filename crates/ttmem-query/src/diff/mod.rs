//! `ttmem diff`: what changed between two profiles. docs/diff.md documents every field.
//!
//! All sizes are in bytes per bank; a GPU has one bank.

mod aligned;
mod comparable;
mod counted;
mod groups;
mod limit;
mod listed;
mod out_of_memory;
mod overlaps;
mod phases;
mod sentences;
mod side;

pub use aligned::{AlignedDiff, AlignedOutline, AlignedPool, AlignedRank};
pub(crate) use counted::compared;
pub use limit::{GrowthLimit, OverLimit, UnknownGrowth};
pub use out_of_memory::{OutOfMemory, OutOfMemoryDiff};
pub use overlaps::{OverlapRow, OverlappedTensor, OverlappedTensors};

use serde::Serialize;
use ttmem_model::{Class, Error, PoolId, Position, Profile, Rank, Result, Step, difference};

use self::listed::Listed;
use super::named::Named;
use crate::analyze::Account;
use crate::analyze::diff::{Both, ChangeKind, Compared, Higher, PoolPeaks, Side, compare};
use crate::analyze::live;

/// What to compare.
#[derive(Clone, Debug, Default)]
pub struct DiffRequest {
    /// The rank; `None` for all.
    pub rank: Option<String>,
    /// The maximum number of changes to list; `None` for all. The sums include the others.
    pub top: Option<usize>,
}

/// The response of `ttmem diff`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Diff {
    /// The version of this format.
    pub schema: u32,
    /// The first input.
    pub before: DiffSource,
    /// The second input.
    pub after: DiffSource,
    /// The ranks that both inputs have: first those that only run out of memory in the second one, then the largest growth.
    pub ranks: Vec<RankDiff>,
    /// The labels of ranks that only the first input has.
    pub only_before: Vec<String>,
    /// The labels of ranks that only the second input has.
    pub only_after: Vec<String>,
}

/// An input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct DiffSource {
    /// The file.
    pub file: String,
    /// Its format.
    pub format: String,
}

/// The differences of a rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct RankDiff {
    /// The label of the rank.
    pub rank: Option<String>,
    /// The most important difference, and before it a sentence about out-of-memory errors.
    pub verdict: String,
    /// The out-of-memory error that ended each input.
    pub out_of_memory: OutOfMemoryDiff,
    /// The pools, by name.
    pub pools: Named<PoolDiff>,
    /// The operations, without deallocations.
    pub operations: OperationsDiff,
    /// The changes, the largest effect on a peak first. Similar tensors are one row.
    pub changes: Vec<ChangeRow>,
    /// The number of changes that are not listed.
    pub further_changes: usize,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct PoolDiff {
    /// The peak of the first input; `None` if it is unknown, or the input does not have the pool.
    pub before_per_bank: Option<u64>,
    /// The peak of the second input.
    pub after_per_bank: Option<u64>,
    /// The difference of the peaks.
    pub change_per_bank: Option<i64>,
    /// The position of each peak.
    pub before_step: Option<Position>,
    /// See `before_step`.
    pub after_step: Option<Position>,
    /// The input whose peak explains the changes: `before` or `after`, the one with the higher peak.
    pub compared_at: &'static str,
    /// The sum of all changes at that peak.
    pub explained_per_bank: i64,
    /// The classes of tensors at the peak of each input.
    pub by_class: Vec<ClassDiff>,
    /// The number of banks, if both inputs have the same.
    pub banks: Option<u32>,
    /// Whether the pool was only sampled, as the memory of the process is: small differences mean nothing if there are other pools.
    pub sampled: bool,
}

/// A class of tensors at the peaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ClassDiff {
    /// The class.
    pub class: Class,
    /// Its size at the peak of the first input.
    pub before_per_bank: u64,
    /// Its size at the peak of the second input.
    pub after_per_bank: u64,
}

/// The operations of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct OperationsDiff {
    /// The number of operations in the first input.
    pub before: usize,
    /// The number of operations in the second input.
    pub after: usize,
    /// Operations that only the second input has.
    pub added: usize,
    /// Operations that only the first input has.
    pub removed: usize,
    /// Operations with another place in the order.
    pub reordered: usize,
}

/// A change of one tensor or of several similar ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ChangeRow {
    /// The kind of change.
    pub kind: ChangeKind,
    /// The number of tensors.
    pub tensors: usize,
    /// Which tensors: `12 × layers.*.mlp`, `model.embed.weight`.
    pub title: String,
    /// What is different: `4x128 → 8x128`.
    pub detail: String,
    /// The pool; that of the second input, if they differ.
    pub pool: String,
    /// The pool of the first input, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<MovedFrom>,
    /// The class; that of the second input, if they differ.
    pub class: Class,
    /// The effect on the compared peak of the pool.
    pub effect_per_bank: i64,
    /// The size of the tensors in the first input.
    pub before_per_bank: u64,
    /// The size of the tensors in the second input.
    pub after_per_bank: u64,
    /// Tensors at the compared peak that these overlap in the second input only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now_overlaps: Option<OverlapRow>,
    /// Tensors at the compared peak that these overlap in the first input only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_longer_overlaps: Option<OverlapRow>,
    /// The first of the tensors in the first input.
    pub before: Option<TensorSide>,
    /// The first of the tensors in the second input.
    pub after: Option<TensorSide>,
}

/// The pool that tensors have left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct MovedFrom {
    /// The pool.
    pub pool: String,
    /// The effect on its compared peak.
    pub effect_per_bank: i64,
}

/// A tensor of an input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct TensorSide {
    /// Its name.
    pub name: Option<String>,
    /// The operation that allocates it.
    pub op: Option<String>,
    /// The location of that operation.
    pub loc: Option<String>,
    /// The module or other part of the program that allocates it.
    pub made_in: Option<String>,
    /// Its shape.
    pub shape: Option<Vec<u64>>,
    /// Its element type.
    pub dtype: Option<String>,
    /// Its memory layout.
    pub layout: Option<String>,
    /// Its size.
    pub per_bank: Option<u64>,
    /// The step that allocates it.
    pub born_step: Option<Step>,
    /// The first position without it; `None` if it is not.
    pub freed_before_step: Option<Position>,
}

/// Compares two profiles.
pub fn diff(before: &Profile, after: &Profile, request: &DiffRequest) -> Result<Diff> {
    Ok(diff_with(before, after, request, |_, _, _, _| ())?.0)
}

/// Compares two profiles, and puts the timelines of each rank on one axis.
pub fn aligned_diff<'a>(
    before: &'a Profile,
    after: &'a Profile,
    request: &DiffRequest,
) -> Result<AlignedDiff<'a>> {
    let (answer, ranks) = diff_with(before, after, request, AlignedRank::new)?;
    Ok(AlignedDiff { answer, ranks })
}

/// Compares two profiles, and computes more from each comparison of two ranks. The results are in the order of the ranks.
fn diff_with<'a, More>(
    before: &'a Profile,
    after: &'a Profile,
    request: &DiffRequest,
    more: impl Fn(&Both<Side<'a>>, &Compared, &Listed<'_>, &RankDiff) -> More,
) -> Result<(Diff, Vec<More>)> {
    let found = diff_ranks(before, after, request, more)?;
    comparable::something_compared(before, after, &found.0)?;
    Ok(found)
}

/// Like [`diff`], but also if no rank has anything that can be compared.
pub(crate) fn diff_or_nothing(before: &Profile, after: &Profile, request: &DiffRequest) -> Result<Diff> {
    Ok(diff_ranks(before, after, request, |_, _, _, _| ())?.0)
}

fn diff_ranks<'a, More>(
    before: &'a Profile,
    after: &'a Profile,
    request: &DiffRequest,
    more: impl Fn(&Both<Side<'a>>, &Compared, &Listed<'_>, &RankDiff) -> More,
) -> Result<(Diff, Vec<More>)> {
    comparable::same_vendor(before, after)?;
    let wanted = |label: Option<&str>| {
        request.rank.as_deref().is_none_or(|rank| label == Some(rank) || (label.is_none() && rank == "0"))
    };
    let (mut ranks, mut only_before) = (Vec::new(), Vec::new());
    let mut others: Vec<&Rank> = content(after).collect();
    let is_single = others.len() == 1 && content(before).count() == 1;
    for rank in content(before) {
        let label = label(before, rank);
        let same = others.iter().position(|other| is_single || self::label(after, other) == label);
        match same.map(|index| others.remove(index)) {
            Some(other) if wanted(label) => {
                let sides = Both {
                    before: Side { profile: before, rank },
                    after: Side { profile: after, rank: other },
                };
                ranks.push(of_rank(&sides, request.top, &more));
            }
            Some(_) => {}
            None => only_before.push(label.unwrap_or("0").to_owned()),
        }
    }
    if ranks.is_empty() {
        return Err(Error::NotFound("no rank is in both inputs; `ttmem summary` lists their ranks".into()));
    }
    let growth = |rank: &RankDiff| rank.pools.iter().filter_map(|(_, pool)| pool.change_per_bank).max();
    ranks.sort_by_key(|(rank, _)| std::cmp::Reverse((rank.out_of_memory.is_new(), growth(rank))));
    let only_after = others.iter().map(|rank| label(after, rank).unwrap_or("0").to_owned()).collect();
    let (ranks, more) = ranks.into_iter().unzip();
    let (before, after) = (source(before), source(after));
    Ok((Diff { schema: 1, before, after, ranks, only_before, only_after }, more))
}

fn content(profile: &Profile) -> impl Iterator<Item = &Rank> {
    profile.ranks.iter().filter(|rank| rank.has_content())
}

fn label<'a>(profile: &'a Profile, rank: &Rank) -> Option<&'a str> {
    rank.label.map(|label| profile.text(label))
}

fn source(profile: &Profile) -> DiffSource {
    DiffSource { file: profile.source.file.clone(), format: profile.source.format.clone() }
}

fn of_rank<'a, More>(
    sides: &Both<Side<'a>>,
    top: Option<usize>,
    more: impl Fn(&Both<Side<'a>>, &Compared, &Listed<'_>, &RankDiff) -> More,
) -> (RankDiff, More) {
    let compared = compare(sides);
    let operations = operations(sides, &compared);
    let (all, pools) = Listed::of(sides, &compared, operations);
    let out_of_memory = OutOfMemoryDiff::of(sides);
    let verdict = sentences::verdict(&out_of_memory, &pools, &all, operations);
    let label_of = |side: Side<'a>| label(side.profile, side.rank);
    let rank = label_of(sides.before).or_else(|| label_of(sides.after)).map(str::to_owned);
    let changes = all.rows(top.unwrap_or(usize::MAX));
    let further_changes = all.len() - changes.len();
    let diff =
        RankDiff { rank, verdict, out_of_memory, pools: Named(pools), operations, changes, further_changes };
    let more = more(sides, &compared, &all, &diff);
    (diff, more)
}

fn operations(sides: &Both<Side<'_>>, compared: &Compared) -> OperationsDiff {
    let count = |side: Side<'_>| {
        let ops = side.rank.steps.op.iter();
        ops.filter(|op| side.profile.ops.kind(**op).is_reported()).count()
    };
    let alignment = &compared.alignment;
    OperationsDiff {
        before: count(sides.before),
        after: count(sides.after),
        added: alignment.unmatched.after.len(),
        removed: alignment.unmatched.before.len(),
        reordered: alignment.reordered.len(),
    }
}

fn pool(sides: &Both<Side<'_>>, peaks: &PoolPeaks, explained_per_bank: i64) -> PoolDiff {
    let per_bank = peaks.peaks.map(|peak| peak.map(|peak| peak.per_bank));
    // A pool that an input does not mention, or never uses, has no peak there.
    let known = Both {
        before: per_bank.before.or_else(|| peaks.ids.before.map(|_| 0)),
        after: per_bank.after.or_else(|| peaks.ids.after.map(|_| 0)),
    };
    let step = peaks.peaks.map(|peak| peak.map(|peak| peak.at.position()));
    let of = |side: Side<'_>, id: Option<PoolId>| {
        id.and_then(|id| side.rank.pools.get(id.index()))
            .map(|pool| (pool.banks, pool.sampled.is_some() || is_polled(side, id)))
    };
    let pools = [of(sides.before, peaks.ids.before), of(sides.after, peaks.ids.after)];
    let banks: Vec<u32> = pools.iter().flatten().filter_map(|(banks, _)| *banks).collect();
    PoolDiff {
        before_per_bank: known.before,
        after_per_bank: known.after,
        change_per_bank: known.before.zip(known.after).map(|(before, after)| difference(after, before)),
        before_step: step.before,
        after_step: step.after,
        compared_at: if peaks.higher == Higher::Before { "before" } else { "after" },
        explained_per_bank,
        by_class: by_class(sides, peaks),
        banks: banks.first().copied().filter(|first| banks.iter().all(|other| other == first)),
        sampled: pools.iter().flatten().any(|(_, sampled)| *sampled),
    }
}

/// Whether a pool of a recording is a counter that was polled, while the tensors of other pools are known.
fn is_polled(side: Side<'_>, id: Option<PoolId>) -> bool {
    let tensors = &side.rank.tensors;
    side.rank.began.is_some() && !tensors.is_empty() && !tensors.pool.iter().any(|pool| Some(*pool) == id)
}

fn by_class(sides: &Both<Side<'_>>, peaks: &PoolPeaks) -> Vec<ClassDiff> {
    let sums = |side: Side<'_>, id: Option<PoolId>, peak: Option<crate::analyze::peak::Peak>| {
        let account = Account::new(side.rank, id?)?;
        Some(live::live_set(side.rank, account.id, peak?.at)?.by_class)
    };
    let before = sums(sides.before, peaks.ids.before, peaks.peaks.before).unwrap_or_default();
    let after = sums(sides.after, peaks.ids.after, peaks.peaks.after).unwrap_or_default();
    let row = |class: Class| ClassDiff {
        class,
        before_per_bank: before.get(&class).copied().unwrap_or(0),
        after_per_bank: after.get(&class).copied().unwrap_or(0),
    };
    let rows = Class::ALL.into_iter().map(row);
    rows.filter(|row| row.before_per_bank > 0 || row.after_per_bank > 0).collect()
}
