//! The table above the summaries of several ranks.

use ttmem_query::{PoolSummary, RankSummary, Summary};

use super::super::name_of_file;
use super::super::styled::{Style, Text};
use super::super::table::{Align, Table};
use super::super::units::{count, percent, size};

/// One line per rank. Ranks that ran out of memory are marked.
pub(super) fn overview(summary: &Summary, out: &mut Text) {
    let has_processes = summary.ranks.iter().any(|rank| rank.processes > 1);
    let which = if has_processes { "process" } else { "rank" };
    let ran_out = summary.ranks.iter().any(|rank| rank.oom.is_some());
    let mut table = Table::new([
        ("file", Align::Flexible),
        (which, Align::Left),
        ("operations", Align::Right),
        ("peak", Align::FlexibleEnd),
        (if ran_out { "result" } else { "" }, Align::Left),
    ])
    .optional(&[2]);
    for rank in &summary.ranks {
        let used = |(_, pool): &(&str, &PoolSummary)| pool.peak_per_bank.is_some_and(|peak| peak > 0);
        let show = |(name, pool): (&str, &PoolSummary)| {
            let peak = pool.peak_per_bank.unwrap_or(0);
            let share =
                pool.capacity_per_bank.map_or_else(String::new, |all| format!(" ({})", percent(peak, all)));
            format!("{name} {}{}{share}", size(peak), pool.extent.suffix())
        };
        let peaks: Vec<String> = rank.pools.iter().filter(used).map(show).collect();
        table.row([
            name_of_file(&rank.file).to_owned(),
            name_of(rank, has_processes).unwrap_or_else(|| "–".into()),
            count(rank.operations.total.into()),
            peaks.join(", "),
            rank.oom.as_ref().map_or_else(String::new, |oom| match oom.pool.as_deref() {
                Some(pool) if !peaks.iter().any(|peak| peak.starts_with(pool)) => {
                    format!("out of memory ({pool})")
                }
                _ => "out of memory".into(),
            }),
        ]);
    }
    out.plain_table(&table, "");
    if let Some(comparison) = &summary.comparison {
        out.blank();
        out.sentence(&comparison.sentence, Style::Plain);
        out.sentence(comparison.missing.as_deref().unwrap_or_default(), Style::Plain);
    }
}

/// The label of a rank, its process, or both.
fn name_of(rank: &RankSummary, has_processes: bool) -> Option<String> {
    match (&rank.rank, has_processes) {
        (Some(label), true) => Some(format!("{} (rank {label})", rank.process)),
        (None, true) => Some(rank.process.to_string()),
        (label, false) => label.clone(),
    }
}
