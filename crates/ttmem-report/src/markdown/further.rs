//! The sections after those of the contract, each only if there is something to report.

use ttmem_query::words;
use ttmem_query::{
    Checkpoint, Comparison, ExpectedSummary, Extent, Level, MadeIn, Named, PoolMoment, Ran, RankSummary,
    ResidueRow, Suggestion, SuggestionGroup, Summary, TensorGroup, groups, location_text,
};

use super::cell::SENTENCE;
use super::document::{Align, Section};
use super::{LOCATION, NAME, cell, l1, mb, named, none, number, peak_of, share, typed, unit, unit_of};
use crate::phases::grows;
use crate::units::{duration, mib, signed_percent, size};

/// Rows of the table of phases, per session.
const MAX_PHASES: usize = 20;
/// Sections of phases.
const MAX_SESSIONS: usize = 4;
/// Lines for other ranks.
const MAX_RANKS: usize = 32;
/// Groups of tensors listed per suggestion.
const MAX_GROUPS: usize = 3;

/// The sections, in order.
pub(super) fn sections(
    summary: &Summary,
    rank: &RankSummary,
    others: &[&RankSummary],
    rows: usize,
) -> Vec<Section> {
    let phases = shown_sessions(rank).into_iter().map(|session| Some(phases(rank, session)));
    let more = rank.sessions.len().saturating_sub(MAX_SESSIONS);
    let more_sessions = (more > 0).then(|| {
        Section::new("## Phases of Other Sessions")
            .paragraph(format!("… {more} more (ttmem phases has all)."))
    });
    let rest = [
        out_of_memory(rank),
        super::ledger::section(rank),
        super::ways_out::clash(rank),
        super::ways_out::section(rank),
        ended_by(rank),
        l1::section(rank),
        suggestions(rank),
        super::growth::section(rank, rows),
        super::growth::holders(rank, rows),
        at_moment(rank, rows),
        live_at_peak(rank, rows),
        between_free_blocks(rank, rows),
        made_in(rank, rows),
        ran(rank, rows),
        checkpoints(rank, rows),
        expected(rank),
        unexplained(rank, rows),
        ranks(summary, rank, others),
        warnings(summary, rows),
    ];
    let mut sections: Vec<Section> = phases.chain([more_sessions]).chain(rest).flatten().collect();
    sections.extend(super::allocations::sections(rank, rows));
    sections
}

/// The sessions that are described, in order. Those that do not fit or that grow come before others.
fn shown_sessions(rank: &RankSummary) -> Vec<usize> {
    let is_fine = |index: &usize| {
        let session = &rank.sessions[*index];
        session.fits != Some(false) && session.growth.is_none()
    };
    let mut shown: Vec<usize> = (0..rank.sessions.len()).collect();
    shown.sort_by_key(is_fine);
    shown.truncate(MAX_SESSIONS);
    shown.sort_unstable();
    shown
}

/// The phases of a session.
fn phases(rank: &RankSummary, index: usize) -> Section {
    let session = &rank.sessions[index];
    let title = session.name.as_deref().map_or_else(String::new, |name| format!(": {}", cell(name, NAME)));
    let signed = |bytes: Option<i64>| bytes.map_or_else(super::unknown, signed_mb);
    let plain = |bytes: Option<u64>| signed(bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)));
    let mut facts = vec![format!(
        "Peak {} MiB, {} MiB at the end.",
        signed(session.peak_bytes),
        signed(session.final_bytes)
    )];
    facts.extend(session.parameters.map(|parameters| format!("{parameters} parameters.")));
    facts.extend(
        session.device_memory_bytes.map(|bytes| format!("The device has {} MiB.", plain(Some(bytes)))),
    );
    facts.extend((session.fits == Some(false)).then(|| "The session does not fit.".to_owned()));
    facts.extend(session.growth.as_ref().map(|growth| cell(&grows(growth), SENTENCE)));
    facts.extend(session.estimated.then(|| "These are estimates: nothing was allocated.".to_owned()));
    facts.extend((!session.finished).then(|| "The session is incomplete.".to_owned()));
    let columns = [
        ("Phase", Align::Left),
        ("Segment Peak MiB", Align::Right),
        ("Allocations MiB", Align::Right),
        ("Deallocations MiB", Align::Right),
        ("Segment Change MiB", Align::Right),
        ("Cumulative Peak MiB", Align::Right),
        ("Cumulative Current MiB", Align::Right),
        ("L1 Peak MiB", Align::Right),
    ];
    let of_session: Vec<_> = rank.phases.iter().filter(|phase| phase.session == index).collect();
    let rows = of_session.iter().take(MAX_PHASES).map(|phase| {
        [
            cell(&phase.name, NAME),
            signed(phase.segment_peak_bytes),
            plain(phase.allocations_bytes),
            plain(phase.deallocations_bytes),
            signed(phase.change_bytes),
            signed(phase.cumulative_peak_bytes),
            signed(phase.cumulative_current_bytes),
            plain(phase.l1_peak_total_bytes),
        ]
    });
    let section = Section::new(format!("## Phases{title}")).paragraph(facts.join(" "));
    let section = if of_session.iter().any(|phase| phase.l1_peak_total_bytes.is_some()) {
        section.table(columns, rows)
    } else {
        // PyTorch devices have no L1.
        section.table(without_last(columns), rows.map(without_last))
    };
    section.floors(5, 3).of(of_session.len(), " (ttmem summary --json has all)")
}

