//! The last pass of a log, cut out: it answers what the whole log answers for its last pass.

// The helpers of tests are tests; clippy's allowance does not see that.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use ttmem::model::{CurveKind, Profile, Rank};
use ttmem::query::timeline::{Column, Texts, Timeline};
use ttmem::query::{Request, RunFilter, summary};
use ttmem::read::{self, Cutting, LastPass};
use ttmem::record::frame::Writer;
use ttmem_testkit::random::Random;
use ttmem_testkit::tt::{Level, MemoryLevel, Modules, Options, Scenario, make};

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
    const DIFFERS: [&str; 13] = [
        "chosen_runs",
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

/// Leaves out what is said of pools that were not looked at in the pass: only the whole log knows their size.
fn leave_out_unseen(whole: &mut Value, part: &mut Value) {
    for (whole, part) in whole.as_array_mut().unwrap().iter_mut().zip(part.as_array_mut().unwrap()) {
        let pools = whole["pools"].as_object().unwrap();
        let unseen = pools.iter().filter(|(_, pool)| pool["peak_per_bank"].is_null());
        for pool in unseen.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            for rank in [&mut *whole, &mut *part] {
                rank["pools"].as_object_mut().unwrap().remove(&pool);
                rank["peaks"].as_object_mut().unwrap().remove(&pool);
                if rank["oom"]["pool"] == pool.as_str() && rank["oom"]["evidence"] == "state" {
                    for unseen in ["free_per_bank", "largest_free_per_bank", "lacks_per_bank", "advice"] {
                        rank["oom"][unseen].take();
                    }
                }
            }
        }
    }
}

fn suggestions(rank: &mut Value) -> impl Iterator<Item = &mut Value> {
    rank["suggestions"].as_array_mut().unwrap().iter_mut()
}

/// Holds a cut-out against the log that it is from.
#[track_caller]
fn hold(log: &[u8], cut: &[u8], case: &str) {
    let (whole, part) = (profile_of(log), profile_of(cut));
    let mut answers = (answer(&whole, RunFilter::Last), answer(&part, RunFilter::All));
    leave_out_unseen(&mut answers.0, &mut answers.1);
    for answer in [&mut answers.0, &mut answers.1] {
        for rank in answer.as_array_mut().unwrap() {
            if rank["oom"].is_object() {
                rank["oom"]["detail"].take();
            }
            // Whether a tensor may have another shape depends on operations that the cut-out does not have; without them,
            // it proposes none.
            let of_shapes =
                |suggestion: &Value| suggestion["rule"].as_str().unwrap().contains("padding_over_50");
            rank["suggestions"].as_array_mut().unwrap().retain(|suggestion| !of_shapes(suggestion));
        }
        for suggestion in answer.as_array_mut().unwrap().iter_mut().flat_map(suggestions) {
            // They name steps, whose numbers differ.
            for named in ["step", "steps", "headline", "detail", "advice", "message"] {
                suggestion[named].take();
            }
            // Those of equal size come in another order, and not all are listed.
            suggestion["tensors"].take();
        }
    }
    let mut found = Vec::new();
    differences("", &answers.0, &answers.1, &mut found);
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
    let look = Options::drawn(random);
    let options = Options {
        prefix: random.pick(&["", "", "(EngineCore_DP0 pid=230) "]).to_owned(),
        memory: random.pick(&[
            MemoryLevel::Operation,
            MemoryLevel::Operation,
            MemoryLevel::Any,
            MemoryLevel::Program,
        ]),
        modules: random.pick(&[Modules::Full, Modules::Full, Modules::SignaturesOnly, Modules::None]),
        states_at_deallocations: random.chance(70),
        keep: random.chance(20),
        ..look
    };
    (scenario, options)
}

/// Draws this many logs and holds something of each. The environment may ask for more.
fn for_any_log(seed: u64, cases: usize, mut hold: impl FnMut(&[u8], &mut Random, &str)) {
    let factor: usize = std::env::var("TTMEM_CASES").map_or(1, |factor| factor.parse().unwrap());
    let mut random = Random::new(seed);
    for case in 0..cases * factor {
        let (scenario, options) = draw(&mut random);
        hold(&made(scenario, &options), &mut random, &format!("case {case}: {scenario:?} {options:?}"));
    }
}

