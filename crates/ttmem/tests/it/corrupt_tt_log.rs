//! Logs with one line dropped, doubled, torn or blanked, and logs appended to each other.
//!
//! The rule: the answer is the one for the intact log, or a warning that the intact log does not have says why it
//! differs. There is no kind of line whose loss goes unnoticed. Of appended logs there is one: a log without operation
//! texts, appended to itself, looks like further runs of one process.
//!
//! `make test` looks at a sample. `TTMEM_SWEEP=all` (in `make soak`) corrupts every line in every way, and prints the counts.

// Test code may unwrap; clippy does not recognize these functions as tests. The counts are what the sweep is run for.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use ttmem::query::{Request, summary};
use ttmem::read;
use ttmem_testkit::random::Random;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log")
}

/// The intact logs of the corpus.
fn logs() -> Vec<(String, Vec<u8>)> {
    let mut logs: Vec<(String, Vec<u8>)> = fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "log"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect();
    logs.sort();
    assert!(logs.len() > 10, "the corpus is there");
    logs
}

/// What ttmem answers: the ranks, and the texts of the warnings.
#[derive(PartialEq)]
struct Answer {
    ranks: Value,
    warnings: Vec<String>,
}

/// The answer to a log, or the message with which it is refused.
fn answer(log: &[u8], folder: &Path) -> Result<Answer, String> {
    let path = folder.join("run.log");
    fs::write(&path, log).unwrap();
    let profile = read::open(path.to_str().unwrap()).map_err(|error| error.to_string())?;
    let summary = summary(&[profile], &Request::default()).map_err(|error| error.to_string())?;
    let warnings = summary.source.warnings.iter().map(|warning| warning.message.clone()).collect();
    Ok(Answer { ranks: without_lines(serde_json::to_value(&summary.ranks).unwrap()), warnings })
}

/// Line numbers move with the corruption; they are not part of the answer that must stay.
fn without_lines(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("line");
            for field in fields.values_mut() {
                *field = without_lines(field.take());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_lines(item.take())),
        _ => {}
    }
    value
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Corruption {
    Drop,
    Double,
    Tear,
    Blank,
}

const CORRUPTIONS: [Corruption; 4] =
    [Corruption::Drop, Corruption::Double, Corruption::Tear, Corruption::Blank];

/// The log with one of its lines corrupt.
fn corrupt(lines: &[&[u8]], at: usize, corruption: Corruption, random: &mut Random) -> Vec<u8> {
    let mut log: Vec<u8> = lines[..at].concat();
    let line = lines[at];
    match corruption {
        Corruption::Drop => {}
        Corruption::Double => log.extend([line, line].concat()),
        Corruption::Tear => {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            log.extend(&text[..random.index(text.len().max(1))]);
            log.push(b'\n');
        }
        Corruption::Blank => log.push(b'\n'),
    }
    log.extend(lines[at + 1..].concat());
    log
}

/// What kind of line it is: the words that name it.
fn kind(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    let message = text.rsplit_once(" | ").map_or(text, |(_, message)| message);
    let words: String = message.chars().take(28).collect();
    words
}

