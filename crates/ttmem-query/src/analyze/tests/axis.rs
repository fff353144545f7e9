//! The steps and the memory of two made programs on one axis.

use super::diff::{Line, idle_between, of_any, profile, program};
use super::*;
use crate::analyze::diff::{Axis, Both, Side, StretchKind};
use crate::timeline::{Column, Texts};
use crate::{AlignedDiff, DiffRequest, aligned_diff};

fn axis(before: &Profile, after: &Profile) -> Axis {
    let side = |profile| Side { profile, rank: first(profile) };
    Axis::of(&Both { before: side(before), after: side(after) }, &of_any(before, after).alignment)
}

/// The kind of each place.
fn kinds(axis: &Axis) -> Vec<StretchKind> {
    let stretches = axis.stretches.iter();
    stretches.flat_map(|stretch| std::iter::repeat_n(stretch.kind, stretch.len as usize)).collect()
}

/// The places of each kind.
fn places_of(axis: &Axis, wanted: StretchKind) -> Vec<u32> {
    (0..).zip(kinds(axis)).filter(|(_, kind)| *kind == wanted).map(|(place, _)| place).collect()
}

/// The columns of the only rank.
fn columns(aligned: &AlignedDiff<'_>, before: &Profile, after: &Profile) -> Vec<Column> {
    let mut texts = Both { before: Texts::new(before), after: Texts::new(after) };
    let mut columns = Vec::new();
    aligned.ranks[0].columns(&mut texts, |column| columns.push(column));
    columns
}

fn values<'a>(columns: &'a [Column], name: &str) -> &'a [u64] {
    &columns.iter().find(|column| column.name == name).unwrap_or_else(|| panic!("no column {name}")).values
}

/// The value of a curve at a moment.
fn value_at(columns: &[Column], table: &str, moment: usize) -> Option<u64> {
    let at = values(columns, &format!("{table}.at"));
    let row = at.partition_point(|at| *at <= moment as u64).checked_sub(1)?;
    values(columns, &format!("{table}.held"))[row].checked_sub(1)
}

