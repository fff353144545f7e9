//! `ttmem summary`: the content of its screen, as data.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::str::FromStr;

use rustc_hash::FxHashMap;
use ttmem_model::rules::account::Held;
use ttmem_model::rules::passes::Passes;
use ttmem_model::{
    ArgumentKind, Curve, CurveKind, Error, Fault, Moment, OpId, OpKind, Phase, Pool, PoolId, Position,
    Profile, Rank, Reading, Result, Run, RunId, Snapshot, Step, StrId, TensorId, difference,
};

use super::about::Extent;
use super::allocations::{Allocations, AllocationsRequest, GroupBy, allocations};
use super::answer::{
    AllocatorLevels, AtMoment, Caused, Checkpoint, ChosenRuns, Counts, Declared, Fragmentation, Increase,
    LaunchSummary, LiveTensor, OpCount, Outside, PaddedTensor, PaddingSummary, PoolMoment, PoolSummary,
    RankSummary, ResidueRow, SourceSummary, Summary, Suspect, WarningSummary, Weight, Weights,
};
use super::comparison::comparison;
use super::device::DeviceKind;
use super::expectations::Expectations;
use super::expected;
use super::filter::Filter;
use super::groups::locations;
use super::growth;
use super::holders::{holder_of, holders};
use super::l1::l1_summary;
use super::level::{Level, Thresholds};
use super::named::Named;
use super::parts::Parts;
use super::phases::{phase_summary, session_summaries};
use super::pool_order::by_importance;
use super::ranks::{ProcessFilter, are_of_one_program, files_in_order, in_order, process};
use super::suggestions::{Advice, PoolAtPeak, Situation, advice};
use super::threads::{MANY_STEPS, both};
use crate::analyze::fragmentation::Severity;
use crate::analyze::main_pool::main_pool;
use crate::analyze::residue::{self, Who};
use crate::analyze::survivors::survivors;
use crate::analyze::{
    Account, Span, effects, fragmentation, live, oom, outside, padding, peak, weights, weights::WEIGHTS,
};

/// The parameters of a summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// A position to describe in addition to the peaks.
    pub at: Option<Position>,
    /// The maximum length of lists; `None` for all live tensors and ten rows of ranked lists.
    pub top: Option<usize>,
    /// The runs to include.
    pub run: RunFilter,
    /// The rank to include, as `0` or `1,0`.
    pub rank: Option<String>,
    /// The process to include, if several processes wrote the log.
    pub process: ProcessFilter,
    /// Expected sizes in addition to those in the input. If set, having no expectations at all is an error.
    pub expect: Option<Expectations>,
    /// The shares of a capacity above which a pool is high or full.
    pub thresholds: Thresholds,
    /// The allocations to list and group; `None` for all.
    pub filter: Option<Filter>,
    /// What allocations are grouped by; `None` for the default.
    pub by: Option<GroupBy>,
}

/// The top-level runs to include.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunFilter {
    /// All runs.
    #[default]
    All,
    /// The runs of the last pass.
    Last,
    /// The run with this number, from 1.
    Number(usize),
}

/// Parses `all`, `last` or a number.
impl FromStr for RunFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "last" => Ok(Self::Last),
            number => match number.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(number)),
                _ => Err("expected `all`, `last` or a run number, starting at 1".into()),
            },
        }
    }
}
/// The default length of ranked lists.
pub(crate) const RANKED: usize = 10;

/// Summarizes all ranks of all files.
pub fn summary(profiles: &[Profile], request: &Request) -> Result<Summary> {
    check_options(profiles, request)?;
    let label = |(profile, rank): (&Profile, &Rank)| rank.label.map(|label| profile.text(label).to_owned());
    let labels: Vec<Option<String>> = all_ranks(profiles).map(label).collect();
    let processes = all_ranks(profiles).map(|(_, rank)| process(rank)).max().unwrap_or(0);
    let summary = |(profile, rank)| View::new(profile, rank, request)?.summary();
    let ranks = selected(profiles, request).into_iter().map(summary).collect::<Result<Vec<_>>>()?;
    if let (ProcessFilter::Number(wanted), true) = (request.process, ranks.is_empty())
        && wanted > processes
        && processes > 0
    {
        let are = if processes == 1 { "process" } else { "processes" };
        return Err(Error::NotFound(format!("no process {wanted}: the log has {processes} {are}")));
    }
    if let (Some(wanted), true) = (&request.rank, ranks.is_empty()) {
        return Err(no_such_rank(wanted, &labels));
    }
    if labels.is_empty() {
        return Err(nothing_in(profiles));
    }
    if request.expect.is_some() && ranks.iter().all(|rank| rank.expected.is_empty()) {
        return Err(nothing_expected());
    }
    let is_whole = request.rank.is_none() && request.process == ProcessFilter::All;
    let comparison = comparison(&ranks).filter(|_| is_whole && are_of_one_program(profiles));
    Ok(Summary { schema: 1, source: source(profiles), comparison, ranks })
}

/// The requested ranks, in the order of a summary.
fn selected<'a>(profiles: &'a [Profile], request: &Request) -> Vec<(&'a Profile, &'a Rank)> {
    let is_wanted = |profile: &Profile, rank: &Rank| {
        let label = rank.label.map(|label| profile.text(label));
        request.rank.as_deref().is_none_or(|wanted| is_rank(label, wanted)) && request.process.takes(rank)
    };
    all_ranks(profiles).filter(|(profile, rank)| is_wanted(profile, rank)).collect()
}

