//! Each rule fires with the right numbers, and is silent just below its threshold.

mod lives;
mod scene;

use ttmem::model::{Class, FaultKind, TensorId};
use ttmem::query::{Request, RunFilter, Statement, Suggestion, Urgency, suggestion_names, summary};
use ttmem_testkit::tt::{Options, Scenario, make};

use scene::{BANK, BANKS, KIB, L1_BANK, MIB, Of, Scene, bytes, tiled};

/// What a suggestion saves of a bank; that of the device must be as much of all banks.
#[track_caller]
fn saves(suggestion: &Suggestion) -> Option<u64> {
    assert_eq!(suggestion.saves_bytes, suggestion.saves_per_bank.map(|saved| saved * u64::from(BANKS)));
    suggestion.saves_per_bank
}

#[track_caller]
fn says(suggestion: &Suggestion, words: &[&str]) {
    for word in words {
        assert!(suggestion.message.contains(word), "{word} is not in: {}", suggestion.message);
    }
}

/// A scene that holds so much of each bank of DRAM.
fn holding(per_bank: u64) -> Scene {
    let mut scene = Scene::new();
    scene.make("ttnn.full", &[], "%0", &bytes(per_bank));
    scene
}

#[test]
fn dram_over_90() {
    let found = holding(900 * MIB + 1).only("dram_over_90");
    assert_eq!((saves(&found), found.step, &*found.pool), (None, Some(0), "DRAM"));
    let found = holding(950 * MIB).only("dram_over_90");
    says(&found, &["95.0% full", "50.0 MiB/bank (400.0 MiB on the device) is free", "may run out"]);
    says(&found, &["To stay below 80%, save 150.0 MiB/bank (1.17 GiB on the device)"]);
    holding(900 * MIB).silent("dram_over_90");
}

#[test]
fn dram_over_80() {
    let found = holding(800 * MIB + 1).only("dram_over_80");
    assert!(!found.message.contains("may run out"), "{}", found.message);
    says(
        &holding(850 * MIB).only("dram_over_80"),
        &["85.0% full", "save 50.0 MiB/bank (400.0 MiB on the device)"],
    );
    holding(900 * MIB).only("dram_over_80");
    holding(900 * MIB + 1).silent("dram_over_80");
    holding(800 * MIB).silent("dram_over_80");
}

#[test]
fn l1_over_90_and_95() {
    let holding = |per_bank: u64| {
        let mut scene = Scene::new();
        scene.make("ttnn.to_memory_config", &[], "%0", &bytes(per_bank).in_l1());
        scene
    };
    let found = holding(L1_BANK / 100 * 96).only("l1_over_95");
    says(&found, &["L1 is 96.0% full", "40.0 KiB/bank (2.5 MiB on the device) is free", "spill to DRAM"]);
    says(&found, &["To stay below 90%, save 60.0 KiB/bank (3.8 MiB on the device)"]);
    assert_eq!((found.step, &*found.pool), (Some(0), "L1"));
    holding(L1_BANK / 100 * 95).silent("l1_over_95");
    says(&holding(L1_BANK / 100 * 95).only("l1_over_90"), &["95.0% full"]);
    holding(L1_BANK / 100 * 90 + 1).only("l1_over_90");
    holding(L1_BANK / 100 * 90).silent("l1_over_90");
}

/// A tensor that only an element-wise operation uses.
fn element_wise(scene: &mut Scene, name: &str, of: &Of) -> TensorId {
    let tensor = scene.make("ttnn.relu", &[], name, of);
    scene.touch(name, of);
    tensor
}

#[test]
fn padding_over_50() {
    // Three times 21 rows take three times 32: 52.4 % more. Folded, 63 rows take two tiles instead of three.
    let mut scene = Scene::new();
    let thin = element_wise(&mut scene, "%0", &tiled(&[3, 21, 256 * 32], "bf16"));
    scene.free(thin);
    let found = scene.only("padding_over_50");
    says(&found, &["adds 52.4%", "528.0 KiB of 1.5 MiB on the device", "multiples of 32"]);
    assert_eq!(saves(&found), Some(256 / 8 * 2048));
    says(&found, &["lowers the peak by 64.0 KiB/bank (512.0 KiB on the device)"]);

    // 22 rows: 45.5 % more.
    let mut scene = Scene::new();
    scene.make("ttnn.relu", &[], "%0", &tiled(&[3, 22, 256 * 32], "bf16"));
    scene.silent("padding_over_50");
}

#[test]
fn padding_of_a_tensor_over_50() {
    let padded = |scene: &mut Scene, name: &str| element_wise(scene, name, &tiled(&[3, 21, 8192], "bf16"));
    let mut scene = Scene::new();
    let thin = padded(&mut scene, "%0");
    scene.free(thin);
    let found = scene.only("tensor_padding_over_50");
    says(
        &found,
        &["%0, 3x21x8192 (bf16), is padded by 52.4%", "Reshaping it to 1x63x8192 (same elements) lowers"],
    );
    assert_eq!((saves(&found), found.step), (Some(64 * KIB), Some(0)));

    let mut scene = Scene::new();
    scene.make("ttnn.relu", &[], "%0", &tiled(&[3, 22, 8192], "bf16"));
    scene.silent("tensor_padding_over_50");

    // Saving 64 KiB is worth a sentence where that is a hundredth of the peak.
    for (others, fires) in [(99 * 64 * KIB - 128 * KIB, true), (100 * 64 * KIB, false)] {
        let mut scene = Scene::new();
        let thin = padded(&mut scene, "%0");
        scene.make("ttnn.full", &[], "%1", &bytes(others));
        scene.free(thin);
        assert_eq!(scene.of_rule("tensor_padding_over_50").len(), usize::from(fires), "{others}");
    }
}

