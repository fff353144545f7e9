//! Growth: whether every iteration of a program needs more memory than the one before, and what it leaves behind.

use serde::Serialize;
use ttmem_model::words::by_count;
use ttmem_model::{Class, CurveKind, Error, PoolId, Profile, Rank, Result, Step, StepNumber};

use super::about::Extent;
use super::holders::{MainHolder, main_holder};
use super::phases;
use super::statement::Statement;
use super::words::{brief_line, brief_sentence, one_line, size};
use crate::analyze::growth::{self as analysis, Grown, Iterations, Kind, Origin, Unit};
use crate::analyze::main_pool::main_pool;
use crate::analyze::scopes::Alike;
use crate::analyze::{Account, Span, peak};

/// Maximum number of origins in a response.
const MAX_SURVIVORS: usize = 10;
/// Maximum number of characters of a name or location from the input in a sentence.
const MAX_CHARS: usize = 60;
/// Maximum number of characters of references in a sentence.
const MAX_CHAIN: usize = 300;

/// Whether memory grows from iteration to iteration, and what stays.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct GrowthSummary {
    /// Whether memory grows, and whether that is expected.
    pub verdict: GrowthVerdict,
    /// What an iteration is.
    pub unit: GrowthUnit,
    /// The program, part of the program, operation or phase that marks an iteration.
    pub of: Option<String>,
    /// The number of iterations.
    pub iterations: usize,
    /// The pool that grows; the main pool if none does. Null if the input has phases only.
    pub pool: Option<String>,
    /// The bytes per bank that an iteration adds.
    pub per_iteration_per_bank: Option<u64>,
    /// The bytes on the device that an iteration adds.
    pub per_iteration_bytes: Option<u64>,
    /// The first iteration that leaves memory behind, from 1; null if memory does not grow.
    pub since_iteration: Option<usize>,
    /// The number of iterations that growth was measured over.
    pub measured_iterations: usize,
    /// The number of iterations until the memory is allocated that the program keeps; null if unknown.
    pub warm_up_iterations: Option<usize>,
    /// The memory that these iterations allocate and keep, without what grows.
    pub warm_up_per_bank: Option<u64>,
    /// The size of a bank.
    pub capacity_per_bank: Option<u64>,
    /// The number of further iterations that fit into the pool at this rate; null if memory does not grow or if the
    /// capacity is unknown.
    pub iterations_left: Option<u64>,
    /// What iterations leave behind, by origin, largest first.
    pub survivors: Vec<Survivor>,
    /// The number of origins, including those that are not listed.
    pub survivor_count: usize,
    /// The finding in sentences.
    pub statement: Statement,
    /// The title of a section about growth: `Growth of cuda:0: 1.00 GiB with every training step`. Null if memory does not
    /// grow, or if the input has phases only, which are reported by session.
    pub title: Option<String>,
    /// How growth was measured, when memory is full, and what warm-up allocated: a sentence each.
    pub notes: Vec<String>,
    /// Limits of the numbers above.
    pub caveats: Vec<String>,
}

/// Whether memory grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum GrowthVerdict {
    /// Every iteration leaves memory behind: a leak, or a cache without a limit.
    Grows,
    /// Tensors are replaced by larger ones.
    TensorsGrow,
    /// Most of the growth is a KV cache, which is expected.
    KvCacheGrows,
    /// Memory does not grow after warm-up.
    Steady,
}

/// What an iteration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum GrowthUnit {
    /// A run of a program.
    Run,
    /// A pass through several programs.
    Pass,
    /// A training step.
    Step,
    /// A call of a part of the program.
    Call,
    /// An iteration of a loop.
    Iteration,
}

