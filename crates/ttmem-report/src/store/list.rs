//! The stored reports as a table and as JSON.

use std::io::{self, Write};

use jiff::tz::TimeZone;
use ttmem_query::ShownPeak;

use super::{Kind, Stored};
use crate::styled::Text;
use crate::table::{Align, Table};
use crate::units::{percent, size};

/// Writes the reports as JSON: a list, each as it serialises.
pub fn list_json(reports: &[Stored], out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, reports)?;
    writeln!(out)
}

/// The reports as a table, in the order given. Times are of the given zone.
pub fn list(reports: &[Stored], zone: &TimeZone, width: usize) -> Text {
    let mut out = Text::new(width);
    if reports.is_empty() {
        return out;
    }
    let mut table = Table::new([
        // Never cut: it is what `ttmem show` wants.
        ("name", Align::Left),
        ("written", Align::Left),
        ("format", Align::Left),
        ("peak", Align::Left),
        ("size", Align::Right),
    ]);
    for report in reports {
        table.row([
            report.name.clone(),
            when(report, zone),
            format(report),
            report.peak_text(),
            size(report.bytes),
        ]);
    }
    out.plain_table(&table, "");
    out
}

/// `2026-11-15 08:12`.
pub(super) fn when(report: &Stored, zone: &TimeZone) -> String {
    let written = report.written.map(|at| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string());
    written.unwrap_or_else(|| "unknown".into())
}

/// `tt_log`, and whether it was read from a run.
fn format(report: &Stored) -> String {
    let format = report.format.as_deref().unwrap_or("unknown");
    match report.kind {
        Kind::Report => format.to_owned(),
        Kind::Run => format!("{format}, run"),
    }
}

impl Stored {
    /// The peak in a row of a list: `DRAM 686.4 MiB/bank (17 %)`; `DRAM 1012.5 MiB/bank, OOM`, where memory ran out;
    /// `DRAM 15.30 GiB`, where the evidence has totals of the device.
    pub fn peak_text(&self) -> String {
        let oom = if self.oom.is_some() { ", OOM" } else { "" };
        let Some((peak, ShownPeak { bytes, capacity, of })) = self.peak.as_ref().zip(self.shown) else {
            return format!("unknown{oom}");
        };
        let share = capacity.filter(|_| self.oom.is_none());
        let share = share.map_or_else(String::new, |all| format!(" ({})", percent(bytes, all)));
        format!("{} {}{}{share}{oom}", peak.pool, size(bytes), of.suffix())
    }
}
