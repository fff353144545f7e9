//! The program `ttmem-export`. `python/tests/test_fleet.py` compares its tables with summaries, on real databases.

// Clippy's allowance for tests does not cover test helpers.
#![allow(clippy::unwrap_used)]

mod dataset;
mod folders;
mod interrupted;
mod tables;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use parquet::file::reader::{FileReader, SerializedFileReader};

/// A row: the known values by column.
type Row = BTreeMap<String, String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the corpus.
fn corpus(name: &str) -> String {
    root().join("corpus").join(name).canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// The program, with a dataset and further words.
fn program(dataset: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ttmem-export"));
    command.arg(format!("--output={}", dataset.display())).args(words).stdin(Stdio::null());
    command
}

fn export(dataset: &Path, words: &[&str]) -> Output {
    let output = program(dataset, words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// All files of a dataset, relative to it.
fn files(folder: &Path) -> Vec<String> {
    fn add(folder: &Path, root: &Path, found: &mut Vec<String>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add(&path, root, found);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    add(folder, folder, &mut found);
    found.sort_unstable();
    found
}

/// All rows of a table in the visible files, without those of unknown value.
fn all_rows(dataset: &Path, table: &str) -> Vec<Row> {
    let is_visible = |file: &&String| {
        file.starts_with(&format!("{table}/"))
            && Path::new(file).extension().is_some_and(|end| end == "parquet")
    };
    let mut rows = Vec::new();
    for file in files(dataset).iter().filter(is_visible) {
        let reader = SerializedFileReader::new(File::open(dataset.join(file)).unwrap()).unwrap();
        for row in reader.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            let known = row.get_column_iter().map(|(name, field)| (name.clone(), field.to_string()));
            let known = known.filter(|(_, value)| value != "null");
            rows.push(known.map(|(name, value)| (name, value.trim_matches('"').to_owned())).collect());
        }
    }
    rows
}

/// The rows of a table that count, as docs/fleet.md defines it.
fn rows(dataset: &Path, table: &str) -> Vec<Row> {
    let runs = all_rows(dataset, "runs");
    let newest = |row: &&Row| {
        let of_source = runs.iter().filter(|other| other["source_id"] == row["source_id"]);
        of_source.map(|other| &other["export_id"]).max() == Some(&row["export_id"])
    };
    let counting: Vec<&str> = runs.iter().filter(newest).map(|row| row["rank_id"].as_str()).collect();
    all_rows(dataset, table).into_iter().filter(|row| counting.contains(&row["rank_id"].as_str())).collect()
}

/// The names of the runs that count.
fn runs(dataset: &Path) -> Vec<String> {
    let mut names: Vec<String> = rows(dataset, "runs").into_iter().map(|row| row["run"].clone()).collect();
    names.sort_unstable();
    names
}
