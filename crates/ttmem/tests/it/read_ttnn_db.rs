//! The visualizer's database: schemas of all eras, buffers as lives, and files that are none.

use rusqlite::Connection;
use serde_json::{Value, json};
use ttmem::Error;
use ttmem::model::Profile;
use ttmem::query::{Request, summary};
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
    (2, '  File \"model.py\", line 12, in <module>\n    run()\n  File \"model.py\", line 4, in run\n    ttnn.relu(x)\n');
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
    assert_eq!(found["peaks"]["L1"]["caused_by"]["loc"], "File \"model.py\", line 4, in run");
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
            VALUES (1, 0, 64, 77, 0, 0, 1);";
    let profile = open(&database(TODAY, &format!("{CONTENT}{second}"))).unwrap();
    let answer = serde_json::to_value(summary(&[profile], &Request::default()).unwrap()).unwrap();
    assert_eq!((&answer["ranks"][0]["rank"], &answer["ranks"][1]["rank"]), (&json!("0"), &json!("1")));
    assert_eq!(answer["ranks"][0]["pools"]["DRAM"]["peak_per_bank"], 6144);
    assert_eq!(answer["ranks"][1]["pools"]["DRAM"]["peak_per_bank"], 77);
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
    (1, '[{\"node_type\": \"buffer_allocate\",
        \"params\": {\"address\": 1048640, \"buffer_type\": 0, \"max_size_per_bank\": 5376}}]'),
    (2, '[{\"node_type\": \"capture_start\", \"params\": null}, {\"node_type\": \"buffer_allocate\",
        \"params\": {\"address\": 1054016, \"buffer_type\": 0, \"max_size_per_bank\": 224}}]');
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

#[test]
fn an_imported_report_without_rows_after_an_operation_had_no_buffers_then() {
    let found = answer(open(&database(TODAY, DETAILED)).unwrap());
    for pool in ["DRAM", "L1"] {
        assert_eq!(found["pools"][pool]["final_per_bank"], 0, "{pool}");
    }
    let profile = [open(&database(TODAY, DETAILED)).unwrap()];
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
