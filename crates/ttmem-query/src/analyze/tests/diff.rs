//! Comparisons of made programs with one known change each.

use ttmem_model::StepNumber;

use super::*;
use crate::analyze::diff::{
    Both, Change, ChangeKind, Compared, Higher, Others, Overlap, PoolPeaks, Side, compare,
};

/// An operation that allocates a tensor.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Operations are recognized by it.
    pub name: String,
    pub bytes: u64,
    /// The index of the line after which the tensor is freed.
    pub until: Option<usize>,
    pub in_l1: bool,
    pub shape: Vec<u64>,
    pub dtype: &'static str,
    pub is_tiled: bool,
    /// The number of operations before it that allocate nothing.
    pub idle: usize,
}

pub(super) type Program = Vec<Line>;

/// A drawn program. Names are unique, apart from digits.
pub(super) fn program() -> impl Strategy<Value = Program> {
    let line = (1_u64..50, proptest::option::of(1_usize..8), 0_usize..3);
    vec(line, 2..20).prop_map(|lines| {
        let of = |(index, (bytes, life, kind)): (usize, (u64, Option<usize>, usize))| Line {
            name: format!("{}.{index}", ["matmul", "add", "softmax"][kind]),
            bytes: bytes * 1024,
            until: life.map(|life| index + life),
            in_l1: false,
            shape: vec![bytes, 512],
            dtype: "bf16",
            is_tiled: true,
            idle: 0,
        };
        lines.into_iter().enumerate().map(of).collect()
    })
}

/// A profile of a program, which counts the bytes in both pools.
struct Made {
    evidence: Evidence,
    pools: [PoolId; 2],
    allocated: [u64; 2],
    /// The tensors, which are added at the end, when it is known when they die.
    tensors: Vec<(Tensor, usize)>,
    types: Vec<(Line, TypeId)>,
}

impl Made {
    fn ty(&mut self, line: &Line) -> TypeId {
        let is_known = |(other, _): &&(Line, TypeId)| {
            (&other.shape, other.dtype, other.is_tiled) == (&line.shape, line.dtype, line.is_tiled)
        };
        if let Some((_, ty)) = self.types.iter().find(is_known) {
            return *ty;
        }
        let bytes = Bytes::known(line.bytes);
        let (dtype, buffer) = (self.evidence.text(line.dtype), self.evidence.text("dram"));
        let layout = Layout {
            buffer,
            spread: None,
            stored_dtype: dtype,
            tile: line.is_tiled.then_some((32, 32)),
            grid: Vec::new(),
            shard: Vec::new(),
            padded_shape: Vec::new(),
        };
        let (text, shape, layout) = (None, line.shape.clone(), Some(layout));
        let ty = TensorType { text, shape, dtype, layout, declared: bytes, logical: bytes, padded: bytes };
        let ty = self.evidence.ty(ty);
        self.types.push((line.clone(), ty));
        ty
    }

    fn step(&mut self, kind: OpKind, name: &str, change: i64, pool: usize) -> Step {
        let step = self.evidence.op(kind, name, &[], &[]);
        self.allocated[pool] = self.allocated[pool].saturating_add_signed(change);
        for (pool, allocated) in self.pools.into_iter().zip(self.allocated) {
            self.evidence.state(pool, after(step), allocated);
        }
        step
    }

    fn line(&mut self, line: &Line) {
        for number in 0..line.idle {
            self.step(OpKind::Compute, &format!("idle.{number}"), 0, 0);
        }
        let pool = usize::from(line.in_l1);
        let ty = self.ty(line);
        let step = self.step(OpKind::Compute, &line.name, i64::try_from(line.bytes).unwrap(), pool);
        let tensor = tensor(self.pools[pool], line.bytes, after(step), Moment::NEVER);
        let (ty, step) = (Some(ty), StepNumber::new(step));
        self.tensors.push((Tensor { ty, step, ..tensor }, pool));
    }

    fn free(&mut self, index: usize) {
        let (tensor, pool) = self.tensors[index];
        let bytes = i64::try_from(tensor.per_bank.or_zero()).unwrap();
        let step = self.step(OpKind::Deallocate, "deallocate", -bytes, pool);
        self.tensors[index].0.dies = after(step);
    }
}

