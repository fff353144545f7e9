//! Tests of the documentation: examples print what they show, every field is described, and links work.
//!
//! A block fenced as `console` whose first line starts with `$ ttmem ` is an example. Each line that starts with `$ `
//! is run by the shell in a copy of `corpus/tt_log`, and its output on both streams must match the lines below it,
//! except for trailing spaces. A line `…` matches any number of lines. Commands that pipe into jq are skipped if jq is
//! not installed. Other blocks are ignored.
//!
//! A comment `<!-- examples run in corpus/a and corpus/b -->` selects other folders. Guides (`docs/guides`) run in a
//! clean environment, with no program but `ttmem` in the `PATH`: a reader needs nothing else.
//!
//! `make bless` rewrites the examples that have no `…`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

/// The folder of the guides.
const GUIDES: &str = "docs/guides";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages in a folder, relative to the root.
fn pages_in(folder: &str) -> Vec<String> {
    let mut pages: Vec<String> = fs::read_dir(root().join(folder))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "md"))
        .map(|name| format!("{folder}/{name}"))
        .collect();
    pages.sort_unstable();
    pages
}

fn read(page: &str) -> String {
    fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// The logs of the corpus, by their names.
fn logs() -> Vec<String> {
    let entries = fs::read_dir(root().join("corpus/tt_log")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut logs: Vec<String> =
        names.filter(|name| Path::new(name).extension().is_some_and(|end| end == "log")).collect();
    logs.sort_unstable();
    logs
}

/// A command and its expected output.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    command: String,
    /// The lines of the page with the output, from 0, exclusive of the end.
    first: usize,
    end: usize,
}

/// The examples of a page.
fn examples(text: &str) -> Vec<Example> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(language) = lines[at].strip_prefix("```") else {
            at += 1;
            continue;
        };
        let first = at + 1;
        let length = lines[first..].iter().position(|line| *line == "```");
        let end = first + length.unwrap_or_else(|| panic!("the block in line {first} has no end"));
        if language == "console" && lines[first].starts_with("$ ttmem ") {
            let starts: Vec<usize> = (first..end).filter(|&line| lines[line].starts_with("$ ")).collect();
            let ends = starts.iter().skip(1).copied().chain([end]);
            found.extend(starts.iter().zip(ends).map(|(&start, end)| Example {
                command: lines[start][2..].to_owned(),
                first: start + 1,
                end,
            }));
        }
        at = end + 1;
    }
    found
}

/// The folders of the corpus that a page's examples need, if a comment names them.
fn folders(text: &str) -> Option<Vec<&str>> {
    let after = text.split_once("<!-- examples run in ")?.1;
    Some(after.split_once(" -->")?.0.split(" and ").collect())
}

/// Whether lines match a pattern with `…` for any lines.
fn fits(pattern: &[&str], lines: &[&str]) -> bool {
    match pattern.split_first() {
        None => lines.is_empty(),
        Some((&"…", rest)) => (0..=lines.len()).any(|skipped| fits(rest, &lines[skipped..])),
        Some((wanted, rest)) => {
            let same = |line: &str| line.trim_end() == wanted.trim_end();
            lines.split_first().is_some_and(|(line, lines)| same(line) && fits(rest, lines))
        }
    }
}

#[cfg(unix)]
mod run {
    use super::{Command, GUIDES, Path, examples, fits, folders, fs, logs, pages_in, read, root};