/// What is said of `%0`, of 3x21x8192, after steps that use it; it is given back in the end.
fn of_shape(uses: impl FnOnce(&mut Scene, &Of)) -> Vec<Suggestion> {
    let thin = tiled(&[3, 21, 8192], "bf16");
    let mut scene = Scene::new();
    let tensor = scene.make("ttnn.full", &[], "%0", &thin);
    uses(&mut scene, &thin);
    scene.free(tensor);
    scene.of_rule("tensor_padding_over_50")
}

#[test]
fn a_shape_is_proposed_only_where_nothing_depends_on_it() {
    let small = tiled(&[3, 1, 8192], "bf16");
    let scalar = tiled(&[1, 1, 1], "bf16");
    let flat = tiled(&[1, 63, 8192], "bf16");
    // A scalar goes with any shape.
    let free = of_shape(|scene, thin| {
        let sum = scene.compute("ttnn.add", &[("%0", thin), ("%s", &scalar)], "%1", thin);
        scene.free(sum);
    });
    assert!(!free.is_empty() && free.iter().all(|one| one.message.contains("to 1x63x8192")), "{free:?}");

    let tied = |op: &str, other: Option<&Of>, result: &Of| {
        let found = of_shape(|scene, thin| {
            let operands: Vec<(&str, &Of)> =
                std::iter::once(("%0", thin)).chain(other.map(|of| ("%o", of))).collect();
            let made = scene.compute(op, &operands, "%1", result);
            scene.free(made);
        });
        for one in &found {
            assert!(!one.message.contains("Reshaping") && one.saves_per_bank.is_none(), "{op}: {one:?}");
            assert!(one.message.contains(&format!("{op} would need to change too")), "{op}: {one:?}");
        }
        assert!(!found.is_empty(), "{op}");
    };
    let thin = tiled(&[3, 21, 8192], "bf16");
    tied("ttnn.mean", None, &small);
    tied("ttnn.softmax", None, &thin);
    tied("ttnn.add", Some(&small), &thin);
    tied("ttnn.slice_static", None, &small);
    tied("ttnn.reshape", None, &flat);
    tied("ttnn.matmul", Some(&thin), &thin);
    tied("ttnn.an_operation_of_tomorrow", None, &thin);
}

#[test]
fn what_element_wise_operations_tie_together_has_one_shape() {
    // The mean is of what comes of `%0`, two operations later.
    let found = of_shape(|scene, thin| {
        let relu = scene.compute("ttnn.relu", &[("%0", thin)], "%1", thin);
        let exp = scene.compute("ttnn.exp", &[("%1", thin)], "%2", thin);
        let mean = scene.compute("ttnn.mean", &[("%2", thin)], "%3", &tiled(&[3, 1, 8192], "bf16"));
        for tensor in [relu, exp, mean] {
            scene.free(tensor);
        }
    });
    let found = found.iter().find(|one| one.message.contains("3x21x8192")).unwrap();
    says(found, &["3 tensors of shape 3x21x8192", "ttnn.mean would need to change too"]);
    assert_eq!(found.saves_per_bank, None);
}

#[test]
fn results_that_are_returned_prepared_or_never_used_get_no_shape() {
    let thin = tiled(&[3, 21, 8192], "bf16");
    let mut scene = Scene::new();
    element_wise(&mut scene, "%0", &thin);
    says(&scene.only("tensor_padding_over_50"), &["the program returns it"]);

    let mut scene = Scene::new();
    let bias = scene.make("ttnn.prepare_conv2d_bias", &[], "%0", &thin);
    scene.touch("%0", &thin);
    scene.free(bias);
    scene.silent("tensor_padding_over_50");

    assert_eq!(of_shape(|_, _| ()), []);
}

#[test]
fn shapes_that_only_other_sizes_would_save_are_not_suggested() {
    // 50257 rows would be 50272, which takes no byte less.
    let mut scene = Scene::new();
    scene.make("ttnn.relu", &[], "%0", &tiled(&[33, 32], "bf16"));
    says(&scene.only("padding_over_50"), &["adds 93.9%"]);
    let mut scene = Scene::new();
    scene.make("ttnn.relu", &[], "%0", &tiled(&[33, 32], "bf16"));
    scene.silent("tensor_padding_over_50");
}

/// A weight of 8 MiB a bank and what a const-eval program makes of it, then something of a size.
fn kept_twice(others: u64) -> (Scene, TensorId) {
    let mut scene = Scene::new();
    let weight = scene.argument("%arg0", &tiled(&[4096, 8192], "bf16").class(Class::Weight));
    scene.enter("main_const_eval_0", true);
    let made =
        scene.make("ttnn.permute", &["%arg0"], "%0", &tiled(&[8192, 4096], "bf16").class(Class::Weight));
    scene.leave();
    scene.derived(made, weight);
    scene.load_cached("%0", made);
    scene.make("ttnn.full", &[], "%1", &bytes(others));
    (scene, weight)
}

