//! Gantt charts: calls in rows, the memory under them, and where the time went.
//!
//! A response consists of columns: each list under `calls` has one entry per call, in the order of their start times.
//! Calls, scopes and lanes are referred to by their index in these columns. Times are nanoseconds since the recording
//! began. Unknown values are null, never zero.

use serde::Serialize;
use ttmem_model::{CallEnd, Error, Nanoseconds, PoolId, Profile, Rank, Result, ScopeId, ScopeKind, StrId};

use super::about::Extent;
use super::summary::is_rank;
use super::timeline::{Column, Pattern, Texts, ascending, maybe, numbers, signed, sizes};
use crate::analyze::Account;
use crate::analyze::chain::{Chain, longest_chain};
use crate::analyze::clock::{Stretch, held_in_time};
use crate::analyze::hot_paths::{HotPath, hot_paths};
use crate::analyze::lanes::pack;
use crate::analyze::overlaps::{Overlap, overlaps};

/// Maximum length of lists.
const MAX_ROWS: usize = 100;
/// Maximum time that a browser counts exactly; a longer time range is counted in larger units.
const MAX_TIME: Nanoseconds = 1 << 51;

/// The parameters of a Gantt chart.
#[derive(Clone, Debug, Default)]
pub struct GanttRequest {
    /// The rank to include; `None` for all ranks that have calls.
    pub rank: Option<String>,
}

/// The response of `ttmem gantt`: calls over time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Gantt<'a> {
    /// The version of this format.
    pub schema: u32,
    /// The input file.
    pub file: &'a str,
    /// The input format.
    pub format: &'a str,
    /// The ranks that have calls.
    pub ranks: Vec<RankGantt<'a>>,
}

/// The calls of one rank over time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct RankGantt<'a> {
    /// Facts that are not columns.
    #[serde(flatten)]
    pub outline: Outline<'a>,
    /// The tree of scopes.
    pub scopes: ScopeColumns<'a>,
    /// The calls, as columns.
    pub calls: CallColumns<'a>,
    /// The calls of the longest chain, in order.
    pub chain_calls: Vec<usize>,
    /// The memory held by the pools.
    pub memory: Vec<MemoryColumns<'a>>,
    /// The snapshots that the program took.
    pub snapshots: SnapshotColumns<'a>,
}

/// Facts about a rank that are not columns.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "GanttOutline"))]
pub struct Outline<'a> {
    /// The rank's label.
    pub rank: Option<&'a str>,
    /// The Unix time of time 0, in nanoseconds.
    pub began_unix_ns: Option<u64>,
    /// The time of the first event.
    pub first_ns: Nanoseconds,
    /// The time of the last event.
    pub last_ns: Nanoseconds,
    /// The kinds of scopes, indexed by the numbers in `scopes.kind`.
    #[cfg_attr(feature = "typescript", ts(as = "Vec<&'static str>"))]
    pub kinds: [&'static str; ScopeKind::ALL.len()],
    /// Threads and streams.
    pub lanes: Vec<Lane<'a>>,
    /// The number of calls that were not kept individually. They are in no column, but count in the hot paths.
    pub further_calls: u64,
    /// The scopes that take the most time, first the longest.
    pub hot_paths: Vec<HotPathRow>,
    /// The longest chain of innermost calls that do not overlap.
    pub chain: ChainTotals,
    /// Scopes that ran at the same time on different lanes.
    pub overlaps: OverlapRows,
}

/// A thread or stream.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Lane<'a> {
    /// The name of the thread or stream.
    pub name: &'a str,
    /// The number of rows that its calls take.
    pub rows: u32,
}

/// The tree of scopes.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ScopeColumns<'a> {
    /// The names.
    pub name: Vec<&'a str>,
    /// The enclosing scope.
    pub parent: Vec<Option<usize>>,
    /// The kind, as an index into `kinds`.
    pub kind: Vec<usize>,
    #[serde(skip)]
    ids: Vec<StrId>,
}

