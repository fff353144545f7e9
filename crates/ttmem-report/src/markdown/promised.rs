//! The sections of the contract: their headings, their order, and the line above them.

use ttmem_query::{
    ChosenRuns, DeviceKind, Extent, Increase, PoolMoment, PoolSummary, RankSummary, Summary, location_text,
    words,
};

use super::document::{Align, Section};
use super::torch;
use super::{
    LOCATION, NAME, cell, common_extent, common_unit, location, mb, named, none, number, of_capacity,
    pool_cell, typed, unit_of, unknown, whole_mb,
};
use crate::units::{count, mib, shape};

/// No device has more pools.
const MAX_POOLS: usize = 8;

/// Explains why something is unknown, and which setting would help. For training logs and trackers, none would.
fn missing(rank: &RankSummary, what: &str, setting: &str) -> String {
    let has_only_errors = rank.operations.total == 0 && rank.oom.is_some();
    if rank.sessions.is_empty() && has_only_errors {
        format!("{what}, only an error. See Out of Memory.")
    } else if rank.sessions.is_empty() {
        format!("{what}; capture with {setting}=DEBUG.")
    } else if rank.operations.total == 0 {
        format!("{what}: this is a training log. See Phases.")
    } else {
        "Unknown: the file contains sizes but no graph. See Phases and Live at Peak.".to_owned()
    }
}

/// The sections, in order.
pub(super) fn sections(summary: &Summary, rank: &RankSummary, rows: usize) -> Vec<Section> {
    if rank.device == Some(DeviceKind::Torch) {
        return torch::sections(summary, rank, rows);
    }
    vec![
        configuration(summary, rank),
        peak_memory(rank),
        consumers(rank, rows),
        padding(rank, rows),
        weights(rank, rows),
        distribution(rank, rows),
    ]
}

/// The line above the sections. A number that is not known is `unknown`; the rest of the line stays.
pub(super) fn headline(rank: &RankSummary) -> String {
    if rank.device == Some(DeviceKind::Torch) {
        return torch::headline(rank);
    }
    let pool = |name: &str| rank.pools.get(name);
    let megabytes = |name: &str| unit_of(rank, name).replace("MiB", "MB");
    let peak = |name: &str| mb(pool(name).and_then(|pool| pool.peak_per_bank));
    let dram = pool("DRAM").and_then(|pool| pool.peak_per_bank.zip(pool.capacity_per_bank));
    let dram = dram.filter(|(_, all)| *all > 0).map(|(peak, all)| words::percent(peak, all));
    let weights = rank.weights.as_ref().map_or_else(unknown, |weights| mib(weights.bytes, 2));
    let padding = rank.padding.as_ref().and_then(|padding| padding.overhead_pct);
    format!(
        "Peak DRAM: {} {} ({}) | Peak L1: {} {} | Ops: {} | Weights: {weights} MB | Padding Overhead: {}%",
        peak("DRAM"),
        megabytes("DRAM"),
        dram.unwrap_or_else(|| "unknown%".into()),
        peak("L1"),
        megabytes("L1"),
        rank.operations.reported,
        padding.map_or_else(unknown, |share| format!("{share:.1}")),
    )
}

fn configuration(summary: &Summary, rank: &RankSummary) -> Section {
    let row = |(name, pool): (&str, &PoolSummary)| {
        let total =
            pool.capacity_per_bank.zip(pool.banks).map(|(bank, banks)| bank.saturating_mul(banks.into()));
        let banks = pool.banks.map_or_else(unknown, |banks| banks.to_string());
        [pool_cell(rank, name, pool), banks, mb(pool.capacity_per_bank), whole_mb(total)]
    };
    let columns = [
        ("Memory", Align::Left),
        ("Banks", Align::Right),
        (common_unit(rank), Align::Right),
        ("MiB on device", Align::Right),
    ];
    let of_rank = of_rank(summary, rank);
    let programs = match (rank.runs, rank.passes) {
        (0, _) => "Program runs: unknown.".to_owned(),
        (runs, passes) => format!("Program runs: {runs}, passes: {passes}{}.", chosen(rank)),
    };
    let counts = &rank.operations;
    Section::new("## Configuration")
        .table(columns, rank.pools.iter().take(MAX_POOLS).map(row))
        .floors(MAX_POOLS, 4)
        .of(rank.pools.iter().count(), "")
        .paragraph(format!(
            "Source: {} ({}){of_rank}. {programs} Steps: {}; {} of them are Ops (all except deallocate and get_device).",
            cell(&rank.file, LOCATION),
            cell(&summary.source.format, NAME),
            counts.total,
            counts.reported,
        ))
        .paragraph(format!("MB in the first line means MiB (1,048,576 bytes).{}", of_banks(rank)))
}

