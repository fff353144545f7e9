//! The tools on files of the corpus: their numbers, pages, and what they refuse.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use ttmem::query::{self, Request};
use ttmem::read::{self, Progress};

use super::TOOLS;
use super::summary::SECTIONS;
use crate::answer::{Answer, Failure};
use crate::roots::Roots;
use crate::session::Session;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").canonicalize().unwrap()
}

fn session(root: &Path) -> Session {
    Session::new(Roots::new(&[root.to_owned()]).unwrap())
}

fn call(session: &Session, name: &str, arguments: &Value) -> Result<Answer, Failure> {
    let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
    session.call(tool, arguments.as_object().unwrap(), &Arc::new(Progress::default()))
}

#[track_caller]
#[allow(clippy::needless_pass_by_value, reason = "calls read better")]
fn answer(session: &Session, name: &str, arguments: Value) -> Value {
    let answer =
        call(session, name, &arguments).unwrap_or_else(|error| panic!("{name} {arguments}: {}", error.0));
    assert!(!answer.text.is_empty());
    answer.structured
}

#[track_caller]
#[allow(clippy::needless_pass_by_value, reason = "calls read better")]
fn refused(session: &Session, name: &str, arguments: Value) -> String {
    call(session, name, &arguments).err().unwrap_or_else(|| panic!("{name} {arguments} is accepted")).0
}

/// The JSON of `ttmem summary --json`.
fn summary_of(file: &Path, at: Option<u32>) -> Value {
    let profile = read::open(file.to_str().unwrap()).unwrap();
    serde_json::to_value(query::summary(&[profile], &Request { at, ..Request::default() }).unwrap()).unwrap()
}

/// All rows of a list, page by page.
fn pages(session: &Session, name: &str, arguments: &Value, rows: &str) -> Vec<Value> {
    let (mut all, mut arguments) = (Vec::new(), arguments.clone());
    loop {
        let page = answer(session, name, arguments.clone());
        all.extend(page[rows].as_array().unwrap().iter().cloned());
        assert!(all.len() <= 10_000);
        if page["next_cursor"].is_null() {
            assert_eq!(page["total"], all.len());
            return all;
        }
        arguments["cursor"] = page["next_cursor"].clone();
    }
}

#[test]
fn every_section_has_the_numbers_of_the_summary() {
    let (session, file) = (session(&corpus()), corpus().join("tt_log/oom-fragmentation.log"));
    let expected = summary_of(&file, None);
    let opened = answer(&session, "open", json!({"path": "tt_log/oom-fragmentation.log"}));
    assert_eq!((&opened["profile"], &opened["format"]), (&json!("p1"), &json!("tt_log")));
    let names: Vec<&String> = expected["ranks"][0].as_object().unwrap().keys().collect();
    assert!(names.iter().all(|name| SECTIONS.contains(&name.as_str())), "{names:?}");
    let cut_or_whole = |section: &str, expected: &Value| {
        let arguments = json!({"profile": "p1", "section": section, "limit": 50});
        match expected {
            Value::Array(list) => {
                assert_eq!(&pages(&session, "summary", &arguments, "items").len(), &list.len());
            }
            _ => {
                let found = answer(&session, "summary", arguments);
                if found["cut"] == json!([]) {
                    assert_eq!(&found["value"], expected, "{section}");
                }
            }
        }
    };
    for name in names {
        cut_or_whole(name, &expected["ranks"][0][name]);
    }
    let live =
        pages(&session, "summary", &json!({"profile": "p1", "section": "peak/live", "limit": 7}), "items");
    assert_eq!(json!(live), expected["ranks"][0]["peak"]["live"]);
    let overview = answer(&session, "summary", json!({"profile": "p1"}));
    assert_eq!(overview["pools"], expected["ranks"][0]["pools"]);
    assert_eq!(overview["peak"]["allocated_per_bank"], expected["ranks"][0]["peak"]["allocated_per_bank"]);
}