fn without_last<T>(row: [T; 8]) -> [T; 7] {
    let [name, peak, allocations, deallocations, change, highest, current, _] = row;
    [name, peak, allocations, deallocations, change, highest, current]
}

/// MiB with two decimals, as in training logs.
fn signed_mb(bytes: i64) -> String {
    format!("{}{}", if bytes < 0 { "-" } else { "" }, mib(bytes.unsigned_abs(), 2))
}

fn live_at_peak(rank: &RankSummary, rows: usize) -> Option<Section> {
    let peak = rank.peak.as_ref()?;
    peak.live.as_ref().filter(|live| !live.is_empty())?;
    let section = live(Section::new("## Live at Peak"), peak, unit_of(rank, &peak.pool), rows);
    let not_watched = rank.pools.get(&peak.pool).into_iter().flat_map(|pool| &pool.not_watched);
    Some(not_watched.fold(section, |section, what| {
        let what = cell(what, SENTENCE);
        section.paragraph(format!("The actual peak may be higher. Not tracked: {what}."))
    }))
}

/// The expected sizes of tensor classes, and the measured ones.
fn expected(rank: &RankSummary) -> Option<Section> {
    let rows = &rank.expected;
    let columns = [
        ("Class", Align::Left),
        ("Expected MiB", Align::Right),
        ("Measured MiB", Align::Right),
        ("Difference MiB", Align::Right),
        ("Difference", Align::Right),
        ("Basis", Align::Left),
    ];
    let change = |bytes: i64| {
        let sign = if bytes < 0 { "−" } else { "+" };
        format!("{sign}{}", mib(bytes.unsigned_abs(), 3))
    };
    let row = |row: &ExpectedSummary| {
        [
            row.class.as_str().to_owned(),
            mib(row.expected_bytes, 3),
            mb(row.measured_bytes),
            row.difference_bytes.map_or_else(super::unknown, change),
            row.difference_pct.map_or_else(none, signed_percent),
            cell(&row.how, LOCATION),
        ]
    };
    let notes = rows.iter().filter_map(|row| Some(format!("{}: {}.", row.class.as_str(), row.note?)));
    (!rows.is_empty()).then(|| {
        let section = Section::new("## Expected and Measured")
            .paragraph("Measured is the largest size of a class at any step, on the device.")
            .table(columns, rows.iter().map(row))
            .floors(rows.len(), rows.len())
            .of(rows.len(), "");
        notes.fold(section, Section::paragraph)
    })
}

