//! Memory over the phases of training sessions: what is in use at the end of each, and the highest so far.

use ttmem_model::{Error, Result};
use ttmem_query::PhaseSummary;
use ttmem_query::phases::{Phases, SessionPhases};

use super::axis::{Axis, Plot};
use super::canvas::{Canvas, FAINT, GRID, INK, LIMIT, Look, broken, fitted, width};
use super::{Anchor, Chart, Colour};
use crate::units::size;

const WIDTH: i32 = 1000;
const HEIGHT: i32 = 560;
const PLOT: Plot = Plot { left: 70, right: WIDTH - 40, top: 120, bottom: HEIGHT - 90 };
const CURRENT: Colour = Colour(0x9c, 0xc3, 0xdd);
const PEAK: Colour = Colour(0x1f, 0x4e, 0x79);

/// Draws the phases of all sessions, one session after the other.
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
            message: "there is nothing to draw: the figures of all phases are missing".into(),
        });
    }
    let limits = answer.sessions.iter().map(limit);
    let axis = Axis::new(PLOT, figures.chain(limits));
    let named = format!("Memory over the phases: {}", answer.source.files.join(", "));
    let title = fitted(title.unwrap_or(&named), 19, WIDTH - 40);
    let canvas = Canvas::new((WIDTH, HEIGHT));
    let mut bars = PhaseBars { canvas, axis, phases: &phases, sessions: &answer.sessions };
    bars.canvas.text(&title, (WIDTH / 2, 26), Look::new(19, INK, Anchor::Middle));
    bars.draw();
    Ok(bars.canvas.finish())
}

fn limit(session: &SessionPhases) -> i64 {
    i64::try_from(session.device_memory_bytes).unwrap_or(i64::MAX)
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
    }

    fn legend(&mut self) {
        let entries =
            [(CURRENT, "in use at the end of the phase"), (PEAK, "highest so far"), (LIMIT, "device memory")];
        let wide = |name: &str| width(name, 12) + 34;
        let mut x = (WIDTH - entries.iter().map(|(_, name)| wide(name)).sum::<i32>()) / 2;
        for (colour, name) in entries {
            let thin = if colour == CURRENT { 6 } else { 1 };
            self.canvas.bar((x, 54 - thin), (x + 12, 54 + thin), colour);
            self.canvas.text(name, (x + 18, 54), Look::new(12, INK, Anchor::Start));
            x += wide(name);
        }
    }

    /// Where the place of a phase begins; that of one past the last is where the last ends.
    fn x(&self, index: usize) -> i32 {
        let wide = i64::from(PLOT.right - PLOT.left);
        let count = i64::try_from(self.phases.len()).unwrap_or(1).max(1);
        let along = i64::try_from(index).unwrap_or(0) * wide / count;
        PLOT.left + i32::try_from(along).unwrap_or(0)
    }

    fn phase(&mut self, index: usize) {
        let (_, phase) = self.phases[index];
        let (from, to) = (self.x(index), self.x(index + 1));
        let (wide, middle) = (to - from, i32::midpoint(from, to));
        let margin = wide * 15 / 100;
        let mut bar_top = self.axis.y(0);
        if let Some(current) = phase.cumulative_current_bytes {
            bar_top = self.axis.y(current);
            self.canvas.bar((from + margin, bar_top), (to - margin, self.axis.y(0)), CURRENT);
        }
        let text = |bytes: i64| {
            let sign = if bytes < 0 { "−" } else { "" };
            format!("{sign}{}", size(bytes.unsigned_abs()))
        };
        let fits = |text: &str| width(text, 11) <= wide - 2;
        if let Some(peak) = phase.cumulative_peak_bytes {
            let y = self.axis.y(peak);
            self.canvas.line(vec![(from + margin / 2, y), (to - margin / 2, y)], PEAK, 3);
            if fits(&text(peak)) {
                self.canvas.text(&text(peak), (middle, y - 10), Look::new(11, PEAK, Anchor::Middle));
            }
            // Its own number stands below the line of the peak.
            bar_top = bar_top.max(y + 4);
        }
        let current = phase.cumulative_current_bytes.map(text).filter(|text| fits(text));
        if let Some(current) = current.filter(|_| self.axis.y(0) - bar_top > 24) {
            self.canvas.text(&current, (middle, bar_top + 12), Look::new(11, INK, Anchor::Middle));
        }
        if wide >= 44 {
            for (line, text) in (0..).zip(broken(&phase.name, 10, wide - 4, 4)) {
                let at = (middle, PLOT.bottom + 14 + 13 * line);
                self.canvas.text(&text, at, Look::new(10, INK, Anchor::Middle));
            }
        }
    }

    /// The sessions: their names above, their limits, and a line between two.
    fn groups(&mut self) {
        let mut first = 0;
        for (number, session) in self.sessions.iter().enumerate() {
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
            let y = self.axis.y(limit(session));
            self.canvas.dashes((from + 2, y), to - 2, LIMIT);
            let text = size(session.device_memory_bytes);
            // Once, where it is the same for the one behind.
            let next = self.sessions.get(number + 1).map(|next| next.device_memory_bytes);
            if next != Some(session.device_memory_bytes) && width(&text, 11) < to - from {
                self.canvas.text(&text, (to - 4, y - 8), Look::new(11, LIMIT, Anchor::End));
            }
            first = end;
        }
        if self.x(1) - self.x(0) < 44 {
            let text = format!("{} phases, in their order", self.phases.len());
            self.canvas.text(&text, (WIDTH / 2, HEIGHT - 40), Look::new(12, FAINT, Anchor::Middle));
        }
    }
}
