//! The value that a limit is compared with, from the summary of a rank.

use ttmem_model::Step;

use super::limits::{KEYS, Limit, Measure};
use super::names::{listed, nearest};
use super::rows::{self, HeldRow};
use crate::about::Extent;
use crate::analyze::phases::base_name;
use crate::answer::{Oom, PoolMoment, PoolSummary, RankSummary};
use crate::l1::L1Moment;
use crate::summary::RunFilter;
use crate::words::{brief_line, percent, size};

/// The pool of training logs.
const DRAM: &str = "DRAM";
const L1: &str = "L1";
/// Characters of a name in a sentence.
const MAX_NAME: usize = 60;

/// The result of looking for a value.
pub(super) enum Found {
    /// The value.
    Value(Box<Value>),
    /// The pool ran out of memory, so that every limit on it is exceeded.
    RanOut(Box<Value>, String),
    /// The input does not have the value; why, and what to do.
    Unknown(String),
    /// This rank has no pool or phase of the name.
    Missing,
}

/// A measured value.
#[derive(Clone, Debug, Default)]
pub(super) struct Value {
    /// The pool.
    pub pool: Option<String>,
    /// The unit of the bytes.
    pub of: Option<Extent>,
    /// The bytes.
    pub bytes: Option<i64>,
    /// The bytes that a percentage refers to.
    pub whole: Option<u64>,
    /// What the percentage refers to, for the message that it is unknown.
    pub whole_name: &'static str,
    /// Whether the true value may be worse.
    pub is_bound: bool,
    /// What was measured, as a clause: `the peak of DRAM is 686.4 MiB per bank (16.8%)`.
    pub clause: String,
    /// The step that led to it.
    pub step: Option<Step>,
    /// Its operation.
    pub op: Option<String>,
    /// Its location.
    pub loc: Option<String>,
    /// What holds the memory, largest first.
    pub held: Vec<HeldRow>,
    /// What to do.
    pub advice: Option<String>,
}

/// A rank that is checked.
pub(super) struct Checking<'a> {
    pub summary: &'a RankSummary,
    pub run: RunFilter,
}

