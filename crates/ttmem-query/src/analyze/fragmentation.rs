//! Fragmentation: the free memory compared with the largest free block.

use std::cmp::Reverse;

use serde::Serialize;
use ttmem_model::{Curve, CurveKind, Moment, Pool};

use super::{Account, Span};

/// The free memory and the largest free block at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragmented {
    /// The moment.
    pub at: Moment,
    /// The free bytes per bank.
    pub free: u64,
    /// The largest free block.
    pub largest_free: u64,
}

impl Fragmented {
    /// The free bytes outside the largest free block.
    pub fn in_pieces(&self) -> u64 {
        self.free.saturating_sub(self.largest_free)
    }

    /// Whether at least a share of the free bytes, in percent, is outside the largest free block.
    fn has_share_in_pieces(&self, percent: u64) -> bool {
        self.in_pieces() > 0
            && u128::from(self.in_pieces()) * 100 >= u128::from(self.free) * u128::from(percent)
    }
}

/// How serious fragmentation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// At every moment, less than 1% of the free bytes was outside the largest free block.
    Negligible,
    /// At the worst moment, less than 5% of the free bytes was outside the largest free block.
    Minor,
    /// At the worst moment, at least 5% of the free bytes was outside the largest free block.
    Notable,
}

/// Fragmentation below this share of the free bytes, in percent, is negligible.
const NEGLIGIBLE: u64 = 1;
/// Fragmentation below this share of the free bytes, in percent, is minor.
const MINOR: u64 = 5;
/// The number of intervals that a span is divided into; each contributes at most its worst moment.
const STRETCHES: usize = 60;

/// Merges two sorted lists of moments.
fn merged<'a>(a: &'a [Moment], b: &'a [Moment]) -> impl Iterator<Item = Moment> + 'a {
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some(x), Some(y)) if y < x => b.next(),
        (None, _) => b.next(),
        _ => a.next(),
    })
}

/// The free bytes and the largest free block of a pool over time; `None` if the input does not contain them.
fn curves(pool: &Pool) -> Option<(&Curve, &Curve)> {
    let curve = |kind| pool.curve(kind).filter(|curve| !curve.at.is_empty());
    Some((curve(CurveKind::Free)?, curve(CurveKind::LargestFree)?))
}

/// The free bytes and the largest free block at each change of one of them, in order.
fn readings<'a>(account: &Account<'a>, span: Span) -> Option<impl Iterator<Item = Fragmented> + use<'a>> {
    let (rank, pool) = (account.rank, account.pool);
    let (free, largest) = curves(pool)?;
    let (mut free_values, mut largest_values) = (free.cursor(), largest.cursor());
    // The last change may be before the start of the span.
    let first = pool.observed.range(span.start(), span.last(rank)).next();
    let changes = merged(&free.at, &largest.at).filter(move |at| span.contains(*at, rank));
    Some(first.into_iter().chain(changes).filter_map(move |at| {
        let (free, largest_free) = (free_values.value_at(at), largest_values.value_at(at));
        Some(Fragmented { at, free: free?, largest_free: largest_free? })
    }))
}

/// The moment of a span with the most free bytes outside the largest free block.
pub fn worst(account: &Account<'_>, span: Span) -> Option<Fragmented> {
    let quantum = account.pool.quantum;
    let mut worst: Option<Fragmented> = None;
    for found in readings(account, span)? {
        // The same amount of fragmentation is worse if less memory is free.
        let is_worse = |worst: Fragmented| {
            let (new, old) = (found.in_pieces(), worst.in_pieces());
            new > old.saturating_add(quantum) || (new.abs_diff(old) <= quantum && found.free < worst.free)
        };
        worst = worst.filter(|worst| !is_worse(*worst)).or(Some(found));
    }
    worst.filter(|worst| worst.in_pieces() > quantum)
}

/// The severity of the fragmentation of a span, given its worst moment.
pub fn severity(account: &Account<'_>, span: Span, worst: &Fragmented) -> Severity {
    if worst.has_share_in_pieces(MINOR) {
        return Severity::Notable;
    }
    let mut readings = readings(account, span).into_iter().flatten();
    if readings.any(|reading| reading.has_share_in_pieces(NEGLIGIBLE)) {
        Severity::Minor
    } else {
        Severity::Negligible
    }
}

/// The worst moments in different parts of a span, worst first. Empty if the free memory was always contiguous, `None`
/// if the input does not contain it.
pub fn worst_moments(account: &Account<'_>, span: Span, most: usize) -> Option<Vec<Fragmented>> {
    let readings = readings(account, span)?;
    let Some(worst) = worst(account, span) else { return Some(Vec::new()) };
    let quantum = account.pool.quantum;
    let positions = span.end.saturating_sub(span.first) as usize + 1;
    let stretch = positions.div_ceil(STRETCHES).max(1) * 2;
    Some(apart(readings.filter(|reading| reading.in_pieces() > quantum), worst, stretch, most))
}

