//! The comparison with a baseline: how much each peak grew.

use ttmem_model::{Error, Profile, Rank, Result};

use super::{CheckKind, CheckRequest, HeldRow, LimitChecked, Outcome, RankChecked, SourceLine};
use crate::about::Extent;
use crate::diff::{ChangeRow, DiffRequest, GrowthLimit, PoolDiff, RankDiff, compared, diff_or_nothing};
use crate::words::{percent, size};

/// The number of changes that explain a growth.
const MAX_CHANGES: usize = 5;

/// Without a limit, every growth exceeds it.
const NO_GROWTH: GrowthLimit = GrowthLimit::Bytes(0);

/// Adds a limit for each pool of the baseline. Pools that were only sampled are left out if there are others.
pub(super) fn add(
    befores: &[Profile],
    profiles: &[Profile],
    request: &CheckRequest,
    checked: &mut [RankChecked],
) -> Result<()> {
    if let ([before], [after]) = (befores, profiles) {
        return compare(before, after, request, checked);
    }
    // Several files belong to several ranks.
    let before_labels = befores.iter().map(labels).collect::<Result<Vec<_>>>()?;
    let after_labels = profiles.iter().map(labels).collect::<Result<Vec<_>>>()?;
    for (after, labels) in profiles.iter().zip(&after_labels) {
        let same = before_labels.iter().position(|other| labels.iter().any(|label| other.contains(label)));
        match same {
            Some(index) if labels.iter().any(|label| is_wanted(label, request)) => {
                compare(&befores[index], after, request, checked)?;
            }
            Some(_) => {}
            None => not_in_baseline(labels, request, checked),
        }
    }
    let is_other = |label: &&String| after_labels.iter().all(|labels| !labels.contains(label));
    let only_before: Vec<String> = before_labels
        .iter()
        .filter(|labels| labels.iter().all(|label| is_other(&label)))
        .flatten()
        .cloned()
        .collect();
    only_in_baseline(&only_before, request, checked);
    Ok(())
}

/// The ranks of one of several files.
fn labels(profile: &Profile) -> Result<Vec<String>> {
    let ranks = profile.ranks.iter().filter(|rank| rank.has_content());
    let label = |rank: &Rank| rank.label.map(|label| profile.text(label).to_owned());
    ranks.map(label).collect::<Option<_>>().ok_or_else(|| {
        Error::Usage(format!(
            "a baseline is compared with one file, or rank by rank, and {} does not have the number of its rank; check \
             the files one by one",
            profile.source.file
        ))
    })
}

fn is_wanted(label: &str, request: &CheckRequest) -> bool {
    request.rank.as_ref().is_none_or(|wanted| wanted == label)
}

fn not_in_baseline(labels: &[String], request: &CheckRequest, checked: &mut [RankChecked]) {
    let limit = request.limits.fail_over.unwrap_or(NO_GROWTH);
    for label in labels.iter().filter(|label| is_wanted(label, request)) {
        let same = |rank: &&mut RankChecked| rank.rank.as_deref().unwrap_or("0") == label;
        if let Some(rank) = checked.iter_mut().find(same) {
            rank.limits.push(unknown("baseline", limit, format!("The baseline has no rank {label}.")));
        }
    }
}

fn only_in_baseline(labels: &[String], request: &CheckRequest, checked: &mut [RankChecked]) {
    let limit = request.limits.fail_over.unwrap_or(NO_GROWTH);
    for label in labels.iter().filter(|label| is_wanted(label, request)) {
        if let Some(first) = checked.first_mut() {
            let message = format!("Only the baseline has rank {label}.");
            first.limits.push(unknown("baseline", limit, message));
        }
    }
}

/// Compares two files.
fn compare(
    before: &Profile,
    after: &Profile,
    request: &CheckRequest,
    checked: &mut [RankChecked],
) -> Result<()> {
    let limit = request.limits.fail_over.unwrap_or(NO_GROWTH);
    let found = diff_or_nothing(before, after, &DiffRequest { rank: request.rank.clone(), top: None })?;
    let is_single = found.ranks.len() == 1 && checked.len() == 1;
    for rank in &found.ranks {
        let same = |checked: &&mut RankChecked| is_single || checked.rank == rank.rank;
        let Some(checked) = checked.iter_mut().find(same) else { continue };
        checked.limits.extend(of_rank(rank, limit));
    }
    not_in_baseline(&found.only_after, request, checked);
    only_in_baseline(&found.only_before, request, checked);
    Ok(())
}

