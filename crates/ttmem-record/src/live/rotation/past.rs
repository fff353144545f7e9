//! The past of a recording in a limited number of points: curves of pools with their peaks, and snapshots.
//!
//! The number of points does not depend on how long a program runs. Every kept point is exact, with its time, operation
//! and level; the points between them are dropped.

use ttmem_model::{CurveKind, Nanoseconds, OpId, PoolId, StrId};

/// The maximum number of intervals of a curve.
const MAX_INTERVALS: usize = 512;
/// The initial length of an interval. When there are too many, pairs are merged.
const FIRST_INTERVAL: Nanoseconds = 1_000_000;
/// The maximum number of snapshots.
const MAX_SNAPSHOTS: usize = 1024;

/// The moment right after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::live) struct After {
    /// The number of steps so far in the whole recording.
    pub position: u64,
    /// The time of the step.
    pub time: Nanoseconds,
    /// Its operation.
    pub op: OpId,
}

/// A level of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::live) struct Point {
    pub after: After,
    /// When the level was observed: a reading may be much later than the preceding step.
    pub seen: Nanoseconds,
    pub value: u64,
    /// The number of allocations.
    pub count: u64,
}

/// A time interval: the first of its highest points, and its last one.
#[derive(Clone, Copy, Debug)]
struct Interval {
    number: u64,
    highest: Point,
    last: Point,
}

/// A curve with its highest points, including the peak.
#[derive(Clone, Debug)]
pub(in crate::live) struct Series {
    intervals: Vec<Interval>,
    length: Nanoseconds,
}

impl Default for Series {
    fn default() -> Self {
        Self { intervals: Vec::new(), length: FIRST_INTERVAL }
    }
}

impl Series {
    /// Adds a point.
    #[inline]
    pub fn add(&mut self, point: Point) {
        let number = point.seen / self.length;
        match self.intervals.last_mut() {
            // Times never decrease; if they did, the point would belong to the same interval.
            Some(interval) if interval.number >= number => interval.go_on(point),
            _ => self.begin(number, point),
        }
    }

    fn begin(&mut self, number: u64, point: Point) {
        self.intervals.push(Interval { number, highest: point, last: point });
        while self.intervals.len() > MAX_INTERVALS {
            self.length = self.length.saturating_mul(2);
            for interval in &mut self.intervals {
                interval.number /= 2;
            }
            self.intervals.dedup_by(|later, earlier| {
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
        self.intervals.iter().flat_map(|interval| {
            let last = Some(interval.last).filter(|last| *last != interval.highest);
            [Some(interval.highest), last].into_iter().flatten()
        })
    }

    /// The first of the highest points.
    pub fn peak(&self) -> Option<Point> {
        let highest = self.intervals.iter().map(|interval| interval.highest);
        highest.reduce(|peak, next| if next.value > peak.value { next } else { peak })
    }

    /// The last point.
    pub fn now(&self) -> Option<Point> {
        self.intervals.last().map(|interval| interval.last)
    }

    pub fn len(&self) -> usize {
        self.intervals.len()
    }
}

impl Interval {
    #[inline]
    fn go_on(&mut self, point: Point) {
        if point.value > self.highest.value {
            self.highest = point;
        }
        self.last = point;
    }
}

/// The level of a curve of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::live) struct Value {
    pub pool: PoolId,
    pub kind: CurveKind,
    pub bytes: u64,
    pub count: u64,
}

/// A snapshot, with the levels of all pools.
#[derive(Clone, Debug)]
pub(in crate::live) struct KeptSnapshot {
    pub name: Option<StrId>,
    pub time: Nanoseconds,
    pub after: After,
    pub values: Vec<Value>,
}

/// The snapshots of a recording.
#[derive(Clone, Debug, Default)]
pub(in crate::live) struct Snapshots {
    kept: Vec<KeptSnapshot>,
    /// The number of snapshots that were taken.
    taken: u64,
}

impl Snapshots {
    pub fn add(&mut self, snapshot: KeptSnapshot) {
        self.kept.push(snapshot);
        self.taken += 1;
        if self.kept.len() > MAX_SNAPSHOTS {
            self.thin();
        }
    }

    /// Drops every second snapshot of the older half, preferring those without a name if there are enough.
    fn thin(&mut self) {
        let unnamed = self.kept.iter().filter(|snapshot| snapshot.name.is_none()).count();
        let drop_named = unnamed < MAX_SNAPSHOTS / 8;
        let mut left = if drop_named { self.kept.len() - unnamed } else { unnamed } / 2;
        let mut goes = false;
        self.kept.retain(|snapshot| {
            if snapshot.name.is_some() != drop_named || left == 0 {
                return true;
            }
            left -= 1;
            goes = !goes;
            !goes
        });
    }

    pub fn get(&self, number: usize) -> Option<&KeptSnapshot> {
        self.kept.get(number)
    }

    pub fn iter(&self) -> impl Iterator<Item = &KeptSnapshot> {
        self.kept.iter()
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// The number of snapshots that were dropped.
    pub fn dropped(&self) -> u64 {
        self.taken - self.kept.len() as u64
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
        /// However long a curve is, its points are few, in order, and exact; its first highest point and its last are
        /// kept.
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
                series.add(all[position]);
            }
            let points: Vec<Point> = series.points().collect();
            prop_assert!(points.len() <= 2 * MAX_INTERVALS && series.len() <= MAX_INTERVALS);
            prop_assert!(points.is_sorted_by_key(|point| point.after.position));
            prop_assert!(points.iter().all(|point| all[usize::try_from(point.after.position).unwrap()] == *point));
            let highest = all.iter().map(|point| point.value).max().unwrap();
            let peak = all.iter().find(|point| point.value == highest).copied();
            prop_assert_eq!(series.peak(), peak);
            prop_assert!(points.contains(&peak.unwrap()));
            prop_assert_eq!(series.now(), all.last().copied());
        }

        /// Named snapshots are kept while there are others to drop; the last ones are always kept.
        #[test]
        fn snapshots_stay_few(named in vec(prop::bool::weighted(0.1), 0..6000)) {
            let mut snapshots = Snapshots::default();
            for (time, is_named) in named.iter().enumerate() {
                let name = is_named.then(|| StrId::new(time).unwrap());
                let after = point(time as u64, 0, 0).after;
                snapshots.add(KeptSnapshot { name, time: time as u64, after, values: Vec::new() });
            }
            prop_assert!(snapshots.len() <= MAX_SNAPSHOTS);
            prop_assert_eq!(snapshots.dropped() + snapshots.len() as u64, named.len() as u64);
            prop_assert!(snapshots.iter().is_sorted_by_key(|snapshot| snapshot.time));
            let mut times: Vec<u64> = snapshots.iter().map(|snapshot| snapshot.time).collect();
            times.reverse();
            prop_assert!(times.iter().take(100).zip((0..named.len() as u64).rev()).all(|(a, b)| *a == b));
            let names = snapshots.iter().filter(|snapshot| snapshot.name.is_some()).count();
            prop_assert_eq!(names, named.iter().filter(|is_named| **is_named).count());
        }
    }
}
