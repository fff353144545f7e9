//! The last pass of a log: its lines, and its profile, which answers what the whole log answers for that pass.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;
use ttmem::model::{CurveKind, Moment, Profile, Rank};
use ttmem::query::timeline::{Column, Texts, Timeline};
use ttmem::query::{Request, RunFilter, summary};
use ttmem::read::{self, Cutting, LastPass};
use ttmem::record::frame::Writer;
use ttmem_testkit::random::Random;
use ttmem_testkit::sweep;
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

/// The lines of the last pass, and the number of passes.
fn cut_at(log: &[u8], marker: Option<&str>) -> (Vec<u8>, usize) {
    let mut pass = find(log, marker).unwrap();
    let mut cut = Vec::new();
    pass.write(&mut cut, Path::new("cut.log")).unwrap();
    (cut, pass.passes().map(|(_, of)| of).max().unwrap())
}

fn cut(log: &[u8]) -> Vec<u8> {
    cut_at(log, None).0
}

/// The profile of the last pass, as it is read back from its file.
fn profile_at(log: &[u8], marker: Option<&str>) -> Profile {
    let mut file = Vec::new();
    find(log, marker).unwrap().write_profile(&mut file, Path::new("pass.ttmem")).unwrap();
    profile_of(&file)
}

fn last_pass(log: &[u8]) -> Profile {
    profile_at(log, None)
}

/// What a summary says of each rank, without what must differ: the numbers of steps and runs, and which operations left
/// unexplained bytes behind before the pass.
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
    const DIFFERS: [&str; 14] = [
        "chosen_runs",
        "file",
        "step",
        "run",
        "peak_step",
        "caused_by_step",
        "born_step",
        "dies_step",
        "gone_before_step",
        "first_step",
        "last_step",
        // Only the whole log has the order in which earlier passes allocated.
        "survivors",
        "residue",
        "outside",
    ];
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !DIFFERS.contains(&name.as_str()));
            fields.values_mut().for_each(strip);
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
                for suggestion in suggestions(rank).iter_mut().filter(|found| found["pool"] == pool.as_str())
                {
                    for sentence in ["headline", "detail", "advice", "message"] {
                        suggestion[sentence].take();
                    }
                }
            }
        }
    }
}

fn suggestions(rank: &mut Value) -> &mut Vec<Value> {
    rank["suggestions"].as_array_mut().unwrap()
}

/// The shape and type that a proposal is about; `None` for one about all tensors.
fn tied_shape(proposal: &Value) -> Option<String> {
    let words: Vec<&str> = proposal["headline"].as_str().unwrap().split(' ').collect();
    let is_shape = |word: &str| word.split('x').all(|size| size.parse::<u64>().is_ok());
    let named = words.windows(2).find(|pair| is_shape(pair[0]) && pair[1].starts_with('('))?;
    Some(format!("{} {}", named[0], named[1].trim_end_matches(',')))
}

/// The operations that would need to change.
fn tied_operations(proposal: &Value) -> Vec<&str> {
    let words = proposal["advice"].as_str().unwrap_or_default().split([' ', ',']);
    words.filter(|word| word.starts_with("ttnn.")).collect()
}

/// Removes proposals of other shapes, and suggestions that are listed only because one of these is not: the list has a limit.
/// The profile of a pass makes no proposal for tensors that earlier passes used; what it proposes, the whole log does, too.
fn take_shapes(whole: &mut Value, part: &mut Value) {
    let is_shape = |suggestion: &mut Value| suggestion["rule"].as_str().unwrap().contains("padding_over_50");
    let [of_whole, of_part] =
        [&mut *whole, &mut *part].map(|rank| suggestions(rank).extract_if(.., is_shape).collect::<Vec<_>>());
    for proposal in &of_part {
        let Some(same) = of_whole.iter().find(|of_whole| tied_shape(of_whole) == tied_shape(proposal)) else {
            continue;
        };
        // Of fewer tensors, so that fewer operations may have to change, but no others.
        let (named, all) = (tied_operations(proposal), tied_operations(same));
        let is_short = same["advice"].as_str().is_some_and(|advice| advice.contains(" more operations"));
        assert!(is_short || named.iter().all(|op| all.contains(op)), "{proposal:#}\nbut {same:#}");
        let count = |proposal: &Value| proposal["tensor_count"].as_u64();
        assert!(
            count(proposal) < count(same) || is_short || named.len() == all.len(),
            "{proposal:#}\nbut {same:#}"
        );
    }
    // Combinations with such proposals differ as well.
    if !of_whole.is_empty() || !of_part.is_empty() {
        for rank in [&mut *whole, &mut *part] {
            rank["combinations"].take();
        }
    }
    if !of_whole.is_empty() {
        let left = suggestions(whole).len();
        suggestions(part).truncate(left);
    }
}