    /// Runs a shell command in a folder; returns its output on both streams.
    fn shell(command: &str, folder: &Path, is_clean: bool) -> String {
        let binary = assert_cmd::cargo::cargo_bin("ttmem");
        let tools = binary.parent().unwrap().display().to_string();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("{{ {command}\n}} 2>&1")]).current_dir(folder);
        if is_clean {
            shell.env_clear().env("PATH", tools);
        } else {
            let path = std::env::var("PATH").unwrap_or_default();
            shell.env("PATH", format!("{tools}:{path}")).env_remove("CLICOLOR_FORCE");
        }
        let output = shell.env("TTMEM_HOME", folder.join("home")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// A folder with the files of some folders.
    fn copy_of(folders: &[&str]) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        for folder in folders {
            for entry in fs::read_dir(root().join(folder)).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_file() {
                    fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
                }
            }
        }
        copy
    }

    fn copy_of_corpus() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let corpus = root().join("corpus/tt_log");
        for log in logs() {
            fs::copy(corpus.join(&log), folder.path().join(&log)).unwrap();
        }
        let training = "tinyllama.log";
        fs::copy(root().join("corpus/tt_train").join(training), folder.path().join(training)).unwrap();
        let profile = "threads.json";
        fs::copy(root().join("corpus/memory_profile").join(profile), folder.path().join(profile)).unwrap();
        fs::create_dir(folder.path().join("malformed")).unwrap();
        for entry in fs::read_dir(corpus.join("malformed")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.path().join("malformed").join(entry.file_name())).unwrap();
        }
        folder
    }

    #[test]
    fn examples_print_what_they_say() {
        let has_jq = std::process::Command::new("jq").arg("--version").output().is_ok();
        let bless = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
        let mut wrong = Vec::new();
        let mut count = 0;
        for page in ["docs", GUIDES].into_iter().flat_map(pages_in).chain(["README.md".to_owned()]) {
            let text = read(&page);
            let folder = folders(&text).map_or_else(copy_of_corpus, |named| copy_of(&named));
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let mut printed = Vec::new();
            for example in examples(&text) {
                if example.command.contains("| jq") && !has_jq {
                    continue;
                }
                count += 1;
                let output = shell(&example.command, folder.path(), page.starts_with(GUIDES));
                let wanted: Vec<&str> =
                    text.lines().skip(example.first).take(example.end - example.first).collect();
                if fits(&wanted, &output.lines().collect::<Vec<_>>()) {
                    continue;
                }
                if bless && !wanted.contains(&"…") {
                    printed.push((example.first..example.end, output));
                } else {
                    let (line, command) = (example.first, &example.command);
                    wrong.push(format!("{page}, line {line}: $ {command}\nprints\n{output}"));
                }
            }
            // From the last to the first, so that line numbers stay valid.
            for (range, output) in printed.into_iter().rev() {
                lines.splice(range, output.lines().map(str::to_owned));
                fs::write(root().join(&page), lines.join("\n") + "\n").unwrap();
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(count >= 10, "only {count} examples were found");
    }
}

/// Adds the names of all fields, including names that are data (pools, classes).
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

/// The names of all fields that a command prints in a folder of the corpus.
fn printed_fields(folder: &str, arguments: &[&str]) -> BTreeSet<String> {
    let mut command = Command::cargo_bin("ttmem").unwrap();
    let output = command.current_dir(root().join("corpus").join(folder)).args(arguments).assert().success();
    let mut fields = BTreeSet::new();
    add_fields(&serde_json::from_slice(&output.get_output().stdout).unwrap(), &mut fields);
    fields
}

fn assert_described(page: &str, fields: &BTreeSet<String>, least: usize) {
    assert!(fields.len() > least, "only {fields:?} were found");
    let text = read(page);
    let missing: Vec<&String> = fields.iter().filter(|field| !text.contains(&format!("`{field}`"))).collect();
    assert!(missing.is_empty(), "{page} does not describe {missing:?}");
}

#[test]
fn every_field_of_the_json_is_described() {
    let options = ["summary", "--json", "--at", "0", "--expect", "weight=1GiB"];
    let fields =
        logs().iter().flat_map(|log| printed_fields("tt_log", &[&options[..], &[log]].concat())).collect();
    assert_described("docs/json.md", &fields, 50);
}

#[test]
fn every_suggestion_has_a_row() {
    let page = read("docs/json.md");
    let table = page.split_once("| rule | fires when |\n|---|---|\n").unwrap().1;
    let rows = table.lines().take_while(|line| line.starts_with("| "));
    let names = |row: &str| -> Vec<String> {
        let cell = row.trim_start_matches("| ").split(" | ").next().unwrap_or_default();
        cell.split(", ").map(|name| name.trim_matches('`').to_owned()).collect()
    };
    let described: BTreeSet<String> = rows.flat_map(names).collect();
    let registered: BTreeSet<String> = ttmem::query::suggestion_names().map(str::to_owned).collect();
    assert_eq!(described, registered);
}

#[test]
fn every_suggestion_is_explained_where_it_links_to() {
    let page = read("docs/advice/README.md");
    for name in ttmem::query::suggestion_names() {
        assert!(page.contains(&format!("### {name}\n")) || page.contains(&format!("`{name}`")), "{name}");
    }
    for docs in ttmem::query::suggestion_docs() {
        let section = docs.split_once("/docs/advice/README.md#").unwrap().1.to_owned();
        assert!(page.contains(&format!("\n### {section}\n")), "{docs}");
    }
}

#[test]
fn every_field_of_the_phases_is_described() {
    let fields = printed_fields("tt_train", &["phases", "--json", "tinyllama.log"]);
    assert_described("docs/phases.md", &fields, 50);
}

#[test]
fn every_field_of_the_gantt_chart_is_described() {
    let fields = printed_fields("memory_profile", &["gantt", "--json", "threads.json"]);
    assert_described("docs/gantt.md", &fields, 40);
}

/// The targets of the links of a page, except in fenced blocks.
fn links(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(targets.map(str::to_owned));
        }
    }
    found
}