/// What iterations leave behind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Survivor {
    /// How it grows.
    pub kind: SurvivorKind,
    /// What allocates it: an operation, an argument, or nothing known.
    pub allocated_by: String,
    /// The operation that allocates it.
    pub op: Option<String>,
    /// The location of that operation.
    pub loc: Option<String>,
    /// The module or named part of the program that allocates it, with `*` in place of layer numbers.
    pub module: Option<String>,
    /// The name of the argument, if no operation allocates it.
    pub name: Option<String>,
    /// The class of its tensors; null if they differ.
    pub class: Option<Class>,
    /// The bytes per bank that an iteration adds.
    pub per_iteration_per_bank: u64,
    /// The bytes per bank that the measured iterations added.
    pub per_bank: u64,
    /// The number of measured iterations.
    pub measured_iterations: usize,
    /// The number of tensors that these iterations added or replaced by larger ones; null if there are none.
    pub tensors: Option<usize>,
    /// The first iteration that leaves memory behind, from 1.
    pub since_iteration: usize,
    /// Whether the program freed these tensors after the last iteration.
    pub freed_later: bool,
    /// The last step that allocated one of them.
    pub step: Option<Step>,
    /// What keeps at least half of the added bytes alive, as references from a variable of the program; null if unknown.
    pub held_by: Option<String>,
    /// The tensors that it keeps alive, if they are not all: `9 of 12 tensors`.
    pub held_part: Option<String>,
}

/// How memory grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum SurvivorKind {
    /// Iterations leave tensors behind.
    Kept,
    /// Larger tensors replace smaller ones.
    Replaced,
    /// The tensors are a KV cache.
    KvCache,
    /// Memory that does not belong to known tensors.
    Unexplained,
}

/// Growth with the ids that suggestions need.
#[derive(Debug)]
pub(super) struct Found {
    pub pool: PoolId,
    pub growth: analysis::Growth,
    pub summary: GrowthSummary,
}

/// Whether the memory of a rank grows from iteration to iteration. `None` if fewer than
/// [`MIN_ITERATIONS`](analysis::MIN_ITERATIONS) iterations are known.
pub fn growth(profile: &Profile, rank: usize) -> Result<Option<GrowthSummary>> {
    let count = profile.ranks.len();
    let Some(rank) = profile.ranks.get(rank) else {
        return Err(Error::NotFound(format!("no rank {rank}: the input has {count}")));
    };
    let ids = (0..rank.pools.len()).filter_map(PoolId::new);
    let accounts: Vec<Account<'_>> = ids.filter_map(|id| Account::new(rank, id)).collect();
    let peak_of = |id: PoolId| {
        let account = accounts.iter().find(|account| account.id == id)?;
        peak::peak(account, Span::recorded(rank)).map(|peak| peak.per_bank)
    };
    let main = main_pool(profile, rank, peak_of);
    let found = find(profile, rank, &accounts, main).map(|found| found.summary);
    Ok(found.or_else(|| of_phases(profile, rank)))
}

