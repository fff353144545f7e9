//! The visualizer's database: schemas of all eras, buffers as lives, and files that are none.

#![allow(
    clippy::needless_pass_by_value,
    clippy::format_push_string,
    reason = "values and texts that are used once"
)]

use rusqlite::Connection;
use serde_json::{Value, json};
use ttmem::Error;
use ttmem::model::{CurveKind, Moment, Profile, ProgramBufferKind, Step, StepMarks};
use ttmem::query::{Request, memory_map, summary};
use ttmem::read;

/// The tables of today, and those of 2025 without ranks.
pub(super) const TODAY: &str = "
CREATE TABLE devices (device_id int, l1_num_banks int, l1_bank_size int, cb_limit int, rank int NOT NULL DEFAULT 0);
CREATE TABLE operations (operation_id int, name text, duration float, rank int NOT NULL DEFAULT 0);
CREATE TABLE tensors (tensor_id int, shape text, dtype text, layout text, memory_config text, device_id int,
    address int, buffer_type int, rank int NOT NULL DEFAULT 0);
CREATE TABLE input_tensors (operation_id int, input_index int, tensor_id int, rank int NOT NULL DEFAULT 0);
CREATE TABLE output_tensors (operation_id int, output_index int, tensor_id int, rank int NOT NULL DEFAULT 0);
CREATE TABLE buffers (operation_id int, device_id int, address int, max_size_per_bank int, buffer_type int,
    buffer_layout int, rank int NOT NULL DEFAULT 0);
CREATE TABLE stack_traces (operation_id int, stack_trace text, rank int NOT NULL DEFAULT 0);
CREATE TABLE errors (operation_id int, operation_name text, error_type text, error_message text, stack_trace text,
    timestamp text, rank int NOT NULL DEFAULT 0);
INSERT INTO devices VALUES (0, 64, 1395424, 1395424, 0);
";

/// Three operations: a matmul whose operand was there, a relu in L1, and a deallocation.
const CONTENT: &str = "
INSERT INTO operations (operation_id, name) VALUES (1, 'ttnn.matmul'), (2, 'ttnn.relu'), (3, 'ttnn.deallocate');
INSERT INTO tensors (tensor_id, shape, dtype, layout, device_id, address, buffer_type) VALUES
    (10, 'Shape([32, 32])', 'DataType.BFLOAT16', 'Layout.TILE', 0, 4096, 0),
    (11, 'Shape([20, 64])', 'DataType.BFLOAT16', 'Layout.TILE', 0, 8192, 0),
    (12, 'Shape([32, 64])', 'DataType.BFLOAT8_B', 'Layout.TILE', 0, 4096, 1);
INSERT INTO input_tensors (operation_id, input_index, tensor_id) VALUES (1, 0, 10), (2, 0, 11);
INSERT INTO output_tensors (operation_id, output_index, tensor_id) VALUES (1, 0, 11), (2, 0, 12);
INSERT INTO buffers (operation_id, device_id, address, max_size_per_bank, buffer_type, buffer_layout) VALUES
    (1, 0, 4096, 2048, 0, 0), (1, 0, 8192, 4096, 0, 0),
    (2, 0, 4096, 2048, 0, 0), (2, 0, 8192, 4096, 0, 0), (2, 0, 4096, 1088, 1, 2),
    (3, 0, 4096, 2048, 0, 0), (3, 0, 4096, 1088, 1, 2);
INSERT INTO stack_traces (operation_id, stack_trace) VALUES
    (2, '  File \"model.py\", line 4, in run\n    ttnn.relu(x)\n\n  File \"model.py\", line 12, in <module>\n    run()\n');
";

pub(super) fn database(schema: &str, content: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db.sqlite");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(schema).unwrap();
    connection.execute_batch(content).unwrap();
    connection.close().unwrap();
    std::fs::read(path).unwrap()
}

/// The schema before there were ranks.
fn earlier() -> String {
    TODAY.replace(", rank int NOT NULL DEFAULT 0", "").replace("1395424, 0)", "1395424)")
}

fn open_as(name: &str, bytes: &[u8]) -> Result<Profile, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    read::open(path.to_str().unwrap())
}

fn open(bytes: &[u8]) -> Result<Profile, Error> {
    open_as("db.sqlite", bytes)
}

fn answer(profile: Profile) -> Value {
    assert_eq!(profile.source.format, "ttnn_db");
    let mut answer = serde_json::to_value(summary(&[profile], &Request::default()).unwrap()).unwrap();
    answer["ranks"][0]["file"] = Value::Null;
    answer["ranks"][0].take()
}

#[test]
fn buffers_live_while_they_are_listed() {
    let found = answer(open(&database(TODAY, CONTENT)).unwrap());
    assert_eq!((&found["operations"]["total"], &found["operations"]["reported"]), (&json!(3), &json!(2)));
    let dram = &found["pools"]["DRAM"];
    assert_eq!(
        (&dram["peak_per_bank"], &dram["peak_step"], &dram["banks"]),
        (&json!(6144), &json!(1), &Value::Null)
    );
    assert_eq!((&dram["final_per_bank"], &dram["final_source"]), (&json!(2048), &json!("measured")));
    let l1 = &found["pools"]["L1"];
    assert_eq!(
        (&l1["peak_per_bank"], &l1["banks"], &l1["capacity_per_bank"]),
        (&json!(1088), &json!(64), &json!(1_395_424))
    );
    assert_eq!((&l1["peak_step"], &l1["caused_by_step"]), (&json!(2), &json!(1)));
    let live = found["peak"]["live"].as_array().unwrap();
    let names: Vec<(&str, u64)> =
        live.iter().map(|row| (row["name"].as_str().unwrap(), row["per_bank"].as_u64().unwrap())).collect();
    assert_eq!(names, [("tensor 11", 4096), ("tensor 10", 2048)]);
    assert_eq!((&live[0]["shape"], &live[0]["dtype"]), (&json!([20, 64]), &json!("bf16")));
    assert_eq!((&live[0]["padded_bytes"], &live[0]["logical_bytes"]), (&json!(4096), &json!(2560)));
    assert_eq!((&live[0]["dies_step"], &live[1]["dies_step"]), (&json!(2), &Value::Null));
    assert_eq!(found["peak"]["unexplained_per_bank"], 0);
    assert_eq!(found["peaks"]["L1"]["caused_by"]["loc"], "model.py:4");
    let blocks = json!([
        {"address": 4096, "size": 2048, "allocated": true}, {"address": 6144, "size": 2048, "allocated": false},
        {"address": 8192, "size": 4096, "allocated": true},
    ]);
    assert_eq!(found["peak"]["blocks"], blocks);
}

