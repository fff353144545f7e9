//! The composition of training sessions' peaks: a stacked bar per session, with the device memory as a line.

use ttmem_model::{Error, Result};
use ttmem_query::phases::{Part, PartKind, Phases, SessionPhases};

use super::axis::{Axis, Plot};
use super::canvas::{Canvas, FAINT, INK, LIMIT, Look, broken, clear_of, fitted, width};
use super::sessions::limit;
use super::{Anchor, Chart, Color};
use crate::units::size;

const WIDTH: i32 = 1000;
const HEIGHT: i32 = 640;
/// The width of a bar with its labels.
const SLOT: i32 = 140;
/// The maximum number of bars.
const MAX_BARS: usize = 40;
/// The space for the scale and for the limit's label.
const LEFT: i32 = 70;
const RIGHT: i32 = 120;
/// The height of a label.
const LABEL: i32 = 15;

/// Draws the bars. Sessions without a known peak are skipped. Fails if no session has one.
pub fn peak_bars(answer: &Phases, title: Option<&str>) -> Result<Chart> {
    let known: Vec<&SessionPhases> =
        answer.sessions.iter().filter(|session| session.peak_bytes.is_some()).collect();
    if known.is_empty() {
        return Err(Error::NoMemoryData {
            file: answer.source.files.join(", "),
            message: "nothing to draw; no session has a peak because the figures are missing".into(),
        });
    }
    let shown = &known[..known.len().min(MAX_BARS)];
    let wanted = LEFT + RIGHT + SLOT * i32::try_from(shown.len()).unwrap_or(0);
    let size = (wanted.max(WIDTH), HEIGHT);
    let title = title.unwrap_or("Memory at the peak");
    let mut bars = PeakBars::new(size, shown, known.len(), title);
    bars.draw();
    Ok(bars.canvas.finish())
}

/// The color of a part.
fn color(kind: PartKind) -> Color {
    match kind {
        PartKind::Other => Color(0xcc, 0xcc, 0xcc),
        PartKind::Model => Color(0x4d, 0xa6, 0xb8),
        PartKind::GradientsKept => Color(0xb9, 0x5f, 0x86),
        PartKind::GradientsOverhead | PartKind::Phase => Color(0xe7, 0x89, 0xab),
        PartKind::Optimizer => Color(0xce, 0xc0, 0xfa),
        PartKind::Activations => Color(0xe3, 0x8a, 0x42),
    }
}

struct PeakBars<'a> {
    canvas: Canvas,
    width: i32,
    sessions: &'a [&'a SessionPhases],
    all: usize,
    title: &'a str,
    legend: Vec<Vec<(PartKind, String)>>,
    plot: Plot,
    axis: Axis,
}

