//! The parts of a device's memory at an out-of-memory error.

use ttmem_query::LedgerSummary;
use ttmem_query::words::{one_line, percent, size};

use crate::styled::{Style, Text};

/// Adds the parts, and what the program reported about its memory.
pub(super) fn ledger(ledger: &LedgerSummary, out: &mut Text) {
    if !ledger.parts.is_empty() {
        out.blank();
        let of = ledger.capacity_bytes.map_or_else(String::new, |bytes| format!(" ({})", size(bytes)));
        out.heading(format!("Memory of the device{of}"));
    }
    let share = |bytes| ledger.capacity_bytes.map_or_else(String::new, |whole| percent(bytes, whole));
    let width = ledger.parts.iter().map(|part| part.label.len()).max().unwrap_or(0);
    for part in &ledger.parts {
        let (bytes, share) = (size(part.bytes), share(part.bytes));
        out.line(format!("  {:width$}  {bytes:>10}  {share:>6}", part.label).trim_end());
    }
    let reported: Vec<String> = ledger
        .reported
        .iter()
        .map(|part| format!("{} {}", one_line(&part.label), size(part.bytes)))
        .collect();
    if !reported.is_empty() {
        out.blank();
        out.sentence(&format!("The program reported before: {}.", reported.join(", ")), Style::Plain);
    }
    for setting in &ledger.settings {
        out.sentence(&format!("Setting: {}={}", setting.name, one_line(&setting.value)), Style::Plain);
    }
    for note in &ledger.notes {
        out.sentence(note, Style::Plain);
    }
    if !ledger.parts.is_empty() {
        out.blank();
    }
}
