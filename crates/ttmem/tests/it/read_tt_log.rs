//! The reader of Tenstorrent logs, held against logs whose truth is known: those of the corpus, and any number
//! that the test kit makes.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use ttmem::analyze::effects::effects;
use ttmem::analyze::{Account, Span};
use ttmem::model::{Class, CurveKind, Moment, OpKind, PoolId, Profile, Rank, StepMarks};
use ttmem::query::{Request, summary};
use ttmem::read;
use ttmem::record::frame::Writer;
use ttmem_testkit::random::Random;
use ttmem_testkit::tt::{Level, MemoryLevel, Modules, Options, Scenario, make};

use crate::truth::{QUANTUM, Shown, Truth};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log")
}

/// The logs of the corpus: their names and their bytes.
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

fn log_named(wanted: &str) -> Vec<u8> {
    fs::read(corpus().join(format!("{wanted}.log"))).unwrap()
}

/// The profile of a file with these bytes.
fn profile_of(bytes: &[u8]) -> Profile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    fs::write(&path, bytes).unwrap();
    read::open(path.to_str().unwrap()).unwrap()
}

fn made(scenario: Scenario, options: &Options) -> (Vec<u8>, Truth) {
    let mut log = Vec::new();
    let truth = make(scenario, options, &mut log).unwrap();
    (log, Truth::made(&truth))
}

/// The fields of a truth that do not hold.
fn broken(profile: &Profile, truth: &Truth, shown: Shown) -> Vec<String> {
    let fields = crate::truth::compare(profile, truth, shown);
    assert!(fields.0.len() > 10, "something is compared");
    fields.broken()
}

#[test]
fn every_log_of_the_corpus_holds_its_truth() {
    for (name, log) in logs() {
        let truth = fs::read_to_string(corpus().join(format!("{name}.truth.json"))).unwrap();
        let truth = Truth::parse(&truth).unwrap_or_else(|error| panic!("the truth of {name}: {error}"));
        let broken = broken(&profile_of(&log), &truth, Shown::of_log(&log));
        assert!(broken.is_empty(), "{name}:\n  {}", broken.join("\n  "));
    }
}

/// The answer for every position is the same as the profile's own account of it.
#[test]
fn any_position_can_be_asked_for() {
    for name in ["submit-states", "oldest-layouts", "trace", "info-only"] {
        let profile = profile_of(&log_named(name));
        let truth = fs::read_to_string(corpus().join(format!("{name}.truth.json"))).unwrap();
        let states = Truth::parse(&truth).unwrap().states.unwrap();
        let positions = profile.ranks[0].end();
        for position in 0..positions {
            let request = Request { at: Some(position), ..Request::default() };
            let answer = summary(std::slice::from_ref(&profile), &request).unwrap();
            let at = answer.ranks[0].at.as_ref().unwrap();
            for (pool, states) in &states {
                let found = at.pools.get(pool).unwrap().allocated_per_bank.unwrap();
                let expected = states[position as usize];
                assert!(found.abs_diff(expected) <= QUANTUM, "{name}, {pool} at {position}: {found}");
            }
        }
        let request = Request { at: Some(positions + 1), ..Request::default() };
        assert_eq!(summary(&[profile], &request).unwrap_err().exit_code(), 2);
    }
}

/// Draws a scenario and how its log looks, without changing what the log shows.
fn draw(random: &mut Random) -> (Scenario, Options) {
    let more = [
        Scenario::Random,
        Scenario::Random,
        Scenario::Repeated { ops: 300 },
        Scenario::Distinct { ops: 200 },
    ];
    let scenario = random.pick(&[&Scenario::KINDS[..], &more].concat());
    (scenario, Options { exact_states: true, ..Options::drawn(random) })
}