pub(super) fn profile(program: &[Line]) -> Profile {
    let mut evidence = Evidence::new();
    let pools = ["DRAM", "L1"].map(|name| evidence.pool(name));
    let mut made = Made { evidence, pools, allocated: [0; 2], tensors: Vec::new(), types: Vec::new() };
    for (index, line) in program.iter().enumerate() {
        made.line(line);
        for (freed, other) in program.iter().enumerate().take(index + 1) {
            if other.until == Some(index) {
                made.free(freed);
            }
        }
    }
    for (tensor, _) in std::mem::take(&mut made.tensors) {
        made.evidence.tensor(tensor);
    }
    made.evidence.finish()
}

/// Compares two programs, of which one is a change of the other.
fn compared(before: &Profile, after: &Profile) -> Compared {
    let compared = of_any(before, after);
    effects_explain_the_peaks(&compared, before, after);
    compared
}

pub(super) fn of_any(before: &Profile, after: &Profile) -> Compared {
    let side = |profile| Side { profile, rank: first(profile) };
    compare(&Both { before: side(before), after: side(after) })
}

/// Without the changes, the rank with the higher peak is not above the other at that moment.
#[track_caller]
fn effects_explain_the_peaks(compared: &Compared, before: &Profile, after: &Profile) {
    for pool in &compared.pools {
        let is_in = |profile: &Profile, tensor: Option<TensorId>, id: Option<PoolId>| {
            tensor.is_some_and(|tensor| Some(first(profile).tensors.pool[tensor.index()]) == id)
        };
        let sum = |change: &Change| {
            let gained = is_in(after, change.tensors.after, pool.ids.after).then_some(change.at_peak.after);
            let lost = is_in(before, change.tensors.before, pool.ids.before).then_some(change.at_peak.before);
            i128::from(gained.unwrap_or(0)) - i128::from(lost.unwrap_or(0))
        };
        let effects: i128 = compared.changes.iter().map(sum).sum();
        let peaks = pool.peaks.map(|peak| i128::from(peak.map_or(0, |peak| peak.per_bank)));
        match pool.higher {
            Higher::After => assert!(peaks.after - effects <= peaks.before, "{pool:?} {effects}"),
            Higher::Before => assert!(peaks.before + effects <= peaks.after, "{pool:?} {effects}"),
            Higher::Neither => assert_eq!(effects, 0, "{pool:?}"),
        }
    }
}

fn kinds(compared: &Compared) -> Vec<(ChangeKind, Option<usize>, Option<usize>)> {
    let index = |tensor: Option<TensorId>| tensor.map(TensorId::index);
    let of = |change: &Change| (change.kind, index(change.tensors.before), index(change.tensors.after));
    let mut kinds: Vec<_> = compared.changes.iter().map(of).collect();
    kinds.sort_unstable();
    kinds
}

/// The lines that tensors are freed after, with one line more or less at an index.
fn shifted(mut program: Program, from: usize, by: isize) -> Program {
    for line in &mut program {
        // What was freed after a removed line is now freed after the one before it.
        let shift = |until: usize| if until >= from { until.checked_add_signed(by) } else { Some(until) };
        line.until = line.until.and_then(shift);
    }
    program
}

/// What is freed after a line is freed one line later.
fn freed_later(mut program: Program, at: usize) -> Program {
    for line in program.iter_mut().filter(|line| line.until == Some(at)) {
        line.until = Some(at + 1);
    }
    program
}

fn without(program: &Program, index: usize) -> Program {
    let mut rest = program.clone();
    rest.remove(index);
    shifted(rest, index, -1)
}

pub(super) fn idle_between(program: &Program, idle: &[usize]) -> Program {
    let mut program = program.clone();
    for (line, idle) in program.iter_mut().zip(idle) {
        line.idle = *idle;
    }
    program
}

