//! The direction of data, as ARCHITECTURE.md draws it: which crate may depend on which.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Every allowed edge between our crates. Dependencies of tests are not edges of the product, nor are those that only a
/// feature adds.
const EDGES: &[(&str, &[&str])] = &[
    ("ttmem-model", &[]),
    ("ttmem-record", &["ttmem-model"]),
    ("ttmem-read", &["ttmem-model"]),
    ("ttmem-query", &["ttmem-model"]),
    ("ttmem-report", &["ttmem-model", "ttmem-query", "ttmem-read"]),
    ("ttmem", &["ttmem-model", "ttmem-query", "ttmem-read", "ttmem-record", "ttmem-report"]),
    ("ttmem-serve", &["ttmem"]),
    ("ttmem-export", &["ttmem"]),
    ("ttmem-mcp", &["ttmem"]),
    ("ttmem-cli", &["ttmem", "ttmem-serve"]),
    ("ttmem-py", &["ttmem", "ttmem-cli", "ttmem-export", "ttmem-mcp"]),
    ("ttmem-c", &["ttmem-model", "ttmem-read", "ttmem-record"]),
    ("ttmem-testkit", &[]),
];

/// What the C library must not compile: a database, and what draws charts and pages.
const NOT_IN_C: &[&str] = &["libsqlite3-sys", "rusqlite", "tiny-skia", "ttmem-query", "ttmem-report"];

fn cargo(args: &[&str]) -> String {
    let done = Command::new(env!("CARGO"))
        .args(args)
        .args(["--locked", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn only_the_allowed_edges_exist() {
    let metadata: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])).unwrap();
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let edges = found.entry(package["name"].as_str().unwrap()).or_default();
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["name"].as_str().unwrap();
            // The module for Python names the other crates for their features only (`as-tested`).
            let is_for_features = package["name"] == "ttmem-py" && dependency["optional"] == true;
            if dependency["kind"] != "dev" && !is_for_features && name.starts_with("ttmem") {
                edges.insert(name);
            }
        }
    }
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        EDGES.iter().map(|(name, edges)| (*name, edges.iter().copied().collect())).collect();
    assert_eq!(found, allowed);
}

#[test]
fn the_c_library_is_built_without_databases_charts_and_pages() {
    let tree = cargo(&["tree", "-p", "ttmem-c", "-e", "normal,build", "--prefix", "none"]);
    let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains("ttmem-record"), "{tree}");
    for name in NOT_IN_C {
        assert!(!names.contains(name), "{name} is compiled into the C library");
    }
}
