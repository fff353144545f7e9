//! Memory over the phases of training sessions: the use at the end of each, and the peak so far.

use std::ops::RangeInclusive;

use ttmem_model::{Error, Result};
use ttmem_query::PhaseSummary;
use ttmem_query::phases::{Phases, SessionPhases};

use super::axis::{Axis, Plot};
use super::canvas::{Canvas, FAINT, GRID, INK, LIMIT, Look, broken, clear_of, fitted, width};
use super::{Anchor, Chart, Color, Point};
use crate::units::size;

const WIDTH: i32 = 1000;
const HEIGHT: i32 = 560;
const PLOT: Plot = Plot { left: 70, right: WIDTH - 40, top: 120, bottom: HEIGHT - 90 };
const CURRENT: Color = Color(0x9c, 0xc3, 0xdd);
const PEAK: Color = Color(0x1f, 0x4e, 0x79);
const WHITE: Color = Color(0xff, 0xff, 0xff);

/// Draws the phases of all sessions, one session after another.
pub fn over_phases(answer: &Phases, title: Option<&str>) -> Result<Chart> {
    let phases: Vec<(&SessionPhases, &PhaseSummary)> = answer
        .sessions
        .iter()
        .flat_map(|session| session.phases.iter().map(move |phase| (session, phase)))
        .collect();
    let figures = phases
        .iter()
        .flat_map(|(_, phase)| phase.cumulative_peak_bytes.into_iter().chain(phase.cumulative_current_bytes));
    if figures.clone().next().is_none() {
        return Err(Error::NoMemoryData {
            file: answer.source.files.join(", "),
            message: "nothing to draw; the figures of all phases are missing".into(),
        });
    }
    let limits = answer.sessions.iter().filter_map(limit);
    let axis = Axis::new(PLOT, figures.chain(limits));
    let named = format!("Memory over the phases: {}", answer.source.files.join(", "));
    let title = fitted(title.unwrap_or(&named), 19, WIDTH - 40);
    let canvas = Canvas::new((WIDTH, HEIGHT));
    let mut bars = PhaseBars { canvas, axis, phases: &phases, sessions: &answer.sessions };
    bars.canvas.text(&title, (WIDTH / 2, 26), Look::new(19, INK, Anchor::Middle));
    bars.draw();
    Ok(bars.canvas.finish())
}

/// The device memory, if it is known.
pub(super) fn limit(session: &SessionPhases) -> Option<i64> {
    session.device_memory_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// A size at a bar, centered on its point.
struct Label {
    text: String,
    at: Point,
    color: Color,
    /// The background, if the limit's line would strike it through.
    background: Option<Color>,
}

impl Label {
    const PIXELS: i32 = 11;

    const fn look(&self) -> Look {
        Look::new(Self::PIXELS, self.color, Anchor::Middle)
    }

    /// Whether it overlaps a text of the same font size that is between two columns.
    fn overlaps(&self, (from, to): (i32, i32), y: i32) -> bool {
        let half = width(&self.text, Self::PIXELS) / 2;
        (y - self.at.1).abs() <= Self::PIXELS && from <= self.at.0 + half && to >= self.at.0 - half
    }
}

struct PhaseBars<'a> {
    canvas: Canvas,
    axis: Axis,
    phases: &'a [(&'a SessionPhases, &'a PhaseSummary)],
    sessions: &'a [SessionPhases],
}

