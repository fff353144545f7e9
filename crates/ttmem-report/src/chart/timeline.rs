//! Memory over the steps: what a pool holds, by class, its peak and what it has.

use ttmem_model::Class;
use ttmem_query::Extent;
use ttmem_query::over_time::{OverTime, PeakOverTime};

use super::axis::{Axis, Plot};
use super::canvas::{Canvas, FAINT, INK, LIMIT, Look, fitted, width};
use super::{Anchor, Chart, Colour};
use crate::units::{count, percent, size};

const WIDTH: i32 = 1000;
const HEIGHT: i32 = 560;
/// How many columns of pixels a curve has.
pub const COLUMNS: usize = 860;
const PLOT: Plot = Plot { left: 80, right: WIDTH - 60, top: 110, bottom: HEIGHT - 56 };
const CURVE: Colour = Colour(0x1f, 0x4e, 0x79);
const PLAIN: Colour = Colour(0xc9, 0xdc, 0xec);
const BANDS: [Colour; 2] = [Colour(0xf4, 0xf1, 0xe8), Colour(0xec, 0xf2, 0xf6)];

/// Draws a pool over the steps.
pub fn over_time(drawn: &OverTime, title: Option<&str>) -> Chart {
    let mut timeline = Timeline { canvas: Canvas::new((WIDTH, HEIGHT)), drawn, axis: axis(drawn) };
    timeline.draw(title);
    timeline.canvas.finish()
}

fn axis(drawn: &OverTime) -> Axis {
    let points = drawn.points.iter().map(|point| point.per_bank);
    let sums = (0..drawn.points.len()).map(|index| stack(drawn, drawn.classes.len(), index));
    let all = points.chain(sums).chain(capacity_in_sight(drawn));
    Axis::new(PLOT, all.map(signed))
}

/// What a bank has, unless the curve would be nothing but a line at the bottom against it.
fn capacity_in_sight(drawn: &OverTime) -> Option<u64> {
    const LEAST_SHARE: u64 = 4;
    let all = drawn.capacity_per_bank?;
    let peak = drawn.peak.as_ref()?.per_bank;
    (peak >= all / LEAST_SHARE).then_some(all)
}