#[test]
fn a_cut_out_answers_as_the_whole_log_does_for_its_last_pass() {
    let (mut cases, mut shorter) = (0, 0);
    for_any_log(1, 250, |log, _, case| {
        let cut = cut(log);
        (cases, shorter) = (cases + 1, shorter + usize::from(cut.len() < log.len()));
        hold(log, &cut, case);
    });
    assert!(shorter * 2 > cases, "most logs have several passes: {shorter} of {cases}");
}

/// A log that ends anywhere, in a pass or between two, in the middle of a line or not.
#[test]
fn a_last_pass_that_was_cut_short_is_still_the_last_pass() {
    for_any_log(2, 150, |log, random, case| {
        let length = log.len() / 2 + random.index(log.len() / 2);
        let log = &log[..length];
        hold(log, &cut(log), &format!("{length} bytes of {case}"));
    });
}

/// One rank may have crashed passes ago: of each, its own last pass is kept.
#[test]
fn each_rank_has_a_last_pass_of_its_own() {
    let mut apart = 0;
    let mut random = Random::new(10);
    for case in 0..40 {
        let (scenario, options) = draw(&mut random);
        let log = made(scenario, &Options { ranks: 3, ..options.clone() });
        let mut lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
        let from = lines.len() / 3 + random.index(lines.len() / 2);
        let mut number = 0;
        lines.retain(|line| {
            number += 1;
            number < from || !line.starts_with(b"[1,1]")
        });
        let log = lines.concat();
        let case = format!("rank 1 ends at line {from} of case {case}: {scenario:?} {options:?}");
        let mut pass = find(&log, None).unwrap();
        let passes: Vec<usize> = pass.passes().map(|(_, of)| of).collect();
        apart += usize::from(passes.iter().any(|of| *of != passes[0]));
        let mut cut = Vec::new();
        pass.write(&mut cut, Path::new("cut.log")).unwrap();
        hold(&log, &cut, &case);
        assert!(cut_at(&cut, None).0 == cut, "{case}");
    }
    assert!(apart > 10, "{apart}");
}