#[test]
fn weights_kept_twice() {
    let found = kept_twice(4 * MIB).0.only("weights_kept_twice");
    says(&found, &["1 weight is stored twice in DRAM", "8.0 MiB/bank, 40.0% of the DRAM peak"]);
    // Once the original may go, the peak is that of const-eval, when both must be there: 16 MiB.
    assert_eq!(saves(&found), Some(4 * MIB));
    assert_eq!(saves(&kept_twice(100 * MIB).0.only("weights_kept_twice")), Some(8 * MIB));

    // At least a hundredth of the peak: 8 of 800.
    kept_twice(784 * MIB).0.only("weights_kept_twice");
    kept_twice(785 * MIB).0.silent("weights_kept_twice");

    let (mut scene, weight) = kept_twice(4 * MIB);
    scene.free(weight);
    scene.make("ttnn.full", &[], "%2", &bytes(100 * MIB));
    scene.silent("weights_kept_twice");
}

#[test]
fn matmul_at_peak() {
    // Two operands of 4 MiB and a result of 2 MiB a bank: a tenth of 100.
    let with = |others: u64| {
        let mut scene = Scene::new();
        scene.argument("%arg0", &bytes(others).class(Class::Input));
        scene.argument("%arg1", &tiled(&[4096, 4096], "bf16"));
        scene.argument("%arg2", &tiled(&[4096, 4096], "bf16"));
        let product = scene.make("ttnn.matmul", &["%arg1", "%arg2"], "%0", &tiled(&[2048, 4096], "bf16"));
        scene.free(product);
        scene
    };
    let found = with(90 * MIB).only("matmul_at_peak");
    says(&found, &["Step 0, ttnn.matmul,", "brings DRAM to its peak", "2048x4096 (bf16)"]);
    says(&found, &["10.0 MiB/bank, 10.0% of the DRAM peak", "lowers the peak by 1.0 MiB/bank"]);
    assert_eq!((saves(&found), found.step), (Some(MIB), Some(0)));
    with(90 * MIB + 1).silent("matmul_at_peak");
}

#[test]
fn a_matmul_that_begins_at_the_peak() {
    let mut scene = Scene::new();
    let operand = scene.make("ttnn.embedding", &[], "%0", &tiled(&[4096, 4096], "bf16"));
    scene.run("ttnn.linear", &["%0"]);
    scene.free(operand);
    let found = scene.only("matmul_at_peak");
    says(
        &found,
        &["Step 1, ttnn.linear,", "starts with DRAM at its peak: its operands take 4.0 MiB/bank, 100.0%"],
    );
    assert_eq!((saves(&found), found.step), (None, Some(1)));
}

/// Arguments and cached results are named once, and used by every run of the program.
#[test]
fn operands_of_a_later_run_are_known() {
    for cached in [false, true] {
        let mut scene = Scene::new();
        let weight = scene.argument("%arg0", &bytes(90 * MIB).class(Class::Weight));
        scene.argument("%arg1", &bytes(MIB));
        let operand = if cached { "%0" } else { "%arg0" };
        scene.load_cached("%0", weight);
        scene.leave();
        scene.enter("main", false);
        scene.make("ttnn.matmul", &["%arg1", operand], "%1", &bytes(3 * MIB));
        let found = scene.only("matmul_at_peak");
        says(&found, &["Step 1, ttnn.matmul,", "94.0 MiB/bank, 100.0% of the DRAM peak"]);
    }
}

#[test]
fn what_another_run_or_program_calls_so_is_no_operand() {
    let with = |program: &str| {
        let mut scene = Scene::new();
        scene.make("ttnn.relu", &[], "%0", &bytes(90 * MIB));
        scene.argument("%arg0", &bytes(9 * MIB));
        scene.leave();
        scene.enter(program, false);
        scene.make("ttnn.matmul", &["%0", "%arg0"], "%1", &bytes(3 * MIB));
        scene
    };
    // 12 MiB of 102; without the argument, which is another's, 3.
    says(&with("main").only("matmul_at_peak"), &["12.0 MiB/bank, 11.8% of the DRAM peak"]);
    with("other").silent("matmul_at_peak");
}

#[test]
fn reduction_at_peak() {
    let with = |op: &str, others: u64| {
        let mut scene = Scene::new();
        scene.argument("%arg0", &bytes(others).class(Class::Input));
        scene.argument("%arg1", &tiled(&[4096, 4096], "bf16"));
        let result = scene.make(op, &["%arg1"], "%0", &tiled(&[4096, 4096], "bf16"));
        scene.free(result);
        scene
    };
    for op in ["ttnn.softmax", "ttnn.mean", "ttnn.sum", "ttnn.max", "ttnn.rms_norm", "ttnn.argmax"] {
        let found = with(op, 72 * MIB).only("reduction_at_peak");
        says(&found, &[op, "8.0 MiB/bank, 10.0% of the DRAM peak", "intermediate buffers"]);
        assert_eq!(saves(&found), Some(2 * MIB), "{op}");
        with(op, 72 * MIB + 1).silent("reduction_at_peak");
    }
    with("ttnn.relu", 0).silent("reduction_at_peak");
}

