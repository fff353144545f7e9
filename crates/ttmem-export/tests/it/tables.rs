//! The content of the tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};

use parquet::file::reader::{FileReader, SerializedFileReader};
use tempfile::TempDir;
use ttmem::query::{Named, Request, summary};
use ttmem::read;

use super::{corpus, export, files, program, root, rows, runs};

/// Files of the corpus of several formats that can be read.
fn readable() -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["tt_log", "torch_snapshot", "tt_train", "ttmem", "ttnn_graph", "cuda_oom"] {
        let entries = fs::read_dir(corpus(folder)).unwrap();
        let mut paths: Vec<String> =
            entries.map(|entry| entry.unwrap().path().to_str().unwrap().to_owned()).collect();
        paths.sort_unstable();
        found.extend(paths.into_iter().filter(|path| fs::metadata(path).unwrap().is_file()).filter(|path| {
            let is_small = fs::metadata(path).unwrap().len() < 300_000;
            is_small && read::open(path).is_ok()
        }));
    }
    found
}

#[test]
fn numbers_equal_those_of_the_summary() {
    let folder = TempDir::new().unwrap();
    let inputs = readable();
    assert!(inputs.len() > 20, "{inputs:?}");
    let words: Vec<&str> = ["--run=all", "--"].into_iter().chain(inputs.iter().map(String::as_str)).collect();
    export(folder.path(), &words);
    let (runs, pools) = (rows(folder.path(), "runs"), rows(folder.path(), "pools"));
    let (classes, tensors) = (rows(folder.path(), "classes"), rows(folder.path(), "tensors"));
    let curves = rows(folder.path(), "curves");
    let mut compared = 0;
    for input in &inputs {
        let Ok(profile) = read::open(input) else { continue };
        let Ok(expected) = summary(&[profile], &Request::default()) else { continue };
        for (index, rank) in expected.ranks.iter().enumerate() {
            let is_rank = |row: &&super::Row| {
                row["source"] == *input && row.get("rank_index") == Some(&index.to_string())
            };
            let run = runs.iter().find(is_rank).unwrap_or_else(|| panic!("{input}: no rank {index}"));
            let of_rank = |row: &&super::Row| row["rank_id"] == run["rank_id"];
            let verdict = rank.oom.as_ref().map(|oom| oom.statement.headline.clone());
            assert_eq!(run.get("verdict"), verdict.as_ref(), "{input}");
            // The sizes in `runs` are of the most important pool.
            let main = rank.peak.as_ref().map(|peak| peak.pool.as_str());
            let padding = rank.padding.as_ref().filter(|padding| main == Some(&padding.pool));
            let padded = padding.map(|padding| padding.padded_bytes.to_string());
            assert_eq!(run.get("padded_bytes"), padded.as_ref(), "{input}");
            for (name, pool) in rank.pools.iter() {
                let of_pool = |row: &&super::Row| of_rank(row) && row["pool"] == name;
                let row = pools.iter().find(of_pool).unwrap();
                let text = |bytes: Option<u64>| bytes.map(|bytes| bytes.to_string());
                assert_eq!(row.get("peak_per_bank").cloned(), text(pool.peak_per_bank), "{input}: {name}");
                assert_eq!(row.get("peak_total").cloned(), text(pool.peak_total), "{input}: {name}");
                let Some(moment) = rank.peaks.get(name) else { continue };
                let by_class: BTreeMap<String, String> = classes
                    .iter()
                    .filter(of_pool)
                    .map(|row| (row["class"].clone(), row["per_bank"].clone()))
                    .collect();
                let wanted = moment.by_class_per_bank.iter().flat_map(Named::iter);
                let wanted = wanted.map(|(class, bytes)| (class.to_owned(), bytes.to_string())).collect();
                assert_eq!(by_class, wanted, "{input}: {name}");
                let alive = tensors
                    .iter()
                    .filter(of_pool)
                    .filter(|row| row.get("at_peak").is_some_and(|at| at == "true"));
                let alive: Vec<Option<&String>> = alive.map(|row| row.get("per_bank")).collect();
                let live = moment.live.as_ref().map_or(0, Vec::len);
                assert_eq!(alive.len(), live, "{input}: {name}");
                let listed = moment.live.iter().flatten().map(|tensor| text(tensor.per_bank));
                let listed: Vec<Option<String>> = listed.collect();
                assert_eq!(alive.into_iter().map(Option::<&String>::cloned).collect::<Vec<_>>(), listed);
                let highest =
                    curves.iter().filter(of_pool).filter_map(|row| row["per_bank"].parse::<u64>().ok()).max();
                // Between readings, the curve has reconstructed values, which may be higher than every reading.
                if let (Some(highest), None) = (highest, pool.peak_source) {
                    assert!(Some(highest) >= pool.peak_per_bank, "{input}: the curve of {name}");
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn every_column_is_documented() {
    let folder = TempDir::new().unwrap();
    let inputs = readable();
    let words: Vec<&str> =
        ["--run=all", "--label=a=b", "--"].into_iter().chain(inputs.iter().map(String::as_str)).collect();
    export(folder.path(), &words);
    let page = fs::read_to_string(root().join("docs/fleet.md")).unwrap();
    let mut tables = BTreeSet::new();
    for file in files(folder.path()) {
        let table = file.split('/').next().unwrap().to_owned();
        let section = page.split_once(&format!("### `{table}`")).unwrap_or_else(|| panic!("{table}")).1;
        let section = section.split("\n##").next().unwrap();
        let reader = SerializedFileReader::new(File::open(folder.path().join(&file)).unwrap()).unwrap();
        let mut columns: BTreeSet<String> = BTreeSet::new();
        for column in reader.metadata().file_metadata().schema_descr().columns() {
            columns.insert(column.name().to_owned());
        }
        let cells =
            section.lines().filter(|line| line.starts_with('|')).filter_map(|line| line.split('|').nth(1));
        let mut documented: BTreeSet<String> =
            cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
        if !["runs", "labels"].contains(&table.as_str()) {
            documented.extend(["rank_id", "run", "rank"].map(str::to_owned));
        }
        assert_eq!(columns, documented, "{table}");
        tables.insert(table);
    }
    assert_eq!(tables.len(), 12, "{tables:?}");
}

#[test]
fn an_input_that_cannot_be_read_is_a_row_with_its_error() {
    let folder = TempDir::new().unwrap();
    let log = corpus("tt_log/oom-capacity.log");
    let output = export(folder.path(), &["--run=a/b 1", "--", &log, "/nonexistent.log"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("cannot read /nonexistent.log") && message.contains("1 error"), "{message}");
    let runs = rows(folder.path(), "runs");
    assert_eq!(runs.len(), 2);
    let failed: Vec<_> = runs.iter().filter(|row| row.contains_key("error")).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["source"], "/nonexistent.log");
    assert!(!failed[0].contains_key("peak_bytes"));
    assert!(runs.iter().all(|row| row["run"] == "a/b 1"));
    assert!(files(folder.path()).iter().all(|file| file.contains("/run=a%2Fb%201/")));
}

#[test]
fn an_export_without_anything_to_read_fails() {
    let folder = TempDir::new().unwrap();
    let dataset = folder.path().join("fleet");
    // Wrong names leave no run.
    let output = program(&dataset, &["--", "/nonexistent.log", "/nonexistent2.log"]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.starts_with("ttmem: cannot read /nonexistent.log"), "{message}");
    assert!(!dataset.exists());
    // A broken file is a row.
    let broken = folder.path().join("broken.log");
    fs::write(&broken, "nothing").unwrap();
    for (words, code) in [(&[][..], 2), (&[corpus("tt_log/vae-decoder.log")][..], 0)] {
        let output = program(&dataset, &["--", broken.to_str().unwrap()]).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(runs(&dataset).iter().filter(|run| *run == "broken").count(), 1);
    }
}
