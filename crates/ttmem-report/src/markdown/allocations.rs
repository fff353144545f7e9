//! Allocations by what they have in common, and memory that is reserved but not used.

use ttmem_query::{AllocationGroup, Allocations, RankSummary, Waste, WasteInPart};

use super::cell::{LOCATION, NAME, cell};
use super::document::{Align, Section};
use crate::text::allocations::{by, named, note, reserved_name};
use crate::units::{count, percent, size};

/// The sections on allocations.
pub(super) fn sections(rank: &RankSummary, rows: usize) -> Vec<Section> {
    let Some(allocations) = &rank.allocations else { return Vec::new() };
    let mut sections = vec![live(allocations, rows)];
    if allocations.total != allocations.live {
        sections.push(busiest(allocations, rows));
    }
    sections.extend(reserved(allocations));
    sections
}

/// The sentence about reserved memory that was not active, in a few parts of the run.
fn over_time(waste: &Waste) -> Option<String> {
    const PARTS: usize = 8;
    let most = |part: &[WasteInPart]| part.iter().map(|part| part.external).max().unwrap_or(0);
    let parts = waste.over_time.chunks(waste.over_time.len().div_ceil(PARTS).max(1));
    let parts: Vec<String> = parts.map(|part| size(most(part))).collect();
    (parts.len() > 1 && waste.external > 0).then(|| {
        format!(
            "Reserved but not active in {} equal parts of the run, at most: {}.",
            parts.len(),
            parts.join(", ")
        )
    })
}

fn live(allocations: &Allocations, rows: usize) -> Section {
    let live = allocations.live;
    let filter = allocations.filter.as_ref().map_or_else(String::new, |filter| format!(" where `{filter}`"));
    let mut facts = vec![format!(
        "{}: {} live allocations{filter} before step {}, {}.",
        cell(&allocations.pool, NAME),
        count(live.count),
        allocations.position,
        size(live.bytes)
    )];
    if let Some(waste) = &allocations.waste {
        facts.push(format!(
            "At worst, blocks were {} larger than requested, and {} was reserved but not active (before step {}).",
            size(waste.internal),
            size(waste.external),
            waste.external_position
        ));
        facts.extend(over_time(waste));
    }
    facts.extend(allocations.largest_transient.as_ref().map(|transient| {
        let at =
            transient.line.as_ref().map_or_else(String::new, |line| format!(" at {}", cell(line, LOCATION)));
        format!(
            "The largest allocation that was freed again has {}: {}{at}, {}.",
            size(transient.bytes),
            cell(transient.op.as_deref().unwrap_or("unknown operation"), NAME),
            transient.lifetime()
        )
    }));
    facts.extend(note(allocations.module_source).map(str::to_owned));
    let row = |group: &AllocationGroup| {
        [
            cell(&named(group, allocations.by, allocations.module_source), LOCATION),
            size(group.live.bytes),
            percent(group.live.bytes, live.bytes),
            count(group.live.count),
            size(group.at_end.bytes),
            cell(group.op.as_deref().unwrap_or("–"), NAME),
        ]
    };
    let columns = [
        (by_title(allocations), Align::Left),
        ("Live", Align::Right),
        ("Share", Align::Right),
        ("Allocations", Align::Right),
        ("At the End", Align::Right),
        ("Operation", Align::Left),
    ];
    Section::new("## Live Allocations by Origin")
        .paragraph(facts.join(" "))
        .table(columns, allocations.groups.iter().take(rows).map(row))
        .floors(5, 3)
}

fn busiest(allocations: &Allocations, rows: usize) -> Section {
    let row = |group: &AllocationGroup| {
        [
            cell(&named(group, allocations.by, allocations.module_source), LOCATION),
            size(group.total.bytes),
            count(group.total.count),
            size(group.at_end.bytes),
        ]
    };
    let columns = [
        (by_title(allocations), Align::Left),
        ("Allocated in All", Align::Right),
        ("Allocations", Align::Right),
        ("At the End", Align::Right),
    ];
    Section::new("## Allocated Most over Time")
        .table(columns, allocations.busiest.iter().take(rows).map(row))
        .floors(3, 0)
}

fn reserved(allocations: &Allocations) -> Option<Section> {
    let pools = &allocations.reserved;
    if pools.iter().all(|pool| pool.free == 0) {
        return None;
    }
    let columns = [
        ("Reserved at the End", Align::Left),
        ("Size", Align::Right),
        ("Allocated", Align::Right),
        ("Free", Align::Right),
        ("Largest Free", Align::Right),
        ("Segments", Align::Right),
    ];
    let rows = pools.iter().map(|pool| {
        [
            reserved_name(pool),
            size(pool.bytes),
            size(pool.allocated),
            size(pool.free),
            size(pool.largest_free),
            count(pool.segments),
        ]
    });
    Some(Section::new("## Reserved but Unallocated").table(columns, rows).floors(3, 0))
}

fn by_title(allocations: &Allocations) -> &'static str {
    match by(allocations.by, allocations.module_source) {
        "source line" => "Source Line",
        "call stack" => "Innermost Line",
        "operation" => "Operation",
        "module" => "Module",
        "forward calls" => "Forward Calls",
        "class" => "Class",
        _ => "Size",
    }
}
