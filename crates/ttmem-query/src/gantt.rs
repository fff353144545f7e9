//! What ran when: calls in rows, the memory under them, and where the time went.
//!
//! A response is columns: each list under `calls` has a row a call, in the order in which they began. Numbers of calls,
//! scopes and lanes are rows of their columns. Times are nanoseconds since the recording began. What is not known is
//! null, never zero.

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

/// So many rows lists have.
const MOST: usize = 100;
/// Browsers count exactly up to here; a longer stretch of time is counted in larger units.
const LONGEST: Nanoseconds = 1 << 51;

/// What is asked.
#[derive(Clone, Debug, Default)]
pub struct GanttRequest {
    /// Which rank, instead of all that have calls.
    pub rank: Option<String>,
}

/// What ran when.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Gantt<'a> {
    /// The version of this answer.
    pub schema: u32,
    /// The file.
    pub file: &'a str,
    /// Its format.
    pub format: &'a str,
    /// The ranks that have calls.
    pub ranks: Vec<RankGantt<'a>>,
}

/// What ran when, on one rank.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct RankGantt<'a> {
    /// What is said besides the columns.
    #[serde(flatten)]
    pub outline: Outline<'a>,
    /// The tree of what the program does.
    pub scopes: ScopeColumns<'a>,
    /// What it did.
    pub calls: CallColumns<'a>,
    /// The calls of the longest chain, in order.
    pub chain_calls: Vec<usize>,
    /// What the pools held.
    pub memory: Vec<MemoryColumns<'a>>,
    /// The moments that somebody wanted to look at.
    pub snapshots: SnapshotColumns<'a>,
}

/// What is said of a rank besides its columns.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "GanttOutline"))]
pub struct Outline<'a> {
    /// The label of the rank.
    pub rank: Option<&'a str>,
    /// When time 0 was, in nanoseconds of Unix time.
    pub began_unix_ns: Option<u64>,
    /// When the first thing happened.
    pub first_ns: Nanoseconds,
    /// When the last thing happened.
    pub last_ns: Nanoseconds,
    /// The kinds of scopes, by the numbers that `scopes.kind` has.
    #[cfg_attr(feature = "typescript", ts(as = "Vec<&'static str>"))]
    pub kinds: [&'static str; ScopeKind::ALL.len()],
    /// Threads and streams.
    pub lanes: Vec<Lane<'a>>,
    /// Calls that are not kept one by one: they are in no column, but in the hot paths.
    pub further_calls: u64,
    /// The scopes that take most time, the first most.
    pub hot_paths: Vec<HotPathRow>,
    /// The longest chain of innermost calls of which none overlaps another.
    pub chain: ChainTotals,
    /// What ran at once on different lanes.
    pub overlaps: OverlapRows,
}

/// A thread or stream.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Lane<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many rows its calls take.
    pub rows: u32,
}

/// The tree of what a program does.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ScopeColumns<'a> {
    /// Names.
    pub name: Vec<&'a str>,
    /// Inside of which scope.
    pub parent: Vec<Option<usize>>,
    /// What it is.
    pub kind: Vec<usize>,
    #[serde(skip)]
    ids: Vec<StrId>,
}

/// Calls in the order in which they began.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct CallColumns<'a> {
    /// The scope.
    pub scope: Vec<usize>,
    /// The lane.
    pub lane: Vec<usize>,
    /// The row within the lane.
    pub row: Vec<u32>,
    /// Inside of which call.
    pub parent: Vec<Option<usize>>,
    /// When it began.
    pub began_ns: Vec<Nanoseconds>,
    /// When it ended.
    pub ended_ns: Vec<Option<Nanoseconds>>,
    /// Whether it still ran when the recording ended. One that neither ended nor ran is known by its time only.
    pub still_ran: Vec<bool>,
    /// What it allocated.
    pub allocated: Vec<Option<u64>>,
    /// What it gave back.
    pub freed: Vec<Option<u64>>,
    /// By how much there was more after it than before.
    pub change: Vec<Option<i64>>,
    /// The most that it held above what was there when it began.
    pub peak: Vec<Option<u64>>,
    /// What it allocated and did not give back.
    pub kept: Vec<Option<u64>>,
    /// Where it is called from.
    pub loc: Vec<Option<&'a str>>,
    #[serde(skip)]
    loc_ids: Vec<Option<StrId>>,
}

