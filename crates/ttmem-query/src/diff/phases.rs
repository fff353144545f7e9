//! Ranks that have phases only, compared phase by phase.
//!
//! The n-th phase of a name corresponds to the n-th phase of that name in the session of that name in the other input; the names of
//! sessions do not matter if each input has only one. As with tensors,
//! the differences are those at the higher peak: phases before the one that reaches it contribute their change, and that phase
//! contributes its peak above its start.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use ttmem_model::words::size;
use ttmem_model::{Class, Phase, difference};

use super::{ChangeRow, PoolDiff, TensorSide};
use crate::analyze::diff::{Both, ChangeKind, Side};
use crate::analyze::phases::{base_name, holder, peak};
use crate::phases::{by_session, pool_of_session};

/// The differences between phases.
pub(super) struct PhaseChanges {
    /// The pools that the phases measure, by name.
    pub pools: Vec<(String, PoolDiff)>,
    /// The phases that differ, similar ones together, the largest effect on a peak first.
    pub rows: Vec<ChangeRow>,
}

/// The highest peak of the sessions that measure a pool.
#[derive(Clone, Copy, Debug)]
struct Peak {
    bytes: u64,
    session: usize,
    /// The phase that reaches it.
    index: usize,
}

/// A phase of an input.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    session: usize,
    index: usize,
    phase: &'a Phase,
    /// Smaller differences are due to rounding.
    quantum: u64,
}

/// What identifies a phase: the name and number of its session, and its own.
type Key<'a> = (&'a str, usize, &'a str, usize);

/// Corresponding phases.
#[derive(Clone, Copy, Debug)]
struct Pair<'a> {
    key: Key<'a>,
    pool: &'a str,
    places: Both<Option<Place<'a>>>,
}

/// The part of a phase in a peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The phase is over: what it has left allocated.
    Change,
    /// The phase reaches the peak.
    Peak,
    /// The phase has not begun.
    None,
}

impl PhaseChanges {
    /// Compares the phases of two ranks; `None` if they have none in common.
    pub fn of(sides: &Both<Side<'_>>) -> Option<Self> {
        let pairs = pairs(sides);
        if !pairs.iter().any(|pair| pair.places.before.is_some() && pair.places.after.is_some()) {
            return None;
        }
        let peaks = sides.map(peaks);
        let names: BTreeSet<&str> = peaks.before.keys().chain(peaks.after.keys()).copied().collect();
        let mut found = Self { pools: Vec::new(), rows: Vec::new() };
        for name in names {
            let of_pool = peaks.as_ref().map(|peaks| peaks.get(name).copied());
            let rows = rows(name, of_pool, &pairs);
            found.pools.push((name.to_owned(), pool(of_pool, &rows)));
            found.rows.extend(rows);
        }
        found.rows.sort_by_key(|row| Reverse(row.effect_per_bank.unsigned_abs()));
        Some(found)
    }

    /// The first row with an effect on a pool in one direction.
    pub fn first_on(&self, pool: &str, sign: i64) -> Option<&ChangeRow> {
        self.rows.iter().find(|row| row.pool == pool && row.effect_per_bank.signum() == sign)
    }
}

/// The highest peak of each pool.
fn peaks(side: Side<'_>) -> BTreeMap<&str, Peak> {
    let mut peaks: BTreeMap<&str, Peak> = BTreeMap::new();
    let sessions = by_session(side.profile, side.rank);
    for (session, (row, known)) in side.rank.sessions.iter().zip(&sessions).enumerate() {
        let bytes = peak(row, known).and_then(|bytes| u64::try_from(bytes).ok());
        let Some((bytes, index)) = bytes.zip(holder(row, known)) else { continue };
        let name = pool_of_session(row.name.map(|name| side.profile.text(name)));
        let highest = peaks.entry(name).or_insert(Peak { bytes, session, index });
        if bytes > highest.bytes {
            *highest = Peak { bytes, session, index };
        }
    }
    peaks
}

/// The phases of both inputs: those of the first one in order, then those that only the second one has.
fn pairs<'a>(sides: &Both<Side<'a>>) -> Vec<Pair<'a>> {
    let mut pairs: Vec<Pair<'a>> = Vec::new();
    let mut known: FxHashMap<Key<'a>, usize> = FxHashMap::default();
    let has_one = |side: Side<'_>| side.rank.sessions.len() == 1;
    let is_named = !(has_one(sides.before) && has_one(sides.after));
    for (key, pool, place) in places(sides.before, is_named) {
        known.insert(key, pairs.len());
        pairs.push(Pair { key, pool, places: Both { before: Some(place), after: None } });
    }
    for (key, pool, place) in places(sides.after, is_named) {
        match known.get(&key) {
            Some(index) => pairs[*index].places.after = Some(place),
            None => pairs.push(Pair { key, pool, places: Both { before: None, after: Some(place) } }),
        }
    }
    pairs
}

