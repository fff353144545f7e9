//! Unknown values in the files that the scripts of tt-memory-profiler 0.x read: its visualizer does not check whether a
//! key exists, and formats numbers without checking for null.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::tempdir;
use ttmem::read;
use ttmem::store::write_report;

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_stage_that_was_not_printed_is_an_empty_object_and_unknown_totals_are_left_out() {
    let is_stage = |stage: &Value| {
        let stage = stage.as_object().expect("a stage is an object");
        stage.is_empty() || stage["text"].is_string() && stage["loc_index"].is_object()
    };
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log");
    let logs = fs::read_dir(logs).unwrap().map(|entry| entry.unwrap().path());
    let (mut without_ttir, mut several) = (0, 0);
    for log in logs.filter(|path| path.extension().is_some_and(|end| end == "log")) {
        let mut profile = read::open(log.to_str().unwrap()).unwrap();
        let folder = tempdir().unwrap();
        write_report(&mut profile, Some(&log), folder.path(), "x").unwrap();
        let ir = read_json(&folder.path().join("x_ir.json"));
        let graphs = ir["graphs"].as_array().cloned().unwrap_or_default();
        several += usize::from(!graphs.is_empty());
        for graph in graphs.iter().chain([&ir]) {
            assert!(is_stage(&graph["ttir"]) && is_stage(&graph["ttnn"]), "{}", log.display());
            without_ttir += usize::from(graph["ttir"] == json!({}));
        }
        let registry = read_json(&folder.path().join("x_inputs_registry.json"));
        assert!(registry["metadata"].as_object().unwrap().values().all(Value::is_number), "{registry}");
        // What is written is read back without a warning about it.
        fs::remove_file(folder.path().join("x.ttmem")).unwrap();
        let memory = folder.path().join("x_memory.json");
        let Ok(back) = read::open(memory.to_str().unwrap()) else { continue };
        let warned = back.warnings.iter().find(|warning| warning.message.contains("_ir.json"));
        assert_eq!(warned, None, "{}", log.display());
    }
    assert!(without_ttir > 0 && several > 0, "{without_ttir} {several}");
}