#[test]
fn schemas_of_all_eras_say_the_same() {
    let today = answer(open(&database(TODAY, CONTENT)).unwrap());
    assert!(answer(open(&database(&earlier(), CONTENT)).unwrap()) == today);
    // Without any table that is not needed, names and locations are missing, and nothing else.
    let bare: String = TODAY
        .lines()
        .collect::<Vec<_>>()
        .join(" ")
        .split_inclusive(';')
        .filter(|statement| statement.contains("TABLE operations") || statement.contains("TABLE buffers"))
        .collect();
    let content: String = CONTENT
        .split_inclusive(";\n")
        .filter(|statement| statement.contains("INTO operations") || statement.contains("INTO buffers"))
        .collect();
    let bare = answer(open(&database(&bare, &content)).unwrap());
    assert_eq!(bare["pools"]["DRAM"]["peak_per_bank"], today["pools"]["DRAM"]["peak_per_bank"]);
    assert_eq!(bare["peak"]["live"][0]["name"], Value::Null);
    assert_eq!(bare["pools"]["L1"]["banks"], Value::Null);
}

#[test]
fn a_packed_database_is_unpacked_first() {
    let bytes = database(TODAY, CONTENT);
    let plain = answer(open(&bytes).unwrap());
    let packed = open_as("db.sqlite.zst", &zstd::encode_all(bytes.as_slice(), 1).unwrap()).unwrap();
    assert!(answer(packed) == plain);
}

#[test]
fn ranks_are_answered_apart() {
    let second = "
        INSERT INTO operations (operation_id, name, rank) VALUES (1, 'ttnn.add', 1);
        INSERT INTO buffers (operation_id, device_id, address, max_size_per_bank, buffer_type, buffer_layout, rank)
            VALUES (1, 0, 64, 128, 0, 0, 1);";
    let profile = open(&database(TODAY, &format!("{CONTENT}{second}"))).unwrap();
    let answer = serde_json::to_value(summary(&[profile], &Request::default()).unwrap()).unwrap();
    assert_eq!((&answer["ranks"][0]["rank"], &answer["ranks"][1]["rank"]), (&json!("0"), &json!("1")));
    assert_eq!(answer["ranks"][0]["pools"]["DRAM"]["peak_per_bank"], 6144);
    assert_eq!(answer["ranks"][1]["pools"]["DRAM"]["peak_per_bank"], 128);
}

#[test]
fn errors_become_faults() {
    let message = "TT_THROW @ bank_manager.cpp:462: tt::exception info: Out of Memory: Not enough space to allocate 12288 B \
                   DRAM buffer across 12 banks, where each bank needs to store 1024 B, but bank size is only 512 B";
    let error = format!(
        "INSERT INTO errors (operation_id, operation_name, error_message) VALUES (3, 'ttnn.x', '{message}');"
    );
    let found = answer(open(&database(TODAY, &format!("{CONTENT}{error}"))).unwrap());
    assert_eq!((&found["oom"]["step"], &found["oom"]["requested_per_bank"]), (&json!(2), &json!(1024)));
}

#[test]
fn what_is_no_database_of_ttnn_is_said() {
    let other = open(&database("CREATE TABLE people (name text); CREATE TABLE a (b int);", "")).unwrap_err();
    assert!(other.to_string().contains("an SQLite database with the tables a, people"), "{other}");
    let empty =
        open(&database(TODAY, "INSERT INTO operations (operation_id, name) VALUES (1, 'x');")).unwrap_err();
    assert_eq!(empty.exit_code(), 4);
    assert!(empty.to_string().contains("enable_detailed_buffer_report"), "{empty}");
}

#[test]
fn a_corrupt_database_brings_nothing_down() {
    let bytes = database(TODAY, CONTENT);
    for length in (16..bytes.len()).step_by(997) {
        let _ = open(&bytes[..length]).map(|profile| summary(&[profile], &Request::default()));
    }
    for at in (16..bytes.len()).step_by(211) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0xff;
        let _ = open(&bytes).map(|profile| summary(&[profile], &Request::default()));
    }
}

#[test]
fn the_file_is_not_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db.sqlite");
    std::fs::write(&path, database(TODAY, CONTENT)).unwrap();
    let before = std::fs::read(&path).unwrap();
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    read::open(path.to_str().unwrap()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn the_corpus_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/ttnn_db/db.sqlite");
    let found = answer(read::open(path).unwrap());
    assert_eq!(found["pools"]["DRAM"]["peak_per_bank"], 706_560);
    assert_eq!(found["suspects"][0]["op"], "ttnn.from_torch");
}