/// Calls, in the order of their start times.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct CallColumns<'a> {
    /// The scope.
    pub scope: Vec<usize>,
    /// The lane.
    pub lane: Vec<usize>,
    /// The row within the lane.
    pub row: Vec<u32>,
    /// The enclosing call.
    pub parent: Vec<Option<usize>>,
    /// The start time.
    pub began_ns: Vec<Nanoseconds>,
    /// The end time.
    pub ended_ns: Vec<Option<Nanoseconds>>,
    /// Whether the call was still running when the recording ended. If it has no end time and was not running, only its
    /// start time is known.
    pub still_ran: Vec<bool>,
    /// The bytes that it allocated.
    pub allocated: Vec<Option<u64>>,
    /// The bytes that it freed.
    pub freed: Vec<Option<u64>>,
    /// The change of the memory in use.
    pub change: Vec<Option<i64>>,
    /// The highest memory use during the call, relative to its start.
    pub peak: Vec<Option<u64>>,
    /// The bytes that it allocated and did not free.
    pub kept: Vec<Option<u64>>,
    /// The source location of the call.
    pub loc: Vec<Option<&'a str>>,
    #[serde(skip)]
    loc_ids: Vec<Option<StrId>>,
}

/// A scope and the total time of its calls.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "HotPath"))]
pub struct HotPathRow {
    /// The scope.
    pub scope: usize,
    /// The name of the scope, preceded by the names of the enclosing scopes.
    pub path: String,
    /// The number of calls.
    pub count: u64,
    /// The number of calls whose duration is known.
    pub timed: u64,
    /// The total duration of these calls.
    pub total_ns: Option<Nanoseconds>,
    /// The total duration without nested calls; null also if some calls were not kept individually.
    pub own_ns: Option<Nanoseconds>,
    /// The duration of the longest call.
    pub longest_ns: Option<Nanoseconds>,
    /// The longest call, or the first if no duration is known; null if the call was not kept.
    pub longest_call: Option<usize>,
    /// The change of the memory in use over all calls.
    pub change: Option<i64>,
}

/// The longest chain of calls that do not overlap.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ChainTotals {
    /// The total duration of its calls.
    pub time_ns: Nanoseconds,
    /// The number of its calls.
    pub calls: usize,
}

/// Scopes that ran at the same time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "Overlaps"))]
pub struct OverlapRows {
    /// The total time during which two or more lanes had a running call.
    pub time_ns: Nanoseconds,
    /// The number of different sets of scopes that ran at the same time.
    pub sets: usize,
    /// The sets with the longest total time.
    pub longest: Vec<OverlapRow>,
}

/// A set of scopes that ran at the same time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "Overlap"))]
pub struct OverlapRow {
    /// The number of lanes.
    pub lanes: usize,
    /// The total duration of all intervals.
    pub time_ns: Nanoseconds,
    /// The number of intervals.
    pub count: u64,
    /// The start of the longest interval.
    pub from_ns: Nanoseconds,
    /// The end of the longest interval.
    pub until_ns: Nanoseconds,
    /// The calls that ran in the longest interval, one per lane; at most eight.
    pub calls: Vec<usize>,
}

/// The memory held by a pool over time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct MemoryColumns<'a> {
    /// The pool.
    pub pool: &'a str,
    /// The number of banks.
    pub banks: Option<u32>,
    /// The unit that its sizes refer to.
    pub extent: Extent,
    /// The granularity that the input rounds to.
    pub quantum: u64,
    /// Whether it has tensors. The memory of the process is also a pool, but has none.
    #[serde(skip)]
    pub has_tensors: bool,
    /// The times of the changes.
    pub at_ns: Vec<Nanoseconds>,
    /// The bytes per bank after each change. Of several changes at one time, the highest and the last are included.
    pub per_bank: Vec<u64>,
}

/// The snapshots that the program took.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct SnapshotColumns<'a> {
    /// The names that the program gave.
    pub name: Vec<Option<&'a str>>,
    /// The times of the snapshots.
    pub at_ns: Vec<Nanoseconds>,
    #[serde(skip)]
    ids: Vec<Option<StrId>>,
}

