//! The parts of a device's memory at an out-of-memory error.

use ttmem_query::words::percent;
use ttmem_query::{LedgerPart, RankSummary, ReportedSummary};

use super::cell::{LOCATION, NAME, SENTENCE, cell};
use super::document::{Align, Section};
use super::{mb, none};

/// The section on the parts of the memory, what the program reported before, and its settings.
pub(super) fn section(rank: &RankSummary) -> Option<Section> {
    let ledger = rank.oom.as_ref()?.ledger.as_ref()?;
    if ledger.parts.is_empty() && ledger.reported.is_empty() && ledger.settings.is_empty() {
        return None;
    }
    let share = |bytes| ledger.capacity_bytes.map_or_else(none, |whole| percent(bytes, whole));
    let part = |part: &LedgerPart| [cell(&part.label, LOCATION), mb(Some(part.bytes)), share(part.bytes)];
    let reported = |part: &ReportedSummary| {
        [format!("reported before: {}", cell(&part.label, LOCATION)), mb(Some(part.bytes)), share(part.bytes)]
    };
    let rows: Vec<[String; 3]> =
        ledger.parts.iter().map(part).chain(ledger.reported.iter().map(reported)).collect();
    let columns = [("Memory of the device", Align::Left), ("MiB", Align::Right), ("Share", Align::Right)];
    let count = rows.len();
    let section = Section::new("## Device Memory at the Error").table(columns, rows).floors(count, count);
    let settings =
        ledger.settings.iter().map(|one| format!("Setting: `{}={}`", one.name, cell(&one.value, NAME)));
    let notes = ledger.notes.iter().map(|note| cell(note, SENTENCE));
    Some(settings.chain(notes).fold(section, Section::paragraph))
}
