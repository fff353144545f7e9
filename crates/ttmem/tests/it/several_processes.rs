//! Logs that several processes wrote, one after the other or at the same time, and logs that tools have changed on the way.

// Test code may unwrap; clippy does not recognize these functions as tests.
use std::fs;
use std::path::Path;

use ttmem::query::{Oom, ProcessFilter, RankSummary, Request, Summary, summary};
use ttmem::read::{self, Cutting, LastPass, Options};
use ttmem::report::{Screen, text};
use ttmem::{Error, query};
use ttmem_testkit::sweep;
use ttmem_testkit::tt::{Options as MadeOptions, Scenario, make};

fn corpus(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log").join(name)).unwrap()
}

const LOGS: [&str; 9] = [
    "info-only.log",
    "llm-decode.log",
    "oldest-layouts.log",
    "oom-capacity.log",
    "oom-fragmentation.log",
    "submit-states.log",
    "trace.log",
    "two-graphs.log",
    "vae-decoder.log",
];

fn ask(log: &[u8], options: &Options, request: &Request) -> Result<Summary, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    fs::write(&path, log).unwrap();
    summary(&[read::open_with(path.to_str().unwrap(), options)?], request)
}

fn answer(log: &[u8]) -> Summary {
    ask(log, &Options::default(), &Request::default()).unwrap()
}

fn warnings(summary: &Summary) -> Vec<&str> {
    summary.source.warnings.iter().map(|warning| warning.message.as_str()).collect()
}

/// All that is said of a rank but the name of its file, which is a temporary one.
fn facts(rank: &RankSummary) -> serde_json::Value {
    let mut value = serde_json::to_value(rank).unwrap();
    for field in ["file", "process", "processes"] {
        value.as_object_mut().unwrap().remove(field);
    }
    value
}

fn dram(rank: &RankSummary) -> (Option<u64>, Option<u64>) {
    let pool = rank.pools.get("DRAM").unwrap();
    (pool.capacity_per_bank, pool.peak_per_bank)
}

#[test]
fn each_process_is_a_rank_and_the_last_comes_first() {
    let (first, second) = (corpus("llm-decode.log"), corpus("vae-decoder.log"));
    let both = answer(&[first.as_slice(), &second].concat());
    let numbers: Vec<u32> = both.ranks.iter().map(|rank| rank.process).collect();
    assert_eq!(numbers, [2, 1]);
    assert_eq!(dram(&both.ranks[0]), dram(&answer(&second).ranks[0]));
    assert_eq!(dram(&both.ranks[1]), dram(&answer(&first).ranks[0]));
    let line = first.split(|byte| *byte == b'\n').count() as u64;
    let warning = both.source.warnings.iter().find(|warning| warning.message.contains("process 2")).unwrap();
    assert!(warning.line.unwrap() >= line, "{warning:?}");
    for rank in &both.ranks {
        let pool = rank.pools.get("DRAM").unwrap();
        assert!(pool.free_at_peak_per_bank <= pool.capacity_per_bank);
    }
}

#[test]
fn the_process_that_ran_out_of_memory_comes_first() {
    let decode = corpus("llm-decode.log");
    let log = [decode.as_slice(), &corpus("oom-capacity.log"), &decode].concat();
    let all = answer(&log);
    let numbers: Vec<(u32, bool)> = all.ranks.iter().map(|rank| (rank.process, rank.oom.is_some())).collect();
    assert_eq!(numbers, [(2, true), (3, false), (1, false)]);
    let alone = answer(&corpus("oom-capacity.log"));
    let explained = |rank: &RankSummary| rank.peak.as_ref().unwrap().explained_per_bank;
    assert_eq!(explained(&all.ranks[0]), explained(&alone.ranks[0]));

    let one = |number| Request { process: ProcessFilter::Number(number), ..Request::default() };
    let third = ask(&log, &Options::default(), &one(3)).unwrap();
    assert_eq!(third.ranks.iter().map(|rank| rank.process).collect::<Vec<_>>(), [3]);
    let error = ask(&log, &Options::default(), &one(4)).unwrap_err().to_string();
    assert!(error.contains("no process 4") && error.contains("3 processes"), "{error}");
}

