//! Comparisons of made programs with one known change each.

use ttmem_model::StepNumber;

use super::*;
use crate::analyze::diff::{Both, Change, ChangeKind, Compared, Higher, Side, compare};

/// An operation that allocates a tensor.
#[derive(Clone, Debug)]
struct Line {
    /// Operations are recognized by it.
    name: String,
    bytes: u64,
    /// The index of the line after which the tensor is freed.
    until: Option<usize>,
    in_l1: bool,
    shape: Vec<u64>,
    dtype: &'static str,
    /// The number of operations before it that allocate nothing.
    idle: usize,
}

type Program = Vec<Line>;

/// A drawn program. Names are unique, apart from digits.
fn program() -> impl Strategy<Value = Program> {
    let line = (1_u64..50, proptest::option::of(1_usize..8), 0_usize..3);
    vec(line, 2..20).prop_map(|lines| {
        let of = |(index, (bytes, life, kind)): (usize, (u64, Option<usize>, usize))| Line {
            name: format!("{}.{index}", ["matmul", "add", "softmax"][kind]),
            bytes: bytes * 1024,
            until: life.map(|life| index + life),
            in_l1: false,
            shape: vec![bytes, 512],
            dtype: "bf16",
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
    shapes: Vec<(Vec<u64>, &'static str, TypeId)>,
}

impl Made {
    fn ty(&mut self, line: &Line) -> TypeId {
        let known = self.shapes.iter().find(|(shape, dtype, _)| *shape == line.shape && *dtype == line.dtype);
        if let Some((_, _, ty)) = known {
            return *ty;
        }
        let bytes = Bytes::known(line.bytes);
        let (dtype, shape) = (self.evidence.text(line.dtype), line.shape.clone());
        let (text, layout) = (None, None);
        let ty = TensorType { text, shape, dtype, layout, declared: bytes, logical: bytes, padded: bytes };
        let ty = self.evidence.ty(ty);
        self.shapes.push((line.shape.clone(), line.dtype, ty));
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

fn profile(program: &[Line]) -> Profile {
    let mut evidence = Evidence::new();
    let pools = ["DRAM", "L1"].map(|name| evidence.pool(name));
    let mut made = Made { evidence, pools, allocated: [0; 2], tensors: Vec::new(), shapes: Vec::new() };
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

fn of_any(before: &Profile, after: &Profile) -> Compared {
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

fn idle_between(program: &Program, idle: &[usize]) -> Program {
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
        program in program(), at in any::<prop::sample::Index>(), idle in vec(0_usize..4, 20), what in 0_usize..6,
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
    }
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
