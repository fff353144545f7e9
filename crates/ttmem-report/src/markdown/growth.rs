//! What every iteration of the program leaves behind, and what keeps tensors alive.

use ttmem_query::{HolderRow, RankSummary, Survivor};

use super::cell::{LOCATION, NAME, SENTENCE, cell};
use super::document::{Align, Section};
use super::{location, mb, none, number, unit_of};

/// The section on growth; none if memory does not grow, or if the input has phases only, which have their own sections.
pub(super) fn section(rank: &RankSummary, rows: usize) -> Option<Section> {
    // As in the text: the moment of `--at` is not that of growth.
    let growth = rank.growth.as_ref().filter(|_| rank.at.is_none())?;
    let title = cell(growth.title.as_deref()?, SENTENCE);
    let sentences: Vec<String> =
        [title + "."].into_iter().chain(growth.notes.iter().map(|note| cell(note, SENTENCE))).collect();
    let unit = unit_of(rank, growth.pool.as_deref().unwrap_or_default());
    let (per_iteration, added) = (format!("{unit} per {}", growth.unit.name()), format!("{unit} added"));
    let columns = [
        ("Allocated by", Align::Left),
        ("Location", Align::Left),
        ("Module", Align::Left),
        (&*per_iteration, Align::Right),
        (&*added, Align::Right),
        ("Tensors", Align::Right),
    ];
    let row = |survivor: &Survivor| {
        [
            cell(&survivor.allocated_by, NAME),
            location(survivor.loc.as_deref()),
            survivor.module.as_deref().map_or_else(none, |module| cell(module, LOCATION)),
            mb(Some(survivor.per_iteration_per_bank)),
            mb(Some(survivor.per_bank)),
            number(survivor.tensors),
        ]
    };
    let held = growth.survivors.iter().filter_map(|survivor| Some(chain(&survivor.held()?)));
    let section = Section::new("## Growth")
        .paragraph(sentences.join(" "))
        .table(columns, growth.survivors.iter().take(rows).map(row))
        .floors(3, 1)
        .of(growth.survivor_count, " (ttmem summary --json has the largest)");
    let caveats = growth.caveats.iter().map(|caveat| cell(caveat, SENTENCE));
    Some(held.take(MAX_HELD).chain(caveats).fold(section, Section::paragraph))
}

/// The section on what kept tensors alive at the last search.
pub(super) fn holders(rank: &RankSummary, rows: usize) -> Option<Section> {
    let found = rank.holders.as_ref().filter(|_| rank.at.is_none())?;
    let unit = |row: &HolderRow| unit_of(rank, &row.pool);
    let columns = [
        ("Kept alive by", Align::Left),
        ("Memory", Align::Left),
        ("Size", Align::Right),
        ("Tensors", Align::Right),
    ];
    let row = |row: &HolderRow| {
        [
            chain(&row.chain),
            cell(&row.pool, NAME),
            format!("{} {}", mb(Some(row.per_bank)), unit(row)),
            row.tensors.to_string(),
        ]
    };
    let paragraph = "References from variables of the program to tensors, at the last search for them. \
                     An asterisk stands for any index or key.";
    Some(
        Section::new("## Kept Alive By")
            .paragraph(paragraph)
            .table(columns, found.rows.iter().take(rows).map(row))
            .floors(3, 1)
            .of(found.count, " (ttmem summary --json --top lists more)"),
    )
}

/// References without the marks of code around names, which would become quotes.
fn chain(text: &str) -> String {
    cell(&text.replace('`', ""), SENTENCE)
}

/// Sentences about holders in the section on growth.
const MAX_HELD: usize = 3;