/// The memory in use before the requested step.
fn at_moment(rank: &RankSummary, rows: usize) -> Option<Section> {
    let at = rank.at.as_ref()?;
    let section = Section::new(format!("## Before Step {}", at.step));
    let held = |(name, moment): (&str, &PoolMoment)| {
        format!("{} {} {}", cell(name, NAME), mb(moment.allocated_per_bank), unit_of(rank, name))
    };
    let pools: Vec<String> = at.pools.iter().map(held).collect();
    let next = at
        .op
        .as_deref()
        .map_or_else(|| "The program ended".into(), |op| format!("Next operation: {}", cell(op, NAME)));
    let section = section.paragraph(format!("{next}. Allocated: {}.", pools.join(", ")));
    let pool = rank.peak.as_ref().map_or("DRAM", |peak| peak.pool.as_str());
    Some(match at.pools.get(pool) {
        Some(moment) if moment.live.is_some() => live(section, moment, unit_of(rank, pool), rows),
        _ => section,
    })
}

/// The live activations and temporary tensors, by module.
fn made_in(rank: &RankSummary, rows: usize) -> Option<Section> {
    let peak = rank.peak.as_ref()?;
    let makers = Some(peak.makers()).filter(|makers| !makers.is_empty())?;
    let (title, name, names, outside) = if peak.has_modules() {
        ("## Live Activations by Module", "Module", "Modules", "outside all modules")
    } else {
        ("## Live Activations by Named Range", "Named Range", "Ranges", "outside all named ranges")
    };
    let columns = [
        (name, Align::Left),
        (names, Align::Right),
        (unit_of(rank, &peak.pool), Align::Right),
        ("Of the peak", Align::Right),
        ("Tensors", Align::Right),
    ];
    let row = |maker: &MadeIn| {
        let name = maker.name.as_deref().map_or_else(|| outside.into(), |name| cell(name, NAME));
        let kind = maker.kind.filter(|kind| *kind == "backward" && name != *kind);
        [
            format!("{name}{}", kind.map_or("", |_| ", backward")),
            maker.scopes.to_string(),
            mib(maker.per_bank, 3),
            share(Some(maker.per_bank), peak.allocated_per_bank),
            maker.tensors.to_string(),
        ]
    };
    Some(
        Section::new(title)
            .paragraph("Activations, temporary tensors and tensors of unknown class at the peak, by module or operation. Similar layers share a row.")
            .table(columns, makers.iter().take(rows).map(row))
            .floors(5, 3)
            .of(makers.len(), ""),
    )
}

/// The calls of the program: modules, operations, passes.
fn ran(rank: &RankSummary, rows: usize) -> Option<Section> {
    let columns = [
        ("Operation", Align::Left),
        ("Kind", Align::Left),
        ("Calls", Align::Right),
        ("Time", Align::Right),
        ("Peak in call MiB", Align::Right),
        ("Retained per call", Align::Right),
        ("Net change of all MiB", Align::Right),
    ];
    let row = |ran: &Ran| {
        let running = if ran.running > 0 { format!(" + {} running", ran.running) } else { String::new() };
        [
            format!("{}{}", "- ".repeat(ran.depth), cell(&ran.name, NAME)),
            ran.kind.to_owned(),
            format!("{}{running}", ran.calls),
            ran.time_ns.filter(|_| ran.calls > 0).map_or_else(super::unknown, duration),
            mb(ran.peak_bytes),
            ran.retained().unwrap_or_else(super::unknown),
            ran.change_bytes.map_or_else(super::unknown, signed_mb),
        ]
    };
    (!rank.ran.is_empty()).then(|| {
        Section::new("## Calls")
            .paragraph("Operations, models, backward passes and optimizers. A call inside another follows it, with a dash. `Retained` is memory that a call allocated and did not free before it returned: the median of all calls.")
            .table(columns, rank.ran.iter().take(2 * rows).map(row))
            .floors(6, 3)
            .of(rank.ran.len(), " (ttmem summary --json has all)")
    })
}

/// The memory in use at each checkpoint.
fn checkpoints(rank: &RankSummary, rows: usize) -> Option<Section> {
    let columns = [("Checkpoint", Align::Left), ("After", Align::Right), ("MiB", Align::Left)];
    let row = |checkpoint: &Checkpoint| {
        let pool = |(name, bytes): (&str, &Option<u64>)| format!("{} {}", cell(name, NAME), mb(*bytes));
        let pools: Vec<String> = checkpoint.pools.iter().map(pool).collect();
        [cell(&checkpoint.name, NAME), duration(checkpoint.time_ns), pools.join(", ")]
    };
    (!rank.checkpoints.is_empty()).then(|| {
        Section::new("## Checkpoints")
            .table(columns, rank.checkpoints.iter().take(2 * rows).map(row))
            .floors(5, 3)
            .of(rank.checkpoints.len(), " (ttmem summary --json has all)")
    })
}

