//! `ttmem check`: limits from flags and `ttmem.toml`, outputs and exit codes.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").canonicalize().unwrap()
}

/// The output on both streams of a call in a folder that must exit with this code.
fn said_in(folder: &Path, args: &[&str], code: i32) -> (String, String) {
    let mut command = Command::cargo_bin("ttmem").unwrap();
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").env_remove("GITHUB_WORKSPACE");
    let output = command
        .current_dir(folder)
        .args(["check", "--quiet"])
        .args(args)
        .assert()
        .code(code)
        .get_output()
        .clone();
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn said(args: &[&str], code: i32) -> (String, String) {
    said_in(&corpus(), args, code)
}

/// The limits of the first rank.
fn limits(args: &[&str], code: i32) -> Vec<Value> {
    let (text, _) = said(&[args, &["--json"]].concat(), code);
    let answer: Value = serde_json::from_str(&text).unwrap();
    answer["ranks"][0]["limits"].as_array().unwrap().clone()
}

/// The result and the message of the only limit.
fn one(file: &str, limit: &str, code: i32) -> (String, String) {
    let limits = limits(&[file, "--limit", limit], code);
    assert_eq!(limits.len(), 1, "{limits:?}");
    let text = |name: &str| limits[0][name].as_str().unwrap().to_owned();
    (text("result"), text("message"))
}

const VAE: &str = "tt_log/vae-decoder.log";
const GROWS: &str = "guides/grows.ttmem";
const SNAPSHOT: &str = "torch_snapshot/train_gpt2_30m.pickle.gz";

#[test]
fn the_screen_shows_what_holds_the_memory() {
    let args =
        [VAE, "--limit", "DRAM=10%", "-l", "headroom.L1=32KiB", "-l", "padding=200%", "--max", "dram=1GiB"];
    let (screen, errors) = said(&args, 1);
    assert_eq!(errors, "");
    insta::assert_snapshot!("check-dram", screen);
    let (markdown, _) = said(&[&args[..], &["--markdown"]].concat(), 1);
    assert!(markdown.len() < 3000, "{markdown}");
    insta::assert_snapshot!("check-dram-markdown", markdown);
}

/// The results agree with the numbers of the summary: one byte decides.
#[test]
fn the_peak_is_the_one_of_the_summary() {
    for (file, pool) in
        [(VAE, "DRAM"), (GROWS, "cuda:0"), (SNAPSHOT, "cuda:0"), ("tt_log/llm-decode.log", "L1")]
    {
        let mut summary = Command::cargo_bin("ttmem").unwrap();
        let output = summary.current_dir(corpus()).args(["summary", "--json", file]).output().unwrap();
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let peak = summary["ranks"][0]["pools"][pool]["peak_per_bank"].as_u64().unwrap();
        assert_eq!(one(file, &format!("{pool}={peak}"), 0).0, "passed", "{file}");
        assert_eq!(one(file, &format!("{pool}={}", peak - 1), 1).0, "failed", "{file}");
    }
}

#[test]
fn a_limit_of_each_kind_can_be_exceeded() {
    for (file, limit, words) in [
        (VAE, "DRAM=0", "686.4 MiB more than the limit of 0 B"),
        (VAE, "headroom.DRAM=100%", "less than the limit of 3.98 GiB (100%)"),
        (VAE, "padding=98%", "98.5% of the size without padding"),
        ("guides/softmax-estimate.json", "headroom.L1=0", "The lowest headroom of L1 is at most −"),
        ("guides/softmax.json", "headroom.L1=32KiB", "Out of L1"),
        ("guides/softmax.json", "L1=100%", "Out of L1"),
        (GROWS, "growth-per-step=1MiB", "Each step of AdamW.step adds 1.00 GiB to cuda:0"),
        (GROWS, "cuda=40GiB", "The peak of cuda:0 is 52.38 GiB"),
        ("guides/phases-grow.log", "growth-per-step=249MiB", "adds 250.0 MiB to DRAM"),
        ("tt_train/tinyllama.log", "DRAM=100%", "The peak of DRAM in tinyllama (default) is 15.30 GiB"),
        ("tt_train/tinyllama.log", "headroom.DRAM=0", "−3.30 GiB"),
        (
            "tt_train/tinyllama.log",
            "phases.FORWARD_PASS=15GiB",
            "The peak during phase FORWARD_PASS is 15.23 GiB",
        ),
        ("cuda_oom/train.log", "cuda:0=100%", "cuda:0 is full"),
        ("cuda_oom/train.log", "headroom.cuda:0=0", "cuda:0 is full"),
        ("tt_metal_log/dram.log", "DRAM=100%", "DRAM is full"),
        ("ttnn_graph/sample-p150.json", "L1_SMALL=447", "448 B per core"),
        ("ttrt_memory/memory_results.json", "DRAM=0", "more than the limit"),
    ] {
        let (result, message) = one(file, limit, 1);
        assert_eq!(result, "failed", "{file} {limit}: {message}");
        assert!(message.contains(words), "{file} {limit}: {message}");
    }
}

#[test]
fn limits_hold() {
    for (file, limit) in [
        (VAE, "DRAM=17%"),
        (VAE, "headroom.L1=1MiB"),
        (VAE, "padding=99%"),
        (VAE, "unexplained=0"),
        ("guides/flat.ttmem", "growth-per-step=0"),
        ("guides/phases-flat.log", "growth-per-step=0"),
        ("guides/flat.ttmem", "headroom.cuda:0=100GiB"),
        ("tt_train/tinyllama.log", "phases.MODEL_CREATION=16%"),
        ("ttnn_graph/sample-p150.json", "headroom.L1=1MiB"),
        (GROWS, "cpu=400MiB"),
    ] {
        assert_eq!(one(file, limit, 0).0, "passed", "{file} {limit}");
    }
}

/// What is unknown does not pass, and the exit code is that of a wrong call.
#[test]
fn an_unknown_value_is_not_a_success() {
    for (file, limit, words) in [
        (
            VAE,
            "dram=80%",
            "There is no pool dram: the input has DRAM, L1, L1_SMALL, TRACE. Did you mean DRAM?",
        ),
        (VAE, "paddin=80%", "Did you mean padding?"),
        (VAE, "cuda:0=1GiB", "There is no pool cuda:0"),
        (VAE, "phases.FORWARD=1GiB", "There is no phase FORWARD: the input has no phases."),
        (VAE, "growth-per-step=1MiB", "at least six iterations"),
        ("tt_train/tinyllama.log", "phases.forward=1GiB", "Did you mean FORWARD_PASS?"),
        ("tt_train/tinyllama.log", "padding=1GiB", "padding at the peak is unknown"),
        (SNAPSHOT, "cuda:0=80%", "the capacity that the percentage refers to is unknown"),
        (SNAPSHOT, "headroom.cuda:0=1GiB", "does not have the capacity of cuda:0"),
        (GROWS, "padding=5%", "padding at the peak is unknown"),
        (GROWS, "cpu=50%", "the capacity that the percentage refers to is unknown"),
        ("cuda_oom/train.log", "growth-per-step=1MiB", "at least six iterations"),
        ("cuda_oom/train.log", "unexplained=5%", "no peak"),
        ("cuda_oom/train.log", "cuda:1=5GiB", "There is no pool cuda:1: the input has cuda:0."),
        ("ttnn_graph/sample-p150.json", "L1=90%", "use a size, such as L1=1MiB"),
    ] {
        let (result, message) = one(file, limit, 2);
        assert_eq!(result, "unknown", "{file} {limit}: {message}");
        assert!(message.contains(words), "{file} {limit}: {message}");
    }
    // One that is exceeded is more important.
    said(&[VAE, "-l", "DRAM=1%", "-l", "dram=1%"], 1);
}

/// A peak of which only a lower bound is known can pass, but not silently.
#[test]
fn a_lower_bound_is_said_to_be_one() {
    let limits = limits(&["ttnn_graph/sample-p150.json", "-l", "L1=1MiB"], 0);
    assert_eq!((&limits[0]["result"], &limits[0]["is_bound"]), (&"passed".into(), &true.into()));
    let (screen, _) = said(&["ttnn_graph/sample-p150.json", "-l", "L1=1MiB"], 0);
    assert!(screen.contains("The true value may be"), "{screen}");
}

#[test]
fn wrong_limits_are_wrong_usage() {
    for (limit, words) in [
        ("DRAM", "expected a name and a value, such as DRAM=80%"),
        ("DRAM=", "start with a number"),
        ("=80%", "expected the name of a pool"),
        ("DRAM=101%", "expected a percentage from 0% to 100%"),
        ("DRAM=-1MiB", "a size cannot be negative"),
        ("DRAM=1e400", "unknown unit"),
        ("DRAM=1e400%", "not a percentage"),
        ("growth-per-step=5%", "expected a size"),
        ("headroom=1MiB", "such as headroom.L1"),
    ] {
        let (out, errors) = said(&[VAE, "--limit", limit], 2);
        assert_eq!(out, "");
        assert!(errors.contains(words), "{limit}: {errors}");
    }
    let (_, errors) = said(&[VAE, "-l", "DRAM=1", "-l", "DRAM=2"], 2);
    assert!(errors.contains("limited twice"), "{errors}");
    let (_, errors) = said(&[VAE], 2);
    assert!(
        errors.contains("no limits: ttmem.toml does not exist; pass one, such as `--limit DRAM=80%`"),
        "{errors}"
    );
    let (_, errors) = said(&[VAE, "--config", "missing.toml"], 2);
    assert!(errors.contains("missing.toml: no such file"), "{errors}");
    said(&["tt_log", "-l", "DRAM=1"], 2);
    said(&["missing.log", "-l", "DRAM=1"], 2);
    said(&["/dev/null", "-l", "DRAM=1"], 2);
    said(&["-", "-l", "DRAM=1", "--baseline", "-"], 2);
}

#[test]
fn limits_are_read_from_the_working_directory() {
    let folder = tempfile::tempdir().unwrap();
    let log = corpus().join(VAE);
    let log = log.to_str().unwrap();
    let toml = |text: &str| fs::write(folder.path().join("ttmem.toml"), text).unwrap();
    toml("# limits\n[check]\nDRAM = \"10%\"\n\"L1\" = 1000000\n[check.headroom]\nL1 = '32KiB'\n");
    let (screen, _) = said_in(folder.path(), &[log], 1);
    assert!(screen.contains("1 of 3 limits is exceeded."), "{screen}");
    // Flags win, and another file can be used.
    let (screen, _) = said_in(folder.path(), &[log, "--limit", "DRAM=80%"], 0);
    assert!(screen.contains("All 3 limits hold."), "{screen}");
    let (screen, _) = said_in(folder.path(), &[log, "-l", "DRAM=80%", "--config", "/dev/null"], 0);
    assert!(screen.contains("The limit holds."), "{screen}");
    toml("[check]\nDRAMM = \"10%\"\n");
    let (screen, _) = said_in(folder.path(), &[log], 2);
    assert!(screen.contains("DRAMM (ttmem.toml, line 2): There is no pool DRAMM"), "{screen}");
    let many: Vec<String> = (0..80_000).map(|row| format!("p{row} = 1")).collect();
    for (text, words) in [
        ("[check]\nDRAM = \"101%\"", "ttmem.toml, line 2: more than 100%"),
        ("[check]\nDRAM = 0.8", "ttmem.toml, line 2: DRAM is 0.8; expected a size or a percentage in quotes"),
        ("[check]\nDRAM = 1\nDRAM = 2", "ttmem.toml, line 3: invalid TOML (duplicate key"),
        ("[check]\ncuda:0 = 1", "put names with a colon in quotes"),
        ("[check.limits]\nDRAM = 1", "expected headroom.POOL or phases.NAME"),
        ("[check]\nDRAM = -5", "ttmem.toml, line 2: a size cannot be negative"),
        ("[check]", "the table [check] in ttmem.toml is empty"),
        ("[ttmem]", "ttmem.toml has no table [check]"),
        ("[check", "invalid TOML"),
        (&many.join("\n"), "has no table [check]"),
        (&"#".repeat(2 << 20), "too large for a configuration file"),
    ] {
        toml(text);
        let (out, errors) = said_in(folder.path(), &[log], 2);
        assert_eq!(out, "");
        assert!(errors.contains(words), "{text:.40}: {errors}");
    }
}

#[test]
fn a_baseline_limits_growth() {
    let flat = "guides/flat.ttmem";
    let growth = |args: &[&str], code| {
        let limits = limits(args, code);
        let cuda = limits.iter().find(|limit| limit["name"] == "baseline.cuda:0").unwrap().clone();
        assert!(limits.iter().all(|limit| limit["pool"] != "host"), "sampled pools do not count");
        cuda
    };
    let failed = growth(&[GROWS, "--baseline", flat, "--fail-over", "5%"], 1);
    assert_eq!(
        failed["message"],
        "The peak of cuda:0 grew by 29.00 GiB (124.0%), from 23.38 GiB to 52.38 GiB, more than the limit of 5%."
    );
    assert_eq!(failed["held"][0]["what"], "29 × (in head)");
    let any = growth(&[GROWS, "--baseline", flat], 1);
    assert_eq!(
        any["message"],
        "The peak of cuda:0 grew by 29.00 GiB (124.0%), from 23.38 GiB to 52.38 GiB; no growth is allowed."
    );
    let (screen, _) = said(&[GROWS, "--baseline", flat], 1);
    assert!(screen.contains("baseline.cuda:0  no growth  +29.00 GiB  exceeded"), "{screen}");
    assert!(screen.contains("baseline.cpu     no growth  0 B         ok"), "{screen}");
    let (screen, _) = said(&[GROWS, "--limit", "growth-per-step=0"], 1);
    assert!(screen.contains("growth-per-step  no growth  +1.00 GiB  exceeded"), "{screen}");
    growth(&[GROWS, "--baseline", flat, "--fail-over", "29GiB"], 0);
    growth(&[GROWS, "--baseline", GROWS], 0);
    let shrunk = growth(&[flat, "--baseline", GROWS], 0);
    assert!(shrunk["measured_bytes"].as_i64().unwrap() < 0);
    let (_, errors) = said(&[flat, GROWS, "--baseline", flat], 2);
    assert!(errors.contains("a baseline is compared with one file"), "{errors}");
    let (_, errors) = said(&[VAE, "--baseline", flat], 2);
    assert!(errors.contains("cannot compare"), "{errors}");
    let (_, errors) = said(&[VAE, "-l", "DRAM=1", "--fail-over", "5%"], 2);
    assert!(errors.contains("--baseline"), "{errors}");
}

/// An error exceeds the limit, even if the peak before it was lower, and a comparison of nothing is not a success.
#[test]
fn a_baseline_is_not_only_about_peaks() {
    let [fits, fails] = ["guides/fragmentation-ordered.log", "tt_log/oom-fragmentation.log"];
    let failed = limits(&[fails, "--baseline", fits, "--fail-over", "5%"], 1);
    assert_eq!((&failed[0]["name"], &failed[0]["result"]), (&"baseline.DRAM".into(), &"failed".into()));
    assert_eq!(
        failed[0]["message"],
        "The program runs out of memory in DRAM, and the baseline does not. The peak before the error shrank by 37.5 MiB \
         per bank (3.8%), from 985.0 MiB to 947.5 MiB; the limit is 5%."
    );
    let same = limits(&[fails, "--baseline", fails], 1);
    assert!(
        same[0]["message"]
            .as_str()
            .unwrap()
            .starts_with("The program runs out of memory in DRAM, as the baseline does.")
    );
    said(&[fits, "--baseline", fails], 1);
    let phases = limits(&["guides/phases-grow.log", "--baseline", "guides/phases-flat.log"], 1);
    assert_eq!(
        (&phases[0]["name"], &phases[0]["measured_bytes"]),
        (&"baseline.DRAM".into(), &(750 << 20).into())
    );
    let other = limits(&["tt_train/tinyllama.log", "--baseline", "guides/phases-flat.log"], 2);
    assert_eq!((&other[0]["name"], &other[0]["result"]), (&"baseline".into(), &"unknown".into()));
    let sampled = ["memory_profile/threads.json", "--baseline", "memory_profile/server.json"];
    let sampled = limits(&sampled, 1);
    assert_eq!((&sampled[0]["name"], &sampled[0]["result"]), (&"baseline.cpu".into(), &"failed".into()));
    // Pools that neither input uses have no row.
    let (out, _) = said(&[VAE, "--baseline", VAE, "--json"], 0);
    let answer: Value = serde_json::from_str(&out).unwrap();
    for limit in answer["ranks"][0]["limits"].as_array().unwrap() {
        assert!(!limit["message"].as_str().unwrap().contains("did not change: 0 B"), "{limit}");
    }
}

/// The worst rank is first, and a limit of a pool that only some ranks have applies only to them.
#[test]
fn every_rank_is_checked() {
    let (text, _) = said(&[VAE, "tt_log/llm-decode.log", "-l", "DRAM=100MiB", "--json"], 1);
    let answer: Value = serde_json::from_str(&text).unwrap();
    let results: Vec<&Value> =
        answer["ranks"].as_array().unwrap().iter().map(|rank| &rank["result"]).collect();
    assert_eq!(results, ["failed", "passed"]);
    assert_eq!(
        (&answer["result"], &answer["failed"], &answer["passed"]),
        (&"failed".into(), &1.into(), &1.into())
    );
    let (text, _) = said(&[VAE, GROWS, "-l", "DRAM=100%", "-l", "cuda:0=1GiB", "--json"], 1);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["ranks"][0]["file"], GROWS);
    assert_eq!(answer["ranks"][0]["limits"].as_array().unwrap().len(), 1);
    assert_eq!(answer["unknown"], 0);
    let (text, _) = said(&["tt_log/two-ranks-info-only.log", "-l", "DRAM=100%", "--json"], 0);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["ranks"].as_array().unwrap().len(), 2);
    // A file that cannot be read does not hide the others.
    let (out, errors) = said(&[VAE, "missing.log", "-l", "DRAM=100%"], 2);
    assert!(out.contains("The limit holds.") && errors.contains("missing.log"), "{out}{errors}");
}