proptest! {
    /// Every step of both programs has one place, in order. Corresponding steps share it, and no other steps do.
    #[test]
    fn each_step_has_one_place(a in program(), b in program(), idle in vec(0_usize..4, 20)) {
        let (a, b) = (profile(&a), profile(&idle_between(&b, &idle)));
        let (axis, alignment) = (axis(&a, &b), of_any(&a, &b).alignment);
        let kinds = kinds(&axis);
        prop_assert_eq!(kinds.len(), axis.len as usize);
        prop_assert!(axis.stretches.windows(2).all(|pair| pair[0].kind != pair[1].kind));
        for (places, profile) in [(&axis.places.before, &a), (&axis.places.after, &b)] {
            prop_assert_eq!(places.len(), first(profile).steps.len());
            prop_assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
        }
        let mut seen: Vec<u32> = axis.places.before.iter().chain(&axis.places.after).copied().collect();
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen, (0..axis.len).collect::<Vec<u32>>());
        let on_both: Vec<u32> =
            axis.places.before.iter().filter(|place| axis.places.after.contains(place)).copied().collect();
        prop_assert_eq!(on_both, places_of(&axis, StretchKind::Both));
        let (before, after) = (|step| axis.places.before[step as usize], |step| axis.places.after[step as usize]);
        for (step, other) in alignment.pairs.before.iter().zip(&alignment.pairs.after) {
            prop_assert_eq!(before(*step), after(*other));
        }
        for pair in &alignment.reordered {
            prop_assert_eq!(kinds[before(pair.before) as usize], StretchKind::MovedBefore);
            prop_assert_eq!(kinds[after(pair.after) as usize], StretchKind::MovedAfter);
        }
        for step in &alignment.unmatched.before {
            prop_assert_eq!(kinds[before(*step) as usize], StretchKind::Before);
        }
        for step in &alignment.unmatched.after {
            prop_assert_eq!(kinds[after(*step) as usize], StretchKind::After);
        }
    }

    #[test]
    fn a_program_and_itself_have_one_stretch(a in program()) {
        let a = profile(&a);
        let axis = axis(&a, &a);
        prop_assert_eq!(&axis.stretches.iter().map(|stretch| stretch.kind).collect::<Vec<_>>(), &[StretchKind::Both]);
        prop_assert_eq!(axis.places.before, axis.places.after);
    }

    /// In the other direction, corresponding steps have the same places, and the others are on the other side.
    #[test]
    fn the_other_direction_is_mirrored(a in program(), b in program()) {
        let (a, b) = (profile(&a), profile(&b));
        let (there, back) = (axis(&a, &b), axis(&b, &a));
        prop_assert_eq!(there.len, back.len);
        prop_assert_eq!(places_of(&there, StretchKind::Both), places_of(&back, StretchKind::Both));
        for kind in [StretchKind::Before, StretchKind::After, StretchKind::MovedBefore, StretchKind::MovedAfter] {
            prop_assert_eq!(places_of(&there, kind).len(), places_of(&back, kind.mirrored()).len());
        }
    }

    /// Moments keep their order, and the moments next to a step are next to its place.
    #[test]
    fn moments_keep_their_order(a in program(), b in program()) {
        let (a, b) = (profile(&a), profile(&b));
        let axis = axis(&a, &b);
        for (places, profile) in [(&axis.places.before, &a), (&axis.places.after, &b)] {
            let end = first(profile).end();
            let all: Vec<Moment> = (0..=2 * end as usize + 1)
                .filter_map(Moment::from_index)
                .map(|at| axis.moment(places, at))
                .collect();
            prop_assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
            for (step, place) in (0..).zip(places) {
                prop_assert_eq!(axis.moment(places, before(step)), before(*place));
                prop_assert_eq!(axis.moment(places, after(step)), after(*place));
            }
            prop_assert!(axis.end_of(places).is_none_or(|at| all.iter().all(|other| *other < at)));
        }
    }

    /// The curves reach the peaks of the comparison, at their moments, and never more.
    #[test]
    fn every_peak_is_kept(a in program(), b in program()) {
        let (a, b) = (profile(&a), profile(&b));
        let aligned = aligned_diff(&a, &b, &DiffRequest::default()).unwrap();
        let columns = columns(&aligned, &a, &b);
        let (rank, outline) = (&aligned.answer.ranks[0], aligned.ranks[0].outline());
        prop_assert_eq!(outline.pools.len(), rank.pools.0.len());
        for (number, pool) in outline.pools.iter().enumerate() {
            let peaks = rank.pools.get(&pool.name).unwrap();
            let sides =
                [("before", pool.before_peak, peaks.before_per_bank), ("after", pool.after_peak, peaks.after_per_bank)];
            for (side, moment, peak) in sides {
                let table = format!("pool.{number}.{side}");
                let highest = values(&columns, &format!("{table}.held")).iter().filter_map(|value| value.checked_sub(1));
                prop_assert_eq!(highest.max().unwrap_or(0), peak.unwrap_or(0));
                if let Some(moment) = moment {
                    prop_assert_eq!(value_at(&columns, &table, moment), peak);
                }
            }
        }
    }

    /// While all tensors of a change live, they hold its size.
    #[test]
    fn the_tensors_of_a_change_hold_its_size(a in program(), b in program()) {
        let (a, b) = (profile(&a), profile(&b));
        let aligned = aligned_diff(&a, &b, &DiffRequest::default()).unwrap();
        let columns = columns(&aligned, &a, &b);
        let rows = &aligned.answer.ranks[0].changes;
        for (side, is_before) in [("before", true), ("after", false)] {
            let held = values(&columns, &format!("live_{side}.held"));
            let mut start = 0;
            for (row, count) in rows.iter().zip(values(&columns, &format!("changes.{side}"))) {
                let end = start + usize::try_from(*count).unwrap();
                let most = held[start..end].iter().filter_map(|held| held.checked_sub(1)).max().unwrap_or(0);
                let all = if is_before { row.before_per_bank } else { row.after_per_bank };
                prop_assert!(most <= all && (row.tensors > 1 || most == all), "{most} {all} {row:?}");
                start = end;
            }
            prop_assert_eq!(start, held.len());
        }
    }
}

/// The deallocations between corresponding steps share places, even if one program has more of them.
#[test]
fn deallocations_share_places() {
    let drawn = |until: [usize; 3]| {
        let line = |(index, until): (usize, usize)| Line {
            name: ["a", "b", "c"][index].into(),
            bytes: 1024,
            until: Some(until),
            in_l1: false,
            shape: vec![2, 256],
            dtype: "bf16",
            is_tiled: true,
            idle: 0,
        };
        until.into_iter().enumerate().map(line).collect::<Vec<_>>()
    };
    // The steps a, b, free, free, c; and a, b, free, c, free.
    let (a, b) = (profile(&drawn([1, 1, 9])), profile(&drawn([1, 2, 9])));
    let axis = axis(&a, &b);
    assert_eq!(axis.places.before, [0, 1, 2, 3, 4]);
    assert_eq!(axis.places.after, [0, 1, 2, 4, 5]);
    assert_eq!(places_of(&axis, StretchKind::Before), [3]);
    assert_eq!(places_of(&axis, StretchKind::After), [5]);
}