/// The live tensors of a pool, largest first. Similar tensors share a row.
fn live(section: Section, peak: &PoolMoment, per: &'static str, rows: usize) -> Section {
    let live = peak.live.as_deref().unwrap_or_default();
    let total = peak.live_count.unwrap_or(live.len());
    let columns = [
        ("Tensor", Align::Left),
        ("Shape", Align::Left),
        ("Class", Align::Left),
        (per, Align::Right),
        ("Allocated by", Align::Left),
        ("Freed by", Align::Left),
    ];
    let section = section.paragraph(format!(
        "{total} tensor{} in {} before step {}{}. The largest:",
        if total == 1 { "" } else { "s" },
        cell(&peak.pool, NAME),
        number(peak.step),
        classes(peak, per)
    ));
    let groups = groups(live);
    let section = section.table(columns, groups.iter().take(rows).map(live_row)).floors(rows, 5);
    section.of(groups.len(), " groups (ttmem summary --json lists every tensor)")
}

/// The tensors that fragment the free memory of a pool that is nearly full.
fn between_free_blocks(rank: &RankSummary, rows: usize) -> Option<Section> {
    let is_short =
        |pool: &str| rank.pools.get(pool).and_then(|pool| pool.level).is_some_and(|level| level > Level::Ok);
    let mut found = rank.fragmentation.iter().filter(|(pool, _)| is_short(pool));
    let (pool, worst) = found.find(|(_, worst)| !worst.survivors.is_empty())?;
    let unit = unit_of(rank, pool);
    let columns = [
        ("Tensor", Align::Left),
        ("Shape", Align::Left),
        ("Class", Align::Left),
        (unit, Align::Right),
        ("Allocated by", Align::Left),
        ("Freed by", Align::Left),
    ];
    let groups = groups(&worst.survivors);
    let section = Section::new("## Tensors Between Free Blocks").paragraph(format!(
        "Live before step {}, when the free memory of {} is most fragmented, and allocated between tensors that have \
         been freed. Allocating them earlier, or freeing them, merges free blocks.",
        worst.step,
        cell(pool, NAME)
    ));
    Some(
        section
            .table(columns, groups.iter().take(rows).map(live_row))
            .floors(rows, 3)
            .essential(1)
            .of(groups.len(), " groups"),
    )
}

/// The size of each class.
fn classes(peak: &PoolMoment, per: &str) -> String {
    let class = |(class, bytes): (&str, &u64)| {
        // Rounding may make the reported size smaller than the sum of the tensors.
        let share = share(Some(*bytes), peak.allocated_per_bank.max(peak.explained_per_bank));
        format!("{} {} {per} ({share})", cell(class, NAME), mib(*bytes, 3))
    };
    let classes: Vec<String> = peak.by_class_per_bank.iter().flat_map(Named::iter).map(class).collect();
    if classes.is_empty() { String::new() } else { format!(": {}", classes.join(", ")) }
}

fn live_row(group: &TensorGroup<'_>) -> [String; 6] {
    let tensor = group.first();
    [
        group.title().map_or_else(none, |title| cell(&title, LOCATION)),
        typed(tensor.shape.as_deref(), tensor.dtype.as_deref()),
        tensor.class.as_str().to_owned(),
        mb(group.per_bank),
        cell(&group.allocated_by(), LOCATION),
        group.freed_by().unwrap_or_else(none),
    ]
}