/// The phases of an input, with what identifies them: also the name of their session if it `is_named`.
fn places(side: Side<'_>, is_named: bool) -> Vec<(Key<'_>, &str, Place<'_>)> {
    let mut found = Vec::new();
    let mut sessions: FxHashMap<&str, usize> = FxHashMap::default();
    let of_sessions = by_session(side.profile, side.rank);
    for (session, (row, phases)) in side.rank.sessions.iter().zip(of_sessions).enumerate() {
        let name = row.name.map(|name| side.profile.text(name));
        let called = name.filter(|_| is_named).unwrap_or_default();
        let number = next(&mut sessions, called);
        let mut numbers: FxHashMap<&str, usize> = FxHashMap::default();
        for (index, known) in phases.into_iter().enumerate() {
            let label = side.profile.text(known.phase.name);
            let key = (called, number, label, next(&mut numbers, label));
            let place = Place { session, index, phase: known.phase, quantum: row.quantum };
            found.push((key, pool_of_session(name), place));
        }
    }
    found
}

/// The number of a name among equal ones, from 0.
fn next<'a>(numbers: &mut FxHashMap<&'a str, usize>, name: &'a str) -> usize {
    let number = numbers.entry(name).or_default();
    *number += 1;
    *number - 1
}

fn pool(peaks: Both<Option<Peak>>, rows: &[ChangeRow]) -> PoolDiff {
    let Both { before, after } = peaks.map(|peak| peak.map(|peak| peak.bytes));
    PoolDiff {
        before_per_bank: before,
        after_per_bank: after,
        change_per_bank: before.zip(after).map(|(before, after)| difference(after, before)),
        before_step: None,
        after_step: None,
        compared_at: if before > after { "before" } else { "after" },
        explained_per_bank: rows.iter().map(|row| row.effect_per_bank).fold(0, i64::saturating_add),
        by_class: Vec::new(),
        banks: Some(1),
        sampled: false,
    }
}