/// Finds growth in the main pool, or in the first other pool that grows.
pub(super) fn find(
    profile: &Profile,
    rank: &Rank,
    accounts: &[Account<'_>],
    main: Option<PoolId>,
) -> Option<Found> {
    let candidates = analysis::candidates(profile, rank);
    let mut ordered: Vec<&Account<'_>> = accounts.iter().collect();
    ordered.sort_by_key(|account| Some(account.id) != main);
    let mut best: Option<Found> = None;
    for account in ordered {
        for iterations in &candidates {
            let growth = analysis::growth(profile, account, iterations);
            let grows = !growth.origins.is_empty();
            if grows || best.is_none() {
                let summary = Describe { profile, account, iterations }.summary(&growth);
                best = Some(Found { pool: account.id, growth, summary });
            }
            if grows {
                return best;
            }
        }
    }
    best
}

/// The growth of the sessions of a rank, which have phases instead of tensors: the session that grows most. If none grows,
/// the one that changes most.
pub(super) fn of_phases(profile: &Profile, rank: &Rank) -> Option<GrowthSummary> {
    let sessions = phases::session_summaries(profile, rank, &super::level::Thresholds::default());
    let grown =
        sessions.into_iter().filter_map(|session| Some((session.growth?, session.device_memory_bytes)));
    let Some((growth, capacity)) = grown.max_by_key(|(growth, _)| growth.per_iteration_bytes) else {
        let (phase, iterations, bytes) = phases::change_per_iteration(profile, rank)?;
        return steady_phases(phase, usize::try_from(iterations).ok()?, u64::try_from(bytes).unwrap_or(0));
    };
    let bytes = u64::try_from(growth.per_iteration_bytes).ok()?;
    let measured = usize::try_from(growth.iterations).ok()?;
    let full = growth.iterations_left.map(|left| full_after(left, GrowthUnit::Iteration));
    let headline = format!(
        "Each iteration (after {}) adds {}: {} over {measured} iterations.",
        brief_line(&growth.phase, MAX_CHARS),
        size(bytes),
        size(bytes.saturating_mul(growth.iterations)),
    );
    Some(GrowthSummary {
        verdict: GrowthVerdict::Grows,
        unit: GrowthUnit::Iteration,
        of: Some(growth.phase),
        iterations: measured.saturating_add(2),
        pool: None,
        per_iteration_per_bank: None,
        per_iteration_bytes: Some(bytes),
        since_iteration: None,
        measured_iterations: measured,
        warm_up_iterations: None,
        warm_up_per_bank: None,
        capacity_per_bank: capacity,
        iterations_left: growth.iterations_left,
        survivors: Vec::new(),
        survivor_count: 0,
        statement: Statement::new(headline).detail(full),
        title: None,
        notes: Vec::new(),
        caveats: vec!["The input has phases only, so the tensors that stay are unknown.".to_owned()],
    })
}

/// Iterations whose mean change is too small or too irregular to be growth.
fn steady_phases(phase: String, measured: usize, bytes: u64) -> Option<GrowthSummary> {
    let after = brief_line(&phase, MAX_CHARS);
    let headline = format!("Memory does not grow over {measured} iterations (after {after}).");
    Some(GrowthSummary {
        verdict: GrowthVerdict::Steady,
        unit: GrowthUnit::Iteration,
        of: Some(phase),
        iterations: measured.checked_add(2)?,
        pool: None,
        per_iteration_per_bank: None,
        per_iteration_bytes: Some(bytes),
        since_iteration: None,
        measured_iterations: measured,
        warm_up_iterations: None,
        warm_up_per_bank: None,
        capacity_per_bank: None,
        iterations_left: None,
        survivors: Vec::new(),
        survivor_count: 0,
        statement: Statement::new(headline),
        title: None,
        notes: Vec::new(),
        caveats: Vec::new(),
    })
}

/// `At this rate, memory is full after 12 more steps.`
fn full_after(left: u64, unit: GrowthUnit) -> String {
    let count = usize::try_from(left).unwrap_or(usize::MAX);
    format!("At this rate, memory is full after {left} more {}.", by_count(count, unit.name(), unit.plural()))
}

impl GrowthUnit {
    /// The name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Pass => "pass",
            Self::Step => "step",
            Self::Call => "call",
            Self::Iteration => "iteration",
        }
    }

    /// The name of several.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Run => "runs",
            Self::Pass => "passes",
            Self::Step => "steps",
            Self::Call => "calls",
            Self::Iteration => "iterations",
        }
    }
}

/// Composes the response for a pool.
struct Describe<'a> {
    profile: &'a Profile,
    account: &'a Account<'a>,
    iterations: &'a Iterations,
}