#[test]
fn links_work() {
    let pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned);
    let mut dead = Vec::new();
    let mut count = 0;
    for page in ["docs", GUIDES].into_iter().flat_map(pages_in).chain(pages) {
        for link in links(&read(&page)) {
            let target = link.split('#').next().unwrap_or_default();
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            if target.is_empty() || is_elsewhere {
                continue;
            }
            count += 1;
            let folder = root().join(&page).parent().unwrap().to_owned();
            if !folder.join(target).exists() {
                dead.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(dead.is_empty(), "dead links: {dead:#?}");
    assert!(count >= 5, "only {count} links were found");
}

#[test]
fn the_index_links_every_page() {
    let links = links(&read("docs/README.md"));
    let linked: BTreeSet<&str> = links.iter().filter_map(|link| link.split('#').next()).collect();
    let pages: Vec<String> = ["docs", GUIDES].into_iter().flat_map(pages_in).collect();
    let names = pages.iter().filter_map(|page| page.strip_prefix("docs/"));
    let missing: Vec<&str> = names.filter(|name| *name != "README.md" && !linked.contains(name)).collect();
    assert!(missing.is_empty(), "docs/README.md does not link {missing:?}");
}

#[test]
fn every_guide_has_examples_and_says_which_folders_they_need() {
    let guides = pages_in(GUIDES);
    assert!(guides.len() >= 4, "only {guides:?} were found");
    for guide in guides {
        let text = read(&guide);
        // Those fenced as `console python` need the Python package, whose tests run them.
        let run_by_python = text.matches("\n```console python\n$ ttmem ").count();
        assert!(folders(&text).is_some() && examples(&text).len() + run_by_python >= 3, "{guide}");
    }
}

#[test]
fn a_comment_names_the_folders_of_a_page() {
    let text = "<!-- examples run in corpus/a and corpus/b -->\n# x";
    assert_eq!(folders(text), Some(vec!["corpus/a", "corpus/b"]));
    assert_eq!(folders("# x"), None);
}

#[test]
fn an_ellipsis_matches_any_lines() {
    assert!(fits(&["a", "…", "c"], &["a", "b", "b", "c"]));
    assert!(fits(&["a", "…", "c"], &["a", "c"]));
    assert!(fits(&["…"], &[]));
    assert!(!fits(&["a", "…", "c"], &["a", "b"]));
    assert!(!fits(&["a"], &["a", "b"]));
}

#[test]
fn examples_are_found_in_their_fences() {
    let text =
        "x\n```console\n$ ttmem a\none\n$ ttmem b\n```\n```sh\n$ ttmem c\n```\n```console\n$ ls\n```\n";
    let found: Vec<(String, usize, usize)> =
        examples(text).into_iter().map(|example| (example.command, example.first, example.end)).collect();
    assert_eq!(found, [("ttmem a".to_owned(), 3, 4), ("ttmem b".to_owned(), 5, 5)]);
}