#[test]
fn live_tensors_are_those_of_the_summary_at_any_step() {
    let (session, file) = (session(&corpus()), corpus().join("tt_log/vae-decoder.log"));
    answer(&session, "open", json!({"path": file}));
    let peak = pages(&session, "alive_at", &json!({"profile": "p1", "step": "peak", "limit": 3}), "tensors");
    assert_eq!(json!(peak), summary_of(&file, None)["ranks"][0]["peak"]["live"]);
    for step in [0, 40, 101] {
        let expected = &summary_of(&file, Some(step))["ranks"][0]["at"]["pools"]["DRAM"];
        let arguments = json!({"profile": "p1", "step": step, "pool": "DRAM", "limit": 5});
        assert_eq!(json!(pages(&session, "alive_at", &arguments, "tensors")), expected["live"], "{step}");
        let head = &answer(&session, "alive_at", arguments)["moment"];
        for name in ["allocated_per_bank", "free_per_bank", "by_class_per_bank", "unexplained_per_bank"] {
            assert_eq!(head[name], expected[name], "{step} {name}");
        }
    }
    let groups = pages(&session, "largest", &json!({"profile": "p1", "limit": 2}), "groups");
    let sum = |rows: &[Value]| rows.iter().map(|row| row["per_bank"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum(&groups), sum(&peak));
}

#[test]
fn found_tensors_pass_the_condition_and_include_those_of_the_peak() {
    let session = session(&corpus());
    answer(&session, "open", json!({"path": "tt_log/vae-decoder.log"}));
    let all = pages(&session, "find", &json!({"profile": "p1", "limit": 50}), "tensors");
    let large =
        pages(&session, "find", &json!({"profile": "p1", "where": "size > 10MiB", "limit": 3}), "tensors");
    let is_large = |row: &&Value| row["per_bank"].as_u64().unwrap() > 10 << 20;
    assert!(!large.is_empty() && all.len() > large.len());
    assert_eq!(all.iter().filter(is_large).cloned().collect::<Vec<_>>(), large);
    let op = large[0]["op"].as_str().unwrap();
    let by_text =
        pages(&session, "find", &json!({"profile": "p1", "text": op.to_uppercase(), "limit": 50}), "tensors");
    assert!(by_text.contains(&large[0]) && by_text.len() < all.len());
    for wrong in ["size >", "(((", "size > x", "sizes > 1", "name ~ \"[\"", "and and"] {
        let message = refused(&session, "find", json!({"profile": "p1", "where": wrong}));
        assert!(message.starts_with("`where`: "), "{message}");
    }
}

/// A recording with tensors of several modules, on a GPU and on the CPU.
#[test]
fn found_tensors_can_be_limited_to_a_pool_and_a_module() {
    let session = session(&corpus());
    answer(&session, "open", json!({"path": "ttmem/0.1.0/cuda_tensors.ttmem"}));
    let found = |condition: Option<&str>, pool: Option<&str>| {
        let mut arguments = json!({"profile": "p1", "limit": 50});
        for (name, value) in [("where", condition), ("pool", pool)] {
            if let Some(value) = value {
                arguments[name] = json!(value);
            }
        }
        pages(&session, "find", &arguments, "tensors")
    };
    let all = found(None, None);
    let of = |name: &str, value: &str| -> Vec<Value> {
        let rows = all.iter().filter(|row| row[name] == value).cloned().collect::<Vec<_>>();
        assert!(!rows.is_empty() && rows.len() < all.len(), "{name} {value}: {} rows", rows.len());
        rows
    };
    for pool in ["cpu", "cuda:0"] {
        let rows = of("pool", pool);
        assert_eq!(found(Some(&format!("pool = {pool}")), None), rows);
        assert_eq!(found(None, Some(pool)), rows);
        assert_eq!(found(Some(&format!("pool != {pool}")), Some(pool)), Vec::<Value>::new());
    }
    let module = of("made_in", "blocks.0.0");
    assert_eq!(found(Some("module = blocks.0.0"), None), module);
    assert_eq!(found(Some("module = blocks.0.0 and pool = \"cuda:0\""), None), module);
    assert_eq!(found(Some("module = blocks.0.0"), Some("cuda:0")), module);
}

#[test]
fn a_failure_is_explained_and_its_absence_is_said() {
    let session = session(&corpus());
    answer(&session, "open", json!({"path": "tt_log/oom-fragmentation.log"}));
    answer(&session, "open", json!({"path": "tt_log/vae-decoder.log"}));
    let failed = answer(&session, "explain_failure", json!({"profile": "p1"}));
    assert_eq!((&failed["failed"], &failed["oom"]["cause"]), (&json!(true), &json!("fragmentation")));
    assert!(
        failed["page"]["fragment"].as_str().unwrap().starts_with("#op=107&pool=DRAM"),
        "{}",
        failed["page"]
    );
    let none = call(&session, "explain_failure", &json!({"profile": "p2"})).unwrap();
    assert_eq!(none.structured["failed"], false);
    assert!(none.text.starts_with("The program did not run out of memory."));
}

#[test]
fn a_series_keeps_the_peak_when_it_is_reduced() {
    let session = session(&corpus());
    answer(&session, "open", json!({"path": "tt_log/vae-decoder.log"}));
    let whole = answer(&session, "series", json!({"profile": "p1", "points": 500}));
    let few = answer(&session, "series", json!({"profile": "p1", "points": 8}));
    let highest = |series: &Value| {
        let points = series["points"].as_array().unwrap();
        points.iter().map(|point| point[1].as_u64().unwrap()).max()
    };
    assert_eq!((&whole["reduced"], &few["reduced"]), (&json!(false), &json!(true)));
    assert!(few["points"].as_array().unwrap().len() <= 8);
    assert_eq!(highest(&whole), highest(&few));
    // Between two states, the curve is computed from tensors; the peak is a state, which is rounded.
    let peak = few["peak"]["per_bank"].as_u64().unwrap();
    assert!(highest(&few).unwrap().abs_diff(peak) <= few["quantum_per_bank"].as_u64().unwrap());
}

#[test]
fn lower_bounds_are_called_so() {
    let session = session(&corpus());
    answer(&session, "open", json!({"path": "torch_snapshot/wrapped_ring_gpt2_30m.pickle.gz"}));
    for tool in ["summary", "largest", "alive_at", "series", "suggestions", "growth", "explain_failure"] {
        let found = call(&session, tool, &json!({"profile": "p1"})).unwrap();
        assert!(found.structured["caveats"].to_string().contains("lower bound"), "{tool}");
        assert!(found.text.contains("lower bound"), "{tool}");
    }
}

#[test]
fn growth_is_that_of_the_suggestions_and_sessions() {
    let session = session(&corpus());
    for (path, has_growth) in
        [("guides/grows.ttmem", true), ("guides/flat.ttmem", false), ("guides/phases-grow.log", true)]
    {
        let handle = answer(&session, "open", json!({"path": path}))["profile"].clone();
        let found = answer(&session, "growth", json!({"profile": handle}));
        let count = |name: &str| found[name].as_array().unwrap().len();
        assert_eq!(count("suggestions") + count("sessions") > 0, has_growth, "{path}");
    }
}

#[test]
fn a_handle_stands_for_one_state_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.log");
    fs::copy(corpus().join("tt_log/oom-fragmentation.log"), &file).unwrap();
    let session = session(folder.path());
    let first = answer(&session, "open", json!({"path": "run.log"}));
    let again = answer(&session, "open", json!({"path": "./run.log"}));
    assert_eq!(
        (&first["profile"], &again["profile"], &again["was_open"]),
        (&json!("p1"), &json!("p1"), &json!(true))
    );
    fs::copy(corpus().join("tt_log/vae-decoder.log"), &file).unwrap();
    let stale = answer(&session, "suggestions", json!({"profile": "p1"}));
    assert!(stale["caveats"][0].as_str().unwrap().contains("has changed"));
    let changed = answer(&session, "open", json!({"path": "run.log"}));
    assert_eq!((&changed["profile"], &changed["earlier"]), (&json!("p2"), &json!("p1")));
    let diff = answer(&session, "diff", json!({"a": "p1", "b": "p2"}));
    assert!(diff["verdict"].is_string());
}