#[test]
fn operations_at_the_peak_are_known_without_tensors() {
    let mut log = Vec::new();
    let options = Options { level: ttmem_testkit::tt::Level::Info, ..Options::default() };
    make(Scenario::Vae, &options, &mut log).unwrap();
    // Whatever runs at the peak of such a log, nothing is said that only tensors could tell.
    for suggestion in suggestions_of(&log) {
        assert!(
            ["matmul_at_peak", "reduction_at_peak", "fragmentation", "dram_over_80", "dram_over_90"]
                .contains(&suggestion.rule)
        );
        assert_eq!(suggestion.saves_per_bank, None);
    }
}

#[test]
fn load_cached() {
    let with = |others: u64| {
        let mut scene = Scene::new();
        scene.enter("main_const_eval_0", true);
        let made = scene.make("ttnn.permute", &[], "%0", &tiled(&[4096, 4096], "bf16").class(Class::Weight));
        scene.leave();
        scene.load_cached("%0", made);
        scene.make("ttnn.full", &[], "%1", &bytes(others));
        scene.load_cached("%2", made);
        scene
    };
    let found = with(36 * MIB).only("load_cached");
    says(
        &found,
        &["2 ttcore.load_cached, steps 1 to 3 of 4,", "4.0 MiB/bank, 10.0% of the DRAM peak", "normal"],
    );
    assert_eq!((saves(&found), found.step), (None, Some(1)));
    with(36 * MIB + 1).silent("load_cached");
}

#[test]
fn weights_expanded() {
    let with = |weight: &[u64], others: u64| {
        let mut scene = Scene::new();
        scene.enter("main_const_eval_0", true);
        let made = scene.make("ttnn.repeat", &[], "%0", &tiled(&[4096, 4096], "bf16").class(Class::Weight));
        scene.leave();
        scene.origin(made, &tiled(weight, "bf16"));
        scene.load_cached("%0", made);
        scene.make("ttnn.full", &[], "%1", &bytes(others));
        scene
    };
    let found = with(&[32, 4096], 36 * MIB).only("weights_expanded");
    says(
        &found,
        &[
            "1 const-eval result, expanded from 256.0 KiB of weights, takes 4.0 MiB/bank, 10.0% of the DRAM peak",
        ],
    );
    says(&found, &["the largest is %0, 4096x4096 (bf16)"]);
    assert_eq!((saves(&found), found.step), (Some(4 * MIB - 32 * KIB), Some(0)));
    with(&[32, 4096], 36 * MIB + 1).silent("weights_expanded");
    // Twice what it was made from, and just less.
    with(&[2048, 4096], 0).only("weights_expanded");
    with(&[2049, 4096], 0).silent("weights_expanded");
}

#[test]
fn f32_tensors() {
    let with = |others: u64| {
        let mut scene = Scene::new();
        scene.make("ttnn.relu", &[], "%0", &tiled(&[4096, 4096], "f32"));
        scene.make("ttnn.full", &[], "%1", &bytes(others));
        scene
    };
    let found = with(72 * MIB).only("f32_tensors");
    says(&found, &["1 f32 tensor takes 8.0 MiB/bank, 10.0% of the DRAM peak", "Storing it as bf16"]);
    assert_eq!(saves(&found), Some(4 * MIB));
    says(&found, &["lowers the peak by 4.0 MiB/bank (32.0 MiB on the device)"]);
    with(72 * MIB + 1).silent("f32_tensors");
}

#[test]
fn bf16_weights() {
    let with = |others: u64| {
        let mut scene = Scene::new();
        scene.argument("%arg0", &tiled(&[4096, 4096], "bf16").class(Class::Weight));
        scene.argument("%arg1", &bytes(others).class(Class::Input));
        scene.run("ttnn.embedding", &["%arg0"]);
        scene
    };
    let found = with(4 * MIB).only("bf16_weights");
    says(&found, &["1 bf16 weight takes 4.0 MiB/bank, 50.0% of the DRAM peak", "Storing it as bfp_bf8"]);
    // 960 of the 2048 bytes of every tile.
    assert_eq!(saves(&found), Some(4 * MIB / 2048 * 960));
    with(4 * MIB + 1).silent("bf16_weights");
}

#[test]
fn kv_cache() {
    let with = |op: &str, place: usize, others: u64| {
        let mut scene = Scene::new();
        scene.argument("%arg0", &tiled(&[8, 8, 1024, 64], "bf16").class(Class::Input));
        scene.argument("%arg1", &bytes(others).class(Class::Weight));
        let mut operands = vec!["%arg1"; 4];
        operands[place] = "%arg0";
        scene.run(op, &operands);
        scene
    };
    let attention = "ttnn.scaled_dot_product_attention_decode";
    for (op, place) in
        [("ttnn.update_cache", 0), ("ttnn.paged_fill_cache", 0), (attention, 1), (attention, 2)]
    {
        // A cache of 1 MiB a bank: 30 % where there are 2.33 more, of weights.
        let others = MIB * 7 / 3;
        let scene = with(op, place, others);
        let found = scene.only("kv_cache");
        says(
            &found,
            &["1 KV cache takes 1.0 MiB/bank, 30.0% of the DRAM peak", "Halving the context length"],
        );
        assert_eq!(saves(&found), Some(MIB / 2));
        with(op, place, others + 2).silent("kv_cache");
    }
    with("ttnn.matmul", 0, 0).silent("kv_cache");
}

