//! The sections behind the promised ones, each only where there is something to say.

use ttmem_model::Class;
use ttmem_query::{
    Checkpoint, ExpectedSummary, Extent, LiveTensor, MadeIn, Named, PoolMoment, Ran, RankSummary, ResidueRow,
    Summary,
};

use super::document::{Align, Section};
use super::{LOCATION, NAME, cell, mb, named, none, number, peak_of, share, typed, unit, unit_of};
use crate::units::{duration, mib, signed_percent, size};

/// How many rows lists have at most.
const ROWS: usize = 10;
/// How many phases of a session have a row at most, and how many sessions a section.
const PHASES: usize = 20;
const SESSIONS: usize = 4;
/// How many other ranks have a line.
const RANKS: usize = 32;
/// How many characters a sentence may have that texts of the evidence are part of.
const SENTENCE: usize = 600;

/// The sections, in order.
pub(super) fn sections(summary: &Summary, rank: &RankSummary, others: &[&RankSummary]) -> Vec<Section> {
    let phases = (0..rank.sessions.len()).map(|session| Some(phases(rank, session)));
    let rest = [
        at_moment(rank),
        live_at_peak(rank),
        made_in(rank),
        ran(rank),
        checkpoints(rank),
        expected(rank),
        unexplained(rank),
        out_of_memory(rank),
        ended_by(rank),
        suggestions(rank),
        ranks(rank, others, summary.source.files.len() > 1),
        warnings(summary),
    ];
    phases.take(SESSIONS).chain(rest).flatten().collect()
}

/// The phases of a session.
fn phases(rank: &RankSummary, index: usize) -> Section {
    let session = &rank.sessions[index];
    let title = session.name.as_deref().map_or_else(String::new, |name| format!(": {}", cell(name, NAME)));
    let signed = |bytes: Option<i64>| bytes.map_or_else(super::unknown, signed_mb);
    let plain = |bytes: Option<u64>| signed(bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)));
    let mut facts = vec![format!(
        "Peak {} MB, {} MB at the end.",
        signed(session.peak_bytes),
        signed(session.final_bytes)
    )];
    facts.extend(session.parameters.map(|parameters| format!("{parameters} parameters.")));
    facts.extend(
        session.device_memory_bytes.map(|bytes| format!("The device has {} MB.", plain(Some(bytes)))),
    );
    facts.extend(session.estimated.then(|| "Nothing was allocated: these are estimates.".to_owned()));
    facts.extend((!session.finished).then(|| "It is cut off.".to_owned()));
    let columns = [
        ("Phase", Align::Left),
        ("Peak in it MB", Align::Right),
        ("Change MB", Align::Right),
        ("At its end MB", Align::Right),
        ("Highest so far MB", Align::Right),
        ("L1 of a core MB", Align::Right),
    ];
    let of_session: Vec<_> = rank.phases.iter().filter(|phase| phase.session == index).collect();
    let rows = of_session.iter().take(PHASES).map(|phase| {
        [
            cell(&phase.name, NAME),
            signed(phase.segment_peak_bytes),
            signed(phase.change_bytes),
            signed(phase.cumulative_current_bytes),
            signed(phase.cumulative_peak_bytes),
            plain(phase.l1_peak_total_bytes),
        ]
    });
    Section::new(format!("## Phases{title}"))
        .paragraph(facts.join(" "))
        .table(columns, rows)
        .floors(5, 3)
        .of(of_session.len(), " (ttmem summary --json has all)")
}

/// MiB with two digits behind the point, as training logs have them.
fn signed_mb(bytes: i64) -> String {
    format!("{}{}", if bytes < 0 { "-" } else { "" }, mib(bytes.unsigned_abs(), 2))
}

fn live_at_peak(rank: &RankSummary) -> Option<Section> {
    let peak = rank.peak.as_ref()?;
    peak.live.as_ref().filter(|live| !live.is_empty())?;
    let section = alive(Section::new("## Live at Peak"), peak, unit_of(rank, &peak.pool));
    let not_watched = rank.pools.get(&peak.pool).into_iter().flat_map(|pool| &pool.not_watched);
    Some(not_watched.fold(section, |section, what| {
        let what = cell(what, SENTENCE);
        section.paragraph(format!("Not tracked, so the real peak may be higher: {what}."))
    }))
}