impl Describe<'_> {
    fn summary(&self, growth: &analysis::Growth) -> GrowthSummary {
        let (unit, of) = self.unit();
        let pool = self.account.pool;
        let verdict = growth.kind().map_or(GrowthVerdict::Steady, GrowthVerdict::of);
        let grows = !growth.origins.is_empty();
        let rate = growth.per_iteration;
        let capacity = pool.curve(CurveKind::Capacity).and_then(ttmem_model::Curve::last);
        let left = capacity.zip(self.used()).map(|(capacity, used)| capacity.saturating_sub(used));
        let left = left.and_then(|left| left.checked_div(rate));
        let alike = Alike::new(self.profile, self.account.rank);
        let survivors: Vec<Survivor> =
            growth.origins.iter().take(MAX_SURVIVORS).map(|grown| self.survivor(grown, &alike)).collect();
        let explained = self.account.explained(self.iterations.moments()[0]).is_some();
        let mut summary = GrowthSummary {
            verdict,
            unit,
            of,
            iterations: self.iterations.count(),
            pool: Some(self.profile.text(pool.name).to_owned()),
            per_iteration_per_bank: Some(rate),
            per_iteration_bytes: pool.banks.and_then(|banks| rate.checked_mul(banks.into())),
            since_iteration: growth.origins.iter().map(|grown| grown.since + 1).min(),
            measured_iterations: growth
                .origins
                .first()
                .map_or(self.iterations.count(), |grown| grown.measured.1),
            warm_up_iterations: explained.then_some(growth.warm_up.iterations),
            warm_up_per_bank: explained.then_some(growth.warm_up.per_bank),
            capacity_per_bank: capacity,
            iterations_left: left.filter(|_| grows),
            survivors,
            survivor_count: growth.origins.len(),
            statement: Statement::default(),
            title: None,
            notes: Vec::new(),
            caveats: Vec::new(),
        };
        let extent = Extent::of(self.profile.text(pool.name), pool.banks);
        summary.caveats = self.caveats(&summary);
        summary.statement = summary.statement(extent);
        summary.title = summary.title(extent);
        summary.notes = summary.notes(extent);
        summary
    }

    /// The memory that is not left for growth: the peak of the pool. On the host, the process also uses memory that
    /// is not in CPU tensors.
    fn used(&self) -> Option<u64> {
        let rank = self.account.rank;
        let peak_of =
            |account: &Account<'_>| peak::peak(account, Span::recorded(rank)).map(|peak| peak.per_bank);
        let process = self.is_of_cpu().then(|| {
            let (host, _) = rank.pool_named(self.profile, "host")?;
            peak_of(&Account::new(rank, host)?)
        });
        peak_of(self.account).map(|peak| peak.max(process.flatten().unwrap_or(0)))
    }

    /// Whether the pool has the CPU tensors, which share the memory of the host with other processes.
    fn is_of_cpu(&self) -> bool {
        self.profile.text(self.account.pool.name) == "cpu"
    }

    fn unit(&self) -> (GrowthUnit, Option<String>) {
        let rank = self.account.rank;
        let scope = |id: ttmem_model::ScopeId| {
            rank.scopes.get(id.index()).map(|scope| self.profile.text(scope.name).to_owned())
        };
        match self.iterations.unit {
            Unit::Run(program) => (GrowthUnit::Run, Some(self.profile.text(program).to_owned())),
            Unit::Pass => (GrowthUnit::Pass, None),
            Unit::Step(id) => (GrowthUnit::Step, scope(id)),
            Unit::Call(id) => (GrowthUnit::Call, scope(id)),
            Unit::Operation(op) => {
                let text = |id: Option<_>| id.map(|id| self.profile.text(id).to_owned());
                let ops = &self.profile.ops;
                let parts: Vec<String> =
                    [text(ops.name(op)), text(ops.loc(op))].into_iter().flatten().collect();
                (GrowthUnit::Iteration, Some(parts.join(" at ")).filter(|parts| !parts.is_empty()))
            }
        }
    }

    fn survivor(&self, grown: &Grown, alike: &Alike<'_>) -> Survivor {
        let rank = self.account.rank;
        let text = |id: Option<_>| id.map(|id| self.profile.text(id).to_owned());
        let (op, loc, name) = match grown.origin {
            Origin::Operation(op, loc) => (text(op), text(loc), None),
            Origin::Argument(name) => (None, None, text(Some(name))),
            Origin::Unknown => (None, None, None),
        };
        let held = main_holder(self.profile, rank, &grown.tensors);
        let (held_by, held_part) = held.map(|MainHolder { chain, part }| (chain, part)).unzip();
        let newest = grown.tensors.last().copied();
        let step = |tensor: ttmem_model::TensorId| rank.tensors.step.get(tensor.index()).copied().flatten();
        Survivor {
            kind: SurvivorKind::of(grown.kind),
            allocated_by: match (&op, &name) {
                (Some(op), _) => op.clone(),
                (None, Some(name)) => format!("argument {name}"),
                (None, None) if grown.kind == Kind::Unexplained => "unexplained".to_owned(),
                (None, None) => "unknown operation".to_owned(),
            },
            op,
            loc,
            module: newest.and_then(|tensor| rank.made_in(tensor)).and_then(|scope| alike.name(scope)),
            name,
            class: grown.class,
            per_iteration_per_bank: grown.per_iteration,
            per_bank: grown.per_bank,
            measured_iterations: grown.measured.1,
            tensors: grown.count,
            since_iteration: grown.since + 1,
            freed_later: grown.freed_later,
            step: newest.and_then(step).map(StepNumber::get),
            held_by,
            held_part: held_part.flatten(),
        }
    }

    fn caveats(&self, summary: &GrowthSummary) -> Vec<String> {
        if summary.verdict == GrowthVerdict::Steady {
            return Vec::new();
        }
        let mut caveats = Vec::new();
        if self.account.rank.thinned.is_some() {
            caveats.push(
                "The recording reached its size limit, so only the calls in its last file are measured."
                    .to_owned(),
            );
        }
        if summary.survivors.iter().any(|survivor| survivor.freed_later) {
            caveats.push(format!(
                "The program frees this memory after its last {}: the cache of a single request looks the same.",
                summary.unit.name()
            ));
        }
        if summary.capacity_per_bank.is_none() {
            let pool = summary.pool.as_deref().unwrap_or("memory");
            caveats.push(format!("The capacity of {pool} is unknown, so ttmem can't tell when it is full."));
        }
        if summary.iterations_left.is_some() && self.is_of_cpu() {
            caveats.push(
                "Other processes use the memory of the host as well, so it may be full earlier.".to_owned(),
            );
        }
        caveats
    }
}

