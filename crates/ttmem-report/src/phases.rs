//! The phases of training sessions as text for a terminal, and as JSON.
//!
//! Figures are in MiB with two decimals, as the log prints them, so that you can find them there.

use std::io::{self, Write};

use ttmem_query::PhaseSummary;
use ttmem_query::phases::{Figure, Growth, Origin, Part, PartSource, Phases, SessionPhases};

use super::styled::{Span, Style, Text};
use super::table::{Align, Table, cut, one_line};
use super::units::{count, mib, size};

/// Longer lines are hard to read.
const WIDEST: usize = 100;
/// The number of phases shown per session.
const MAX_PHASES: usize = 40;

/// Writes the response as JSON.
pub fn phases_json(answer: &Phases, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, answer)?;
    writeln!(out)
}

/// The response as text for a terminal.
pub fn phases(answer: &Phases, width: usize) -> Text {
    let mut out = Text::new(width.min(WIDEST));
    let mut file = None;
    for session in &answer.sessions {
        let place = (&session.file, &session.rank);
        if file != Some(place) {
            if file.is_some() {
                out.blank();
            }
            file = Some(place);
            let here = answer.sessions.iter().filter(|other| (&other.file, &other.rank) == place).count();
            let rank = session.rank.as_ref().map_or_else(String::new, |rank| format!(", rank {rank}"));
            let summaries = if here == 1 { "1 summary".to_owned() } else { format!("{here} summaries") };
            out.spans([
                Span::new(&session.file, Style::Heading),
                Span::plain(format!("{rank}   {summaries}, sizes in MiB")),
            ]);
        }
        out.blank();
        Page { session }.write(&mut out);
    }
    comparisons(answer, &mut out);
    out
}

/// How the sessions differ. Printed last, because the end of the output is visible first.
fn comparisons(answer: &Phases, out: &mut Text) {
    const SHOWN: usize = 3;
    if answer.comparisons.is_empty() {
        return;
    }
    out.blank();
    out.heading("Comparison");
    for comparison in answer.comparisons.iter().take(SHOWN) {
        out.sentence(&one_line(&comparison.message), Style::Plain);
    }
    let more = answer.comparisons.len().saturating_sub(SHOWN);
    if more > 0 {
        out.line(format!("  … and {more} more (--json lists all)"));
    }
}

/// A table of phases with the field names of tt-train, under the groups that they belong to.
pub(super) fn phase_table(phases: &[&PhaseSummary], width: usize) -> Table {
    const WIDE: usize = 100;
    let has_l1 = phases.iter().any(|phase| phase.l1_peak_total_bytes.is_some());
    let mut table = Table::new([
        ("", Align::Flexible),
        ("Segment", Align::Right),
        ("", Align::Right),
        ("", Align::Right),
        ("", Align::Right),
        ("Cumulative", Align::Right),
        ("", Align::Right),
        ("", Align::Right),
    ])
    .optional(&[7, 4]);
    let (allocations, deallocations) =
        if width < WIDE { ("Allocs", "Deallocs") } else { ("Allocations", "Deallocations") };
    let l1 = if has_l1 { "L1 Peak" } else { "" };
    table.row(
        ["phase", "Peak", allocations, deallocations, "Change", "Peak", "Current", l1].map(String::from),
    );
    let shown = |bytes: Option<i64>| bytes.map_or_else(unknown, signed);
    let plain = |bytes: Option<u64>| bytes.map_or_else(unknown, |bytes| mib(bytes, 2));
    for phase in phases {
        table.row([
            phase.name.clone(),
            shown(phase.segment_peak_bytes),
            plain(phase.allocations_bytes),
            plain(phase.deallocations_bytes),
            phase.change_bytes.map_or_else(unknown, change),
            shown(phase.cumulative_peak_bytes),
            shown(phase.cumulative_current_bytes),
            if has_l1 { plain(phase.l1_peak_total_bytes) } else { String::new() },
        ]);
    }
    table
}

struct Page<'a> {
    session: &'a SessionPhases,
}