/// What is expected of classes, and what they took.
fn expected(rank: &RankSummary) -> Option<Section> {
    let rows = &rank.expected;
    let columns = [
        ("Class", Align::Left),
        ("Expected MB", Align::Right),
        ("Measured MB", Align::Right),
        ("Difference MB", Align::Right),
        ("Difference", Align::Right),
        ("Expected are", Align::Left),
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
            .paragraph("Measured is the most that a class took at one moment, on the device.")
            .table(columns, rows.iter().map(row))
            .floors(rows.len(), rows.len())
            .of(rows.len(), "");
        notes.fold(section, Section::paragraph)
    })
}

/// What was in memory at the moment that was asked for.
fn at_moment(rank: &RankSummary) -> Option<Section> {
    let at = rank.at.as_ref()?;
    let section = Section::new(format!("## Before Step {}", at.step));
    let held = |(name, moment): (&str, &PoolMoment)| {
        format!("{} {} {}", cell(name, NAME), mb(moment.allocated_per_bank), unit_of(rank, name))
    };
    let pools: Vec<String> = at.pools.iter().map(held).collect();
    let next = at
        .op
        .as_deref()
        .map_or_else(|| "The program ends there".into(), |op| format!("{} is about to run", cell(op, NAME)));
    let section = section.paragraph(format!("{next}. Allocated: {}.", pools.join(", ")));
    let pool = rank.peak.as_ref().map_or("DRAM", |peak| peak.pool.as_str());
    Some(match at.pools.get(pool) {
        Some(moment) if moment.live.is_some() => alive(section, moment, unit_of(rank, pool)),
        _ => section,
    })
}

/// Where those were made that running made.
fn made_in(rank: &RankSummary) -> Option<Section> {
    let peak = rank.peak.as_ref()?;
    let makers = peak.made_in.as_deref().filter(|makers| !makers.is_empty())?;
    let columns = [
        ("Made in", Align::Left),
        ("Alike", Align::Right),
        (unit_of(rank, &peak.pool), Align::Right),
        ("Of the peak", Align::Right),
        ("Tensors", Align::Right),
    ];
    let row = |maker: &MadeIn| {
        let name =
            maker.name.as_deref().map_or_else(|| "outside of all operations".into(), |name| cell(name, NAME));
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
        Section::new("## Made by Running")
            .paragraph("What is alive at the peak and not of the model itself (activations, temporary and unknown ones), by module or operation; layers that are alike together.")
            .table(columns, makers.iter().take(ROWS).map(row))
            .floors(5, 3)
            .of(makers.len(), ""),
    )
}

/// What ran, as the program names it.
fn ran(rank: &RankSummary) -> Option<Section> {
    let columns = [
        ("Operation", Align::Left),
        ("Kind", Align::Left),
        ("Calls", Align::Right),
        ("Time", Align::Right),
        ("Peak inside MB", Align::Right),
        ("Kept by each MB", Align::Right),
        ("Change in all MB", Align::Right),
    ];
    let row = |ran: &Ran| {
        let running = if ran.running > 0 { format!(" + {} running", ran.running) } else { String::new() };
        [
            format!("{}{}", "- ".repeat(ran.depth), cell(&ran.name, NAME)),
            ran.kind.to_owned(),
            format!("{}{running}", ran.calls),
            ran.time_ns.filter(|_| ran.calls > 0).map_or_else(super::unknown, duration),
            mb(ran.peak_bytes),
            mb(ran.kept_bytes.and_then(|kept| kept.checked_div(ran.calls))),
            ran.change_bytes.map_or_else(super::unknown, signed_mb),
        ]
    };
    (!rank.ran.is_empty()).then(|| {
        Section::new("## What Ran")
            .paragraph("Operations of the program, models, backward passes and optimizers; one that is inside of another stands below it, with a dash. `Kept` is what a call made and left behind.")
            .table(columns, rank.ran.iter().take(2 * ROWS).map(row))
            .floors(6, 3)
            .of(rank.ran.len(), " (ttmem summary --json has all)")
    })
}

