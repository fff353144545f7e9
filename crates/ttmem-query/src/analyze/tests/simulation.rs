use super::*;
use crate::analyze::simulation::{Change, Simulation};

fn saves(profile: &Profile, pool: PoolId, span: Span, changes: &[Change]) -> u64 {
    Simulation::new(&account(profile, pool), span, changes).saving(changes)
}

#[test]
fn a_peak_falls_to_the_next_highest_moment_at_most() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    for (step, held) in (0..).zip([50, 100, 90, 10]) {
        evidence.step("ttnn.add");
        evidence.state(dram, after(step), held);
    }
    let short = evidence.tensor(tensor(dram, 30, after(1), after(2)));
    let long = evidence.tensor(tensor(dram, 15, START, NEVER));
    let profile = evidence.finish();
    let falls = |span, changes: &[Change]| saves(&profile, dram, span, changes);
    let all = whole(&profile);
    assert_eq!(falls(all, &[]), 0);
    assert_eq!(falls(all, &[Change::Smaller(short, 7)]), 7);
    assert_eq!(falls(all, &[Change::NotAllocated(short)]), 10);
    assert_eq!(falls(all, &[Change::NotAllocated(short), Change::NotAllocated(long)]), 25);
    // Bytes that two changes remove count once.
    assert_eq!(falls(all, &[Change::Smaller(short, 7), Change::Smaller(short, 5)]), 7);
    assert_eq!(falls(all, &[Change::Smaller(long, 5), Change::NotAllocated(long)]), 15);
    assert_eq!(falls(all, &[Change::Smaller(short, 1000)]), 10);
    // The peak is that of the span.
    assert_eq!(falls(Span { first: 2, end: 4 }, &[Change::FreedAt(long, after(2))]), 15);
    assert_eq!(falls(Span { first: 3, end: 4 }, &[Change::Smaller(short, 7)]), 0);
    // A change that needs more than it frees raises the peak, which is no saving.
    let needs = [Change::Added(after(0), after(1), 60), Change::Smaller(short, 7)];
    let simulation = Simulation::new(&account(&profile, dram), all, &needs);
    assert_eq!((simulation.peak(), simulation.peak_with(&needs)), (100, 110));
    assert_eq!((simulation.saving(&needs), simulation.saving(&needs[1..])), (0, 7));
    // A pool without readings has no peak.
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.step("ttnn.add");
    let id = evidence.tensor(tensor(dram, 10, before(0), after(0)));
    let profile = evidence.finish();
    assert_eq!(saves(&profile, dram, whole(&profile), &[Change::NotAllocated(id)]), 0);
}

/// A tensor of a made program: bytes, birth, death.
type Made = (u64, usize, usize);

/// A profile of these tensors, observed at every moment, with bytes that belong to no tensor.
fn observed(tensors: &[Vec<Made>], further: &[u64]) -> (Profile, PoolId) {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.steps(STEPS, "ttnn.add");
    let at = |index: usize| Moment::from_index(index).unwrap();
    for &(bytes, born, dies) in tensors.iter().flatten() {
        evidence.tensor(tensor(dram, bytes, at(born), at(dies)));
    }
    for (index, further) in further.iter().enumerate() {
        let live = |made: &&Made| made.1 <= index && index < made.2;
        let sum: u64 = tensors.iter().flatten().filter(live).map(|made| made.0).sum();
        evidence.state(dram, at(index), sum + further);
    }
    (evidence.finish(), dram)
}

/// The pieces of a changed tensor: the other implementation of a change.
fn changed(&(bytes, born, dies): &Made, kind: usize, from: usize, until: usize, by: u64) -> Vec<Made> {
    match kind {
        0 => vec![(bytes - by.min(bytes), born, dies)],
        1 => vec![],
        2 => vec![(bytes, born, dies.min(from.max(born)))],
        3 => vec![(bytes, from.min(dies), dies)],
        _ => vec![(bytes, born, from.clamp(born, dies)), (bytes, until.clamp(born, dies), dies)],
    }
}

fn change(id: TensorId, kind: usize, from: usize, until: usize, by: u64) -> Change {
    let at = |index: usize| Moment::from_index(index).unwrap();
    match kind {
        0 => Change::Smaller(id, by),
        1 => Change::NotAllocated(id),
        2 => Change::FreedAt(id, at(from)),
        3 => Change::AllocatedAt(id, at(from)),
        _ => Change::Away(id, at(from), at(until)),
    }
}

const MOMENTS: usize = 2 * STEPS as usize;

proptest! {
    #[test]
    fn the_simulated_peak_is_that_of_the_changed_program(
        tensors in vec((1..100_u64, 0..MOMENTS, 0..MOMENTS), 1..10),
        further in vec(0..60_u64, MOMENTS),
        changes in vec((0..5_usize, 0..MOMENTS, 0..MOMENTS, 0..100_u64), 10),
        changed_ones in vec(prop::bool::ANY, 10),
        prepared in vec(prop::bool::ANY, 10),
    ) {
        let tensors: Vec<Made> = tensors.into_iter().map(|(bytes, a, b)| (bytes, a.min(b), a.max(b) + 1)).collect();
        let (profile, dram) = observed(std::slice::from_ref(&tensors), &further);
        let (mut applied, mut all, mut then) = (Vec::new(), Vec::new(), Vec::new());
        for (index, made) in tensors.iter().enumerate() {
            let (kind, a, b, by) = changes[index];
            let (from, until) = (a.min(b), a.max(b));
            let change = change(tensor_id(index), kind, from, until, by);
            if changed_ones[index] {
                applied.push(change);
                then.push(changed(made, kind, from, until, by));
            } else {
                then.push(vec![*made]);
            }
            if changed_ones[index] || prepared[index] {
                all.push(change);
            }
        }
        let account_of = |profile: &Profile| Simulation::new(&account(profile, dram), whole(profile), &[]).peak();
        let (other, _) = observed(&then, &further);
        let simulation = Simulation::new(&account(&profile, dram), whole(&profile), &all);
        prop_assert_eq!(simulation.peak(), account_of(&profile));
        prop_assert_eq!(simulation.peak_with(&applied), account_of(&other));
    }

    #[test]
    fn a_smaller_tensor_never_raises_a_peak(
        memory in Memory::any(),
        by in vec(0..100_u64, 0..5),
    ) {
        let (profile, pool) = memory.profile();
        let tensors = (0..first(&profile).tensors.len()).map(tensor_id);
        let of_pool = tensors.filter(|id| first(&profile).tensors.pool[id.index()] == pool);
        let changes: Vec<Change> = of_pool.zip(by).map(|(id, by)| Change::Smaller(id, by)).collect();
        let simulation = Simulation::new(&account(&profile, pool), whole(&profile), &changes);
        let falls: Vec<u64> = (0..=changes.len()).map(|count| simulation.saving(&changes[..count])).collect();
        prop_assert_eq!(falls[0], 0);
        prop_assert!(falls.is_sorted());
    }
}