/// The worst reading, followed by local maxima that are more than `stretch` moments apart, highest first.
fn apart(
    readings: impl Iterator<Item = Fragmented>,
    worst: Fragmented,
    stretch: usize,
    most: usize,
) -> Vec<Fragmented> {
    let mut stretches: Vec<Option<Fragmented>> = Vec::new();
    for reading in readings {
        let index = reading.at.index() / stretch;
        if stretches.len() <= index {
            stretches.resize(index + 1, None);
        }
        let highest = &mut stretches[index];
        if highest.is_none_or(|highest| reading.in_pieces() > highest.in_pieces()) {
            *highest = Some(reading);
        }
    }
    let height = |index: usize| stretches.get(index).copied().flatten().map(|reading| reading.in_pieces());
    // Readings around a maximum are high as well: an interval counts only if neither neighbor is higher.
    let is_summit = |index: usize| {
        height(index) > index.checked_sub(1).and_then(height) && height(index) >= height(index + 1)
    };
    let mut summits: Vec<Fragmented> =
        (0..stretches.len()).filter(|index| is_summit(*index)).filter_map(|index| stretches[index]).collect();
    summits.sort_by_key(|summit| (Reverse(summit.in_pieces()), summit.at));
    let mut chosen = vec![worst];
    for summit in summits {
        let is_near = |other: &Fragmented| other.at.index().abs_diff(summit.at.index()) <= stretch;
        if chosen.len() < most && !chosen.iter().any(is_near) {
            chosen.push(summit);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use ttmem_model::{
        Builder, Event, Op, OpId, OpKind, PoolId, Profile, RankEvent, RankId, Reading, Sink, StepMarks,
        StepRow, StrId,
    };

    use super::*;
    use crate::analyze::tests::{Evidence, START, account, before, whole};

    /// Readings with 100 free bytes, from their moments and largest free blocks.
    fn readings(changes: &[(usize, u64)]) -> Vec<Fragmented> {
        let reading = |&(at, largest_free): &(usize, u64)| {
            Some(Fragmented { at: Moment::from_index(at)?, free: 100, largest_free })
        };
        changes.iter().filter_map(reading).collect()
    }

    const STEPS: u32 = 1000;

    /// A rank with one pool, from its quantum and its readings: position, free bytes, and largest free block.
    fn rank(quantum: u64, readings: &[(u32, u64, u64)]) -> Profile {
        let (name, op, pool, rank) = (StrId::new(0), OpId::new(0), PoolId::new(0), RankId::new(0));
        let (Some(name), Some(op), Some(pool), Some(rank)) = (name, op, pool, rank) else { panic!("ids") };
        let mut sink = Builder::new();
        let mut take = |event| assert!(sink.take(event).is_ok());
        take(Event::Rank { label: None });
        take(Event::Text("DRAM".into()));
        take(Event::Of(rank, RankEvent::Pool { name, banks: Some(8), quantum }));
        take(Event::Op(Op::new(name, OpKind::Compute)));
        let step = StepRow { op, run: None, offset: 0, marks: StepMarks::default() };
        (0..STEPS).for_each(|_| take(Event::Of(rank, RankEvent::Step(step))));
        for &(position, free, largest) in readings {
            let reading = Reading { free: Some(free), largest_free: Some(largest), ..Reading::default() };
            take(Event::Of(rank, RankEvent::State(pool, Moment::late(position), reading)));
        }
        sink.finish()
    }

    fn asked<T>(profile: &Profile, ask: impl FnOnce(&Account<'_>, Span) -> T) -> Option<T> {
        let account = Account::new(&profile.ranks[0], PoolId::new(0)?)?;
        Some(ask(&account, Span { first: 0, end: STEPS }))
    }

    fn severity_of(readings: &[(u32, u64, u64)]) -> Option<Severity> {
        let profile = rank(0, readings);
        asked(&profile, |account, span| Some(severity(account, span, &worst(account, span)?))).flatten()
    }

    #[test]
    fn severity_begins_at_a_share() {
        assert_eq!(severity_of(&[(0, 1000, 950)]), Some(Severity::Notable));
        assert_eq!(severity_of(&[(0, 1000, 951)]), Some(Severity::Minor));
        assert_eq!(severity_of(&[(0, 1000, 990)]), Some(Severity::Minor));
        assert_eq!(severity_of(&[(0, 1000, 991)]), Some(Severity::Negligible));
        assert_eq!(severity_of(&[(0, 1000, 1000)]), None);
        // The worst moment decides what is notable, any moment what is negligible.
        assert_eq!(severity_of(&[(0, 100_000, 99_100), (1, 100, 50)]), Some(Severity::Minor));
    }

    #[test]
    fn fragmentation_within_the_rounding_is_ignored() {
        let listed = |pieces: u64| {
            let profile = rank(10, &[(0, 1000, 950), (500, 1000, 1000 - pieces), (501, 1000, 1000)]);
            let moments = asked(&profile, |account, span| worst_moments(account, span, 10)).flatten();
            moments.map(|moments| moments.iter().map(|moment| moment.at.position()).collect::<Vec<_>>())
        };
        assert_eq!(listed(10), Some(vec![0]));
        assert_eq!(listed(11), Some(vec![0, 500]));
        let profile = rank(50, &[(0, 1000, 950)]);
        assert_eq!(asked(&profile, |account, span| worst_moments(account, span, 10)), Some(Some(vec![])));
    }

    fn found(changes: &[(usize, u64)], worst: usize, most: usize) -> Vec<usize> {
        let all = readings(changes);
        let in_pieces = all.iter().copied().filter(|reading| reading.in_pieces() > 0);
        // 300 steps: 12 moments per interval.
        apart(in_pieces, all[worst], 12, most).iter().map(|reading| reading.at.index()).collect()
    }

    #[test]
    fn each_part_of_a_run_has_one_moment() {
        let changes = [(1, 100), (3, 90), (5, 60), (7, 80), (9, 100), (201, 30), (203, 100)];
        assert_eq!(found(&changes, 5, 10), [201, 5]);
        assert_eq!(found(&changes, 5, 1), [201]);
    }

    #[test]
    fn readings_next_to_the_worst_moment_are_skipped() {
        assert_eq!(found(&[(1, 100), (50, 40), (60, 45), (61, 41), (70, 100)], 1, 10), [50]);
        // Of neighboring intervals, only the higher one is a maximum.
        assert_eq!(found(&[(1, 20), (100, 40), (110, 30), (121, 50)], 0, 10), [1, 110]);
    }

    #[test]
    fn a_share_is_reached_exactly() {
        let reading = |free, largest_free| Fragmented { at: Moment::START, free, largest_free };
        assert!(reading(100, 95).has_share_in_pieces(5));
        assert!(!reading(100, 96).has_share_in_pieces(5));
        assert!(!reading(0, 0).has_share_in_pieces(5));
        assert!(reading(u64::MAX, 0).has_share_in_pieces(5));
    }

    #[test]
    fn fragmentation_is_unknown_without_the_largest_free_block() {
        let mut evidence = Evidence::new();
        let dram = evidence.pool("DRAM");
        evidence.reading(dram, START, Reading { free: Some(100), ..Reading::default() });
        let profile = evidence.finish();
        let (account, span) = (account(&profile, dram), whole(&profile));
        assert_eq!((worst(&account, span), worst_moments(&account, span, 9)), (None, None));
    }

    #[test]
    fn ties_go_to_the_moment_with_less_free_memory() {
        let worst_at = |quantum, readings: &[(u32, u64, u64)]| {
            let profile = rank(quantum, readings);
            asked(&profile, |account, span| Some(worst(account, span)?.at.position())).flatten()
        };
        assert_eq!(worst_at(0, &[(1, 1000, 900), (2, 500, 400), (3, 600, 500)]), Some(2));
        assert_eq!(worst_at(0, &[(1, 1000, 899), (2, 500, 400)]), Some(1));
        // The difference is within the rounding.
        assert_eq!(worst_at(1, &[(1, 1000, 899), (2, 500, 400)]), Some(2));
        assert_eq!(worst_at(1, &[(1, 500, 400), (2, 1000, 899)]), Some(1));
        assert_eq!(worst_at(0, &[(1, 1000, 900), (2, 1000, 1000), (3, 1000, 900)]), Some(1));
    }

    #[test]
    fn a_span_starts_with_the_state_that_it_inherits() {
        let mut evidence = Evidence::new();
        let dram = evidence.pool("DRAM");
        evidence.steps(4, "ttnn.add");
        let reading =
            |free, largest| Reading { free: Some(free), largest_free: Some(largest), ..Reading::default() };
        evidence.reading(dram, before(0), reading(100, 70));
        evidence.say(RankEvent::Unchanged(dram, before(2)));
        evidence.reading(dram, before(3), reading(100, 90));
        let profile = evidence.finish();
        let worst_of = |first, end| {
            let worst = worst(&account(&profile, dram), Span { first, end })?;
            Some((worst.at, worst.free, worst.largest_free))
        };
        assert_eq!(worst_of(0, 4), Some((before(0), 100, 70)));
        assert_eq!(worst_of(2, 4), Some((before(2), 100, 70)));
        assert_eq!(worst_of(3, 4), Some((before(3), 100, 90)));
        // No state was observed in this span.
        assert_eq!(worst_of(1, 2), None);
    }
}