#[test]
fn the_least_recently_used_profile_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    for number in 1..=10 {
        let name = format!("{number}.log");
        fs::copy(corpus().join("tt_metal_log/dram.log"), folder.path().join(name)).unwrap();
    }
    let session = session(folder.path());
    for number in 1..=8 {
        answer(&session, "open", json!({"path": format!("{number}.log")}));
    }
    answer(&session, "suggestions", json!({"profile": "p1"}));
    let opened = answer(&session, "open", json!({"path": "9.log"}));
    assert_eq!(opened["closed"], json!(["p2"]));
    answer(&session, "suggestions", json!({"profile": "p1"}));
    let message = refused(&session, "suggestions", json!({"profile": "p2"}));
    assert!(message.contains("call `open` again with path") && message.contains("2.log"), "{message}");
    assert_eq!(answer(&session, "open", json!({"path": "2.log"}))["profile"], "p10");
}

#[test]
fn wrong_arguments_are_errors_that_say_what_to_do() {
    let session = session(&corpus());
    answer(&session, "open", json!({"path": "tt_log/vae-decoder.log"}));
    for (tool, arguments, part) in [
        ("open", json!({"path": "tt_log/missing.log"}), "not found below the roots"),
        ("open", json!({"path": "README.md", "format": "x"}), "not found below the roots"),
        ("open", json!({"path": "tt_log/README.md"}), "tt_log/README.md"),
        ("open", json!({"path": "tt_log/vae-decoder.log", "format": "nope"}), "unknown format"),
        ("summary", json!({"profile": "p9"}), "unknown profile \"p9\"; call `open` first"),
        ("summary", json!({"profile": "p1", "section": "pols"}), "available sections are source"),
        ("summary", json!({"profile": "p1", "section": "pools/X"}), "which has DRAM"),
        ("summary", json!({"profile": "p1", "section": "peak/live", "cursor": "10-0"}), "unknown cursor"),
        ("summary", json!({"profile": "p1", "rank": "7"}), "no rank 7"),
        ("alive_at", json!({"profile": "p1", "step": -1}), "expected a step number"),
        ("alive_at", json!({"profile": "p1", "step": 4_000_000_000_u32}), "no step 4000000000"),
        ("alive_at", json!({"profile": "p1", "pool": "HBM"}), "available pools are"),
        ("largest", json!({"profile": "p1", "limit": 51}), "from 1 to 50"),
        ("series", json!({"profile": "p1", "points": 501}), "from 4 to 500"),
        ("diff", json!({"a": "p1", "b": "p1", "rank": "x"}), "no rank is in both inputs"),
    ] {
        let message = refused(&session, tool, arguments.clone());
        assert!(message.contains(part), "{tool} {arguments}: {message}");
    }
}

