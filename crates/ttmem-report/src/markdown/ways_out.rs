//! The two sides of a clash in L1, and the ways out of a failure.

use ttmem_model::words::counted;
use ttmem_query::{ClashLine, RankSummary, WayOut};

use super::cell::{SENTENCE, cell};
use super::document::{Align, Section};

/// The section on a program's buffers and the tensors in their way.
pub(super) fn clash(rank: &RankSummary) -> Option<Section> {
    let clash = rank.oom.as_ref()?.clash.as_ref().filter(|clash| !clash.lines.is_empty())?;
    let row = |line: &ClashLine| [line.label.to_owned(), cell(&line.text, SENTENCE)];
    let columns = [("On a core", Align::Left), ("Addresses and bytes", Align::Left)];
    let section = Section::new("## Clash in L1").table(columns, clash.lines.iter().map(row)).floors(3, 3);
    let notes = [&clash.parts_note, &clash.since_then];
    Some(notes.into_iter().flatten().fold(section, |section, note| section.paragraph(cell(note, SENTENCE))))
}

/// The section on changes that avoid the failure.
pub(super) fn section(rank: &RankSummary) -> Option<Section> {
    let oom = rank.oom.as_ref()?;
    if let Some(none) = &oom.no_way_out {
        return Some(Section::new("## Ways Out").paragraph(cell(none, SENTENCE)));
    }
    let ways = &oom.ways_out;
    let item =
        |(number, way): (usize, &WayOut)| format!("{number}. {} ({})", cell(&way.text, SENTENCE), way.kind);
    let how = match &oom.replay {
        Some(replay) if replay.allocations > 0 => format!(
            "Each is enough alone, the smallest first. Verified by replaying the program, which reproduces all addresses ({}).",
            counted(replay.allocations, "allocation")
        ),
        _ => "Each is enough alone, the smallest first. Verified by replaying the program.".to_owned(),
    };
    (!ways.is_empty()).then(|| {
        Section::new("## Ways Out").paragraph(how).list((1..).zip(ways).map(item)).floors(5, 3).essential(1)
    })
}
