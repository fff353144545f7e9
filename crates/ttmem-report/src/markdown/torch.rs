//! The sections of the contract for a PyTorch program, which has no banks, no tiles and no compiled modules.

use ttmem_model::Class;
use ttmem_query::{
    LaunchSummary, LiveTensor, PoolMoment, PoolSummary, RankSummary, Summary, groups, location_text, words,
};

use super::document::{Align, Section};
use super::promised::{at_end, cause, of_rank, steps};
use super::{LOCATION, NAME, cell, location, mb, named, none, number, of_capacity, typed};
use crate::units::mib;

/// More devices than one process usually has.
const MAX_POOLS: usize = 12;

/// The sections, in order.
pub(super) fn sections(summary: &Summary, rank: &RankSummary, rows: usize) -> Vec<Section> {
    vec![
        configuration(summary, rank),
        peak_memory(rank),
        consumers(rank, rows),
        Section::new("## Top 10 Padding Overhead").paragraph("None: PyTorch tensors have no tiles."),
        weights(rank, rows),
        distribution(rank, rows),
    ]
}

/// The line above the sections.
pub(super) fn headline(rank: &RankSummary) -> String {
    let main = rank.peak.as_ref().map_or("memory", |peak| peak.pool.as_str());
    let pool = rank.pools.get(main);
    let share = pool.and_then(|pool| pool.peak_per_bank.zip(pool.capacity_per_bank));
    let share = share.map_or_else(String::new, |(peak, all)| format!(" ({})", words::percent(peak, all)));
    let weights = of_class(rank.peak.as_ref(), Class::Parameter);
    let weights = weights.map_or_else(String::new, |bytes| format!(" | Weights: {} MB", mib(bytes, 2)));
    let at_least = if pool.is_some_and(PoolSummary::is_peak_at_least) { "at least " } else { "" };
    format!(
        "Peak {}: {at_least}{} MB{share} | Ops: {}{weights}",
        cell(main, NAME),
        mb(pool.and_then(|pool| pool.peak_per_bank)),
        rank.operations.reported
    )
}

fn configuration(summary: &Summary, rank: &RankSummary) -> Section {
    let counts = &rank.operations;
    let capacity = |(name, pool): (&str, &PoolSummary)| {
        Some(format!("{} has {} MiB", cell(name, NAME), mib(pool.capacity_per_bank?, 0)))
    };
    let capacities: Vec<String> = rank.pools.iter().filter_map(capacity).collect();
    let section = Section::new("## Configuration").paragraph(format!(
        "Source: {} ({}){}. Steps: {}; {} of them are Ops (all except frees).",
        cell(&rank.file, LOCATION),
        cell(&summary.source.format, NAME),
        of_rank(summary, rank),
        counts.total,
        counts.reported,
    ));
    let launched = rank.launch.as_ref().map(LaunchSummary::text).filter(|text| !text.is_empty());
    let section = match launched {
        Some(text) => section.paragraph(format!("Process: {}.", cell(&text, LOCATION))),
        None => section,
    };
    let section = section.paragraph("MB in the first line means MiB (1,048,576 bytes).");
    if capacities.is_empty() { section } else { section.paragraph(format!("{}.", capacities.join(", "))) }
}

fn peak_memory(rank: &RankSummary) -> Section {
    let row = |(name, pool): (&str, &PoolSummary)| {
        let levels = pool.caching_allocator().map(|(levels, _)| levels);
        let level = |bytes: Option<Option<u64>>| bytes.map_or_else(none, mb);
        [
            cell(name, NAME),
            mb(pool.peak_per_bank),
            pool.capacity_per_bank.map_or_else(none, |_| of_capacity(pool)),
            level(levels.map(|levels| levels.requested_at_peak_total)),
            level(levels.map(|levels| levels.reserved_at_peak_total)),
            at_end(pool),
            number(pool.peak_step),
            rank.peaks.get(name).map_or_else(none, |peak| match pool.peak_source {
                Some("sampled") => "sampled: a lower bound".into(),
                Some("recorded") => "a lower bound: the history is incomplete".into(),
                Some(_) if peak.step.is_none() => "unknown: between two snapshots".into(),
                _ if pool.polled => "sampled".into(),
                _ => cause(peak),
            }),
        ]
    };
    let columns = [
        ("Memory", Align::Left),
        ("Peak MiB", Align::Right),
        ("Of capacity", Align::Right),
        ("Requested at peak", Align::Right),
        ("Reserved at peak", Align::Right),
        ("At end", Align::Right),
        ("Before step", Align::Right),
        ("Caused by", Align::Left),
    ];
    Section::new("## Peak Memory")
        .table(columns, rank.pools.iter().take(MAX_POOLS).map(row))
        .floors(MAX_POOLS, 4)
        .of(rank.pools.iter().count(), "")
}