proptest! {
    #[test]
    fn a_program_does_not_differ_from_itself(program in program()) {
        let compared = compared(&profile(&program), &profile(&program));
        prop_assert_eq!(kinds(&compared), []);
        prop_assert!(compared.alignment.reordered.is_empty() && compared.alignment.unmatched.after.is_empty());
    }

    /// Whatever is inserted around it, a change of one tensor is the only change.
    #[test]
    fn one_changed_tensor_is_the_only_change(
        program in program(), at in any::<prop::sample::Index>(), idle in vec(0_usize..4, 20), what in 0_usize..7,
    ) {
        let at = at.index(program.len());
        let mut other = program.clone();
        let line = &mut other[at];
        let kind = match what {
            0 => {
                (line.bytes, line.shape) = (line.bytes * 2, vec![line.shape[0] * 2, 512]);
                ChangeKind::Resized
            }
            1 => {
                line.in_l1 = true;
                ChangeKind::Pool
            }
            2 => {
                (line.bytes, line.dtype) = (line.bytes * 2, "f32");
                ChangeKind::Dtype
            }
            3 if line.until.is_some_and(|until| until < program.len()) => {
                line.until = None;
                ChangeKind::FreedLater
            }
            4 if line.until.is_none_or(|until| until > at && until >= program.len()) && at + 1 < program.len() => {
                line.until = Some(at);
                ChangeKind::FreedEarlier
            }
            5 => {
                line.is_tiled = false;
                ChangeKind::Layout
            }
            _ => {
                // A size that no type explains.
                line.bytes += 1;
                ChangeKind::Resized
            }
        };
        let other = idle_between(&other, &idle);
        let compared = compared(&profile(&program), &profile(&other));
        prop_assert_eq!(kinds(&compared), vec![(kind, Some(at), Some(at))]);
    }

    #[test]
    fn one_removed_or_added_tensor_is_the_only_change(
        drawn in program(), at in any::<prop::sample::Index>(), idle in vec(0_usize..4, 20),
    ) {
        let at = at.index(drawn.len());
        // If the first line is removed, there is none before it.
        let program = if at == 0 { freed_later(drawn, 0) } else { drawn };
        let other = idle_between(&without(&program, at), &idle);
        let (whole, part) = (profile(&program), profile(&other));
        prop_assert_eq!(kinds(&compared(&whole, &part)), vec![(ChangeKind::Vanished, Some(at), None)]);
        prop_assert_eq!(kinds(&compared(&part, &whole)), vec![(ChangeKind::Appeared, None, Some(at))]);
    }

    /// Two operations that change places are one change: one of them has moved.
    #[test]
    fn swapped_operations_are_one_change(drawn in program(), at in any::<prop::sample::Index>()) {
        let at = at.index(drawn.len() - 1);
        // Nothing is freed between them.
        let program = freed_later(drawn, at);
        let mut other = program.clone();
        other.swap(at, at + 1);
        let compared = compared(&profile(&program), &profile(&other));
        prop_assert_eq!(compared.alignment.reordered.len(), 1);
        let found = kinds(&compared);
        prop_assert_eq!(found.len(), 1, "{:?}", found);
        prop_assert_eq!(found[0].0, ChangeKind::Reordered);
    }

    /// For any two programs, the comparison in the other direction is the mirror image.
    #[test]
    fn the_other_direction_is_the_mirror_image(a in program(), b in program()) {
        let (a, b) = (profile(&a), profile(&b));
        let (there, back) = (of_any(&a, &b), of_any(&b, &a));
        let mut mirrored: Vec<_> =
            kinds(&back).into_iter().map(|(kind, before, after)| (kind.mirrored(), after, before)).collect();
        mirrored.sort_unstable();
        prop_assert_eq!(kinds(&there), mirrored);
        let effect = |compared: &Compared| compared.changes.iter().map(Change::effect).sum::<i64>();
        prop_assert_eq!(effect(&there), -effect(&back));
        let overlaps = |compared: &Compared, a: &Profile, b: &Profile| {
            let of = |change: &Change| {
                let overlaps = overlaps(compared, a, b, std::slice::from_ref(&change.tensors));
                (change.tensors, overlaps)
            };
            compared.changes.iter().map(of).collect::<Vec<_>>()
        };
        let key = |tensors: Both<Option<TensorId>>| (tensors.before, tensors.after);
        let mut there = overlaps(&there, &a, &b);
        let mut back: Vec<_> = overlaps(&back, &b, &a).into_iter().map(|(tensors, overlaps)| {
            (tensors.swapped(), overlaps.swapped().map(|overlap| overlap.map(exchanged)))
        }).collect();
        there.sort_by_key(|(tensors, _)| key(*tensors));
        back.sort_by_key(|(tensors, _)| key(*tensors));
        prop_assert_eq!(there, back);
    }

    /// Whatever is freed at another time: the overlaps are those that a comparison of all pairs finds, for single tensors
    /// and for all of them together.
    #[test]
    fn overlaps_are_those_of_all_pairs(
        program in program(), lives in vec(proptest::option::of(0_usize..12), 20), in_l1 in vec(any::<bool>(), 20),
    ) {
        let mut program = program;
        for (line, in_l1) in program.iter_mut().zip(in_l1) {
            line.in_l1 = in_l1;
        }
        let mut other = program.clone();
        for ((index, line), life) in other.iter_mut().enumerate().zip(lives) {
            line.until = life.map(|life| index + life).or(line.until);
        }
        let (before, after) = (profile(&program), profile(&other));
        let compared = compared(&before, &after);
        let changed: Vec<_> = compared.changes.iter().map(|change| change.tensors).collect();
        let sides = Both { before: &before, after: &after };
        for pool in 0..compared.pools.len() {
            let is_here = |tensors: &&Both<Option<TensorId>>| {
                let tensor = tensors.after.unwrap();
                Some(first(&after).tensors.pool[tensor.index()]) == compared.pools[pool].ids.after
            };
            let here: Vec<_> = changed.iter().filter(is_here).copied().collect();
            for group in here.chunks(1).chain([&*here]) {
                let found = overlaps(&compared, &before, &after, group);
                let peaks = &compared.pools[pool];
                prop_assert_eq!(found.after, all_pairs(sides, peaks, group));
                let swapped = PoolPeaks { ids: peaks.ids.swapped(), at: peaks.at.swapped(), ..peaks.clone() };
                let group: Vec<_> = group.iter().map(|tensors| tensors.swapped()).collect();
                prop_assert_eq!(found.before, all_pairs(sides.swapped(), &swapped, &group));
            }
        }
    }
}