/// The memory that the device reports beyond the tensors, if rounding does not explain it.
fn unexplained(rank: &RankSummary, limit: usize) -> Option<Section> {
    let peak = rank.peak.as_ref()?;
    let (rest, explained, allocated) =
        (peak.unexplained_per_bank?, peak.explained_per_bank?, peak.allocated_per_bank?);
    let quantum = rank.pools.get(&peak.pool).map_or(0, |pool| pool.quantum_per_bank);
    if rest.unsigned_abs() <= quantum {
        return None;
    }
    let unit = unit_of(rank, &peak.pool);
    let (bytes, way) = (mib(rest.unsigned_abs(), 3), if rest < 0 { "more" } else { "less" });
    let section = Section::new("## Unexplained").paragraph(format!(
        "At the {} peak the device reports {} {unit}; the live tensors add up to {} {unit}, {bytes} {way}.{}",
        cell(&peak.pool, NAME),
        mib(allocated, 3),
        mib(explained, 3),
        program_cache(rank, peak),
    ));
    let columns = [
        ("Retained by", Align::Left),
        (unit, Align::Right),
        ("Steps", Align::Right),
        ("With new shapes", Align::Right),
    ];
    let rows = peak.residue.as_deref().unwrap_or_default();
    if rows.is_empty() {
        return Some(section);
    }
    Some(section.table(columns, rows.iter().take(limit).map(residue_row)).floors(4, 2).of(rows.len(), ""))
}

fn residue_row(row: &ResidueRow) -> [String; 4] {
    let sign = if row.per_bank < 0 { "−" } else { "+" };
    [
        named(row.op.as_deref().or(row.note)),
        format!("{sign}{}", mib(row.per_bank.unsigned_abs(), 3)),
        row.steps.to_string(),
        row.first_uses.to_string(),
    ]
}

/// Memory that operations retained only when they ran with new shapes.
fn program_cache(rank: &RankSummary, peak: &PoolMoment) -> String {
    let rows = peak.residue.as_deref().unwrap_or_default();
    let once = rows.iter().filter(|row| row.steps > 0 && row.first_uses == row.steps);
    let kept = once.map(|row| row.per_bank).fold(0, i64::saturating_add);
    if kept <= 0 {
        return String::new();
    }
    let suffix = rank.pools.get(&peak.pool).map_or(Extent::Bank, |pool| pool.extent).suffix();
    format!(
        " {}{suffix} was allocated when an operation ran with new shapes: it belongs to the program cache.",
        size(kept.unsigned_abs())
    )
}

/// The exception that ended the program.
fn ended_by(rank: &RankSummary) -> Option<Section> {
    let message = rank.ended_by.as_deref()?;
    Some(Section::new("## Ended by an Exception").paragraph(cell(message, SENTENCE)))
}

fn out_of_memory(rank: &RankSummary) -> Option<Section> {
    let oom = rank.oom.as_ref()?;
    let errors = match rank.faults.len() {
        0 | 1 => String::new(),
        errors => format!(" {errors} errors in total."),
    };
    let section =
        Section::new("## Out of Memory").paragraph(cell(&oom.statement.facts(), SENTENCE) + &errors);
    // The ways out are better than general advice.
    let advice = oom.statement.advice.as_deref().filter(|_| oom.ways_out.is_empty()).unwrap_or_default();
    let is_known = oom.requested_per_bank.or(oom.requested_total).or(oom.free_per_bank).is_some();
    // The parts of the device's memory have their own section.
    if !is_known || oom.ledger.is_some() {
        return Some(with_advice(section, advice));
    }
    let pool = oom.pool.as_deref().and_then(|pool| rank.pools.get(pool));
    let extent = pool.map_or(Extent::Bank, |pool| pool.extent);
    let evidence = match oom.evidence {
        "message" => "the message",
        "history" => "the allocator's history",
        _ => "the preceding state",
    };
    let (pool, cause) = (named(oom.pool.as_deref()), oom.cause.to_owned());
    let (requested, evidence) = (mb(oom.requested_per_bank), evidence.to_owned());
    let (free, largest) = (mb(oom.free_per_bank), mb(oom.largest_free_per_bank));
    let section = if extent == Extent::Device {
        let columns = [
            ("Memory", Align::Left),
            ("Cause", Align::Left),
            ("Requested MiB", Align::Right),
            ("Free MiB", Align::Right),
            ("Largest free MiB", Align::Right),
            ("Numbers from", Align::Left),
        ];
        section.table(columns, [[pool, cause, requested, free, largest, evidence]])
    } else {
        let [of_request, of_free, of_largest] =
            ["Requested", "Free", "Largest free"].map(|what| format!("{what} {}", unit(extent)));
        let columns = [
            ("Memory", Align::Left),
            ("Cause", Align::Left),
            (&*of_request, Align::Right),
            ("Requested MiB", Align::Right),
            ("Banks", Align::Right),
            (&*of_free, Align::Right),
            (&*of_largest, Align::Right),
            ("Numbers from", Align::Left),
        ];
        let (total, banks) = (mb(oom.requested_total), number(oom.banks));
        section.table(columns, [[pool, cause, requested, total, banks, free, largest, evidence]])
    };
    Some(with_advice(section.floors(1, 1).essential(1), advice))
}

