//! The last pass of a log, cut out: it answers what the whole log answers for its last pass.

// The helpers of tests are tests; clippy's allowance does not see that.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use ttmem::model::Profile;
use ttmem::query::{Request, RunFilter, summary};
use ttmem::read::{self, Cutting, LastPass};
use ttmem_testkit::random::Random;
use ttmem_testkit::tt::{Chip, ErrorEra, LayoutEra, MemoryLevel, Modules, Options, Scenario, make};

const MARKER: &str = "Got output shape:";

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log")
}

fn made(scenario: Scenario, options: &Options) -> Vec<u8> {
    let mut log = Vec::new();
    make(scenario, options, &mut log).unwrap();
    log
}

fn profile_of(log: &[u8]) -> Profile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), log).unwrap();
    read::open(file.path().to_str().unwrap()).unwrap()
}

fn find(log: &[u8], marker: Option<&str>) -> ttmem::Result<LastPass> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), log).unwrap();
    let cutting = Cutting { marker: marker.map(str::to_owned), ..Cutting::default() };
    LastPass::find(file.path().to_str().unwrap(), &cutting)
}

/// The last pass of a log, and how many there are.
fn cut_at(log: &[u8], marker: Option<&str>) -> (Vec<u8>, usize) {
    let mut pass = find(log, marker).unwrap();
    let mut cut = Vec::new();
    pass.write(&mut cut, Path::new("cut.log")).unwrap();
    (cut, pass.passes().map(|(_, of)| of).max().unwrap())
}

fn cut(log: &[u8]) -> Vec<u8> {
    cut_at(log, None).0
}

/// What a summary says of each rank, without what must differ: the numbers of steps, runs and lines, and who left
/// bytes behind in what was cut away.
fn answer(profile: &Profile, run: RunFilter) -> Value {
    let request = Request { run, ..Request::default() };
    let answer = summary(std::slice::from_ref(profile), &request).unwrap();
    let mut ranks = serde_json::to_value(&answer.ranks).unwrap();
    strip(&mut ranks);
    // In the order they appear, which is another where another line comes first.
    ranks.as_array_mut().unwrap().sort_by_key(|rank| rank["rank"].to_string());
    ranks
}

fn strip(value: &mut Value) {
    const DIFFERS: [&str; 12] = [
        "file",
        "step",
        "run",
        "line",
        "peak_step",
        "caused_by_step",
        "born_step",
        "dies_step",
        "gone_before_step",
        "residue",
        "outside",
        "also",
    ];
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !DIFFERS.contains(&name.as_str()));
            fields.values_mut().for_each(strip);
            if let Some(Value::Array(live)) = fields.get_mut("live") {
                live.sort_by_key(Value::to_string);
            }
        }
        Value::Array(rows) => rows.iter_mut().for_each(strip),
        _ => {}
    }
}

/// The first places where two values differ.
fn differences(path: &str, a: &Value, b: &Value, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().for_each(|(name, value)| differences(&format!("{path}/{name}"), value, &b[name], found));
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.for_each(|(index, (a, b))| differences(&format!("{path}/{index}"), a, b, found));
        }
        _ if a == b => {}
        _ => found.push(format!("{path}: {a} but {b}").chars().take(400).collect()),
    }
}

/// Holds a cut-out against the log that it is from.
#[track_caller]
fn hold(log: &[u8], cut: &[u8], case: &str) {
    let (whole, part) = (profile_of(log), profile_of(cut));
    let mut found = Vec::new();
    differences("", &answer(&whole, RunFilter::Last), &answer(&part, RunFilter::All), &mut found);
    if !found.is_empty() {
        fs::write("/tmp/whole.log", log).unwrap();
        fs::write("/tmp/cut.log", cut).unwrap();
    }
    assert!(found.is_empty(), "{case}:\n  {}", found.join("\n  "));
    assert_eq!(part.skipped_lines, whole.skipped_lines, "{case}");
}

fn draw(random: &mut Random) -> (Scenario, Options) {
    let scenario = random.pick(&[
        Scenario::Vae,
        Scenario::Llm,
        Scenario::TwoGraphs,
        Scenario::Passes { passes: 2 },
        Scenario::Passes { passes: 3 },
        Scenario::Passes { passes: 5 },
        Scenario::Random,
        Scenario::Random,
        Scenario::Repeated { ops: 400 },
    ]);
    let options = Options {
        seed: random.between(0, 99_999),
        chip: random.pick(&[Chip::Wormhole, Chip::BlackholeP150, Chip::BlackholeP100]),
        era: random.pick(&LayoutEra::ALL),
        error_era: random.pick(&ErrorEra::ALL),
        colour: random.chance(50),
        noise: random.pick(&[0, 0, 10, 60]),
        crlf: random.chance(20),
        ranks: random.pick(&[0, 0, 1, 2]),
        split_streams: random.chance(50),
        memory: random.pick(&[MemoryLevel::Operation, MemoryLevel::Operation, MemoryLevel::Any]),
        modules: random.pick(&[Modules::Full, Modules::Full, Modules::SignaturesOnly, Modules::None]),
        states_at_deallocations: random.chance(70),
        keep: random.chance(20),
        ..Options::default()
    };
    (scenario, options)
}

#[test]
fn a_cut_out_answers_as_the_whole_log_does_for_its_last_pass() {
    let mut random = Random::new(std::env::var("SEED").map_or(1, |n| n.parse().unwrap()));
    let mut shorter = 0;
    for case in 0..std::env::var("CASES").map_or(300, |n| n.parse().unwrap()) {
        let (scenario, options) = draw(&mut random);
        let log = made(scenario, &options);
        let cut = cut(&log);
        shorter += usize::from(cut.len() < log.len());
        hold(&log, &cut, &format!("case {case}: {scenario:?} {options:?}"));
    }
    assert!(shorter > 150, "most logs have several passes: {shorter}");
}
