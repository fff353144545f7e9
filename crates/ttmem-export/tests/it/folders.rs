//! Folders of several ranks, which are one input.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use ttmem::model::{Class, Launch};
use ttmem::record::live::{Allocation, Options, Recorder, TypeOf};

use super::{Row, corpus, export, rows};

/// Records a rank of a program with this number of ranks, with one tensor.
fn record(folder: &Path, rank: u32, of: u32) -> PathBuf {
    let path = folder.join(format!("memory_profile_of{of}_rank{rank}_20261118_120000.ttmem"));
    let mut recorder = Recorder::recording_with(&path, Options::default()).unwrap();
    let label = Some(recorder.text(&rank.to_string()));
    recorder.launch(Launch { label, rank: Some(rank), world_size: Some(of), ..Launch::default() }, &[]);
    let pool = recorder.pool(&format!("cuda:{rank}"), false);
    let (name, dtype) = (recorder.text("aten::empty"), recorder.text("torch.float32"));
    let (op, bytes) = (recorder.op(name, None, None), 1024 * (1 + u64::from(rank)));
    let ty = recorder.tensor_type(TypeOf { shape: &[bytes / 4], dtype, bytes });
    let class = Class::Parameter;
    recorder.allocated(Allocation { pool, bytes, op, ty, class, within: None }).unwrap();
    recorder.finish().unwrap();
    path
}

fn of_column<'a>(rows: &'a [Row], column: &str) -> Vec<&'a str> {
    rows.iter().map(|row| row[column].as_str()).collect()
}

#[test]
fn a_folder_of_recordings_is_one_run_of_the_newest_program() {
    let folder = TempDir::new().unwrap();
    let (ranks, dataset) = (folder.path().join("nightly"), folder.path().join("fleet"));
    fs::create_dir(&ranks).unwrap();
    record(&ranks, 0, 2);
    record(&ranks, 1, 2);
    let output = export(&dataset, &["--", ranks.to_str().unwrap()]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message, format!("ttmem: exported 2 ranks from 1 input to {}\n", dataset.display()));
    for number in 0..3 {
        record(&ranks, number, 3);
    }
    let output = export(&dataset, &["--", ranks.to_str().unwrap()]);
    let message = String::from_utf8(output.stderr).unwrap();
    let left_out = "2 recordings of other programs are not exported; pass their files to export them";
    assert!(message.starts_with(&format!("ttmem: {}: {left_out}\n", ranks.display())), "{message}");
    let found = rows(&dataset, "runs");
    assert_eq!(of_column(&found, "run"), ["nightly"; 3]);
    assert_eq!(of_column(&found, "rank"), ["0", "1", "2"]);
    assert_eq!(of_column(&found, "source"), [ranks.canonicalize().unwrap().to_str().unwrap(); 3]);
    assert_eq!(of_column(&found, "peak_bytes"), ["1024", "2048", "3072"]);
    let mut ids = of_column(&found, "rank_id");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    let output = export(&dataset, &["--quiet", "--", ranks.to_str().unwrap()]);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_folder_of_snapshots_is_one_run() {
    let folder = TempDir::new().unwrap();
    let (ranks, dataset) = (folder.path().join("snapshots"), folder.path().join("fleet"));
    fs::create_dir(&ranks).unwrap();
    for number in 0..2 {
        let snapshot = ranks.join(format!("rank{number}.pickle.gz"));
        fs::copy(corpus("torch_snapshot/graph_expandable_pools.pickle.gz"), snapshot).unwrap();
    }
    fs::write(ranks.join("notes.txt"), "").unwrap();
    export(&dataset, &["--", ranks.to_str().unwrap()]);
    let found = rows(&dataset, "runs");
    assert_eq!(of_column(&found, "run"), ["snapshots"; 2]);
    let files = of_column(&found, "file");
    assert!(files[0].ends_with("rank0.pickle.gz") && files[1].ends_with("rank1.pickle.gz"), "{files:?}");
    assert!(!rows(&dataset, "tensors").is_empty());
}

#[test]
fn every_file_in_a_folder_is_exported() {
    let folder = TempDir::new().unwrap();
    let (inputs, dataset) = (folder.path().join("mixed"), folder.path().join("fleet"));
    fs::create_dir(&inputs).unwrap();
    fs::copy(corpus("tt_log/vae-decoder.log"), inputs.join("a.log")).unwrap();
    fs::copy(corpus("tt_log/info-only.log"), inputs.join("b.txt")).unwrap();
    // Recordings of two programs.
    fs::copy(corpus("guides/batch32.ttmem"), inputs.join("c.ttmem")).unwrap();
    fs::copy(corpus("guides/batch256.ttmem"), inputs.join("d.ttmem")).unwrap();
    fs::copy(corpus("torch_snapshot/graph_expandable_pools.pickle.gz"), inputs.join("e.pickle.gz")).unwrap();
    fs::write(inputs.join("f.log"), "nothing").unwrap();
    fs::write(inputs.join("notes.txt"), "nothing").unwrap();
    let output = export(&dataset, &["--", inputs.to_str().unwrap()]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("f.log: ") && message.contains("exported 5 ranks from 1 input"), "{message}");
    let found = rows(&dataset, "runs");
    assert_eq!(of_column(&found, "run"), ["mixed"; 6]);
    let names = found.iter().map(|row| Path::new(&row["file"]).file_name().unwrap().to_str().unwrap());
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    assert_eq!(names, ["a.log", "b.txt", "c.ttmem", "d.ttmem", "e.pickle.gz", "f.log"]);
    assert_eq!(found.iter().filter(|row| row.contains_key("error")).count(), 1);
}