#[test]
fn fragmentation() {
    let with = |allocated: u64, largest: u64| {
        let mut scene = holding(allocated);
        scene.run("ttnn.relu", &[]);
        scene.largest_piece = Some(largest);
        scene
    };
    let found = with(700 * MIB, 149 * MIB).only("fragmentation");
    says(&found, &["Before step 1, 300.0 MiB/bank of DRAM is free", "the largest free block is 149.0 MiB"]);
    assert_eq!((saves(&found), found.step), (None, Some(1)));
    with(700 * MIB, 150 * MIB).silent("fragmentation");
    // A quarter of a bank in one piece is enough for most.
    with(400 * MIB, BANK / 4 - 1).only("fragmentation");
    with(400 * MIB, BANK / 4).silent("fragmentation");
    // At the peak, also where more was in pieces before.
    let mut scene = with(700 * MIB, 140 * MIB);
    scene.make("ttnn.full", &[], "%1", &bytes(10 * MIB));
    says(&scene.only("fragmentation"), &["Before step 3, 290.0 MiB/bank"]);
    // What is full is not in pieces.
    with(990 * MIB, 4 * MIB).only("fragmentation");
    with(990 * MIB + 1, 4 * MIB).silent("fragmentation");
}

#[test]
fn unexplained() {
    let with = |hidden: u64| {
        let mut scene = Scene::new();
        scene.make("ttnn.full", &[], "%0", &bytes(99 * MIB));
        scene.run("ttnn.reshape", &["%0"]);
        scene.hide(hidden);
        scene.run("ttnn.relu", &["%0"]);
        scene
    };
    let found = with(MIB).only("unexplained");
    says(&found, &["1.0 MiB/bank, 1.0% of the DRAM peak, is not explained by tensors"]);
    says(&found, &["ttnn.reshape retains 1.0 MiB/bank of it, allocated in 1 step", "program cache"]);
    assert_eq!((saves(&found), found.step), (None, Some(1)));
    with(MIB - 1).silent("unexplained");
}

#[test]
fn unexplained_bytes_that_come_again_and_again() {
    let mut scene = Scene::new();
    scene.make("ttnn.full", &[], "%0", &bytes(90 * MIB));
    for times in 1..=5 {
        scene.run("ttnn.reshape", &["%0"]);
        scene.hide(times * MIB);
    }
    let found = scene.only("unexplained");
    says(&found, &["5.0 MiB/bank", "in 5 steps", "--run last"]);
}

#[test]
fn unexplained_bytes_that_were_there_before() {
    let mut scene = Scene::new();
    scene.hide(4 * MIB);
    scene.make("ttnn.full", &[], "%0", &bytes(90 * MIB));
    let found = scene.only("unexplained");
    says(&found, &["4.0 MiB/bank, 4.3%", "4.0 MiB/bank was allocated before the first step"]);
    assert_eq!(found.step, None);
}

#[test]
fn out_of_memory_of_every_cause() {
    let oom = |pool: &'static str, need: u64, free: u64, largest: u64| {
        let mut scene = holding(400 * MIB);
        scene.fail("ttnn.matmul", pool, |fault| {
            fault.requested_per_bank = Some(need);
            fault.requested_total = Some(need * u64::from(BANKS));
            fault.bank_size = Some(BANK);
            fault.free = Some(free);
            fault.largest_free = Some(largest);
        });
        scene.only("out_of_memory")
    };
    let found = oom("DRAM", 650 * MIB, 600 * MIB, 600 * MIB);
    says(&found, &["Step 1, ttnn.matmul, needs 50.0 MiB/bank more DRAM (400.0 MiB on the device)"]);
    assert_eq!((saves(&found), found.step), (None, Some(1)));
    let found = oom("DRAM", 300 * MIB, 600 * MIB, 200 * MIB);
    says(&found, &["needs 100.0 MiB/bank more contiguous DRAM", "600.0 MiB was free", "block was 200.0 MiB"]);
    says(&oom("DRAM", 2500 * MIB, 600 * MIB, 600 * MIB), &["a bank has 1000.0 MiB", "into at least 3 parts"]);
    says(&oom("L1", 2 * BANK, 0, 0), &["of L1", "into at least 2 parts"]);

    let mut scene = holding(MIB);
    scene.fail("ttnn.conv2d", "L1", |fault| {
        fault.kind = FaultKind::CircularBuffersClash;
        fault.region_end = Some(1_200_000);
        fault.limit = Some(1_190_000);
    });
    says(&scene.only("out_of_memory"), &["needs 9.8 KiB more L1 per core for its circular buffers"]);
    let mut scene = holding(MIB);
    scene.fail("ttnn.execute_trace", "TRACE", |fault| fault.kind = FaultKind::TraceRegion);
    says(&scene.only("out_of_memory"), &["trace_region_size"]);
    let mut scene = holding(MIB);
    scene.fail("ttnn.matmul", "DRAM", |_| {});
    says(&scene.only("out_of_memory"), &["does not say how much"]);
    holding(MIB).silent("out_of_memory");
}

