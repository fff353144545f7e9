//! What every iteration leaves behind is growth; warm-up, temporaries and buffers that are flushed are not.

use proptest::prelude::*;
use ttmem_model::{Class, Moment, Outcome, PoolId, Profile, RankEvent, Reading, Step, StepNumber, Tensor};

use super::{Evidence, NEVER, account, first, tensor};
use crate::analyze::growth::{Growth, Kind, MIN_ITERATIONS, Origin, Unit, candidates, growth};

/// A program whose iterations allocate tensors of several kinds.
#[derive(Clone, Copy, Debug)]
struct Program {
    iterations: usize,
    /// Whether iterations are runs; otherwise they are calls.
    are_runs: bool,
    /// The bytes that each iteration leaves behind, from an iteration on.
    leak: Option<(u64, usize)>,
    /// The number of iterations that keep what they allocate.
    warm_up: usize,
    /// The number of iterations after which a buffer is flushed.
    period: usize,
    /// The number of iterations that a tensor lives beyond its own.
    carried: usize,
    /// Whether the program frees what it kept, after the last iteration.
    clears: bool,
}

/// The steps of an iteration: a temporary, a carried tensor, one of the warm-up, one of the buffer and one that leaks.
const STEPS: usize = 6;

impl Program {
    fn any(leak: impl Strategy<Value = Option<(u64, usize)>>) -> impl Strategy<Value = Self> {
        let count = MIN_ITERATIONS..60;
        (count, any::<bool>(), leak, 0..75_usize, 0..100_usize, 0..3_usize, any::<bool>()).prop_map(
            |(iterations, are_runs, leak, warm_up, period, carried, clears)| {
                let part = |percent: usize, of: usize| percent * of / 100;
                Self {
                    iterations,
                    are_runs,
                    leak: leak.map(|(bytes, since)| (bytes, since.min(iterations / 2 - 1))),
                    warm_up: part(warm_up, iterations),
                    period: 1 + part(period, iterations / 3),
                    carried,
                    clears,
                }
            },
        )
    }

    fn profile(&self) -> (Profile, PoolId) {
        let mut evidence = Evidence::new();
        let pool = evidence.pool("DRAM");
        let (lane, scope) = (evidence.lane("main"), evidence.scope("train"));
        let cleared = Moment::after(u32::try_from(self.iterations * STEPS).unwrap());
        let cleared = if self.clears { cleared } else { NEVER };
        let mut made = Vec::new();
        for number in 0..self.iterations {
            let begins = |iteration: usize| {
                if iteration < self.iterations {
                    Moment::late(u32::try_from(iteration * STEPS).unwrap())
                } else {
                    NEVER
                }
            };
            let flushed = (number / self.period + 1) * self.period;
            let call = if self.are_runs {
                evidence.run("main");
                None
            } else {
                Some(evidence.open_call(scope, lane, None, number as u64))
            };
            let mut allocate = |op: &str, bytes: u64, dies: Option<Moment>| {
                let step = evidence.step(op);
                let dies = dies.unwrap_or_else(|| Moment::late(step + 1));
                made.push((step, tensor(pool, bytes, Moment::after(step), dies)));
            };
            allocate("temporary", 500, None);
            allocate("carried", 300 + number as u64 % 3 * 20, Some(begins(number + 1 + self.carried)));
            let warm = if number < self.warm_up { Some(NEVER) } else { None };
            allocate("warm_up", 70, warm);
            allocate("buffer", 1000, Some(begins(flushed)));
            let leak = self.leak.filter(|(_, since)| number >= *since);
            allocate("leak", leak.map_or(9, |(bytes, _)| bytes), leak.map(|_| cleared));
            evidence.step("end");
            match call {
                None => evidence.end_run(),
                Some(call) => {
                    let end = evidence.rows.steps;
                    let outcome = Outcome { ended: number as u64, end, ..Outcome::default() };
                    evidence.say(RankEvent::Returned(call, outcome));
                }
            }
        }
        evidence.step("clear");
        (finished(evidence, made), pool)
    }

