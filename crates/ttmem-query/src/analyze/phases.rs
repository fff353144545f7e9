//! Derives the sizes of model, optimizer, gradients and activations, and the parts of the peak, from the phases of a
//! training session.
//!
//! Phases are matched by name, without the numbers that trackers append: `FORWARD_PASS`, `FORWARD_PASS_micro_3` and
//! `FORWARD_PASS__000042` are all forward passes. With gradient accumulation there are several of each kind, so each
//! figure has a rule:
//!
//! | figure | rule |
//! |---|---|
//! | model, optimizer | the sum of the changes of all phases that create it |
//! | activations | the sum of the changes of the forward passes since the last backward pass; the highest such sum |
//! | gradients | in the first iteration, the use after the last backward pass minus the use after the last optimizer creation before it |
//!
//! If one part of a sum is unknown, so is the sum.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use ttmem_model::{Phase, Session};

/// The kind of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Creates the parameters.
    Model,
    /// Creates the optimizer state.
    Optimizer,
    /// A forward pass.
    Forward,
    /// A backward pass.
    Backward,
    /// Anything else.
    Other,
}

impl Kind {
    /// The kind of the phase with this label.
    pub fn of(label: &str) -> Self {
        match base_name(label) {
            "MODEL_CREATION" => Self::Model,
            "OPTIMIZER_CREATION" => Self::Optimizer,
            "FORWARD_PASS" => Self::Forward,
            "BACKWARD_PASS" => Self::Backward,
            _ => Self::Other,
        }
    }
}

/// A label without the numbers that trackers append: `_micro_3`, `__000042`.
pub fn base_name(label: &str) -> &str {
    let mut rest = label.trim();
    loop {
        let name = rest.trim_end_matches(|character: char| character.is_ascii_digit());
        let shorter = name.strip_suffix("_micro_").or_else(|| name.strip_suffix("__"));
        match shorter.filter(|shorter| name.len() < rest.len() && !shorter.is_empty()) {
            Some(shorter) => rest = shorter,
            None => return rest,
        }
    }
}

/// A phase and its kind.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The kind of work that the phase does.
    pub kind: Kind,
    /// The phase with its figures.
    pub phase: &'a Phase,
}

/// Measured sizes; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The parameters.
    pub model: Option<i64>,
    /// The state of the optimizer.
    pub optimizer: Option<i64>,
    /// The gradients, and anything else that the last backward pass left allocated.
    pub gradients: Option<i64>,
    /// The activations that forward passes keep for the backward pass.
    pub activations: Option<i64>,
}