#[test]
fn fragmentation_is_not_said_twice() {
    let mut scene = holding(700 * MIB);
    scene.largest_piece = Some(100 * MIB);
    scene.fail("ttnn.matmul", "DRAM", |fault| {
        fault.requested_per_bank = Some(200 * MIB);
        fault.free = Some(300 * MIB);
        fault.largest_free = Some(100 * MIB);
    });
    let rules: Vec<&str> = scene.suggestions().iter().map(|one| one.rule).collect();
    assert_eq!(rules, ["out_of_memory"]);
}

#[test]
fn a_saving_counts_only_as_far_as_the_peak_falls() {
    // The second run has its peak without f32, and nearly as high.
    let mut scene = Scene::new();
    let wide = scene.make("ttnn.relu", &[], "%0", &tiled(&[4096, 4096], "f32"));
    scene.free(wide);
    scene.make("ttnn.full", &[], "%1", &bytes(7 * MIB));
    let found = scene.only("f32_tensors");
    says(&found, &["8.0 MiB/bank, 100.0%", "by 1.0 MiB/bank (8.0 MiB on the device)"]);
    assert_eq!(saves(&found), Some(MIB));

    // As high: nothing would be saved, and nothing is said.
    let mut scene = Scene::new();
    let wide = scene.make("ttnn.relu", &[], "%0", &tiled(&[4096, 4096], "f32"));
    scene.free(wide);
    scene.make("ttnn.full", &[], "%1", &bytes(8 * MIB));
    scene.silent("f32_tensors");
}

#[test]
fn a_change_to_a_model_changes_all_its_runs() {
    // The same operation makes the same tensor in two runs: both peaks fall.
    let mut scene = Scene::new();
    for name in ["%0", "%1"] {
        let wide = scene.make("ttnn.relu", &[], name, &tiled(&[4096, 4096], "f32"));
        scene.free(wide);
    }
    assert_eq!(saves(&scene.only("f32_tensors")), Some(4 * MIB));
}

#[test]
fn the_most_urgent_comes_first_then_what_saves_most() {
    let mut scene = Scene::new();
    scene.make("ttnn.full", &[], "%1", &bytes(850 * MIB));
    let thin = element_wise(&mut scene, "%0", &tiled(&[64, 4, 65536], "f32"));
    scene.free(thin);
    scene.fail("ttnn.matmul", "DRAM", |fault| {
        fault.requested_per_bank = Some(200 * MIB);
        fault.free = Some(100 * MIB);
    });
    let rules: Vec<&str> = scene.suggestions().iter().map(|one| one.rule).collect();
    assert_eq!(rules[..2], ["out_of_memory", "dram_over_90"]);
    assert_eq!(rules[2..], ["padding_over_50", "tensor_padding_over_50"]);
}

#[test]
fn combinations_count_each_byte_once() {
    // Both would fold the same tensors; the wide ones are other bytes.
    let mut scene = Scene::new();
    let wide = scene.make("ttnn.full", &[], "%1", &tiled(&[4096, 1024], "f32"));
    let thin = element_wise(&mut scene, "%0", &tiled(&[32, 4, 8192], "bf16"));
    scene.free(thin);
    scene.free(wide);
    let profile = scene.finish();
    let rank = summary(&[profile], &Request::default()).unwrap().ranks.remove(0);
    let rules: Vec<&str> = rank.suggestions.iter().map(|one| one.rule).collect();
    assert_eq!(rules, ["padding_over_50", "tensor_padding_over_50", "f32_tensors"]);
    let saved = |index: usize| rank.suggestions[index].saves_per_bank.unwrap();
    let [combination] = &rank.combinations[..] else { panic!("{:?}", rank.combinations) };
    assert_eq!((&combination.suggestions[..], &*combination.pool), (&[0, 2][..], "DRAM"));
    assert_eq!(combination.saves_per_bank, saved(0) + saved(2));
    assert_eq!(combination.saves_bytes, Some(combination.saves_per_bank * u64::from(BANKS)));
    check(&rank);
}

/// Tensors that come, each the n-th of a list of kinds, and sometimes go again.
fn coming_and_going(kinds: &[Of], events: &[(usize, bool)]) -> Scene {
    let mut scene = Scene::new();
    let mut alive = Vec::new();
    for (number, (kind, frees)) in events.iter().enumerate() {
        alive.push(element_wise(&mut scene, &format!("%{number}"), &kinds[kind % kinds.len()]));
        if *frees {
            scene.free(alive.remove(kind % alive.len()));
        }
    }
    for tensor in alive {
        scene.free(tensor);
    }
    scene
}