/// The overlaps of tensors in one rank only.
fn overlaps(
    compared: &Compared,
    before: &Profile,
    after: &Profile,
    changed: &[Both<Option<TensorId>>],
) -> Both<Option<Overlap>> {
    let side = |profile| Side { profile, rank: first(profile) };
    let sides = Both { before: side(before), after: side(after) };
    compared.overlaps.of_changed(&sides, &compared.pools, changed)
}

fn exchanged(overlap: Overlap) -> Overlap {
    let others = |others: Option<Others>| {
        let others = others?;
        Some(Others { largest: others.largest.into_iter().map(Both::swapped).collect(), ..others })
    };
    Overlap {
        freed_before: others(overlap.freed_before),
        allocated_after: others(overlap.allocated_after),
        ..overlap
    }
}

/// What tensors overlap at the compared moment of the second rank only. All tensors of both ranks correspond.
fn all_pairs(sides: Both<&Profile>, pool: &PoolPeaks, changed: &[Both<Option<TensorId>>]) -> Option<Overlap> {
    let columns = sides.map(|profile| &first(profile).tensors);
    let at = Both { before: pool.at.before?, after: pool.at.after? };
    let is_at = |columns: &ttmem_model::Tensors, at: Moment, id: Option<PoolId>, tensor: usize| {
        Some(columns.pool[tensor]) == id && columns.born[tensor] <= at && at < columns.dies[tensor]
    };
    let live: Vec<usize> = (0..columns.after.len())
        .filter(|tensor| is_at(columns.after, at.after, pool.ids.after, *tensor))
        .collect();
    let members: Vec<usize> = changed.iter().map(|tensors| tensors.after.unwrap().index()).collect();
    let joined = |tensor: &&usize| {
        live.contains(tensor) && !is_at(columns.before, at.before, pool.ids.before, **tensor)
    };
    let joined: Vec<usize> = members.iter().filter(joined).copied().collect();
    let (born, dies) = (&columns.before.born, &columns.before.dies);
    let all = |is_it: &dyn Fn(usize, usize) -> bool| -> Vec<usize> {
        live.iter().copied().filter(|other| joined.iter().any(|one| is_it(*one, *other))).collect()
    };
    let (before, after) =
        (all(&|one, other| dies[other] <= born[one]), all(&|one, other| born[other] >= dies[one]));
    let others = |found: &[usize]| {
        let mut others: Vec<usize> = found.iter().copied().filter(|other| !members.contains(other)).collect();
        let bytes = |tensor: usize| columns.after.per_bank[tensor].or_zero();
        let order = |tensor: usize| if found == before { dies[tensor] } else { born[tensor] };
        others.sort_by_key(|tensor| (std::cmp::Reverse(bytes(*tensor)), order(*tensor), *tensor));
        let both = |tensor: &usize| TensorId::new(*tensor).map(|id| Both { before: id, after: id }).unwrap();
        (!others.is_empty()).then(|| Others {
            count: others.len(),
            per_bank: others.iter().map(|tensor| bytes(*tensor)).sum(),
            largest: others.iter().take(3).map(both).collect(),
        })
    };
    let is_member = |found: &[usize]| found.iter().any(|tensor| members.contains(tensor));
    let each_other = is_member(&before) || is_member(&after);
    let is_new = |one: usize, other: usize| {
        (joined.contains(&one) || joined.contains(&other))
            && (dies[other] <= born[one] || born[other] >= dies[one])
    };
    let overlaps = |one: &usize| {
        live.iter().any(|other| members.contains(other) == each_other && other != one && is_new(*one, *other))
    };
    let counted = if each_other { &members } else { &joined };
    let overlap = Overlap {
        tensors: counted.iter().filter(|one| live.contains(one)).filter(|one| overlaps(one)).count(),
        each_other,
        freed_before: others(&before),
        allocated_after: others(&after),
    };
    let is_none = !overlap.each_other && overlap.freed_before.is_none() && overlap.allocated_after.is_none();
    (!is_none).then_some(overlap)
}

