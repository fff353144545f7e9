//! Licenses and sources of dependencies are those that deny.toml allows. `make deny` checks more, but needs cargo-deny.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn allowed() -> BTreeSet<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deny.toml");
    let config: toml_edit::DocumentMut = std::fs::read_to_string(file).unwrap().parse().unwrap();
    let list = config["licenses"]["allow"].as_array().unwrap();
    list.iter().map(|license| license.as_str().unwrap().to_owned()).collect()
}

fn cargo(args: &[&str]) -> String {
    let done =
        Command::new(env!("CARGO")).args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// All packages that are built on this platform, tests included.
fn packages() -> Vec<Value> {
    let version = cargo(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    // Offline: what is built here has been downloaded, and what other platforms need has not.
    let options =
        ["--locked", "--offline", "--all-features", "--format-version", "1", "--filter-platform", host];
    let metadata = cargo(&[&["metadata"], options.as_slice()].concat());
    let Value::Object(mut metadata) = serde_json::from_str(&metadata).unwrap() else { panic!("{metadata}") };
    let used = metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|node| node["id"].clone());
    let used: Vec<Value> = used.collect();
    let Some(Value::Array(packages)) = metadata.remove("packages") else { panic!("there are no packages") };
    packages.into_iter().filter(|package| used.contains(&package["id"])).collect()
}

/// Whether an SPDX expression is satisfied by the allowed licenses.
fn is_satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let is_satisfied = any(&mut words, allowed);
    assert_eq!(words.next(), None, "not an SPDX expression: {expression}");
    is_satisfied
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// Alternatives: `A OR B`.
fn any(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut is_satisfied = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        is_satisfied |= all(words, allowed);
    }
    is_satisfied
}

/// Licenses that hold together: `A AND B`. This binds more tightly than `OR`.
fn all(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut is_satisfied = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        is_satisfied &= one(words, allowed);
    }
    is_satisfied
}

/// A license, one with an exception, or an expression in parentheses.
fn one(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let first = words.next().expect("an expression ends with a license");
    if first == "(" {
        let is_satisfied = any(words, allowed);
        assert_eq!(words.next(), Some(")"));
        return is_satisfied;
    }
    if words.next_if_eq(&"WITH").is_some() {
        let exception = words.next().expect("WITH has an exception");
        return allowed.contains(&format!("{first} WITH {exception}"));
    }
    allowed.contains(first)
}

#[test]
fn licenses_are_allowed() {
    let allowed = allowed();
    let packages = packages();
    assert!(packages.len() > 100, "{} packages", packages.len());
    for package in packages {
        let license = package["license"].as_str().unwrap_or("none");
        let is_satisfied = license != "none" && is_satisfied(license, &allowed);
        assert!(
            is_satisfied,
            "{} has the license {license}, which deny.toml does not allow",
            package["name"]
        );
    }
}

#[test]
fn sources_are_this_workspace_and_the_rust_registry() {
    for package in packages() {
        let source = package["source"].as_str();
        let is_ours = source.is_none() && package["name"].as_str().unwrap().starts_with("ttmem");
        let is_registry = source == Some("registry+https://github.com/rust-lang/crates.io-index");
        assert!(is_ours || is_registry, "{} is from {source:?}", package["name"]);
    }
}

#[test]
fn expressions_need_an_allowed_alternative() {
    let allowed = ["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    for expression in ["MIT", "GPL-3.0-only OR MIT", "MIT/Apache-2.0", "(MIT OR Apache-2.0) AND Zlib"] {
        assert!(is_satisfied(expression, &allowed), "{expression}");
    }
    assert!(is_satisfied("Apache-2.0 WITH LLVM-exception OR Apache-2.0", &allowed));
    for expression in
        ["GPL-3.0-only", "MIT AND GPL-3.0-only", "Apache-2.0", "GPL-3.0-only OR MIT AND Unicode-3.0"]
    {
        assert!(!is_satisfied(expression, &allowed), "{expression}");
    }
}

/// What a build compiles, but for the Python module itself: packages with their features.
fn compiled(selection: &[&str]) -> BTreeSet<String> {
    let options = ["--locked", "--offline", "--no-dedupe", "--prefix", "none", "-f", "{p} {f}"];
    let tree = cargo(&[&["tree"], selection, &options].concat());
    tree.lines().filter(|line| !line.starts_with("ttmem-py ")).map(str::to_owned).collect()
}

/// Otherwise `make python` compiles them once more: the feature `as-tested` of `ttmem-py` must be completed.
#[test]
fn the_tested_wheel_needs_nothing_that_the_tests_did_not_build() {
    let tests = compiled(&["--workspace", "-e", "normal,dev,build"]);
    let wheel = compiled(&["-p", "ttmem-py", "--features", "as-tested", "-e", "normal,build"]);
    let more: Vec<_> = wheel.difference(&tests).collect();
    assert!(more.is_empty(), "{more:#?}");
}