/// The calls of a profile over time.
pub fn gantt<'a>(profile: &'a Profile, request: &GanttRequest) -> Result<Gantt<'a>> {
    let file = profile.source.file.as_str();
    let with_calls = || profile.ranks.iter().filter(|rank| !rank.calls.is_empty());
    let label = |rank: &'a Rank| rank.label.map(|label| profile.text(label));
    if with_calls().next().is_none() {
        return Err(no_calls(file));
    }
    let wanted = |rank: &&'a Rank| request.rank.as_deref().is_none_or(|wanted| is_rank(label(rank), wanted));
    let ranks: Vec<RankGantt<'a>> =
        with_calls().filter(wanted).filter_map(|rank| RankGantt::new(profile, rank)).collect();
    if ranks.is_empty() {
        let names: Vec<&str> = with_calls().map(|rank| label(rank).unwrap_or("0")).collect();
        let wanted = request.rank.as_deref().unwrap_or_default();
        return Err(Error::NotFound(format!(
            "no rank {wanted} with timed operations; available ranks are {}",
            names.join("; ")
        )));
    }
    Ok(Gantt { schema: 1, file, format: &profile.source.format, ranks })
}

fn no_calls(file: &str) -> Error {
    Error::NoMemoryData {
        file: file.to_owned(),
        message:
            "no timed operations; use a recording (`ttmem track SCRIPT`) or a memory_profile_*.json with \
                  operation_allocations"
                .into(),
    }
}

impl<'a> RankGantt<'a> {
    /// The calls of a rank over time; `None` if it has none.
    pub fn new(profile: &'a Profile, rank: &'a Rank) -> Option<Self> {
        if rank.calls.is_empty() {
            return None;
        }
        let stretch = Stretch::of(rank)?;
        let order = Order::new(rank);
        let Chain { time, calls: chain } = longest_chain(rank);
        let found = overlaps(rank);
        let path = |path: &HotPath| HotPathRow::new(profile, rank, &order, path);
        let packing = pack(rank);
        let lane = |(name, rows): (&StrId, &u32)| Lane { name: profile.text(*name), rows: *rows };
        let outline = Outline {
            rank: rank.label.map(|label| profile.text(label)),
            began_unix_ns: rank.began,
            first_ns: stretch.first,
            last_ns: stretch.last,
            kinds: ScopeKind::ALL.map(ScopeKind::as_str),
            lanes: rank.lanes.iter().zip(&packing.rows).map(lane).collect(),
            further_calls: rank
                .further_calls
                .values()
                .fold(0, |sum, totals| sum.saturating_add(totals.count)),
            hot_paths: hot_paths(rank).iter().take(MAX_ROWS).map(path).collect(),
            chain: ChainTotals { time_ns: time, calls: chain.len() },
            overlaps: OverlapRows {
                time_ns: found.time,
                sets: found.sets.len(),
                longest: found.sets.iter().take(MAX_ROWS).map(|set| order.overlap(set)).collect(),
            },
        };
        let pools = (0..rank.pools.len()).filter_map(PoolId::new);
        Some(Self {
            outline,
            scopes: ScopeColumns::new(profile, rank),
            calls: CallColumns::new(profile, rank, &order, &packing.row),
            chain_calls: chain.into_iter().map(|call| order.number[call]).collect(),
            memory: pools.filter_map(|pool| MemoryColumns::new(profile, rank, pool)).collect(),
            snapshots: SnapshotColumns::new(profile, rank),
        })
    }

    /// The time unit of the columns: one nanosecond, or more if the time range is too long for a browser's numbers.
    pub fn unit(&self) -> Nanoseconds {
        let length = self.outline.last_ns - self.outline.first_ns;
        (length / MAX_TIME + 1).next_power_of_two()
    }

