//! Rules about when tensors are allocated and freed: each saving is compared with the peak of the changed program.

use proptest::prelude::*;
use ttmem::model::{
    Builder, Class, Event, Moment, Op, OpId, OpKind, PoolId, Profile, RankEvent, RankId, Reading, Sink,
    Source, StepMarks, StepRow, StrId, TensorId,
};
use ttmem::query::{Request, Suggestion, summary};

use super::scene::{KIB, MIB, Scene, bytes, tiled};
use super::{saves, says};

fn peak(scene: Scene) -> u64 {
    peak_of("DRAM", scene)
}

fn peak_of(pool: &str, scene: Scene) -> u64 {
    let answer = summary(&[scene.finish()], &Request::default()).unwrap();
    answer.ranks[0].pools.get(pool).unwrap().peak_per_bank.unwrap()
}

/// A tensor that is used by the second of three operations, and freed right after that or at the end.
fn held(mib: u64, frees_early: bool) -> Scene {
    let mut scene = Scene::new();
    let first = scene.make("ttnn.full", &[], "%0", &bytes(mib * MIB));
    let second = scene.make("ttnn.relu", &["%0"], "%1", &bytes(2 * MIB));
    if frees_early {
        scene.free(first);
    }
    let third = scene.make("ttnn.exp", &["%1"], "%2", &bytes(196 * MIB));
    if !frees_early {
        scene.free(first);
    }
    scene.free(second);
    scene.free(third);
    scene
}

#[test]
fn free_after_last_use() {
    let found = held(4, false).only("free_after_last_use");
    says(
        &found,
        &["1 tensor is allocated at the DRAM peak although no later operation uses it: 4.0 MiB/bank"],
    );
    says(&found, &["Step 1, ttnn.relu, is the last to use %0, which step 3 deallocates."]);
    says(&found, &["Deallocating it right after its last use lowers the peak by 4.0 MiB/bank"]);
    assert_eq!((saves(&found), found.step), (Some(peak(held(4, false)) - peak(held(4, true))), Some(1)));
    assert!(found.docs.ends_with("#free_after_last_use"));
    // A hundredth of the peak, which is 200 MiB without it.
    held(3, false).only("free_after_last_use");
    held(1, false).silent("free_after_last_use");
    held(4, true).silent("free_after_last_use");
}

#[test]
fn results_and_arguments_are_not_freed_early() {
    // Nobody frees the result: the program returns it.
    let mut scene = Scene::new();
    scene.make("ttnn.full", &[], "%0", &bytes(4 * MIB));
    scene.make("ttnn.relu", &["%0"], "%1", &bytes(2 * MIB));
    scene.make("ttnn.exp", &["%1"], "%2", &bytes(8 * MIB));
    scene.silent("free_after_last_use");
    // A view is a name of the same memory.
    let mut scene = Scene::new();
    let first = scene.make("ttnn.full", &[], "%0", &bytes(4 * MIB));
    scene.run("ttnn.reshape", &["%0"]);
    scene.alias("%1", first);
    scene.make("ttnn.exp", &[], "%2", &bytes(8 * MIB));
    scene.run("ttnn.relu", &["%1"]);
    scene.free(first);
    scene.silent("free_after_last_use");
}

/// A program in which each operation uses the tensor before it, and frees tensors with a delay.
fn delayed(sizes: &[u64], delays: Option<&[usize]>) -> Scene {
    let mut scene = Scene::new();
    let mut waiting: Vec<(usize, TensorId)> = Vec::new();
    let mut before = None;
    for (number, size) in sizes.iter().enumerate() {
        let operand = number.checked_sub(1).map(|before| format!("%{before}"));
        let operands: Vec<&str> = operand.iter().map(String::as_str).collect();
        let made = scene.make("ttnn.relu", &operands, &format!("%{number}"), &bytes(size * KIB));
        if let Some(before) = before.replace(made) {
            waiting.push((number + delays.map_or(0, |delays| delays[number]), before));
        }
        waiting.retain(|(at, tensor)| {
            if *at <= number {
                scene.free(*tensor);
            }
            *at > number
        });
    }
    for (_, tensor) in waiting {
        scene.free(tensor);
    }
    scene
}

