//! `ttmem check`: compares the summary of a run with limits. docs/check.md documents every field.
//!
//! A limit passes only if its value is known. If the input does not have the value, or has no pool or phase of that name, the
//! result is `unknown`, which is not a success.

mod baseline;
mod limits;
mod measure;
mod names;
mod rows;

pub use limits::CheckLimits;
pub use rows::{HeldRow, SourceLine};

use std::cmp::Reverse;
use std::path::Path;

use serde::Serialize;
use ttmem_model::words::counted;
use ttmem_model::{Profile, Result, Step};

use super::about::Extent;
use super::answer::{RankSummary, SourceSummary};
use super::diff::DiffSource;
use super::summary::{Request, RunFilter, summary};
use super::words::size;
use limits::{Amount, Limit};
use measure::{Checking, Found, Value, signed};

/// What to check.
#[derive(Clone, Debug, Default)]
pub struct CheckRequest {
    /// The limits.
    pub limits: CheckLimits,
    /// The rank; `None` for all.
    pub rank: Option<String>,
    /// The runs to include.
    pub run: RunFilter,
}

/// The response of `ttmem check`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The version of this format.
    pub schema: u32,
    /// The worst result of all limits.
    pub result: Outcome,
    /// The number of limits that hold.
    pub passed: usize,
    /// The number of limits that are exceeded.
    pub failed: usize,
    /// The number of limits whose value is unknown.
    pub unknown: usize,
    /// One sentence about all of them.
    pub verdict: String,
    /// The input files and their warnings.
    pub source: SourceSummary,
    /// The input that peaks are compared with.
    pub baseline: Option<DiffSource>,
    /// The ranks, the worst first.
    pub ranks: Vec<RankChecked>,
    /// The files that could not be read.
    pub unreadable: Vec<UnreadableFile>,
}

/// A file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadableFile {
    /// The file.
    pub file: String,
    /// The error.
    pub message: String,
}

impl Checked {
    /// The response if no file could be read.
    pub fn of_nothing() -> Self {
        let source = SourceSummary {
            format: String::new(),
            files: Vec::new(),
            warnings: Vec::new(),
            skipped_lines: 0,
        };
        Self { verdict: String::new(), ..answer(source, &[], Vec::new()) }
    }

    /// Adds files that could not be read, which is not a success.
    #[must_use]
    pub fn with_unreadable(mut self, files: Vec<UnreadableFile>) -> Self {
        if !files.is_empty() {
            self.result = self.result.max(Outcome::Unknown);
            let unreadable = counted(files.len(), "file");
            let sentence = format!("{unreadable} could not be read.");
            self.verdict =
                if self.verdict.is_empty() { sentence } else { format!("{} {sentence}", self.verdict) };
        }
        self.unreadable.extend(files);
        self
    }
}

/// The result of a limit. The order is from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The limit holds.
    Passed,
    /// The value is unknown.
    Unknown,
    /// The limit is exceeded.
    Failed,
}

/// What a limit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    /// The peak of a pool.
    Peak,
    /// The free memory of a pool at its peak; for L1, the lowest headroom of a core.
    Headroom,
    /// The peak of a phase.
    Phase,
    /// The padding at the peak.
    Padding,
    /// The memory at the peak that no tensor explains.
    Unexplained,
    /// The memory that each iteration adds.
    Growth,
    /// The growth of a peak compared with the baseline.
    Baseline,
}

/// The limits of a rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankChecked {
    /// The label of the rank.
    pub rank: Option<String>,
    /// The number of the process that wrote it, from 1.
    pub process: u32,
    /// The number of processes that wrote the log.
    pub processes: u32,
    /// The input file.
    pub file: String,
    /// The format of that file.
    pub format: String,
    /// The worst result.
    pub result: Outcome,
    /// The limits, the worst first.
    pub limits: Vec<LimitChecked>,
    /// What the limits do not show, such as an error that ended the program.
    pub notes: Vec<String>,
}

