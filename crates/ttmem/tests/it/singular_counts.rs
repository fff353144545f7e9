//! A warning about a single defect has a singular noun and verb: `1 row was skipped`. Each reader gets inputs with
//! exactly one defect.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use ttmem::model::{Builder, Event, RankEvent, RankId, Sink};
use ttmem::read;
use ttmem::record::frame::{self, Writer};

use super::read_ttnn_db::{TODAY, database};

/// Whether a message has a plural after the number 1, as in `1 rows` or `1 buffer rows have`.
fn has_wrong_plural(message: &str) -> bool {
    const NOUNS: [&str; 9] =
        ["rows", "records", "events", "operations", "values", "nodes", "buffers", "snapshots", "lines"];
    const VERBS: [&str; 3] = ["are", "were", "have"];
    message.match_indices("1 ").any(|(at, one)| {
        let is_number = !message[..at].ends_with(|before: char| before.is_alphanumeric());
        let after = &message[at + one.len()..];
        let end = after.find(|letter: char| !letter.is_ascii_lowercase() && letter != ' ');
        let words: Vec<&str> = after[..end.unwrap_or(after.len())].split(' ').collect();
        let has_verb = |pair: &[&str]| pair[0].ends_with('s') && VERBS.contains(&pair[1]);
        is_number && (NOUNS.contains(&words[0]) || words.windows(2).any(has_verb))
    })
}

/// Reads the first of these files. Checks its error or warnings, and that one of them contains `words`.
#[track_caller]
fn check(files: &[(&str, &[u8])], words: &str) {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let messages: Vec<String> = match read::open(folder.path().join(files[0].0).to_str().unwrap()) {
        Ok(profile) => profile.warnings.into_iter().map(|warning| warning.message).collect(),
        Err(error) => vec![error.to_string()],
    };
    assert!(messages.iter().any(|message| message.contains(words)), "{words:?} is not in {messages:?}");
    assert!(!messages.iter().any(|message| has_wrong_plural(message)), "{messages:?}");
}

#[track_caller]
fn check_json(name: &str, value: &Value, words: &str) {
    check(&[(name, value.to_string().as_bytes())], words);
}

fn corpus(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name);
    String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
}

#[test]
fn plurals_after_one_are_found() {
    for wrong in
        ["1 rows", "x: 1 buffer rows have no size", "only 1 calls are listed", "(1 events were lost)"]
    {
        assert!(has_wrong_plural(wrong), "{wrong}");
    }
    for right in
        ["1 row was skipped", "21 rows were skipped", "row 1 of x", "1 row has values, which were lost"]
    {
        assert!(!has_wrong_plural(right), "{right}");
    }
}

#[test]
fn report_files() {
    let row = |index: u32| {
        json!({"index": index, "mlir_op": "ttnn.add", "loc": format!("add.{index}"), "memory": {"DRAM": {
            "numBanks": 12, "totalBytesPerBank_MB": 1024.0, "totalBytesAllocatedPerBank_MB": 1.0,
            "totalBytesFreePerBank_MB": 1023.0, "largestContiguousBytesFreePerBank_MB": 1023.0}}})
    };
    let file = |rows: &[Value]| json!({"metadata": {"memory_config": {}}, "operations": rows});
    check_json("x_memory.json", &file(&[row(0), row(1), json!(7)]), "1 row is not an object and was skipped");
    check_json("x_memory.json", &file(&[row(0), row(0)]), "1 row has an index");
    let mut wrong = row(1);
    wrong["loc"] = json!(7);
    check_json("x_memory.json", &file(&[row(0), wrong]), "1 value has the wrong type and was skipped");
    let mut total = file(&[row(0), row(1)]);
    total["metadata"]["total_operations"] = json!(1);
    check_json("x_memory.json", &total, "lists 1 operation,");
    let stateless = json!({"index": 0, "mlir_op": "ttnn.add", "loc": "add.0"});
    check_json("x_memory.json", &file(&[stateless]), "no memory states in 1 row;");

    let memory = file(&[row(0), row(1)]).to_string();
    let op = |index: u32, name: &str| json!({"index": index, "mlir_op": name, "loc": format!("add.{index}")});
    for (operations, words) in [
        (
            json!([op(0, "ttnn.add")]),
            "has 1 row, but the memory file has 2; 1 operation is known only by name",
        ),
        (json!([op(0, "ttnn.add"), op(1, "ttnn.mul")]), "1 row of x_operations.json does not match"),
    ] {
        let operations = operations.to_string();
        let files = [("x_memory.json", memory.as_bytes()), ("x_operations.json", operations.as_bytes())];
        check(&files, words);
    }
}

#[test]
fn graph_captures() {
    let start = json!({"counter": 0, "node_type": "capture_start", "params": {}});
    let buffer = json!({"counter": 1, "node_type": "buffer_allocate", "params": {"type": "DRAM", "size": 64},
        "connections": []});
    let without_size =
        json!({"counter": 2, "node_type": "buffer_allocate", "params": {"type": "DRAM", "size": "x"}});
    for (defect, words) in [
        (json!(7), "1 element is not a node and was skipped"),
        (json!({"counter": 2, "node_type": "new_thing", "params": {}}), "1 node has an unknown kind"),
        (without_size, "1 node has no size"),
    ] {
        check_json("capture.json", &json!([start, buffer, defect]), words);
    }
    let whole = json!([start, buffer]).to_string();
    check(&[("capture.json", &whole.as_bytes()[..whole.len() - 3])], "covers 1 node before this line");
}