/// The sizes measured by the phases of one session.
pub fn measured(phases: &[Known<'_>]) -> Measured {
    Measured {
        model: changes(phases, Kind::Model),
        optimizer: changes(phases, Kind::Optimizer),
        gradients: gradients(first_iteration(phases)),
        activations: activations(phases),
    }
}

/// The sum of the changes of all phases of a kind; `None` if there are none, or if one is unknown.
fn changes(phases: &[Known<'_>], kind: Kind) -> Option<i64> {
    let mut of_kind = phases.iter().filter(|known| known.kind == kind).peekable();
    of_kind.peek()?;
    of_kind.try_fold(0i64, |sum, known| Some(sum.saturating_add(known.phase.change?)))
}

/// The use after the last backward pass minus the use after the last optimizer creation before it.
fn gradients(phases: &[Known<'_>]) -> Option<i64> {
    let last = phases.iter().rposition(|known| known.kind == Kind::Backward)?;
    let before = phases[..last].iter().rev().find(|known| known.kind == Kind::Optimizer)?;
    let (after, before) = (phases[last].phase.cumulative_current?, before.phase.cumulative_current?);
    Some(after.saturating_sub(before))
}

/// The phases of the first iteration: up to the first other phase after a backward pass. Later iterations start with
/// what this phase leaves, such as the state of an optimizer that is created in its first step.
fn first_iteration<'p, 'a>(phases: &'p [Known<'a>]) -> &'p [Known<'a>] {
    let backward = phases.iter().position(|known| known.kind == Kind::Backward).unwrap_or(phases.len());
    let end = phases[backward..].iter().position(|known| known.kind == Kind::Other);
    &phases[..end.map_or(phases.len(), |end| backward + end)]
}

/// The gradients of earlier backward passes that are in memory when a phase starts.
fn gradients_before(phases: &[Known<'_>], index: usize) -> Held {
    let before = &phases[..index];
    let Some(last) = before.iter().rposition(|known| known.kind == Kind::Backward) else {
        return Held::Nothing;
    };
    let is_first = first_iteration(before).len() == before.len();
    let bytes = gradients(if is_first { before } else { first_iteration(phases) });
    let end = (last + 1..index).find(|&at| phases[at].kind == Kind::Other);
    let is_freed = end.zip(bytes).is_some_and(|(end, bytes)| is_freed(phases, end, index, bytes));
    Held::new(!is_freed, bytes)
}

/// Whether gradients are freed between the end of an iteration and a later phase: a phase frees at least half as much, or
/// the next backward pass leaves at least half as much again, which it would not if they were still there.
fn is_freed(phases: &[Known<'_>], end: usize, index: usize, gradients: i64) -> bool {
    let is_much = |bytes: i64| bytes > 0 && bytes >= gradients / 2;
    let level = |at: usize| phases[at].phase.cumulative_current;
    let frees = |known: &Known<'_>| {
        known.kind == Kind::Other && known.phase.change.is_some_and(|change| is_much(change.saturating_neg()))
    };
    let next = (index..phases.len()).find(|&at| phases[at].kind == Kind::Backward);
    let again = || Some(level(next?)?.saturating_sub(level(end)?));
    phases[end..index].iter().any(frees) || again().is_some_and(is_much)
}

/// Memory that is not freed at the end of iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The index of the last phase, which ends an iteration.
    pub phase: usize,
    /// The number of iterations that it was measured over.
    pub iterations: u64,
    /// The mean growth per iteration.
    pub per_iteration: i64,
}

/// The fewest iterations that show whether memory grows. The first is not among them: it allocates what stays.
const MIN_ITERATIONS: usize = 3;

/// How memory grows from iteration to iteration: the use at the end of each is higher than before. `label` returns the
/// name of a phase.
pub fn growth<'a>(phases: &[Known<'a>], label: impl Fn(&'a Phase) -> &'a str) -> Option<Growth> {
    iteration_changes(phases, label).into_iter().find(|(_, is_real)| *is_real).map(|(growth, _)| growth)
}

/// The mean change per iteration, even if memory does not grow; `None` if there are too few iterations.
pub fn change_per_iteration<'a>(
    phases: &[Known<'a>],
    label: impl Fn(&'a Phase) -> &'a str,
) -> Option<Growth> {
    let found = iteration_changes(phases, label);
    let real = found.iter().find(|(_, is_real)| *is_real);
    real.or(found.first()).map(|(growth, _)| *growth)
}

/// The changes from iteration to iteration, for each phase that is repeated, and whether memory grows there.
fn iteration_changes<'a>(phases: &[Known<'a>], label: impl Fn(&'a Phase) -> &'a str) -> Vec<(Growth, bool)> {
    let mut places: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for (index, known) in phases.iter().enumerate() {
        places.entry(base_name(label(known.phase))).or_default().push(index);
    }
    let mut repeated: Vec<Vec<usize>> =
        places.into_values().filter(|ends| are_iterations(phases, ends)).collect();
    // The last one ends an iteration.
    repeated.sort_unstable_by_key(|ends| Reverse(ends.last().copied()));
    repeated.iter().filter_map(|ends| change_at(phases, ends)).collect()
}

