//! `ttmem diff`: outputs, limits, exit codes and inputs that cannot be compared.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

/// The output on both streams of a call in the corpus that must exit with this code.
fn said(args: &[&str], code: i32) -> (String, String) {
    let mut command = Command::cargo_bin("ttmem").unwrap();
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").current_dir(corpus());
    let output = command.arg("diff").args(args).assert().code(code).get_output().clone();
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn json(before: &str, after: &str) -> Value {
    serde_json::from_str(&said(&[before, after, "--json", "--quiet"], 0).0).unwrap()
}

const CAPACITY: [&str; 2] = ["tt_log/oom-capacity.log", "guides/capacity-bf16.log"];
const LEAK: [&str; 2] = ["guides/flat.ttmem", "guides/grows.ttmem"];

#[test]
fn the_screen_of_a_changed_element_type() {
    let (screen, errors) = said(&CAPACITY, 0);
    assert_eq!(errors, "");
    insta::assert_snapshot!("diff-dtype", screen);
}

#[test]
fn a_comment_on_a_pull_request_is_short() {
    let [before, after] = LEAK;
    let (markdown, _) = said(&[before, after, "--markdown", "--quiet"], 0);
    assert!(markdown.len() < 2000, "{markdown}");
    insta::assert_snapshot!("diff-leak-markdown", markdown);
}

/// `grows.ttmem` keeps the output of the model in a list, and does not run the line that frees it.
#[test]
fn a_leak_is_the_first_change() {
    let answer = json(LEAK[0], LEAK[1]);
    let first = &answer["ranks"][0]["changes"][0];
    assert_eq!((&first["kind"], &first["tensors"]), (&"freed_later".into(), &29.into()));
    assert_eq!(first["after"]["made_in"], "head");
    assert_eq!(first["after"]["freed_before_step"], Value::Null);
    let pool = &answer["ranks"][0]["pools"]["cuda:0"];
    assert_eq!(pool["change_per_bank"], first["effect_per_bank"]);
    assert_eq!(pool["explained_per_bank"], pool["change_per_bank"]);
}

#[test]
fn a_larger_batch_is_one_change() {
    let answer = json("guides/batch32.ttmem", "guides/batch256.ttmem");
    let first = &answer["ranks"][0]["changes"][0];
    assert_eq!(first["detail"], "a dimension of 32 became 256");
}

#[test]
fn a_file_does_not_differ_from_itself() {
    let files = [
        "tt_log/vae-decoder.log",
        "tt_log/llm-decode.log",
        "tt_log/two-graphs.log",
        "ttnn_graph/sample-p150.json",
        "torch_snapshot/train_gpt2_30m.pickle.gz",
        "torch_snapshot/wrapped_ring_gpt2_30m.pickle.gz",
        "guides/batch32.ttmem",
        "tt_log/two-ranks-info-only.log",
    ];
    for file in files {
        let answer = json(file, file);
        for rank in answer["ranks"].as_array().unwrap() {
            assert_eq!(rank["verdict"], "No differences.", "{file}");
            assert_eq!(rank["changes"], Value::Array(Vec::new()), "{file}");
        }
    }
}

#[test]
fn the_other_direction_has_the_opposite_effects() {
    for [before, after] in [CAPACITY, LEAK, ["tt_log/vae-decoder.log", "tt_log/llm-decode.log"]] {
        let effects = |answer: &Value, sign: i64| {
            let changes = answer["ranks"][0]["changes"].as_array().unwrap().clone();
            let of = |row: &Value| (row["tensors"].as_u64(), row["effect_per_bank"].as_i64().unwrap() * sign);
            let mut effects: Vec<_> = changes.iter().map(of).collect();
            effects.sort_unstable();
            effects
        };
        assert_eq!(effects(&json(before, after), 1), effects(&json(after, before), -1), "{before} {after}");
    }
}

#[test]
fn growth_beyond_the_limit_exits_with_1() {
    let [before, after] = LEAK;
    let (_, errors) = said(&[before, after, "--quiet", "--fail-over", "5%"], 1);
    assert!(
        errors.contains("cuda:0: the peak grew by 29.00 GiB (124.0%), more than the limit of 5%"),
        "{errors}"
    );
    said(&[before, after, "--quiet", "--fail-over", "29GiB"], 0);
    said(&[before, after, "--quiet", "--fail-over", "124%"], 1);
    said(&[after, before, "--quiet", "--fail-over", "0%"], 0);
    let (_, errors) = said(&[before, after, "--fail-over", "many"], 2);
    assert!(errors.contains("expected bytes or a number with a unit"), "{errors}");
}

#[test]
fn inputs_that_cannot_be_compared_are_refused() {
    let (out, errors) = said(&["tt_log/vae-decoder.log", "guides/flat.ttmem"], 2);
    assert_eq!(out, "");
    assert!(errors.contains("cannot compare tt_log/vae-decoder.log (a Tenstorrent device)"), "{errors}");
    said(&["tt_log/vae-decoder.log", "missing.log"], 2);
    let (_, errors) = said(&["-", "-"], 2);
    assert!(errors.contains("standard input can be read only once"), "{errors}");
    let (_, errors) = said(&["tt_log/vae-decoder.log", "tt_log/vae-decoder.log", "--rank", "7"], 2);
    assert!(errors.contains("no rank"), "{errors}");
}

/// Logs of phases are compared phase by phase, at the higher peak.
#[test]
fn phases_are_compared_by_name_and_order() {
    let files = ["guides/phases-flat.log", "guides/phases-grow.log"];
    let (out, _) = said(&files, 0);
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    let change = "the largest change is 4 × ITERATION_COMPLETE: change −2.05 GiB → −1.81 GiB.";
    assert!(words.contains(&format!("The peak of DRAM grew by 750.0 MiB (8.7%); {change}")), "{out}");
    assert!(!out.contains("Operations"), "{out}");
    let (grown, flat) = (json(files[0], files[1]), json(files[1], files[0]));
    let of = |answer: &Value, side: &str| answer["ranks"][0]["pools"]["DRAM"][side].as_i64().unwrap();
    assert_eq!(of(&grown, "change_per_bank"), 750 << 20);
    assert_eq!(of(&grown, "explained_per_bank"), 750 << 20);
    assert_eq!(of(&flat, "change_per_bank"), -750 << 20);
    assert_eq!(of(&flat, "before_per_bank"), of(&grown, "after_per_bank"));
    let row = &grown["ranks"][0]["changes"][0];
    assert_eq!((&row["tensors"], &row["kind"]), (&0.into(), &"resized".into()));
    assert_eq!(row["effect_per_bank"], 750 << 20);
    assert_eq!(json(files[0], files[0])["ranks"][0]["verdict"], "No differences.");
    said(&[&files[..], &["--fail-over", "5%"]].concat(), 1);
    said(&[&files[..], &["--fail-over", "750MiB"]].concat(), 0);
}

/// A phase that only one input has is part of its peak.
#[test]
fn phases_of_one_input_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let log = fs::read_to_string(corpus().join("guides/phases-flat.log")).unwrap();
    let (first, rest) = log.split_once("--- FORWARD_PASS ---").unwrap();
    let phase = "--- WARM_UP ---\n  DRAM: Segment Peak 64.00 MB, Allocations 64.00 MB, Deallocations 0.00 MB, Segment \
                 Change +64.00 MB\n  DRAM: Cumulative Peak 5611.00 MB, Cumulative Current 5611.00 MB\n  L1: Peak CB 0.00 \
                 MB, Peak Buffer 0.00 MB, Peak Total 0.00 MB\n";
    let other = folder.path().join("other.log");
    let peaks = rest.replace("8606.00", "8670.00");
    fs::write(&other, format!("{first}{phase}--- FORWARD_PASS ---{peaks}")).unwrap();
    let found = json("guides/phases-flat.log", other.to_str().unwrap());
    let changes = found["ranks"][0]["changes"].as_array().unwrap();
    let row = &changes[0];
    assert_eq!((&row["title"], &row["kind"]), (&"WARM_UP".into(), &"appeared".into()), "{changes:?}");
    assert_eq!(row["effect_per_bank"], 64 << 20);
    assert_eq!(row["detail"], "new: change +64.0 MiB, peak above its start +64.0 MiB");
    assert_eq!(changes.len(), 1, "{changes:?}");
}