impl GrowthVerdict {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Kept | Kind::Unexplained => Self::Grows,
            Kind::Replaced => Self::TensorsGrow,
            Kind::KvCache => Self::KvCacheGrows,
        }
    }
}

impl SurvivorKind {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Kept => Self::Kept,
            Kind::Replaced => Self::Replaced,
            Kind::KvCache => Self::KvCache,
            Kind::Unexplained => Self::Unexplained,
        }
    }
}

impl GrowthSummary {
    /// Whether memory grows, for whatever reason.
    pub fn grows(&self) -> bool {
        self.verdict != GrowthVerdict::Steady
    }

    fn statement(&self, extent: Extent) -> Statement {
        let sized = |bytes: u64| format!("{}{}", size(bytes), extent.suffix());
        let pool = self.pool.as_deref().unwrap_or("memory");
        let (count, units) = (self.iterations, self.unit.plural());
        let Some(most) = self.survivors.first() else {
            return Statement::new(format!("{pool} does not grow over {count} {units}."));
        };
        let rate = self.per_iteration_per_bank.unwrap_or(0);
        let measured = u64::try_from(most.measured_iterations).unwrap_or(u64::MAX);
        let total = if self.survivor_count == 1 { most.per_bank } else { rate.saturating_mul(measured) };
        let on_device = self
            .per_iteration_bytes
            .filter(|bytes| *bytes != rate)
            .map(|bytes| format!(" ({} on the device)", size(bytes.saturating_mul(measured))));
        let headline = format!(
            "{} adds {} to {pool} on average: {}{} over {measured} {}.",
            self.subject(),
            sized(rate),
            sized(total),
            on_device.unwrap_or_default(),
            by_count(most.measured_iterations, self.unit.name(), units),
        );
        let (detail, advice) = most.explain(&sized(most.per_bank));
        let left = self.iterations_left.filter(|left| *left > 0).map(|left| full_after(left, self.unit));
        let detail: Vec<String> = [Some(detail), left].into_iter().flatten().collect();
        Statement::new(headline).detail(detail.join(" ")).advice(advice)
    }

    fn title(&self, extent: Extent) -> Option<String> {
        let pool = self.pool.as_deref().filter(|_| self.grows())?;
        let rate = format!("{}{}", size(self.per_iteration_per_bank?), extent.suffix());
        let of = self.of.as_deref().map(|of| brief_line(of, MAX_CHARS));
        let unit = match (self.unit, of) {
            (GrowthUnit::Run, Some(of)) => format!("run of {of}"),
            (GrowthUnit::Call, Some(of)) => format!("call to {of}"),
            (GrowthUnit::Step, _) => "training step".to_owned(),
            (unit, _) => unit.name().to_owned(),
        };
        Some(format!("Growth of {pool}: {rate} with every {unit}"))
    }