#[test]
fn a_canceled_call_stops_reading() {
    let session = session(&corpus());
    let progress = Arc::new(Progress::default());
    progress.stop();
    let tool = TOOLS.iter().find(|tool| tool.name == "open").unwrap();
    let arguments = json!({"path": "tt_log/vae-decoder.log"});
    let stopped = session.call(tool, arguments.as_object().unwrap(), &progress);
    assert!(stopped.unwrap_err().0.contains("canceled"));
    answer(&session, "open", arguments);
}

/// Every tool on every file of the corpus answers or refuses, and no answer is long.
#[test]
fn every_file_of_the_corpus_gets_short_answers() {
    let root = corpus();
    let session = session(&root);
    let files = pages(&session, "list_files", &json!({"limit": 50}), "files");
    assert!(files.len() > 40, "{}", files.len());
    let (mut opened, mut compared) = (0, 0);
    for file in files {
        let Ok(found) = call(&session, "open", &json!({"path": file["path"]})) else { continue };
        opened += 1;
        let handle = &found.structured["profile"];
        for tool in TOOLS.iter().filter(|tool| !["open", "list_files", "diff"].contains(&tool.name)) {
            let Ok(answer) = call(&session, tool.name, &json!({"profile": handle})) else { continue };
            let (json, text) = (answer.structured.to_string().len(), answer.text.len());
            assert!(json < 48_000 && text < 16_000, "{file} {}: {json} and {text} bytes", tool.name);
            assert!(answer.structured["caveats"].is_array(), "{file} {}", tool.name);
        }
        match call(&session, "diff", &json!({"a": handle, "b": handle})) {
            Ok(same) => {
                compared += 1;
                assert_eq!(same.structured["total"], 0, "{file}");
            }
            Err(Failure(why)) => assert!(why.starts_with("cannot compare "), "{file}: {why}"),
        }
    }
    // Files with only an error cannot be compared.
    assert!(opened > 40 && compared * 2 > opened, "{compared} of {opened}");
}

#[test]
fn texts_read_well() {
    let session = session(&corpus());
    let text = |name: &str, arguments: Value| call(&session, name, &arguments).ok().unwrap().text;
    answer(&session, "open", json!({"path": "tt_train/tinyllama.log"}));
    let phases = text("summary", json!({"profile": "p1"}));
    assert!(phases.contains("Page: run `ttmem report "), "{phases}");
    assert!(!phases.contains("append # "), "{phases}");
    answer(&session, "open", json!({"path": "guides/batch32.ttmem"}));
    let counts = text("summary", json!({"profile": "p2"}));
    assert!(!counts.contains(" 1 runs") && !counts.contains(" 1 passes"), "{counts}");
    answer(&session, "open", json!({"path": "guides/grows.ttmem"}));
    let growth = text("growth", json!({"profile": "p3"}));
    assert_eq!(growth.matches(" with every ").count().max(growth.matches("Each ").count()), 1, "{growth}");
    answer(&session, "open", json!({"path": "guides/phases-grow.log"}));
    let phases = text("growth", json!({"profile": "p4"}));
    assert!(phases.contains("Each iteration (after ") && !phases.contains("(aft…"), "{phases}");
    assert_eq!(phases.matches("250.0 MiB").count(), 1, "{phases}");
    for profile in ["p1", "p2", "p3", "p4"] {
        let first = text("summary", json!({"profile": profile})).lines().next().unwrap().to_owned();
        assert!(first.ends_with('.') && !first.contains(") Peak"), "{first}");
    }
}
