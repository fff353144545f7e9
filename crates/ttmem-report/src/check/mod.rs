//! The results of limits as text for a terminal, as Markdown, as JSON, and for CI systems.

mod github;
mod junit;

pub use github::check_github;
pub use junit::check_junit;

use std::io::{self, Write};

use ttmem_query::{CheckKind, Checked, HeldRow, LimitChecked, Outcome, RankChecked};

use super::markdown::cell::cell;
use super::name_of_file;
use super::styled::{Style, Text};
use super::table::{Align, Table};
use super::units::{change, size};

/// Longer lines are hard to read.
const WIDEST: usize = 120;
/// Characters of a name in Markdown.
const MAX_TEXT: usize = 80;
/// Characters of a sentence in Markdown.
const MAX_SENTENCE: usize = 600;

/// Writes the response as JSON.
pub fn check_json(answer: &Checked, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, answer)?;
    writeln!(out)
}

/// The response as text for a terminal.
pub fn check(answer: &Checked, width: usize) -> Text {
    let mut out = Text::new(width.min(WIDEST));
    for (index, rank) in answer.ranks.iter().enumerate() {
        if index > 0 {
            out.blank();
        }
        out.heading(title(rank));
        of_rank(rank, &mut out);
    }
    out.blank();
    out.sentence(&answer.verdict, style(answer.result));
    out
}

fn style(result: Outcome) -> Style {
    match result {
        Outcome::Passed => Style::Good,
        Outcome::Unknown => Style::Warning,
        Outcome::Failed => Style::Failure,
    }
}

/// The file, and the rank and process if there are several.
fn title(rank: &RankChecked) -> String {
    let file = name_of_file(&rank.file);
    label(rank).map_or_else(|| file.to_owned(), |label| format!("{file}, {label}"))
}

/// `rank 3`, `rank 3, process 2`; `None` if there is only one.
fn label(rank: &RankChecked) -> Option<String> {
    let process = (rank.processes > 1).then(|| format!("process {}", rank.process));
    let rank = rank.rank.as_ref().map(|rank| format!("rank {rank}"));
    let label = rank.into_iter().chain(process).collect::<Vec<_>>().join(", ");
    (!label.is_empty()).then_some(label)
}

fn of_rank(rank: &RankChecked, out: &mut Text) {
    let mut table = Table::new([
        ("limit", Align::Flexible),
        ("allowed", Align::Left),
        ("measured", Align::Left),
        ("result", Align::Left),
    ]);
    for limit in &rank.limits {
        table.row([limit.name.clone(), allowed(limit), measured(limit), word(limit.result).to_owned()]);
    }
    if !rank.limits.is_empty() {
        out.table(&table);
    }
    for limit in rank.limits.iter().filter(|limit| is_explained(limit)) {
        out.blank();
        out.sentence(&sentence(limit), style(limit.result));
        held(limit, out);
        if let Some(advice) = &limit.advice {
            out.sentence(advice, Style::Plain);
        }
    }
    for note in &rank.notes {
        out.blank();
        out.sentence(note, Style::Plain);
    }
}

/// Whether a limit has a sentence. Those that hold only have a row, unless their true value may be worse.
fn is_explained(limit: &LimitChecked) -> bool {
    limit.result != Outcome::Passed || limit.is_bound
}

fn word(result: Outcome) -> &'static str {
    match result {
        Outcome::Passed => "ok",
        Outcome::Unknown => "unknown",
        Outcome::Failed => "exceeded",
    }
}

/// The limit as it is shown: `at most 3264.0 MiB/bank (80%)`.
fn allowed(limit: &LimitChecked) -> String {
    let word = if limit.is_minimum { "at least" } else { "at most" };
    let is_percent = limit.limit.ends_with('%');
    let is_zero = limit.limit_bytes.map_or(limit.limit == size(0), |bytes| bytes == 0 && !is_percent);
    if is_change(limit) && is_zero {
        return "no growth".into();
    }
    let suffix = limit.of.map_or("", |of| of.suffix());
    let Some(bytes) = limit.limit_bytes else { return format!("{word} {}", limit.limit) };
    let percent = if is_percent { format!(" ({})", limit.limit) } else { String::new() };
    let plus = if is_change(limit) { "+" } else { "" };
    format!("{word} {plus}{}{suffix}{percent}", size(bytes.unsigned_abs()))
}

fn measured(limit: &LimitChecked) -> String {
    let suffix = limit.of.map_or("", |of| of.suffix());
    match limit.measured_bytes {
        None => "unknown".into(),
        Some(0) => format!("0 B{suffix}"),
        Some(bytes) if is_change(limit) || bytes < 0 => format!("{}{suffix}", change(bytes)),
        Some(bytes) => {
            let bound = match (limit.is_bound, limit.is_minimum) {
                (false, _) => "",
                (true, false) => "at least ",
                (true, true) => "at most ",
            };
            format!("{bound}{}{suffix}", size(bytes.unsigned_abs()))
        }
    }
}