/// How sizes per bank relate to the size of a device.
fn of_banks(rank: &RankSummary) -> &'static str {
    let has_banks = rank.pools.iter().any(|(_, pool)| pool.extent == Extent::Bank);
    match common_extent(rank) {
        Some(Extent::Bank) => " MiB/bank times the number of banks is MiB on one device.",
        None if has_banks => " MiB per bank times the number of banks is MiB on one device.",
        _ => "",
    }
}

/// The rank that the document describes, if there are several.
pub(super) fn of_rank(summary: &Summary, rank: &RankSummary) -> String {
    match (&rank.rank, summary.ranks.len()) {
        (Some(label), 1) => format!(", rank {}", cell(label, NAME)),
        (Some(label), ranks) => format!(", rank {} of {ranks} (see Ranks)", cell(label, NAME)),
        (None, 1) => String::new(),
        (None, ranks) => format!(", one of {ranks} (see Ranks)"),
    }
}

/// The runs that the document describes, if not all of them.
fn chosen(rank: &RankSummary) -> String {
    match rank.chosen_runs {
        None => String::new(),
        Some(ChosenRuns { first, last, of }) if first == last => format!(" (only run {first} of {of})"),
        Some(ChosenRuns { first, last, of }) => format!(" (only runs {first} to {last} of {of})"),
    }
}

fn peak_memory(rank: &RankSummary) -> Section {
    let row = |(name, pool): (&str, &PoolSummary)| {
        let is_used = pool.peak_per_bank.is_none_or(|peak| peak > 0);
        let moment = rank.peaks.get(name).filter(|_| is_used);
        [
            pool_cell(rank, name, pool),
            mb(pool.peak_per_bank),
            of_capacity(pool),
            whole_mb(pool.peak_total),
            mb(pool.free_at_peak_per_bank),
            mb(pool.largest_free_at_peak_per_bank),
            at_end(pool),
            number(pool.peak_step),
            moment.map_or_else(none, cause),
        ]
    };
    let unit = common_unit(rank);
    let (peak, free) = (format!("Peak {unit}"), format!("Free {unit}"));
    let columns = [
        ("Memory", Align::Left),
        (peak.as_str(), Align::Right),
        ("Of capacity", Align::Right),
        ("MiB on device", Align::Right),
        (free.as_str(), Align::Right),
        ("Largest free", Align::Right),
        ("At end", Align::Right),
        ("Before step", Align::Right),
        ("Caused by", Align::Left),
    ];
    Section::new("## Peak Memory")
        .table(columns, rank.pools.iter().take(MAX_POOLS).map(row))
        .floors(MAX_POOLS, 4)
        .of(rank.pools.iter().count(), "")
}

/// The memory in use at the end, marked if it was not measured.
pub(super) fn at_end(pool: &PoolSummary) -> String {
    let is_rebuilt = pool.final_source == Some("rebuilt") && pool.final_per_bank.is_some_and(|end| end > 0);
    mb(pool.final_per_bank) + if is_rebuilt { " (reconstructed)" } else { "" }
}

/// The cause of a peak.
pub(super) fn cause(peak: &PoolMoment) -> String {
    let Some(caused) = &peak.caused_by else {
        let is_known = peak.step.is_some();
        return match (peak.caused_outside_programs, is_known) {
            (true, _) => "a change between two programs".into(),
            (false, true) => "allocated before the first step".into(),
            (false, false) => none(),
        };
    };
    let program = caused.program.as_deref().filter(|program| !program.is_empty());
    let program = program.map_or_else(String::new, |program| format!(" in {}", cell(program, NAME)));
    let run = caused.run.map_or_else(String::new, |run| format!(", run {run}"));
    let loc = caused.loc.as_deref().map_or_else(String::new, |loc| format!(" at {}", cell(loc, LOCATION)));
    format!("step {} {}{loc}{program}{run}", caused.step, named(caused.op.as_deref()))
}