    /// Emits all columns for the page. Their times are relative to the first event, in [`unit`](Self::unit)s.
    pub fn columns(&self, texts: &mut Texts<'a>, mut emit: impl FnMut(Column)) {
        let (first, unit) = (self.outline.first_ns, self.unit());
        let since = |time: Nanoseconds| Some(time.saturating_sub(first) / unit);
        let Self { scopes, calls, .. } = self;
        emit(numbers("scopes.name", scopes.ids.iter().map(|id| texts.number(*id))));
        emit(maybe("scopes.parent", scopes.parent.iter().copied()));
        emit(numbers("scopes.kind", scopes.kind.iter().map(|kind| *kind as u64)));
        emit(numbers("calls.scope", calls.scope.iter().map(|scope| *scope as u64)));
        emit(numbers("calls.lane", calls.lane.iter().map(|lane| *lane as u64)));
        emit(numbers("calls.row", calls.row.iter().map(|row| u64::from(*row))));
        let back = calls.parent.iter().enumerate();
        // Parents are close, so the distance is a smaller number than the index. A parent that began later is dropped.
        emit(maybe(
            "calls.parent_back",
            back.map(|(call, parent)| call.checked_sub((*parent)?).filter(|back| *back > 0)),
        ));
        let times = |name: &str, values: &[Nanoseconds]| {
            sizes(name, Pattern::Ascending, values.iter().map(|time| since(*time)))
        };
        emit(times("calls.began", &calls.began_ns));
        let took = calls.began_ns.iter().zip(&calls.ended_ns).map(|(began, ended)| Some((*ended)? - began));
        emit(sizes("calls.took", Pattern::Scattered, took.map(|took| Some(took? / unit))));
        emit(numbers("calls.still_ran", calls.still_ran.iter().map(|ran| u64::from(*ran))));
        let mut bytes = |name: &str, values: &[Option<u64>]| {
            emit(sizes(name, Pattern::Repeating, values.iter().copied()));
        };
        bytes("calls.allocated", &calls.allocated);
        bytes("calls.freed", &calls.freed);
        bytes("calls.peak", &calls.peak);
        bytes("calls.kept", &calls.kept);
        emit(signed("calls.change", calls.change.iter().copied()));
        let mut text =
            |id: &Option<StrId>| id.map(|id| usize::try_from(texts.number(id)).unwrap_or(usize::MAX));
        emit(maybe("calls.loc", calls.loc_ids.iter().map(&mut text)));
        emit(maybe("snapshots.name", self.snapshots.ids.iter().map(&mut text)));
        emit(times("snapshots.at", &self.snapshots.at_ns));
        emit(ascending("chain.call", self.chain_calls.iter().map(|call| *call as u64)));
        for (number, memory) in self.memory.iter().enumerate() {
            emit(times(&format!("memory.{number}.at"), &memory.at_ns));
            let bytes = memory.per_bank.iter().copied().map(Some);
            emit(sizes(&format!("memory.{number}.per_bank"), Pattern::RepeatingSteps, bytes));
        }
    }
}

/// The calls in the order of their start times.
struct Order {
    calls: Vec<usize>,
    /// The position of each call in that order.
    number: Vec<usize>,
}

impl Order {
    fn new(rank: &Rank) -> Self {
        let mut calls: Vec<usize> = (0..rank.calls.len()).collect();
        calls.sort_by_key(|&call| rank.calls.began[call]);
        let mut number = vec![0; calls.len()];
        for (place, &call) in calls.iter().enumerate() {
            number[call] = place;
        }
        Self { calls, number }
    }

    fn overlap(&self, set: &Overlap) -> OverlapRow {
        OverlapRow {
            lanes: set.lanes,
            time_ns: set.time,
            count: set.count,
            from_ns: set.longest.0,
            until_ns: set.longest.1,
            calls: set.calls.iter().map(|call| self.number[*call]).collect(),
        }
    }
}