#[test]
fn a_log_of_one_process_is_not_split() {
    for name in LOGS {
        let answer = answer(&corpus(name));
        assert!(answer.ranks.iter().all(|rank| rank.process == 1), "{name}");
        assert!(!warnings(&answer).iter().any(|warning| warning.contains("process")), "{name}");
    }
}

#[test]
fn blanks_at_the_ends_of_lines_change_nothing() {
    for name in LOGS {
        let log = corpus(name);
        let padded: Vec<u8> = log.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(&b" \t\n"[..]);
        let (plain, padded) = (answer(&log), answer(&padded));
        let all = |summary: &Summary| summary.ranks.iter().map(facts).collect::<Vec<_>>();
        assert_eq!(all(&plain), all(&padded), "{name}");
        assert_eq!(warnings(&plain), warnings(&padded), "{name}");
    }
}

#[test]
fn doubled_lines_are_ignored_with_a_warning() {
    for name in LOGS {
        let log = corpus(name);
        let doubled: Vec<u8> =
            log.split_inclusive(|byte| *byte == b'\n').flat_map(|line| [line, line].concat()).collect();
        let (plain, doubled) = (answer(&log), answer(&doubled));
        let peaks = |summary: &Summary| summary.ranks.iter().map(dram).collect::<Vec<_>>();
        let explained = |summary: &Summary| {
            let of = |rank: &RankSummary| rank.peak.as_ref().and_then(|peak| peak.explained_per_bank);
            summary.ranks.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(peaks(&plain), peaks(&doubled), "{name}");
        assert_eq!(explained(&plain), explained(&doubled), "{name}");
        assert!(
            warnings(&doubled).iter().any(|warning| warning.contains("repeat the previous line")),
            "{name}"
        );
    }
}

#[test]
fn a_log_without_its_deallocation_lines_is_answered_with_a_warning() {
    for name in LOGS.into_iter().filter(|name| *name != "info-only.log") {
        let log = corpus(name);
        let is_kept =
            |line: &&[u8]| memchr::memmem::find(line, b"Executing operation: \"ttnn.deallocate\"").is_none();
        let filtered: Vec<u8> =
            log.split_inclusive(|byte| *byte == b'\n').filter(is_kept).flatten().copied().collect();
        if filtered.len() == log.len() {
            continue;
        }
        let (plain, filtered) = (answer(&log), answer(&filtered));
        assert_eq!(dram(&plain.ranks[0]), dram(&filtered.ranks[0]), "{name}");
        assert!(
            warnings(&filtered).iter().any(|warning| warning.contains("missing from the log")),
            "{name}: {:?}",
            warnings(&filtered)
        );
        let (before, now) = (&plain.ranks[0].oom, &filtered.ranks[0].oom);
        assert_eq!(before.as_ref().map(|oom| oom.cause), now.as_ref().map(|oom| oom.cause), "{name}");
    }
}

/// Two ranks that write at the same time, with the tags that tell them apart removed.
fn interleaved() -> Vec<u8> {
    let log = String::from_utf8(corpus("two-ranks-info-only.log")).unwrap();
    let untagged = |line: &str| line.split_once(">:").map_or(line, |(_, text)| text).to_owned() + "\n";
    log.lines().map(untagged).collect::<String>().into_bytes()
}

#[test]
fn interleaved_processes_are_refused_unless_the_user_insists() {
    let error = ask(&interleaved(), &Options::default(), &Request::default()).unwrap_err();
    assert!(matches!(error, Error::MixedRanks { .. }), "{error}");
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("--allow-interleaved"), "{error}");
    let insisting = Options { allow_interleaved: true, ..Options::default() };
    let answer = ask(&interleaved(), &insisting, &Request::default()).unwrap();
    assert!(
        warnings(&answer).iter().any(|warning| warning.contains("unreliable")),
        "{:?}",
        warnings(&answer)
    );
}

