//! The past of a recording in few points: how high each pool was, and the moments that somebody wanted to look at.
//!
//! However long a program runs, there are no more points than the limits here say. Each point is true: it is a moment
//! that was, with its time, its operation and its level. Between them others are missing.

use ttmem_model::{CurveKind, Nanoseconds, OpId, PoolId, StrId};

/// A curve has at most so many stretches of time.
const MOST_STRETCHES: usize = 512;
/// How long a stretch is at first; whenever there are too many, two become one.
const FIRST_STRETCH: Nanoseconds = 1_000_000;
/// So many snapshots are kept.
const MOST_SNAPSHOTS: usize = 1024;

/// A step that was, by what is known of the moment right after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct After {
    /// How many steps there were then, since the beginning of all.
    pub position: u64,
    /// When the step was.
    pub time: Nanoseconds,
    /// Its operation.
    pub op: OpId,
}

/// A level that a pool had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub after: After,
    /// When the level was seen: a reading may be much later than the step before it.
    pub seen: Nanoseconds,
    pub value: u64,
    /// How many allocations there were.
    pub count: u64,
}

/// A stretch of time: the first of its highest points, and its last one.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    number: u64,
    highest: Point,
    last: Point,
}

/// A curve, of which the highest points are kept. The highest of all is one of them.
#[derive(Clone, Debug)]
pub(super) struct Series {
    stretches: Vec<Stretch>,
    length: Nanoseconds,
}

impl Default for Series {
    fn default() -> Self {
        Self { stretches: Vec::new(), length: FIRST_STRETCH }
    }
}

impl Series {
    /// The curve goes on to a point.
    #[inline]
    pub fn see(&mut self, point: Point) {
        let number = point.seen / self.length;
        match self.stretches.last_mut() {
            // Times do not go back; should they, that is of the same stretch.
            Some(stretch) if stretch.number >= number => stretch.go_on(point),
            _ => self.begin(number, point),
        }
    }

    fn begin(&mut self, number: u64, point: Point) {
        self.stretches.push(Stretch { number, highest: point, last: point });
        while self.stretches.len() > MOST_STRETCHES {
            self.length = self.length.saturating_mul(2);
            for stretch in &mut self.stretches {
                stretch.number /= 2;
            }
            self.stretches.dedup_by(|later, earlier| {
                let is_same = later.number == earlier.number;
                if is_same {
                    earlier.go_on(later.highest);
                    earlier.last = later.last;
                }
                is_same
            });
        }
    }

    /// The points, in order.
    pub fn points(&self) -> impl Iterator<Item = Point> + '_ {
        self.stretches.iter().flat_map(|stretch| {
            let last = Some(stretch.last).filter(|last| *last != stretch.highest);
            [Some(stretch.highest), last].into_iter().flatten()
        })
    }

    /// The first of the highest points.
    pub fn peak(&self) -> Option<Point> {
        let highest = self.stretches.iter().map(|stretch| stretch.highest);
        highest.reduce(|peak, next| if next.value > peak.value { next } else { peak })
    }

    /// Where the curve is now.
    pub fn now(&self) -> Option<Point> {
        self.stretches.last().map(|stretch| stretch.last)
    }

    pub fn len(&self) -> usize {
        self.stretches.len()
    }
}

impl Stretch {
    #[inline]
    fn go_on(&mut self, point: Point) {
        if point.value > self.highest.value {
            self.highest = point;
        }
        self.last = point;
    }
}

/// What a curve of a pool was at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub pool: PoolId,
    pub kind: CurveKind,
    pub bytes: u64,
    pub count: u64,
}

/// A moment that somebody wanted to look at, with what all pools were at.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub name: Option<StrId>,
    pub time: Nanoseconds,
    pub after: After,
    pub values: Vec<Value>,
}

/// The moments that somebody wanted to look at.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    kept: Vec<Look>,
    /// How many there were.
    seen: u64,
}

impl Looks {
    pub fn add(&mut self, look: Look) {
        self.kept.push(look);
        self.seen += 1;
        if self.kept.len() > MOST_SNAPSHOTS {
            self.thin();
        }
    }

    /// Every second one of the older half goes: of those without a name, as long as there are enough of them.
    fn thin(&mut self) {
        let unnamed = self.kept.iter().filter(|look| look.name.is_none()).count();
        let goes_named = unnamed < MOST_SNAPSHOTS / 8;
        let mut left = if goes_named { self.kept.len() - unnamed } else { unnamed } / 2;
        let mut goes = false;
        self.kept.retain(|look| {
            if look.name.is_some() != goes_named || left == 0 {
                return true;
            }
            left -= 1;
            goes = !goes;
            !goes
        });
    }

    pub fn get(&self, number: usize) -> Option<&Look> {
        self.kept.get(number)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Look> {
        self.kept.iter()
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// How many are no longer there.
    pub fn gone(&self) -> u64 {
        self.seen - self.kept.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn point(position: u64, time: Nanoseconds, value: u64) -> Point {
        Point { after: After { position, time, op: OpId::new(0).unwrap() }, seen: time, value, count: 1 }
    }

    proptest! {
        /// However long a curve is, its points are few, in order, and true; its first highest point and its last are there.
        #[test]
        fn a_curve_stays_short_and_keeps_its_peak(
            steps in vec((0..50_000_000_u64, 0..1000_u64), 1..4000)
        ) {
            let mut time = 0;
            let mut all = Vec::new();
            let mut series = Series::default();
            for (position, (later, value)) in steps.into_iter().enumerate() {
                time += later;
                all.push(point(position as u64, time, value));
                series.see(all[position]);
            }
            let points: Vec<Point> = series.points().collect();
            prop_assert!(points.len() <= 2 * MOST_STRETCHES && series.len() <= MOST_STRETCHES);
            prop_assert!(points.is_sorted_by_key(|point| point.after.position));
            prop_assert!(points.iter().all(|point| all[usize::try_from(point.after.position).unwrap()] == *point));
            let highest = all.iter().map(|point| point.value).max().unwrap();
            let peak = all.iter().find(|point| point.value == highest).copied();
            prop_assert_eq!(series.peak(), peak);
            prop_assert!(points.contains(&peak.unwrap()));
            prop_assert_eq!(series.now(), all.last().copied());
        }

        /// Snapshots that the program has named stay while there are others to thin; the last ones always stay.
        #[test]
        fn snapshots_stay_few(named in vec(prop::bool::weighted(0.1), 0..6000)) {
            let mut looks = Looks::default();
            for (time, is_named) in named.iter().enumerate() {
                let name = is_named.then(|| StrId::new(time).unwrap());
                let after = point(time as u64, 0, 0).after;
                looks.add(Look { name, time: time as u64, after, values: Vec::new() });
            }
            prop_assert!(looks.len() <= MOST_SNAPSHOTS);
            prop_assert_eq!(looks.gone() + looks.len() as u64, named.len() as u64);
            prop_assert!(looks.iter().is_sorted_by_key(|look| look.time));
            let mut times: Vec<u64> = looks.iter().map(|look| look.time).collect();
            times.reverse();
            prop_assert!(times.iter().take(100).zip((0..named.len() as u64).rev()).all(|(a, b)| *a == b));
            let names = looks.iter().filter(|look| look.name.is_some()).count();
            prop_assert_eq!(names, named.iter().filter(|is_named| **is_named).count());
        }
    }
}