/// The lines of an error, as the runtime prints them.
fn error_lines(random: &mut Random, options: &Options) -> Vec<u8> {
    let options = Options { seed: random.between(0, 999), noise: 0, ..options.clone() };
    let log = lines(&made(Scenario::OomCapacity, &options));
    let error = log.iter().position(|line| line.contains("Out of Memory")).unwrap();
    log[error..].iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

#[test]
fn an_error_in_the_last_pass_is_answered_alike() {
    let mut random = Random::new(3);
    let mut errors = 0;
    for case in 0..60 {
        let (scenario, mut options) = draw(&mut random);
        (options.ranks, options.crlf) = (0, false);
        let mut log = made(scenario, &options);
        let somewhere = log.len() * 3 / 4 + random.index(log.len() / 4);
        let line = somewhere + log[somewhere..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
        log.truncate(line);
        log.extend(error_lines(&mut random, &options));
        let cut = cut(&log);
        errors += usize::from(!answer(&profile_of(&cut), RunFilter::All)[0]["oom"].is_null());
        hold(&log, &cut, &format!("case {case}: {scenario:?} {options:?}"));
    }
    assert!(errors > 40, "{errors} errors were answered");
}

/// An error of an earlier pass that somebody caught, and that pytest tells again when all is over.
#[test]
fn an_error_of_an_earlier_pass_is_not_new_when_it_is_told_again() {
    for seed in 0..10 {
        let options = Options { seed, ..Options::default() };
        let log = lines(&made(Scenario::Repeated { ops: 600 }, &options));
        let first =
            log.iter().position(|line| line.ends_with("Finished execution of program: main")).unwrap();
        let error = lines(&error_lines(&mut Random::new(seed), &options));
        // Instead of its end, the first run has the error; another begins behind it.
        let text = [&log[..first], &error[..], &log[first + 1..], &error[..]].concat().join("\n") + "\n";
        let (cut, passes) = cut_at(text.as_bytes(), None);
        let told = lines(&cut).iter().any(|line| line.starts_with("ttmem | told before: "));
        assert!(passes > 2 && told, "{passes} passes, seed {seed}");
        let answered = answer(&profile_of(&cut), RunFilter::All);
        assert_eq!((&answered[0]["oom"], &answered[0]["faults"]), (&Value::Null, &Value::Array(Vec::new())));
        hold(text.as_bytes(), &cut, &format!("seed {seed}"));
    }
}

#[test]
fn a_cut_out_of_a_cut_out_is_the_same() {
    for_any_log(4, 60, |log, _, case| {
        let once = cut(log);
        assert!(cut(&once) == once, "{case}");
        if let Ok(mut pass) = find(log, Some(MARKER)) {
            let mut once = Vec::new();
            pass.write(&mut once, Path::new("cut.log")).unwrap();
            assert!(cut_at(&once, Some(MARKER)).0 == once, "by markers, {case}");
            // However it was cut, it is one pass.
            assert!(cut(&once) == once || pass.is_everything(), "by markers and by programs, {case}");
        }
    });
}

#[test]
fn the_corpus_is_cut_as_the_made_logs_are() {
    for name in ["vae-decoder", "llm-decode", "two-graphs", "submit-states", "oldest-layouts", "trace"] {
        let log = fs::read(corpus().join(format!("{name}.log"))).unwrap();
        hold(&log, &cut(&log), name);
    }
}

#[test]
fn a_log_of_one_pass_is_kept_as_it_is() {
    for name in ["oom-capacity", "oom-fragmentation", "circular-buffers-clash"] {
        let log = fs::read(corpus().join(format!("{name}.log"))).unwrap();
        assert_eq!(cut_at(&log, None), (log, 1), "{name}");
    }
}

fn lines(log: &[u8]) -> Vec<String> {
    String::from_utf8(log.to_vec()).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn every_line_of_the_pass_stays_and_all_module_dumps() {
    for_any_log(5, 40, |log, _, case| {
        let (cut, passes) = cut_at(log, None);
        if passes == 1 {
            return;
        }
        let (whole, part) = (lines(log), lines(&cut));
        let is_tagged = |line: &&String| line.starts_with("[1,");
        if !whole.iter().any(|line| is_tagged(&line)) {
            let begins = part.iter().rposition(|line| line.starts_with("ttmem | last pass: ")).unwrap() + 1;
            assert!(whole.ends_with(&part[begins..]), "{case}");
        }
        let texts = |log: &[u8]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), log).unwrap();
            let mut profile = read::open(file.path().to_str().unwrap()).unwrap();
            read::embed_texts(&mut profile);
            let mut texts: Vec<String> = profile.texts.into_values().collect();
            texts.sort_unstable();
            texts
        };
        assert!(texts(log) == texts(&cut), "{case}");
    });
}

/// The programs that are told again: their names in order, and nothing of the memory.
fn retold(cut: &[u8]) -> Vec<String> {
    let lines = lines(cut);
    let end = lines.iter().position(|line| line.contains("ttmem | last pass: ")).unwrap();
    assert!(
        !lines[..end].iter().any(|line| line.contains("memory state")),
        "no state is outside of the pass"
    );
    let name = |line: &String| Some(line.split_once("Starting execution of program: ")?.1.to_owned());
    lines[..end].iter().filter_map(name).collect()
}

#[test]
fn only_the_const_eval_programs_that_the_pass_uses_stay() {
    let log = fs::read(corpus().join("vae-decoder.log")).unwrap();
    let used: Vec<String> = lines(&log)
        .iter()
        .filter_map(|line| Some(line.split_once("Cache hit for function: ")?.1.to_owned()))
        .collect();
    assert!(used.len() > 2);
    assert_eq!(retold(&cut(&log)), used);
    // Several graphs in turn; the last pass broke off before it came to all of them.
    let mut some_left_out = 0;
    let mut random = Random::new(6);
    for seed in 0..60 {
        let log = made(Scenario::Passes { passes: 3 }, &Options { seed, ..Options::default() });
        let log = &log[..log.len() * 2 / 3 + random.index(log.len() / 3)];
        let case = format!("{} bytes of seed {seed}", log.len());
        let (cut, passes) = cut_at(log, None);
        if passes == 1 {
            continue;
        }
        let (whole, told) = (lines(log), retold(&cut));
        let pass = lines(&cut);
        let pass = &pass[pass.iter().position(|line| line.contains("ttmem | last pass: ")).unwrap()..];
        let hit = |name: &String| {
            let hit = format!("Cache hit for function: {name}");
            pass.iter().any(|line| line.ends_with(&hit))
        };
        assert!(told.iter().all(hit), "{case}");
        let missed = whole.iter().filter(|line| line.contains("Cache miss or invalid cache")).count();
        let missed_here = pass.iter().filter(|line| line.contains("Cache miss or invalid cache")).count();
        some_left_out += usize::from(told.len() < missed - missed_here);
    }
    assert!(some_left_out > 3, "{some_left_out}");
}