/// Where the message of an out-of-memory error is cut off, the verdict is the full one or unknown, and no number is wrong.
#[test]
fn a_log_that_ends_inside_its_error_claims_only_what_is_complete() {
    for name in
        ["oom-capacity.log", "oom-fragmentation.log", "oom-l1-small.log", "circular-buffers-clash.log"]
    {
        let log = corpus(name);
        let full = answer(&log).ranks.remove(0).oom.unwrap();
        let needle: &[u8] =
            if name.starts_with("circular") { b"Statically allocated" } else { b"Out of Memory" };
        let start = memchr::memmem::find(&log, needle).unwrap();
        let end = start + memchr::memchr(b'\n', &log[start..]).unwrap();
        for cut in sweep::positions(start..end, 60) {
            for newline in [&b""[..], b"\n"] {
                let torn = answer(&[&log[..cut], newline].concat());
                let Some(oom) = &torn.ranks[0].oom else { continue };
                let place = String::from_utf8_lossy(&log[start..cut]);
                // A number in last place may be a digit short where a line break follows it: nothing tells.
                let ends_in_number =
                    !newline.is_empty() && place.trim_end().ends_with(|last: char| last.is_ascii_digit());
                assert!(oom.cause == full.cause || oom.cause == "unknown", "{name}: {place}: {}", oom.cause);
                check(oom.requested_total, full.requested_total, &place);
                check(oom.requested_per_bank, full.requested_per_bank, &place);
                check(oom.banks.map(u64::from), full.banks.map(u64::from), &place);
                if !ends_in_number {
                    check(oom.overlap_bytes, full.overlap_bytes, &place);
                }
                let shown = text(&torn, Screen { rows: Some(5), ..Screen::default() }).to_string();
                let never = shown.contains("exceeds the capacity") && full.cause != "never_fits";
                assert!(!never && !shown.contains("A large enough block was free"), "{name}: {place}");
                let said = warnings(&torn).iter().any(|warning| {
                    warning.contains("truncated")
                        || warning.contains("ends inside")
                        || warning.contains("the log ends")
                });
                // What is missing may be no more than the name of a source file, or what later versions added.
                let numbers = |oom: &Oom| {
                    (oom.cause, oom.requested_total, oom.requested_per_bank, oom.banks, oom.overlap_bytes)
                };
                let is_whole = numbers(oom) == numbers(&full);
                assert!(said || is_whole || ends_in_number, "{name}: {place}: {:?}", warnings(&torn));
            }
        }
    }
}

#[track_caller]
fn check(found: Option<u64>, full: Option<u64>, place: &str) {
    assert!(found.is_none() || found == full, "{found:?}, not {full:?}: {place}");
}

#[test]
fn the_ranks_of_a_process_stay_in_their_order() {
    let ranks = corpus("two-ranks-info-only.log");
    let twice = answer(&[ranks.as_slice(), &ranks].concat());
    let found: Vec<(Option<&str>, u32)> =
        twice.ranks.iter().map(|rank| (rank.rank.as_deref(), rank.process)).collect();
    assert_eq!(found, [(Some("1,0"), 2), (Some("1,1"), 2), (Some("1,0"), 1), (Some("1,1"), 1)]);
}

#[test]
fn the_chart_is_about_the_process_that_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("both.log");
    fs::write(&path, [corpus("llm-decode.log"), corpus("vae-decoder.log")].concat()).unwrap();
    let profile = read::open(path.to_str().unwrap()).unwrap();
    let drawn = |process| {
        let request = query::ChartRequest { process, columns: 100, ..query::ChartRequest::default() };
        match query::chart(&profile, &request).unwrap() {
            query::Drawn::Steps(drawn) => drawn.points,
            query::Drawn::Phases(_) => panic!("a log has steps"),
        }
    };
    assert_ne!(drawn(ProcessFilter::All), drawn(ProcessFilter::Number(1)));
    assert_eq!(drawn(ProcessFilter::All), drawn(ProcessFilter::Number(2)));
}

#[test]
fn the_last_pass_is_that_of_the_last_process() {
    let folder = tempfile::tempdir().unwrap();
    let (both, alone) = (folder.path().join("both.log"), folder.path().join("alone.log"));
    fs::write(&both, [corpus("llm-decode.log"), corpus("vae-decoder.log")].concat()).unwrap();
    fs::write(&alone, corpus("vae-decoder.log")).unwrap();
    let cut_out = |path: &Path| {
        let mut pass = LastPass::find(path.to_str().unwrap(), &Cutting::default()).unwrap();
        let mut text = Vec::new();
        pass.write(&mut text, path).unwrap();
        answer(&text).ranks.iter().map(facts).collect::<Vec<_>>()
    };
    assert_eq!(cut_out(&both), cut_out(&alone));
}