/// A limit and the value that it is compared with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitChecked {
    /// The key of the limit: `DRAM`, `headroom.L1`; for the baseline, `baseline.DRAM`.
    pub name: String,
    /// The kind of value.
    pub kind: CheckKind,
    /// The limit as it is written.
    pub limit: String,
    /// The file and line, if it is from a file.
    pub from: Option<String>,
    /// The result.
    pub result: Outcome,
    /// One or two sentences about the result.
    pub message: String,
    /// The pool.
    pub pool: Option<String>,
    /// The unit of the bytes.
    pub of: Option<Extent>,
    /// The limit in bytes.
    pub limit_bytes: Option<i64>,
    /// The measured value.
    pub measured_bytes: Option<i64>,
    /// Whether the value must not be lower than the limit; otherwise, it must not be higher.
    pub is_minimum: bool,
    /// Whether the true value may be worse than the measured one.
    pub is_bound: bool,
    /// The step that led to the value.
    pub step: Option<Step>,
    /// The operation of that step.
    pub op: Option<String>,
    /// The location of that operation.
    pub loc: Option<String>,
    /// The source lines of that operation and of what holds the memory, the most important first.
    pub lines: Vec<SourceLine>,
    /// What holds the memory, largest first; empty if the limit holds.
    pub held: Vec<HeldRow>,
    /// What to do, if that is known and the limit is exceeded.
    pub advice: Option<String>,
}

/// Compares inputs with limits, and their peaks with those of a baseline: one file, or the files of several ranks.
pub fn check(profiles: &[Profile], baseline: &[Profile], request: &CheckRequest) -> Result<Checked> {
    let asked = Request { rank: request.rank.clone(), run: request.run, ..Request::default() };
    let found = summary(profiles, &asked)?;
    let ranks: Vec<Checking<'_>> =
        found.ranks.iter().map(|summary| Checking { summary, run: request.run }).collect();
    let mut checked: Vec<RankChecked> = ranks.iter().map(|rank| of_rank(rank.summary)).collect();
    for limit in &request.limits.limits {
        add(limit, &request.limits.limits, &ranks, &mut checked);
    }
    if !baseline.is_empty() {
        baseline::add(baseline, profiles, request, &mut checked)?;
    }
    for (rank, checking) in checked.iter_mut().zip(&ranks) {
        rank.limits.sort_by_key(|limit| Reverse(limit.result));
        rank.result = worst(rank.limits.iter().map(|limit| limit.result));
        rank.notes = notes(checking.summary, &rank.limits);
    }
    checked.sort_by_key(severity);
    Ok(answer(found.source, baseline, checked))
}

fn answer(source: SourceSummary, baseline: &[Profile], ranks: Vec<RankChecked>) -> Checked {
    let all = || ranks.iter().flat_map(|rank| &rank.limits).map(|limit| limit.result);
    let count = |wanted: Outcome| all().filter(|result| *result == wanted).count();
    let (passed, failed, unknown) = (count(Outcome::Passed), count(Outcome::Failed), count(Outcome::Unknown));
    Checked {
        schema: 1,
        result: worst(all()),
        verdict: verdict(passed, failed, unknown),
        passed,
        failed,
        unknown,
        source,
        unreadable: Vec::new(),
        baseline: baseline.first().map(|first| DiffSource {
            file: file_of(baseline, &first.source.file),
            format: first.source.format.clone(),
        }),
        ranks,
    }
}

/// The file of a baseline; the folder of several files.
fn file_of(baseline: &[Profile], first: &str) -> String {
    let folder = Path::new(first).parent().filter(|folder| baseline.len() > 1 && *folder != Path::new(""));
    folder.map_or_else(|| first.to_owned(), |folder| folder.display().to_string())
}