fn with_advice(section: Section, advice: &str) -> Section {
    if advice.is_empty() { section } else { section.paragraph(advice) }
}

fn suggestions(rank: &RankSummary) -> Option<Section> {
    let found = &rank.suggestions;
    let together = |section: Section| match combinations(rank) {
        Some(text) => section.paragraph(text),
        None => section,
    };
    let short = |(number, one): (usize, &Suggestion)| {
        format!("{number}. {} ({})", cell(&one.message, SENTENCE), one.rule)
    };
    let long = |(number, one): (usize, &Suggestion)| short((number, one)) + &tensors(rank, one);
    (!found.is_empty()).then(|| {
        let section = Section::new("## Suggestions")
            .paragraph(
                "Most urgent first, then by saving. Each saving assumes that nothing else changes; savings overlap.",
            )
            .list((1..).zip(found).map(long))
            .or_short((1..).zip(found).map(short))
            .floors(6, 5)
            .essential(3)
            .of(found.len(), " (ttmem summary --json has all)");
        together(section)
    })
}

/// What some of the suggestions save together.
fn combinations(rank: &RankSummary) -> Option<String> {
    let number = |index: usize| Some((index + 1).to_string());
    let texts: Vec<String> = rank.combinations.iter().filter_map(|one| one.text(number)).collect();
    (!texts.is_empty()).then(|| format!("{}.", texts.join("; ")))
}

/// The tensors that a suggestion refers to, with size and origin.
fn tensors(rank: &RankSummary, suggestion: &Suggestion) -> String {
    let suffix = rank.pools.get(&suggestion.pool).map_or(Extent::Bank, |pool| pool.extent).suffix();
    let row = |group: &SuggestionGroup| {
        let op = group.op.as_deref().map_or_else(String::new, |op| format!(" {}", cell(op, NAME)));
        let loc = location_text(group.loc.as_deref(), group.locations);
        let loc = loc.map_or_else(String::new, |loc| format!(" at {}", cell(&loc, LOCATION)));
        let steps = group.first_step.zip(group.last_step);
        let origin = match steps {
            Some((first, last)) => {
                format!(", allocated by {}{op}{loc}", words::steps(group.count, first, last))
            }
            None if group.op.is_some() => format!(", allocated by{op}{loc}, earlier"),
            None => String::new(),
        };
        let size = group.per_bank.map_or_else(super::unknown, |bytes| format!("{}{suffix}", size(bytes)));
        let count = if group.count > 1 { format!("{} × ", group.count) } else { String::new() };
        let name = group.name.as_deref().map_or_else(String::new, |name| cell(name, NAME) + " ");
        let what = typed(group.shape.as_deref(), group.dtype.as_deref());
        format!("\n   - {count}{name}{what}, {size}{origin}")
    };
    let listed = || suggestion.groups.iter().take(MAX_GROUPS);
    let more = suggestion.tensor_count.unwrap_or(0).saturating_sub(listed().map(|group| group.count).sum());
    let rest = (more > 0).then(|| format!("\n   - … {more} more"));
    listed().map(row).chain(rest).collect()
}