/// Whether the phases of one name are in different iterations: a backward pass, or without any, another phase, is between
/// two of them.
fn are_iterations(phases: &[Known<'_>], ends: &[usize]) -> bool {
    let trains = phases.iter().any(|known| known.kind == Kind::Backward);
    let is_apart = |pair: &[usize]| {
        let between = &phases[pair[0] + 1..=pair[1]];
        if trains { between.iter().any(|known| known.kind == Kind::Backward) } else { between.len() > 1 }
    };
    ends.len() > MIN_ITERATIONS && ends.windows(2).all(is_apart)
}

fn change_at(phases: &[Known<'_>], ends: &[usize]) -> Option<(Growth, bool)> {
    let phase = *ends.last()?;
    let levels: Vec<i64> =
        ends.iter().map(|&end| phases[end].phase.cumulative_current).collect::<Option<_>>()?;
    let later = levels.get(1..).filter(|later| later.len() >= MIN_ITERATIONS)?;
    let (&first, &last) = (later.first()?, later.last()?);
    let iterations = u64::try_from(later.len() - 1).ok()?;
    let per_iteration = last.saturating_sub(first) / i64::try_from(iterations).ok()?;
    let is_real = later.is_sorted_by(|before, after| before < after) && per_iteration > first / MIN_GROWTH;
    Some((Growth { phase, iterations, per_iteration }, is_real))
}

/// Growth of less than this part of the memory in use is not reported.
const MIN_GROWTH: i64 = 1000;

fn activations(phases: &[Known<'_>]) -> Option<i64> {
    let (mut kept, mut highest) = (0_i64, None);
    for known in phases {
        match known.kind {
            Kind::Backward => kept = 0,
            Kind::Forward => {
                kept = kept.saturating_add(known.phase.change?);
                highest = highest.max(Some(kept));
            }
            Kind::Model | Kind::Optimizer | Kind::Other => {}
        }
    }
    highest
}

/// The phases after the last backward pass.
fn since_backward<'p, 'a>(phases: &'p [Known<'a>]) -> &'p [Known<'a>] {
    let last = phases.iter().rposition(|known| known.kind == Kind::Backward);
    &phases[last.map_or(0, |last| last + 1)..]
}

/// The peak of a session, from its totals if available, otherwise the highest peak of its phases.
pub fn peak(session: &Session, phases: &[Known<'_>]) -> Option<i64> {
    let known = phases.iter().filter_map(|known| known.phase.cumulative_peak).max();
    session.totals.and_then(|totals| totals.peak).or(known)
}

/// The phase that reaches the peak: the first whose cumulative peak equals it exactly, or else within the rounding.
pub fn holder(session: &Session, phases: &[Known<'_>]) -> Option<usize> {
    let peak = peak(session, phases)?;
    let reaches = |slack: i64| {
        let enough = move |known: &Known<'_>| {
            known.phase.cumulative_peak.is_some_and(|highest| highest.saturating_add(slack) >= peak)
        };
        phases.iter().position(enough)
    };
    reaches(0).or_else(|| reaches(i64::try_from(session.quantum).unwrap_or(0)))
}

/// The memory that a component holds at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The component is not allocated yet, or has been freed.
    Nothing,
    /// The component is allocated, but a figure needed for its size is missing.
    Unknown,
    /// The size of the allocated component.
    Bytes(i64),
}

impl Held {
    fn new(is_there: bool, bytes: Option<i64>) -> Self {
        match bytes {
            _ if !is_there => Self::Nothing,
            Some(bytes) => Self::Bytes(bytes),
            None => Self::Unknown,
        }
    }

    /// The size, if the component is allocated and the size is known.
    pub fn bytes(self) -> Option<i64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Nothing | Self::Unknown => None,
        }
    }

    /// Whether it is allocated.
    pub fn is_there(self) -> bool {
        self != Self::Nothing
    }
}

/// The contents of memory at the peak, derived from the phases up to the one that reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtPeak {
    /// The parameters.
    pub model: Held,
    /// The state of the optimizer.
    pub optimizer: Held,
    /// The gradients kept from earlier backward passes.
    pub gradients: Held,
    /// The activations that earlier forward passes keep for the current or a later backward pass.
    pub activations: Held,
    /// The peak of the phase that reaches the session's peak, relative to the phase's start.
    pub rise: Option<i64>,
    /// The part of `rise` that is activations: the change of a forward pass.
    pub activations_in_rise: Held,
}