fn is_change(limit: &LimitChecked) -> bool {
    matches!(limit.kind, CheckKind::Baseline | CheckKind::Growth)
}

/// The message, with the line of the limit if its value is unknown: the name may be wrong.
fn sentence(limit: &LimitChecked) -> String {
    let from = limit.from.as_ref().filter(|_| limit.result == Outcome::Unknown);
    let from = from.map_or_else(String::new, |from| format!(" ({from})"));
    format!("{}{from}: {}", limit.name, limit.message)
}

/// The heading of the rows.
fn heading(limit: &LimitChecked) -> &'static str {
    match limit.kind {
        CheckKind::Baseline => "what changed",
        CheckKind::Padding => "most padding",
        CheckKind::Unexplained => "retained by",
        _ => "what holds the memory",
    }
}

fn row_size(limit: &LimitChecked, row: &HeldRow) -> String {
    if is_change(limit) || row.bytes < 0 { change(row.bytes) } else { size(row.bytes.unsigned_abs()) }
}

fn held(limit: &LimitChecked, out: &mut Text) {
    if limit.held.is_empty() {
        return;
    }
    let has_origin = limit.held.iter().any(|row| origin(row).is_some());
    let size_name = format!("size{}", limit.of.map_or("", |of| of.suffix()));
    let third = match (has_origin, limit.kind) {
        (false, _) => "",
        (true, CheckKind::Baseline) => "difference",
        (true, _) => "allocated by",
    };
    let mut table = Table::new([
        (heading(limit), Align::Flexible),
        (size_name.as_str(), Align::Right),
        (third, Align::FlexibleEnd),
        (if limit.held.iter().any(|row| row.loc.is_some()) { "where" } else { "" }, Align::Flexible),
    ])
    .optional(&[3]);
    for row in &limit.held {
        let origin = origin(row).unwrap_or_default().to_owned();
        table.row([row.what.clone(), row_size(limit, row), origin, row.loc.clone().unwrap_or_default()]);
    }
    out.table(&table);
}

fn origin(row: &HeldRow) -> Option<&str> {
    row.allocated_by.as_deref()
}

/// Writes the response as Markdown, short enough for a comment on a pull request.
pub fn check_markdown(answer: &Checked, out: &mut dyn Write) -> io::Result<()> {
    let text = |text: &str| cell(text, MAX_TEXT);
    let files = match answer.source.files.as_slice() {
        [file] => text(name_of_file(file)),
        files => format!("{} files", files.len()),
    };
    writeln!(out, "### Memory limits: {files}\n\n{}\n", answer.verdict)?;
    for rank in &answer.ranks {
        if answer.ranks.len() > 1 {
            writeln!(out, "**{}**\n", text(&title(rank)))?;
        }
        if !rank.limits.is_empty() {
            writeln!(out, "| limit | allowed | measured | result |\n|---|---|---|---|")?;
            for limit in &rank.limits {
                let (allowed, measured) = (text(&allowed(limit)), measured(limit));
                writeln!(out, "| {} | {allowed} | {measured} | {} |", text(&limit.name), word(limit.result))?;
            }
            writeln!(out)?;
        }
        for limit in rank.limits.iter().filter(|limit| is_explained(limit)) {
            markdown_limit(limit, out)?;
        }
        for note in &rank.notes {
            writeln!(out, "{}\n", cell(note, MAX_SENTENCE))?;
        }
    }
    for file in &answer.unreadable {
        writeln!(out, "{}\n", cell(&file.message, MAX_SENTENCE))?;
    }
    Ok(())
}

fn markdown_limit(limit: &LimitChecked, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}\n", cell(&sentence(limit), MAX_SENTENCE))?;
    if !limit.held.is_empty() {
        let origin_name = if limit.kind == CheckKind::Baseline { "difference" } else { "allocated by" };
        let suffix = limit.of.map_or("", |of| of.suffix());
        writeln!(out, "| {} | size{suffix} | {origin_name} | where |\n|---|---:|---|---|", heading(limit))?;
        for row in &limit.held {
            let cells = [origin(row).unwrap_or_default(), row.loc.as_deref().unwrap_or_default()];
            let [origin, place] = cells.map(|text| cell(text, MAX_TEXT));
            let what = cell(&row.what, MAX_TEXT);
            writeln!(out, "| {what} | {} | {origin} | {place} |", row_size(limit, row))?;
        }
        writeln!(out)?;
    }
    match &limit.advice {
        Some(advice) => writeln!(out, "{}\n", cell(advice, MAX_SENTENCE)),
        None => Ok(()),
    }
}
