//! What ttrt writes: states after operations, in exact bytes, with the blocks of the banks.

use serde_json::{Value, json};
use ttmem::Error;
use ttmem::model::{Moment, PoolId, Profile, Rank, Step};
use ttmem::query::{Request, summary};
use ttmem::read;
use ttmem_testkit::sweep;

const POOLS: [(&str, &str); 4] =
    [("DRAM", "dram"), ("L1", "l1"), ("L1_SMALL", "l1_small"), ("TRACE", "trace")];

fn open(bytes: &[u8]) -> Result<Profile, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory_results.json");
    std::fs::write(&path, bytes).unwrap();
    read::open(path.to_str().unwrap())
}

fn summary_of(profile: Profile) -> Value {
    serde_json::to_value(summary(&[profile], &Request::default()).unwrap()).unwrap()
}

fn answer(value: &Value) -> Value {
    let profile = open(&serde_json::to_vec(value).unwrap()).unwrap();
    assert_eq!(profile.source.format, "ttrt_memory");
    summary_of(profile)["ranks"][0].clone()
}

fn view(allocated: u64, blocks: &[(u64, u64, &str)]) -> Value {
    let free: Vec<u64> = blocks.iter().filter(|(.., is)| *is == "no").map(|(_, size, _)| *size).collect();
    let table: Vec<Value> = blocks
        .iter()
        .enumerate()
        .map(|(id, (address, size, allocated))| {
            json!({"blockID": id.to_string(), "address": address.to_string(), "size": size.to_string(),
                "prevID": "-1", "nextID": "-1", "allocated": allocated})
        })
        .collect();
    json!({"num_banks": 12, "total_bytes_per_bank": 8192, "total_bytes_allocated_per_bank": allocated,
        "total_bytes_free_per_bank": 8192 - allocated,
        "largest_contiguous_bytes_free_per_bank": free.iter().max().copied().unwrap_or(8192 - allocated),
        "block_table": table})
}

fn record(text: &str, loc: &str, dram: &Value) -> Value {
    let none = json!({"num_banks": 64, "total_bytes_per_bank": 0, "total_bytes_allocated_per_bank": 0,
        "total_bytes_free_per_bank": 0, "largest_contiguous_bytes_free_per_bank": 0, "block_table": []});
    json!({"loc": loc, "debug_str": text, "dram": dram, "l1": none, "l1_small": none, "trace": none})
}

/// Three operations; the middle one leaves a hole.
fn records() -> Vec<Value> {
    let ty = "tensor<32x32xbf16>";
    let op = |result: &str, name: &str| format!("{result}\"ttnn.{name}\"(%arg0) : ({ty}) -> {ty}");
    vec![
        record(&op("%0 = ", "to_device"), "loc(\"a\")", &view(4096, &[(0, 4096, "yes"), (4096, 4096, "no")])),
        record(&op("%1 = ", "add"), "unknown", &view(6144, &[(0, 6144, "yes"), (6144, 2048, "no")])),
        record(
            &op("", "deallocate"),
            "",
            &view(3072, &[(2048, 3072, "yes"), (0, 2048, "no"), (5120, 3072, "no")]),
        ),
    ]
}

fn as_object(records: &[Value]) -> Value {
    Value::Object(records.iter().enumerate().map(|(key, value)| (key.to_string(), value.clone())).collect())
}

#[test]
fn states_are_after_operations_in_both_forms() {
    let list = answer(&Value::Array(records()));
    assert_eq!(list["operations"]["total"], 3);
    assert_eq!(list["operations"]["reported"], 2);
    let dram = &list["pools"]["DRAM"];
    for (field, value) in [
        ("banks", 12),
        ("capacity_per_bank", 8192),
        ("peak_per_bank", 6144),
        ("peak_total", 12 * 6144),
        ("peak_step", 2),
        ("caused_by_step", 1),
        ("final_per_bank", 3072),
        ("quantum_per_bank", 0),
        ("free_at_peak_per_bank", 2048),
    ] {
        assert_eq!(dram[field], value, "{field}");
    }
    assert_eq!(dram["final_source"], "measured");
    assert_eq!(list["peak"]["caused_by"]["op"], "ttnn.add");
    let mut object = answer(&as_object(&records()));
    object["file"] = list["file"].clone();
    assert!(object == list);
}

