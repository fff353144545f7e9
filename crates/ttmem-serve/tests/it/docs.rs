//! Keeps docs/http.md true: every field that is answered is described, every field of its examples is answered, and every
//! address is one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Running, corpus};

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/http.md")).unwrap()
}

fn add_fields(value: &Value, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                fields.insert(name.clone());
                add_fields(value, fields);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| add_fields(value, fields)),
        _ => {}
    }
}

/// The blocks of a page that are JSON.
fn examples(page: &str) -> Vec<Value> {
    let blocks = page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks
        .map(|block| serde_json::from_str(block).unwrap_or_else(|error| panic!("{error}: {block}")))
        .collect()
}

#[test]
fn the_fields_are_those_that_are_answered() {
    let server = Running::new();
    server.store("oom-fragmentation.log");
    let log = |name: &str| fs::read(corpus(name)).unwrap();
    let jobs = [
        server.upload("good.log", &log("vae-decoder.log")),
        server.upload("model.log", &log("malformed/no-memory-operations.log")),
    ];
    let mut answered = BTreeSet::new();
    for answer in
        [server.get("/api").json(), server.get("/api/reports").json(), server.get("/nowhere").json()]
    {
        add_fields(&answer, &mut answered);
    }
    for job in &jobs {
        add_fields(job, &mut answered);
    }

    let page = page();
    let mut shown = BTreeSet::new();
    for example in &examples(&page) {
        add_fields(example, &mut shown);
    }
    assert_eq!(shown, answered, "the examples have the fields that there are");
    let of_refusals = ["status"];
    let missing: Vec<&String> = answered
        .iter()
        .filter(|field| !of_refusals.contains(&field.as_str()) && !page.contains(&format!("`{field}`")))
        .collect();
    assert!(missing.is_empty(), "docs/http.md says nothing of {missing:?}");
}

#[test]
fn the_addresses_are_those_that_there_are() {
    let server = Running::new();
    server.store("vae-decoder.log");
    let id = server.upload("x.log", &fs::read(corpus("info-only.log")).unwrap())["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let page = page();
    let rows: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next()?.split_once(' '))
        .filter(|(method, _)| ["GET", "POST"].contains(method))
        .collect();
    assert_eq!(rows.len(), 9, "{rows:?}");
    for (method, target) in rows {
        let target = target.replace("NAME", "vae-decoder").replace("ID", &id).replace("FILE", "y.log");
        let answer = server.request(method, &target).body(b"").send();
        let wanted = if method == "POST" { 202 } else { 200 };
        assert_eq!(answer.status, wanted, "{method} {target}");
    }
}