#[test]
fn a_device_wins_over_its_kind() {
    let limits = limits(&[GROWS, "-l", "cuda=1GiB", "-l", "cuda:0=60GiB"], 0);
    assert_eq!(limits.len(), 1);
}

#[test]
fn annotations_name_the_source_line() {
    let (out, _) = said_in(
        &corpus().join("guides"),
        &["softmax.json", "-l", "headroom.L1=32KiB", "-l", "DRAM=1%", "--github"],
        1,
    );
    let commands: Vec<&str> = out.lines().filter(|line| line.trim_start().starts_with("::")).collect();
    // Commands in the text are ignored.
    assert_eq!(commands.len(), 3, "{out}");
    assert!(commands[0].starts_with("::stop-commands::"), "{out}");
    assert!(
        commands[2].starts_with(
            "::error file=softmax.py,line=26,title=Memory limit headroom.L1::headroom.L1: Out of"
        ),
        "{out}"
    );
    let (out, _) = said(&[GROWS, "-l", "cuda:0=40GiB", "--github"], 1);
    assert!(
        out.contains(
            "\n::error title=Memory limit cuda%3A0::cuda:0: The peak of cuda:0 is 52.38 GiB (37.5%25)"
        ),
        "{out}"
    );
    let mut command = Command::cargo_bin("ttmem").unwrap();
    command.current_dir(corpus()).env("GITHUB_WORKSPACE", "/srv/train");
    let args = ["check", "--quiet", GROWS, "-l", "cuda:0=40GiB", "--github"];
    let output = command.args(args).assert().code(1).get_output().stdout.clone();
    let out = String::from_utf8(output).unwrap();
    assert!(out.contains("\n::error file=train.py,line=43,title="), "{out}");
    said(&[VAE, "-l", "DRAM=1%", "--github", "--json"], 2);
}