/// Holds the truth of this many logs, drawn from a seed and then changed in what they show.
#[track_caller]
fn hold(seed: u64, cases: usize, change: impl Fn(&mut Options, &mut Random)) {
    let mut random = Random::new(seed);
    for case in 0..cases {
        let (scenario, mut options) = draw(&mut random);
        change(&mut options, &mut random);
        let (log, truth) = made(scenario, &options);
        let broken = broken(&profile_of(&log), &truth, Shown::by(&options));
        assert!(broken.is_empty(), "case {case}: {scenario:?} {options:?}\n  {}", broken.join("\n  "));
    }
}

#[test]
fn the_truth_holds_for_any_log_with_everything_in_it() {
    hold(1, 150, |options, random| {
        options.memory = random.pick(&[MemoryLevel::Operation, MemoryLevel::Operation, MemoryLevel::Any]);
    });
}

#[test]
fn the_truth_holds_as_far_as_states_are_printed() {
    hold(2, 100, |options, random| {
        options.states_at_deallocations = random.chance(30);
        options.memory = random.pick(&[MemoryLevel::Operation, MemoryLevel::Any, MemoryLevel::Program]);
    });
}

#[test]
fn the_truth_of_the_pools_holds_without_debug_lines() {
    hold(3, 100, |options, random| {
        options.level = Level::Info;
        options.memory = random.pick(&[MemoryLevel::Operation, MemoryLevel::Any]);
        options.states_at_deallocations = random.chance(70);
        options.modules = random.pick(&[Modules::Full, Modules::None]);
    });
}

#[test]
fn the_truth_holds_as_far_as_modules_are_dumped() {
    hold(4, 100, |options, random| {
        options.modules = random.pick(&[Modules::None, Modules::SignaturesOnly]);
        if options.modules == Modules::None && random.chance(50) {
            options.prefix = "(EngineCore_DP0 pid=230) ".into();
        }
    });
}

#[test]
fn what_operations_leave_behind_is_found() {
    hold(5, 100, |options, random| {
        options.keep = true;
        options.memory = random.pick(&[MemoryLevel::Operation, MemoryLevel::Any]);
    });
}

/// The answer without what depends on where the lines stand and how the file is called.
fn answer(profile: &Profile) -> Vec<Value> {
    let answer = summary(std::slice::from_ref(profile), &Request::default()).unwrap();
    assert_eq!(answer.source.skipped_lines, 0);
    let mut answer = serde_json::to_value(answer).unwrap();
    let ranks = answer["ranks"].as_array_mut().unwrap();
    for rank in ranks.iter_mut() {
        (rank["file"], rank["rank"]) = (Value::Null, Value::Null);
        for fault in rank["faults"].as_array_mut().unwrap() {
            fault["line"] = Value::Null;
        }
    }
    std::mem::take(ranks)
}

