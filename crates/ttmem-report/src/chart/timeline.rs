//! Memory over the steps: a pool's allocated bytes by class, its peak and its capacity.

use ttmem_model::Class;
use ttmem_query::Extent;
use ttmem_query::over_time::{OomOverTime, OverTime, PeakOverTime};

use super::axis::{Axis, Plot};
use super::canvas::{Canvas, FAINT, INK, LIMIT, Look, fitted, width};
use super::{Anchor, Chart, Color};
use crate::units::{count, percent, size};

const WIDTH: i32 = 1000;
const HEIGHT: i32 = 560;
/// The width of a curve in pixels.
pub const COLUMNS: usize = 860;
const PLOT: Plot = Plot { left: 80, right: WIDTH - 60, top: 110, bottom: HEIGHT - 56 };
/// The height of the row with the label of an out-of-memory error.
const OOM_ROW: i32 = 18;
const CURVE: Color = Color(0x1f, 0x4e, 0x79);
const PLAIN: Color = Color(0xc9, 0xdc, 0xec);
const BANDS: [Color; 2] = [Color(0xf4, 0xf1, 0xe8), Color(0xec, 0xf2, 0xf6)];

/// Draws a pool over the steps.
pub fn over_time(drawn: &OverTime, title: Option<&str>) -> Chart {
    let plot = plot(drawn);
    let mut timeline =
        Timeline { canvas: Canvas::new((WIDTH, HEIGHT)), drawn, plot, axis: axis(drawn, plot) };
    timeline.draw(title);
    timeline.canvas.finish()
}

/// The area of the curve. A chart with an out-of-memory error has a row for its label above it.
fn plot(drawn: &OverTime) -> Plot {
    let row = if drawn.oom.is_some() { OOM_ROW } else { 0 };
    Plot { top: PLOT.top + row, ..PLOT }
}

fn axis(drawn: &OverTime, plot: Plot) -> Axis {
    let points = drawn.points.iter().map(|point| point.per_bank);
    let sums = (0..drawn.points.len()).map(|index| stack(drawn, drawn.classes.len(), index));
    let all = points.chain(sums).chain(capacity_in_sight(drawn));
    Axis::new(plot, all.map(signed))
}

/// The capacity of a bank, unless the curve would be a flat line at the bottom compared with it.
fn capacity_in_sight(drawn: &OverTime) -> Option<u64> {
    const MIN_SHARE: u64 = 4;
    let all = drawn.capacity_per_bank?;
    let peak = drawn.peak.as_ref()?.per_bank;
    (peak >= all / MIN_SHARE).then_some(all)
}

/// The sum of the first classes at a point.
fn stack(drawn: &OverTime, classes: usize, index: usize) -> u64 {
    drawn.classes[..classes].iter().fold(0, |sum, class| sum.saturating_add(class.per_bank[index]))
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

struct Timeline<'a> {
    canvas: Canvas,
    drawn: &'a OverTime,
    plot: Plot,
    axis: Axis,
}

