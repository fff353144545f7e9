//! A comparison as text for a terminal, as Markdown for a pull request, and as JSON.

use std::io::{self, Write};

use ttmem_query::words::{brief, class_name};
use ttmem_query::{ChangeRow, Diff, PoolDiff, RankDiff};

use super::markdown::cell::cell;
use super::name_of_file;
use super::styled::{Style, Text};
use super::table::{Align, Table};
use super::units::{change, count, size};

/// Longer lines are hard to read.
const WIDEST: usize = 120;
/// The number of changes of a rank on a terminal and in Markdown, unless another one is given.
pub const MAX_CHANGES: usize = 10;
/// The number of sentences about tensors that changed ones overlap.
const MAX_OVERLAPS: usize = 3;
/// Characters of a name or a description in Markdown.
const MAX_TEXT: usize = 80;

/// Writes the response as JSON.
pub fn diff_json(answer: &Diff, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, answer)?;
    writeln!(out)
}

/// The response as text for a terminal. `top` is the number of changes per rank.
pub fn diff(answer: &Diff, width: usize, top: Option<usize>) -> Text {
    let mut out = Text::new(width.min(WIDEST));
    let name = |file: &str| name_of_file(file).to_owned();
    out.heading(format!("{} → {}", name(&answer.before.file), name(&answer.after.file)));
    for rank in &answer.ranks {
        if let Some(label) = &rank.rank {
            out.blank();
            out.heading(format!("Rank {label}"));
        }
        of_rank(rank, top.unwrap_or(MAX_CHANGES), &mut out);
    }
    for note in notes(answer) {
        out.blank();
        out.sentence(&note, Style::Plain);
    }
    out
}