/// Asserts that what a rule saves is what the peak is lower by where the change was made.
fn saves_what_the_change_saves(rule: &str, now: &[Of], then: &[Of], events: &[(usize, bool)]) {
    let peak = |kinds: &[Of]| {
        let answer = summary(&[coming_and_going(kinds, events).finish()], &Request::default()).unwrap();
        answer.ranks[0].pools.get("DRAM").unwrap().peak_per_bank.unwrap()
    };
    let (before, after) = (peak(now), peak(then));
    let found = coming_and_going(now, events).of_rule(rule);
    let worth_saying = before > after && (before - after) * 100 >= before;
    if let [found] = &found[..] {
        assert_eq!(found.saves_per_bank, Some(before - after), "{found:?}");
        assert!(worth_saying, "{found:?}");
    }
}

proptest::proptest! {
    #[test]
    fn a_saving_is_what_the_change_saves(
        events in proptest::collection::vec((0usize..12, proptest::bool::ANY), 1..24),
    ) {
        let kinds = |shape: &[u64], dtype| vec![tiled(shape, dtype), bytes(MIB), tiled(&[1024, 1024], "bf16")];
        let (wide, narrow) = (kinds(&[2048, 1024], "f32"), kinds(&[2048, 1024], "bf16"));
        saves_what_the_change_saves("f32_tensors", &wide, &narrow, &events);
        let (thin, folded) = (kinds(&[32, 4, 8192], "bf16"), kinds(&[1, 128, 8192], "bf16"));
        saves_what_the_change_saves("padding_over_50", &thin, &folded, &events);
        saves_what_the_change_saves("tensor_padding_over_50", &thin, &folded, &events);
    }
}

fn suggestions_of(log: &[u8]) -> Vec<Suggestion> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.log");
    std::fs::write(&file, log).unwrap();
    let profile = ttmem::read::open(&file.display().to_string()).unwrap();
    let mut all = Vec::new();
    for run in [RunFilter::All, RunFilter::Last] {
        let request = Request { run, ..Request::default() };
        let Ok(answer) = summary(std::slice::from_ref(&profile), &request) else { continue };
        for rank in answer.ranks {
            check(&rank);
            all.extend(rank.suggestions);
        }
    }
    all
}

/// What holds for all suggestions.
fn check(rank: &ttmem::query::RankSummary) {
    assert!(rank.suggestions.len() <= 10);
    check_combinations(rank);
    let in_order: Vec<Option<u64>> = rank
        .suggestions
        .iter()
        .filter(|one| {
            !one.rule.contains("_over_9") && !one.rule.contains("_over_8") && one.rule != "out_of_memory"
        })
        .map(|one| one.saves_per_bank)
        .collect();
    assert!(in_order.is_sorted_by(|a, b| a >= b), "{in_order:?}");
    for suggestion in &rank.suggestions {
        let pool = rank.pools.get(&suggestion.pool);
        let (saves, peak) = (suggestion.saves_per_bank, pool.and_then(|pool| pool.peak_per_bank));
        assert!(saves.is_none_or(|saves| saves > 0 && Some(saves) <= peak), "{suggestion:?}");
        assert_eq!(suggestion.saves_bytes.is_some(), saves.is_some());
        check_parts(suggestion, rank);
        assert!(
            suggestion.message.chars().count() < 600 && suggestion.message.ends_with('.'),
            "{suggestion:?}"
        );
        assert!(
            suggestion.step.is_none_or(|step| step <= rank.operations.total || rank.runs == 1),
            "{suggestion:?}"
        );
    }
}

/// What holds for combinations: they save more than each of their parts, and no more than all of them.
fn check_combinations(rank: &ttmem::query::RankSummary) {
    for combination in &rank.combinations {
        let parts = || combination.suggestions.iter().map(|index| &rank.suggestions[*index]);
        let savings: Vec<u64> = parts().map(|part| part.saves_per_bank.unwrap()).collect();
        assert!(savings.len() > 1 && combination.suggestions.is_sorted(), "{combination:?}");
        assert!(savings.iter().all(|saves| *saves < combination.saves_per_bank), "{combination:?}");
        assert!(
            combination.saves_per_bank <= rank.pools.get(&combination.pool).unwrap().peak_per_bank.unwrap()
        );
        assert!(parts().all(|part| part.pool == combination.pool));
        assert_eq!(parts().map(|part| part.rule).collect::<Vec<_>>(), combination.rules);
    }
}

/// What holds for the parts of a suggestion.
fn check_parts(suggestion: &Suggestion, rank: &ttmem::query::RankSummary) {
    let Statement { headline, detail, advice } = &suggestion.statement;
    assert!(suggestion_names().any(|name| name == suggestion.rule), "{suggestion:?}");
    assert_eq!(suggestion.message, suggestion.statement.text());
    for part in [Some(headline), detail.as_ref(), advice.as_ref()].into_iter().flatten() {
        assert!(part.ends_with('.') && part.trim() == part, "{suggestion:?}");
    }
    assert!(suggestion.urgency != Urgency::Note || advice.is_none(), "{suggestion:?}");
    assert_eq!(suggestion.step, suggestion.steps.first().copied());
    assert_eq!(suggestion.steps.len(), suggestion.step_count.min(10), "{suggestion:?}");
    assert!(suggestion.steps.is_sorted(), "{suggestion:?}");
    assert_eq!(suggestion.tensors.is_some(), suggestion.tensor_count.is_some());
    assert_eq!(suggestion.urgency == Urgency::Failure, suggestion.rule == "out_of_memory");
    if let (Some(tensors), Some(count)) = (&suggestion.tensors, suggestion.tensor_count) {
        assert_eq!(tensors.len(), count.min(10), "{suggestion:?}");
        assert!(tensors.is_sorted_by(|a, b| a.per_bank >= b.per_bank), "{suggestion:?}");
        let peak = rank.pools.get(&suggestion.pool).and_then(|pool| pool.peak_per_bank);
        assert!(tensors.iter().all(|tensor| tensor.per_bank <= peak), "{suggestion:?}");
    }
}