/// A name and what it makes of the bytes of a log.
type Look = (&'static str, fn(&[u8]) -> Vec<u8>);

/// Changes of a log that change nothing of what it says.
const LOOKS: [Look; 5] = [
    ("without color", without_color),
    ("with CRLF", |log| by_line(log, |line, out| out.extend([line, b"\r"].concat()))),
    ("tagged", |log| by_line(log, |line, out| out.extend([&b"[1,0]<stdout>:"[..], line].concat()))),
    ("behind a timestamp", |log| by_line(log, with_timestamp)),
    ("with lines of others", |log| by_line(log, with_others)),
];

fn by_line(log: &[u8], mut change: impl FnMut(&[u8], &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    for line in log.strip_suffix(b"\n").unwrap_or(log).split(|&byte| byte == b'\n') {
        change(line, &mut out);
        out.push(b'\n');
    }
    out
}

fn without_color(log: &[u8]) -> Vec<u8> {
    let mut pieces = log.split(|&byte| byte == 0x1b);
    let mut plain = pieces.next().unwrap_or_default().to_vec();
    for piece in pieces {
        let end = piece.iter().position(|&byte| byte == b'm').unwrap();
        plain.extend(&piece[end + 1..]);
    }
    plain
}

fn is_of_runtime(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    text.contains("RuntimeTTNN") || text.contains("Always") && !text.contains("critical")
}

/// As GitHub's runners write logs; the runtime's lines alone, because modules have a place of their own.
fn with_timestamp(line: &[u8], out: &mut Vec<u8>) {
    if is_of_runtime(line) {
        out.extend(b"2024-04-01T23:53:30.6500269Z ");
    }
    out.extend(line);
}

fn with_others(line: &[u8], out: &mut Vec<u8>) {
    out.extend(line);
    if is_of_runtime(line) {
        out.extend(
            b"\n[watchdog] Device memory state before operation 7 was not reported\n 12%|#2        | 3/25",
        );
    }
}

#[test]
fn how_a_log_looks_does_not_change_the_answer() {
    for (name, log) in logs() {
        let expected = answer(&profile_of(&log));
        let is_tagged = log.starts_with(b"[1,");
        for (look, change) in LOOKS {
            if is_tagged && matches!(look, "tagged" | "behind a timestamp") {
                continue;
            }
            let found = answer(&profile_of(&change(&log)));
            assert!(found == expected, "{name} {look}: {}", first_difference(&expected, &found));
        }
    }
}

/// A name and what it makes of the options of a log.
type OptionLook = (&'static str, fn(&mut Options));

#[test]
fn how_a_log_is_made_to_look_does_not_change_the_answer() {
    let looks: [OptionLook; 7] = [
        ("color", |options| options.color = true),
        ("foreign lines", |options| options.noise = 60),
        ("CRLF", |options| options.crlf = true),
        ("a tag", |options| options.ranks = 1),
        ("two ranks", |options| options.ranks = 2),
        ("two ranks, two streams", |options| (options.ranks, options.split_streams) = (2, true)),
        ("all of it", |options| {
            (options.color, options.noise, options.crlf, options.ranks) = (true, 60, true, 3);
        }),
    ];
    let mut random = Random::new(6);
    for _ in 0..12 {
        let (scenario, drawn) = draw(&mut random);
        let plain = Options { color: false, noise: 0, crlf: false, ranks: 0, split_streams: false, ..drawn };
        let expected = answer(&profile_of(&made(scenario, &plain).0));
        for (look, change) in looks {
            let mut options = plain.clone();
            change(&mut options);
            for found in answer(&profile_of(&made(scenario, &options).0)) {
                let difference = first_difference(&expected, std::slice::from_ref(&found));
                assert!(found == expected[0], "{scenario:?} {options:?} with {look}: {difference}");
            }
        }
    }
}

/// Where two answers differ first, for the message.
fn first_difference(expected: &[Value], found: &[Value]) -> String {
    let lines = |values: &[Value]| -> Vec<String> {
        serde_json::to_string_pretty(values).unwrap().lines().map(str::to_owned).collect()
    };
    let (expected, found) = (lines(expected), lines(found));
    let at = expected.iter().zip(&found).position(|(a, b)| a != b).unwrap_or(expected.len().min(found.len()));
    let context = |lines: &[String]| lines[at.saturating_sub(4)..lines.len().min(at + 2)].join("\n");
    format!("expected\n{}\nfound\n{}", context(&expected), context(&found))
}

/// Every rank and pool of the logs of the corpus.
fn for_each_account(mut check: impl FnMut(&str, &Profile, &Rank, &Account<'_>)) {
    for (name, log) in logs() {
        let profile = profile_of(&log);
        for rank in &profile.ranks {
            for id in (0..rank.pools.len()).filter_map(PoolId::new) {
                check(&name, &profile, rank, &Account::new(rank, id).unwrap());
            }
        }
    }
}

#[test]
fn the_effects_of_a_programs_steps_add_up_to_what_it_did() {
    let mut programs = 0;
    for_each_account(|name, _, rank, account| {
        if !rank.has_tensors() {
            return;
        }
        for (id, run) in rank.top_level_runs().filter(|(_, run)| run.finished) {
            let span = Span::of_run(rank, id).unwrap();
            let sum: i64 = effects(account, span).map(|(_, effect)| effect.unwrap()).sum();
            let first = account.held(Moment::late(run.first)).unwrap().per_bank.cast_signed();
            let last = account.held(Moment::early(run.end)).unwrap().per_bank.cast_signed();
            // The last step has no state behind it: there one rounding meets what the layouts say.
            assert!(sum.abs_diff(last - first) <= QUANTUM, "{name}: {sum} is not {last} - {first}");
            programs += 1;
        }
    });
    assert!(programs > 50, "{programs}");
}

#[test]
fn what_is_allocated_and_what_is_free_is_all_there_is() {
    for_each_account(|name, _, _, account| {
        for at in account.pool.observed.iter() {
            let reading = account.pool.reading(at);
            let value = |value: Option<u64>| value.unwrap();
            let sum = value(reading.allocated) + value(reading.free);
            assert!(sum.abs_diff(value(reading.capacity)) <= 2 * QUANTUM, "{name} {at:?}");
            assert!(value(reading.largest_free) <= value(reading.free) + QUANTUM, "{name} {at:?}");
        }
    });
}

#[test]
fn curves_change_only_where_a_pool_was_looked_at() {
    for_each_account(|name, _, _, account| {
        for kind in [CurveKind::Allocated, CurveKind::Free, CurveKind::LargestFree, CurveKind::Capacity] {
            for (at, _) in account.pool.curve(kind).into_iter().flat_map(ttmem::model::Curve::changes) {
                assert!(account.pool.observed.contains(at), "{name} {kind:?} {at:?}");
            }
        }
    });
}

#[test]
fn a_trace_holds_its_slots_and_every_byte_is_somebodys() {
    let profile = profile_of(&log_named("trace"));
    let rank = &profile.ranks[0];
    let (id, _) = rank.pool_named(&profile, "DRAM").unwrap();
    let account = Account::new(rank, id).unwrap();
    for (at, allocated) in account.readings() {
        let explained = account.explained(at).unwrap();
        assert!(allocated.abs_diff(explained) <= QUANTUM, "{at:?}: {explained} of {allocated}");
    }
    let programs: BTreeSet<&str> = rank.runs.iter().map(|run| profile.text(run.program)).collect();
    let nested = ["allocate_slots_trace_0_main", "run_and_capture_trace_0_main", "execute_trace_0_main"];
    assert!(nested.iter().all(|program| programs.contains(program)), "{programs:?}");
    assert!(rank.runs.iter().all(|run| !run.const_eval), "a trace computes no constants");
}

/// The cached results of const-eval programs: one allocation each, however often they are loaded.
#[test]
fn cache_hits_are_further_names_of_one_allocation() {
    let profile = profile_of(&log_named("vae-decoder"));
    let rank = &profile.ranks[0];
    let marked = |mark| (0..).zip(&rank.steps.marks).filter(move |(_, marks)| marks.has(mark)).count();
    let loads = rank.steps.op.iter().filter(|op| profile.ops.kind(**op) == OpKind::LoadCached).count();
    let (hits, misses) = (marked(StepMarks::CACHE_HIT), marked(StepMarks::CACHE_MISS));
    assert_eq!((hits + misses, misses), (loads, rank.runs.iter().filter(|run| run.const_eval).count()));
    assert!(hits > 0);
    // Each result was made in the first run, once, and has a name in main besides the one it was born with.
    let results: Vec<usize> =
        (0..rank.tensors.len()).filter(|&index| rank.tensors.class[index] == Class::Weight).collect();
    assert_eq!(results.len(), 12, "twelve results of eight programs");
    for index in results {
        let tensor = rank.tensors.get(index).unwrap();
        let aliases = rank.aliases.iter().filter(|alias| alias.tensor.index() == index).count();
        assert!(rank.run(tensor.run.unwrap()).unwrap().const_eval && aliases > 0);
        assert_eq!(tensor.dies, Moment::NEVER, "deallocating what is retained frees nothing");
    }
    assert!(marked(StepMarks::RETAINED) > 0);
}

#[test]
fn a_view_is_told_from_a_copy_by_what_the_device_says() {
    let (log, _) = made(Scenario::Vae, &Options::default());
    let profile = profile_of(&log);
    let rank = &profile.ranks[0];
    let reshapes: Vec<u32> =
        (0..rank.end()).filter(|&step| profile.op_name(rank, step) == Some("ttnn.reshape")).collect();
    let is_view = |step: &&u32| rank.steps.marks[**step as usize].has(StepMarks::VIEW);
    let views: Vec<&u32> = reshapes.iter().filter(is_view).collect();
    assert!(!views.is_empty() && views.len() < reshapes.len(), "both are in this log");
    // A view makes no tensor.
    let made: BTreeSet<u32> = rank.tensors.step.iter().flatten().map(|step| step.get()).collect();
    assert!(views.iter().all(|step| !made.contains(step)));
}

#[test]
fn weights_that_are_kept_in_two_forms_are_counted() {
    let mut seen = BTreeSet::new();
    for seed in 0..12 {
        let (log, truth) = made(Scenario::Llm, &Options { seed, ..Options::default() });
        let answer = summary(&[profile_of(&log)], &Request::default()).unwrap();
        let kept = answer.ranks[0].weights.as_ref().unwrap().kept_twice_bytes;
        assert_eq!(kept, truth.kept_twice_bytes, "seed {seed}");
        seen.insert(kept > Some(0));
    }
    assert_eq!(seen.len(), 2, "some are kept twice, some are not");
}

fn gzipped(log: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(log).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_packed_log_is_the_same_log() {
    for (name, log) in logs() {
        let expected = answer(&profile_of(&log));
        // Two files, packed one after the other, are one file.
        let half = log.len() / 2;
        let twice = [gzipped(&log[..half]), gzipped(&log[half..])].concat();
        let zstd = zstd::stream::encode_all(&log[..], 1).unwrap();
        for packed in [gzipped(&log), twice, zstd] {
            let profile = profile_of(&packed);
            assert_eq!(answer(&profile), expected, "{name}");
            let stages =
                profile.ranks.iter().flat_map(|rank| &rank.modules).flat_map(|module| &module.stages);
            for stage in stages {
                assert!(profile.source_text(stage.source).is_some(), "{name}: its source is packed");
            }
        }
    }
}

#[test]
fn a_packed_log_that_is_cut_is_refused_or_answered() {
    let log = log_named("oom-capacity");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    for packed in [gzipped(&log), zstd::stream::encode_all(&log[..], 1).unwrap()] {
        for part in 0..20 {
            fs::write(&path, &packed[..packed.len() * part / 20]).unwrap();
            if let Err(error) = read::open(path.to_str().unwrap()) {
                assert_eq!(error.exit_code(), 2, "{error}");
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_that_comes_through_a_pipe_is_the_same_log() {
    use std::os::fd::AsRawFd;
    for (name, log) in logs() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let expected = answer(&profile_of(&log));
        let written = std::thread::spawn(move || writer.write_all(&log));
        let profile = read::open(&format!("/proc/self/fd/{}", reader.as_raw_fd())).unwrap();
        assert_eq!(answer(&profile), expected, "{name}");
        written.join().unwrap().unwrap();
    }
}

#[test]
fn a_profile_written_as_a_file_reads_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ttmem");
    for (name, log) in logs() {
        let profile = profile_of(&log);
        let mut writer = Writer::create(fs::File::create(&path).unwrap(), &path).unwrap();
        profile.replay(&mut writer).unwrap();
        writer.finish().unwrap();
        assert!(read::open(path.to_str().unwrap()).unwrap() == profile, "{name}");
    }
}