impl HotPathRow {
    fn new(profile: &Profile, rank: &Rank, order: &Order, path: &HotPath) -> Self {
        let is_timed = path.timed > 0;
        Self {
            scope: path.scope.index(),
            path: path_of(profile, rank, path.scope),
            count: path.count,
            timed: path.timed,
            total_ns: is_timed.then_some(path.total),
            own_ns: path.own.filter(|_| is_timed),
            longest_ns: is_timed.then_some(path.longest),
            longest_call: path.longest_call.map(|call| order.number[call]),
            change: path.change,
        }
    }
}

/// Maximum number of enclosing scopes to name.
const MAX_DEPTH: usize = 32;

/// The names of the enclosing scopes, outermost first, and the name of the scope itself.
fn path_of(profile: &Profile, rank: &Rank, scope: ScopeId) -> String {
    let mut names = Vec::new();
    let mut next = Some(scope);
    while let Some(row) = next.and_then(|scope| rank.scopes.get(scope.index())) {
        if names.len() == MAX_DEPTH {
            names.push("…");
            break;
        }
        names.push(profile.text(row.name));
        next = row.parent;
    }
    names.reverse();
    names.join(" › ")
}

impl<'a> ScopeColumns<'a> {
    fn new(profile: &'a Profile, rank: &Rank) -> Self {
        let scopes = &rank.scopes;
        let kind = |kind: &ScopeKind| ScopeKind::ALL.iter().position(|known| known == kind).unwrap_or(0);
        Self {
            name: scopes.name.iter().map(|name| profile.text(*name)).collect(),
            parent: scopes.parent.iter().map(|parent| parent.map(ScopeId::index)).collect(),
            kind: scopes.kind.iter().map(kind).collect(),
            ids: scopes.name.clone(),
        }
    }
}

impl<'a> CallColumns<'a> {
    fn new(profile: &'a Profile, rank: &Rank, order: &Order, rows: &[u32]) -> Self {
        let mut columns = Self::default();
        for &number in &order.calls {
            let Some(call) = rank.calls.get(number) else { continue };
            let end = rank.call_end(number);
            let loc = call.op.and_then(|op| profile.ops.loc(op));
            columns.scope.push(call.scope.index());
            columns.lane.push(call.lane.index());
            columns.row.push(rows[number]);
            columns.parent.push(call.parent.map(|parent| order.number[parent.index()]));
            columns.began_ns.push(call.began);
            columns.ended_ns.push(if let CallEnd::At(end) = end { Some(end) } else { None });
            columns.still_ran.push(end == CallEnd::Open);
            columns.allocated.push(call.outcome.map(|outcome| outcome.allocated));
            columns.freed.push(call.outcome.map(|outcome| outcome.freed));
            columns.change.push(rank.call_change(number));
            columns.peak.push(call.outcome.map(|outcome| outcome.peak));
            columns.kept.push(call.outcome.map(|outcome| outcome.kept));
            columns.loc.push(loc.map(|loc| profile.text(loc)));
            columns.loc_ids.push(loc);
        }
        columns
    }
}

impl<'a> MemoryColumns<'a> {
    fn new(profile: &'a Profile, rank: &Rank, id: PoolId) -> Option<Self> {
        let account = Account::new(rank, id)?;
        let curve = held_in_time(&account);
        (!curve.at.is_empty()).then(|| Self {
            pool: profile.text(account.pool.name),
            banks: account.pool.banks,
            extent: Extent::of(profile.text(account.pool.name), account.pool.banks),
            quantum: account.pool.quantum,
            has_tensors: rank.tensors.pool.contains(&id),
            at_ns: curve.at,
            per_bank: curve.value,
        })
    }
}

impl<'a> SnapshotColumns<'a> {
    fn new(profile: &'a Profile, rank: &Rank) -> Self {
        let mut snapshots = rank.snapshots.clone();
        snapshots.sort_by_key(|snapshot| snapshot.time);
        Self {
            name: snapshots.iter().map(|snapshot| snapshot.name.map(|name| profile.text(name))).collect(),
            at_ns: snapshots.iter().map(|snapshot| snapshot.time).collect(),
            ids: snapshots.iter().map(|snapshot| snapshot.name).collect(),
        }
    }
}