impl<'a> PeakBars<'a> {
    fn new(
        (width, height): (i32, i32),
        sessions: &'a [&'a SessionPhases],
        all: usize,
        title: &'a str,
    ) -> Self {
        let legend = legend(sessions, width - 40);
        let rows = i32::try_from(legend.len()).unwrap_or(0);
        let plot = Plot { left: LEFT, right: width - RIGHT, top: 104 + 20 * rows, bottom: height - 92 };
        let values = sessions.iter().flat_map(|session| heights(session));
        Self {
            canvas: Canvas::new((width, height)),
            width,
            sessions,
            all,
            title,
            legend,
            plot,
            axis: Axis::new(plot, values),
        }
    }

    fn draw(&mut self) {
        let title = fitted(self.title, 20, self.width - 40);
        self.canvas.text(&title, (self.width / 2, 28), Look::new(20, INK, Anchor::Middle));
        self.draw_legend();
        self.axis.draw(&mut self.canvas, "");
        for index in 0..self.sessions.len() {
            self.bar(index);
        }
        self.limits();
        // After the lines, so that a label can cover a line that it has no room to avoid.
        for index in 0..self.sessions.len() {
            self.labels(index);
        }
        self.footnotes();
    }

    fn draw_legend(&mut self) {
        let mut y = 60;
        for row in &self.legend {
            let total: i32 = row.iter().map(|(_, name)| entry_width(name)).sum();
            let mut x = (self.width - total) / 2;
            for (kind, name) in row {
                self.canvas.bar((x, y - 6), (x + 12, y + 6), color(*kind));
                self.canvas.text(name, (x + 18, y), Look::new(13, INK, Anchor::Start));
                x += entry_width(name);
            }
            y += 20;
        }
    }

    /// The left edge of a session's slot, and its width.
    fn slot(&self, index: usize) -> (i32, i32) {
        let count = i32::try_from(self.sessions.len()).unwrap_or(1).max(1);
        let index = i32::try_from(index).unwrap_or(0);
        let all = self.plot.right - self.plot.left;
        (self.plot.left + all * index / count, all / count)
    }

    /// The left and right edge of a session's bar.
    fn edges(&self, index: usize) -> (i32, i32) {
        let (left, slot) = self.slot(index);
        let thick = (slot * 48 / 100).min(180);
        // Labels of thin parts are at the right of the bar.
        let from = left + ((slot - thick) / 2).min((slot - thick - 70).max(8));
        (from, from + thick)
    }

    fn bar(&mut self, index: usize) {
        let session = self.sessions[index];
        let (from, to) = self.edges(index);
        for (part, below, above) in stacked(session) {
            let (low, high) = (self.axis.y(below.min(above)), self.axis.y(below.max(above)));
            self.canvas.bar((from, high), (to, low), color(part.kind));
        }
        if let Some(peak) = peak_within(session) {
            let y = self.axis.y(peak);
            self.canvas.line(vec![(from - 4, y), (to + 4, y)], INK, 2);
        }
    }

    fn labels(&mut self, index: usize) {
        let session = self.sessions[index];
        let (left, slot) = self.slot(index);
        let (from, to) = self.edges(index);
        let (thick, middle) = (to - from, i32::midpoint(from, to));
        // The lines that cross the bar.
        let lines: Vec<i32> =
            limit(session).into_iter().chain(peak_within(session)).map(|bytes| self.axis.y(bytes)).collect();
        let mut lowest_free = self.plot.bottom - 9;
        for (part, below, above) in stacked(session) {
            let (low, high) = (self.axis.y(below.min(above)), self.axis.y(below.max(above)));
            let center = i32::midpoint(low, high);
            let text = part.bytes.map(label).unwrap_or_default();
            let fits = |pixels: &i32| width(&text, *pixels) <= thick - 2;
            if let Some(pixels) = [12, 11, 10].into_iter().find(fits).filter(|_| low - high >= LABEL) {
                let look = Look::new(pixels, INK, Anchor::Middle);
                match clear_of(&lines, center, &(high + LABEL / 2..=low - LABEL / 2), pixels) {
                    Some(y) => self.canvas.text(&text, (middle, y), look),
                    None => self.canvas.text_on(color(part.kind), &text, (middle, center), look),
                }
            } else if part.bytes.is_some_and(|bytes| bytes != 0) {
                let y = center.min(lowest_free);
                let y = clear_of(&lines, y, &(self.plot.top..=lowest_free), 11).unwrap_or(y);
                self.canvas.line(vec![(to, center), (to + 6, y)], FAINT, 1);
                self.canvas.text(&text, (to + 9, y), Look::new(11, INK, Anchor::Start));
                lowest_free = y - LABEL;
            }
        }
        self.total(session, (from, to));
        let lines = broken(&session.label, 13, slot - 8, 3);
        for (line, text) in (0..).zip(&lines) {
            let at = (middle.clamp(left, left + slot), self.plot.bottom + 18 + 17 * line);
            self.canvas.text(text, at, Look::new(13, INK, Anchor::Middle));
        }
    }

    /// The peak, above its bar.
    fn total(&mut self, session: &SessionPhases, (from, to): (i32, i32)) {
        let Some(peak) = session.peak_bytes else { return };
        let color = if session.fits == Some(false) { LIMIT } else { INK };
        let share = session.device_usage_pct.map(|pct| format!("{pct:.1}%"));
        let mut lines: Vec<String> = std::iter::once(label(peak)).chain(share).collect();
        if let [size, share] = &lines[..]
            && to - from >= 120
        {
            lines = vec![format!("{size} ({share})")];
        }
        let tall = 16 * i32::try_from(lines.len()).unwrap_or(1);
        let mut bottom = self.axis.y(top(session).max(peak)) - 4;
        // Keeps the label clear of the limit's line.
        if let Some(line) = limit(session).map(|limit| self.axis.y(limit))
            && bottom > line - 4
            && bottom - tall < line + 4
        {
            bottom = line - 4;
        }
        for (index, text) in (0..).zip(lines.iter().rev()) {
            let at = (i32::midpoint(from, to), bottom - 8 - 16 * index);
            self.canvas.text(text, at, Look::new(13, color, Anchor::Middle));
        }
    }

    /// The memory of each device; one line if it is the same for all.
    fn limits(&mut self) {
        let all: Vec<Option<i64>> = self.sessions.iter().map(|session| limit(session)).collect();
        if let Some(first) = all.first().copied().flatten()
            && all.iter().all(|limit| *limit == Some(first))
        {
            let y = self.axis.y(first);
            self.canvas.dashes((self.plot.left, y), self.plot.right, LIMIT);
            let look = Look::new(12, LIMIT, Anchor::Start);
            self.canvas.text("device memory", (self.plot.right + 6, y - 8), look);
            self.canvas.text(&label(first), (self.plot.right + 6, y + 8), look);
            return;
        }
        for (index, limit) in all.iter().enumerate() {
            let Some(limit) = *limit else { continue };
            let (left, slot) = self.slot(index);
            let y = self.axis.y(limit);
            self.canvas.dashes((left + 3, y), left + slot - 3, LIMIT);
            self.canvas.text(&label(limit), (left + slot - 4, y - 9), Look::new(11, LIMIT, Anchor::End));
        }
    }

    /// Notes needed to read the chart.
    fn footnotes(&mut self) {
        let mut notes = Vec::new();
        if self.sessions.iter().any(|session| limit(session) != limit(self.sessions[0])) {
            notes.push("red: memory of each device".to_owned());
        }
        let rest = |session: &&&SessionPhases| {
            let other = session.parts.iter().find(|part| part.kind == PartKind::Other);
            other.and_then(|other| other.bytes).is_some_and(|bytes| bytes < 0)
        };
        if self.sessions.iter().any(|session| rest(&session)) {
            notes.push("Other is negative if the parts add up to more than the peak (black line)".to_owned());
        }
        if self.sessions.iter().any(|session| session.estimated) {
            notes.push("estimated: no memory was allocated".to_owned());
        }
        if self.sessions.iter().any(|session| !session.finished) {
            notes.push("a session is incomplete".to_owned());
        }
        if self.all > self.sessions.len() {
            notes.push(format!("{} of {} sessions", self.sessions.len(), self.all));
        }
        let text = fitted(&notes.join("; "), 11, self.width - 40);
        self.canvas.text(&text, (self.width / 2, HEIGHT - 14), Look::new(11, FAINT, Anchor::Middle));
    }
}