/// One line for each of the other ranks.
fn ranks(summary: &Summary, main: &RankSummary, others: &[&RankSummary]) -> Option<Section> {
    if let Some(comparison) = &summary.comparison {
        return Some(compared(summary, comparison, others));
    }
    let with_files = summary.source.files.len() > 1;
    let first = others.first()?;
    let has_processes = main.process != first.process;
    let how = match &first.rank {
        _ if has_processes => format!("ttmem summary --markdown --process {} FILE", first.process),
        Some(label) => format!("ttmem summary --markdown --rank {} FILE", cell(label, NAME)),
        None => format!("ttmem summary --markdown {}", cell(&first.file, LOCATION)),
    };
    let why = match (main.oom.is_some(), has_processes) {
        (true, _) => "ran out of memory",
        (false, true) => "ran last",
        (false, false) => "has the highest DRAM peak",
    };
    let [dram, l1] = ["DRAM", "L1"].map(|pool| format!("{pool} {}", unit_of(main, pool)));
    let columns = [
        ("Rank", Align::Left),
        (&*dram, Align::Right),
        ("Of capacity", Align::Right),
        (&*l1, Align::Right),
        ("Ops", Align::Right),
        ("Out of memory", Align::Left),
    ];
    let row = |rank: &&RankSummary| {
        let dram = rank.pools.get("DRAM");
        [
            label(rank, with_files),
            mb(peak_of(rank, "DRAM")),
            share(peak_of(rank, "DRAM"), dram.and_then(|pool| pool.capacity_per_bank)),
            mb(peak_of(rank, "L1")),
            rank.operations.reported.to_string(),
            rank.oom.as_ref().map_or_else(none, |oom| oom.cause.to_owned()),
        ]
    };
    Some(
        Section::new("## Ranks")
            .paragraph(format!(
                "Everything above describes {}{}, which {why}. The others (`{how}` shows the first of them):",
                if with_files || main.processes > 1 { "" } else { "rank " },
                label(main, with_files)
            ))
            .table(columns, others.iter().take(MAX_RANKS).map(row))
            .floors(MAX_RANKS, MAX_RANKS)
            .of(others.len(), ""),
    )
}

/// The ranks of a PyTorch program, worst first.
fn compared(summary: &Summary, comparison: &Comparison, others: &[&RankSummary]) -> Section {
    let columns = [
        ("Rank", Align::Left),
        ("Memory", Align::Left),
        ("Peak MiB", Align::Right),
        ("Of capacity", Align::Right),
        ("Ops", Align::Right),
        ("Out of memory", Align::Left),
    ];
    let with_files = summary.source.files.len() > 1;
    let row = |rank: &RankSummary| {
        let main = rank.peak.as_ref().map_or("", |peak| peak.pool.as_str());
        let pool = rank.pools.get(main);
        let peak = pool.and_then(|pool| pool.peak_per_bank);
        let capacity = pool.and_then(|pool| pool.capacity_per_bank);
        [
            label(rank, with_files),
            cell(main, NAME),
            mb(peak),
            capacity.map_or_else(none, |all| share(peak, Some(all))),
            rank.operations.reported.to_string(),
            rank.oom.as_ref().map_or_else(none, |oom| oom.cause.to_owned()),
        ]
    };
    let section = Section::new("## Ranks").paragraph(cell(&comparison.sentence, SENTENCE));
    let section = match &comparison.missing {
        Some(missing) => section.paragraph(cell(missing, SENTENCE)),
        None => section,
    };
    section
        .paragraph("Everything above describes the first rank.")
        .table(columns, summary.ranks.iter().take(MAX_RANKS).map(row))
        .floors(MAX_RANKS, MAX_RANKS)
        .of(others.len() + 1, "")
}

/// `1,0`, with its file if there are several files.
fn label(rank: &RankSummary, with_file: bool) -> String {
    let file = with_file.then(|| cell(&rank.file, NAME));
    let process = (rank.processes > 1).then(|| format!("process {}", rank.process));
    let label = rank.rank.as_deref().map(|label| cell(label, NAME));
    let label = match (label, process) {
        (Some(label), Some(process)) => Some(format!("{label}, {process}")),
        (label, process) => label.or(process),
    };
    match (file, label) {
        (Some(file), Some(label)) => format!("{file} {label}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => "untagged".into(),
    }
}

fn warnings(summary: &Summary, rows: usize) -> Option<Section> {
    let warnings = &summary.source.warnings;
    let row = |warning: &ttmem_query::WarningSummary| {
        let line = warning.line.map_or_else(String::new, |line| format!(", line {line}"));
        format!("- {}{line}: {}", cell(&warning.file, NAME), cell(&warning.message, 240))
    };
    (!warnings.is_empty()).then(|| {
        Section::new("## Warnings")
            .list(warnings.iter().take(rows).map(row))
            .floors(3, 1)
            .of(warnings.len(), "")
    })
}