/// Where a marker ends each pass, it cuts where the programs repeat.
#[test]
fn a_marker_ends_a_pass() {
    let mut random = Random::new(7);
    let mut compared = 0;
    for case in 0..80 {
        let (_, options) = draw(&mut random);
        let options = Options { noise: 0, ..options };
        let scenario = random.pick(&[Scenario::Vae, Scenario::Passes { passes: 3 }]);
        let log = made(scenario, &options);
        let (by_programs, passes) = cut_at(&log, None);
        let (by_marker, marked) = cut_at(&log, Some(MARKER));
        let case = format!("case {case}: {scenario:?} {options:?}");
        assert_eq!(marked, if scenario == Scenario::Vae { 2 } else { 3 }, "{case}");
        // A pass of one graph run twice is two passes to whoever looks at programs only.
        if passes == marked {
            compared += 1;
            hold(&log, &by_marker, &case);
            assert_eq!(
                answer(&profile_of(&by_programs), RunFilter::All),
                answer(&profile_of(&by_marker), RunFilter::All),
                "{case}"
            );
        }
    }
    assert!(compared > 40, "{compared}");
}

#[test]
fn what_follows_the_last_marker_is_the_last_pass_if_a_program_starts_there() {
    let log = fs::read(corpus().join("vae-decoder.log")).unwrap();
    let markers: Vec<usize> = (0..log.len()).filter(|at| log[*at..].starts_with(MARKER.as_bytes())).collect();
    assert_eq!(markers.len(), 2);
    // The second pass and its marker, and nothing of what somebody prints when all is done.
    let mut ended = log.clone();
    ended.extend(b"bye\n");
    let (cut, passes) = cut_at(&ended, Some(MARKER));
    assert_eq!(passes, 2);
    assert!(lines(&cut).last().unwrap().contains(MARKER));
    assert!(!lines(&cut)[..lines(&cut).len() - 1].iter().any(|line| line.contains(MARKER)));
    // Without its marker the second pass is the one that was not finished.
    let crashed = &log[..markers[1]];
    let (cut, passes) = cut_at(crashed, Some(MARKER));
    assert_eq!(passes, 2);
    hold(crashed, &cut, "the second pass without its end");
    // A marker that nobody printed.
    let error = find(&log, Some("no such text")).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("no line of"), "{error}");
}

#[test]
fn a_log_without_programs_is_cut_at_markers_only() {
    for ranks in [0, 2] {
        for memory in [MemoryLevel::Operation, MemoryLevel::Any, MemoryLevel::Program] {
            let options = Options { level: Level::Info, ranks, memory, ..Options::default() };
            let log = made(Scenario::Passes { passes: 3 }, &options);
            let error = find(&log, None).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            let message = error.to_string();
            assert!(message.contains("TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG"), "{message}");
            assert!(message.contains("--marker"), "{message}");

            let (cut, passes) = cut_at(&log, Some(MARKER));
            assert_eq!(passes, 3);
            assert!(cut.len() < log.len());
            assert!(cut_at(&cut, Some(MARKER)).0 == cut);
            // The states of the pass are the last ones of the log.
            let (whole, part) = (profile_of(&log), profile_of(&cut));
            for (whole, part) in whole.ranks.iter().zip(&part.ranks) {
                let allocated = |rank: &Rank| {
                    let curve = rank.pools[0].curve(CurveKind::Allocated).unwrap().value.clone();
                    (curve, rank.steps.len())
                };
                let ((all, steps), (last, last_steps)) = (allocated(whole), allocated(part));
                assert!(all.ends_with(&last[1..]), "{options:?}");
                assert!(last_steps < steps || steps == 0, "{last_steps} of {steps}, {options:?}");
            }
            assert_eq!((part.skipped_lines, part.warnings), (0, Vec::new()));
        }
    }
}

