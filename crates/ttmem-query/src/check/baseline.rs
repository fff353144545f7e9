//! The comparison with a baseline: how much each peak grew.

use ttmem_model::{Error, Profile, Result};

use super::{CheckKind, CheckRequest, HeldRow, LimitChecked, Outcome, RankChecked, SourceLine};
use crate::about::Extent;
use crate::diff::{ChangeRow, DiffRequest, GrowthLimit, PoolDiff, RankDiff, diff};
use crate::words::{percent, size};

/// The number of changes that explain a growth.
const MAX_CHANGES: usize = 5;

/// Without a limit, every growth exceeds it.
const NO_GROWTH: GrowthLimit = GrowthLimit::Bytes(0);

/// Adds a limit for each pool of the baseline, except those that were only sampled.
pub(super) fn add(
    before: &Profile,
    profiles: &[Profile],
    request: &CheckRequest,
    checked: &mut [RankChecked],
) -> Result<()> {
    let [after] = profiles else {
        return Err(Error::Usage(format!(
            "a baseline is compared with one file, and there are {}; check them one by one",
            profiles.len()
        )));
    };
    let limit = request.limits.fail_over.unwrap_or(NO_GROWTH);
    let found = diff(before, after, &DiffRequest { rank: request.rank.clone(), top: None })?;
    let is_single = found.ranks.len() == 1 && checked.len() == 1;
    for rank in &found.ranks {
        let same = |checked: &&mut RankChecked| is_single || checked.rank == rank.rank;
        let Some(checked) = checked.iter_mut().find(same) else { continue };
        checked.limits.extend(of_rank(rank, limit));
    }
    let is_wanted = |label: &&String| request.rank.as_ref().is_none_or(|wanted| wanted == *label);
    for label in found.only_after.iter().filter(is_wanted) {
        let same = |rank: &&mut RankChecked| rank.rank.as_deref().unwrap_or("0") == label;
        if let Some(rank) = checked.iter_mut().find(same) {
            rank.limits.push(unknown("baseline", limit, format!("The baseline has no rank {label}.")));
        }
    }
    for label in found.only_before.iter().filter(is_wanted) {
        if let Some(first) = checked.first_mut() {
            let message = format!("Only the baseline has rank {label}.");
            first.limits.push(unknown("baseline", limit, message));
        }
    }
    Ok(())
}

fn of_rank(rank: &RankDiff, limit: GrowthLimit) -> Vec<LimitChecked> {
    let pools = rank.pools.iter().filter(|(_, pool)| !pool.sampled);
    pools.map(|(name, pool)| of_pool(rank, name, pool, limit)).collect()
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
    let is_exceeded = limit.is_exceeded(grown, before);
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
    let than = if is_exceeded { ", more than the limit of " } else { "; the limit is " };
    let causes: Vec<&ChangeRow> = rank
        .changes
        .iter()
        .filter(|row| is_exceeded && row.pool == name && row.effect_per_bank > 0)
        .take(MAX_CHANGES)
        .collect();
    LimitChecked {
        result: if is_exceeded { Outcome::Failed } else { Outcome::Passed },
        message: format!("The peak of {name} {changed}{than}{limit}."),
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