fn processes(log: &[u8]) -> usize {
    answer(log).ranks.len()
}

/// The warning about processes.
fn reason(log: &[u8]) -> String {
    let answer = answer(log);
    let found = warnings(&answer).into_iter().find(|warning| warning.contains("processes wrote this log"));
    found.unwrap_or_default().to_owned()
}

fn replaced(log: &[u8], from: &str, to: &str) -> Vec<u8> {
    String::from_utf8(log.to_vec()).unwrap().replace(from, to).into_bytes()
}

const OPENED: &str = "2026-03-16 10:31:08.250 | info     |          Device | Opening user mode device driver (tt_cluster.cpp:190)\n";

#[test]
fn each_sign_of_a_new_process_is_noticed_and_named() {
    let (decode, trace) = (corpus("llm-decode.log"), corpus("trace.log"));
    let cases = [
        (decode.clone(), replaced(&decode, "(  12.345s)", "(   2.345s)"), "the clock"),
        (decode.clone(), replaced(&decode, "2026-03-16 10:31:07", "2026-03-16 10:41:07"), "the clock"),
        (trace.clone(), [OPENED.as_bytes(), &trace].concat(), "opened again"),
        (decode.clone(), corpus("info-only.log"), "log level"),
        (corpus("info-only.log"), decode.clone(), "log level"),
        (decode.clone(), corpus("vae-decoder.log"), "memory banks"),
        (decode.clone(), decode.clone(), "compiled again"),
        (corpus("oom-capacity.log"), decode.clone(), "aborted"),
    ];
    for (first, second, sign) in cases {
        let found = reason(&[first, second].concat());
        assert!(found.contains(sign), "{found:?} does not name {sign}");
    }
}

/// An error before the first program of a process is that process's.
#[test]
fn an_error_during_the_upload_of_weights_belongs_to_the_new_process() {
    let failed = replaced(&corpus("oom-capacity.log"), "(  12.345s)", "(   2.345s)");
    let is_program = |line: &&[u8]| memchr::memmem::find(line, b"RuntimeTTNN").is_some();
    let is_state = |line: &&[u8]| memchr::memmem::find(line, b"memory state").is_some();
    let upload: Vec<u8> = failed
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !is_program(line) && !is_state(line))
        .flatten()
        .copied()
        .collect();
    let both = answer(&[corpus("two-graphs.log"), upload].concat());
    let found: Vec<(u32, bool)> = both.ranks.iter().map(|rank| (rank.process, rank.oom.is_some())).collect();
    assert_eq!(found, [(2, true), (1, false)]);
}

#[test]
fn what_one_process_may_do_is_not_taken_for_two() {
    let graphs = corpus("two-graphs.log");
    let lines: Vec<&[u8]> = graphs.split_inclusive(|byte| *byte == b'\n').collect();
    // The first graph is compiled again while the weights stay.
    let recompiled = [lines[..974].concat(), lines[..103].concat(), lines[974..].concat()].concat();
    assert_eq!(processes(&recompiled), 1, "{}", reason(&recompiled));
    // Other lines of the driver stand inside a program.
    let noisy = [lines[..150].concat(), OPENED.into(), lines[150..].concat()].concat();
    assert_eq!(processes(&noisy), 1, "{}", reason(&noisy));
    let with_opening = [OPENED.as_bytes(), &corpus("info-only.log")].concat();
    assert_eq!(processes(&with_opening), 1, "{}", reason(&with_opening));
    let is_other = |line: &&&[u8]| memchr::memmem::find(line, b"Executing operation").is_none();
    let filtered: Vec<u8> = lines.iter().filter(is_other).copied().flatten().copied().collect();
    assert_eq!(processes(&filtered), 1, "{}", reason(&filtered));
}

#[test]
fn made_logs_of_one_process_are_not_split() {
    for seed in 0..sweep::cases(15, 400) {
        for scenario in [Scenario::Random, Scenario::Passes { passes: 3 }, Scenario::TwoGraphs] {
            let mut log = Vec::new();
            make(scenario, &MadeOptions { seed, ..MadeOptions::default() }, &mut log).unwrap();
            assert_eq!(processes(&log), 1, "{scenario:?}, seed {seed}: {}", reason(&log));
        }
    }
}