fn all_ranks(profiles: &[Profile]) -> impl Iterator<Item = (&Profile, &Rank)> {
    let ranks = |profile| in_order(profile).into_iter().map(move |rank| (profile, rank));
    files_in_order(profiles).into_iter().flat_map(ranks)
}

/// Refuses options that select tensors or steps if the input has only error messages.
fn check_options(profiles: &[Profile], request: &Request) -> Result<()> {
    let mut ranks = profiles.iter().flat_map(|profile| &profile.ranks).peekable();
    let has_only_messages = |rank: &Rank| rank.has_only_faults() && !rank.ledgers.is_empty();
    if ranks.peek().is_none() || !ranks.all(has_only_messages) {
        return Ok(());
    }
    let options = [
        ("--at", "steps", request.at.is_some()),
        ("--where", "allocations", request.filter.is_some()),
        ("--by", "allocations", request.by.is_some()),
    ];
    let Some((option, missing, _)) = options.into_iter().find(|(_, _, is_set)| *is_set) else {
        return Ok(());
    };
    Err(Error::NotFound(format!(
        "{option} needs {missing}, but the input has only an error message; use a memory snapshot \
         (torch.cuda.memory._dump_snapshot) or a recording (`ttmem track SCRIPT`)"
    )))
}

impl Summary {
    /// The index of a rank, as `0` or `1,0`, and of a process if several wrote the log.
    pub fn rank_index(&self, rank: &str, process: Option<u32>) -> Result<usize> {
        let is_wanted = |one: &RankSummary| {
            is_rank(one.rank.as_deref(), rank) && process.is_none_or(|process| one.process == process)
        };
        let labels = || self.ranks.iter().map(|rank| rank.rank.clone()).collect::<Vec<_>>();
        self.ranks.iter().position(is_wanted).ok_or_else(|| no_such_rank(rank, &labels()))
    }
}

/// The input files and their warnings.
pub(super) fn source(profiles: &[Profile]) -> SourceSummary {
    let warnings = |profile: &Profile| {
        let file = profile.source.file.clone();
        let warning = move |warning: &ttmem_model::Warning| WarningSummary {
            file: file.clone(),
            line: warning.line,
            message: warning.message.clone(),
        };
        profile.warnings.iter().map(warning).collect::<Vec<_>>()
    };
    SourceSummary {
        format: profiles.first().map(|profile| profile.source.format.clone()).unwrap_or_default(),
        files: profiles.iter().map(|profile| profile.source.file.clone()).collect(),
        warnings: profiles.iter().flat_map(warnings).collect(),
        skipped_lines: profiles.iter().map(|profile| profile.skipped_lines).sum(),
    }
}

fn nothing_expected() -> Error {
    Error::NotFound(
        "no expectations: set them in the program with `tracker.expect(…)`, or pass them with \
         `--expect params=1.24B,dtype=bf16` or `--expect parameter=2.3GiB`"
            .into(),
    )
}

/// The error for a rank that does not exist. Lists the ranks that do.
pub(super) fn no_such_rank(wanted: &str, labels: &[Option<String>]) -> Error {
    let known: Vec<&str> = labels.iter().flatten().map(String::as_str).collect();
    let known = if known.is_empty() {
        "the lines have no rank tags".into()
    } else {
        format!("available ranks are {}", known.join("; "))
    };
    Error::NotFound(format!("no rank {wanted}: {known}"))
}

/// The error for a profile without ranks: a warning says why it could not be read, or nothing was recorded.
fn nothing_in(profiles: &[Profile]) -> Error {
    let first = profiles.first();
    let file = first.map(|profile| profile.source.file.clone()).unwrap_or_default();
    match first.and_then(|profile| profile.warnings.first()) {
        Some(warning) => Error::Corrupt { file, message: format!("no usable data; {}", warning.message) },
        None => Error::NoMemoryData { file, message: "no data was recorded".into() },
    }
}

/// Whether a rank's label matches `--rank`, which is a label such as `1,0` or only the rank's number.
pub(super) fn is_rank(label: Option<&str>, wanted: &str) -> bool {
    let label = label.unwrap_or("0");
    label == wanted || label.rsplit(',').next() == Some(wanted)
}

pub(super) fn span(rank: &Rank, request: &Request) -> Result<Span> {
    let found = match request.run {
        RunFilter::All => Some(Span::recorded(rank)),
        RunFilter::Last => Span::of_last_pass(rank),
        RunFilter::Number(number) => {
            let run = number.checked_sub(1).and_then(|before| rank.top_level_runs().nth(before));
            run.and_then(|(id, _)| Span::of_run(rank, id))
        }
    };
    found.ok_or_else(|| match rank.top_level_runs().count() {
        0 => Error::NotFound("the input has no named program runs to select".into()),
        count => Error::NotFound(format!("no such run: runs are numbered from 1 to {count}")),
    })
}

fn is_within(run: &Run, span: Span) -> bool {
    span.first <= run.first && run.end.max(run.first) <= span.end
}

/// The requested range of one rank.
pub(super) struct View<'a> {
    pub(super) profile: &'a Profile,
    pub(super) rank: &'a Rank,
    request: &'a Request,
    span: Span,
    accounts: Vec<Account<'a>>,
    run_numbers: Vec<usize>,
    /// The other names of each tensor, without duplicates.
    names: FxHashMap<TensorId, Vec<StrId>>,
    parts: Option<Parts<'a>>,
}