/// Counts of outcomes, and the lines whose corruption nothing noticed.
#[derive(Default)]
struct Outcomes {
    counts: BTreeMap<(Corruption, &'static str), usize>,
    failures: Vec<String>,
}

/// Corrupts the lines of one log, every n-th of them.
fn sweep(name: &str, log: &[u8], every: Option<usize>) -> Outcomes {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(16);
    let mut outcomes = Outcomes::default();
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let base = answer(log, folder.path()).unwrap();
    let every = every.unwrap_or(lines.len().div_ceil(12));
    for at in (random.index(every)..lines.len()).step_by(every) {
        for corruption in CORRUPTIONS {
            let log = corrupt(&lines, at, corruption, &mut random);
            let found = answer(&log, folder.path());
            let outcome = match &found {
                Ok(found) if found.ranks == base.ranks => "unchanged",
                Ok(found) if found.warnings.iter().any(|warning| !base.warnings.contains(warning)) => {
                    "warned"
                }
                Ok(_) => "SILENT",
                Err(_) => "REFUSED",
            };
            *outcomes.counts.entry((corruption, outcome)).or_default() += 1;
            if matches!(outcome, "SILENT" | "REFUSED") {
                let place = format!("{corruption:?} {name}:{}", at + 1);
                outcomes.failures.push(format!("{outcome} {place:45} {}", kind(lines[at])));
            }
        }
    }
    outcomes
}

#[test]
fn one_corrupt_line_is_noticed_or_changes_nothing() {
    let logs = logs();
    let found: Vec<Outcomes> = std::thread::scope(|scope| {
        let every = ttmem_testkit::sweep::is_whole().then_some(1);
        let threads: Vec<_> =
            logs.iter().map(|(name, log)| scope.spawn(move || sweep(name, log, every))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut counts: BTreeMap<(Corruption, &str), usize> = BTreeMap::new();
    for (outcome, count) in found.iter().flat_map(|outcomes| &outcomes.counts) {
        *counts.entry(*outcome).or_default() += count;
    }
    println!("{counts:?}");
    let failures: Vec<&String> = found.iter().flat_map(|outcomes| &outcomes.failures).collect();
    assert!(failures.is_empty(), "{} corrupt lines were not noticed: {failures:#?}", failures.len());
}

/// The answer about the second of two appended logs is the one for it alone, and that for the first follows; or a warning
/// says why not.
#[test]
fn appended_logs_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let logs = logs();
    let alone: Vec<Answer> = logs.iter().map(|(_, log)| answer(log, folder.path()).unwrap()).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    for (first, (first_name, first_log)) in logs.iter().enumerate() {
        for (second, (second_name, second_log)) in logs.iter().enumerate() {
            let found = answer(&[first_log.as_slice(), second_log].concat(), folder.path());
            let outcome = match &found {
                Ok(found) => appended(found, &alone[first], &alone[second]),
                Err(_) => "REFUSED",
            };
            *counts.entry(outcome).or_default() += 1;
            // Where operations have no texts, a second process looks like further runs of the first: the same peaks.
            let alike = first == second && first_name == "info-only";
            if matches!(outcome, "SILENT" | "REFUSED") && !alike {
                let warnings = found.map_or_else(|error| vec![error], |found| found.warnings);
                failures.push(format!("{outcome} {first_name} + {second_name}: {warnings:?}"));
            }
        }
    }
    println!("{counts:?}");
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(counts["apart"] >= 120, "{counts:?}");
}

/// What became of two appended logs.
fn appended(found: &Answer, first: &Answer, second: &Answer) -> &'static str {
    let ranks = |answer: &Answer| answer.ranks.as_array().cloned().unwrap_or_default();
    let without_process = |mut rank: Value| {
        rank.as_object_mut().unwrap().remove("process");
        rank.as_object_mut().unwrap().remove("processes");
        rank
    };
    let mut expected: Vec<Value> =
        ranks(first).into_iter().chain(ranks(second)).map(without_process).collect();
    let mut both: Vec<Value> = ranks(found).into_iter().map(without_process).collect();
    expected.sort_by_key(ToString::to_string);
    both.sort_by_key(ToString::to_string);
    // A warning counts if it speaks of processes, or of a snapshot, which names none.
    let is_new = |warning: &&String| {
        let is_of_one = first.warnings.contains(warning) || second.warnings.contains(warning);
        !is_of_one && ["process", "snapshot", "rank tag"].iter().any(|word| warning.contains(word))
    };
    match (both == expected, found.warnings.iter().any(|warning| is_new(&warning))) {
        (true, true) => "apart",
        (false, true) if both.len() == expected.len() => "apart, and different",
        (false, true) => "merged, with a warning",
        _ => "SILENT",
    }
}