fn consumers(rank: &RankSummary, rows: usize) -> Section {
    let main = rank.peak.as_ref().map_or("memory", |peak| peak.pool.as_str());
    let section = Section::new(format!("## Top 10 Memory Consumers ({})", cell(main, NAME)));
    if rank.increases.is_empty() {
        return section.paragraph("No steps to list.");
    }
    let columns = [
        ("Step", Align::Right),
        ("Operation", Align::Left),
        ("Added MiB", Align::Right),
        ("Location", Align::Left),
    ];
    let list = rank.increases.iter().take(rows).map(|increase| {
        [
            steps(increase),
            named(increase.op.as_deref()),
            format!("+{}", mib(increase.added_per_bank, 3)),
            location(location_text(increase.loc.as_deref(), increase.locations).as_deref()),
        ]
    });
    section
        .paragraph("The steps with the largest increases in the whole run. Identical steps share a row; the increase is per step.")
        .table(columns, list)
        .floors(rows, rows)
}

fn weights(rank: &RankSummary, rows: usize) -> Section {
    let peak = rank.peak.as_ref();
    let Some(bytes) = of_class(peak, Class::Parameter) else {
        return Section::new("## Model Weights (unknown MB total)").paragraph(
            "No parameters are known at the peak: a model is registered when it is first called.",
        );
    };
    let section = Section::new(format!("## Model Weights ({} MB total)", mib(bytes, 2)));
    let live = peak.and_then(|peak| peak.live.as_deref()).unwrap_or_default();
    if live.iter().all(|tensor| tensor.class != Class::Parameter || tensor.name.is_none()) {
        return unnamed_weights(section, live, rows);
    }
    let is_weight = |tensor: &&LiveTensor| tensor.class == Class::Parameter;
    let columns = [("Weight", Align::Left), ("Shape", Align::Left), ("MiB", Align::Right)];
    let list = live.iter().filter(is_weight).take(rows).map(|tensor| {
        [
            named(tensor.name.as_deref()),
            typed(tensor.shape.as_deref(), tensor.dtype.as_deref()),
            mb(tensor.per_bank),
        ]
    });
    section
        .paragraph("Live parameters at the peak, largest first.")
        .table(columns, list)
        .floors(4, 2)
        .of(live.iter().filter(is_weight).count(), "")
}

/// Parameters of a snapshot, which has no names: equal ones of a source line share a row.
fn unnamed_weights(section: Section, live: &[LiveTensor], rows: usize) -> Section {
    let mut groups = groups(live);
    groups.retain(|group| group.first().class == Class::Parameter);
    let columns = [("Weights", Align::Left), ("MiB", Align::Right)];
    let list = groups.iter().take(rows).map(|group| {
        let title = group.title().unwrap_or_else(|| "unknown".into());
        [cell(&title, LOCATION), mb(group.per_bank)]
    });
    section
        .paragraph("Live parameters at the peak, largest group first. The file has no names of parameters.")
        .table(columns, list)
        .floors(4, 2)
        .of(groups.len(), " groups")
}

fn distribution(rank: &RankSummary, rows: usize) -> Section {
    let columns = [("Operation", Align::Left), ("Count", Align::Right)];
    let list = rank.distribution.iter().take(rows).map(|row| [cell(&row.op, NAME), row.count.to_string()]);
    Section::new("## Operation Distribution")
        .table(columns, list)
        .floors(4, 2)
        .of(rank.distribution.len(), " kinds of operations")
}

/// The size of a class at a peak.
fn of_class(peak: Option<&PoolMoment>, class: Class) -> Option<u64> {
    peak?.by_class_per_bank.as_ref()?.get(class.as_str()).copied()
}