impl<'a> View<'a> {
    pub(super) fn new(profile: &'a Profile, rank: &'a Rank, request: &'a Request) -> Result<Self> {
        let mut names: FxHashMap<TensorId, Vec<StrId>> = FxHashMap::default();
        for alias in rank.aliases.iter() {
            let known = names.entry(alias.tensor).or_default();
            if !known.contains(&alias.ssa) {
                known.push(alias.ssa);
            }
        }
        let ids = (0..rank.pools.len()).filter_map(PoolId::new);
        Ok(Self {
            profile,
            rank,
            request,
            span: span(rank, request)?,
            accounts: ids.filter_map(|id| Account::new(rank, id)).collect(),
            run_numbers: rank.run_numbers(),
            names,
            parts: Parts::of(profile, rank),
        })
    }

    /// The pool whose allocations are listed: the main one, unless the filter selects none of its allocations. Then it is the
    /// pool with the highest peak among those with selected allocations.
    fn listed_pool(&self, main: usize, peaks: &[Option<peak::Peak>]) -> usize {
        let Some(filter) = self.request.filter.as_ref().filter(|_| self.accounts.len() > 1) else {
            return main;
        };
        let matcher = filter.matcher(self.profile, self.rank);
        let selects = |pool: &usize| {
            let id = self.accounts.get(*pool).map(|account| account.id);
            let tensors = (0..self.rank.tensors.len()).filter_map(TensorId::new);
            let mut in_pool = tensors.filter(|tensor| Some(self.rank.tensors.pool[tensor.index()]) == id);
            in_pool.any(|tensor| matcher.matches(tensor))
        };
        let mut others: Vec<usize> = (0..self.accounts.len()).collect();
        others.sort_by_key(|pool| Reverse(peaks.get(*pool).copied().flatten().map(|peak| peak.per_bank)));
        std::iter::once(main).chain(others).find(selects).unwrap_or(main)
    }

    /// The allocations of a pool at its peak, or at the requested position.
    fn allocations(&self, pool: usize, peak: Option<peak::Peak>) -> Option<Allocations> {
        let account = self.accounts.get(pool)?;
        let is_requested = self.request.filter.is_some() || self.request.by.is_some();
        if !is_requested && account.pool.curve(CurveKind::Reserved).is_none() {
            return None;
        }
        let at = match (self.request.at, peak) {
            (Some(position), _) => Moment::late(position.min(self.rank.end())),
            (None, Some(peak)) => peak.at,
            (None, None) => Moment::late(self.rank.end()),
        };
        let request = AllocationsRequest {
            filter: self.request.filter.as_ref(),
            by: self.request.by.unwrap_or_default(),
            at,
            top: self.request.top.unwrap_or(RANKED),
        };
        allocations(self.profile, account, request)
    }

    fn summary(&self) -> Result<RankSummary> {
        let fault = oom::fatal(self.rank).filter(|fault| self.is_within(fault));
        let verdict = fault.map(|fault| oom::verdict(self.profile, self.rank, fault));
        let peaks: Vec<Option<peak::Peak>> =
            self.accounts.iter().map(|account| peak::peak(account, self.span)).collect();
        let with_peaks = || self.accounts.iter().zip(peaks.iter().copied());
        let place = |id: PoolId| self.accounts.iter().position(|account| account.id == id);
        let peak_of = |id: PoolId| peaks.get(place(id)?).copied().flatten().map(|peak| peak.per_bank);
        let dram = main_pool(self.profile, self.rank, peak_of).and_then(place);
        let l1 = l1_summary(self.profile, self.rank, self.span, self.request.at, &self.request.thresholds);
        // Nearly full L1 matters more than DRAM with room.
        let tight = l1.as_ref().filter(|l1| l1.level > Some(Level::Ok)).and_then(|_| self.named("L1"));
        let main = self.failed_pool(fault).or(tight).or(dram);
        let dram_account = dram.and_then(|index| self.accounts.get(index));
        let dram_peak = dram.and_then(|index| Some((self.accounts.get(index)?, (*peaks.get(index)?)?.at)));
        let main_id = dram_account.map(|account| account.id);
        // Growth is a question about all runs.
        let is_whole = self.request.run == RunFilter::All;
        // The analyses that look at every step take most of the time, so they run at the same time.
        let ((added, growth), (moments, allocations, executed)) = both(
            self.rank.steps.len() > MANY_STEPS,
            || {
                let find = || growth::find(self.profile, self.rank, &self.accounts, main_id);
                let added = dram_account.map_or_else(Vec::new, |account| effects::added(account, self.span));
                (added, is_whole.then(find).flatten())
            },
            || {
                let moment = |(account, peak): (&Account<'_>, _)| {
                    (self.name(account), self.peak_moment(account, peak))
                };
                let moments: Vec<(String, PoolMoment)> = with_peaks().map(moment).collect();
                let listed = main.map(|main| self.listed_pool(main, &peaks));
                let peak = listed.and_then(|pool| peaks.get(pool).copied().flatten());
                (moments, listed.and_then(|pool| self.allocations(pool, peak)), self.executed())
            },
        );
        let situation = self.situation(&peaks, dram, verdict.as_ref(), growth.as_ref());
        let Advice { suggestions, combinations } = advice(&situation, self.request.top.unwrap_or(RANKED));
        Ok(RankSummary {
            rank: self.rank.label.map(|label| self.text(label)),
            process: process(self.rank),
            processes: self.profile.ranks.iter().map(process).max().unwrap_or(1),
            file: self.profile.source.file.clone(),
            format: self.profile.source.format.clone(),
            device: DeviceKind::of(self.profile, self.rank),
            launch: LaunchSummary::of(self.profile, self.rank),
            runs: self.runs().count(),
            passes: self.passes(),
            chosen_runs: self.chosen_runs(),
            operations: self.counts(&executed),
            distribution: self.distribution(&executed),
            pools: by_importance(
                with_peaks()
                    .map(|(account, peak)| (self.name(account), self.pool(account, peak, fault)))
                    .collect(),
                fault.and_then(|fault| fault.pool).map(|pool| self.profile.text(pool)),
                dram_account.map(|account| self.profile.text(account.pool.name)),
            ),
            allocations,
            l1,
            peak: main.and_then(|main| moments.get(main)).map(|(_, moment)| moment.clone()),
            peaks: Named(moments),
            at: self.request.at.map(|at| self.at(at)).transpose()?,
            padding: dram_peak.and_then(|(account, at)| self.padding(account.id, at)),
            suspects: self.suspects(&added),
            increases: dram_account.map_or_else(Vec::new, |account| self.increases(account, &added)),
            outside: self.accounts.iter().flat_map(|account| self.outside(account)).collect(),
            fragmentation: Named(
                self.accounts
                    .iter()
                    .filter_map(|account| Some((self.name(account), self.fragmentation(account)?)))
                    .collect(),
            ),
            weights: self.weights(dram_peak.map(|(account, at)| (account.id, at))),
            inputs: weights::total(self.profile, self.rank, &[ArgumentKind::Input, ArgumentKind::Default])
                .map(|total| Declared { count: total.count, bytes: total.bytes }),
            oom: verdict.as_ref().map(|verdict| self.oom(verdict)),
            ended_by: self.ended_by(),
            faults: self
                .rank
                .faults
                .iter()
                .filter(|fault| self.is_within(fault))
                .map(|fault| self.fault(fault))
                .collect(),
            sessions: session_summaries(self.profile, self.rank, &self.request.thresholds),
            phases: self.rank.phases.iter().map(|phase| phase_summary(self.profile, phase)).collect(),
            expected: expected::compare(self.profile, self.rank, self.span, self.request.expect.as_ref()),
            checkpoints: self.checkpoints(),
            ran: self.parts.as_ref().map_or_else(Vec::new, Parts::ran),
            growth: growth
                .as_ref()
                .map(|found| found.summary.clone())
                .or_else(|| growth::of_phases(self.profile, self.rank))
                .filter(|_| is_whole),
            holders: holders(self.profile, self.rank, self.request.top.unwrap_or(RANKED)),
            suggestions,
            combinations,
        })
    }