/// What there was when the program wanted to know.
fn checkpoints(rank: &RankSummary) -> Option<Section> {
    let columns = [("Checkpoint", Align::Left), ("After", Align::Right), ("MB", Align::Left)];
    let row = |checkpoint: &Checkpoint| {
        let pool = |(name, bytes): (&str, &Option<u64>)| format!("{} {}", cell(name, NAME), mb(*bytes));
        let pools: Vec<String> = checkpoint.pools.iter().map(pool).collect();
        [cell(&checkpoint.name, NAME), duration(checkpoint.time_ns), pools.join(", ")]
    };
    (!rank.checkpoints.is_empty()).then(|| {
        Section::new("## Checkpoints")
            .table(columns, rank.checkpoints.iter().take(2 * ROWS).map(row))
            .floors(5, 3)
            .of(rank.checkpoints.len(), " (ttmem summary --json has all)")
    })
}

/// What is alive at a moment, the largest first.
fn alive(section: Section, peak: &PoolMoment, per: &'static str) -> Section {
    let live = peak.live.as_deref().unwrap_or_default();
    let total = peak.live_count.unwrap_or(live.len());
    let columns = [
        ("Tensor", Align::Left),
        ("Shape", Align::Left),
        ("Class", Align::Left),
        (per, Align::Right),
        ("Made by", Align::Left),
        ("Until", Align::Left),
    ];
    let section = section.paragraph(format!(
        "{total} tensor{} in {} before step {}{}. The largest:",
        if total == 1 { "" } else { "s" },
        cell(&peak.pool, NAME),
        number(peak.step),
        classes(peak, per)
    ));
    let rows = live.iter().take(ROWS).map(live_row);
    section.table(columns, rows).floors(5, 3).of(total, " (ttmem summary --json has all)")
}

/// What is alive, by class.
fn classes(peak: &PoolMoment, per: &str) -> String {
    let class = |(class, bytes): (&str, &u64)| {
        // What is rounded may be less than what the tensors add up to.
        let share = share(Some(*bytes), peak.allocated_per_bank.max(peak.explained_per_bank));
        format!("{} {} {per} ({share})", cell(class, NAME), mib(*bytes, 3))
    };
    let classes: Vec<String> = peak.by_class_per_bank.iter().flat_map(Named::iter).map(class).collect();
    if classes.is_empty() { String::new() } else { format!(": {}", classes.join(", ")) }
}

fn live_row(tensor: &LiveTensor) -> [String; 6] {
    let made = match (tensor.born_step, &tensor.op) {
        (Some(step), Some(op)) => format!("step {step} {}", cell(op, NAME)),
        (Some(step), None) => format!("step {step}"),
        // In a part of the log that was cut away.
        (None, Some(op)) => format!("{}, earlier", cell(op, NAME)),
        (None, None) if tensor.class == Class::Unknown => "there before".into(),
        (None, None) => "argument".into(),
    };
    let until = match (tensor.dies_step, tensor.gone_before_step) {
        (Some(step), _) => format!("step {step}"),
        (None, Some(step)) => format!("before step {step}"),
        (None, None) => "the end".into(),
    };
    let shape = typed(tensor.shape.as_deref(), tensor.dtype.as_deref());
    let class = tensor.class.as_str().to_owned();
    let made_in = || tensor.made_in.as_deref().map(|part| format!("(in {})", cell(part, NAME)));
    let name = tensor.name.as_deref().map(|name| cell(name, NAME)).or_else(made_in);
    [name.unwrap_or_else(super::unknown), shape, class, mb(tensor.per_bank), made, until]
}

/// What the device reports beyond the tensors, where rounding does not explain it.
fn unexplained(rank: &RankSummary) -> Option<Section> {
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
        "At the {} peak the device reports {} {unit}; the tensors alive add up to {} {unit}, {bytes} {way}.{}",
        cell(&peak.pool, NAME),
        mib(allocated, 3),
        mib(explained, 3),
        program_cache(rank, peak),
    ));
    let columns = [
        ("Left behind by", Align::Left),
        (unit, Align::Right),
        ("Steps", Align::Right),
        ("First with their shapes", Align::Right),
    ];
    let rows = peak.residue.as_deref().unwrap_or_default();
    if rows.is_empty() {
        return Some(section);
    }
    Some(section.table(columns, rows.iter().take(ROWS).map(residue_row)).floors(4, 2).of(rows.len(), ""))
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

