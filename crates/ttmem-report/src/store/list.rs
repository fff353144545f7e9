//! The stored reports as a table and as JSON.

use std::io::{self, Write};

use jiff::tz::TimeZone;
use ttmem_query::ShownPeak;

use super::{Kind, Stored};
use crate::styled::Text;
use crate::table::{Align, Table};
use crate::units::{percent, size};

/// Writes the reports as a JSON list.
pub fn list_json(reports: &[Stored], out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, reports)?;
    writeln!(out)
}

/// The reports as a table, in the given order and time zone. Long names are shortened to fit the width.
pub fn list(reports: &[Stored], zone: &TimeZone, width: usize) -> Text {
    let mut out = Text::new(width);
    if reports.is_empty() {
        return out;
    }
    let mut table = Table::new([
        ("name", Align::Flexible),
        ("written", Align::Left),
        ("format", Align::Left),
        ("peak", Align::Left),
        ("size", Align::Right),
    ])
    .optional(&[4, 2]);
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

/// `tt_log`, with a note if the report belongs to a run.
fn format(report: &Stored) -> String {
    let format = report.format.as_deref().unwrap_or("unknown");
    match report.kind {
        Kind::Report => format.to_owned(),
        Kind::Run => format!("{format}, run"),
    }
}

impl Stored {
    /// The peak in a list row: `DRAM 1012.5 MiB/bank (99%), OOM`, or `DRAM 15.30 GiB` if the log has device totals.
    fn peak_text(&self) -> String {
        let peak = self.peak_with_share(&self.share()).unwrap_or_else(|| "unknown".to_owned());
        format!("{peak}{}", if self.oom.is_some() { ", OOM" } else { "" })
    }

    /// The same for narrow lists, with `OOM` in place of the share.
    pub fn brief_peak_text(&self) -> String {
        let share = if self.oom.is_some() { " OOM".to_owned() } else { self.share() };
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