/// Different training phases and errors alone are not compared, which is not "no differences".
#[test]
fn inputs_without_peaks_are_refused() {
    let (out, errors) = said(&["tt_train/tinyllama.log", "guides/phases-grow.log"], 2);
    assert_eq!(out, "");
    assert!(errors.contains("they have only training phases, and none in common"), "{errors}");
    let (out, errors) = said(&["cuda_oom/vllm.log", "cuda_oom/train.log", "--fail-over", "5%"], 2);
    assert_eq!(out, "");
    assert!(errors.contains("they have no peaks or operations"), "{errors}");
}

/// The peak before the error is lower, but the program no longer runs.
#[test]
fn an_error_of_one_input_is_named_first() {
    let [fits, fails] = ["guides/fragmentation-ordered.log", "tt_log/oom-fragmentation.log"];
    let sentence =
        "AFTER runs out of memory in DRAM, and BEFORE does not: the peak of AFTER is a lower bound.";
    for flag in ["--quiet", "--markdown"] {
        let (out, errors) = said(&[fits, fails, flag, "--fail-over", "5%"], 1);
        let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(sentence), "{out}");
        assert!(errors.contains("AFTER runs out of memory in DRAM, and BEFORE does not"), "{errors}");
    }
    let rank = &json(fits, fails)["ranks"][0];
    assert_eq!(rank["out_of_memory"]["before"], Value::Null);
    assert_eq!(rank["out_of_memory"]["after"]["pool"], "DRAM");
    assert!(rank["verdict"].as_str().unwrap().starts_with(sentence), "{rank}");
    let fixed = &json(fails, fits)["ranks"][0]["verdict"];
    assert!(fixed.as_str().unwrap().starts_with("BEFORE runs out of memory in DRAM, and AFTER does not: "));
    said(&[fails, fits, "--quiet", "--fail-over", "5%"], 0);
}

