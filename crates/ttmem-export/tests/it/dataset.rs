//! Exports that replace others, and that run at the same time.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use tempfile::TempDir;

use super::{all_rows, corpus, export, files, program, rows, runs};

#[test]
fn exporting_a_source_again_replaces_it() {
    let folder = TempDir::new().unwrap();
    let log = corpus("tt_log/oom-capacity.log");
    export(folder.path(), &["--label=commit=1", "--", &log]);
    let (first, tensors) = (files(folder.path()), rows(folder.path(), "tensors").len());
    assert!(tensors > 20, "{tensors}");
    let foreign = folder.path().join("tensors/run=oom-capacity/mine.parquet");
    fs::write(&foreign, "").unwrap();
    export(folder.path(), &["--label=commit=2", "--", &log]);
    fs::remove_file(&foreign).expect("an export removes only files of exports");
    let second = files(folder.path());
    assert_eq!(first.len(), second.len());
    assert!(first.iter().all(|file| !second.contains(file)), "{first:?} {second:?}");
    let labels = all_rows(folder.path(), "labels");
    assert_eq!(labels.iter().map(|row| row["value"].as_str()).collect::<Vec<_>>(), ["2"]);
    assert_eq!(rows(folder.path(), "tensors").len(), tensors);
}

#[test]
fn a_file_stays_until_all_its_sources_are_replaced() {
    let folder = TempDir::new().unwrap();
    let (one, other) = (corpus("tt_log/oom-capacity.log"), corpus("tt_log/vae-decoder.log"));
    export(folder.path(), &["--run=r", "--", &one, &other]);
    let tensors = rows(folder.path(), "tensors").len();
    export(folder.path(), &["--run=r", "--", &one]);
    assert_eq!(all_rows(folder.path(), "runs").len(), 3);
    assert_eq!(rows(folder.path(), "runs").len(), 2);
    assert_eq!(rows(folder.path(), "tensors").len(), tensors);
    export(folder.path(), &["--run=r", "--", &other]);
    assert_eq!(all_rows(folder.path(), "runs").len(), 2);
    assert_eq!(all_rows(folder.path(), "tensors").len(), tensors);
}

#[test]
fn sources_are_separated_by_run_path_and_machine() {
    let folder = TempDir::new().unwrap();
    let log = corpus("tt_log/oom-capacity.log");
    for words in [&["--run=a"][..], &["--run=b"], &["--run=a", "--host=h"], &["--run=a", "--host=h"]] {
        let words: Vec<&str> = words.iter().copied().chain(["--", &log, &log]).collect();
        export(folder.path(), &words);
    }
    assert_eq!(runs(folder.path()), ["a", "a", "b"]);
}

#[test]
fn the_name_of_a_run_may_be_long() {
    let folder = TempDir::new().unwrap();
    let name = "é/".repeat(200);
    let run = format!("--run={name}");
    for _ in 0..2 {
        export(folder.path(), &[&run, "--", &corpus("tt_log/oom-capacity.log")]);
        assert_eq!(runs(folder.path()), [name.as_str()]);
    }
}

#[test]
fn standard_input_needs_the_name_of_a_run() {
    let folder = TempDir::new().unwrap();
    let output = program(&folder.path().join("fleet"), &["--", "-"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message, "ttmem: -: standard input has no name; pass --run NAME\n");
    assert!(!folder.path().join("fleet").exists());
}

#[test]
fn several_processes_may_export_at_the_same_time() {
    let folder = TempDir::new().unwrap();
    let logs = ["tt_log/oom-capacity.log", "tt_log/vae-decoder.log"].map(corpus);
    // All of them export the first log, and half of them the second.
    let start = |index: usize| {
        let words = ["--run=r", "--", &logs[0], &logs[1]];
        let words = &words[..if index.is_multiple_of(2) { 3 } else { 4 }];
        program(folder.path(), words).stderr(Stdio::null()).spawn().unwrap()
    };
    let children: Vec<_> = (0..6).map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let expected = TempDir::new().unwrap();
    export(expected.path(), &["--run=r", "--", &logs[0], &logs[1]]);
    let counts = |folder: &TempDir| {
        ["runs", "tensors", "pools", "curves"].map(|table| rows(folder.path(), table).len())
    };
    assert_eq!(counts(&folder), counts(&expected));
    let names: Vec<String> = files(folder.path());
    assert!(names.iter().all(|name| !name.contains("/.")), "{names:?}");
    // At most one export remains for each of the sources.
    let exports: BTreeSet<&str> = names.iter().filter_map(|name| name.rsplit('/').next()).collect();
    assert!(exports.len() <= 2, "{names:?}");
}