fn verdict(passed: usize, failed: usize, unknown: usize) -> String {
    let all = passed + failed + unknown;
    let unchecked = match unknown {
        0 => String::new(),
        _ => format!("; {unknown} could not be checked"),
    };
    match (failed, unknown, all) {
        (0, 0, 1) => "The limit holds.".into(),
        (0, 0, _) => format!("All {all} limits hold."),
        (0, _, _) => format!("{unknown} of {} could not be checked.", counted(all, "limit")),
        (_, _, 1) => "The limit is exceeded.".into(),
        _ => format!(
            "{failed} of {all} limits {} exceeded{unchecked}.",
            if failed == 1 { "is" } else { "are" }
        ),
    }
}

fn worst(results: impl Iterator<Item = Outcome>) -> Outcome {
    results.max().unwrap_or(Outcome::Passed)
}

/// The order of ranks: the worst result first, then the largest excess over a limit.
fn severity(rank: &RankChecked) -> (Reverse<Outcome>, Reverse<i64>) {
    let excess = |limit: &LimitChecked| {
        let over = limit.measured_bytes?.saturating_sub(limit.limit_bytes?);
        Some(if limit.is_minimum { over.saturating_neg() } else { over })
    };
    let most = rank.limits.iter().filter_map(excess).max().unwrap_or(i64::MIN);
    (Reverse(rank.result), Reverse(most))
}

fn of_rank(summary: &RankSummary) -> RankChecked {
    RankChecked {
        rank: summary.rank.clone(),
        process: summary.process,
        processes: summary.processes,
        file: summary.file.clone(),
        format: summary.format.clone(),
        result: Outcome::Passed,
        limits: Vec::new(),
        notes: Vec::new(),
    }
}

/// What the results do not show: the error that ended the program, or that there are no results.
fn notes(summary: &RankSummary, limits: &[LimitChecked]) -> Vec<String> {
    let is_shown = |pool: &Option<String>| limits.iter().any(|limit| pool.is_some() && limit.pool == *pool);
    let oom = summary.oom.as_ref();
    let failed = oom.filter(|oom| !is_shown(&oom.pool)).map(|oom| {
        format!("{} The peaks do not include the memory that was requested.", oom.statement.headline)
    });
    let ended = summary.ended_by.as_ref().filter(|_| oom.is_none());
    let ended = ended
        .map(|how| format!("{}. The values cover what was recorded before that.", how.trim_end_matches('.')));
    let none = limits.is_empty().then(|| "No limit applies to this rank.".to_owned());
    failed.into_iter().chain(ended).chain(none).collect()
}

/// Adds the results of a limit. If only some ranks have the pool or phase, it does not apply to the others.
/// The limit of a device wins over that of all devices of its kind.
fn add(limit: &Limit, all: &[Limit], ranks: &[Checking<'_>], checked: &mut [RankChecked]) {
    let is_other = |name: &str| name != limit.name && all.iter().any(|other| other.name == name);
    let values = |rank: &Checking<'_>| -> Vec<(String, Found)> {
        rank.values(limit).into_iter().filter(|(name, _)| !is_other(name)).collect()
    };
    let values: Vec<Vec<(String, Found)>> = ranks.iter().map(values).collect();
    let is_missing = |(_, found): &(String, Found)| matches!(found, Found::Missing);
    let is_everywhere = values.iter().flatten().all(is_missing);
    for (found, rank) in values.into_iter().zip(checked) {
        let applies = found.into_iter().filter(|found| is_everywhere || !is_missing(found));
        rank.limits.extend(applies.map(|(name, found)| match found {
            Found::Value(value) => compared(limit, name, *value),
            Found::RanOut(value, what) => ran_out(limit, name, *value, &what),
            Found::Unknown(why) => LimitChecked { message: why, ..unknown(limit, name) },
            Found::Missing => {
                LimitChecked { message: Checking::missing(limit, ranks), ..unknown(limit, name) }
            }
        }));
    }
}