fn of_rank(rank: &RankDiff, top: usize, out: &mut Text) {
    let grows = rank.pools.iter().any(|(_, pool)| pool.change_per_bank.is_some_and(|change| change > 0));
    let is_worse = grows || rank.out_of_memory.is_new();
    out.sentence(&rank.verdict, if is_worse { Style::Warning } else { Style::Plain });
    out.blank();
    let mut table = Table::new([
        ("peak", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("change", Align::Right),
        ("", Align::Right),
    ]);
    for (name, pool) in used(rank) {
        table.row([
            pool_name(name, pool),
            shown(pool.before_per_bank),
            shown(pool.after_per_bank),
            changed(pool),
            share(pool),
        ]);
    }
    out.table(&table);
    changes(rank, top, out);
    classes(rank, out);
    if let Some(text) = operations(rank) {
        out.blank();
        out.line(format!("  {text}"));
    }
}

fn changes(rank: &RankDiff, top: usize, out: &mut Text) {
    if rank.changes.is_empty() {
        return;
    }
    out.blank();
    let mut table = Table::new([
        ("at the peak", Align::Right),
        ("", Align::Left),
        ("what", Align::Flexible),
        ("difference", Align::FlexibleEnd),
        ("where", Align::Flexible),
    ])
    .optional(&[4]);
    let all = rank.changes.len() + rank.further_changes;
    for row in rank.changes.iter().take(top) {
        table.row([effect(row), row.pool.clone(), row.title.clone(), row.detail.clone(), place(row)]);
    }
    out.table(&table);
    let more = all.saturating_sub(top);
    if more > 0 {
        out.line(format!("  … and {} more (--top {} lists them)", count(more as u64), all));
    }
    let mut overlaps = overlaps(rank, top).peekable();
    if overlaps.peek().is_some() {
        out.blank();
    }
    overlaps.for_each(|sentence| out.sentence(sentence, Style::Plain));
}

/// The sentences about what the listed tensors overlap in one input only.
fn overlaps(rank: &RankDiff, top: usize) -> impl Iterator<Item = &str> {
    let rows = rank.changes.iter().take(top);
    let overlaps = rows.flat_map(|row| [&row.now_overlaps, &row.no_longer_overlaps]).flatten();
    overlaps.map(|overlap| &*overlap.sentence).take(MAX_OVERLAPS)
}

fn classes(rank: &RankDiff, out: &mut Text) {
    let changed =
        |pool: &PoolDiff| pool.by_class.iter().any(|class| class.before_per_bank != class.after_per_bank);
    for (name, pool) in rank.pools.iter().filter(|(_, pool)| changed(pool)).take(1) {
        out.blank();
        let title = format!("at the peak of {name}");
        let mut table = Table::new([
            (title.as_str(), Align::Left),
            ("before", Align::Right),
            ("after", Align::Right),
            ("change", Align::Right),
        ]);
        for class in &pool.by_class {
            let difference = ttmem_model::difference(class.after_per_bank, class.before_per_bank);
            table.row([
                class_name(class.class.as_str()).to_owned(),
                size(class.before_per_bank),
                size(class.after_per_bank),
                if difference == 0 { "–".into() } else { change(difference) },
            ]);
        }
        out.table(&table);
    }
}

/// What happened to the operations; `None` if they are the same.
fn operations(rank: &RankDiff) -> Option<String> {
    let operations = rank.operations;
    let parts =
        [(operations.added, "added"), (operations.removed, "removed"), (operations.reordered, "reordered")];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{} {what}", count(*number as u64)))
        .collect();
    let numbers = format!("{} → {}", count(operations.before as u64), count(operations.after as u64));
    (!parts.is_empty()).then(|| format!("Operations: {numbers} ({})", parts.join(", ")))
}

fn notes(answer: &Diff) -> Vec<String> {
    let list = |labels: &[String], which: &str| {
        (!labels.is_empty()).then(|| format!("Only the {which} input has rank {}.", labels.join(", ")))
    };
    [list(&answer.only_before, "first"), list(&answer.only_after, "second")].into_iter().flatten().collect()
}

/// The pools that either input uses.
fn used(rank: &RankDiff) -> impl Iterator<Item = (&str, &PoolDiff)> {
    let is_used = |pool: &PoolDiff| [pool.before_per_bank, pool.after_per_bank] != [Some(0); 2];
    rank.pools.iter().filter(move |(_, pool)| is_used(pool))
}

fn pool_name(name: &str, pool: &PoolDiff) -> String {
    if pool.banks == Some(1) { name.to_owned() } else { format!("{name}, per bank") }
}

fn shown(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unknown".into(), size)
}

fn changed(pool: &PoolDiff) -> String {
    match pool.change_per_bank {
        Some(0) => "–".into(),
        Some(bytes) => change(bytes),
        None => "unknown".into(),
    }
}

fn share(pool: &PoolDiff) -> String {
    match (pool.change_per_bank, pool.before_per_bank) {
        (Some(change), Some(before)) if change != 0 && before > 0 => {
            let sign = if change < 0 { "−" } else { "+" };
            format!("{sign}{}", ttmem_query::words::percent(change.unsigned_abs(), before))
        }
        _ => String::new(),
    }
}

fn effect(row: &ChangeRow) -> String {
    if row.effect_per_bank == 0 { "none".into() } else { change(row.effect_per_bank) }
}

/// The operation or location of a change.
fn place(row: &ChangeRow) -> String {
    let Some(side) = row.after.as_ref().or(row.before.as_ref()) else { return String::new() };
    side.loc.clone().or_else(|| side.op.clone()).unwrap_or_default()
}

/// Writes the response as Markdown, short enough for a comment on a pull request.
pub fn diff_markdown(answer: &Diff, top: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let text = |text: &str| cell(text, MAX_TEXT);
    writeln!(out, "### Memory: {} → {}\n", text(&answer.before.file), text(&answer.after.file))?;
    for rank in &answer.ranks {
        let label =
            rank.rank.as_ref().map_or_else(String::new, |label| format!("**Rank {}:** ", text(label)));
        writeln!(out, "{label}{}\n", cell(&rank.verdict, 4 * MAX_TEXT))?;
        writeln!(out, "| peak | before | after | change |\n|---|---:|---:|---:|")?;
        for (name, pool) in used(rank) {
            let (before, after) = (shown(pool.before_per_bank), shown(pool.after_per_bank));
            let name = text(&pool_name(name, pool));
            let change = [changed(pool), share(pool)].join(" ");
            writeln!(out, "| {name} | {before} | {after} | {} |", change.trim_end())?;
        }
        writeln!(out)?;
        markdown_changes(rank, top.unwrap_or(MAX_CHANGES), out)?;
    }
    notes(answer).iter().try_for_each(|note| writeln!(out, "{}\n", cell(note, 4 * MAX_TEXT)))
}

fn markdown_changes(rank: &RankDiff, top: usize, out: &mut dyn Write) -> io::Result<()> {
    if !rank.changes.is_empty() {
        writeln!(out, "| at the peak | pool | what | difference | where |\n|---:|---|---|---|---|")?;
        let all = rank.changes.len() + rank.further_changes;
        for row in rank.changes.iter().take(top) {
            let cells = [&row.pool, &row.title, &row.detail, &place(row)].map(|text| cell(text, MAX_TEXT));
            writeln!(out, "| {} | {} |", effect(row), cells.join(" | "))?;
        }
        let more = all.saturating_sub(top);
        if more > 0 {
            writeln!(out, "\n… and {} more.", count(more as u64))?;
        }
        writeln!(out)?;
        overlaps(rank, top).try_for_each(|sentence| writeln!(out, "{}\n", cell(sentence, 4 * MAX_TEXT)))?;
    }
    match operations(rank) {
        Some(text) => writeln!(out, "{}.\n", brief(&text, MAX_TEXT)),
        None => Ok(()),
    }
}