#[test]
fn results_are_written_for_junit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.xml");
    let file = path.to_str().unwrap();
    let args = [VAE, "-l", "DRAM=1%", "-l", "L1=90%", "-l", "padd=1%", "--junit", file];
    said(&args, 1);
    insta::assert_snapshot!("check-junit", fs::read_to_string(&path).unwrap());
    // Its own file is replaced, another one is not.
    said(&args, 1);
    fs::write(&path, "<testsuites/>").unwrap();
    let (_, errors) = said(&args, 2);
    assert!(errors.contains("use --force to replace it"), "{errors}");
    said(&[&args[..], &["--force"]].concat(), 1);
}

#[test]
fn unreadable_files_are_in_every_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.xml");
    let args = [VAE, "tt_log/malformed/not-a-log.txt", "-l", "DRAM=50%"];
    let (out, _) = said(&[&args[..], &["--junit", path.to_str().unwrap(), "--github"]].concat(), 2);
    assert!(out.contains("The limit holds. 1 file could not be read."), "{out}");
    assert!(out.contains("\n::error title=Memory limits of tt_log/malformed/not-a-log.txt::"), "{out}");
    insta::assert_snapshot!("check-junit-unreadable", fs::read_to_string(&path).unwrap());
    let (markdown, _) = said(&[&args[..], &["--markdown"]].concat(), 2);
    assert!(markdown.contains("not-a-log.txt: "), "{markdown}");
    let (json, _) = said(&[&args[..], &["--json"]].concat(), 2);
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&answer["result"], answer["passed"].as_u64()), (&"unknown".into(), Some(1)));
    assert_eq!(answer["unreadable"][0]["file"], "tt_log/malformed/not-a-log.txt");
}