#[test]
fn ttrt_results() {
    let view = json!({"num_banks": 12, "total_bytes_per_bank": 8192, "total_bytes_allocated_per_bank": 4096,
        "total_bytes_free_per_bank": 4096, "largest_contiguous_bytes_free_per_bank": 4096, "block_table": []});
    let text = "%0 = \"ttnn.add\"(%arg0) : (tensor<32x32xbf16>) -> tensor<32x32xbf16>";
    let record = json!({"loc": "unknown", "debug_str": text, "dram": view, "l1": view, "l1_small": view,
        "trace": view});
    let mut without_view = record.clone();
    without_view["l1"] = json!({"device_0": {}});
    check_json("memory_results.json", &json!([record, 7]), "1 record is invalid and was skipped");
    check_json("memory_results.json", &json!([record, without_view]), "1 pool view has no byte counts");
    let whole = json!([record, record]).to_string();
    let cut = &whole.as_bytes()[..whole.len() - 200];
    check(&[("memory_results.json", cut)], "covers 1 operation before this line");
}

#[test]
fn memory_profiles() {
    let snapshot = json!({"timestamp": "2025-01-13T10:00:00", "total_mb": 12.5, "tensor_count": 1});
    let call = json!({"timestamp": "2025-01-13T10:00:00", "memory_delta_mb": 1});
    let counts = json!({"a": {"invocation_count": 2}, "b": {"invocation_count": 2}});
    let name = "memory_profile_1.json";
    check_json(
        name,
        &json!({"metadata": {}, "snapshots": [snapshot, {"total_mb": 1}]}),
        "1 snapshot without a time or without sizes was skipped",
    );
    let more = |key: &str, value: Value| {
        let mut file = json!({"metadata": {}, "snapshots": [snapshot]});
        file[key] = value;
        file
    };
    let operation = json!([{"op_name": "aten::mm"}]);
    check_json(name, &more("pytorch_operations", operation), "1 framework operation without a count");
    check_json(name, &more("operation_allocations", json!(7)), "1 value of the wrong type was skipped");
    let timeless = json!({"a": [{"memory_delta_mb": 1}]});
    check_json(name, &more("operation_allocations", timeless), "1 operation call without a time was skipped");
    let mut listed = more("operation_allocations", json!({"a": [call], "b": [call]}));
    listed["operation_summary"] = counts;
    check_json(name, &listed, "only 1 call is listed");
}

#[test]
fn databases() {
    for (rows, words) in [
        ("(1, 0, 64, 10, 0, 0), (2, 0, 512, 500, 0, 0), (3, 0, 64, 10, 0, 0)", "1 buffer row refers to"),
        ("(1, 0, 64, 10, 0, 0)", "1 operation has no buffer rows"),
        ("(1, 0, 64, 10, 0, 0), (1, 0, NULL, 10, 0, 0), (3, 0, 64, 10, 0, 0)", "1 buffer row has no address"),
    ] {
        let content = format!(
            "INSERT INTO operations (operation_id, name) VALUES (1, 'ttnn.a'), (3, 'ttnn.b');
             INSERT INTO buffers (operation_id, device_id, address, max_size_per_bank, buffer_type, buffer_layout)
                 VALUES {rows};"
        );
        let bytes = database(TODAY, &content);
        check(&[("db.sqlite", bytes.as_slice())], words);
    }
}

#[test]
fn logs() {
    let log = corpus("tt_log/vae-decoder.log");
    let line = log.lines().filter(|line| line.contains("Executing operation")).nth(6).unwrap();
    let missing = log.replacen(&format!("{line}\n"), "", 1);
    check(&[("missing.log", missing.as_bytes())], "missing from the log");
    let repeated = log.replacen(line, &format!("{line}\n{line}"), 1);
    check(&[("repeated.log", repeated.as_bytes())], "this line repeats the previous line");
    let training = corpus("tt_train/tinyllama.log");
    let torn = training.replacen("Allocations 22140.61 MB, Dealloc", "Allocations 22140.6", 1);
    check(&[("train.log", torn.as_bytes())], "malformed and was skipped");
}

#[test]
fn recordings() {
    let event = || Event::Of(RankId::new(0).unwrap(), RankEvent::Began(1));
    let mut bytes = Vec::new();
    let mut writer = Writer::create(&mut bytes, "x.ttmem").unwrap();
    writer.take(event()).unwrap();
    writer.flush().unwrap();
    drop(writer);
    let mut builder = Builder::new();
    frame::read(&mut &bytes[..], "x.ttmem", &mut builder).unwrap();
    let messages: Vec<String> =
        builder.finish().warnings.into_iter().map(|warning| warning.message).collect();
    for words in ["the report covers only its first event", "1 event refers to missing rows and was skipped"]
    {
        assert!(messages.iter().any(|message| message.contains(words)), "{words:?} is not in {messages:?}");
    }
    assert!(!messages.iter().any(|message| has_wrong_plural(message)), "{messages:?}");
}