#[test]
fn blocks_are_a_map_of_the_bank() {
    let found = answer(&Value::Array(records()));
    let at_peak = json!([
        {"address": 0, "size": 6144, "allocated": true}, {"address": 6144, "size": 2048, "allocated": false},
    ]);
    assert_eq!(found["peak"]["blocks"], at_peak);
    // Most in pieces: 2048 free bytes lie outside of the largest piece.
    assert_eq!(found["fragmentation"]["DRAM"]["step"], 3);
    assert_eq!(
        found["fragmentation"]["DRAM"]["blocks"][0],
        json!({"address": 0, "size": 2048, "allocated": false})
    );
    assert_eq!(found["fragmentation"]["DRAM"]["blocks"].as_array().unwrap().len(), 3);
}

#[test]
fn locations_stand_beside_the_text() {
    let found = answer(&Value::Array(records()));
    assert_eq!(found["suspects"][0]["loc"], Value::Null);
    let profile = open(&serde_json::to_vec(&records()).unwrap()).unwrap();
    assert_eq!(profile.op_loc(&profile.ranks[0], 0), Some("\"a\""));
    assert_eq!(profile.op_loc(&profile.ranks[0], 1), None);
}

#[test]
fn keys_say_the_order() {
    let mut many: Vec<Value> = (0..12).map(|_| records()[0].clone()).collect();
    many[11] = records()[1].clone();
    let sorted_as_text = as_object(&many);
    let text = serde_json::to_string(&sorted_as_text).unwrap();
    // serde_json sorts keys as text: 0, 1, 10, 11, 2 …
    assert!(text.find("\"10\"").unwrap() < text.find("\"2\"").unwrap());
    let found = answer(&sorted_as_text);
    assert_eq!(found["pools"]["DRAM"]["peak_step"], 12);
}

#[test]
fn what_has_no_memory_is_said() {
    let bare = json!([{"loc": "a", "debug_str": "%0 = \"ttnn.add\"() : () -> ()", "dram": {"device_0": {}}}]);
    let error = open(&serde_json::to_vec(&bare).unwrap()).unwrap_err();
    assert_eq!(error.exit_code(), 4, "{error}");
    assert!(error.to_string().contains("run ttrt with --memory"), "{error}");
}

#[test]
fn a_file_cut_anywhere_is_answered_up_to_there() {
    let bytes = serde_json::to_vec(&records()).unwrap();
    for length in sweep::positions(0..bytes.len() - 1, 500) {
        if let Ok(profile) = open(&bytes[..length]) {
            assert!(!profile.complete && !profile.warnings.is_empty(), "cut at {length}");
            summary(&[profile], &Request::default()).unwrap();
        }
    }
}

/// The lines of a log that say what ran, in order.
enum Said {
    Operation(String),
    Start,
    Finish,
}

