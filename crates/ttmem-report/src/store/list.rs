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
    /// The peak in a row of a list: `DRAM 1012.5 MiB/bank (99 %), OOM`; `DRAM 15.30 GiB`, where the evidence has totals of
    /// the device.
    fn peak_text(&self) -> String {
        let peak = self.peak_with_share(&self.share()).unwrap_or_else(|| "unknown".to_owned());
        format!("{peak}{}", if self.oom.is_some() { ", OOM" } else { "" })
    }

    /// The same for narrow lists, in which `ran out` stands in place of the share.
    pub fn brief_peak_text(&self) -> String {
        let share = if self.oom.is_some() { " ran out".to_owned() } else { self.share() };
        self.peak_with_share(&share).unwrap_or_else(|| "unknown".to_owned())
    }

    fn peak_with_share(&self, share: &str) -> Option<String> {
        let (peak, ShownPeak { bytes, of, .. }) = (self.peak.as_ref()?, self.shown?);
        Some(format!("{} {}{}{share}", peak.pool, size(bytes), of.suffix()))
    }

    fn share(&self) -> String {
        let share =
            self.shown.and_then(|shown| Some(format!(" ({})", percent(shown.bytes, shown.capacity?))));
        share.unwrap_or_default()
    }
}