/// A tensor that is filled early or right before its use.
fn filled(mib: u64, is_early: bool) -> Scene {
    let mut scene = Scene::new();
    let fill = |scene: &mut Scene| scene.make("ttnn.zeros", &[], "%0", &bytes(mib * MIB));
    let early = is_early.then(|| fill(&mut scene));
    let other = scene.make("ttnn.relu", &[], "%1", &bytes(196 * MIB));
    scene.free(other);
    let filled = early.unwrap_or_else(|| fill(&mut scene));
    scene.run("ttnn.add", &["%0"]);
    scene.free(filled);
    scene
}

#[test]
fn allocate_later() {
    let found = filled(4, true).only("allocate_later");
    says(&found, &["1 tensor is allocated before the DRAM peak and not used until later: 4.0 MiB/bank"]);
    says(&found, &["Step 3, ttnn.add, is the first to use %0, which step 0 allocates."]);
    assert_eq!((saves(&found), found.step), (Some(peak(filled(4, true)) - peak(filled(4, false))), Some(0)));
    filled(1, true).silent("allocate_later");
    filled(4, false).silent("allocate_later");
    // What is computed from other tensors would keep those instead.
    let mut scene = Scene::new();
    scene.argument("%arg0", &bytes(MIB));
    scene.make("ttnn.relu", &["%arg0"], "%0", &bytes(4 * MIB));
    let other = scene.make("ttnn.exp", &[], "%1", &bytes(16 * MIB));
    scene.free(other);
    scene.run("ttnn.add", &["%0"]);
    scene.silent("allocate_later");
}

fn cache(positions: u64, prompt: u64, tokens: usize) -> Scene {
    let mut scene = Scene::new();
    let of = tiled(&[1, 8, positions, 64], "bf16");
    scene.argument("%arg0", &of);
    scene.make("ttnn.full", &[], "%0", &bytes(MIB));
    if prompt > 0 {
        scene.use_typed("ttnn.fill_cache", &[("%arg0", &of), ("%1", &tiled(&[1, 8, prompt, 64], "bf16"))]);
    }
    for _ in 0..tokens {
        scene.use_typed("ttnn.update_cache", &[("%arg0", &of), ("%1", &tiled(&[1, 8, 1, 64], "bf16"))]);
    }
    scene
}

#[test]
fn kv_cache_unused() {
    let found = cache(1024, 90, 6).only("kv_cache_unused");
    says(
        &found,
        &["room for 1024 positions each; the program fills at most 96.", "longer than in this input"],
    );
    assert_eq!(saves(&found), Some(peak(cache(1024, 90, 6)) - peak(cache(96, 90, 6))));
    // One more token needs one more tile.
    let found = cache(1024, 90, 7).only("kv_cache_unused");
    assert_eq!(saves(&found), Some(peak(cache(1024, 90, 7)) - peak(cache(128, 90, 7))));
    cache(96, 90, 6).silent("kv_cache_unused");
    // Without a prompt, the first position is unknown.
    cache(1024, 0, 6).silent("kv_cache_unused");
}