    fn growth(&self) -> (Profile, Growth) {
        let (profile, pool) = self.profile();
        let found = candidates(&profile, first(&profile));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].count(), self.iterations);
        assert_eq!(matches!(found[0].unit, Unit::Run(_)), self.are_runs);
        let growth = growth(&profile, &account(&profile, pool), &found[0]);
        (profile, growth)
    }
}

/// Adds tensors with the steps that allocate them. Events of tensors come after the steps that free them.
fn finished(mut evidence: Evidence, made: Vec<(Step, Tensor)>) -> Profile {
    for (step, tensor) in made {
        evidence.tensor(Tensor { step: StepNumber::new(step), ..tensor });
    }
    evidence.finish()
}

proptest! {
    #[test]
    fn a_constant_survivor_per_iteration_is_found_with_its_bytes(
        program in Program::any((1..5000_u64, 0..60_usize).prop_map(Some)),
    ) {
        let (profile, growth) = program.growth();
        let (bytes, since) = program.leak.unwrap();
        let [leak] = &growth.origins[..] else { panic!("{growth:?}") };
        let Origin::Operation(Some(op), None) = leak.origin else { panic!("{leak:?}") };
        prop_assert_eq!(profile.text(op), "leak");
        prop_assert_eq!((growth.per_iteration, leak.per_iteration), (bytes, bytes));
        prop_assert_eq!((leak.kind, leak.since), (Kind::Kept, since));
        prop_assert_eq!(leak.per_bank, bytes * leak.measured.1 as u64);
        prop_assert_eq!(leak.tensors.len(), leak.measured.1);
        prop_assert_eq!(leak.freed_later, program.clears);
    }

    #[test]
    fn without_a_survivor_nothing_grows(program in Program::any(Just(None))) {
        let (_, growth) = program.growth();
        prop_assert_eq!(&growth.origins, &[]);
        prop_assert_eq!((growth.per_iteration, growth.kind()), (0, None));
    }

    #[test]
    fn warm_up_is_told_apart_from_growth(
        program in Program::any((1..5000_u64, Just(0)).prop_map(Some)),
    ) {
        let program = Program { period: 1, carried: 0, warm_up: program.iterations / 2, ..program };
        let (_, growth) = program.growth();
        prop_assert_eq!(growth.origins.len(), 1);
        prop_assert!(growth.warm_up.per_bank >= 70 * (program.warm_up as u64 - 1));
    }
}

/// A cache that is replaced by a larger one, or that is known to be one, is not called a leak.
#[test]
fn a_cache_is_reported_as_what_it_is() {
    for (class, kind) in [(Class::Activation, Kind::Replaced), (Class::KvCache, Kind::KvCache)] {
        let mut evidence = Evidence::new();
        let pool = evidence.pool("DRAM");
        let mut all = Vec::new();
        for number in 0..20_u32 {
            evidence.run("main");
            let step = evidence.step("cat");
            let (born, dies) = (Moment::after(step), Moment::after(step + 1));
            let made =
                tensor(pool, 100 * u64::from(number + 1), born, if number == 19 { NEVER } else { dies });
            all.push((step, Tensor { class, ..made }));
            evidence.end_run();
        }
        let profile = finished(evidence, all);
        let found = candidates(&profile, first(&profile));
        let growth = growth(&profile, &account(&profile, pool), &found[0]);
        assert_eq!((growth.kind(), growth.per_iteration), (Some(kind), 100));
    }
}

/// A list that is dropped after each request grows within a request, and even if the last one is not dropped.
#[test]
fn a_cache_that_is_released_after_each_request_does_not_grow() {
    for (requests, tokens) in [(2, 48), (3, 32), (4, 10), (2, 6)] {
        let mut evidence = Evidence::new();
        let pool = evidence.pool("DRAM");
        let mut all = Vec::new();
        for number in 0..requests * tokens {
            evidence.run("main");
            let step = evidence.step("append");
            let end = (number / tokens + 1) * tokens;
            let dies = if end == requests * tokens { NEVER } else { Moment::after(end) };
            let made = tensor(pool, 100, Moment::after(step), dies);
            all.push((step, made));
            evidence.end_run();
        }
        let profile = finished(evidence, all);
        let found = candidates(&profile, first(&profile));
        let growth = growth(&profile, &account(&profile, pool), &found[0]);
        assert_eq!(growth.origins, [], "{requests} requests of {tokens} tokens");
    }
}