#[test]
fn a_result_at_an_address_that_was_in_use_is_new_memory() {
    let content = "
        INSERT INTO operations (operation_id, name) VALUES (1, 'ttnn.a'), (2, 'ttnn.b'), (3, 'ttnn.c'), (4, 'ttnn.inplace');
        INSERT INTO tensors (tensor_id, shape, dtype, layout, device_id, address, buffer_type) VALUES
            (1, 'Shape([32, 32])', 'DataType.BFLOAT16', 'Layout.TILE', 0, 64, 0),
            (2, 'Shape([32, 32])', 'DataType.BFLOAT16', 'Layout.TILE', 0, 128, 0),
            (3, 'Shape([32, 32])', 'DataType.BFLOAT16', 'Layout.TILE', 0, 64, 0),
            (4, 'Shape([32, 32])', 'DataType.BFLOAT16', 'Layout.TILE', 0, 64, 0);
        INSERT INTO output_tensors (operation_id, output_index, tensor_id) VALUES (1, 0, 1), (2, 0, 2), (3, 0, 3), (4, 0, 4);
        INSERT INTO input_tensors (operation_id, input_index, tensor_id) VALUES (2, 0, 1), (3, 0, 2), (4, 0, 3);
        INSERT INTO buffers (operation_id, device_id, address, max_size_per_bank, buffer_type, buffer_layout) VALUES
            (1, 0, 64, 64, 0, 0), (2, 0, 64, 64, 0, 0), (2, 0, 128, 64, 0, 0), (3, 0, 64, 64, 0, 0), (3, 0, 128, 64, 0, 0),
            (4, 0, 64, 64, 0, 0), (4, 0, 128, 64, 0, 0);";
    let profile = open(&database(TODAY, content)).unwrap();
    let rank = &profile.ranks[0];
    let mut lives: Vec<(String, Option<u32>, String)> = (0..rank.tensors.len())
        .map(|row| {
            let tensor = rank.tensors.get(row).unwrap();
            let name = tensor.ssa.map(|name| profile.text(name).to_owned()).unwrap_or_default();
            (name, tensor.step.map(ttmem::model::StepNumber::get), format!("{:?}", tensor.dies))
        })
        .collect();
    lives.sort();
    let named = |name: &str, step, dies: &str| (name.to_owned(), Some(step), dies.to_owned());
    assert_eq!(
        lives,
        [named("tensor 1", 0, "early(3)"), named("tensor 2", 1, "never"), named("tensor 3", 2, "never")]
    );
}

#[test]
fn operations_and_rows_that_do_not_belong_together_are_said() {
    let content = "
        INSERT INTO operations (operation_id, name) VALUES (1, 'ttnn.a'), (3, 'ttnn.b'), (4, 'ttnn.fails');
        INSERT INTO buffers (operation_id, device_id, address, max_size_per_bank, buffer_type, buffer_layout) VALUES
            (1, 0, 64, 10, 0, 0), (2, 0, 512, 500, 0, 0), (3, 0, 64, 50, 0, 0);";
    let profile = open(&database(TODAY, content)).unwrap();
    let said: Vec<&str> = profile.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert!(
        said.iter().any(|line| line.starts_with("1 buffer row refers to an operation that does not exist")),
        "{said:?}"
    );
    assert!(said.iter().any(|line| line.starts_with("1 operation has no buffer rows")), "{said:?}");
    let found = answer(profile);
    assert_eq!(
        (&found["pools"]["DRAM"]["peak_per_bank"], &found["pools"]["DRAM"]["final_per_bank"]),
        (&json!(50), &json!(50))
    );
}

#[test]
fn a_database_with_a_journal_is_read_whole_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db #1?.sqlite");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;").unwrap();
    connection.execute_batch(TODAY).unwrap();
    connection.execute_batch(CONTENT).unwrap();
    let files = || {
        let mut names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = files();
    let found = answer(read::open(path.to_str().unwrap()).unwrap());
    assert_eq!(found["pools"]["DRAM"]["peak_per_bank"], 6144);
    assert_eq!(files(), before);
    drop(connection);
    assert_eq!(answer(read::open(path.to_str().unwrap()).unwrap())["pools"]["DRAM"]["peak_per_bank"], 6144);
}

/// What a detailed report adds, with numbers as ttnn 0.81.1 wrote them: 16 pages of 6 bytes in L1, 84 of 40 bytes in DRAM,
/// and shards of 7 pages of 6 bytes in DRAM. Only L1 has rows of pages.
const DETAILED: &str = "
CREATE TABLE report_metadata (key text, value text);
CREATE TABLE buffer_chunks (operation_id int, device_id int, address int, bank_id int, page_size int, num_pages int,
    buffer_type int, rank int NOT NULL DEFAULT 0);
CREATE TABLE captured_graph (operation_id int, captured_graph text, rank int NOT NULL DEFAULT 0);
ALTER TABLE devices ADD COLUMN worker_l1_size int;
INSERT INTO operations (operation_id, name) VALUES (1, 'ttnn.empty'), (2, 'ttnn.empty'), (3, 'ttnn.deallocate');
INSERT INTO buffers (operation_id, device_id, address, max_size_per_bank, buffer_type, buffer_layout) VALUES
    (1, 0, 1048640, 3360, 0, 0),
    (2, 0, 1048640, 3360, 0, 0), (2, 0, 1480096, 96, 1, 0), (2, 0, 1054016, 42, 0, 2);
INSERT INTO tensors (tensor_id, shape, dtype, layout, device_id, address, buffer_type) VALUES
    (1, 'Shape([1, 1, 1000, 10])', 'DataType.FLOAT32', 'Layout.ROW_MAJOR', 0, 1048640, 0);
