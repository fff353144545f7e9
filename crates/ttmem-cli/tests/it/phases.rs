//! `ttmem phases` and `ttmem chart`: streams, exit codes, options, files.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name)
}

/// A folder with the training log, and one with no phases.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(corpus("tt_train/tinyllama.log"), folder.path().join("tinyllama.log")).unwrap();
    fs::copy(corpus("tt_log/vae-decoder.log"), folder.path().join("vae.log")).unwrap();
    folder
}

fn ttmem(folder: &TempDir) -> Command {
    let mut command = Command::cargo_bin("ttmem").unwrap();
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").current_dir(folder.path());
    command
}

/// The output on both streams of a call that must exit with this code.
fn said(folder: &TempDir, args: &[&str], code: i32) -> (String, String) {
    let output = ttmem(folder).args(args).assert().code(code).get_output().clone();
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn json(folder: &TempDir, args: &[&str]) -> Value {
    serde_json::from_str(&said(folder, args, 0).0).unwrap()
}

#[test]
fn the_screen_of_a_training_log() {
    let (screen, errors) = said(&folder(), &["phases", "tinyllama.log"], 0);
    assert_eq!(errors, "");
    assert!(screen.lines().all(|line| line.chars().count() <= 100), "{screen}");
    insta::assert_snapshot!("phases-tinyllama", screen);
}

#[test]
fn logs_is_an_alias_of_the_file() {
    let folder = folder();
    let named = said(&folder, &["phases", "tinyllama.log"], 0);
    assert_eq!(said(&folder, &["phases", "--logs", "tinyllama.log"], 0), named);
    said(&folder, &["phases"], 2);
    let both = json(&folder, &["phases", "tinyllama.log", "--logs", "tinyllama.log", "--json"]);
    assert_eq!(both["sessions"].as_array().unwrap().len(), 4);
}

#[test]
fn options_have_both_spellings_and_any_unit() {
    let folder = folder();
    let with = |args: &[&str]| {
        let mut all = vec!["phases", "tinyllama.log", "--json"];
        all.extend(args);
        json(&folder, &all)["sessions"][1].clone()
    };
    let dashes = with(&["--device-memory", "16GB", "--model-size", "2GiB", "--optimizer-size", "1024MB"]);
    let underscores =
        with(&["--device_memory", "17179869184", "--model_size", "2048MB", "--optimizer_size", "1GB"]);
    assert_eq!(dashes, underscores);
    assert_eq!(dashes["device_memory_bytes"], 16u64 << 30);
    assert_eq!((&dashes["fits"], &dashes["model"]["expected_source"]), (&true.into(), &"option".into()));
    assert_eq!(dashes["gradients"]["expected_bytes"], 2u64 << 30);
    let actual = with(&["--use_actual_sizes", "--gradients_size", "12.5MB"]);
    assert_eq!(actual["gradients"]["expected_bytes"], 25u64 << 19);
    assert_eq!(actual["parts"][1]["source"], "measured");
    for (size, words) in [("12 Gbit", "unknown unit"), ("lots", "start with a number"), ("-1GB", "negative")]
    {
        let argument = format!("--device-memory={size}");
        let (_, errors) = said(&folder, &["phases", "tinyllama.log", &argument], 2);
        assert!(errors.contains(words), "{errors}");
    }
    let (_, errors) = said(&folder, &["phases", "tinyllama.log", "--device-memory", "0"], 2);
    assert!(errors.contains("--device-memory 0"), "{errors}");
}

#[test]
fn a_file_without_phases_is_exit_4_and_says_what_is_missing() {
    let folder = folder();
    let (out, errors) = said(&folder, &["phases", "vae.log"], 4);
    assert!(
        out.is_empty() && errors.contains("snapshot(NAME)") && errors.contains("--track_memory"),
        "{errors}"
    );
    // The other files are still reported.
    let (out, errors) = said(&folder, &["phases", "vae.log", "tinyllama.log"], 4);
    assert!(out.contains("tinyllama (default)") && errors.contains("vae.log: no phases"), "{errors}");
    said(&folder, &["phases", "missing.log"], 2);
    let (_, errors) = said(&folder, &["phases", "tinyllama.log", "--rank", "7"], 2);
    assert!(errors.contains("no rank 7"), "{errors}");
    said(&folder, &["phases", "-", "-"], 2);
}

#[test]
fn pictures_are_replaced_only_by_force() {
    let folder = folder();
    let usual = folder.path().join("memory_peak_visualization.png");
    let (screen, errors) = said(&folder, &["phases", "--logs", "tinyllama.log", "--visualize_peak"], 0);
    assert!(
        screen.contains("Comparison") && errors.contains("wrote memory_peak_visualization.png"),
        "{errors}"
    );
    let drawn = fs::read(&usual).unwrap();
    assert!(drawn.starts_with(b"\x89PNG\r\n\x1a\n"));
    // A picture of ttmem's own is replaced, another one is not.
    said(&folder, &["phases", "tinyllama.log", "--visualize-peak"], 0);
    assert!(fs::read(&usual).unwrap() == drawn, "the same answer is the same picture");
    fs::write(&usual, "mine").unwrap();
    let (screen, errors) = said(&folder, &["phases", "tinyllama.log", "--visualize-peak"], 2);
    assert!(screen.is_empty() && errors.contains("already exists, and ttmem did not write it"), "{errors}");
    said(&folder, &["phases", "tinyllama.log", "--visualize-peak", "--force"], 0);
    assert!(fs::read(&usual).unwrap() == drawn);
    let named = ["phases", "tinyllama.log", "--visualize-peak", "--output", "a.svg", "--title", "My run"];
    said(&folder, &named, 0);
    assert!(fs::read_to_string(folder.path().join("a.svg")).unwrap().contains("My run"));
    said(&folder, &["phases", "tinyllama.log", "--chart", "b.png"], 0);
    assert!(fs::read(folder.path().join("b.png")).unwrap() == drawn);
    fs::write(folder.path().join("b.png"), "mine").unwrap();
    let (_, errors) = said(&folder, &["phases", "tinyllama.log", "--chart", "b.png"], 2);
    assert!(errors.contains("b.png: already exists"), "{errors}");
    let (_, errors) = said(&folder, &["phases", "tinyllama.log", "--chart", "b.jpg"], 2);
    assert!(errors.contains("FILE.svg or FILE.png"), "{errors}");
    said(&folder, &["phases", "tinyllama.log", "--output", "c.png"], 2);
}

#[test]
fn a_negative_rest_is_a_warning() {
    let (screen, errors) = said(&folder(), &["phases", "tinyllama.log", "--model-size", "4GB"], 0);
    assert!(errors.contains("add up to") && errors.contains("more than the peak"), "{errors}");
    assert!(screen.contains("Other") && screen.contains('−'), "{screen}");
}

#[test]
fn a_log_can_come_from_a_pipe() {
    let folder = folder();
    let log = fs::read(corpus("tt_train/tinyllama.log")).unwrap();
    let output =
        ttmem(&folder).args(["phases", "-"]).write_stdin(log).assert().success().get_output().clone();
    assert!(String::from_utf8(output.stdout).unwrap().contains("Does not fit"));
}

/// A tracker that takes a snapshot in every layer records thousands of phases.
#[test]
fn the_last_of_many_phases_are_shown() {
    let folder = folder();
    let log = fs::read_to_string(corpus("tt_train/tinyllama.log")).unwrap();
    let (head, rest) = log.split_once("--- FORWARD_PASS ---").unwrap();
    let nothing = "  DRAM: Segment Peak 0.00 MB, Allocations 0.00 MB, Deallocations 0.00 MB, Segment Change +0.00 MB\n  \
                   DRAM: Cumulative Peak 5572.01 MB, Cumulative Current 5572.01 MB\n  \
                   L1: Peak CB 0.12 MB, Peak Buffer 0.00 MB, Peak Total 0.12 MB\n";
    let layers: Vec<String> = (0..100).map(|layer| format!("--- MOE__{layer:06} ---\n{nothing}")).collect();
    let log = format!("{head}{}--- FORWARD_PASS ---{rest}", layers.concat());
    fs::write(folder.path().join("many.log"), log).unwrap();
    let (screen, errors) = said(&folder, &["phases", "many.log"], 0);
    assert_eq!(errors, "");
    assert!(screen.contains("… and 65 earlier ones") && screen.contains("MOE__000099"), "{screen}");
    assert!(!screen.contains("MOE__000010") && screen.contains("Activations          192.95"), "{screen}");
    said(&folder, &["chart", "many.log", "-o", "many.png"], 0);
    assert_eq!(
        json(&folder, &["phases", "many.log", "--json"])["sessions"][0]["phases"].as_array().unwrap().len(),
        105
    );
}

#[test]
fn memory_over_time_is_drawn_to_a_file() {
    let folder = folder();
    let (out, errors) = said(&folder, &["chart", "vae.log", "-o", "m.svg", "--title", "A decoder"], 0);
    assert!(out.is_empty() && errors.contains("wrote m.svg"), "{errors}");
    let svg = fs::read_to_string(folder.path().join("m.svg")).unwrap();
    assert!(svg.contains("A decoder") && svg.contains("step 100 ttnn.add"));
    said(&folder, &["chart", "vae.log", "-o", "m.svg", "--run", "last", "--pool", "DRAM"], 0);
    assert!(fs::read_to_string(folder.path().join("m.svg")).unwrap() != svg, "it replaces its own picture");
    fs::write(folder.path().join("m.svg"), "<svg>mine</svg>").unwrap();
    let (_, errors) = said(&folder, &["chart", "vae.log", "-o", "m.svg"], 2);
    assert!(errors.contains("m.svg: already exists"), "{errors}");
    said(&folder, &["chart", "tinyllama.log", "-o", "phases.png"], 0);
    assert!(fs::read(folder.path().join("phases.png")).unwrap().starts_with(b"\x89PNG"));
    let (_, errors) = said(&folder, &["chart", "vae.log", "-o", "n.svg", "--pool", "DISK"], 2);
    assert!(errors.contains("available pools are DRAM"), "{errors}");
    let (_, errors) = said(&folder, &["chart", "tinyllama.log", "-o", "n.svg", "--pool", "DRAM"], 2);
    assert!(errors.contains("has phases but no pools"), "{errors}");
    said(&folder, &["chart", "vae.log", "-o", "n.pdf"], 2);
    said(&folder, &["chart", "vae.log"], 2);
    assert!(!folder.path().join("n.svg").exists());
}

#[test]
fn one_of_several_ranks_is_drawn_and_named() {
    let folder = folder();
    fs::copy(corpus("tt_log/two-ranks-info-only.log"), folder.path().join("ranks.log")).unwrap();
    let (_, errors) = said(&folder, &["chart", "ranks.log", "-o", "a.svg"], 0);
    assert!(errors.contains("drawing rank 1,0; use --rank"), "{errors}");
    said(&folder, &["chart", "ranks.log", "-o", "b.svg", "--rank", "1,1"], 0);
    assert!(fs::read_to_string(folder.path().join("b.svg")).unwrap().contains("rank 1,1"));
}