fn parts(suggestion: &Suggestion) -> [Option<&str>; 3] {
    let Statement { headline, detail, advice } = &suggestion.statement;
    [Some(headline), detail.as_deref(), advice.as_deref()]
}

#[test]
fn a_suggestion_has_its_sentences_apart() {
    let found = holding(950 * MIB).only("dram_over_90");
    assert_eq!(
        parts(&found),
        [
            Some("DRAM is 95.0% full at its peak; 50.0 MiB/bank (400.0 MiB on the device) is free."),
            Some("The program may run out of memory."),
            Some(
                "To stay below 80%, save 150.0 MiB/bank (1.17 GiB on the device): reduce the batch size or the model \
                 size."
            ),
        ]
    );
    assert_eq!((found.urgency, &found.steps[..], found.tensor_count), (Urgency::Risk, &[0][..], Some(0)));

    // The message tells nothing: there is nothing to advise.
    let mut scene = holding(400 * MIB);
    scene.fail("ttnn.matmul", "DRAM", |_| {});
    let found = scene.only("out_of_memory");
    let [_, detail, advice] = parts(&found);
    assert_eq!((detail, advice, found.urgency), (None, None, Urgency::Failure));
}

#[test]
fn a_suggestion_lists_its_largest_tensors() {
    let scene = || {
        let mut scene = Scene::new();
        for number in 1..=12 {
            scene.make("ttnn.relu", &[], &format!("%{number}"), &tiled(&[number * 1024, 1024], "f32"));
        }
        scene.make("ttnn.full", &[], "%other", &bytes(MIB));
        scene
    };
    let found = scene().only("f32_tensors");
    let tensors = found.tensors.as_ref().unwrap();
    assert_eq!((found.tensor_count, tensors.len()), (Some(12), 10));
    let first = &tensors[0];
    assert_eq!((first.name.as_deref(), first.ssa.as_deref()), (Some("%12"), Some("%12")));
    assert_eq!((first.shape.as_deref(), first.dtype.as_deref()), (Some(&[12 * 1024, 1024][..]), Some("f32")));
    assert_eq!((first.per_bank, first.born_step), (Some(6 * MIB), Some(11)));

    // As many as are asked for.
    let request = Request { top: Some(3), ..Request::default() };
    let answer = summary(&[scene().finish()], &request).unwrap();
    let found = answer.ranks[0].suggestions.iter().find(|one| one.rule == "f32_tensors").unwrap();
    assert_eq!((found.tensor_count, found.tensors.as_ref().unwrap().len()), (Some(12), 3));
}

#[test]
fn a_suggestion_lists_its_first_steps() {
    let mut scene = Scene::new();
    scene.enter("main_const_eval_0", true);
    let made = scene.make("ttnn.permute", &[], "%0", &tiled(&[4096, 4096], "bf16").class(Class::Weight));
    scene.leave();
    for number in 1..=40 {
        scene.load_cached(&format!("%{number}"), made);
    }
    let found = scene.only("load_cached");
    assert_eq!((found.step_count, found.step), (40, Some(1)));
    assert_eq!(found.steps, (1..=10).collect::<Vec<_>>());
    says(&found, &["40 ttcore.load_cached, steps 1 to 40"]);

    let mut scene = Scene::new();
    scene.make("ttnn.full", &[], "%0", &bytes(90 * MIB));
    for times in 1..=12 {
        scene.run("ttnn.reshape", &["%0"]);
        scene.hide(times * MIB);
    }
    let found = scene.only("unexplained");
    assert_eq!((found.step_count, found.steps.len()), (12, 10));
    says(&found, &["in 12 steps"]);
}

/// Names are those of the evidence: no control character of theirs reaches a terminal in a sentence.
#[test]
fn sentences_have_no_control_characters() {
    let mut scene = holding(400 * MIB);
    scene.fail("ttnn.\u{1b}[31mmatmul\n", "DRAM", |_| {});
    let found = scene.only("out_of_memory");
    says(&found, &["ttnn.·[31mmatmul·"]);
}

#[test]
fn suggestions_of_made_logs_hold_together() {
    let mut fired = std::collections::BTreeSet::new();
    for scenario in Scenario::KINDS {
        for seed in 0..6 {
            let mut log = Vec::new();
            make(scenario, &Options { seed, keep: seed % 2 == 1, ..Options::default() }, &mut log).unwrap();
            fired.extend(suggestions_of(&log).into_iter().map(|one| one.rule));
        }
    }
    for rule in ["out_of_memory", "dram_over_90", "f32_tensors", "padding_over_50", "kv_cache", "load_cached"]
    {
        assert!(fired.contains(rule), "{rule} never fired, only {fired:?}");
    }
}