    fn notes(&self, extent: Extent) -> Vec<String> {
        let units = self.unit.plural();
        let measured = self.grows().then(|| {
            let since = self
                .since_iteration
                .filter(|since| *since > 1)
                .map(|since| format!("; the first that leaves memory behind is number {since}"));
            let (measured, all) = (self.measured_iterations, self.iterations);
            format!("Measured over {measured} of {all} {units}{}.", since.unwrap_or_default())
        });
        let full = self.iterations_left.map(|left| match left {
            0 => format!("At this rate, no further {} fits into memory.", self.unit.name()),
            left => full_after(left, self.unit),
        });
        let warm_up = self.warm_up_iterations.zip(self.warm_up_per_bank).filter(|(_, bytes)| *bytes > 0);
        let warm_up = warm_up.map(|(count, bytes)| {
            let first = match count {
                0 | 1 => format!("the first {} allocates", self.unit.name()),
                count => format!("the first {count} {units} allocate"),
            };
            format!(
                "Warm-up, which is not growth: {first} {}{} and keep{} it.",
                size(bytes),
                extent.suffix(),
                if count > 1 { "" } else { "s" }
            )
        });
        [measured, full, warm_up].into_iter().flatten().collect()
    }

    /// `Each call to GPT`.
    fn subject(&self) -> String {
        let of = self.of.as_deref().map(|of| brief_line(of, MAX_CHARS));
        match (self.unit, of) {
            (GrowthUnit::Run, Some(of)) => format!("Each run of {of}"),
            (GrowthUnit::Call, Some(of)) => format!("Each call to {of}"),
            (GrowthUnit::Iteration, Some(of)) => format!("Each iteration (from {of} to the next)"),
            (GrowthUnit::Step, _) => "Each training step".to_owned(),
            (unit, _) => format!("Each {}", unit.name()),
        }
    }
}

impl Survivor {
    /// A sentence on what keeps its tensors alive; `None` if unknown.
    pub fn held(&self) -> Option<String> {
        let chain = brief_sentence(&one_line(self.held_by.as_deref()?), MAX_CHAIN);
        let tensors = self.held_part.as_deref().unwrap_or("Tensors");
        Some(format!("{tensors} from {} are kept alive by {chain}.", self.origin()))
    }

    /// `, kept alive by list `history` in `train()`, train.py:31 → `[*]``.
    fn and_held(&self) -> String {
        let chain = self.held_by.as_deref().map(|chain| brief_sentence(&one_line(chain), MAX_CHAIN));
        match (chain, &self.held_part) {
            (Some(chain), Some(part)) => format!("; {part} are kept alive by {chain}"),
            (Some(chain), None) => format!(", kept alive by {chain}"),
            (None, _) => String::new(),
        }
    }

    /// `aten::addmm at leak.py:17`.
    fn origin(&self) -> String {
        let place = self.loc.as_deref().map(|loc| format!(" at {}", brief_line(loc, MAX_CHARS)));
        let maker = match (&self.op, &self.name) {
            (Some(op), _) => brief_line(op, MAX_CHARS),
            (None, Some(name)) => format!("argument {}", brief_line(name, MAX_CHARS)),
            (None, None) => "an unknown operation".into(),
        };
        maker + &place.unwrap_or_default()
    }

    /// What grows, and what to do about it.
    fn explain(&self, size: &str) -> (String, Option<String>) {
        let count = self.tensors.unwrap_or(0);
        let tensors = format!("{count} {} from {}", by_count(count, "tensor", "tensors"), self.origin());
        match self.kind {
            SurvivorKind::Kept => (
                format!("The largest part is {tensors}: {size}{}.", self.and_held()),
                Some(
                    "If this is a leak, retain less: keep `loss.item()` instead of the loss with its graph, and \
                     avoid lists that only grow."
                        .to_owned(),
                ),
            ),
            SurvivorKind::Replaced => (
                format!("{tensors} {} replaced by larger ones, which take {size} more.", by_count(count, "is", "are")),
                Some(
                    "A KV cache grows like this with every token; to bound it, limit the number of tokens or \
                     allocate a fixed-size cache. If this is not a cache, drop data that is no longer needed before \
                     concatenating."
                        .to_owned(),
                ),
            ),
            SurvivorKind::KvCache => (
                format!(
                    "Most of it is the KV cache ({tensors}): {size}. It grows with every token, which is expected."
                ),
                Some(
                    "To bound it, limit the number of tokens, or use a fixed-size cache or a sliding window (in \
                     transformers, `cache_implementation=\"static\"`)."
                        .to_owned(),
                ),
            ),
            SurvivorKind::Unexplained => {
                (format!("The largest part, {size}, does not belong to tensors in the input."), None)
            }
        }
    }
}