impl Page<'_> {
    fn write(&self, out: &mut Text) {
        out.heading(cut(&one_line(&self.session.label), out.width()));
        self.verdict(out);
        out.blank();
        self.phases(out);
        out.blank();
        self.figures(out);
        self.parts(out);
        self.advice(out);
        self.notes(out);
    }

    /// Whether the session fits into the device, and whether it grows.
    fn verdict(&self, out: &mut Text) {
        let (text, style) = fit(self.session);
        out.sentence(&text, style);
        if let Some(growth) = &self.session.growth {
            out.sentence(&grows(growth), Style::Warning);
        }
    }

    fn phases(&self, out: &mut Text) {
        // If there are many, the last ones matter most.
        let hidden = self.session.phases.len().saturating_sub(MAX_PHASES);
        let shown: Vec<&PhaseSummary> = self.session.phases[hidden..].iter().collect();
        out.table(&phase_table(&shown, out.width()));
        if hidden > 0 {
            out.line(format!("  … and {} earlier ones (--json lists all)", count(hidden as u64)));
        }
    }

    fn figures(&self, out: &mut Text) {
        let session = self.session;
        let mut table = Table::new([
            ("", Align::Left),
            ("expected", Align::Right),
            ("measured", Align::Right),
            ("difference", Align::Right),
            ("", Align::Left),
        ]);
        let parameters =
            session.parameters.map(|count_of| format!("{} × {}", count(count_of), one_line(&session.dtype)));
        let rows = [
            ("model", session.model, parameters),
            ("optimizer", session.optimizer, Some("2 × model".to_owned())),
            ("gradients", session.gradients, Some("same as model".to_owned())),
            ("activations", session.activations, None),
        ];
        for (name, figure, from) in rows {
            let from = match figure.expected_source {
                Some(Origin::Option) => "specified".to_owned(),
                Some(_) => from.unwrap_or_default(),
                None => String::new(),
            };
            let nothing_to_expect = name == "activations";
            table.row([
                name.to_owned(),
                expected(figure, nothing_to_expect),
                figure.measured_bytes.map_or_else(unknown, signed),
                figure.difference_pct.map_or_else(|| "–".into(), percent_change),
                from,
            ]);
        }
        out.table(&table);
    }

    /// The composition of the peak, top to bottom as in the chart.
    fn parts(&self, out: &mut Text) {
        let session = self.session;
        let Some(peak) = session.peak_bytes.filter(|_| !session.parts.is_empty()) else { return };
        out.blank();
        let mut table = Table::new([
            ("at the peak", Align::Flexible),
            ("MiB", Align::Right),
            ("share", Align::Right),
            ("", Align::Left),
            ("", Align::Left),
        ]);
        for part in session.parts.iter().rev() {
            table.row([
                part.name.clone(),
                part.bytes.map_or_else(unknown, signed),
                part.bytes.map_or_else(|| "–".into(), |bytes| share(bytes, peak)),
                source(part).to_owned(),
                bar(part.bytes, peak, out.width().saturating_sub(66).clamp(8, 24)),
            ]);
        }
        out.table(&table);
    }

    fn advice(&self, out: &mut Text) {
        if self.session.advice.is_empty() {
            return;
        }
        out.blank();
        out.spans([Span::plain("  "), Span::new("What to change", Style::Heading)]);
        for (number, one) in (1..).zip(&self.session.advice) {
            out.item(number, &one_line(&one.message));
        }
    }

    fn notes(&self, out: &mut Text) {
        if self.session.notes.is_empty() {
            return;
        }
        out.blank();
        for note in &self.session.notes {
            out.sentence(&one_line(note), Style::Plain);
        }
    }
}