/// What the first classes add up to at a point.
fn stack(drawn: &OverTime, classes: usize, index: usize) -> u64 {
    drawn.classes[..classes].iter().fold(0, |sum, class| sum.saturating_add(class.per_bank[index]))
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

struct Timeline<'a> {
    canvas: Canvas,
    drawn: &'a OverTime,
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
                Extent::Bank => " of each bank",
                Extent::Core => " of each core",
                Extent::Device => "",
            },
        );
        self.areas();
        self.canvas.line(self.outline(|index| drawn.points[index].per_bank), CURVE, 2);
        self.capacity();
        if let Some(peak) = &drawn.peak {
            self.peak(peak);
        }
        self.steps();
    }

    fn subtitle(&self) -> String {
        let drawn = self.drawn;
        let Some(peak) = &drawn.peak else { return format!("{} was never used", drawn.pool) };
        let share = drawn
            .capacity_per_bank
            .map_or_else(String::new, |all| format!(" of {} ({})", size(all), percent(peak.per_bank, all)));
        let banks = match (drawn.extent, drawn.banks) {
            (Extent::Bank, Some(banks)) => format!(" in each of {banks} banks"),
            (Extent::Bank, None) => " in each bank".to_owned(),
            (Extent::Core, _) => " in each core".to_owned(),
            (Extent::Device, _) => String::new(),
        };
        format!("peak {}{share}{banks}, before step {}", size(peak.per_bank), count(peak.position.into()))
    }

    /// Where a moment is drawn: both sides of a position are at its place, or a little behind.
    fn x(&self, moment: usize) -> i32 {
        let first = 2 * u64::from(self.drawn.first);
        let last = (2 * u64::from(self.drawn.end) + 1).max(first + 1);
        let along = (moment as u64).saturating_sub(first).min(last - first);
        let wide = u64::from((PLOT.right - PLOT.left).unsigned_abs());
        PLOT.left + i32::try_from(along * wide / (last - first)).unwrap_or(0)
    }

    /// The points that are drawn: all, or of each column of pixels the highest where there are too many to be told
    /// apart. A line that went up and down within a column would hide everything below it.
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

    /// A curve of steps through the points.
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
            push((PLOT.right, y));
        }
        line
    }

    /// What the classes take, one above the other; all in one where they are not known.
    fn areas(&mut self) {
        let drawn = self.drawn;
        if drawn.classes.is_empty() {
            self.area(self.outline(|index| drawn.points[index].per_bank), PLAIN);
            return;
        }
        // From the highest to the lowest: each covers what is not above it.
        for classes in (1..=drawn.classes.len()).rev() {
            let colour = colour(drawn.classes[classes - 1].class);
            self.area(self.outline(|index| stack(drawn, classes, index)), colour);
        }
    }

    fn area(&mut self, mut outline: Vec<(i32, i32)>, colour: Colour) {
        let (Some(first), Some(last)) = (outline.first().copied(), outline.last().copied()) else {
            return;
        };
        let ground = self.axis.y(0);
        outline.extend([(last.0, ground), (first.0, ground)]);
        self.canvas.polygon(outline, colour);
    }

    fn capacity(&mut self) {
        let Some(all) = self.drawn.capacity_per_bank else { return };
        let in_sight = capacity_in_sight(self.drawn).is_some();
        let y = if in_sight { self.axis.y(signed(all)) } else { PLOT.top };
        self.canvas.dashes((PLOT.left, y), PLOT.right, LIMIT);
        let beyond = if in_sight { "" } else { ", far above this scale" };
        let text = format!("{} has {}{beyond}", self.drawn.pool, size(all));
        let text = fitted(&text, 12, PLOT.right - PLOT.left);
        self.canvas.text(&text, (PLOT.right, y - 9), Look::new(12, LIMIT, Anchor::End));
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
        let anchor = if x + 10 + wide > PLOT.right { Anchor::End } else { Anchor::Start };
        let side = if anchor == Anchor::End { x - 8 } else { x + 8 };
        let at_limit = capacity_in_sight(self.drawn).map(|all| self.axis.y(signed(all)));
        // Above the curve, unless the limit is just there.
        let above = y - 12;
        let clear = at_limit.is_none_or(|limit| (above - limit).abs() > 18 && (above - limit + 9).abs() > 14);
        let y = if clear { above } else { at_limit.map_or(above, |limit| limit.min(y)) - 24 };
        self.canvas.text(&text, (side, y), Look::new(12, INK, anchor));
    }

    /// The phases, behind everything.
    fn bands(&mut self) {
        for (phase, colour) in self.drawn.phases.iter().zip(BANDS.iter().cycle()) {
            let (from, to) = (self.x(2 * phase.first as usize), self.x(2 * phase.end as usize));
            self.canvas.bar((from, PLOT.top), (to, PLOT.bottom), *colour);
            let name = fitted(&phase.name, 11, to - from - 4);
            if name.chars().count() > 3 {
                let at = (i32::midpoint(from, to), PLOT.bottom - 10);
                self.canvas.text(&name, at, Look::new(11, FAINT, Anchor::Middle));
            }
        }
    }

    fn legend(&mut self) {
        let entries: Vec<(Colour, &str)> = std::iter::once((CURVE, "allocated"))
            .chain(self.drawn.classes.iter().map(|class| (colour(class.class), class.class.as_str())))
            .collect();
        let wide = |name: &str| width(name, 12) + 34;
        let mut x = (WIDTH - entries.iter().map(|(_, name)| wide(name)).sum::<i32>()) / 2;
        for (index, (colour, name)) in entries.into_iter().enumerate() {
            let thin = if index == 0 { 1 } else { 6 };
            self.canvas.bar((x, 76 - thin), (x + 12, 76 + thin), colour);
            self.canvas.text(name, (x + 18, 76), Look::new(12, INK, Anchor::Start));
            x += wide(name);
        }
    }

    /// The numbers of the steps below.
    fn steps(&mut self) {
        const MARKS: u64 = 8;
        let (first, end) = (u64::from(self.drawn.first), u64::from(self.drawn.end));
        let every = round_up((end - first).div_ceil(MARKS).max(1));
        self.canvas.line(vec![(PLOT.left, PLOT.bottom), (PLOT.right, PLOT.bottom)], FAINT, 1);
        let mut step = first.next_multiple_of(every);
        while step <= end {
            let x = self.x(usize::try_from(2 * step).unwrap_or(usize::MAX));
            self.canvas.line(vec![(x, PLOT.bottom), (x, PLOT.bottom + 5)], FAINT, 1);
            self.canvas.text(&count(step), (x, PLOT.bottom + 16), Look::new(12, INK, Anchor::Middle));
            step += every;
        }
        self.canvas.text("step", (WIDTH / 2, HEIGHT - 14), Look::new(12, FAINT, Anchor::Middle));
    }
}

/// The next of 1, 2, 5, 10, 20, 50 …
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

fn colour(class: Class) -> Colour {
    match class {
        Class::Weight | Class::Parameter => Colour(0x4d, 0xa6, 0xb8),
        Class::Input => Colour(0x8f, 0xbf, 0x6b),
        Class::Argument => Colour(0xb5, 0xd3, 0xa0),
        Class::Activation => Colour(0xe3, 0x8a, 0x42),
        Class::Gradient => Colour(0xe7, 0x89, 0xab),
        Class::Optimizer => Colour(0xce, 0xc0, 0xfa),
        Class::KvCache => Colour(0xd9, 0xc2, 0x4f),
        Class::Buffer => Colour(0x9a, 0xa8, 0xd6),
        Class::Temporary => Colour(0xf0, 0xc4, 0x9a),
        Class::Unknown => Colour(0xcc, 0xcc, 0xcc),
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