fn made(name: &str, bytes: u64, until: Option<usize>) -> Line {
    let (name, shape) = (name.to_owned(), vec![bytes]);
    Line { name, bytes, until, in_l1: false, shape, dtype: "bf16", is_tiled: true, idle: 0 }
}

/// The free of one tensor moves behind the allocation of another: the tensor is the only change, and names the other.
#[test]
fn a_tensor_that_is_freed_too_late_overlaps_the_next_one() {
    let program = |until: usize| -> Program {
        vec![made("first", 100, Some(until)), made("second", 1000, Some(2)), made("third", 10, Some(2))]
    };
    let (before, after) = (profile(&program(0)), profile(&program(1)));
    let second = TensorId::new(1).map(|id| Both { before: id, after: id });
    let others = Others { count: 1, per_bank: 1000, largest: second.into_iter().collect() };
    let overlap =
        Some(Overlap { tensors: 1, each_other: false, freed_before: None, allocated_after: Some(others) });
    let there = compared(&before, &after);
    assert_eq!(kinds(&there), [(ChangeKind::FreedLater, Some(0), Some(0))]);
    let found = overlaps(&there, &before, &after, &[there.changes[0].tensors]);
    assert_eq!(found, Both { before: None, after: overlap.clone() });
    let back = compared(&after, &before);
    assert_eq!(kinds(&back), [(ChangeKind::FreedEarlier, Some(0), Some(0))]);
    let found = overlaps(&back, &after, &before, &[back.changes[0].tensors]);
    assert_eq!(found, Both { before: overlap, after: None });
}