/// Whether a session fits into the device, as a sentence.
fn fit(session: &SessionPhases) -> (String, Style) {
    let phase = session.peak_phase.as_ref();
    let phase = phase.map_or_else(String::new, |phase| format!(", reached in {}", cut(&one_line(phase), 60)));
    let (peak, device) = match (session.peak_bytes, device(session)) {
        (Some(peak), Some(device)) => (amount(peak), device),
        (Some(peak), None) => {
            let unknown = "The log does not contain the device memory; set it with --device-memory to see \
                           whether the peak fits.";
            return (format!("The peak is {}{phase}. {unknown}", amount(peak)), Style::Plain);
        }
        (None, _) => return ("The peak is unknown.".to_owned(), Style::Warning),
    };
    let share = session.device_usage_pct.map_or_else(String::new, |pct| format!(", {pct:.1}%"));
    let needs = format!("the peak is {peak}{share} of {device}{phase}");
    let left = session.left_bytes.unwrap_or(0);
    let bytes = size(left.unsigned_abs());
    match session.fits {
        Some(true) => {
            let fits = if session.finished { "Fits" } else { "Fits so far" };
            (format!("{fits}: {needs}; {bytes} is free."), Style::of_level(session.level))
        }
        _ if left == 0 => (format!("Does not fit: {needs}; no memory is left."), Style::Failure),
        _ => (format!("Does not fit: {needs}; {bytes} over the limit."), Style::Failure),
    }
}

/// How memory grows, as a sentence.
pub(super) fn grows(growth: &Growth) -> String {
    let left = growth.iterations_left.map_or_else(String::new, |left| {
        format!("; the device is full after {} more", count(left.saturating_add(1)))
    });
    format!(
        "Grows by {} per iteration (after {}, over {} iterations){left}.",
        amount(growth.per_iteration_bytes),
        cut(&one_line(&growth.phase), 60),
        count(growth.iterations)
    )
}

/// A size that may be negative.
pub(super) fn amount(bytes: i64) -> String {
    let sign = if bytes < 0 { "−" } else { "" };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}

/// `12.00 GiB (from the log)`.
fn device(session: &SessionPhases) -> Option<String> {
    let who = match session.device_memory_source? {
        Origin::Option | Origin::Model => "specified",
        Origin::Header => "from the log",
        Origin::Default => "assumed",
    };
    Some(format!("{} ({who})", size(session.device_memory_bytes?)))
}

fn expected(figure: Figure, nothing_to_expect: bool) -> String {
    match figure.expected_bytes {
        Some(bytes) => mib(bytes, 2),
        None if nothing_to_expect => "–".into(),
        None => unknown(),
    }
}

fn source(part: &Part) -> &'static str {
    match part.source {
        PartSource::Expected => "expected",
        PartSource::Measured => "measured",
        PartSource::Rest => "remainder",
    }
}

fn unknown() -> String {
    "unknown".into()
}

/// MiB with two decimals; may be negative.
pub(super) fn signed(bytes: i64) -> String {
    let sign = if bytes < 0 { "−" } else { "" };
    format!("{sign}{}", mib(bytes.unsigned_abs(), 2))
}

fn change(bytes: i64) -> String {
    if bytes < 0 { signed(bytes) } else { format!("+{}", signed(bytes)) }
}

fn percent_change(pct: f64) -> String {
    let sign = if pct < 0.0 { "−" } else { "+" };
    format!("{sign}{:.1}%", pct.abs())
}

/// A share of the peak; may be negative.
fn share(bytes: i64, peak: i64) -> String {
    let (bytes_of, whole) = (i128::from(bytes) * 1000, i128::from(peak.max(1)));
    let tenths = (bytes_of.abs() + whole / 2) / whole;
    let sign = if bytes < 0 { "−" } else { "" };
    format!("{sign}{}.{}%", tenths / 10, tenths % 10)
}

fn bar(bytes: Option<i64>, peak: i64, width: usize) -> String {
    let cells = bytes.filter(|bytes| *bytes > 0).map_or(0, |bytes| {
        let cells = (i128::from(bytes) * width as i128).checked_div(i128::from(peak.max(1))).unwrap_or(0);
        usize::try_from(cells).unwrap_or(0).clamp(1, width)
    });
    "▓".repeat(cells)
}