fn consumers(rank: &RankSummary, rows: usize) -> Section {
    let section = Section::new("## Top 10 Memory Consumers (DRAM)");
    if rank.increases.is_empty() {
        return section.paragraph("No steps to list.");
    }
    let added = format!("Added {}", unit_of(rank, "DRAM"));
    let columns = [
        ("Step", Align::Right),
        ("Operation", Align::Left),
        ("Output", Align::Left),
        (added.as_str(), Align::Right),
        ("Location", Align::Left),
    ];
    let list = rank.increases.iter().take(rows).map(|increase| {
        [
            steps(increase),
            named(increase.op.as_deref()),
            typed(increase.shape.as_deref(), increase.dtype.as_deref()),
            format!("+{}", mib(increase.added_per_bank, 3)),
            location(location_text(increase.loc.as_deref(), increase.locations).as_deref()),
        ]
    });
    section
        .paragraph("The steps with the largest increases in the whole run. Identical steps share a row; the increase is per step.")
        .table(columns, list)
        .floors(rows, rows)
}

/// The steps of an increase.
pub(super) fn steps(increase: &Increase) -> String {
    match increase.count {
        1 => increase.first_step.to_string(),
        count => format!("{count} × ({}–{})", increase.first_step, increase.last_step),
    }
}

fn padding(rank: &RankSummary, rows: usize) -> Section {
    let section = Section::new("## Top 10 Padding Overhead");
    let Some(padding) = &rank.padding else {
        return section.paragraph(missing(
            rank,
            "The log does not list tensors",
            "TTMLIR_RUNTIME_LOGGER_LEVEL",
        ));
    };
    if padding.top.is_empty() {
        return section.paragraph("No padded tensors to list.");
    }
    let columns = [
        ("Tensor", Align::Left),
        ("Shape", Align::Left),
        ("Padded to", Align::Left),
        ("MiB", Align::Right),
        ("Padded MiB", Align::Right),
        ("Overhead", Align::Right),
        ("Allocated by", Align::Left),
        ("Location", Align::Left),
    ];
    let list = padding.top.iter().take(rows).map(|row| {
        [
            named(row.name.as_deref()),
            typed(Some(&row.shape), Some(&row.dtype)),
            row.padded_shape.as_deref().map_or_else(unknown, |dims| cell(&shape(dims), super::SHAPE)),
            mib(row.logical_bytes, 3),
            mib(row.padded_bytes, 3),
            row.overhead_pct.map_or_else(unknown, |share| format!("{share:.1}%")),
            row.op.as_deref().map_or_else(|| "argument".into(), |op| cell(op, NAME)),
            location(row.loc.as_deref()),
        ]
    });
    section
        .paragraph("Live tensors at the DRAM peak, on one device; tiles are 32x32.")
        .table(columns, list)
        .floors(rows, 5)
}

fn weights(rank: &RankSummary, rows: usize) -> Section {
    let Some(weights) = &rank.weights else {
        return Section::new("## Model Weights (unknown MB total)").paragraph(missing(
            rank,
            "The log has no compiled module",
            "TTXLA_LOGGER_LEVEL",
        ));
    };
    let twice = weights.kept_twice_bytes.filter(|bytes| *bytes > 0);
    let twice = twice.map_or_else(String::new, |bytes| {
        format!(" {} MiB is stored twice at the DRAM peak (marked).", mib(bytes, 2))
    });
    let number = count(weights.count as u64);
    let section = Section::new(format!("## Model Weights ({} MB total)", mib(weights.bytes, 2)))
        .paragraph(format!("{number} parameters and constants, without padding.{twice}"));
    if weights.largest.is_empty() {
        return section;
    }
    let columns = [
        ("Weight", Align::Left),
        ("Shape", Align::Left),
        ("MiB", Align::Right),
        ("Stored twice", Align::Left),
    ];
    let list = weights.largest.iter().take(rows).map(|weight| {
        [
            cell(&weight.name, NAME),
            typed(Some(&weight.shape), Some(&weight.dtype)),
            mb(weight.bytes),
            weight.kept_twice.map_or_else(unknown, |twice| (if twice { "yes" } else { "no" }).into()),
        ]
    });
    section.table(columns, list).floors(4, 2).of(weights.count, "")
}

fn distribution(rank: &RankSummary, rows: usize) -> Section {
    let counts = &rank.operations;
    let section = Section::new("## Operation Distribution");
    let section = match counts.weight.zip(counts.activation) {
        Some((weight, activation)) => section.paragraph(format!(
            "Weight ops: {weight} (load_cached, and const-eval programs, which run once). Activation ops: {activation}."
        )),
        None => section.paragraph("Weight and activation ops: unknown; the log names no programs."),
    };
    let columns = [("Operation", Align::Left), ("Count", Align::Right)];
    let list =
        rank.distribution.iter().take(2 * rows).map(|row| [cell(&row.op, NAME), row.count.to_string()]);
    section.table(columns, list).floors(6, 4).of(rank.distribution.len(), " kinds of operations")
}