impl PhaseBars<'_> {
    fn draw(&mut self) {
        self.legend();
        self.axis.draw(&mut self.canvas, "");
        for index in 0..self.phases.len() {
            self.phase(index);
        }
        self.groups();
        // After the lines, so that a label can cover a line that it has no room to avoid.
        let labels: Vec<Label> = (0..self.phases.len()).flat_map(|index| self.labels(index)).collect();
        for label in &labels {
            match label.background {
                Some(background) => self.canvas.text_on(background, &label.text, label.at, label.look()),
                None => self.canvas.text(&label.text, label.at, label.look()),
            }
        }
        self.limit_labels(&labels);
    }

    fn legend(&mut self) {
        let entries =
            [(CURRENT, "in use at the end of the phase"), (PEAK, "peak so far"), (LIMIT, "device memory")];
        let wide = |name: &str| width(name, 12) + 34;
        let mut x = (WIDTH - entries.iter().map(|(_, name)| wide(name)).sum::<i32>()) / 2;
        for (color, name) in entries {
            let thin = if color == CURRENT { 6 } else { 1 };
            self.canvas.bar((x, 54 - thin), (x + 12, 54 + thin), color);
            self.canvas.text(name, (x + 18, 54), Look::new(12, INK, Anchor::Start));
            x += wide(name);
        }
    }

    /// The left edge of a phase's slot. One past the last phase, the right edge of the plot.
    fn x(&self, index: usize) -> i32 {
        let wide = i64::from(PLOT.right - PLOT.left);
        let count = i64::try_from(self.phases.len()).unwrap_or(1).max(1);
        let along = i64::try_from(index).unwrap_or(0) * wide / count;
        PLOT.left + i32::try_from(along).unwrap_or(0)
    }

    /// The bar, the peak line and the name of a phase.
    fn phase(&mut self, index: usize) {
        let (_, phase) = self.phases[index];
        let (from, to) = (self.x(index), self.x(index + 1));
        let (wide, middle) = (to - from, i32::midpoint(from, to));
        let margin = wide * 15 / 100;
        if let Some(current) = phase.cumulative_current_bytes {
            let bar_top = self.axis.y(current);
            self.canvas.bar((from + margin, bar_top), (to - margin, self.axis.y(0)), CURRENT);
        }
        if let Some(peak) = phase.cumulative_peak_bytes {
            let y = self.axis.y(peak);
            self.canvas.line(vec![(from + margin / 2, y), (to - margin / 2, y)], PEAK, 3);
        }
        if wide >= 44 {
            for (line, text) in (0..).zip(broken(&phase.name, 10, wide - 4, 4)) {
                let at = (middle, PLOT.bottom + 14 + 13 * line);
                self.canvas.text(&text, at, Look::new(10, INK, Anchor::Middle));
            }
        }
    }

    /// The sizes of a phase that fit its width, clear of the limit's line.
    fn labels(&self, index: usize) -> Vec<Label> {
        let (session, phase) = self.phases[index];
        let (from, to) = (self.x(index), self.x(index + 1));
        let ground = self.axis.y(0);
        let line: Vec<i32> = limit(session).map(|limit| self.axis.y(limit)).into_iter().collect();
        let mut labels = Vec::new();
        let mut add = |bytes: i64, y: i32, range: &RangeInclusive<i32>, color, background| {
            let sign = if bytes < 0 { "−" } else { "" };
            let text = format!("{sign}{}", size(bytes.unsigned_abs()));
            if width(&text, Label::PIXELS) <= to - from - 2 {
                let clear = clear_of(&line, y, range, Label::PIXELS);
                let background = clear.is_none().then_some(background);
                let at = (i32::midpoint(from, to), clear.unwrap_or(y));
                labels.push(Label { text, at, color, background });
            }
        };
        let mut bar_top = phase.cumulative_current_bytes.map_or(ground, |current| self.axis.y(current));
        if let Some(peak) = phase.cumulative_peak_bytes {
            let y = self.axis.y(peak);
            add(peak, y - 10, &(PLOT.top - 12..=y - 10), PEAK, WHITE);
            // The bar's label is below the peak line.
            bar_top = bar_top.max(y + 4);
        }
        if let Some(current) = phase.cumulative_current_bytes.filter(|_| ground - bar_top > 24) {
            add(current, bar_top + 12, &(bar_top + 12..=ground - 8), INK, CURRENT);
        }
        labels
    }

    /// The sessions' names and the lines of their limits, with a line between sessions.
    fn groups(&mut self) {
        let mut first = 0;
        for session in self.sessions {
            let end = first + session.phases.len();
            let (from, to) = (self.x(first), self.x(end));
            if first > 0 {
                self.canvas.line(vec![(from, PLOT.top - 24), (from, PLOT.bottom)], GRID, 2);
            }
            let name = fitted(&session.label, 13, to - from - 8);
            if name.chars().count() > 3 {
                let at = (i32::midpoint(from, to), PLOT.top - 32);
                self.canvas.text(&name, at, Look::new(13, INK, Anchor::Middle));
            }
            if let Some(limit) = limit(session) {
                self.canvas.dashes((from + 2, self.axis.y(limit)), to - 2, LIMIT);
            }
            first = end;
        }
        if self.x(1) - self.x(0) < 44 {
            let text = format!("{} phases, in order", self.phases.len());
            self.canvas.text(&text, (WIDTH / 2, HEIGHT - 40), Look::new(12, FAINT, Anchor::Middle));
        }
    }

    /// The sizes of the limits, next to their lines and clear of the other labels.
    fn limit_labels(&mut self, labels: &[Label]) {
        let mut first = 0;
        for (number, session) in self.sessions.iter().enumerate() {
            let end = first + session.phases.len();
            let (from, to) = (self.x(first), self.x(end));
            first = end;
            let (Some(bytes), Some(limit)) = (session.device_memory_bytes, limit(session)) else { continue };
            let text = size(bytes);
            let wide = width(&text, Label::PIXELS);
            // Once, if the next session has the same limit.
            let next = self.sessions.get(number + 1).map(|next| next.device_memory_bytes);
            if next == Some(Some(bytes)) || wide >= to - from {
                continue;
            }
            let line = self.axis.y(limit);
            let at_end = |y| ((to - 4, y), Anchor::End, (to - 4 - wide, to - 4));
            let at_start = |y| ((from + 6, y), Anchor::Start, (from + 6, from + 6 + wide));
            let places = [at_end(line - 8), at_end(line + 9), at_start(line - 8), at_start(line + 9)];
            let is_free = |((_, y), _, columns): &(Point, Anchor, (i32, i32))| {
                !labels.iter().any(|label| label.overlaps(*columns, *y))
            };
            let (at, anchor, _) = places.into_iter().find(is_free).unwrap_or(places[0]);
            self.canvas.text(&text, at, Look::new(Label::PIXELS, LIMIT, anchor));
        }
    }
}