/// What stayed only where an operation ran with its shapes for the first time.
fn program_cache(rank: &RankSummary, peak: &PoolMoment) -> String {
    let rows = peak.residue.as_deref().unwrap_or_default();
    let once = rows.iter().filter(|row| row.steps > 0 && row.first_uses == row.steps);
    let kept = once.map(|row| row.per_bank).fold(0, i64::saturating_add);
    if kept <= 0 {
        return String::new();
    }
    let suffix = rank.pools.get(&peak.pool).map_or(Extent::Bank, |pool| pool.extent).suffix();
    format!(
        " {}{suffix} came only where an operation ran with its shapes for the first time: the program cache keeps it.",
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
        errors => format!(" There are {errors} errors in all."),
    };
    let section =
        Section::new("## Out of Memory").paragraph(cell(&oom.statement.facts(), SENTENCE) + &errors);
    let advice = oom.statement.advice.as_deref().unwrap_or_default();
    let is_known = oom.requested_per_bank.or(oom.requested_total).or(oom.free_per_bank).is_some();
    if !is_known {
        return Some(section.paragraph(advice));
    }
    let pool = oom.pool.as_deref().and_then(|pool| rank.pools.get(pool));
    let extent = pool.map_or(Extent::Bank, |pool| pool.extent);
    let evidence = if oom.evidence == "message" { "the message" } else { "the state before" };
    let (pool, cause) = (named(oom.pool.as_deref()), oom.cause.to_owned());
    let (requested, evidence) = (mb(oom.requested_per_bank), evidence.to_owned());
    let (free, largest) = (mb(oom.free_per_bank), mb(oom.largest_free_per_bank));
    let section = if extent == Extent::Device {
        let columns = [
            ("Memory", Align::Left),
            ("Cause", Align::Left),
            ("Requested MB", Align::Right),
            ("Free MB", Align::Right),
            ("Largest free MB", Align::Right),
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
            ("Requested MB", Align::Right),
            ("Banks", Align::Right),
            (&*of_free, Align::Right),
            (&*of_largest, Align::Right),
            ("Numbers from", Align::Left),
        ];
        let (total, banks) = (mb(oom.requested_total), number(oom.banks));
        section.table(columns, [[pool, cause, requested, total, banks, free, largest, evidence]])
    };
    Some(section.floors(1, 1).paragraph(advice))
}

fn suggestions(rank: &RankSummary) -> Option<Section> {
    let found = &rank.suggestions;
    let row = |(number, one): (usize, &ttmem_query::Suggestion)| {
        format!("{number}. {} ({})", cell(&one.message, SENTENCE), one.rule)
    };
    (!found.is_empty()).then(|| {
        Section::new("## Suggestions")
            .paragraph("Most urgent first, then by what they save. Each saving is for that change alone; they overlap.")
            .list((1..).zip(found).map(row))
            .floors(8, 5)
            .of(found.len(), " (ttmem summary --json has all)")
    })
}

/// One line for each rank that the document is not about.
fn ranks(main: &RankSummary, others: &[&RankSummary], with_files: bool) -> Option<Section> {
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
            .table(columns, others.iter().take(RANKS).map(row))
            .floors(RANKS, RANKS)
            .of(others.len(), ""),
    )
}

/// `1,0`, with its file where there are several.
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
        (None, None) => "without a tag".into(),
    }
}

fn warnings(summary: &Summary) -> Option<Section> {
    let warnings = &summary.source.warnings;
    let row = |warning: &ttmem_query::WarningSummary| {
        let line = warning.line.map_or_else(String::new, |line| format!(", line {line}"));
        format!("- {}{line}: {}", cell(&warning.file, NAME), cell(&warning.message, 240))
    };
    (!warnings.is_empty()).then(|| {
        Section::new("## Warnings")
            .list(warnings.iter().take(ROWS).map(row))
            .floors(3, 1)
            .of(warnings.len(), "")
    })
}