impl Timeline<'_> {
    fn draw(&mut self, title: Option<&str>) {
        let drawn = self.drawn;
        let rank = drawn.rank.as_ref().map_or_else(String::new, |rank| format!(", rank {rank}"));
        let named = format!("{} over time: {}{rank}", drawn.pool, drawn.file);
        let title = fitted(title.unwrap_or(&named), 19, WIDTH - 40);
        self.canvas.text(&title, (WIDTH / 2, 26), Look::new(19, INK, Anchor::Middle));
        let subtitle = fitted(&self.subtitle(), 13, WIDTH - 40);
        self.canvas.text(&subtitle, (WIDTH / 2, 50), Look::new(13, FAINT, Anchor::Middle));
        self.legend();
        self.bands();
        self.axis.draw(
            &mut self.canvas,
            match drawn.extent {
                Extent::Bank => " per bank",
                Extent::Core => " per core",
                Extent::Device => "",
            },
        );
        self.areas();
        self.canvas.line(self.outline(|index| drawn.points[index].per_bank), CURVE, 2);
        if let Some(oom) = &drawn.oom {
            self.out_of_memory(oom);
        }
        self.capacity();
        if let Some(peak) = &drawn.peak {
            self.peak(peak);
        }
        self.steps();
    }

    fn subtitle(&self) -> String {
        let drawn = self.drawn;
        let Some(peak) = &drawn.peak else { return format!("{} was not used", drawn.pool) };
        let (peak_size, step) = (size(peak.per_bank), count(peak.position.into()));
        let (per, banks) = match (drawn.extent, drawn.banks) {
            (Extent::Bank, Some(banks)) => (" per bank", format!(", {banks} banks")),
            (Extent::Bank, None) => (" per bank", String::new()),
            (Extent::Core, _) => (" per core", String::new()),
            (Extent::Device, _) => ("", String::new()),
        };
        let usage = match drawn.capacity_per_bank {
            Some(all) => format!("{peak_size} of {}{per} ({})", size(all), percent(peak.per_bank, all)),
            None => format!("{peak_size}{per}"),
        };
        format!("peak {usage}{banks}, before step {step}")
    }

    /// The horizontal position of a moment. The moments before and after a step are at the same place or a pixel apart.
    fn x(&self, moment: usize) -> i32 {
        let first = 2 * u64::from(self.drawn.first);
        let last = (2 * u64::from(self.drawn.end) + 1).max(first + 1);
        let along = (moment as u64).saturating_sub(first).min(last - first);
        let wide = u64::from((self.plot.right - self.plot.left).unsigned_abs());
        self.plot.left + i32::try_from(along * wide / (last - first)).unwrap_or(0)
    }

    /// The points to draw: all, or only the highest of each pixel column if there are more points than columns. A line
    /// going up and down within a column would hide everything below it.
    fn shown(&self) -> Vec<usize> {
        let points = &self.drawn.points;
        let mut shown: Vec<usize> = Vec::new();
        for (index, point) in points.iter().enumerate() {
            let same_column = |last: &usize| self.x(points[*last].moment) == self.x(point.moment);
            match shown.last().copied().filter(|last| points.len() > COLUMNS && same_column(last)) {
                Some(last) if points[last].per_bank >= point.per_bank => {}
                Some(_) => {
                    shown.pop();
                    shown.push(index);
                }
                None => shown.push(index),
            }
        }
        shown
    }

    /// A step curve through the points.
    fn outline(&self, value: impl Fn(usize) -> u64) -> Vec<(i32, i32)> {
        let mut line: Vec<(i32, i32)> = Vec::new();
        let mut push = |point: (i32, i32)| {
            if line.last() != Some(&point) {
                line.push(point);
            }
        };
        let mut last = None;
        for index in self.shown() {
            let point = self.drawn.points[index];
            let (x, y) = (self.x(point.moment), self.axis.y(signed(value(index))));
            if let Some(before) = last {
                push((x, before));
            }
            push((x, y));
            last = Some(y);
        }
        if let Some(y) = last {
            push((self.plot.right, y));
        }
        line
    }

    /// The classes as stacked areas, or a single area if they are unknown.
    fn areas(&mut self) {
        let drawn = self.drawn;
        if drawn.classes.is_empty() {
            self.area(self.outline(|index| drawn.points[index].per_bank), PLAIN);
            return;
        }
        // From the top of the stack to the bottom: each area covers the part below it.
        for classes in (1..=drawn.classes.len()).rev() {
            let color = color(drawn.classes[classes - 1].class);
            self.area(self.outline(|index| stack(drawn, classes, index)), color);
        }
    }

    fn area(&mut self, mut outline: Vec<(i32, i32)>, color: Color) {
        let (Some(first), Some(last)) = (outline.first().copied(), outline.last().copied()) else {
            return;
        };
        let ground = self.axis.y(0);
        outline.extend([(last.0, ground), (first.0, ground)]);
        self.canvas.polygon(outline, color);
    }

    /// Where the out-of-memory error is.
    fn oom_x(&self) -> Option<i32> {
        let oom = self.drawn.oom.as_ref()?;
        Some(oom.step.map_or(self.plot.right, |step| self.x(2 * step as usize + 1)))
    }

    /// A vertical line at the step that failed, and its label above the plot.
    fn out_of_memory(&mut self, oom: &OomOverTime) {
        let Some(x) = self.oom_x() else { return };
        let pool = oom.other_pool.as_ref().map_or_else(String::new, |pool| format!(" in {pool}"));
        let step = oom.step.map_or_else(String::new, |step| format!(", step {}", count(step.into())));
        let text = fitted(&format!("out of memory{pool}{step}"), 12, self.plot.right - self.plot.left);
        let y = PLOT.top - 14;
        self.canvas.line(vec![(x, y + 9), (x, self.plot.bottom)], LIMIT, 2);
        let half = width(&text, 12) / 2;
        let middle = x.clamp(self.plot.left + half, self.plot.right - half + 40);
        self.canvas.text(&text, (middle, y), Look::new(12, LIMIT, Anchor::Middle));
    }

    /// The position and alignment of a text that starts or ends at `x`, so that the line of an out-of-memory error does
    /// not strike it through.
    fn beside_oom(&self, text: &str, x: i32, anchor: Anchor) -> (i32, Anchor) {
        const GAP: i32 = 6;
        let wide = width(text, 12);
        let (from, to) = if anchor == Anchor::End { (x - wide, x) } else { (x, x + wide) };
        match self.oom_x() {
            Some(line) if (from - GAP..to + GAP).contains(&line) => {
                let has_room = line - GAP - wide >= self.plot.left;
                if has_room { (line - GAP, Anchor::End) } else { (line + GAP, Anchor::Start) }
            }
            _ => (x, anchor),
        }
    }

    fn capacity(&mut self) {
        let Some(all) = self.drawn.capacity_per_bank else { return };
        let in_sight = capacity_in_sight(self.drawn).is_some();
        let y = if in_sight { self.axis.y(signed(all)) } else { self.plot.top };
        self.canvas.dashes((self.plot.left, y), self.plot.right, LIMIT);
        let beyond = if in_sight { "" } else { ", off the scale" };
        let text = format!("{} capacity {}{beyond}", self.drawn.pool, size(all));
        let text = fitted(&text, 12, self.plot.right - self.plot.left);
        let (x, anchor) = self.beside_oom(&text, self.plot.right, Anchor::End);
        self.canvas.text(&text, (x, y - 9), Look::new(12, LIMIT, anchor));
    }

    fn peak(&mut self, peak: &PeakOverTime) {
        let per_bank = peak.per_bank;
        let point = self.drawn.points.iter().find(|point| {
            point.per_bank == per_bank && point.moment / 2 == usize::try_from(peak.position).unwrap_or(0)
        });
        let x = self.x(point.map_or(2 * peak.position as usize, |point| point.moment));
        let y = self.axis.y(signed(per_bank));
        self.canvas.dot((x, y), 4, LIMIT);
        let cause = match &peak.caused_by {
            Some((step, Some(op))) => format!(", step {} {op}", count((*step).into())),
            Some((step, None)) => format!(", step {}", count((*step).into())),
            None => String::new(),
        };
        let text = fitted(&format!("peak {}{cause}", size(per_bank)), 12, 600);
        let wide = width(&text, 12);
        let anchor = if x + 10 + wide > self.plot.right { Anchor::End } else { Anchor::Start };
        let side = if anchor == Anchor::End { x - 8 } else { x + 8 };
        let (side, anchor) = self.beside_oom(&text, side, anchor);
        let at_limit = capacity_in_sight(self.drawn).map(|all| self.axis.y(signed(all)));
        // Above the curve, unless the capacity line is too close.
        let above = y - 12;
        let clear = at_limit.is_none_or(|limit| (above - limit).abs() > 18 && (above - limit + 9).abs() > 14);
        let y = if clear { above } else { at_limit.map_or(above, |limit| limit.min(y)) - 24 };
        self.canvas.text(&text, (side, y), Look::new(12, INK, anchor));
    }

    /// The phases, in the background.
    fn bands(&mut self) {
        for (phase, color) in self.drawn.phases.iter().zip(BANDS.iter().cycle()) {
            let (from, to) = (self.x(2 * phase.first as usize), self.x(2 * phase.end as usize));
            self.canvas.bar((from, self.plot.top), (to, self.plot.bottom), *color);
            let name = fitted(&phase.name, 11, to - from - 4);
            if name.chars().count() > 3 {
                let at = (i32::midpoint(from, to), self.plot.bottom - 10);
                self.canvas.text(&name, at, Look::new(11, FAINT, Anchor::Middle));
            }
        }
    }

    fn legend(&mut self) {
        let entries: Vec<(Color, &str)> = std::iter::once((CURVE, "allocated"))
            .chain(self.drawn.classes.iter().map(|class| (color(class.class), class.class.as_str())))
            .collect();
        let wide = |name: &str| width(name, 12) + 34;
        let mut x = (WIDTH - entries.iter().map(|(_, name)| wide(name)).sum::<i32>()) / 2;
        for (index, (color, name)) in entries.into_iter().enumerate() {
            let thin = if index == 0 { 1 } else { 6 };
            self.canvas.bar((x, 76 - thin), (x + 12, 76 + thin), color);
            self.canvas.text(name, (x + 18, 76), Look::new(12, INK, Anchor::Start));
            x += wide(name);
        }
    }

    /// The step numbers below the plot.
    fn steps(&mut self) {
        const MARKS: u64 = 8;
        let (first, end) = (u64::from(self.drawn.first), u64::from(self.drawn.end));
        let every = round_up((end - first).div_ceil(MARKS).max(1));
        let Plot { left, right, bottom, .. } = self.plot;
        self.canvas.line(vec![(left, bottom), (right, bottom)], FAINT, 1);
        let mut step = first.next_multiple_of(every);
        while step <= end {
            let x = self.x(usize::try_from(2 * step).unwrap_or(usize::MAX));
            self.canvas.line(vec![(x, self.plot.bottom), (x, self.plot.bottom + 5)], FAINT, 1);
            self.canvas.text(&count(step), (x, self.plot.bottom + 16), Look::new(12, INK, Anchor::Middle));
            step += every;
        }
        self.canvas.text("step", (WIDTH / 2, HEIGHT - 14), Look::new(12, FAINT, Anchor::Middle));
    }
}