/// CI shows the file as an error, not as a missing report.
#[test]
fn results_are_written_if_no_file_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.xml");
    let junit = ["-l", "DRAM=50%", "--junit", path.to_str().unwrap()];
    let (broken, missing) = ("tt_log/malformed/not-a-log.txt", "missing.log");
    for files in [&[broken][..], &[missing], &[missing, broken]] {
        let (out, errors) = said(&[files, &junit].concat(), 2);
        let count = files.len();
        let read = if count == 1 { "1 file" } else { "2 files" };
        assert_eq!(out.trim(), format!("{read} could not be read."));
        let xml = fs::read_to_string(&path).unwrap();
        assert!(xml.contains(&format!("tests=\"{count}\" failures=\"0\" errors=\"{count}\">")), "{xml}");
        assert_eq!(xml.matches("<error type=\"unreadable\"").count(), count, "{xml}");
        for file in files {
            assert!(errors.contains(file), "{errors}");
            assert!(xml.contains(&format!("<testsuite name=\"{file}\"")), "{xml}");
        }
    }
    let (json, _) = said(&[missing, "-l", "DRAM=50%", "--json"], 2);
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&answer["result"], &answer["unreadable"][0]["file"]), (&"unknown".into(), &missing.into()));
    assert_eq!(answer["ranks"], Value::Array(Vec::new()));
}