#[test]
fn what_comes_packed_is_cut_as_what_is_not() {
    let log = fs::read(corpus().join("two-graphs.log")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&log).unwrap();
    let without_title = |cut: Vec<u8>| lines(&cut)[1..].to_vec();
    let expected = without_title(cut(&log));
    for packed in [gzip.finish().unwrap(), zstd::encode_all(log.as_slice(), 0).unwrap()] {
        assert_eq!(without_title(cut(&packed)), expected);
        let mut alike = Vec::new();
        find(&packed, None).unwrap().write_alike(&mut alike, Path::new("alike.log")).unwrap();
        assert_eq!(alike[..2], packed[..2], "packed the same way");
        hold(&log, &alike, "packed again");
    }
}

#[test]
fn a_cut_out_says_what_it_is() {
    let log = fs::read(corpus().join("vae-decoder.log")).unwrap();
    let cut = lines(&cut(&log));
    let all = lines(&log).len();
    let begin =
        lines(&log).iter().rposition(|line| line.contains("Starting execution of program: main")).unwrap();
    assert!(cut[0].starts_with("ttmem | the last pass of "), "{}", cut[0]);
    assert!(cut[0].contains(&format!(": pass 2 of 2, lines {} to {all} of {all};", begin + 1)), "{}", cut[0]);
}

/// A profile is no log.
#[test]
fn only_logs_are_cut() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let profile = profile_of(&fs::read(corpus().join("trace.log")).unwrap());
    let mut writer = Writer::create(Vec::new(), "x.ttmem").unwrap();
    profile.replay(&mut writer).unwrap();
    fs::write(file.path(), writer.finish().unwrap()).unwrap();
    let error = LastPass::find(file.path().to_str().unwrap(), &Cutting::default()).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("only logs have passes"), "{error}");
    for (bytes, code) in [(&b""[..], 2), (b"hello\n", 2), (b"\x00\x01\x02", 2)] {
        assert_eq!(find(bytes, None).unwrap_err().exit_code(), code);
    }
}

/// The page asks for runs by their numbers, and for each there is a peak.
#[test]
fn the_runs_of_a_cut_out_are_those_of_its_pass() {
    for_any_log(8, 30, |log, _, case| {
        let profile = profile_of(&cut(log));
        for rank in &profile.ranks {
            let mut texts = Texts::new(&profile);
            let columns: Vec<Column> = Timeline::new(&profile, rank)
                .columns(&mut texts, |part: &mut Vec<Column>, column| part.push(column))
                .concat();
            let column = |name: &str| &columns.iter().find(|column| column.name == name).unwrap().values;
            let of_no_other = column("runs.parent").iter().filter(|parent| **parent == 0).count();
            assert_eq!(of_no_other, rank.top_level_runs().count(), "{case}");
            assert_eq!(of_no_other, column("pool.0.run_peak").len(), "{case}");
            assert_eq!(column("runs.number").first(), Some(&1), "{case}");
            let runs = column("runs.program").len() as u64;
            assert!(column("steps.run").iter().all(|run| *run <= runs), "{case}");
            assert_eq!(column("steps.run").len(), column("pool.0.effect").len(), "{case}");
        }
    });
}

/// What a cut-out says besides is in its profile, too.
#[test]
fn the_profile_of_a_cut_out_reads_back_equal() {
    for_any_log(9, 30, |log, _, case| {
        let profile = profile_of(&cut(log));
        let mut writer = Writer::create(Vec::new(), "cut.ttmem").unwrap();
        profile.replay(&mut writer).unwrap();
        assert!(profile_of(&writer.finish().unwrap()) == profile, "{case}");
    });
}

// Lines of ours that nobody of us wrote.

/// The lines of a cut-out's head, without their tags.
fn head_lines() -> Vec<String> {
    let log = made(Scenario::Passes { passes: 2 }, &Options { seed: 11, ..Options::default() });
    let head: Vec<String> =
        lines(&cut(&log)).into_iter().filter(|line| line.starts_with("ttmem | ")).collect();
    for words in ["const-eval", "pool", "carried over", "cached", "made from", "last pass"] {
        let start = format!("ttmem | {words}");
        assert!(head.iter().any(|line| line.starts_with(&start)), "no line of {words}");
    }
    head
}