fn of_rank(rank: &RankDiff, limit: GrowthLimit) -> Vec<LimitChecked> {
    let is_used = rank.pools.0.iter().any(|(_, pool)| pool.is_used());
    // Pools that neither input uses are left out, unless there are no others.
    let counts = |(_, pool): &&(String, PoolDiff)| pool.is_used() || !is_used;
    let mut limits: Vec<LimitChecked> =
        compared(&rank.pools.0).filter(counts).map(|(name, pool)| of_pool(rank, name, pool, limit)).collect();
    let has_limit = |pool: &str| limits.iter().any(|limit| limit.pool.as_deref() == Some(pool));
    if let Some(error) = rank.out_of_memory.after.as_ref()
        && !error.pool.as_deref().is_some_and(has_limit)
    {
        let message = ran_out(rank, error.pool.as_deref());
        let pool = error.pool.clone();
        limits.push(LimitChecked { result: Outcome::Failed, pool, ..unknown("baseline", limit, message) });
    }
    if limits.is_empty() {
        let message =
            "Neither the input nor the baseline has the peak of a pool, so nothing can be compared.";
        limits.push(unknown("baseline", limit, message.into()));
    }
    limits
}

/// A sentence about the error that ended the program.
fn ran_out(rank: &RankDiff, pool: Option<&str>) -> String {
    let place = pool.map_or_else(String::new, |pool| format!(" in {pool}"));
    let baseline = match &rank.out_of_memory.before {
        None => ", and the baseline does not",
        Some(before) if before.pool.as_deref() == pool => ", as the baseline does",
        Some(_) => "",
    };
    format!("The program runs out of memory{place}{baseline}.")
}

fn of_pool(rank: &RankDiff, name: &str, pool: &PoolDiff, limit: GrowthLimit) -> LimitChecked {
    let key = format!("baseline.{name}");
    let (Some(before), Some(after), Some(change)) =
        (pool.before_per_bank, pool.after_per_bank, pool.change_per_bank)
    else {
        let which = if pool.before_per_bank.is_none() { "baseline" } else { "input" };
        let message = format!("The {which} does not have the peak of {name}.");
        return LimitChecked { pool: Some(name.to_owned()), ..unknown(&key, limit, message) };
    };
    let extent = Extent::of(name, pool.banks);
    let grown = u64::try_from(change).unwrap_or(0);
    let has_run_out =
        rank.out_of_memory.after.as_ref().is_some_and(|error| error.pool.as_deref() == Some(name));
    let is_over = limit.is_exceeded(grown, before);
    let is_exceeded = is_over || has_run_out;
    let share =
        if before == 0 { String::new() } else { format!(" ({})", percent(change.unsigned_abs(), before)) };
    let changed = match change {
        0 => format!("did not change: {}{}", size(after), extent.in_words()),
        _ => format!(
            "{} by {}{}{share}, from {} to {}",
            if change > 0 { "grew" } else { "shrank" },
            size(change.unsigned_abs()),
            extent.in_words(),
            size(before),
            size(after)
        ),
    };
    let than = match (limit == NO_GROWTH, is_over) {
        (false, true) => format!(", more than the limit of {limit}."),
        (false, false) => format!("; the limit is {limit}."),
        (true, true) => "; no growth is allowed.".to_owned(),
        (true, false) => ".".to_owned(),
    };
    let causes: Vec<&ChangeRow> = rank
        .changes
        .iter()
        .filter(|row| is_exceeded && row.pool == name && row.effect_per_bank > 0)
        .take(MAX_CHANGES)
        .collect();
    LimitChecked {
        result: if is_exceeded { Outcome::Failed } else { Outcome::Passed },
        message: if has_run_out {
            format!("{} The peak before the error {changed}{than}", ran_out(rank, Some(name)))
        } else {
            format!("The peak of {name} {changed}{than}")
        },
        pool: Some(name.to_owned()),
        of: Some(extent),
        limit_bytes: limit.bytes(before),
        measured_bytes: Some(change),
        lines: causes.iter().filter_map(|row| SourceLine::of(location(row)?)).collect(),
        held: causes.iter().map(|row| held(row)).collect(),
        ..unknown(&key, limit, String::new())
    }
}

fn location(row: &ChangeRow) -> Option<&str> {
    row.after.as_ref().or(row.before.as_ref())?.loc.as_deref()
}

fn held(row: &ChangeRow) -> HeldRow {
    HeldRow {
        what: row.title.clone(),
        bytes: row.effect_per_bank,
        allocated_by: Some(row.detail.clone()),
        loc: location(row).map(str::to_owned),
    }
}

fn unknown(name: &str, limit: GrowthLimit, message: String) -> LimitChecked {
    LimitChecked {
        name: name.to_owned(),
        kind: CheckKind::Baseline,
        limit: limit.to_string(),
        from: None,
        result: Outcome::Unknown,
        message,
        pool: None,
        of: None,
        limit_bytes: None,
        measured_bytes: None,
        is_minimum: false,
        is_bound: false,
        step: None,
        op: None,
        loc: None,
        lines: Vec::new(),
        held: Vec::new(),
        advice: None,
    }
}