    /// The input of the suggestion rules.
    fn situation<'v>(
        &'v self,
        peaks: &[Option<peak::Peak>],
        main: Option<usize>,
        verdict: Option<&'v oom::Verdict<'v>>,
        growth: Option<&'v growth::Found>,
    ) -> Situation<'v> {
        let fault = verdict.map(|verdict| verdict.fault);
        let main = main.and_then(|main| self.accounts.get(main)).map(|account| account.id);
        let pools = self.accounts.iter().zip(peaks);
        let pools: Vec<PoolAtPeak<'v>> = pools
            .filter_map(|(account, peak)| {
                let capacity = self.capacity(account.pool, fault);
                Some(PoolAtPeak::new(self.profile, account, (*peak)?, capacity))
            })
            .collect();
        Situation {
            profile: self.profile,
            rank: self.rank,
            span: self.span,
            main: pools.iter().position(|pool| Some(pool.account.id) == main),
            live_at_peak: pools.iter().map(|_| OnceCell::new()).collect(),
            pools,
            verdict,
            growth,
            thresholds: self.request.thresholds,
        }
    }

    fn checkpoints(&self) -> Vec<Checkpoint> {
        let held =
            |account: &Account<'_>, at| (self.name(account), account.held(at).map(|held| held.per_bank));
        let mut snapshots = self.rank.snapshots.as_slice();
        // The tracker itself takes the last one, when it stops.
        if let Some((last, before)) = snapshots.split_last()
            && last.name.is_some_and(|name| self.profile.text(name) == "final")
        {
            snapshots = before;
        }
        let named = snapshots.iter().filter_map(|snapshot| Some((snapshot.name?, snapshot)));
        let checkpoint = |(name, snapshot): (StrId, &Snapshot)| Checkpoint {
            name: self.text(name),
            time_ns: snapshot.time,
            step: snapshot.at.position(),
            pools: Named(self.accounts.iter().map(|account| held(account, snapshot.at)).collect()),
        };
        named.map(checkpoint).collect()
    }

    /// The requested top-level runs.
    fn runs(&self) -> impl Iterator<Item = &'a Run> {
        let span = self.span;
        self.rank.top_level_runs().map(|(_, run)| run).filter(move |run| is_within(run, span))
    }

    fn chosen_runs(&self) -> Option<ChosenRuns> {
        let runs: Vec<bool> = self.rank.top_level_runs().map(|(_, run)| is_within(run, self.span)).collect();
        let (first, last) =
            (runs.iter().position(|chosen| *chosen)?, runs.iter().rposition(|chosen| *chosen)?);
        let chosen = ChosenRuns { first: first + 1, last: last + 1, of: runs.len() };
        (self.request.run != RunFilter::All).then_some(chosen)
    }

    fn passes(&self) -> usize {
        match self.request.run {
            RunFilter::All => Passes::of(self.rank).count(),
            RunFilter::Last | RunFilter::Number(_) => 1,
        }
    }

    /// Whether an error happened in the requested range.
    pub(super) fn is_within(&self, fault: &Fault) -> bool {
        let within = |step| (self.span.first..self.span.end).contains(&step);
        match self.request.run {
            RunFilter::All => true,
            // A fatal error without a step happened after all programs, which is part of the last pass.
            RunFilter::Last => fault.step.map_or(fault.ended_program, within),
            RunFilter::Number(_) => fault.step.is_some_and(within),
        }
    }

    pub(super) fn text(&self, id: StrId) -> String {
        self.profile.text(id).to_owned()
    }

    fn name(&self, account: &Account<'_>) -> String {
        self.text(account.pool.name)
    }

    fn named(&self, wanted: &str) -> Option<usize> {
        self.accounts.iter().position(|account| self.profile.text(account.pool.name) == wanted)
    }

    /// The pool that ran out.
    fn failed_pool(&self, fault: Option<&Fault>) -> Option<usize> {
        fault.and_then(|fault| fault.pool).and_then(|pool| self.named(self.profile.text(pool)))
    }

    /// How often each reported operation was executed, by operation.
    fn executed(&self) -> Vec<u32> {
        let mut counts = vec![0_u32; self.profile.ops.len()];
        let steps = self.span.first as usize..self.span.end as usize;
        for op in self.rank.steps.op.get(steps).unwrap_or_default() {
            counts[op.index()] += 1;
        }
        let is_reported = |op: usize| OpId::new(op).is_some_and(|op| self.profile.ops.kind(op).is_reported());
        counts.iter_mut().enumerate().filter(|(op, _)| !is_reported(*op)).for_each(|(_, count)| *count = 0);
        counts
    }

    fn counts(&self, executed: &[u32]) -> Counts {
        let steps = || self.span.first..self.span.end;
        let reported = |step: &Step| self.profile.op_kind(self.rank, *step).is_reported();
        let is_weight = |step: &Step| {
            let in_const_eval = self.rank.run_of(*step).is_some_and(|run| run.const_eval);
            in_const_eval || self.profile.op_kind(self.rank, *step) == OpKind::LoadCached
        };
        let count = |steps: usize| u32::try_from(steps).unwrap_or(u32::MAX);
        let total = count(steps().len());
        let reported_count = executed.iter().sum();
        // Without program names, operations that run once and whose results are kept cannot be identified.
        let known = self.rank.runs.iter().any(|run| run.parent.is_none());
        let weight = known.then(|| count(steps().filter(reported).filter(is_weight).count()));
        Counts {
            total,
            reported: reported_count,
            weight,
            activation: weight.map(|weight| reported_count.saturating_sub(weight)),
        }
    }

    fn pool(&self, account: &Account<'_>, peak: Option<peak::Peak>, fault: Option<&Fault>) -> PoolSummary {
        let pool = account.pool;
        let unseen = peak::unseen(account, self.span, peak);
        let (seen, peak) = (peak, peak.filter(|_| unseen.is_none()));
        let reading = peak.map(|peak| pool.reading(peak.at));
        let total = |per_bank: Option<u64>| per_bank?.checked_mul(u64::from(pool.banks?));
        let end = self.end(account);
        let peak_per_bank = unseen.or(peak.map(|peak| peak.per_bank));
        let position = peak.and_then(|peak| peak.position()).filter(|_| !self.rank.has_only_faults());
        let capacity_per_bank = self.capacity(pool, fault);
        let name = self.profile.text(pool.name);
        PoolSummary {
            banks: pool.banks,
            extent: Extent::of(name, pool.banks),
            capacity_per_bank,
            peak_per_bank,
            level: self.request.thresholds.level(name, peak_per_bank, capacity_per_bank),
            peak_total: match pool.totals {
                Some(totals) => totals.peak.map(|peak| u64::try_from(peak).unwrap_or(0)),
                None => total(peak_per_bank),
            },
            peak_step: position,
            caused_by_step: peak
                .filter(|peak| position.is_some() && !self.is_at_the_beginning(peak.at))
                .filter(|_| !self.is_polled(account))
                .and_then(|peak| peak::step_before(self.profile, account, peak.at)),
            final_per_bank: end.map(|end| end.per_bank),
            final_total: match pool.totals {
                Some(totals) => totals.current,
                None => total(end.map(|end| end.per_bank)).and_then(|end| i64::try_from(end).ok()),
            },
            final_source: end.map(|end| if end.measured { "measured" } else { "rebuilt" }),
            free_at_peak_per_bank: reading.and_then(|reading| reading.free),
            largest_free_at_peak_per_bank: reading.and_then(|reading| reading.largest_free),
            quantum_per_bank: pool.quantum,
            allocator: reading.and_then(|reading| levels(pool, &reading)),
            polled: self.is_polled(account),
            peak_source: match pool.sampled {
                Some(stated) => Some(if stated.is_some() { "counted" } else { "sampled" }),
                None => begins_in_use(self.profile, self.rank, account.id).then_some("recorded"),
            },
            highest_sample_per_bank: pool.sampled.and(seen).map(|seen| seen.per_bank),
            not_watched: self.not_watched(account.id),
        }
    }

    /// Memory that the figures of a pool do not include.
    fn not_watched(&self, pool: PoolId) -> Vec<String> {
        let of_it = self.rank.not_watched.iter().filter(|(of, _)| *of == pool);
        of_it.map(|(_, what)| self.text(*what)).collect()
    }

    fn distribution(&self, executed: &[u32]) -> Vec<OpCount> {
        let mut counts: FxHashMap<StrId, u32> = FxHashMap::default();
        for (op, count) in executed.iter().enumerate().filter(|(_, count)| **count > 0) {
            if let Some(name) = OpId::new(op).and_then(|op| self.profile.ops.name(op)) {
                *counts.entry(name).or_default() += count;
            }
        }
        let mut rows: Vec<OpCount> =
            counts.into_iter().map(|(op, count)| OpCount { op: self.text(op), count }).collect();
        rows.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.op.cmp(&b.op)));
        rows
    }

    /// The allocated bytes of a pool after the last step of the span.
    fn end(&self, account: &Account<'_>) -> Option<Held> {
        // The message of an error has the state at the error, not at the end.
        if self.rank.has_only_faults() {
            return None;
        }
        let late = self.span.last(self.rank);
        let measured = account.pool.observed.contains(late).then(|| account.held(late)).flatten();
        measured.or_else(|| account.held(Moment::early(self.span.end)))
    }

    /// The size of a bank: exact if an error message contains it, otherwise as rounded in the states.
    fn capacity(&self, pool: &Pool, fault: Option<&Fault>) -> Option<u64> {
        let shown = pool.curve(CurveKind::Capacity).and_then(Curve::last);
        let same_pool = |fault: &&Fault| {
            fault.pool.is_some_and(|name| self.profile.text(name) == self.profile.text(pool.name))
        };
        let exact = fault.filter(same_pool).and_then(|fault| fault.bank_size);
        exact.filter(|exact| shown.is_none_or(|shown| shown.abs_diff(*exact) <= pool.quantum)).or(shown)
    }

    fn peak_moment(&self, account: &Account<'_>, peak: Option<peak::Peak>) -> PoolMoment {
        let unseen = peak::unseen(account, self.span, peak);
        if unseen.is_some() {
            return PoolMoment { allocated_per_bank: unseen, ..self.moment(account, None) };
        }
        let mut moment = self.moment(account, peak.map(|peak| peak.at));
        // There may be several readings at that moment; the peak is the highest.
        moment.allocated_per_bank = peak.map(|peak| peak.per_bank).or(moment.allocated_per_bank);
        if moment.explained_per_bank.is_some() && moment.explained_per_bank == moment.allocated_per_bank {
            moment.unexplained_per_bank = Some(0);
        }
        // Without steps, the state at an error has no position.
        moment.step = peak.and_then(|peak| peak.position()).filter(|_| !self.rank.has_only_faults());
        if moment.step.is_none() {
            moment.caused_by = None;
        }
        moment
    }

    /// A pool at a moment.
    fn moment(&self, account: &Account<'_>, at: Option<Moment>) -> PoolMoment {
        let live = at.and_then(|at| live::live_set(self.rank, account.id, at));
        let pool = account.pool;
        let allocated = at.and_then(|at| account.held(at)).map(|held| held.per_bank);
        // Exact states hold until the next one.
        let holds = |at: Moment| {
            pool.quantum == 0 && pool.reading(at).allocated.is_some_and(|held| Some(held) == allocated)
        };
        let observed = at.filter(|at| pool.observed.contains(*at) || holds(*at)).map(|at| pool.reading(at));
        // If the size of one tensor is unknown, so is the sum.
        let known = live.as_ref().filter(|live| live.unknown == 0);
        let explained = known.map(|live| live.per_bank);
        let cause = at.filter(|_| !self.is_polled(account)).map(|at| self.cause(account, at));
        let caused_by = cause.and_then(peak::Cause::step);
        let most = self.request.top.unwrap_or(usize::MAX);
        PoolMoment {
            pool: self.name(account),
            step: at.map(Moment::position),
            phase: at.and_then(|at| self.phase_at(at)),
            caused_by: caused_by.map(|step| self.caused(step)),
            caused_outside_programs: cause == Some(peak::Cause::Outside),
            allocated_per_bank: allocated,
            free_per_bank: observed.and_then(|reading| reading.free),
            largest_free_per_bank: observed.and_then(|reading| reading.largest_free),
            explained_per_bank: explained,
            unexplained_per_bank: allocated
                .zip(explained)
                .map(|(allocated, explained)| difference(allocated, explained)),
            by_class_per_bank: known.map(|live| {
                Named(
                    live.by_class.iter().map(|(class, bytes)| (class.as_str().to_owned(), *bytes)).collect(),
                )
            }),
            residue: known.zip(at).map(|(_, at)| self.residue(account, at)),
            live_count: live.as_ref().map(|live| live.tensors.len()),
            made_in: known.zip(self.parts.as_ref()).map(|(live, parts)| parts.makers(&live.tensors)),
            live: live.map(|live| live.tensors.iter().take(most).filter_map(|id| self.tensor(*id)).collect()),
            blocks: at.and_then(|at| pool.map_at(at)).map(|map| map.blocks.clone()),
        }
    }

    /// The phase of a moment: that of the preceding step, which led to it.
    fn phase_at(&self, at: Moment) -> Option<String> {
        let step = at.position().checked_sub(1)?;
        let is_in = |phase: &&Phase| phase.steps.is_some_and(|(first, end)| (first..end).contains(&step));
        self.rank.phases.iter().find(is_in).map(|phase| self.text(phase.name))
    }

    /// The cause of a pool's level. Memory allocated before the requested range is not attributed to any step in it.
    fn cause(&self, account: &Account<'_>, at: Moment) -> peak::Cause {
        if self.is_at_the_beginning(at) {
            return peak::Cause::Beginning;
        }
        peak::cause(self.profile, account, at)
    }

    /// Whether a pool is a counter that was polled, alongside pools that were tracked exactly. The operation that ran
    /// before a polled value did not cause it.
    fn is_polled(&self, account: &Account<'_>) -> bool {
        let tensors = &self.rank.tensors;
        self.rank.began.is_some() && !tensors.is_empty() && !tensors.pool.contains(&account.id)
    }

    fn is_at_the_beginning(&self, at: Moment) -> bool {
        at <= self.span.start()
    }

    fn caused(&self, step: Step) -> Caused {
        let run = self.rank.steps.run.get(step as usize).copied().flatten();
        Caused {
            step,
            op: self.profile.op_name(self.rank, step).map(str::to_owned),
            loc: self.profile.op_loc(self.rank, step).map(str::to_owned),
            program: self.rank.run_of(step).map(|run| self.text(run.program)),
            run: run.and_then(|run| self.run_number(run)),
        }
    }

    fn run_number(&self, run: RunId) -> Option<usize> {
        self.run_numbers.get(run.index()).copied().filter(|number| *number > 0)
    }

    fn residue(&self, account: &Account<'_>, at: Moment) -> Vec<ResidueRow> {
        let rows = residue::by_operation(self.profile, account, at);
        rows.into_iter()
            .map(|row| ResidueRow {
                op: row.op.map(|op| self.text(op)),
                per_bank: row.per_bank,
                steps: row.steps.len(),
                first_uses: row.first_uses,
                at_steps: row.steps,
                note: row.who.map(residue_note),
            })
            .collect()
    }

    pub(super) fn tensor(&self, id: TensorId) -> Option<LiveTensor> {
        let tensor = self.rank.tensors.get(id.index())?;
        let ty = tensor.ty.and_then(|ty| self.profile.tensor_type(ty));
        let ssa = tensor.ssa.map(|ssa| self.text(ssa));
        let made = self.profile.made(self.rank, id);
        Some(LiveTensor {
            name: tensor.name.map(|name| self.text(name)).or_else(|| ssa.clone()),
            ssa,
            program: made.program.map(str::to_owned),
            run: tensor.run.and_then(|run| self.run_number(run)),
            also: self.names.get(&id).into_iter().flatten().map(|name| self.text(*name)).collect(),
            op: made.op.map(str::to_owned),
            loc: made.loc.map(str::to_owned),
            made_in: self.parts.as_ref().and_then(|parts| parts.name(id)),
            made_in_layers: self.parts.as_ref().and_then(|parts| parts.layers(id)),
            class: tensor.class,
            shape: ty.map(|ty| ty.shape.clone()),
            dtype: ty.map(|ty| self.text(ty.dtype)),
            per_bank: tensor.per_bank.get(),
            padded_bytes: ty.and_then(|ty| ty.padded.get()),
            logical_bytes: ty.and_then(|ty| ty.logical.get()),
            born_step: tensor.step.map(ttmem_model::StepNumber::get),
            dies_step: dies_step(tensor.dies),
            gone_before_step: gone_before_step(tensor.dies),
            held_by: holder_of(self.profile, self.rank, id),
        })
    }

    fn at(&self, at: Position) -> Result<AtMoment> {
        if at < self.span.first || at > self.span.end {
            return Err(Error::NotFound(format!(
                "no step {at}; use {} to {} (the last is the end of the run)",
                self.span.first, self.span.end
            )));
        }
        Ok(AtMoment {
            step: at,
            op: self.profile.op_name(self.rank, at).map(str::to_owned),
            loc: self.profile.op_loc(self.rank, at).map(str::to_owned),
            pools: Named(
                self.accounts
                    .iter()
                    .map(|account| (self.name(account), self.moment(account, Some(Moment::late(at)))))
                    .collect(),
            ),
        })
    }

    fn padding(&self, id: PoolId, at: Moment) -> Option<PaddingSummary> {
        let found = padding::padding(self.profile, self.rank, id, at, self.request.top.unwrap_or(RANKED))?;
        let row = |(id, overhead): &(TensorId, u64)| {
            let tensor = self.tensor(*id)?;
            let ty = self.rank.tensors.ty[id.index()].and_then(|ty| self.profile.tensor_type(ty))?;
            let (padded, logical) = (ty.padded.get()?, ty.logical.get()?);
            Some(PaddedTensor {
                name: tensor.name,
                op: tensor.op,
                loc: tensor.loc,
                shape: ty.shape.clone(),
                padded_shape: ty.layout.as_ref().map(|layout| layout.padded_shape.clone()),
                dtype: self.text(ty.dtype),
                padded_bytes: padded,
                logical_bytes: logical,
                overhead_bytes: *overhead,
                overhead_pct: overhead_pct(padded, logical),
            })
        };
        Some(PaddingSummary {
            pool: self.rank.pools.get(id.index()).map_or_else(String::new, |pool| self.text(pool.name)),
            padded_bytes: found.padded,
            logical_bytes: found.logical,
            overhead_pct: overhead_pct(found.padded, found.logical),
            top: found.worst.iter().filter_map(row).collect(),
        })
    }

    fn suspects(&self, added: &[(Step, u64)]) -> Vec<Suspect> {
        let largest = effects::largest(added, self.request.top.unwrap_or(RANKED));
        largest.into_iter().map(|(step, added)| self.suspect(step, added)).collect()
    }

    fn suspect(&self, step: Step, added: u64) -> Suspect {
        let op = self.profile.op_of(self.rank, step);
        let result = op.and_then(|op| op.result_types.first().copied().flatten());
        let result = result.and_then(|ty| self.profile.tensor_type(ty));
        Suspect {
            step,
            op: self.profile.op_name(self.rank, step).map(str::to_owned),
            loc: self.profile.op_loc(self.rank, step).map(str::to_owned),
            shape: result.map(|ty| ty.shape.clone()),
            dtype: result.map(|ty| self.text(ty.dtype)),
            added_per_bank: added,
        }
    }

    fn increases(&self, account: &Account<'_>, added: &[(Step, u64)]) -> Vec<Increase> {
        let count = self.request.top.unwrap_or(RANKED);
        let increase = |repeated: effects::Repeated| {
            let step = self.suspect(repeated.first, repeated.added);
            let all: Vec<&str> = repeated.locations.iter().map(|loc| self.profile.text(*loc)).collect();
            let (loc, locations) = locations(&all);
            Increase {
                count: repeated.count,
                first_step: repeated.first,
                last_step: repeated.last,
                op: step.op,
                loc,
                locations,
                shape: step.shape,
                dtype: step.dtype,
                added_per_bank: repeated.added,
            }
        };
        effects::increases(self.profile, account, added, count).into_iter().map(increase).collect()
    }

    fn outside(&self, account: &Account<'_>) -> Vec<Outside> {
        let gap = |gap: outside::Gap| Outside {
            pool: self.name(account),
            step: gap.position,
            change_per_bank: gap.per_bank,
        };
        outside::gaps(account, self.span).into_iter().map(gap).collect()
    }

    fn fragmentation(&self, account: &Account<'_>) -> Option<Fragmentation> {
        let worst = fragmentation::worst(account, self.span)?;
        let severity = fragmentation::severity(account, self.span, &worst);
        let survivors = match severity {
            Severity::Notable => survivors(self.rank, account.id, worst.at, worst.in_pieces()),
            Severity::Minor | Severity::Negligible => Vec::new(),
        };
        let count = self.request.top.unwrap_or(usize::MAX);
        Some(Fragmentation {
            step: worst.at.position(),
            free_per_bank: worst.free,
            largest_free_per_bank: worst.largest_free,
            severity,
            blocks: account.pool.map_at(worst.at).map(|map| map.blocks.clone()),
            survivors: survivors.into_iter().filter_map(|id| self.tensor(id)).take(count).collect(),
        })
    }

    fn weights(&self, dram_peak: Option<(PoolId, Moment)>) -> Option<Weights> {
        let total = weights::total(self.profile, self.rank, &WEIGHTS)?;
        let twice = dram_peak.and_then(|(id, at)| weights::kept_twice(self.rank, id, at));
        let list = weights::by_size(self.profile, self.rank, twice.as_deref());
        let most = self.request.top.unwrap_or(RANKED);
        Some(Weights {
            count: total.count,
            bytes: total.bytes,
            kept_twice_bytes: twice.map(|twice| weights::declared_bytes(self.profile, self.rank, &twice)),
            largest: list.into_iter().filter_map(|weight| self.weight(&weight)).take(most).collect(),
        })
    }

    fn weight(&self, weight: &weights::Weight<'_>) -> Option<Weight> {
        let ty = self.profile.tensor_type(weight.argument.ty?)?;
        Some(Weight {
            name: self.text(weight.argument.name.unwrap_or(weight.argument.ssa)),
            shape: ty.shape.clone(),
            dtype: self.text(ty.dtype),
            bytes: ty.declared.get(),
            kept_twice: weight.kept_twice,
        })
    }
}