/// Tensors that are kept instead of freed, as in a list, overlap each other.
#[test]
fn tensors_that_are_kept_overlap_each_other() {
    let program = |is_kept: bool| -> Program {
        (0..4).map(|index| made(&format!("step.{index}"), 100, (!is_kept).then_some(index))).collect()
    };
    let (before, after) = (profile(&program(false)), profile(&program(true)));
    let compared = compared(&before, &after);
    let changed: Vec<_> = compared.changes.iter().map(|change| change.tensors).collect();
    assert_eq!(changed.len(), 4);
    let overlap = Overlap { tensors: 4, each_other: true, freed_before: None, allocated_after: None };
    let found = overlaps(&compared, &before, &after, &changed);
    assert_eq!(found, Both { before: None, after: Some(overlap) });
}

/// A tensor that is freed later, but is not live at the peak, overlaps nothing there.
#[test]
fn overlaps_outside_the_peak_are_not_named() {
    let program = |until: usize| -> Program {
        vec![
            made("peak", 1000, Some(0)),
            made("first", 10, Some(until)),
            made("second", 10, Some(3)),
            made("last", 10, Some(3)),
        ]
    };
    let (before, after) = (profile(&program(1)), profile(&program(2)));
    let compared = compared(&before, &after);
    assert_eq!(kinds(&compared), [(ChangeKind::FreedLater, Some(1), Some(1))]);
    assert_eq!(overlaps(&compared, &before, &after, &[compared.changes[0].tensors]), Both::default());
}

/// Operations that only differ in numbers, as line numbers do, correspond in order.
#[test]
fn shifted_numbers_do_not_matter() {
    let line = |name: String| Line {
        name,
        bytes: 1024,
        until: None,
        in_l1: false,
        shape: vec![2, 256],
        dtype: "bf16",
        is_tiled: true,
        idle: 0,
    };
    let before: Program = (0..10).map(|number| line(format!("model.py:{number}"))).collect();
    let mut after: Program = (0..10).map(|number| line(format!("model.py:{}", number + 100))).collect();
    after.insert(4, line("other.py:1".into()));
    let compared = compared(&profile(&before), &profile(&after));
    assert_eq!(kinds(&compared), [(ChangeKind::Appeared, None, Some(4))]);
}

/// A long program of few operations, whose names differ from those of other programs in numbers only.
fn long(seed: u64, count: usize, label: &str) -> Program {
    let mut state = seed;
    let line = |index: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let kind = ["add", "cat", "exp", "mul", "neg", "relu", "sub", "sum"][(state >> 33) as usize % 8];
        Line {
            name: format!("{kind}.{label}{index}"),
            bytes: 1024,
            until: Some(index),
            in_l1: false,
            shape: vec![2, 256],
            dtype: "bf16",
            is_tiled: true,
            idle: 0,
        }
    };
    (0..count).map(line).collect()
}

/// Long unrelated programs are compared piece by piece, in both directions alike.
#[test]
fn long_unrelated_programs_are_compared_in_pieces() {
    let (a, b) = (profile(&long(1, 5000, "1000")), profile(&long(2, 4500, "2000")));
    let (there, back) = (of_any(&a, &b).alignment, of_any(&b, &a).alignment);
    assert_eq!(there.pairs, back.pairs.clone().swapped());
    assert_eq!(there.unmatched, back.unmatched.swapped());
    assert!(there.pairs.before.is_sorted() && there.pairs.after.is_sorted());
    let matched = there.pairs.before.len() + there.reordered.len();
    // Operations are of eight kinds, in about equal numbers.
    assert!(there.pairs.before.len() > 1000 && matched > 4000, "{} {matched}", there.pairs.before.len());
}

/// Long programs are related even if numbers are all that the unchanged operations do not share.
#[test]
fn changes_in_a_long_program_are_found_between_shifted_numbers() {
    let before = long(1, 5000, "1000");
    let mut after = long(1, 5000, "2000");
    for index in [4000, 2500, 2400, 100] {
        after.insert(index, Line { name: format!("new.{index}"), ..after[index].clone() });
    }
    for (index, line) in after.iter_mut().enumerate() {
        line.until = Some(index);
    }
    let found = compared(&profile(&before), &profile(&after));
    let appeared = [100, 2401, 2502, 4003].map(|index| (ChangeKind::Appeared, None, Some(index)));
    assert_eq!(kinds(&found), appeared);
}