#[test]
fn l1_residents() {
    let residents = |moved: &[usize]| {
        let mut scene = Scene::new();
        for (at, kib) in [300, 200, 400].into_iter().enumerate() {
            let of = bytes(kib * KIB);
            let of = if moved.contains(&at) { of } else { of.in_l1() };
            scene.make("ttnn.full", &[], ["%0", "%1", "%2"][at], &of);
        }
        scene
    };
    let scene = |operands: &[&str], lacks: u64| {
        let mut scene = residents(&[]);
        scene.fail_with("ttnn.matmul", operands, "L1", |fault| {
            fault.requested_per_bank = Some(100 * KIB + lacks);
            fault.free = Some(100 * KIB);
            fault.largest_free = Some(100 * KIB);
        });
        scene
    };
    let found = scene(&["%2"], 300 * KIB).only("l1_residents");
    says(
        &found,
        &[
            "Step 3, ttnn.matmul, finds 2 L1 tensors that it does not use: 500.0 KiB/bank, 55.6% of the L1 peak",
        ],
    );
    says(
        &found,
        &["Moving the largest one to DRAM frees 300.0 KiB/bank, which is as much as the operation lacks."],
    );
    assert_eq!((found.saves_per_bank, found.step), (Some(300 * KIB), Some(3)));
    let both = scene(&["%2"], 301 * KIB).only("l1_residents");
    says(&both, &["Moving the largest 2 to DRAM frees 500.0 KiB/bank"]);
    // The changed programs save as much.
    for (found, moved) in [(found, &[0][..]), (both, &[0, 1])] {
        let changed = peak_of("L1", residents(&[])) - peak_of("L1", residents(moved));
        assert_eq!(found.saves_per_bank, Some(changed));
    }
    // Not even all of them are enough, or it is unknown what the operation uses.
    scene(&["%2"], 501 * KIB).silent("l1_residents");
    scene(&[], 300 * KIB).silent("l1_residents");
}

/// A matmul with operands of 8 MiB, whose result is computed at once or in two halves.
fn product(in_halves: bool) -> Scene {
    let mut scene = Scene::new();
    scene.argument("%arg0", &tiled(&[4096, 4096], "bf16"));
    scene.argument("%arg1", &tiled(&[4096, 4096], "bf16"));
    let (parts, rows) = if in_halves { (2, 2048) } else { (1, 4096) };
    for part in 0..parts {
        let name = format!("%{part}");
        let result = scene.make("ttnn.matmul", &["%arg0", "%arg1"], &name, &tiled(&[rows, 4096], "bf16"));
        scene.run("ttnn.relu", &[&name]);
        scene.free(result);
    }
    scene
}

/// A program with a weight in some element type, next to 2 MiB.
fn weighted(dtype: &'static str) -> Scene {
    let mut scene = Scene::new();
    scene.argument("%arg0", &tiled(&[4096, 4096], dtype).class(Class::Weight));
    scene.argument("%arg1", &bytes(2 * MIB).class(Class::Input));
    let result = scene.make("ttnn.embedding", &["%arg0"], "%0", &bytes(MIB));
    scene.free(result);
    scene
}

/// A cache of half the context, or of half the users.
fn attending(users: u64, positions: u64) -> Scene {
    let mut scene = Scene::new();
    scene.argument("%arg0", &tiled(&[users, 8, positions, 64], "bf16").class(Class::Input));
    scene.run("ttnn.update_cache", &["%arg0"]);
    scene
}

/// A weight that a const-eval program repeats, or that the operation broadcasts.
fn broadcast(is_repeated: bool) -> Scene {
    let mut scene = Scene::new();
    let weight = tiled(&[32, 4096], "bf16");
    let repeated = tiled(&[4096, 4096], "bf16");
    scene.enter("main_const_eval_0", true);
    let of = if is_repeated { repeated } else { weight.clone() };
    let made = scene.make("ttnn.repeat", &[], "%0", &of.class(Class::Weight));
    scene.leave();
    scene.origin(made, &weight);
    scene.load_cached("%0", made);
    let result = scene.make("ttnn.add", &["%0"], "%1", &bytes(MIB));
    scene.free(result);
    scene
}

/// A weight that is freed as soon as its other form exists, or stays.
fn converted(frees_original: bool) -> Scene {
    let mut scene = Scene::new();
    let weight = scene.argument("%arg0", &tiled(&[4096, 8192], "bf16").class(Class::Weight));
    scene.enter("main_const_eval_0", true);
    let of = tiled(&[8192, 4096], "bf16").class(Class::Weight);
    let made = scene.make("ttnn.permute", &["%arg0"], "%0", &of);
    scene.leave();
    scene.derived(made, weight);
    scene.load_cached("%0", made);
    if frees_original {
        scene.free(weight);
    }
    let result = scene.make("ttnn.full", &[], "%1", &bytes(100 * MIB));
    scene.free(result);
    scene
}