INSERT INTO buffer_chunks (operation_id, device_id, address, bank_id, page_size, num_pages, buffer_type) VALUES
    (2, 0, 1480096, 0, 6, 16, 1);
INSERT INTO captured_graph (operation_id, captured_graph) VALUES
    (1, '[{\"node_type\": \"buffer_allocate\", \"params\":
        {\"address\": 1048640, \"type\": \"DRAM\", \"buffer_type\": 0, \"max_size_per_bank\": 5376, \"size\": 40000}}]'),
    (2, '[{\"node_type\": \"capture_start\", \"params\": null}, {\"node_type\": \"buffer_allocate\", \"params\":
        {\"address\": 1054016, \"type\": \"DRAM\", \"buffer_type\": 0, \"max_size_per_bank\": 224, \"size\": 504}}]');
";

#[test]
fn sizes_are_what_the_allocator_takes() {
    let held = |worker_l1_size: &str| {
        let device = format!("UPDATE devices SET worker_l1_size = {worker_l1_size};");
        let profile = open(&database(TODAY, &format!("{DETAILED}{device}"))).unwrap();
        let said: Vec<String> = profile.warnings.iter().map(|warning| warning.message.clone()).collect();
        let found = answer(profile);
        let peak = |pool: &str| found["pools"][pool]["peak_per_bank"].as_u64();
        (peak("DRAM"), peak("L1"), said)
    };
    // Pages of 40 bytes take 64 in DRAM on both; 84 of them, and the shards' 224 bytes.
    let (dram, l1, said) = held("1499136");
    assert_eq!((dram, l1), (Some(84 * 64 + 224), Some(16 * 16)));
    assert!(
        !said.iter().any(|line| line.contains("architecture") || line.contains("no buffer rows")),
        "{said:?}"
    );
    let (dram, l1, _) = held("1572864");
    assert_eq!((dram, l1), (Some(84 * 64 + 256), Some(16 * 16)));
    let (dram, l1, said) = held("NULL");
    assert_eq!((dram, l1), (Some(84 * 64 + 224), Some(256)));
    assert!(said.iter().any(|line| line.contains("does not name the device architecture")), "{said:?}");
}

/// Adds the node of the buffer in L1.
const L1_NODE: &str = r#"UPDATE captured_graph SET captured_graph = replace(captured_graph, ']', ', {"node_type":
    "buffer_allocate", "params": {"address": 1480096, "type": "L1", "buffer_type": 1, "max_size_per_bank": 256, "size": 96}}]')
    WHERE operation_id = 2;"#;

#[test]
fn an_imported_report_without_rows_after_an_operation_had_no_buffers_then() {
    let content = format!("{DETAILED}{L1_NODE}");
    let found = answer(open(&database(TODAY, &content)).unwrap());
    for pool in ["DRAM", "L1"] {
        assert_eq!(found["pools"][pool]["final_per_bank"], 0, "{pool}");
    }
    let profile = [open(&database(TODAY, &content)).unwrap()];
    let request = Request { at: Some(1), ..Request::default() };
    let answer = serde_json::to_value(summary(&profile, &request).unwrap()).unwrap();
    // Nothing in L1 was listed after the first operation.
    assert_eq!(answer["ranks"][0]["at"]["pools"]["L1"]["allocated_per_bank"], 0);
}

#[test]
fn layouts_are_named_by_the_configuration_of_the_tensor() {
    // ttnn numbers height sharding 2, its importer of reports 1.
    let spread_of = |number: u64, configuration: &str| {
        let content =
            CONTENT.replace("(2, 0, 4096, 1088, 1, 2)", &format!("(2, 0, 4096, 1088, 1, {number})"));
        let update = format!("UPDATE tensors SET memory_config = '{configuration}' WHERE tensor_id = 12;");
        let profile = open(&database(TODAY, &format!("{content}{update}"))).unwrap();
        let spreads = profile.types.iter().filter_map(|ty| ty.layout.as_ref()?.spread);
        spreads.map(|spread| profile.text(spread).to_owned()).collect::<Vec<_>>()
    };
    let configuration =
        "MemoryConfig(memory_layout=TensorMemoryLayout::HEIGHT_SHARDED,buffer_type=BufferType::L1)";
    for (number, text) in [(1, configuration), (2, configuration), (2, "")] {
        assert!(spread_of(number, text).contains(&"height_sharded".to_owned()), "{number} {text}");
    }
}

/// The tables of schema 3.5 that the reader uses, with the device of an n150.
const SCHEMA_3_5: &str = "
CREATE TABLE devices (device_id int, num_y_compute_cores int, num_x_compute_cores int, worker_l1_size int,
    l1_num_banks int, l1_bank_size int, address_at_first_l1_cb_buffer int, rank int NOT NULL DEFAULT 0);
CREATE TABLE operations (operation_id int, name text, duration float, rank int NOT NULL DEFAULT 0);
CREATE TABLE buffers (operation_id int, device_id int, address int, max_size_per_bank int, buffer_type int,
    buffer_layout int, rank int NOT NULL DEFAULT 0);
CREATE TABLE captured_graph (operation_id int, captured_graph text, rank int NOT NULL DEFAULT 0);
CREATE TABLE operation_executions (execution_id int, operation_id int, rank int NOT NULL DEFAULT 0);
CREATE TABLE report_metadata (key text UNIQUE, value text);
CREATE TABLE stack_traces (operation_id int, stack_trace text, source_file_id int, rank int NOT NULL DEFAULT 0);
CREATE TABLE errors (operation_id int, operation_name text, error_type text, error_message text, stack_trace text,
    timestamp text, rank int NOT NULL DEFAULT 0);
INSERT INTO devices VALUES (0, 8, 8, 1499136, 64, 1376928, 105824, 0);
";

/// An operation with its nodes, and the buffers after it: address, size per bank and type.
type Called<'a> = (&'a str, Vec<Value>, &'a [(u64, u64, u64)]);

fn captured(operations: &[Called<'_>]) -> String {
    let mut content = String::new();
    for (id, (name, nodes, buffers)) in (1..).zip(operations) {
        let numbered = (0..).zip(nodes).map(|(counter, node)| {
            let mut node = node.clone();
            node["counter"] = json!(counter);
            node
        });
        let graph = Value::Array(numbered.collect()).to_string().replace('\'', "''");
        content += &format!("INSERT INTO operations (operation_id, name) VALUES ({id}, '{name}');\n");
        content +=
            &format!("INSERT INTO captured_graph (operation_id, captured_graph) VALUES ({id}, '{graph}');\n");
        for (address, size, kind) in *buffers {
            content += &format!(
                "INSERT INTO buffers (operation_id, device_id, address, max_size_per_bank, buffer_type, buffer_layout)
                 VALUES ({id}, 0, {address}, {size}, {kind}, 0);\n"
            );
        }
    }
    content
}

fn node(kind: &str, params: Value) -> Value {
    json!({"node_type": kind, "params": params, "connections": [3], "arguments": ["x"], "stacking_level": 1})
}

fn begin(name: &str) -> Value {
    node("function_start", json!({"name": name}))
}

fn end(name: &str) -> Value {
    node("function_end", json!({"name": name}))
}

fn buffer(kind: &str, address: u64, per_bank: u64, buffer_type: u64) -> Value {
    let place = if buffer_type == 0 { "DRAM" } else { "L1" };
    let params = json!({"address": address, "max_size_per_bank": per_bank, "size": 8 * per_bank, "type": place,
        "buffer_type": buffer_type, "layout": "INTERLEAVED", "device_id": 0});
    node(kind, params)
}

fn allocate(address: u64, per_bank: u64, buffer_type: u64) -> Value {
    buffer("buffer_allocate", address, per_bank, buffer_type)
}

fn deallocate(address: u64, per_bank: u64, buffer_type: u64) -> Value {
    buffer("buffer_deallocate", address, per_bank, buffer_type)
}

fn circular(address: u64, size: u64) -> Value {
    let params = json!({"address": address, "size": size, "core_range_set": "{[0-0 - 7-7]}",
        "globally_allocated": "0", "device_id": 0});
    node("circular_buffer_allocate", params)
}

/// A device operation that runs a program.
fn program(buffers: Vec<Value>) -> Vec<Value> {
    let mut nodes = vec![
        begin("ttnn.softmax"),
        begin("SoftmaxDeviceOperation"),
        node("circular_buffer_deallocate_all", json!({"device_id": 0})),
    ];
    nodes[1]["stacking_level"] = json!(2);
    nodes.extend(buffers);
    nodes.extend([end("SoftmaxDeviceOperation"), end("ttnn.softmax")]);
    nodes
}

fn peak(profile: &Profile, pool: &str) -> Option<u64> {
    let (_, pool) = profile.ranks[0].pool_named(profile, pool)?;
    pool.curve(CurveKind::Allocated)?.value.iter().copied().max()
}

fn said(profile: &Profile) -> Vec<&str> {
    profile.warnings.iter().map(|warning| warning.message.as_str()).collect()
}

#[test]
fn graphs_show_what_happens_inside_operations() {
    let sharded = "MemoryConfig(memory_layout=TensorMemoryLayout::BLOCK_SHARDED,buffer_type=BufferType::L1,\
        shard_spec=ShardSpec{grid=[{\"start\":{\"x\":0,\"y\":0},\"end\":{\"x\":3,\"y\":1}], shape=[64, 32]})";
    let tensor = json!({"tensor_id": 4, "address": 1_480_704, "buffer_type": 1, "shape": "Shape([128, 128])",
        "dtype": "DataType::BFLOAT16", "layout": "Layout::TILE", "size": 32768, "memory_config": sharded});
    let content = captured(&[
        (
            "ttnn.empty",
            vec![
                begin("ttnn.empty"),
                allocate(1_480_704, 2048, 1),
                node("tensor", tensor),
                end("ttnn.empty"),
            ],
            &[(1_480_704, 2048, 1)],
        ),
        (
            "ttnn.sum",
            vec![
                begin("ttnn.sum"),
                allocate(1_048_640, 4096, 0),
                allocate(1_052_736, 2048, 0),
                deallocate(1_048_640, 4096, 0),
                end("ttnn.sum"),
            ],
            &[(1_480_704, 2048, 1), (1_052_736, 2048, 0)],
        ),
    ]);
    let profile = open(&database(SCHEMA_3_5, &content)).unwrap();
    assert!(said(&profile).is_empty(), "{:?}", said(&profile));
    assert_eq!((peak(&profile, "DRAM"), peak(&profile, "L1")), (Some(6144), Some(2048)));
    let rank = &profile.ranks[0];
    assert_eq!(rank.placements.address, [1_048_640, 1_480_704, 1_052_736]);
    let map = serde_json::to_value(memory_map(&profile, 0, None).unwrap()).unwrap();
    let l1 = &map["pools"]["L1"];
    assert_eq!((&l1["free_per_bank"], &l1["largest_free_per_bank"]), (&json!(1_374_880), &json!(1_374_880)));
    assert_eq!(
        (&l1["buffers"][0]["name"], &l1["buffers"][0]["cores"]),
        (&json!("tensor 4"), &json!("{[0-0 - 3-1]}"))
    );
    let dram = &map["pools"]["DRAM"];
    assert_eq!((&dram["allocated_per_bank"], &dram["capacity_per_bank"]), (&json!(2048), &Value::Null));
    let memory = rank.core_memory.unwrap();
    assert_eq!(
        (memory.size, memory.reserved, memory.small, memory.grid),
        (1_499_136, 105_824, 16_384, Some((8, 8)))
    );
}

#[test]
fn programs_have_their_buffers_and_those_of_the_cache_too() {
    let known = || program(vec![circular(105_824, 4096), circular(109_920, 2048)]);
    let mut other = program(Vec::new());
    other[1]["arguments"] = json!(["y"]);
    let list = &[(1_048_640, 2048, 0)][..];
    let mut first = known();
    first.insert(2, allocate(1_048_640, 2048, 0));
    let content = captured(&[
        ("ttnn.softmax", first, list),
        ("ttnn.softmax", program(Vec::new()), list),
        ("ttnn.softmax", other, list),
        ("ttnn.relu", Vec::new(), list),
    ]);
    let executed = "INSERT INTO operation_executions (execution_id, operation_id) VALUES (1, 4);";
    let profile = open(&database(SCHEMA_3_5, &format!("{content}{executed}"))).unwrap();
    let rank = &profile.ranks[0];
    let sizes = |step: Step| rank.program_buffers.of(step).map(|buffer| buffer.bytes).collect::<Vec<_>>();
    assert_eq!(
        (sizes(0), sizes(1), sizes(2), sizes(3)),
        (vec![4096, 2048], vec![4096, 2048], vec![], vec![])
    );
    assert!(rank.program_buffers.kind.iter().all(|kind| *kind == ProgramBufferKind::Circular));
    let unknown: Vec<bool> =
        rank.steps.marks.iter().map(|marks| marks.has(StepMarks::UNKNOWN_PROGRAM)).collect();
    assert_eq!(unknown, [false, false, true, true]);
    // The last operation has no graph.
    assert!(
        said(&profile)[0].starts_with("1 of 4 operations have no captured graph"),
        "{:?}",
        said(&profile)
    );
}

#[test]
fn lists_show_what_happens_between_operations() {
    let run = |address: u64, size: u64| vec![begin("ttnn.add"), allocate(address, size, 0), end("ttnn.add")];
    // Python frees the first result before the second operation, which gets the same address, and the second after it.
    let content = captured(&[
        ("ttnn.add", run(1_048_640, 4096), &[(1_048_640, 4096, 0), (1_060_000, 64, 0)]),
        ("ttnn.add", run(1_048_640, 4096), &[(1_048_640, 4096, 0), (1_060_000, 64, 0)]),
        ("ttnn.add", run(1_070_000, 32), &[(1_060_000, 64, 0), (1_070_000, 32, 0)]),
    ]);
    let profile = open(&database(SCHEMA_3_5, &content)).unwrap();
    assert_eq!(peak(&profile, "DRAM"), Some(4160));
    let rank = &profile.ranks[0];
    let names: Vec<&str> = (0..rank.end()).filter_map(|step| profile.op_name(rank, step)).collect();
    assert_eq!(names, ["ttnn.add", "deallocate", "ttnn.add", "deallocate", "ttnn.add"]);
    // No graph allocated the small buffer, so it was there from the start.
    let (_, dram) = rank.pool_named(&profile, "DRAM").unwrap();
    let allocated = dram.curve(CurveKind::Allocated).unwrap();
    let at = |step: Step| allocated.value_at(Moment::after(step));
    assert_eq!(allocated.value_at(Moment::START), Some(64));
    assert_eq!([at(0), at(1), at(2), at(3), at(4)].map(Option::unwrap), [4160, 64, 4160, 64, 96]);
}

#[test]
fn buffers_from_before_the_capture_are_found_when_they_are_freed() {
    let tensor = |id: u64, address: u64| {
        let params = json!({"tensor_id": id, "address": address, "buffer_type": 0, "shape": "Shape([32, 32])",
            "dtype": "DataType::BFLOAT16", "layout": "Layout::TILE", "size": 2048});
        node("tensor", params)
    };
    let content = captured(&[
        (
            "ttnn.add",
            vec![
                begin("ttnn.add"),
                tensor(1, 1_048_640),
                tensor(2, 1_100_000),
                allocate(1_200_000, 64, 0),
                end("ttnn.add"),
            ],
            &[(1_200_000, 64, 0)],
        ),
        (
            "ttnn.deallocate",
            vec![begin("ttnn.deallocate"), deallocate(1_048_640, 2048, 0), end("ttnn.deallocate")],
            &[(1_200_000, 64, 0)],
        ),
    ]);
    let profile = open(&database(SCHEMA_3_5, &content)).unwrap();
    assert_eq!(peak(&profile, "DRAM"), Some(2112));
    let map = serde_json::to_value(memory_map(&profile, 0, Some(0)).unwrap()).unwrap();
    assert_eq!(map["pools"]["DRAM"]["buffers"][0]["name"], "tensor 1");
    let said = said(&profile);
    assert!(said[0].starts_with("1 freed buffer (16384 bytes) was allocated before"), "{said:?}");
    assert!(said[1].starts_with("operations use 1 buffer that existed before the first one"), "{said:?}");
}

#[test]
fn an_error_has_its_operation_and_its_line() {
    let message = "TT_THROW @ dataflow_buffer.cpp:3096: tt::exception\ninfo:\nStatically allocated circular buffers in \
                   program 8 clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer allocated at 434176 and static \
                   circular buffer region ends at 1185120\nbacktrace:\n --- ttnn::softmax(ttnn::Tensor const&)\n";
    let stack = "  File \"/lib/python3/site-packages/ttnn/decorators.py\", line 9, in __call__\n    return f()\n\n  \
                 File \"model.py\", line 7, in forward\n    x = ttnn.softmax(x)\n\n  File \"model.py\", line 20, in <module>\n";
    let fault = |later: bool| {
        let failing =
            vec![begin("ttnn.softmax"), allocate(1_048_640, 2048, 0), deallocate(1_048_640, 2048, 0)];
        let mut operations = vec![
            (
                "ttnn.empty",
                vec![begin("ttnn.empty"), allocate(1_300_000, 2048, 1), end("ttnn.empty")],
                &[(1_300_000, 2048, 1)][..],
            ),
            // The importer does not list buffers after an operation that did not end.
            ("ttnn.softmax", failing, &[][..]),
        ];
        // Functions of the program and deallocations do not show that it goes on.
        for name in ["mark", "ttnn::deallocate"] {
            operations.push((name, vec![begin(name), end(name)], &[(1_300_000, 2048, 1)][..]));
        }
        if later {
            let nodes = vec![begin("ttnn.add"), end("ttnn.add")];
            operations.push(("ttnn.add", nodes, &[(1_300_000, 2048, 1)][..]));
        }
        let errors = format!(
            "INSERT INTO errors (operation_id, operation_name, error_message, stack_trace) VALUES
                (2, 'ttnn.softmax', '{message}', '{stack}');"
        );
        let profile = open(&database(SCHEMA_3_5, &format!("{}{errors}", captured(&operations)))).unwrap();
        assert!(said(&profile).is_empty(), "{:?}", said(&profile));
        let map = serde_json::to_value(memory_map(&profile, 0, None).unwrap()).unwrap();
        assert_eq!(map["pools"]["L1"]["allocated_per_bank"], 2048);
        let rank = &profile.ranks[0];
        let (fault, detail) = (&rank.faults[0], rank.fault_details[&0]);
        assert!(rank.steps.marks[1].has(StepMarks::FAILED));
        let text = |id: Option<_>| id.map(|id| profile.text(id).to_owned());
        (fault.step, fault.region_end, fault.ended_program, text(detail.op), text(detail.loc))
    };
    let expected = |ended| {
        let (op, loc) = ("ttnn.softmax".to_owned(), "model.py:7".to_owned());
        (Some(1), Some(1_185_120), ended, Some(op), Some(loc))
    };
    assert_eq!(fault(false), expected(true));
    assert_eq!(fault(true), expected(false));
}

#[test]
fn errors_of_unknown_operations_are_said() {
    let content = captured(&[(
        "ttnn.empty",
        vec![begin("ttnn.empty"), allocate(1_048_640, 64, 0), end("ttnn.empty")],
        &[(1_048_640, 64, 0)],
    )]);
    let errors = "INSERT INTO errors (operation_id, operation_name, error_message) VALUES
        (0, 'ttnn.pad', 'wrong'), (NULL, 'ttnn.add', NULL), ('x', 'ttnn.mul', 'no');";
    let profile = open(&database(SCHEMA_3_5, &format!("{content}{errors}"))).unwrap();
    let said = said(&profile);
    assert_eq!(said, ["ttnn.pad, failed (wrong)", "ttnn.add, failed (no message)", "ttnn.mul, failed (no)"]);
}

#[test]
fn a_graph_that_cannot_be_read_is_counted() {
    let good = vec![begin("ttnn.empty"), allocate(1_048_640, 64, 0), end("ttnn.empty")];
    let list = &[(1_048_640, 64, 0)][..];
    let content = captured(&[("ttnn.empty", good, list), ("ttnn.add", vec![begin("ttnn.add")], list)]);
    let deep = "[".repeat(100_000);
    for graph in [
        "'not JSON'",
        "'[{\"node_type\": \"buffer_allo'",
        "7",
        "NULL",
        "''",
        "'{\"a\": 1}'",
        "x'ff00'",
        &format!("'{deep}'"),
    ] {
        let update = format!("UPDATE captured_graph SET captured_graph = {graph} WHERE operation_id = 2;");
        let profile = open(&database(SCHEMA_3_5, &format!("{content}{update}"))).unwrap();
        let said = said(&profile);
        let is_missing = graph == "NULL";
        let corrupt = said.iter().any(|line| {
            line.starts_with("1 captured graph is corrupt and skipped; the first is that of operation 2")
        });
        assert_eq!(corrupt, !is_missing, "{said:?}");
        let missing = said.iter().any(|line| line.starts_with("1 of 2 operations have no captured graph"));
        assert!(missing, "{said:?}");
        assert_eq!(peak(&profile, "DRAM"), Some(64));
    }
    // Elements that are not nodes, unknown kinds, and values of other types.
    let odd = json!([7, null, {"node_type": "new_kind"}, {"node_type": "buffer_allocate"},
        {"node_type": "buffer_allocate", "params": {"address": "a", "buffer_type": 0, "size": 1}},
        {"node_type": "buffer_deallocate", "params": {"address": 5, "buffer_type": 1, "size": -1}},
        {"node_type": "function_start", "stacking_level": 9_007_199_254_740_993_u64}, {"params": {}}]);
    let update = format!("UPDATE captured_graph SET captured_graph = '{odd}' WHERE operation_id = 2;");
    let profile = open(&database(SCHEMA_3_5, &format!("{content}{update}"))).unwrap();
    let said = said(&profile);
    assert!(
        said.contains(&"3 elements are not nodes and were skipped; the first is node 0 of operation 2"),
        "{said:?}"
    );
    let unknown = "1 node has an unknown kind and was skipped, so usage may be wrong; the first is node 2 of operation 2";
    assert!(said.iter().any(|line| line.starts_with(unknown)), "{said:?}");
    assert!(
        said.iter().any(|line| line.starts_with("1 node of a captured graph has no address")),
        "{said:?}"
    );
}

#[test]
fn cut_and_changed_graphs_bring_nothing_down() {
    let content = captured(&[(
        "ttnn.softmax",
        program(vec![circular(105_824, 4096), allocate(1_048_640, 64, 0), deallocate(1_048_640, 64, 0)]),
        &[(1_048_640, 64, 0)],
    )]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db.sqlite");
    std::fs::write(&path, database(SCHEMA_3_5, &content)).unwrap();
    let connection = Connection::open(&path).unwrap();
    let graph: String =
        connection.query_row("SELECT captured_graph FROM captured_graph", [], |row| row.get(0)).unwrap();
    let mut texts: Vec<String> = (0..graph.len()).step_by(31).map(|end| graph[..end].to_owned()).collect();
    for (old, new) in
        [("1048640", "-1"), ("64", "1e400"), ("64", "\"64\""), ("1048640", "18446744073709551615")]
    {
        texts.push(graph.replace(old, new));
    }
    for text in texts {
        connection.execute("UPDATE captured_graph SET captured_graph = ?", [&text]).unwrap();
        let profile = read::open(path.to_str().unwrap()).unwrap();
        let _ = summary(&[profile], &Request::default());
    }
}

#[test]
fn rows_with_values_of_other_types_are_counted() {
    let content = captured(&[(
        "ttnn.empty",
        vec![begin("ttnn.empty"), allocate(1_048_640, 64, 0), end("ttnn.empty")],
        &[(1_048_640, 64, 0)],
    )]);
    let odd = "
        INSERT INTO operations (operation_id, name) VALUES (NULL, 'a'), ('x', 'b'), (2, NULL);
        INSERT INTO buffers (operation_id, device_id, address, max_size_per_bank, buffer_type, buffer_layout) VALUES
            (NULL, 0, 1, 1, 1, 1), ('x', 0, 1, 1, 1, 1), (2, 0, NULL, 64, 0, 0), (2, 0, 64, 'much', 0, 0),
            (2, 0, 64, 64, 'DRAM', 0), (2, 'x', 64, 64, 0, 0), (2, 0, 1048640, 64, 0, 'x');
        INSERT INTO stack_traces (operation_id, stack_trace) VALUES (NULL, NULL), (1, 7), (2, 'File \"x');
        INSERT INTO operation_executions (execution_id, operation_id) VALUES (NULL, NULL), (1, 'x');
        UPDATE devices SET l1_bank_size = 'large', num_x_compute_cores = -8;";
    let profile = open(&database(SCHEMA_3_5, &format!("{content}{odd}"))).unwrap();
    let said = said(&profile);
    assert!(
        said.contains(&"2 buffer rows refer to operations that do not exist and were skipped"),
        "{said:?}"
    );
    let unreadable = "3 buffer rows have no address, size or type and were skipped; usage may be too low";
    assert!(said.contains(&unreadable), "{said:?}");
    assert_eq!(peak(&profile, "DRAM"), Some(64));
    // Columns that do not exist are unknown.
    let bare = "CREATE TABLE operations (operation_id int); CREATE TABLE buffers (operation_id int, address int,
        max_size_per_bank int, buffer_type int); INSERT INTO operations VALUES (1); INSERT INTO buffers VALUES (1, 64, 64, 0);";
    assert_eq!(peak(&open(&database(bare, "")).unwrap(), "DRAM"), Some(64));
}

#[test]
fn a_database_of_a_capture_without_dispatch_is_refused() {
    let content = captured(&[(
        "ttnn.empty",
        vec![begin("ttnn.empty"), allocate(0, 64, 0), end("ttnn.empty")],
        &[(0, 64, 0)],
    )]);
    let error = open(&database(SCHEMA_3_5, &content)).unwrap_err();
    assert_eq!(error.exit_code(), 4);
    assert!(error.to_string().contains("RunMode.NO_DISPATCH"), "{error}");
}

/// Everything about the pools, programs and steps that a report and its database have in common.
fn in_common(profile: &Profile) -> Value {
    let rank = &profile.ranks[0];
    let mut steps = Vec::new();
    for step in 0..rank.end() {
        let mut map = serde_json::to_value(memory_map(profile, 0, Some(step + 1)).unwrap()).unwrap();
        // A database does not have the size of DRAM.
        for size in ["capacity_per_bank", "free_per_bank", "largest_free_per_bank"] {
            map["pools"]["DRAM"][size] = Value::Null;
        }
        let programs: Vec<_> =
            rank.program_buffers.of(step).map(|buffer| (buffer.bytes, buffer.address)).collect();
        let marks = format!("{:?}", rank.steps.marks[step as usize]);
        steps.push(json!([profile.op_name(rank, step), profile.op_loc(rank, step), map, programs, marks]));
    }
    json!([steps, format!("{:?}", rank.core_memory)])
}

#[test]
fn a_database_and_the_report_that_it_was_made_from_say_the_same() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/");
    let report = read::open(&format!("{corpus}ttnn_graph/sample-n150-report.json")).unwrap();
    let made = read::open(&format!("{corpus}ttnn_db/sample-n150.sqlite")).unwrap();
    assert_eq!(made.source.format, "ttnn_db");
    assert!(said(&made).is_empty(), "{:?}", said(&made));
    let (report, made) = (in_common(&report), in_common(&made));
    assert_eq!(report[0].as_array().unwrap().len(), made[0].as_array().unwrap().len());
    for (ours, theirs) in made[0].as_array().unwrap().iter().zip(report[0].as_array().unwrap()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(made[1], report[1]);
}