/// A sentence without the numbers of steps and runs, which differ.
fn without_steps(text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for index in 1..words.len() {
        let is_numbered = ["step", "steps", "to", "of", "run", "--run"];
        let number = words[index].trim_end_matches([',', '.', ':', ')']);
        if number.parse::<u64>().is_ok() && is_numbered.contains(&words[index - 1].to_lowercase().as_str()) {
            words[index] = words[index].replace(|letter: char| letter.is_ascii_digit(), "");
        }
    }
    words.join(" ")
}

/// Compares the profile of the last pass with that of the whole log.
#[track_caller]
fn compare(log: &[u8], part: &Profile, case: &str) {
    let whole = profile_of(log);
    let mut answers = (answer(&whole, RunFilter::Last), answer(part, RunFilter::All));
    leave_out_unseen(&mut answers.0, &mut answers.1);
    for (whole, part) in answers.0.as_array_mut().unwrap().iter_mut().zip(answers.1.as_array_mut().unwrap()) {
        take_shapes(whole, part);
        for rank in [&mut *whole, &mut *part] {
            if rank["oom"].is_object() {
                rank["oom"]["detail"].take();
            }
        }
        for suggestion in suggestions(whole).iter_mut().chain(suggestions(part)) {
            // Steps before the pass have no numbers in its profile.
            for named in ["step", "steps", "step_count"] {
                suggestion[named].take();
            }
            let is_unexplained = suggestion["rule"] == "unexplained";
            for named in ["headline", "detail", "advice", "message"] {
                // Which operations left it behind before the pass is unknown.
                if is_unexplained {
                    suggestion[named].take();
                } else if let Value::String(text) = &suggestion[named] {
                    suggestion[named] = Value::String(without_steps(text));
                }
            }
            // Those of equal size come in another order, and not all are listed.
            suggestion["tensors"].take();
        }
    }
    let mut found = Vec::new();
    differences("", &answers.0, &answers.1, &mut found);
    assert!(found.is_empty(), "{case}:\n  {}", found.join("\n  "));
    assert_eq!(part.skipped_lines, whole.skipped_lines, "{case}");
    assert_eq!(part.warnings, whole.warnings, "{case}");
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

/// Draws some logs and checks each.
fn for_any_log(seed: u64, cases: usize, mut check: impl FnMut(&[u8], &mut Random, &str)) {
    let mut random = Random::new(seed);
    for case in 0..sweep::cases(cases, cases * 100) {
        let (scenario, options) = draw(&mut random);
        check(&made(scenario, &options), &mut random, &format!("case {case}: {scenario:?} {options:?}"));
    }
}

#[test]
fn the_profile_of_the_pass_answers_as_the_whole_log_does_for_its_last_pass() {
    let (mut cases, mut shorter) = (0, 0);
    for_any_log(1, 30, |log, _, case| {
        let pass = last_pass(log);
        let is_cut = pass.ranks.iter().any(|rank| rank.cut_out.is_some());
        (cases, shorter) = (cases + 1, shorter + usize::from(is_cut));
        compare(log, &pass, case);
    });
    assert!(shorter * 2 > cases, "most logs have several passes: {shorter} of {cases}");
}

/// A log that ends anywhere, in a pass or between two, in the middle of a line or not.
#[test]
fn a_last_pass_that_was_cut_short_is_still_the_last_pass() {
    for_any_log(2, 20, |log, random, case| {
        let length = log.len() / 2 + random.index(log.len() / 2);
        let log = &log[..length];
        compare(log, &last_pass(log), &format!("{length} bytes of {case}"));
    });
}

/// One rank may have crashed passes ago: of each, its own last pass is kept.
#[test]
fn each_rank_has_a_last_pass_of_its_own() {
    let mut apart = 0;
    let mut random = Random::new(10);
    for case in 0..sweep::cases(12, 400) {
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
        let passes: Vec<usize> = find(&log, None).unwrap().passes().map(|(_, of)| of).collect();
        apart += usize::from(passes.iter().any(|of| *of != passes[0]));
        compare(&log, &last_pass(&log), &case);
    }
    assert!(apart > 4, "{apart}");
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
    for case in 0..sweep::cases(15, 600) {
        let (scenario, mut options) = draw(&mut random);
        (options.ranks, options.crlf) = (0, false);
        let mut log = made(scenario, &options);
        let somewhere = log.len() * 3 / 4 + random.index(log.len() / 4);
        let line = somewhere + log[somewhere..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
        log.truncate(line);
        log.extend(error_lines(&mut random, &options));
        let pass = last_pass(&log);
        errors += usize::from(!answer(&pass, RunFilter::All)[0]["oom"].is_null());
        compare(&log, &pass, &format!("case {case}: {scenario:?} {options:?}"));
    }
    assert!(errors > 10, "{errors} errors were answered");
}

/// An error of an earlier pass that somebody caught, and that pytest tells again when all is over.
#[test]
fn an_error_of_an_earlier_pass_is_not_new_when_it_is_told_again() {
    for seed in 0..sweep::cases(4, 100) {
        let options = Options { seed, ..Options::default() };
        let log = lines(&made(Scenario::Repeated { ops: 600 }, &options));
        let first =
            log.iter().position(|line| line.ends_with("Finished execution of program: main")).unwrap();
        let error = lines(&error_lines(&mut Random::new(seed), &options));
        // Instead of its end, the first run has the error; another begins behind it.
        let text = [&log[..first], &error[..], &log[first + 1..], &error[..]].concat().join("\n") + "\n";
        let (pass, passes) = (last_pass(text.as_bytes()), cut_at(text.as_bytes(), None).1);
        assert!(passes > 2, "{passes} passes, seed {seed}");
        let answered = answer(&pass, RunFilter::All);
        assert_eq!((&answered[0]["oom"], &answered[0]["faults"]), (&Value::Null, &Value::Array(Vec::new())));
        compare(text.as_bytes(), &pass, &format!("seed {seed}"));
    }
}

#[test]
fn the_corpus_is_cut_as_the_made_logs_are() {
    for name in ["vae-decoder", "llm-decode", "two-graphs", "submit-states", "oldest-layouts", "trace"] {
        let log = fs::read(corpus().join(format!("{name}.log"))).unwrap();
        compare(&log, &last_pass(&log), name);
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

/// The lines are those of the log, in their order: nothing is added, and the pass and all module dumps are complete.
#[test]
fn every_line_of_the_pass_stays_and_all_module_dumps() {
    for_any_log(5, 20, |log, _, case| {
        let (cut, passes) = cut_at(log, None);
        if passes == 1 {
            return;
        }
        let (whole, part) = (lines(log), lines(&cut));
        let mut rest = whole.iter();
        assert!(part.iter().all(|line| rest.any(|of_log| of_log == line)), "{case}");
        if !whole.iter().any(|line| line.starts_with("[1,")) {
            let (first, ..) = find(log, None).unwrap().lines();
            assert!(part.ends_with(&whole[usize::try_from(first).unwrap() - 1..]), "{case}");
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
        let cutting = Cutting { keep_texts: true, ..Cutting::default() };
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), log).unwrap();
        let pass = LastPass::find(file.path().to_str().unwrap(), &cutting).unwrap().profile().unwrap();
        assert_eq!(pass.texts.len(), texts(log).len(), "{case}");
    });
}

/// The peak of each rank, and what tensors explain of it, in bytes per bank.
fn peaks(profile: &Profile, run: RunFilter) -> Vec<(Value, Option<u64>, Option<u64>)> {
    let peak = |rank: &Value| {
        let bytes = |field: &str| rank["peak"][field].as_u64();
        (rank["rank"].clone(), bytes("allocated_per_bank"), bytes("explained_per_bank"))
    };
    answer(profile, run).as_array().unwrap().iter().map(peak).collect()
}

const BEGINS_INSIDE: &str = "the log does not include the start of the process";
const UNKNOWN_ARGUMENTS: &str =
    "the log does not show which arguments of its first program are on the device";

/// Without module dumps, memory of arguments that no operation uses does not show that a log begins late.
#[test]
fn a_log_without_module_dumps_may_lack_arguments() {
    let log = lines(&fs::read(corpus().join("llm-decode.log")).unwrap());
    let is_runtime = |line: &&String| line.contains("RuntimeTTNN") || line.contains(" Always");
    let log: Vec<String> = log.iter().filter(is_runtime).cloned().collect();
    let profile = profile_of(log.join("\n").as_bytes());
    let warned = |of: &str| profile.warnings.iter().filter(|warning| warning.message.starts_with(of)).count();
    assert_eq!((warned(BEGINS_INSIDE), warned(UNKNOWN_ARGUMENTS)), (0, 1), "{:?}", profile.warnings);
    let text = &profile.warnings[0].message;
    assert!(text.contains("11.343 MiB per bank of DRAM does not belong to any tensor"), "{text}");
    assert!(text.contains("arguments that no operation uses"), "{text}");
}

/// One lost line of a program does not make its results older than the log.
#[test]
fn results_of_a_program_in_the_log_were_not_cached_before_it() {
    for name in ["trace", "oldest-layouts"] {
        let log = lines(&fs::read(corpus().join(format!("{name}.log"))).unwrap());
        for lost in (0..log.len()).filter(|index| log[*index].contains("Executing operation: ")) {
            let mut rest = log.clone();
            rest.remove(lost);
            let profile = profile_of(rest.join("\n").as_bytes());
            let begins = profile.warnings.iter().find(|warning| warning.message.contains("cached result"));
            assert!(begins.is_none(), "{name} without line {}: {begins:?}", lost + 1);
        }
    }
}

/// The lines alone do not say what was allocated before them: a warning says so, or it is next to nothing.
#[test]
fn the_summary_of_the_lines_says_what_it_cannot_know() {
    const SMALL: u64 = 16 << 10;
    let (mut warned, mut exact) = (0, 0);
    for_any_log(11, 30, |log, _, case| {
        let (cut, passes) = cut_at(log, None);
        if passes == 1 {
            return;
        }
        let (whole, part) = (profile_of(log), profile_of(&cut));
        let is_warned = |profile: &Profile, of: &str| {
            profile.warnings.iter().any(|warning| warning.message.starts_with(of))
        };
        assert!(!is_warned(&whole, BEGINS_INSIDE), "{case}: {:?}", whole.warnings);
        if is_warned(&part, BEGINS_INSIDE) || is_warned(&part, UNKNOWN_ARGUMENTS) {
            warned += 1;
            return;
        }
        exact += 1;
        let pairs = peaks(&part, RunFilter::All).into_iter().zip(peaks(&whole, RunFilter::Last));
        for ((rank, peak, explained), (of, expected, all)) in pairs {
            assert_eq!((rank, peak), (of, expected), "{case}");
            let missing = all.unwrap_or(0).saturating_sub(explained.unwrap_or(0));
            assert!(missing <= SMALL, "{missing} bytes are missing, {case}");
        }
    });
    assert!(warned > 15, "{warned} warned, {exact} exact");
}

/// Logs that an earlier version cut have lines that are no longer read.
#[test]
fn lines_that_an_earlier_version_added_are_counted_and_reported() {
    const ADDED: [&str; 4] = [
        "ttmem | the last pass of a.log: pass 2 of 2, lines 9 to 20 of 20; cut out by ttmem last-run",
        "ttmem | pool: {\"name\":\"DRAM\",\"banks\":12,\"capacity\":0}",
        "ttmem | carried over: {\"ssa\":3}",
        "ttmem | last pass: {\"pass\":2,\"of\":2}",
    ];
    let log = lines(&fs::read(corpus().join("two-graphs.log")).unwrap());
    let expected = answer(&profile_of(log.join("\n").as_bytes()), RunFilter::All);
    for at in [0, log.len() / 3, log.len()] {
        let added: Vec<String> = ADDED.iter().map(|line| (*line).to_owned()).collect();
        let text = [&log[..at], &added[..], &log[at..]].concat().join("\n");
        let profile = profile_of(text.as_bytes());
        assert_eq!(profile.skipped_lines, 4, "at line {at}");
        let [warning] = &profile.warnings[..] else { panic!("{:?}", profile.warnings) };
        assert_eq!(warning.line, Some(at as u64 + 1));
        assert!(warning.message.contains("4 lines that it added were skipped"), "{}", warning.message);
        assert_eq!(answer(&profile, RunFilter::All), expected, "at line {at}");
    }
}

/// Up to 0.1.0, a cut began with copies of the const-eval programs of earlier passes.
#[test]
fn const_eval_programs_that_an_earlier_version_copied_are_not_runs_of_the_pass() {
    let log = fs::read(corpus().join("vae-decoder.log")).unwrap();
    let whole = lines(&log);
    let mut copies = vec!["ttmem | the last pass of a.log: cut out by ttmem last-run".to_owned()];
    let mut is_const_eval = false;
    for line in &whole {
        if line.contains("Starting execution of program: main_const_eval_") {
            is_const_eval = true;
            copies.push("ttmem | const-eval of an earlier pass: {}".to_owned());
        }
        let is_state = line.contains(" memory state");
        copies.extend((is_const_eval && !is_state && line.contains("RuntimeTTNN")).then(|| line.clone()));
        is_const_eval &= !line.contains("Finished execution of program: main_const_eval_");
    }
    copies.push("ttmem | last pass: {\"pass\":2,\"of\":2}".to_owned());
    let plain = cut(&log);
    let pass = lines(&plain);
    let begin = pass.iter().position(|line| line.contains("Starting execution of program: main")).unwrap();
    let text = [&pass[..begin], &copies[..], &pass[begin..]].concat().join("\n") + "\n";
    let (profile, expected) = (profile_of(text.as_bytes()), profile_of(&plain));
    let size = |profile: &Profile| (profile.ranks[0].runs.len(), profile.ranks[0].steps.len());
    assert_eq!(size(&profile), (1, 80));
    assert_eq!(size(&expected), (1, 80));
    assert_eq!(answer(&profile, RunFilter::All), answer(&expected, RunFilter::All));
    assert_eq!(profile.skipped_lines, copies.len() as u64);
    let is_of_it = |message: &str| message.starts_with("`ttmem last-run` 0.1.0 or earlier cut this log");
    assert!(profile.warnings.iter().any(|warning| is_of_it(&warning.message)), "{:?}", profile.warnings);
}

/// A line that is too long to be understood is copied all the same.
#[test]
fn lines_of_any_length_are_copied() {
    let log = fs::read(corpus().join("trace.log")).unwrap();
    let of_log = lines(&log);
    let (first, ..) = find(&log, None).unwrap().lines();
    let first = usize::try_from(first).unwrap();
    let filled = |byte: &str| byte.repeat((33 << 20) + 7);
    let mut longer = of_log.clone();
    longer.insert(first + 1, filled("b"));
    // One before the pass, which is left out, and one at the end, without a line break.
    longer.insert(2, filled("a"));
    let text = [longer.join("\r\n"), "\r\n".to_owned(), filled("c")].concat();
    let (cut, _) = cut_at(text.as_bytes(), None);
    let at = text.match_indices("\r\n").nth(first - 1).unwrap().0 + 2;
    assert!(text.as_bytes()[at..] == cut, "{} of {} bytes", cut.len(), text.len() - at);
}

/// Where a marker ends each pass, it cuts where the programs repeat.
#[test]
fn a_marker_ends_a_pass() {
    let mut random = Random::new(7);
    let mut compared = 0;
    for case in 0..sweep::cases(20, 800) {
        let (_, options) = draw(&mut random);
        let options = Options { noise: 0, ..options };
        let scenario = random.pick(&[Scenario::Vae, Scenario::Passes { passes: 3 }]);
        let log = made(scenario, &options);
        let (by_programs, passes) = (last_pass(&log), cut_at(&log, None).1);
        let (by_marker, marked) = (profile_at(&log, Some(MARKER)), cut_at(&log, Some(MARKER)).1);
        let case = format!("case {case}: {scenario:?} {options:?}");
        assert_eq!(marked, if scenario == Scenario::Vae { 2 } else { 3 }, "{case}");
        // A pass of one graph run twice is two passes to whoever looks at programs only.
        if passes == marked {
            compared += 1;
            compare(&log, &by_marker, &case);
            assert_eq!(answer(&by_programs, RunFilter::All), answer(&by_marker, RunFilter::All), "{case}");
        }
    }
    assert!(compared > 10, "{compared}");
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
    assert_eq!(cut_at(crashed, Some(MARKER)).1, 2);
    compare(crashed, &profile_at(crashed, Some(MARKER)), "the second pass without its end");
    // A marker that nobody printed.
    let error = find(&log, Some("no such text")).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("no line contains"), "{error}");
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
            // The states of the pass are the last ones of the log. Without operations, nothing assigns them to it.
            let (whole, part) = (profile_of(&log), profile_of(&cut));
            let pass = find(&log, Some(MARKER)).unwrap().profile();
            if whole.ranks.iter().any(|rank| rank.steps.is_empty()) {
                assert!(pass.unwrap_err().to_string().contains("memory states without operations"));
            } else {
                let peaks = |profile| peaks(profile, RunFilter::All);
                assert_eq!(peaks(&pass.unwrap()), peaks(&part), "{options:?}");
            }
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
    let expected = cut(&log);
    for packed in [gzip.finish().unwrap(), zstd::encode_all(log.as_slice(), 0).unwrap()] {
        assert_eq!(cut(&packed), expected);
        let mut alike = Vec::new();
        find(&packed, None).unwrap().write_alike(&mut alike, Path::new("alike.log")).unwrap();
        assert_eq!(alike[..2], packed[..2], "packed the same way");
        assert_eq!(
            answer(&profile_of(&alike), RunFilter::All),
            answer(&profile_of(&expected), RunFilter::All)
        );
        compare(&log, &last_pass(&packed), "packed");
    }
}

#[test]
fn the_lines_of_the_pass_are_known() {
    let log = fs::read(corpus().join("vae-decoder.log")).unwrap();
    let all = lines(&log).len() as u64;
    let begin =
        lines(&log).iter().rposition(|line| line.contains("Starting execution of program: main")).unwrap();
    assert_eq!(find(&log, None).unwrap().lines(), (begin as u64 + 1, all, all));
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
    assert!(error.to_string().contains("not a log but "), "{error}");
    for (bytes, code) in [(&b""[..], 2), (b"hello\n", 2), (b"\x00\x01\x02", 2)] {
        assert_eq!(find(bytes, None).unwrap_err().exit_code(), code);
    }
}

/// The page asks for runs by their numbers, and for each there is a peak.
#[test]
fn the_runs_of_a_cut_out_are_those_of_its_pass() {
    for_any_log(8, 15, |log, _, case| {
        let profile = last_pass(log);
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

#[test]
fn the_profile_of_a_cut_out_reads_back_equal() {
    for_any_log(9, 15, |log, _, case| {
        let pass = find(log, None).unwrap();
        let mut file = Vec::new();
        pass.write_profile(&mut file, Path::new("pass.ttmem")).unwrap();
        assert!(profile_of(&file) == pass.profile().unwrap(), "{case}");
    });
}

/// A tensor from before the pass has the operation that made it, and no step.
#[test]
fn tensors_from_before_the_pass_are_carried_over() {
    let log = fs::read(corpus().join("two-graphs.log")).unwrap();
    let (whole, pass) = (profile_of(&log), last_pass(&log));
    let rank = &pass.ranks[0];
    assert_eq!(rank.cut_out.map(|cut_out| (cut_out.pass, cut_out.of, cut_out.first)), Some((3, 3, 0)));
    assert!(rank.steps.len() * 3 <= whole.ranks[0].steps.len());
    assert!(rank.carried.len() > 10, "{}", rank.carried.len());
    for &tensor in &rank.carried.tensor {
        assert_eq!(rank.tensors.born[tensor.index()], Moment::START);
        assert_eq!((rank.tensors.run[tensor.index()], rank.tensors.step[tensor.index()]), (None, None));
        assert!(pass.made(rank, tensor).program.is_some());
    }
}