/// The phases that differ. Phases of one kind with the same difference are one row.
fn rows(pool: &str, peaks: Both<Option<Peak>>, pairs: &[Pair<'_>]) -> Vec<ChangeRow> {
    let of_pool = || pairs.iter().filter(|pair| pair.pool == pool);
    let higher = Higher::of(peaks);
    let at = of_pool().map(|pair| pair.places).find(|places| higher.is_reached_in(*places));
    let mut groups: Vec<(Pair<'_>, usize, ChangeRow)> = Vec::new();
    let mut known: FxHashMap<(Key<'_>, String), usize> = FxHashMap::default();
    for pair in of_pool() {
        let Some(row) = pair.row(at.map_or(Part::None, |at| higher.part(pair.places, at))) else { continue };
        let (session, number, label, _) = pair.key;
        let alike = ((session, number, base_name(label), 0), row.detail.clone());
        let index = *known.entry(alike).or_insert(groups.len());
        match groups.get_mut(index) {
            Some((_, count, first)) => {
                *count += 1;
                first.effect_per_bank = first.effect_per_bank.saturating_add(row.effect_per_bank);
            }
            None => groups.push((*pair, 1, row)),
        }
    }
    let has_sessions =
        pairs.windows(2).any(|two| (two[0].key.0, two[0].key.1) != (two[1].key.0, two[1].key.1));
    let titled = |(pair, count, row): (Pair<'_>, usize, ChangeRow)| ChangeRow {
        title: pair.title(count, has_sessions),
        ..row
    };
    groups.into_iter().map(titled).collect()
}

/// The input with the higher peak.
struct Higher {
    is_before: bool,
    peak: Option<Peak>,
}

impl Higher {
    fn of(peaks: Both<Option<Peak>>) -> Self {
        let bytes = peaks.map(|peak| peak.map(|peak| peak.bytes));
        let is_before = bytes.before > bytes.after;
        Self { is_before, peak: if is_before { peaks.before } else { peaks.after } }
    }

    /// The places in this input, and in the other one.
    fn ordered<T>(&self, Both { before, after }: Both<T>) -> (T, T) {
        if self.is_before { (before, after) } else { (after, before) }
    }

    fn is_reached_in(&self, places: Both<Option<Place<'_>>>) -> bool {
        let place = self.ordered(places).0.map(|place| (place.session, place.index));
        place.is_some() && place == self.peak.map(|peak| (peak.session, peak.index))
    }

    /// The part of a phase in the memory of the phases `at` the peak. A phase that only the other input has is compared with
    /// the one there.
    fn part(&self, places: Both<Option<Place<'_>>>, at: Both<Option<Place<'_>>>) -> Part {
        let ((own, other), (at_own, at_other)) = (self.ordered(places), self.ordered(at));
        match (own.zip(at_own), other.zip(at_other)) {
            (Some((phase, at)), _) | (None, Some((phase, at))) if phase.session == at.session => {
                match phase.index.cmp(&at.index) {
                    Ordering::Less => Part::Change,
                    Ordering::Equal => Part::Peak,
                    Ordering::Greater => Part::None,
                }
            }
            _ => Part::None,
        }
    }
}

impl Part {
    fn bytes(self, phase: &Phase) -> Option<i64> {
        match self {
            Self::Change => phase.change,
            Self::Peak => phase.segment_peak,
            Self::None => None,
        }
    }
}

impl Pair<'_> {
    /// The difference between the phases, without a title; `None` if there is none.
    fn row(&self, part: Part) -> Option<ChangeRow> {
        let phases = self.places.map(|place| place.map(|place| place.phase));
        let detail = self.detail()?;
        let contributed = phases.map(|phase| phase.and_then(|phase| part.bytes(phase)).unwrap_or(0));
        let highest = |phase: Option<&Phase>| phase.and_then(|phase| u64::try_from(phase.segment_peak?).ok());
        let name = |phase: Option<&Phase>| {
            phase.map(|phase| TensorSide {
                name: Some(self.key.2.to_owned()),
                per_bank: highest(Some(phase)),
                ..TensorSide::default()
            })
        };
        Some(ChangeRow {
            kind: match (phases.before, phases.after) {
                (None, _) => ChangeKind::Appeared,
                (_, None) => ChangeKind::Vanished,
                _ => ChangeKind::Resized,
            },
            tensors: 0,
            title: String::new(),
            detail,
            pool: self.pool.to_owned(),
            moved_from: None,
            class: Class::Unknown,
            effect_per_bank: contributed.after.saturating_sub(contributed.before),
            before_per_bank: highest(phases.before).unwrap_or(0),
            after_per_bank: highest(phases.after).unwrap_or(0),
            now_overlaps: None,
            no_longer_overlaps: None,
            before: name(phases.before),
            after: name(phases.after),
        })
    }

    /// What is different: `change +192.9 MiB → +9.41 GiB, peak above its start 996.4 MiB → 9.78 GiB`.
    fn detail(&self) -> Option<String> {
        let figures =
            |phase: &Phase| [("change", phase.change), ("peak above its start", phase.segment_peak)];
        let (which, one) = match (self.places.before, self.places.after) {
            (Some(before), Some(after)) => {
                let quantum = before.quantum.max(after.quantum);
                let pairs = figures(before.phase).into_iter().zip(figures(after.phase));
                let differ = |(name, a): (&str, Option<i64>), b: Option<i64>| {
                    let is_same = a.zip(b).is_none_or(|(a, b)| a.abs_diff(b) <= quantum);
                    (!is_same).then(|| Some(format!("{name} {} → {}", signed(a?), signed(b?))))?
                };
                let parts: Vec<String> = pairs.filter_map(|(a, (_, b))| differ(a, b)).collect();
                return (!parts.is_empty()).then(|| parts.join(", "));
            }
            (None, one) => ("new", one),
            (one, None) => ("gone", one),
        };
        let known = |(name, bytes): (&str, Option<i64>)| Some(format!("{name} {}", signed(bytes?)));
        let parts: Vec<String> = figures(one?.phase).into_iter().filter_map(known).collect();
        Some(if parts.is_empty() { which.to_owned() } else { format!("{which}: {}", parts.join(", ")) })
    }

    /// `BACKWARD_PASS`, `tinyllama: 3 × BACKWARD_PASS`.
    fn title(&self, count: usize, has_sessions: bool) -> String {
        let (session, number, label, _) = self.key;
        let name = if count > 1 { format!("{count} × {}", base_name(label)) } else { label.to_owned() };
        match (has_sessions, session, number) {
            (false, ..) => name,
            (true, "", _) => format!("session {}: {name}", number + 1),
            (true, _, 0) => format!("{session}: {name}"),
            (true, ..) => format!("{session} ({}): {name}", number + 1),
        }
    }
}

/// `+1.21 GiB`, `−64.0 KiB`, `0 B`.
fn signed(bytes: i64) -> String {
    let sign = match bytes.cmp(&0) {
        Ordering::Less => "−",
        Ordering::Equal => "",
        Ordering::Greater => "+",
    };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}