impl Checking<'_> {
    /// The values of a limit, with the name of each: a device without a number stands for all devices of that kind.
    pub(super) fn values(&self, limit: &Limit) -> Vec<(String, Found)> {
        let one = |found: Found| vec![(limit.name.clone(), found)];
        match &limit.measure {
            Measure::Peak(name) => self.of_pools(name, "", |pool| self.peak(pool)),
            Measure::Headroom(name) => self.of_pools(name, "headroom.", |pool| self.headroom(pool)),
            Measure::Phase(name) => one(self.phase(name)),
            Measure::Padding => one(self.padding()),
            Measure::Unexplained => one(self.unexplained()),
            Measure::Growth => one(self.growth()),
        }
    }

    /// A sentence about a name that no rank has.
    pub(super) fn missing(limit: &Limit, ranks: &[Self]) -> String {
        let (what, wanted, known) = match &limit.measure {
            Measure::Phase(name) => {
                let phases = ranks.iter().flat_map(|rank| &rank.summary.phases);
                ("phase", name, unique(phases.map(|phase| base_name(&phase.name))))
            }
            Measure::Peak(name) | Measure::Headroom(name) => {
                ("pool", name, unique(ranks.iter().flat_map(Self::pool_names)))
            }
            _ => return format!("The input does not have {}.", limit.name),
        };
        let words = KEYS.into_iter().filter(|_| what == "pool");
        let near = nearest(wanted, known.iter().copied().chain(words));
        let near =
            near.map_or_else(String::new, |near| format!(" Did you mean {}?", brief_line(near, MAX_NAME)));
        let wanted = brief_line(wanted, MAX_NAME);
        let exist = match known.as_slice() {
            [] => format!("the input has no {what}s"),
            names => format!("the input has {}", listed(names)),
        };
        format!("There is no {what} {wanted}: {exist}.{near}")
    }

    fn pool_names(&self) -> Vec<&str> {
        let pools = self.summary.pools.iter().map(|(name, _)| name);
        let failed = self.summary.oom.as_ref().and_then(|oom| oom.pool.as_deref());
        let session = (!self.summary.sessions.is_empty()).then_some(DRAM);
        pools.chain(failed).chain(session).collect()
    }

    /// Measures the pools of a name.
    fn of_pools(&self, name: &str, prefix: &str, measure: impl Fn(&str) -> Found) -> Vec<(String, Found)> {
        let names = unique(self.pool_names());
        let is_of_kind = |pool: &&str| pool.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        let chosen: Vec<&str> = match names.iter().find(|pool| **pool == name) {
            Some(pool) => vec![pool],
            None => names.iter().copied().filter(is_of_kind).collect(),
        };
        if chosen.is_empty() {
            return vec![(format!("{prefix}{name}"), Found::Missing)];
        }
        chosen.into_iter().map(|pool| (format!("{prefix}{pool}"), measure(pool))).collect()
    }

    fn oom_of(&self, pool: &str) -> Option<&Oom> {
        self.summary.oom.as_ref().filter(|oom| oom.pool.as_deref() == Some(pool))
    }

    /// The value, or that the pool ran out of memory.
    fn unless_ran_out(&self, pool: &str, value: Value) -> Found {
        let Some(oom) = self.oom_of(pool) else { return Found::Value(Box::new(value)) };
        let value = Value {
            step: oom.step.or(value.step),
            op: oom.op.clone().or(value.op),
            loc: oom.loc.clone().or(value.loc),
            advice: oom.statement.advice.clone(),
            held: if value.held.is_empty() { rows::of_ledger(oom) } else { value.held },
            ..value
        };
        Found::RanOut(Box::new(value), oom.statement.facts())
    }

    fn peak(&self, pool: &str) -> Found {
        if let Some(value) = self.l1_peak().filter(|_| pool == L1) {
            return self.unless_ran_out(pool, value);
        }
        let Some(summary) = self.summary.pools.get(pool) else { return self.peak_of_sessions(pool) };
        let whole = summary.capacity_per_bank;
        let Some(bytes) = summary.peak_per_bank else {
            return Found::Unknown(format!("The input does not have the peak of {pool}."));
        };
        let moment = self.summary.peaks.get(pool);
        let least = if summary.is_peak_at_least() { "at least " } else { "" };
        let value = Value {
            bytes: i64::try_from(bytes).ok(),
            whole,
            whole_name: "capacity",
            is_bound: summary.is_peak_at_least(),
            clause: format!(
                "the peak of {pool} is {least}{}{}",
                of(bytes, summary.extent),
                share(bytes, whole)
            ),
            held: rows::of_moment(moment),
            ..at_peak(pool, summary, moment)
        };
        self.unless_ran_out(pool, value)
    }

    /// The peak of a core's L1, which includes the buffers of programs.
    fn l1_peak(&self) -> Option<Value> {
        let l1 = self.summary.l1.as_ref()?;
        let (peak, whole) = (l1.peak.as_ref()?, l1.size_per_core);
        let bytes = peak.bytes?;
        let least = if l1.peak_is_lower_bound { "at least " } else { "" };
        Some(Value {
            bytes: i64::try_from(bytes).ok(),
            whole,
            whole_name: "size",
            is_bound: l1.peak_is_lower_bound,
            clause: format!("the peak of L1 is {least}{}{}", of(bytes, Extent::Core), share(bytes, whole)),
            held: rows::of_l1(peak),
            ..at_l1(peak)
        })
    }

    /// The peak of a training log, or of a pool that only an error message mentions.
    fn peak_of_sessions(&self, pool: &str) -> Found {
        if let Some(oom) = self.oom_of(pool) {
            let bytes = oom.facts.allocated_per_bank.and_then(|bytes| i64::try_from(bytes).ok());
            return self
                .unless_ran_out(pool, Value { pool: Some(pool.to_owned()), bytes, ..Value::default() });
        }
        let sessions =
            self.summary.sessions.iter().filter_map(|session| Some((session.peak_bytes?, session)));
        let Some((bytes, session)) = sessions.max_by_key(|(bytes, _)| *bytes) else {
            return Found::Unknown(format!("The input does not have the peak of {pool}."));
        };
        let name = session.name.as_deref().map(|name| format!(" in {}", brief_line(name, MAX_NAME)));
        let peak = u64::try_from(bytes).unwrap_or(0);
        let whole = session.device_memory_bytes;
        Found::Value(Box::new(Value {
            pool: Some(pool.to_owned()),
            of: Some(Extent::Device),
            bytes: Some(bytes),
            whole,
            whole_name: "capacity",
            clause: format!(
                "the peak of {pool}{} is {}{}",
                name.unwrap_or_default(),
                of(peak, Extent::Device),
                share(peak, whole)
            ),
            ..Value::default()
        }))
    }

    fn headroom(&self, pool: &str) -> Found {
        let l1 = self.summary.l1.as_ref().filter(|_| pool == L1);
        if let Some((l1, lowest)) = l1.and_then(|l1| Some((l1, l1.lowest_headroom.as_ref()?)))
            && let Some(bytes) = lowest.headroom
        {
            let most = if lowest.headroom_is_upper_bound { "at most " } else { "" };
            let value = Value {
                bytes: Some(bytes),
                whole: l1.size_per_core,
                whole_name: "size",
                is_bound: lowest.headroom_is_upper_bound,
                clause: format!("the lowest headroom of L1 is {most}{} per core", signed(bytes)),
                held: rows::of_l1(lowest),
                ..at_l1(lowest)
            };
            return self.unless_ran_out(pool, value);
        }
        let Some(summary) = self.summary.pools.get(pool) else { return self.headroom_of_sessions(pool) };
        let left = summary.capacity_per_bank.zip(summary.peak_per_bank);
        let left = left.and_then(|(capacity, peak)| capacity.checked_sub(peak));
        let Some(bytes) = summary.free_at_peak_per_bank.or(left) else {
            return self.no_capacity(pool);
        };
        let most = if summary.is_peak_at_least() { "at most " } else { "" };
        let moment = self.summary.peaks.get(pool);
        let value = Value {
            bytes: i64::try_from(bytes).ok(),
            whole: summary.capacity_per_bank,
            whole_name: "capacity",
            is_bound: summary.is_peak_at_least(),
            clause: format!("the free memory of {pool} at its peak is {most}{}", of(bytes, summary.extent)),
            held: rows::of_moment(moment),
            ..at_peak(pool, summary, moment)
        };
        self.unless_ran_out(pool, value)
    }

    fn headroom_of_sessions(&self, pool: &str) -> Found {
        let Found::Value(value) = self.peak_of_sessions(pool) else { return self.peak_of_sessions(pool) };
        let left = value.whole.and_then(|whole| i64::try_from(whole).ok()).zip(value.bytes);
        let Some(bytes) = left.map(|(whole, peak)| whole.saturating_sub(peak)) else {
            return self.no_capacity(pool);
        };
        let clause = format!("the free memory of {pool} at its peak is {}", signed(bytes));
        Found::Value(Box::new(Value { bytes: Some(bytes), clause, ..*value }))
    }

    fn no_capacity(&self, pool: &str) -> Found {
        if self.oom_of(pool).is_some() {
            return self.unless_ran_out(pool, Value { pool: Some(pool.to_owned()), ..Value::default() });
        }
        Found::Unknown(format!(
            "The input does not have the capacity of {pool}, so its free memory is unknown; limit its peak \
             with a size instead, such as {pool}=1GiB."
        ))
    }

    /// The highest use during all phases of a name.
    fn phase(&self, name: &str) -> Found {
        let phases = self.summary.phases.iter();
        let mut phases =
            phases.filter(|phase| phase.name == name || base_name(&phase.name) == name).peekable();
        if phases.peek().is_none() {
            return Found::Missing;
        }
        let shown = brief_line(name, MAX_NAME);
        let peaks = phases.map(|phase| phase.cumulative_peak_bytes.map(|bytes| (bytes, phase.session)));
        let Some(peaks) = peaks.collect::<Option<Vec<_>>>() else {
            return Found::Unknown(format!("The input does not have every peak of phase {shown}."));
        };
        let Some(&(bytes, session)) = peaks.iter().max_by_key(|(bytes, _)| *bytes) else {
            return Found::Missing;
        };
        let whole = self.summary.sessions.get(session).and_then(|session| session.device_memory_bytes);
        let peak = u64::try_from(bytes).unwrap_or(0);
        let clause = format!("the peak during phase {shown} is {}{}", signed(bytes), share(peak, whole));
        Found::Value(Box::new(Value {
            of: Some(Extent::Device),
            bytes: Some(bytes),
            whole,
            whole_name: "device memory",
            clause,
            ..Value::default()
        }))
    }

    fn padding(&self) -> Found {
        let Some(padding) = &self.summary.padding else {
            return Found::Unknown(
                "The padding at the peak is unknown: the input does not have the shapes of its tensors with and \
                 without padding."
                    .into(),
            );
        };
        let bytes = padding.padded_bytes.saturating_sub(padding.logical_bytes);
        Found::Value(Box::new(Value {
            pool: Some(padding.pool.clone()),
            of: Some(Extent::Device),
            bytes: i64::try_from(bytes).ok(),
            whole: Some(padding.logical_bytes),
            whole_name: "size of the tensors",
            clause: format!(
                "padding at the peak of {} is {} on the device, {} of the size without padding",
                padding.pool,
                size(bytes),
                percent(bytes, padding.logical_bytes)
            ),
            held: rows::of_padding(padding),
            ..Value::default()
        }))
    }

    fn unexplained(&self) -> Found {
        let Some(moment) = &self.summary.peak else {
            return Found::Unknown(
                "The input has no peak whose memory could be explained by tensors.".into(),
            );
        };
        let pool = &moment.pool;
        let (Some(rest), Some(summary)) = (moment.unexplained_per_bank, self.summary.pools.get(pool)) else {
            return Found::Unknown(format!(
                "The input does not have the sizes of all tensors at the peak of {pool}."
            ));
        };
        // Differences up to the rounding are not significant, and tensors that add up to more explain everything.
        let is_rounding = rest.unsigned_abs() <= summary.quantum_per_bank;
        let bytes = if is_rounding { 0 } else { u64::try_from(rest).unwrap_or(0) };
        let whole = moment.allocated_per_bank;
        let value = Value {
            bytes: i64::try_from(bytes).ok(),
            whole,
            whole_name: "peak",
            clause: format!(
                "tensors do not explain {}{} of the peak of {pool}",
                of(bytes, summary.extent),
                share(bytes, whole)
            ),
            held: rows::of_residue(moment),
            ..at_peak(pool, summary, Some(moment))
        };
        Found::Value(Box::new(value))
    }

    fn growth(&self) -> Found {
        if self.run != RunFilter::All {
            return Found::Unknown("Growth is measured over all runs; remove --run.".into());
        }
        let Some(growth) = &self.summary.growth else {
            return Found::Unknown(
                "Growth needs at least six iterations: calls of a model or of a named part, repeated phases, or \
                 passes of a log."
                    .into(),
            );
        };
        // Phases are measured on the device, and their input names no pool.
        let (pool, extent) = match growth.pool.as_deref() {
            Some(pool) => (pool, self.summary.pools.get(pool).map_or(Extent::Device, |pool| pool.extent)),
            None => (DRAM, Extent::Device),
        };
        let unit = growth.unit.name();
        let each = match growth.of.as_deref() {
            Some(phase) if growth.pool.is_none() => {
                format!("each {unit} that ends with {}", brief_line(phase, MAX_NAME))
            }
            Some(of) => format!("each {unit} of {}", brief_line(of, MAX_NAME)),
            None => format!("each {unit}"),
        };
        let bytes = growth.per_iteration_per_bank.or(growth.per_iteration_bytes).unwrap_or(0);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let iterations = growth.measured_iterations as u64;
        self.grown(&each, iterations, bytes, (pool, extent))
    }

    fn grown(&self, each: &str, iterations: u64, bytes: i64, (pool, extent): (&str, Extent)) -> Found {
        let more = match u64::try_from(bytes) {
            Ok(0) => "nothing".to_owned(),
            Ok(bytes) => of(bytes, extent),
            Err(_) => format!("{}{}", signed(bytes), extent.in_words()),
        };
        let names = ["grows", "tensors_grow", "kv_cache_grows"];
        let found = self.summary.suggestions.iter().find(|found| names.contains(&found.rule));
        let advice = found.map(|found| {
            let detail = found.statement.detail.clone();
            detail.into_iter().chain(found.statement.advice.clone()).collect::<Vec<_>>().join(" ")
        });
        let group = found.and_then(|found| found.groups.first());
        Found::Value(Box::new(Value {
            pool: Some(pool.to_owned()),
            of: Some(extent),
            bytes: Some(bytes),
            clause: format!("{each} adds {more} to {pool} on average (over {iterations} iterations)"),
            step: found.and_then(|found| found.step),
            op: group.and_then(|group| group.op.clone()),
            loc: group.and_then(|group| group.loc.clone()),
            advice,
            ..Value::default()
        }))
    }
}