/// An explanation of bytes that cannot be attributed to a single operation.
pub(super) fn residue_note(who: Who) -> &'static str {
    match who {
        Who::Before => "allocated before the first step",
        Who::Outside => "between programs",
        Who::OneOf(..) | Who::Step(_) => "one of several operations between two states",
    }
}

/// The step that freed a tensor; `None` if no step did.
fn dies_step(dies: Moment) -> Option<Step> {
    let early = Moment::early(dies.position());
    (dies != Moment::NEVER && dies == early).then(|| dies.position().checked_sub(1)).flatten()
}

/// The position where a tensor was freed between two programs; `None` if a step freed it.
fn gone_before_step(dies: Moment) -> Option<Position> {
    let late = Moment::late(dies.position());
    (dies != Moment::NEVER && dies == late).then(|| dies.position())
}

/// (padded − logical) / logical, in percent with one decimal place.
#[allow(clippy::cast_precision_loss, reason = "a share, to be shown with one decimal place")]
pub(super) fn overhead_pct(padded: u64, logical: u64) -> Option<f64> {
    let share = (logical > 0).then(|| (padded as f64 - logical as f64) / logical as f64 * 100.0)?;
    Some((share * 10.0).round() / 10.0)
}

/// The levels reported by a caching allocator, if there is one.
fn levels(pool: &Pool, at_peak: &Reading) -> Option<AllocatorLevels> {
    let reserved = pool.curve(CurveKind::Reserved)?;
    Some(AllocatorLevels {
        requested_at_peak_total: at_peak.requested,
        active_at_peak_total: at_peak.active,
        reserved_at_peak_total: at_peak.reserved,
        reserved_peak_total: reserved.value.iter().max().copied(),
    })
}

/// Whether the history of a snapshot begins with memory in use: what was before it is unknown.
pub(super) fn begins_in_use(profile: &Profile, rank: &Rank, pool: PoolId) -> bool {
    let tensors = &rank.tensors;
    let mut first = tensors.born.iter().zip(&tensors.pool).take_while(|(born, _)| **born <= Moment::early(0));
    profile.source.format == "torch_snapshot" && first.any(|(_, of)| *of == pool)
}