/// A scope that takes time.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "HotPath"))]
pub struct HotPathRow {
    /// The scope.
    pub scope: usize,
    /// Its name, after those of the scopes around it.
    pub path: String,
    /// How often it was called.
    pub count: u64,
    /// Of how many calls it is known how long they took.
    pub timed: u64,
    /// How long those took together.
    pub total_ns: Option<Nanoseconds>,
    /// The same without the calls inside of them; null, too, where some are not kept one by one.
    pub own_ns: Option<Nanoseconds>,
    /// The longest.
    pub longest_ns: Option<Nanoseconds>,
    /// Which call that was; the first, where no length is known; null where it is not kept.
    pub longest_call: Option<usize>,
    /// By how much they left more memory in use.
    pub change: Option<i64>,
}

/// The longest chain of calls without overlap.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ChainTotals {
    /// How long its calls take together.
    pub time_ns: Nanoseconds,
    /// How many calls there are in it.
    pub calls: usize,
}

/// What ran at once.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "Overlaps"))]
pub struct OverlapRows {
    /// How long two or more lanes were in calls.
    pub time_ns: Nanoseconds,
    /// How many different sets of scopes ran at once.
    pub sets: usize,
    /// Those that lasted longest.
    pub longest: Vec<OverlapRow>,
}

/// Scopes that ran at once.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "Overlap"))]
pub struct OverlapRow {
    /// How many lanes.
    pub lanes: usize,
    /// How long, all together.
    pub time_ns: Nanoseconds,
    /// How many times.
    pub count: u64,
    /// When the longest time began.
    pub from_ns: Nanoseconds,
    /// When it ended.
    pub until_ns: Nanoseconds,
    /// The calls that ran then, one of each lane, eight at most.
    pub calls: Vec<usize>,
}

/// What a pool held.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct MemoryColumns<'a> {
    /// The pool.
    pub pool: &'a str,
    /// In how many banks it lies.
    pub banks: Option<u32>,
    /// What its sizes are sizes of.
    pub extent: Extent,
    /// The step of rounding.
    pub quantum: u64,
    /// Whether there are tensors in it: the memory of a process is a pool, too, and nobody's bytes are named there.
    #[serde(skip)]
    pub has_tensors: bool,
    /// When it changed.
    pub at_ns: Vec<Nanoseconds>,
    /// To what, in each bank. Of several changes at one time the highest and the last are here.
    pub per_bank: Vec<u64>,
}

/// Moments that somebody wanted to look at.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct SnapshotColumns<'a> {
    /// What they are called.
    pub name: Vec<Option<&'a str>>,
    /// When.
    pub at_ns: Vec<Nanoseconds>,
    #[serde(skip)]
    ids: Vec<Option<StrId>>,
}

/// What ran when.
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
        return Err(Error::NotThere(format!(
            "there is no rank {wanted} with calls: there are {}",
            names.join(", ")
        )));
    }
    Ok(Gantt { schema: 1, file, format: &profile.source.format, ranks })
}

fn no_calls(file: &str) -> Error {
    Error::NoMemoryData {
        file: file.to_owned(),
        message: "there are no operations with times in it, so there is nothing to draw; a recording has them \
                  where the program was tracked from Python (`with tracker.track_operation(name)`), and so has \
                  a memory_profile_*.json with operation_allocations"
            .into(),
    }
}

impl<'a> RankGantt<'a> {
    /// What ran when on a rank; `None` where it has no calls.
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
            hot_paths: hot_paths(rank).iter().take(MOST).map(path).collect(),
            chain: ChainTotals { time_ns: time, calls: chain.len() },
            overlaps: OverlapRows {
                time_ns: found.time,
                sets: found.sets.len(),
                longest: found.sets.iter().take(MOST).map(|set| order.overlap(set)).collect(),
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

    /// In which unit the columns count time: nanoseconds, but where a stretch is so long that a browser could not.
    pub fn unit(&self) -> Nanoseconds {
        let length = self.outline.last_ns - self.outline.first_ns;
        (length / LONGEST + 1).next_power_of_two()
    }

    /// Makes all columns for the page. Times in them are since the first thing happened, in [`unit`](Self::unit)s.
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
        // Parents are near: how far back is a smaller number than which. One that began later is none.
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

/// The order in which calls began.
struct Order {
    calls: Vec<usize>,
    /// The place of each call of the model in it.
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

/// More scopes around a scope than this are not named.
const DEEPEST: usize = 32;

/// The names of the scopes around one, the outermost first, and its own.
fn path_of(profile: &Profile, rank: &Rank, scope: ScopeId) -> String {
    let mut names = Vec::new();
    let mut next = Some(scope);
    while let Some(row) = next.and_then(|scope| rank.scopes.get(scope.index())) {
        if names.len() == DEEPEST {
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