/// The place of a peak.
fn at_peak(pool: &str, summary: &PoolSummary, moment: Option<&PoolMoment>) -> Value {
    let cause = moment.and_then(|moment| moment.caused_by.as_ref());
    Value {
        pool: Some(pool.to_owned()),
        of: Some(summary.extent),
        step: cause.map(|cause| cause.step),
        op: cause.and_then(|cause| cause.op.clone()),
        loc: cause.and_then(|cause| cause.loc.clone()),
        ..Value::default()
    }
}

fn at_l1(moment: &L1Moment) -> Value {
    Value {
        pool: Some(L1.to_owned()),
        of: Some(Extent::Core),
        step: Some(moment.step),
        op: moment.op.clone(),
        loc: moment.loc.clone(),
        ..Value::default()
    }
}

fn of(bytes: u64, extent: Extent) -> String {
    format!("{}{}", size(bytes), extent.in_words())
}

fn share(bytes: u64, whole: Option<u64>) -> String {
    let whole = whole.filter(|whole| *whole > 0);
    whole.map_or_else(String::new, |whole| format!(" ({})", percent(bytes, whole)))
}

/// A size that may be negative.
pub(super) fn signed(bytes: i64) -> String {
    format!("{}{}", if bytes < 0 { "−" } else { "" }, size(bytes.unsigned_abs()))
}

/// Names without duplicates, in order.
fn unique<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = rustc_hash::FxHashSet::default();
    names.into_iter().filter(|name| seen.insert(*name)).collect()
}