fn unknown(limit: &Limit, name: String) -> LimitChecked {
    LimitChecked {
        name,
        kind: limit.measure.kind(),
        limit: limit.written.clone(),
        from: limit.from.clone(),
        result: Outcome::Unknown,
        message: String::new(),
        pool: None,
        of: None,
        limit_bytes: match limit.amount {
            Amount::Bytes(bytes) => i64::try_from(bytes).ok(),
            Amount::Percent(_) => None,
        },
        measured_bytes: None,
        is_minimum: limit.measure.is_minimum(),
        is_bound: false,
        step: None,
        op: None,
        loc: None,
        lines: Vec::new(),
        held: Vec::new(),
        advice: None,
    }
}

/// A limit with a value, whose result is not decided yet.
fn with_value(limit: &Limit, name: String, value: Value) -> LimitChecked {
    let allowed = limit.amount.bytes(value.whole, limit.measure.is_minimum());
    let locations = value.loc.iter().chain(value.held.iter().filter_map(|row| row.loc.as_ref()));
    let mut lines: Vec<SourceLine> = Vec::new();
    for line in locations.filter_map(|loc| SourceLine::of(loc)) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    LimitChecked {
        pool: value.pool,
        of: value.of,
        limit_bytes: allowed,
        measured_bytes: value.bytes,
        is_bound: value.is_bound,
        step: value.step,
        op: value.op,
        loc: value.loc,
        lines,
        held: value.held,
        advice: value.advice,
        ..unknown(limit, name)
    }
}

fn ran_out(limit: &Limit, name: String, value: Value, what: &str) -> LimitChecked {
    let result = with_value(limit, name, value);
    LimitChecked { result: Outcome::Failed, message: what.to_owned(), ..result }
}

fn compared(limit: &Limit, name: String, value: Value) -> LimitChecked {
    let (clause, whole_name, is_bound) = (value.clause.clone(), value.whole_name, value.is_bound);
    let found = with_value(limit, name, value);
    let clause = capitalized(&clause);
    let (Some(allowed), Some(measured)) = (found.limit_bytes, found.measured_bytes) else {
        let example = if found.of == Some(Extent::Core) { "1MiB" } else { "1GiB" };
        let message = format!(
            "{clause}, but the {whole_name} that the percentage refers to is unknown; use a size, such as \
             {}={example}.",
            found.name
        );
        return LimitChecked { message, held: Vec::new(), lines: Vec::new(), advice: None, ..found };
    };
    let percentage = match limit.amount {
        Amount::Percent(_) => format!(" ({})", limit.written),
        Amount::Bytes(_) => String::new(),
    };
    let shown = format!("{}{percentage}", signed(allowed));
    let over =
        if found.is_minimum { allowed.saturating_sub(measured) } else { measured.saturating_sub(allowed) };
    if over > 0 {
        let word = if found.is_minimum { "less" } else { "more" };
        let message = format!("{clause}, {} {word} than the limit of {shown}.", size(over.unsigned_abs()));
        return LimitChecked { result: Outcome::Failed, message, ..found };
    }
    let worse = match (is_bound, found.is_minimum) {
        (false, _) => "",
        (true, false) => " The true value may be higher.",
        (true, true) => " The true value may be lower.",
    };
    let message = format!("{clause}; the limit is {shown}.{worse}");
    LimitChecked {
        result: Outcome::Passed,
        message,
        held: Vec::new(),
        lines: Vec::new(),
        advice: None,
        ..found
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_counts() {
        assert_eq!(verdict(1, 0, 0), "The limit holds.");
        assert_eq!(verdict(3, 0, 0), "All 3 limits hold.");
        assert_eq!(verdict(0, 1, 0), "The limit is exceeded.");
        assert_eq!(verdict(2, 1, 0), "1 of 3 limits is exceeded.");
        assert_eq!(verdict(2, 2, 1), "2 of 5 limits are exceeded; 1 could not be checked.");
        assert_eq!(verdict(0, 0, 1), "1 of 1 limit could not be checked.");
    }

    #[test]
    fn the_worst_result_counts() {
        assert_eq!(worst([Outcome::Passed, Outcome::Unknown].into_iter()), Outcome::Unknown);
        assert_eq!(worst([Outcome::Failed, Outcome::Unknown].into_iter()), Outcome::Failed);
    }
}