/// Growth that no tensor explains is known from the states of the device.
#[test]
fn memory_without_tensors_grows_as_well() {
    let mut evidence = Evidence::new();
    let pool = evidence.pool("DRAM");
    for number in 0..12_u32 {
        evidence.run("main");
        evidence.step("add");
        evidence.state(pool, Moment::after(number), 1000 + 64 * u64::from(number));
        evidence.end_run();
    }
    let profile = evidence.finish();
    let found = candidates(&profile, first(&profile));
    let growth = growth(&profile, &account(&profile, pool), &found[0]);
    assert_eq!((growth.kind(), growth.per_iteration), (Some(Kind::Unexplained), 64));
}

/// Without programs and calls, an operation that repeats evenly marks the iterations.
#[test]
fn iterations_are_known_from_operations_that_repeat() {
    let mut evidence = Evidence::new();
    let pool = evidence.pool("cuda:0");
    let mut all = Vec::new();
    evidence.steps(9, "load");
    for _ in 0..10 {
        for op in ["embed", "layer", "layer", "layer", "head", "loss"] {
            let step = evidence.step(op);
            let dies = if op == "loss" { NEVER } else { Moment::after(step + 1) };
            let made = tensor(pool, 512, Moment::after(step), dies);
            all.push((step, made));
        }
    }
    let profile = finished(evidence, all);
    let found = candidates(&profile, first(&profile));
    assert_eq!((found.len(), found[0].count()), (1, 10));
    let growth = growth(&profile, &account(&profile, pool), &found[0]);
    assert_eq!((growth.kind(), growth.per_iteration), (Some(Kind::Kept), 512));
}

/// Passes of several programs are iterations, also if the last one is incomplete. So are the runs of a program that
/// repeats after another.
#[test]
fn iterations_are_passes_or_runs_of_the_most_frequent_program() {
    for (programs, expected) in [
        ("abcabcabcabcabcabcab", Some((7, true))),
        ("pdddddddd", Some((8, false))),
        ("pdddd", None),
        ("abcdefgh", None),
    ] {
        let mut evidence = Evidence::new();
        evidence.pool("DRAM");
        for program in programs.chars() {
            evidence.run(&program.to_string());
            evidence.step("add");
            evidence.end_run();
        }
        let profile = evidence.finish();
        let found = candidates(&profile, first(&profile));
        let found = found.first().map(|found| (found.count(), found.unit == Unit::Pass));
        assert_eq!(found, expected, "{programs}");
    }
}

/// CPU tensors are a part of the memory of the process, which shares the host with others.
#[test]
fn the_host_is_full_when_the_process_is() {
    let left = |capacity: Option<u64>, process: Option<u64>| {
        let mut evidence = Evidence::new();
        let (cpu, host) = (evidence.pool("cpu"), evidence.pool("host"));
        evidence.reading(cpu, Moment::late(0), Reading { capacity, ..Reading::default() });
        let mut all = Vec::new();
        for number in 1..=20 {
            evidence.run("main");
            let step = evidence.step("append");
            evidence.state(cpu, Moment::after(step), 100 * number);
            all.push((step, tensor(cpu, 100, Moment::after(step), NEVER)));
            evidence.end_run();
        }
        if let Some(bytes) = process {
            evidence.state(host, Moment::after(19), bytes);
        }
        let found = crate::growth::growth(&finished(evidence, all), 0).unwrap().unwrap();
        assert_eq!((found.capacity_per_bank, found.caveats.len()), (capacity, 1));
        let caveat = if capacity.is_some() { "Other processes" } else { "The capacity of cpu is unknown" };
        assert!(found.caveats[0].starts_with(caveat), "{:?}", found.caveats);
        found.iterations_left
    };
    assert_eq!(left(None, Some(5000)), None);
    assert_eq!(left(Some(10_000), None), Some(80));
    assert_eq!(left(Some(10_000), Some(1500)), Some(80));
    assert_eq!(left(Some(10_000), Some(5000)), Some(50));
    assert_eq!(left(Some(10_000), Some(11_000)), Some(0));
}