/// The parts of a session, each with its start and end. Negative parts extend down from zero.
fn stacked(session: &SessionPhases) -> Vec<(&Part, i64, i64)> {
    let (mut above, mut below) = (0i64, 0i64);
    let place = |part: &'_ Part| {
        let bytes = part.bytes.unwrap_or(0);
        let from = if bytes < 0 { &mut below } else { &mut above };
        let start = *from;
        *from = from.saturating_add(bytes);
        (start, *from)
    };
    let places: Vec<(i64, i64)> = session.parts.iter().map(place).collect();
    session.parts.iter().zip(places).map(|(part, (start, end))| (part, start, end)).collect()
}

/// The top of a session's bar.
fn top(session: &SessionPhases) -> i64 {
    heights(session).filter(|height| Some(*height) != limit(session)).max().unwrap_or(0)
}

/// The peak, if the parts add up to more. It is then a line across them.
fn peak_within(session: &SessionPhases) -> Option<i64> {
    session.peak_bytes.filter(|peak| top(session) > *peak)
}

/// All values of a session that the scale must cover.
fn heights(session: &SessionPhases) -> impl Iterator<Item = i64> + '_ {
    let parts = stacked(session).into_iter().map(|(_, _, end)| end);
    parts.chain(session.peak_bytes).chain(limit(session))
}

/// The parts of all sessions without duplicates, in bar order, broken into rows.
fn legend(sessions: &[&SessionPhases], room: i32) -> Vec<Vec<(PartKind, String)>> {
    const ORDER: [PartKind; 7] = [
        PartKind::Other,
        PartKind::Model,
        PartKind::GradientsKept,
        PartKind::GradientsOverhead,
        PartKind::Phase,
        PartKind::Optimizer,
        PartKind::Activations,
    ];
    let mut rows: Vec<Vec<(PartKind, String)>> = Vec::new();
    let mut used = 0;
    for kind in ORDER {
        let mut names: Vec<&str> = sessions
            .iter()
            .flat_map(|session| &session.parts)
            .filter(|part| part.kind == kind)
            .map(|part| part.name.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            continue;
        }
        let name = fitted(&names.join(", "), 13, 420);
        if rows.is_empty() || used + entry_width(&name) > room {
            rows.push(Vec::new());
            used = 0;
        }
        used += entry_width(&name);
        if let Some(row) = rows.last_mut() {
            row.push((kind, name));
        }
    }
    rows
}

fn entry_width(name: &str) -> i32 {
    width(name, 13) + 36
}

fn label(bytes: i64) -> String {
    let sign = if bytes < 0 { "−" } else { "" };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}