/// The changed program saves exactly what is stated.
#[test]
fn changed_programs_save_what_is_stated() {
    let exact = |rule: &str, scene: fn() -> Scene, changed: Scene| {
        let found = scene().only(rule);
        assert_eq!(saves(&found), Some(peak(scene()) - peak(changed)), "{}", found.message);
    };
    exact("matmul_at_peak", || product(false), product(true));
    exact("bf16_weights", || weighted("bf16"), weighted("bfp_bf8"));
    exact("kv_cache", || attending(8, 1024), attending(8, 512));
    exact("kv_cache", || attending(8, 1024), attending(4, 1024));
    exact("weights_expanded", || broadcast(true), broadcast(false));
    exact("weights_kept_twice", || converted(false), converted(true));
    weighted("bfp_bf8").silent("bf16_weights");
    broadcast(false).silent("weights_expanded");
    converted(true).silent("weights_kept_twice");
}

/// A device of PyTorch that reserved, and used, so much memory at each step.
fn reserving(states: &[(u64, u64)]) -> Profile {
    let mut builder = Builder::new();
    let mut say = |event: Event<'_>| builder.take(event).unwrap();
    say(Event::Source(Source { format: "torch_snapshot".into(), file: "made.pickle".into() }));
    say(Event::Rank { label: None });
    say(Event::Text("cuda:0".into()));
    let (rank, pool) = (RankId::new(0).unwrap(), PoolId::new(0).unwrap());
    let name = StrId::new(0).unwrap();
    say(Event::Of(rank, RankEvent::Pool { name, banks: Some(1), quantum: 0 }));
    say(Event::Op(Op::new(name, OpKind::Compute)));
    let row = StepRow { op: OpId::new(0).unwrap(), run: None, offset: 0, marks: StepMarks::default() };
    for _ in states {
        say(Event::Of(rank, RankEvent::Step(row)));
    }
    for (at, &(reserved, active)) in (0..).zip(states) {
        let reading = Reading {
            allocated: Some(active),
            active: Some(active),
            reserved: Some(reserved),
            ..Reading::default()
        };
        say(Event::Of(rank, RankEvent::State(pool, Moment::late(at), reading)));
    }
    say(Event::End);
    builder.finish()
}

#[test]
fn reserved_unallocated() {
    let found = |states: &[(u64, u64)]| -> Vec<Suggestion> {
        let answer = summary(&[reserving(states)], &Request::default()).unwrap();
        let all = answer.ranks.into_iter().flat_map(|rank| rank.suggestions);
        all.filter(|one| one.rule == "reserved_unallocated").collect()
    };
    // The last reservation was needed although 12 MiB were free.
    let [one] = &found(&[(20 * MIB, 19 * MIB), (100 * MIB, 88 * MIB), (100 * MIB, 10 * MIB)])[..] else {
        panic!()
    };
    says(one, &["up to 100.0 MiB of cuda:0", "never uses more than 88.0 MiB", "expandable_segments:True"]);
    says(one, &["reserved memory by up to 12.0 MiB"]);
    assert_eq!(one.saves_per_bank, None);
    // The later peak of allocated memory needs the memory that was free first.
    assert_eq!(found(&[(20 * MIB, 0), (100 * MIB, 0), (100 * MIB, 95 * MIB)]), []);
    // A history that begins after the maximum does not say what was needed.
    assert_eq!(found(&[(100 * MIB, 10 * MIB), (100 * MIB, 20 * MIB)]), []);
    // Memory that is free later is only kept for the next request.
    assert_eq!(found(&[(100 * MIB, 91 * MIB), (100 * MIB, 10 * MIB)]), []);
}

proptest! {
    #[test]
    fn freeing_early_saves_what_the_changed_program_saves(
        sizes in prop::collection::vec(1..100_u64, 2..14),
        delays in prop::collection::vec(0..6_usize, 14),
    ) {
        let (late, early) = (peak(delayed(&sizes, Some(&delays))), peak(delayed(&sizes, None)));
        let found = delayed(&sizes, Some(&delays)).of_rule("free_after_last_use");
        let said = found.first().and_then(|one| one.saves_per_bank);
        prop_assert_eq!(said, Some(late - early).filter(|saved| *saved > 0 && saved * 100 >= late));
    }
}