/// The contents of memory when the phase `holder` reached the peak.
pub fn at_peak(phases: &[Known<'_>], holder: usize) -> Option<AtPeak> {
    let held = phases.get(holder)?;
    let before = &phases[..holder];
    let there = |kind: Kind, phases: &[Known<'_>]| phases.iter().any(|known| known.kind == kind);
    let when = |kind: Kind, value: Option<i64>| Held::new(there(kind, before), value);
    let waiting = since_backward(before);
    Some(AtPeak {
        model: when(Kind::Model, changes(before, Kind::Model)),
        optimizer: when(Kind::Optimizer, changes(before, Kind::Optimizer)),
        gradients: gradients_before(phases, holder),
        activations: Held::new(there(Kind::Forward, waiting), changes(waiting, Kind::Forward)),
        rise: held.phase.segment_peak,
        activations_in_rise: Held::new(held.kind == Kind::Forward, held.phase.change),
    })
}

/// Whether a figure of device memory is missing because its line was corrupt or cut off.
pub fn is_torn(phase: &Phase) -> bool {
    let figures = [phase.segment_peak, phase.change, phase.cumulative_peak, phase.cumulative_current];
    figures.iter().any(Option::is_none) || phase.allocations.is_none() || phase.deallocations.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_model::{SessionId, StrId, Totals};

    /// A session of phases: their labels, their changes, and their peaks relative to their starts.
    fn session(rows: &[(&str, i64, i64)]) -> (Session, Vec<(Kind, Phase)>) {
        let (mut current, mut highest) = (0, 0);
        let phase = |&(label, change, rise): &(&str, i64, i64)| {
            highest = i64::max(highest, current + rise);
            current += change;
            let phase = Phase {
                session: SessionId::new(0).unwrap(),
                name: StrId::new(0).unwrap(),
                steps: None,
                line: None,
                segment_peak: Some(rise),
                allocations: Some(rise.unsigned_abs()),
                deallocations: Some(0),
                change: Some(change),
                cumulative_peak: Some(highest),
                cumulative_current: Some(current),
                l1_peak_cb: None,
                l1_peak_buffer: None,
                l1_peak_total: None,
            };
            (Kind::of(label), phase)
        };
        let phases: Vec<(Kind, Phase)> = rows.iter().map(phase).collect();
        let totals = Some(Totals { peak: Some(highest), current: Some(current) });
        (Session { totals, ..Session::default() }, phases)
    }

    fn known(phases: &[(Kind, Phase)]) -> Vec<Known<'_>> {
        phases.iter().map(|(kind, phase)| Known { kind: *kind, phase }).collect()
    }

    #[test]
    fn labels_are_matched_without_their_numbers() {
        for label in [
            "FORWARD_PASS",
            "FORWARD_PASS_micro_0",
            "FORWARD_PASS_micro_12",
            "FORWARD_PASS__000042",
            "FORWARD_PASS_micro_3__000042",
            " FORWARD_PASS ",
        ] {
            assert_eq!(Kind::of(label), Kind::Forward, "{label}");
        }
        for (label, name) in [
            ("SPARSE_MOE_L3", "SPARSE_MOE_L3"),
            ("MOE_L3__000042", "MOE_L3"),
            ("STEP_7", "STEP_7"),
            ("__1", "__1"),
            ("7", "7"),
            ("", ""),
            ("FORWARD_PASS_micro_", "FORWARD_PASS_micro_"),
        ] {
            assert_eq!(base_name(label), name);
            assert_eq!(Kind::of(label), Kind::Other, "{label}");
        }
    }

    #[test]
    fn one_iteration_is_measured() {
        let (session, phases) = session(&[
            ("MODEL_CREATION", 10, 10),
            ("OPTIMIZER_CREATION", 20, 20),
            ("FORWARD_PASS", 50, 55),
            ("BACKWARD_PASS", -40, 8),
        ]);
        let phases = known(&phases);
        let figures = measured(&phases);
        assert_eq!((figures.model, figures.optimizer), (Some(10), Some(20)));
        assert_eq!((figures.gradients, figures.activations), (Some(10), Some(50)));
        assert_eq!((peak(&session, &phases), holder(&session, &phases)), (Some(88), Some(3)));
        let at = at_peak(&phases, 3).unwrap();
        assert_eq!((at.model, at.optimizer, at.gradients), (Held::Bytes(10), Held::Bytes(20), Held::Nothing));
        assert_eq!(
            (at.activations, at.rise, at.activations_in_rise),
            (Held::Bytes(50), Some(8), Held::Nothing)
        );
    }

    /// Each micro-batch frees its activations, so the largest counts and not the sum.
    #[test]
    fn activations_of_micro_batches_are_those_of_the_largest() {
        let (session, phases) = session(&[
            ("MODEL_CREATION", 10, 10),
            ("OPTIMIZER_CREATION", 20, 20),
            ("FORWARD_PASS_micro_0", 50, 55),
            ("BACKWARD_PASS_micro_0", -40, 8),
            ("FORWARD_PASS_micro_1", 52, 53),
            ("BACKWARD_PASS_micro_1", -52, 6),
        ]);
        let phases = known(&phases);
        assert_eq!(measured(&phases).activations, Some(52));
        // After the last backward pass, not the first.
        assert_eq!(measured(&phases).gradients, Some(10));
        assert_eq!(holder(&session, &phases), Some(5));
        let at = at_peak(&phases, 5).unwrap();
        assert_eq!((at.activations, at.gradients), (Held::Bytes(52), Held::Bytes(10)));
    }

    /// Forward passes before a single backward pass keep their activations at the same time.
    #[test]
    fn activations_that_wait_together_are_added_up() {
        let (_, phases) = session(&[
            ("FORWARD_PASS_micro_0", 5, 5),
            ("FORWARD_PASS_micro_1", 7, 7),
            ("BACKWARD_PASS", -12, 1),
            ("FORWARD_PASS_micro_2", 9, 9),
        ]);
        let phases = known(&phases);
        assert_eq!(measured(&phases).activations, Some(12));
        // Without an optimizer, the level before the gradients is unknown.
        assert_eq!(measured(&phases).gradients, None);
        assert_eq!(at_peak(&phases, 2).unwrap().activations, Held::Bytes(12));
        assert_eq!(at_peak(&phases, 3).unwrap().activations, Held::Nothing);
    }

    #[test]
    fn models_and_optimizers_created_in_parts_are_added_up() {
        let (_, phases) = session(&[
            ("MODEL_CREATION__000001", 10, 10),
            ("MODEL_CREATION__000002", 4, 6),
            ("OPTIMIZER_CREATION", 20, 20),
            ("OPTIMIZER_CREATION", 8, 8),
            ("BACKWARD_PASS", 14, 14),
        ]);
        let phases = known(&phases);
        let figures = measured(&phases);
        assert_eq!((figures.model, figures.optimizer, figures.gradients), (Some(14), Some(28), Some(14)));
        let at = at_peak(&phases, 1).unwrap();
        assert_eq!((at.model, at.optimizer, at.rise), (Held::Bytes(10), Held::Nothing, Some(6)));
    }

    #[test]
    fn a_sum_with_an_unknown_part_is_unknown() {
        let (session, mut phases) = session(&[
            ("MODEL_CREATION", 10, 10),
            ("OPTIMIZER_CREATION", 20, 20),
            ("FORWARD_PASS", 50, 55),
            ("BACKWARD_PASS", -40, 8),
        ]);
        phases[2].1.change = None;
        phases[1].1.cumulative_current = None;
        assert!(is_torn(&phases[2].1) && is_torn(&phases[1].1) && !is_torn(&phases[0].1));
        let cut = Session { totals: None, ..session };
        let known = known(&phases);
        assert_eq!((measured(&known).activations, measured(&known).gradients), (None, None));
        assert_eq!(at_peak(&known, 3).unwrap().activations, Held::Unknown);
        assert_eq!(peak(&cut, &known), Some(88));
        assert_eq!(measured(&[]), Measured::default());
        assert_eq!((peak(&cut, &[]), holder(&cut, &[]), at_peak(&[], 0)), (None, None, None));
    }

    #[test]
    fn the_first_phase_that_reaches_the_peak_holds_it() {
        let (session, phases) = session(&[
            ("MODEL_CREATION", 10, 10),
            ("OPTIMIZER_CREATION", 20, 100),
            ("FORWARD_PASS", 5, 6),
            ("ITERATION_COMPLETE", 0, 0),
        ]);
        let phases = known(&phases);
        assert_eq!(holder(&session, &phases), Some(1));
        let at = at_peak(&phases, 1).unwrap();
        assert_eq!((at.model, at.optimizer, at.rise), (Held::Bytes(10), Held::Nothing, Some(100)));
        // Totals that are rounded differently are reached within the rounding, and not beyond.
        let totals = |peak| Some(Totals { peak: Some(peak), current: None });
        let rounded = Session { quantum: 5, totals: totals(114), ..session };
        assert_eq!(holder(&rounded, &phases), Some(1));
        assert_eq!(holder(&Session { totals: totals(116), ..rounded }, &phases), None);
    }

    #[test]
    fn gradients_are_measured_from_the_last_optimizer_before_the_last_backward_pass() {
        let (_, phases) = session(&[
            ("OPTIMIZER_CREATION", 20, 20),
            ("BACKWARD_PASS", 3, 3),
            ("OPTIMIZER_CREATION", 8, 8),
            ("BACKWARD_PASS", 5, 5),
            ("OPTIMIZER_CREATION", 100, 100),
        ]);
        let phases = known(&phases);
        assert_eq!(measured(&phases).gradients, Some(5));
        // At a peak, only earlier backward passes count.
        let gradients = |holder| at_peak(&phases, holder).unwrap().gradients;
        assert_eq!([1, 2, 3].map(gradients), [Held::Nothing, Held::Bytes(3), Held::Bytes(3)]);
        assert_eq!(gradients(4), Held::Bytes(5));
        assert_eq!([Held::Nothing, Held::Unknown, Held::Bytes(0)].map(Held::bytes), [None, None, Some(0)]);
        assert_eq!([Held::Nothing, Held::Unknown, Held::Bytes(0)].map(Held::is_there), [false, true, true]);
    }

    /// A forward pass of 12 leaves 2 for good in `kept` iterations; the gradients of 18 are freed after each.
    fn iterations(count: usize, leaks: bool) -> (Session, Vec<(Kind, Phase)>) {
        let mut rows = vec![("MODEL_CREATION", 18, 18), ("OPTIMIZER_CREATION", 36, 36)];
        for _ in 0..count {
            rows.extend([("FORWARD_PASS", 12, 12), ("BACKWARD_PASS", 8, 18)]);
            rows.push(("ITERATION_COMPLETE", if leaks { -18 } else { -20 }, 0));
        }
        session(&rows)
    }

    #[test]
    fn gradients_that_an_iteration_frees_are_not_in_the_next() {
        let (session, phases) = iterations(4, true);
        let phases = known(&phases);
        // The leak is left by the backward pass, too.
        assert_eq!(measured(&phases).gradients, Some(20));
        let holder = holder(&session, &phases).unwrap();
        assert_eq!((holder, phases[holder].kind), (12, Kind::Backward));
        let at = at_peak(&phases, holder).unwrap();
        assert_eq!((at.gradients, at.activations, at.rise), (Held::Nothing, Held::Bytes(12), Some(18)));
    }

    #[test]
    fn gradients_that_stay_are_not_mixed_with_the_state_of_an_optimizer() {
        let (_, phases) = session(&[
            ("MODEL_CREATION", 8, 8),
            ("OPTIMIZER_CREATION", 0, 0),
            ("FORWARD_PASS", 3, 4),
            ("BACKWARD_PASS", 5, 7),
            ("ITERATION_COMPLETE", 16, 24),
            ("FORWARD_PASS", 3, 4),
            ("BACKWARD_PASS", -3, 6),
            ("ITERATION_COMPLETE", 0, 8),
        ]);
        let phases = known(&phases);
        assert_eq!(measured(&phases).gradients, Some(8));
        assert_eq!(at_peak(&phases, 6).unwrap().gradients, Held::Bytes(8));
    }

    /// The peak is in a phase after the backward pass of the second iteration.
    #[test]
    fn gradients_of_a_later_iteration_are_there_after_its_backward_pass() {
        let mut rows = vec![("MODEL_CREATION", 8, 8), ("OPTIMIZER_CREATION", 16, 16)];
        for _ in 0..2 {
            rows.extend([("EMBED", 1, 1), ("FORWARD_PASS", 3, 4), ("LOSS", 1, 1)]);
            rows.extend([("BACKWARD_PASS", 3, 7), ("OPTIMIZER_STEP", -8, 9)]);
        }
        let (_, phases) = session(&rows);
        let phases = known(&phases);
        assert_eq!(measured(&phases).gradients, Some(8));
        let gradients = |holder| at_peak(&phases, holder).unwrap().gradients;
        assert_eq!(
            [5, 6, 7, 10].map(gradients),
            [Held::Nothing, Held::Bytes(8), Held::Nothing, Held::Nothing]
        );
        assert_eq!(gradients(11), Held::Bytes(8));
    }

    #[test]
    fn repeated_phases_of_one_iteration_are_not_growth() {
        let (_, phases) = session(&[
            ("FORWARD_PASS", 3, 3),
            ("FORWARD_PASS", 3, 3),
            ("FORWARD_PASS", 3, 3),
            ("FORWARD_PASS", 3, 3),
            ("FORWARD_PASS", 3, 3),
            ("BACKWARD_PASS", -15, 3),
        ]);
        assert_eq!(growth(&known(&phases), |phase| if phase.change < Some(0) { "B" } else { "F" }), None);
    }

    /// The phase that ends an iteration frees the gradients and creates the state of the optimizer.
    #[test]
    fn gradients_that_the_next_iteration_allocates_again_were_freed() {
        let (_, phases) = session(&[
            ("MODEL_CREATION", 8, 8),
            ("OPTIMIZER_CREATION", 0, 0),
            ("FORWARD_PASS", 3, 4),
            ("BACKWARD_PASS", 5, 7),
            ("ITERATION_COMPLETE", 8, 24),
            ("FORWARD_PASS", 3, 4),
            ("BACKWARD_PASS", 5, 7),
            ("ITERATION_COMPLETE", -8, 8),
        ]);
        let phases = known(&phases);
        assert_eq!(measured(&phases).gradients, Some(8));
        for holder in [5, 6] {
            assert_eq!(at_peak(&phases, holder).unwrap().gradients, Held::Nothing);
        }
    }

    #[test]
    fn growth_is_what_every_iteration_leaves() {
        let names = |count: usize, leaks: bool| {
            let (_, phases) = iterations(count, leaks);
            growth(&known(&phases), |phase| if phase.change < Some(0) { "ITERATION_COMPLETE" } else { "?" })
        };
        let found = names(4, true).unwrap();
        assert_eq!((found.phase, found.iterations, found.per_iteration), (13, 2, 2));
        assert_eq!((names(4, false), names(3, true), names(0, true)), (None, None, None));
        // The phase that a capture ends with is not an iteration.
        let (_, mut phases) = iterations(4, true);
        let mut end = phases[13].1;
        end.change = Some(0);
        phases.push((Kind::Other, end));
        let label = |phase: &Phase| match phase.change {
            Some(..0) => "ITERATION_COMPLETE",
            Some(0) => "END_TRACE",
            _ => "?",
        };
        assert_eq!(growth(&known(&phases), label).map(|found| found.per_iteration), Some(2));
    }

    #[test]
    fn the_rise_of_a_forward_pass_includes_its_activations() {
        let (_, mut phases) = session(&[("FORWARD_PASS", 50, 55), ("FORWARD_PASS", 7, 60), ("OTHER", 1, 99)]);
        phases[0].1.change = None;
        let in_rise = |holder| at_peak(&known(&phases), holder).unwrap().activations_in_rise;
        assert_eq!([0, 1, 2].map(in_rise), [Held::Unknown, Held::Bytes(7), Held::Nothing]);
        // A sum with an unknown part is unknown.
        assert_eq!(measured(&known(&phases)).activations, None);
    }

    #[test]
    fn a_phase_is_torn_if_any_figure_is_missing() {
        let (_, phases) = session(&[("FORWARD_PASS", 50, 55)]);
        let tears: [fn(&mut Phase); 6] = [
            |phase| phase.segment_peak = None,
            |phase| phase.change = None,
            |phase| phase.cumulative_peak = None,
            |phase| phase.cumulative_current = None,
            |phase| phase.allocations = None,
            |phase| phase.deallocations = None,
        ];
        for tear in tears {
            let mut phase = phases[0].1;
            tear(&mut phase);
            assert!(is_torn(&phase) && !is_torn(&phases[0].1));
        }
    }
}
