//! The byte scale at the left of a chart.

use super::Anchor;
use super::canvas::{Canvas, FAINT, GRID, INK, Look};

const MIB: f64 = 1024.0 * 1024.0;
const GIB: f64 = 1024.0 * MIB;

/// The area of a chart that is drawn to scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plot {
    pub left: i32,
    pub right: i32,
    pub top: i32,
    pub bottom: i32,
}

/// Maps bytes to pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    plot: Plot,
    lowest: f64,
    highest: f64,
    unit: f64,
}

impl Axis {
    /// A scale that covers all values and zero.
    pub fn new(plot: Plot, values: impl Iterator<Item = i64>) -> Self {
        let (lowest, highest) =
            values.fold((0i64, 0i64), |(low, high), value| (low.min(value), high.max(value)));
        let (lowest, highest) = (as_float(lowest), as_float(highest).max(1.0));
        let room = (highest - lowest) * 0.06;
        let unit = match highest - lowest {
            span if span >= 2.0 * GIB => GIB,
            span if span >= 2.0 * MIB => MIB,
            _ => 1024.0,
        };
        let lowest = if lowest < 0.0 { lowest - room } else { 0.0 };
        Self { plot, lowest, highest: highest + room, unit }
    }

    /// The vertical position of a value.
    pub fn y(&self, bytes: i64) -> i32 {
        self.at(as_float(bytes))
    }

    #[allow(clippy::cast_possible_truncation, reason = "a pixel within the plot")]
    fn at(&self, bytes: f64) -> i32 {
        let share = ((bytes - self.lowest) / (self.highest - self.lowest)).clamp(0.0, 1.0);
        let height = f64::from(self.plot.bottom - self.plot.top);
        self.plot.bottom - (share * height).round() as i32
    }

    /// The name of the unit.
    pub fn unit(&self) -> &'static str {
        match self.unit {
            unit if unit >= GIB => "GiB",
            unit if unit >= MIB => "MiB",
            _ => "KiB",
        }
    }

    /// Draws grid lines at round numbers, their labels, and the title.
    pub fn draw(&self, canvas: &mut Canvas, suffix: &str) {
        let Plot { left, right, top, bottom } = self.plot;
        let (marks, digits) = marks(self.lowest / self.unit, self.highest / self.unit);
        for mark in marks {
            let y = self.at(mark * self.unit);
            canvas.line(vec![(left, y), (right, y)], if mark == 0.0 { FAINT } else { GRID }, 1);
            let number = format!("{mark:.digits$}").replace('-', "−");
            canvas.text(&number, (left - 8, y), Look::new(12, INK, Anchor::End));
        }
        canvas.line(vec![(left, top), (left, bottom)], FAINT, 1);
        let title = format!("{}{suffix}", self.unit());
        canvas.text(&title, (left - 8, top - 14), Look::new(12, FAINT, Anchor::Start));
    }
}

/// Multiples of 1, 2 or 5 times a power of ten within a range, as many as possible up to `MAX_MARKS`, and the decimals
/// they need.
fn marks(lowest: f64, highest: f64) -> (Vec<f64>, usize) {
    const MAX_MARKS: f64 = 10.0;
    #[allow(clippy::cast_possible_truncation, reason = "a small power of ten")]
    let largest = (highest - lowest).log10().floor() as i32;
    // A tenth of the largest power has at least ten marks, ten times the largest has at most two.
    for power in largest - 1..=largest + 1 {
        for factor in [1.0, 2.0, 5.0] {
            let step = factor * 10f64.powi(power);
            let (first, last) = ((lowest / step).ceil(), (highest / step).floor());
            if last - first < MAX_MARKS {
                // Dividing by powers below one is exact: 3 * 0.1 is not 0.3.
                let mark = |number: f64| match power {
                    0.. => number * factor * 10f64.powi(power),
                    _ => number * factor / 10f64.powi(-power),
                };
                let numbers = std::iter::successors(Some(first), |number| Some(number + 1.0));
                let marks = numbers.take_while(|number| *number <= last).map(mark).collect();
                return (marks, usize::try_from(-power).unwrap_or(0));
            }
        }
    }
    (Vec::new(), 0)
}

#[allow(clippy::cast_precision_loss, reason = "it becomes a pixel")]
fn as_float(bytes: i64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLOT: Plot = Plot { left: 50, right: 950, top: 100, bottom: 500 };

    #[test]
    fn bytes_have_their_places() {
        let axis = Axis::new(PLOT, [8 << 30].into_iter());
        assert_eq!((axis.y(0), axis.unit()), (500, "GiB"));
        assert!(axis.y(8 << 30) > 100 && axis.y(8 << 30) < 130);
        assert!(axis.y(4 << 30) < axis.y(2 << 30));
        // Values outside the range are clamped.
        assert_eq!((axis.y(i64::MAX), axis.y(i64::MIN)), (100, 500));
    }

    #[test]
    fn what_is_below_nothing_has_a_place() {
        let axis = Axis::new(PLOT, [100 << 20, -(50 << 20)].into_iter());
        assert!(axis.y(-(50 << 20)) > axis.y(0) && axis.y(0) < 400);
        assert_eq!(axis.unit(), "MiB");
        assert_eq!(Axis::new(PLOT, std::iter::empty()).unit(), "KiB");
    }

    #[test]
    fn marks_are_as_many_as_fit_and_round() {
        assert_eq!(marks(0.0, 16.2), (vec![0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0], 0));
        assert_eq!(marks(-1.7, 5.4).0, [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(marks(0.0, 2.12), (vec![0.0, 0.5, 1.0, 1.5, 2.0], 1));
        assert_eq!(marks(-0.35, 0.35), (vec![-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3], 1));
        let (tiny, digits) = marks(0.0, 1.06 / 1024.0);
        assert_eq!((tiny.len(), digits), (6, 4));
        for highest in [1e-3, 0.99, 1.0, 9.99, 10.0, 4096.0, 8.6e9] {
            let (marks, _) = marks(0.0, highest);
            assert!(
                (3..=10).contains(&marks.len()) && marks.iter().all(|mark| *mark <= highest),
                "{marks:?}"
            );
        }
    }
}