#[test]
fn lines_that_are_not_as_we_write_them_are_counted_and_do_no_harm() {
    const ODD: [&str; 12] = [
        "ttmem | carried over: {}",
        "ttmem | carried over: {\"ssa\":3}",
        "ttmem | pool: {\"name\":\"DRAM\",\"banks\":99999999999,\"capacity\":0}",
        "ttmem | cached: {\"results\":[18446744073709551615]}",
        "ttmem | cached: {\"trace\":\"no operation\",\"results\":[]}",
        "ttmem | results: {\"tensors\":[4000000000]}",
        "ttmem | made from: {\"tensor\":4000000000,\"sources\":[4000000000]}",
        "ttmem | told before: {\"message\":7}",
        "ttmem | last pass: {\"pass\":-1,\"of\":0}",
        "ttmem | carried over: {\"ssa\":\"%1\",\"program\":\"main\",\"class\":\"weight\",\"type\":\"no type\",\"per_bank\":1,\"holders\":1}",
        "ttmem | carried over: [[[[[[[[[[",
        "ttmem | pool: {\"name\":",
    ];
    let log = lines(&fs::read(corpus().join("two-graphs.log")).unwrap());
    let expected = answer(&profile_of(log.join("\n").as_bytes()), RunFilter::All);
    for odd in ODD {
        let text = format!("{odd}\n{}", log.join("\n"));
        let profile = profile_of(text.as_bytes());
        // What is no line of ours at all is passed over.
        let counted = u64::from(odd.contains(": {"));
        assert_eq!(profile.skipped_lines, counted, "{odd}");
        assert_eq!(profile.warnings.len(), usize::from(counted > 0), "{odd}");
        assert_eq!(answer(&profile, RunFilter::All), expected, "{odd}");
    }
}

#[test]
fn lines_of_ours_where_they_do_not_belong_are_counted() {
    let head = head_lines();
    let log = lines(&fs::read(corpus().join("two-graphs.log")).unwrap());
    let expected = answer(&profile_of(log.join("\n").as_bytes()), RunFilter::All);
    let said = head.iter().filter(|line| line.contains(": {")).count() as u64;
    for at in [log.len() / 3, log.len() - 1, log.len()] {
        let text = [&log[..at], &head[..], &log[at..]].concat().join("\n");
        let profile = profile_of(text.as_bytes());
        assert_eq!(profile.skipped_lines, said, "at line {at}");
        assert_eq!(answer(&profile, RunFilter::All), expected, "at line {at}");
    }
}

/// Numbers of the head of a cut-out are changed at random: nothing panics, and nothing is allocated for them.
#[test]
fn a_head_with_other_numbers_is_read_or_counted() {
    let log = made(Scenario::Passes { passes: 2 }, &Options { seed: 11, ..Options::default() });
    let cut = lines(&cut(&log));
    let mut random = Random::new(9);
    for _ in 0..150 {
        let mut changed = cut.clone();
        for line in changed.iter_mut().filter(|line| line.starts_with("ttmem | ")) {
            if random.chance(20) {
                *line = with_another_number(line, &mut random);
            }
            if random.chance(3) {
                let words =
                    random.pick(&["", "ttmem | last pass: {\"pass\":1,\"of\":1}", "ttmem | pool: {}"]);
                *line = words.to_owned();
            }
        }
        let text = changed.join("\n");
        answer(&profile_of(text.as_bytes()), RunFilter::All);
        // It can be cut, too, whatever it says.
        cut_at(text.as_bytes(), None);
        cut_at(text.as_bytes(), Some(MARKER));
    }
}

fn with_another_number(line: &str, random: &mut Random) -> String {
    let numbers: Vec<(usize, &str)> = line.match_indices(|c: char| c.is_ascii_digit()).collect();
    let Some((at, _)) = (!numbers.is_empty()).then(|| random.pick(&numbers)) else { return line.to_owned() };
    let other =
        random.pick(&["0", "1", "7", "255", "4294967295", "18446744073709551615", "-3", "1e9", "null"]);
    format!("{}{other}{}", &line[..at], &line[at + 1..])
}