fn lines(log: &str) -> Vec<Said> {
    let text =
        std::fs::read_to_string(format!("{}/../../corpus/tt_log/{log}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let said = |line: &str| {
        let behind =
            |mark: &str| line.split_once(mark).map(|(_, rest)| rest.trim_end_matches("\u{1b}[0m").to_owned());
        behind("Executing operation: ")
            .map(Said::Operation)
            .or_else(|| behind("Starting execution of program: ").map(|_| Said::Start))
            .or_else(|| behind("Finished execution of program: ").map(|_| Said::Finish))
    };
    text.lines().filter_map(said).collect()
}

/// The first program of a log as ttrt would have written it: records when operations end.
fn as_ttrt(lines: &[Said], profile: &Profile) -> Vec<Value> {
    let rank = &profile.ranks[0];
    let mut records = Vec::new();
    // The operations that wait for a program inside them, and the one that began last, by program.
    let mut waiting: Vec<Option<String>> = Vec::new();
    let mut steps: Step = 0;
    for line in lines {
        match line {
            Said::Operation(text) => {
                if let Some(before) = waiting.last_mut().and_then(Option::take) {
                    records.push(after(&before, rank, steps));
                }
                steps += 1;
                *waiting.last_mut().unwrap() = Some(text.clone());
            }
            Said::Start => waiting.push(None),
            Said::Finish => {
                if let Some(last) = waiting.pop().flatten() {
                    records.push(after(&last, rank, steps));
                }
                if waiting.is_empty() {
                    return records;
                }
            }
        }
    }
    records
}

fn after(text: &str, rank: &Rank, position: Step) -> Value {
    let mut record = json!({"loc": "", "debug_str": text});
    for (index, (_, key)) in POOLS.iter().enumerate() {
        let pool = &rank.pools[PoolId::new(index).unwrap().index()];
        let reading = pool.reading(Moment::late(position));
        record[key] = json!({"num_banks": pool.banks, "total_bytes_per_bank": reading.capacity,
            "total_bytes_allocated_per_bank": reading.allocated, "total_bytes_free_per_bank": reading.free,
            "largest_contiguous_bytes_free_per_bank": reading.largest_free, "block_table": []});
    }
    record
}

/// The same program, told before operations by a log and after them by ttrt, is the same.
#[test]
fn a_log_and_ttrt_agree() {
    for log in ["vae-decoder.log", "llm-decode.log"] {
        let path = format!("{}/../../corpus/tt_log/{log}", env!("CARGO_MANIFEST_DIR"));
        let profile = read::open(&path).unwrap();
        let names: Vec<&str> = profile.ranks[0].pools.iter().map(|pool| profile.text(pool.name)).collect();
        assert_eq!(names, POOLS.map(|(name, _)| name));
        let records = as_ttrt(&lines(log), &profile);
        let found = open(&serde_json::to_vec(&records).unwrap()).unwrap();
        assert_eq!(found.warnings, [], "{log}");
        let request = Request { run: ttmem::query::RunFilter::Number(1), ..Request::default() };
        let logged =
            serde_json::to_value(summary(&[profile], &request).unwrap()).unwrap()["ranks"][0].clone();
        let told = summary_of(found)["ranks"][0].clone();
        // What a module's text tells of arguments that no operation has used, ttrt does not know.
        let of_tensors: &[&str] = match log {
            "vae-decoder.log" => {
                &["/suspects", "/peak/live_count", "/peak/explained_per_bank", "/padding/padded_bytes"]
            }
            _ => &[],
        };
        let of_pools = [
            "/operations/total",
            "/operations/reported",
            "/pools/DRAM/peak_per_bank",
            "/pools/L1/peak_per_bank",
            "/peak/step",
            "/peak/caused_by/op",
            "/peak/caused_by/loc",
            "/peak/caused_by/step",
            "/distribution",
        ];
        for path in of_pools.iter().chain(of_tensors) {
            assert_eq!(told.pointer(path), logged.pointer(path), "{log} {path}");
        }
    }
}

#[test]
fn the_corpus_is_what_its_types_say() {
    let corpus = |name: &str| format!("{}/../../corpus/ttrt_memory/{name}", env!("CARGO_MANIFEST_DIR"));
    for name in ["memory_results.json", "memory_report.json"] {
        let found = summary_of(read::open(&corpus(name)).unwrap())["ranks"][0].clone();
        // Every byte that the device reports is a tensor's.
        assert_eq!(found["peak"]["unexplained_per_bank"], 0, "{name}");
        assert_eq!(found["peak"]["live_count"], 3, "{name}");
        assert_eq!(found["peak"]["blocks"].as_array().unwrap().len(), 5, "{name}");
        assert_eq!(found["fragmentation"]["DRAM"]["step"], 5, "{name}");
    }
    let cut = read::open(&corpus("malformed/cut.json")).unwrap();
    assert!(cut.warnings[0].message.contains("the results are corrupt"), "{:?}", cut.warnings);
    assert_eq!(read::open(&corpus("malformed/no-memory.json")).unwrap_err().exit_code(), 4);
}

/// A record by its result, and what DRAM holds after it.
fn short(result: &str, is_cached: bool, allocated: u64) -> Value {
    let ty = "tensor<32x32xbf16>";
    let text = if is_cached {
        format!("{result} = ttcore.load_cached(@f, [%arg0]) : ({ty}) -> {ty}")
    } else {
        format!("{result} = \"ttnn.add\"(%arg0) : ({ty}) -> {ty}")
    };
    record(&text, "", &view(allocated, &[]))
}

#[test]
fn the_state_of_a_program_inside_is_seen_even_if_it_is_the_first() {
    let found = answer(&json!([short("%0", false, 900), short("%0", true, 110), short("%1", false, 200)]));
    assert_eq!(found["pools"]["DRAM"]["peak_per_bank"], 900);
    assert_eq!(found["operations"]["weight"], 2);
}

#[test]
fn a_program_that_is_recorded_twice_has_two_runs() {
    let first =
        [short("%0", false, 10), short("%0", true, 20), short("%1", false, 30), short("%2", false, 40)];
    let second = [short("%0", true, 50), short("%1", false, 60), short("%2", false, 70)];
    let found = answer(&Value::Array(first.into_iter().chain(second).collect()));
    assert_eq!((&found["runs"], &found["operations"]["weight"]), (&json!(2), &json!(3)));
    assert_eq!(
        (&found["pools"]["DRAM"]["peak_per_bank"], &found["pools"]["DRAM"]["peak_step"]),
        (&json!(70), &json!(7))
    );
}

#[test]
fn records_that_seem_to_nest_without_end_do_not() {
    let many: Vec<Value> =
        (0..5000).map(|_| short("%0", false, 1)).chain((0..5000).map(|_| short("%1", true, 1))).collect();
    assert_eq!(answer(&Value::Array(many))["operations"]["total"], 10_000);
}