/// The next number in 1, 2, 5, 10, 20, 50 …
fn round_up(number: u64) -> u64 {
    let mut power = 1;
    loop {
        for factor in [1, 2, 5] {
            if factor * power >= number {
                return factor * power;
            }
        }
        power *= 10;
    }
}

fn color(class: Class) -> Color {
    match class {
        Class::Weight | Class::Parameter => Color(0x4d, 0xa6, 0xb8),
        Class::Input => Color(0x8f, 0xbf, 0x6b),
        Class::Argument => Color(0xb5, 0xd3, 0xa0),
        Class::Activation => Color(0xe3, 0x8a, 0x42),
        Class::Gradient => Color(0xe7, 0x89, 0xab),
        Class::Optimizer => Color(0xce, 0xc0, 0xfa),
        Class::KvCache => Color(0xd9, 0xc2, 0x4f),
        Class::Buffer => Color(0x9a, 0xa8, 0xd6),
        Class::Temporary => Color(0xf0, 0xc4, 0x9a),
        Class::Workspace => Color(0xa8, 0x93, 0x80),
        Class::Unknown => Color(0xcc, 0xcc, 0xcc),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round() {
        let rounded = [1, 2, 3, 6, 11, 21, 51, 999].map(round_up);
        assert_eq!(rounded, [1, 2, 5, 10, 20, 50, 100, 1000]);
    }
}