/// Both programs fail, so their peaks say nothing about how much memory they need.
#[test]
fn an_error_of_both_inputs_is_named() {
    let both = "Both inputs run out of memory in DRAM: the peaks are lower bounds.";
    let [fails, also] = ["tt_log/oom-fragmentation.log", "tt_log/oom-capacity.log"];
    for [before, after] in [[fails, also], [also, fails]] {
        let rank = &json(before, after)["ranks"][0];
        let verdict = rank["verdict"].as_str().unwrap();
        assert!(verdict.starts_with(&format!("{both} The peak of DRAM ")), "{verdict}");
        let (markdown, _) = said(&[before, after, "--markdown", "--quiet"], 0);
        assert!(markdown.contains(both), "{markdown}");
    }
    let rank = &json(fails, fails)["ranks"][0];
    assert_eq!(rank["verdict"], format!("No differences. {both}"));
    assert_eq!(rank["changes"], Value::Array(Vec::new()));
}

/// A pool that was only sampled counts if it is the only one.
#[test]
fn the_verdict_agrees_with_the_table() {
    let sampled = ["memory_profile/server.json", "memory_profile/threads.json"];
    let (out, errors) = said(&[sampled[0], sampled[1], "--quiet", "--fail-over", "1%"], 1);
    assert!(out.contains("The peak of cpu grew by 16.0 MiB (20.0%)"), "{out}");
    assert!(errors.contains("cpu: the peak grew by 16.0 MiB (20.0%), more than the limit of 1%"), "{errors}");
    // Only one of them has the peak of mps.
    let (_, errors) = said(&[sampled[0], sampled[1], "--quiet", "--fail-over", "20%"], 2);
    assert!(errors.contains("mps: AFTER does not have the peak"), "{errors}");
    let error = json("tt_metal_log/dram.log", "tt_log/vae-decoder.log");
    let verdict = error["ranks"][0]["verdict"].as_str().unwrap();
    assert!(verdict.contains("The peak of DRAM shrank by 252.3 MiB"), "{verdict}");
}

/// A recording and a snapshot of the same device can be compared.
#[test]
fn a_recording_is_compared_with_a_snapshot() {
    let answer = json("guides/batch32.ttmem", "torch_snapshot/train_gpt2_30m.pickle.gz");
    assert!(answer["ranks"][0]["pools"]["cuda:0"]["change_per_bank"].as_i64().unwrap() < 0);
}

/// The page is written next to any other output, and replaced by a later one.
#[test]
fn a_page_is_written_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("diff.html");
    let page = page.to_str().unwrap();
    for _ in 0..2 {
        let (screen, errors) = said(&[CAPACITY[0], CAPACITY[1], "--page", page], 0);
        assert!(screen.contains("peak of DRAM shrank by 487.5 MiB per bank"), "{screen}");
        assert_eq!(errors, format!("wrote {page}\n"));
        let html = fs::read_to_string(page).unwrap();
        assert!(html.contains("<title>oom-capacity.log → capacity-bf16.log · ttmem</title>"), "the title");
        assert!(html.contains("default-src 'none'"), "loads nothing");
        for block in ["head", "texts-before", "texts-after", "diff-0"] {
            assert!(html.contains(&format!("id=\"ttmem-{block}\"")), "{block}");
        }
    }
    let (json, _) = said(&[CAPACITY[0], CAPACITY[1], "--json", "--quiet", "--page", page], 0);
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), self::json(CAPACITY[0], CAPACITY[1]));
    said(&[CAPACITY[1], CAPACITY[0], "--quiet", "--page", page, "--fail-over", "5%"], 1);
}

/// No other file is replaced by a page, and an input never is.
#[test]
fn a_page_does_not_replace_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("notes.html");
    fs::write(&own, "<!doctype html>my notes</html>\n").unwrap();
    let input = folder.path().join("before.html");
    fs::copy(corpus().join(CAPACITY[0]), &input).unwrap();
    let (own, input) = (own.to_str().unwrap(), input.to_str().unwrap());
    let (out, errors) = said(&[CAPACITY[0], CAPACITY[1], "--page", own], 2);
    assert!(out.is_empty() && errors.contains("--force"), "{errors}");
    assert_eq!(fs::read_to_string(own).unwrap(), "<!doctype html>my notes</html>\n");
    let content = fs::read(input).unwrap();
    for args in [[input, CAPACITY[1]], [CAPACITY[0], input], [CAPACITY[0], CAPACITY[1]]] {
        let (_, errors) = said(&[args[0], args[1], "--page", input, "--force"], 2);
        assert!(errors.contains("before.html"), "{errors}");
        assert_eq!(fs::read(input).unwrap(), content);
    }
    said(&[CAPACITY[0], CAPACITY[1], "--quiet", "--page", own, "--force"], 0);
    assert!(fs::read_to_string(own).unwrap().contains("ttmem-diff-0"));
    for wrong in [["--page", "diff.txt"], ["--page", "-"], ["--force", "--json"], ["--open", "--json"]] {
        said(&[CAPACITY[0], CAPACITY[1], wrong[0], wrong[1]], 2);
    }
}
