//! `ttmem summary`: streams, exit codes, options, the screen.

#[cfg(unix)]
mod terminal;

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log").join(name)
}

fn ttmem() -> Command {
    let mut command = Command::cargo_bin("ttmem").unwrap();
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

/// Standard output of a run that must succeed.
fn stdout(args: &[&str]) -> String {
    let output = ttmem().args(args).assert().success().get_output().clone();
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(args)).unwrap()
}

fn path(name: &str) -> String {
    corpus(name).display().to_string()
}

/// The output for a log of the corpus, run in its folder so that the output has no path.
fn screen(args: &[&str]) -> String {
    let output = ttmem().current_dir(corpus("")).args(args).assert().success().get_output().clone();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_screen_of_a_run() {
    insta::assert_snapshot!("vae-decoder", screen(&["summary", "vae-decoder.log"]));
}

/// Memory that grows has a section on the screen and in Markdown, with the sentences of `--json`.
#[test]
fn growth_is_a_section() {
    let file = |name: &str| path(&format!("../guides/{name}"));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let grows = file("grows.ttmem");
    let growth = json(&["summary", "--json", &grows])["ranks"][0]["growth"].clone();
    assert_eq!(growth["title"], "Growth of cuda:0: 1.00 GiB with every training step");
    assert_eq!(growth["notes"].as_array().unwrap().len(), 3, "{growth}");
    for shown in [stdout(&["summary", &grows]), stdout(&["summary", "--markdown", &grows])] {
        let shown = words(&shown);
        let sentences = growth["notes"].as_array().unwrap().iter().chain([&growth["title"]]);
        for sentence in sentences.map(|sentence| sentence.as_str().unwrap()) {
            assert!(shown.contains(sentence), "{sentence}: {shown}");
        }
        assert!(shown.contains("/srv/train/train.py:43"), "{shown}");
    }
    let flat = file("flat.ttmem");
    let screen = words(&stdout(&["summary", &flat]));
    assert!(screen.contains("cuda:0 does not grow over 30 steps."), "{screen}");
    assert!(!screen.contains("Growth of"), "{screen}");
    assert!(!stdout(&["summary", "--markdown", &flat]).contains("## Growth"));
    // A moment, or a selection of allocations, is about something else.
    for options in [["--at", "100"], ["--where", "size > 1MiB"]] {
        let screen = stdout(&[&["summary", &grows][..], &options[..]].concat());
        assert!(!screen.contains("Growth of"), "{screen}");
    }
}

#[test]
fn the_screen_of_an_error() {
    insta::assert_snapshot!("oom-fragmentation", screen(&["summary", "oom-fragmentation.log", "--top", "4"]));
}

#[test]
fn the_screen_of_ranks_without_tensors() {
    insta::assert_snapshot!("two-ranks-info-only", screen(&["summary", "two-ranks-info-only.log"]));
}

#[test]
fn the_screens_of_errors_of_a_gpu() {
    for name in ["train", "other-process", "vllm", "vllm-start", "ray", "jax"] {
        insta::assert_snapshot!(format!("cuda-oom-{name}"), screen(&[&format!("../cuda_oom/{name}.log")]));
    }
}

/// A message from a pipe, without a line ending.
#[test]
fn a_pasted_message() {
    let message = "CUDA out of memory. Tried to allocate 192.00 MiB. GPU 0 has a total capacity of 79.19 GiB of which 46.50 MiB is free. Including non-PyTorch memory, this process has 79.13 GiB memory in use. Of the allocated memory 77.91 GiB is allocated by PyTorch, and 40.28 MiB is reserved by PyTorch but unallocated.";
    let output = ttmem().arg("-").write_stdin(message).assert().success().get_output().clone();
    insta::assert_snapshot!("cuda-oom-pasted", String::from_utf8(output.stdout).unwrap());
    ttmem().arg("-").write_stdin("Why do I get CUDA out of memory?").assert().code(4);
}

#[test]
fn the_screen_of_a_moment() {
    insta::assert_snapshot!(
        "llm-decode-at-3",
        screen(&["summary", "llm-decode.log", "--at", "3", "--top", "3"])
    );
}

#[test]
fn the_markdown() {
    insta::assert_snapshot!("vae-decoder-markdown", screen(&["summary", "--markdown", "vae-decoder.log"]));
}

#[test]
fn markdown_respects_the_options() {
    let log = path("vae-decoder.log");
    let whole = stdout(&["summary", "--markdown", &log]);
    let at = stdout(&["summary", "--markdown", "--at", "50", &log]);
    assert!(at.contains("## Before Step 50\n") && !whole.contains("## Before Step"), "{at}");
    let last = stdout(&["summary", "--markdown", "--run", "last", &log]);
    assert!(last.contains("Program runs: 1, passes: 1 (only run 2 of 2)."), "{last}");
    assert!(whole.contains("Program runs: 2, passes: 2."), "{whole}");
    let few = stdout(&["summary", "--markdown", "--top", "2", &log]);
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("| ")).count();
    assert!(rows(&few) < rows(&whole) && few.contains("## Live at Peak"), "{few}");
    let small = stdout(&["summary", "--markdown", "--budget", "4000", &log]);
    assert!(small.len() <= 4000 && small.len() < whole.len(), "{} bytes", small.len());
    assert!(stdout(&["summary", "--markdown", "--budget", "50000", &log]).len() > whole.len());
}

#[test]
fn markdown_has_the_promised_sections_in_order() {
    let text = stdout(&["summary", "--markdown", &path("llm-decode.log")]);
    let promised = [
        "# Memory Profile: llm-decode",
        "> Peak DRAM: ",
        "## Configuration",
        "## Peak Memory",
        "## Top 10 Memory Consumers (DRAM)",
        "## Top 10 Padding Overhead",
        "## Model Weights (",
        "## Operation Distribution",
    ];
    let places: Vec<usize> =
        promised.iter().map(|line| text.find(line).unwrap_or_else(|| panic!("{line}"))).collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn standard_input_has_the_same_summary() {
    let plain = json(&["summary", "--json", &path("two-graphs.log")]);
    let text = fs::read(corpus("two-graphs.log")).unwrap();
    let piped = ttmem()
        .args(["summary", "--json", "-"])
        .write_stdin(text)
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let mut piped: Value = serde_json::from_slice(&piped).unwrap();
    let text = fs::read(corpus("two-graphs.log")).unwrap();
    let screen = ttmem().args(["summary", "-"]).write_stdin(text).assert().success().get_output().clone();
    assert!(screen.stdout.starts_with(b"standard input   Tenstorrent runtime log, "));
    piped["source"]["files"] = plain["source"]["files"].clone();
    piped["ranks"][0]["file"] = plain["ranks"][0]["file"].clone();
    assert_eq!(piped, plain);
}

#[test]
fn several_files_are_reported_in_order() {
    let answer = json(&["summary", "--json", &path("vae-decoder.log"), &path("two-ranks-info-only.log")]);
    let ranks = answer["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 3);
    assert!(ranks[0]["file"].as_str().unwrap().ends_with("vae-decoder.log"));
    assert_eq!((&ranks[1]["rank"], &ranks[2]["rank"]), (&Value::from("1,0"), &Value::from("1,1")));
}

#[test]
fn ranks_are_sorted_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let log = fs::read_to_string(corpus("info-only.log")).unwrap();
    let of_rank = |rank: usize| {
        let tagged = log.lines().map(|line| format!("[1,{rank}]<stdout>:{line}"));
        tagged.collect::<Vec<_>>().join("\n") + "\n"
    };
    for rank in 0..12 {
        fs::write(folder.path().join(format!("rank{rank}.log")), of_rank(rank)).unwrap();
    }
    let shared: String = (0..12).rev().map(of_rank).collect();
    fs::write(folder.path().join("all.log"), shared).unwrap();
    // The shell sorts rank10.log before rank2.log.
    let mut files: Vec<String> = (0..12).map(|rank| format!("rank{rank}.log")).collect();
    files.sort();
    assert!(files[2] == "rank10.log");
    let wanted: Vec<String> = (0..12).map(|rank| format!("1,{rank}")).collect();
    for files in [files, vec!["all.log".to_owned()]] {
        let answer = |form: &[&str]| {
            let done = ttmem().current_dir(folder.path()).arg("summary").args(form).args(&files).assert();
            String::from_utf8(done.success().get_output().stdout.clone()).unwrap()
        };
        let json: Value = serde_json::from_str(&answer(&["--json"])).unwrap();
        let ranks: Vec<&str> =
            json["ranks"].as_array().unwrap().iter().map(|rank| rank["rank"].as_str().unwrap()).collect();
        assert_eq!(ranks, wanted, "{files:?}");
        let text = answer(&[]);
        let table = text.lines().skip(1).take(12).map(|line| line.split_whitespace().nth(1).unwrap());
        assert_eq!(table.collect::<Vec<_>>(), wanted, "{text}");
        let headings = text.lines().filter_map(|line| line.split_once(", rank ")).map(|(_, rest)| rest);
        let headings: Vec<&str> = headings.filter_map(|rest| rest.split_whitespace().next()).collect();
        assert_eq!(headings, wanted, "{text}");
    }
}

#[test]
fn files_that_ended_out_of_memory_are_marked() {
    let logs = ["vae-decoder.log", "oom-capacity.log", "info-only.log", "oom-fragmentation.log"];
    let marked = |logs: &[&str]| -> Vec<bool> {
        let text = screen(&[&["summary"], logs].concat());
        let table = text.lines().skip(1).take(logs.len());
        table.map(|line| line.ends_with("  out of memory")).collect()
    };
    assert_eq!(marked(&logs), [false, true, false, true]);
    assert_eq!(marked(&[logs[0], logs[2]]), [false, false]);
    let head = |logs: &[&str]| screen(logs).lines().next().unwrap().trim_end().to_owned();
    assert!(head(&logs).ends_with("  result"), "{}", head(&logs));
    assert!(head(&[logs[0], logs[2]]).ends_with("  peak"), "{}", head(&[logs[0], logs[2]]));
}

#[test]
fn a_rank_can_be_selected_by_number_or_label() {
    let file = path("two-ranks-info-only.log");
    for wanted in ["1", "1,1"] {
        let answer = json(&["summary", "--json", "--rank", wanted, &file]);
        assert_eq!(answer["ranks"].as_array().unwrap().len(), 1);
        assert_eq!(answer["ranks"][0]["rank"], "1,1");
    }
    let output = ttmem().args(["summary", "--rank", "7", &file]).assert().code(2).get_output().clone();
    assert!(String::from_utf8(output.stderr).unwrap().contains("1,0; 1,1"));
}

#[test]
fn a_run_keeps_its_step_numbers() {
    let file = path("two-graphs.log");
    let last = json(&["summary", "--json", "--run", "last", &file]);
    let rank = &last["ranks"][0];
    assert_eq!(rank["operations"]["total"], 21);
    assert!(rank["pools"]["DRAM"]["peak_step"].as_u64().unwrap() > 126);
    let first = json(&["summary", "--json", "--run", "1", &file]);
    assert!(first["ranks"][0]["pools"]["DRAM"]["peak_step"].as_u64().unwrap() <= 21);
    for wrong in ["0", "99", "soon"] {
        ttmem().args(["summary", "--run", wrong, &file]).assert().code(2);
    }
}

#[test]
fn top_limits_lists_and_at_must_be_a_step() {
    let file = path("vae-decoder.log");
    let answer = json(&["summary", "--json", "--top", "2", &file]);
    let peak = &answer["ranks"][0]["peak"];
    assert_eq!(peak["live"].as_array().unwrap().len(), 2);
    assert_eq!(peak["live_count"], 16);
    assert_eq!(answer["ranks"][0]["suspects"].as_array().unwrap().len(), 2);
    ttmem().args(["summary", "--at", "196", &file]).assert().success();
    ttmem().args(["summary", "--at", "197", &file]).assert().code(2);
}

#[test]
fn a_file_that_ttmem_did_not_write_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let file = path("oom-capacity.log");
    for form in ["--json", "--markdown", "--full"] {
        fs::write(&out, "my notes\n").unwrap();
        let refused =
            ttmem().args(["summary", form, &file, "-o", &out]).assert().code(2).get_output().clone();
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(error.contains("already exists, and ttmem did not write it; use --force"), "{error}");
        assert_eq!(fs::read_to_string(&out).unwrap(), "my notes\n");
        ttmem().args(["summary", form, &file, "-o", &out, "--force"]).assert().success().stdout("");
        let written = fs::read_to_string(&out).unwrap();
        // Its own output is replaced.
        ttmem().args(["summary", form, &file, "-o", &out]).assert().success();
        assert_eq!(fs::read_to_string(&out).unwrap(), written);
    }
}

#[test]
fn a_file_alone_is_summarized() {
    let file = path("oom-capacity.log");
    assert_eq!(stdout(&[&file]), stdout(&["summary", &file]));
    assert_eq!(stdout(&[&file, "--json"]), stdout(&["summary", "--json", &file]));
    assert_eq!(stdout(&["-q", &file]), stdout(&["summary", "-q", &file]));
    assert_eq!(stdout(&["--top", "3", &file]), stdout(&["summary", "--top", "3", &file]));
    let refused = |word: &str| {
        String::from_utf8(ttmem().arg(word).assert().code(2).get_output().stderr.clone()).unwrap()
    };
    assert!(refused("none.log").contains("cannot read none.log"), "{}", refused("none.log"));
    assert!(refused("sumary").contains("unrecognized subcommand"), "{}", refused("sumary"));
}

#[test]
fn a_step_may_be_grouped_as_it_is_printed() {
    let file = path("oom-fragmentation.log");
    let unknown = ttmem().args(["summary", "--at", "9,107", &file]).assert().code(2).get_output().clone();
    assert_eq!(
        unknown.stderr,
        ttmem().args(["summary", "--at", "9107", &file]).assert().code(2).get_output().stderr
    );
    for wrong in ["0,107", ",107", "+7", "1,07", "x", "", "1.5"] {
        ttmem().args(["summary", "--at", wrong, &file]).assert().code(2);
    }
}

#[test]
fn lists_have_at_least_one_row() {
    let output = ttmem().args(["summary", "--top", "0", &path("vae-decoder.log")]).assert().code(2);
    assert!(String::from_utf8_lossy(&output.get_output().stderr).contains("at least 1"));
}

#[test]
fn a_budget_has_a_unit_and_a_minimum() {
    let log = path("vae-decoder.log");
    assert_eq!(
        stdout(&["summary", "--markdown", "--budget", "4KiB", &log]),
        stdout(&["summary", "--markdown", "--budget", "4096", &log])
    );
    let small = ttmem().args(["summary", "--markdown", "--budget", "100", &log]).assert().success();
    let (text, said) = (&small.get_output().stdout, String::from_utf8_lossy(&small.get_output().stderr));
    let wanted = format!("warning: --budget 100: the headings and totals alone take {} bytes\n", text.len());
    assert_eq!(said, wanted);
    let enough = ttmem().args(["summary", "--markdown", "--budget", "8kB", &log]).assert().success();
    assert_eq!(String::from_utf8_lossy(&enough.get_output().stderr), "");
}

#[test]
fn a_report_that_was_edited_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (out, link) = (folder.path().join("all.md"), folder.path().join("link.md"));
    let file = path("oom-capacity.log");
    for form in ["--json", "--markdown", "--full"] {
        let write = |to: &Path| ttmem().args(["summary", form, &file, "-o"]).arg(to).assert();
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink("all.md", &link).unwrap();
        write(&out).success();
        let report = fs::read_to_string(&out).unwrap();
        write(&link).success();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let edited = report + "# My conclusions\n";
        fs::write(&out, &edited).unwrap();
        for to in [&out, &link] {
            write(to).code(2);
            assert_eq!(fs::read_to_string(&out).unwrap(), edited, "{form}");
        }
        fs::remove_file(&out).unwrap();
    }
}

#[test]
fn the_files_of_ranks_are_sorted_and_kept_together() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: &str, to: &str| {
        fs::copy(corpus(from), folder.path().join(to)).unwrap();
    };
    for number in [1, 2, 10] {
        copy("info-only.log", &format!("rank{number}.log"));
    }
    copy("two-ranks-info-only.log", "runA.log");
    copy("two-ranks-info-only.log", "runB.log");
    let order = |files: &[&str]| -> Vec<String> {
        let mut command = ttmem();
        let output = command.current_dir(folder.path()).args(["summary", "--json"]).args(files);
        let answer: Value = serde_json::from_slice(&output.assert().success().get_output().stdout).unwrap();
        let of_rank = |rank: &Value| format!("{} {}", rank["file"], rank["rank"]).replace('"', "");
        answer["ranks"].as_array().unwrap().iter().map(of_rank).collect()
    };
    let numbered = order(&["rank1.log", "rank10.log", "rank2.log"]);
    assert_eq!(numbered, ["rank1.log null", "rank2.log null", "rank10.log null"]);
    let both = order(&["runA.log", "runB.log"]);
    assert_eq!(both, ["runA.log 1,0", "runA.log 1,1", "runB.log 1,0", "runB.log 1,1"]);
}

#[test]
fn errors_name_the_file_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.log");
    fs::write(&empty, "").unwrap();
    let binary = folder.path().join("binary.log");
    fs::write(&binary, [0u8, 1, 2, 3, 255].repeat(100)).unwrap();
    let prose = folder.path().join("prose.txt");
    fs::write(&prose, "nothing of the kind\n").unwrap();
    let profiles = tempfile::tempdir().unwrap();
    let cut = profiles.path().join("cut.ttmem");
    fs::write(&cut, b"\x89TTMEM\r\n").unwrap();
    for (file, says) in [
        (&cut, "cut.ttmem: no usable data"),
        (&empty, "empty file"),
        (&binary, "ttmem formats"),
        (&prose, "ttmem formats"),
        (&folder.path().join("gone.log"), "cannot read"),
        (&folder.path().to_path_buf(), "folder with 2 logs but no report"),
    ] {
        let file = file.display().to_string();
        let output = ttmem().args(["summary", &file]).assert().code(2).get_output().clone();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(says) && message.contains(&file), "{message}");
        assert!(output.stdout.is_empty());
    }
    ttmem().args(["summary", "--format", "nonsense", &path("vae-decoder.log")]).assert().code(2);
    ttmem().args(["summary", "-", "-"]).assert().code(2);
    ttmem().args(["summary"]).assert().code(2);
}

#[test]
fn a_bad_file_is_an_error_and_the_others_are_reported() {
    let output = ttmem()
        .args(["summary", "--json", &path("malformed/no-memory-operations.log"), &path("oom-capacity.log")])
        .assert()
        .code(4)
        .get_output()
        .clone();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["ranks"].as_array().unwrap().len(), 1);
    assert!(String::from_utf8(output.stderr).unwrap().contains("no memory data"));
}

#[test]
fn colors_are_for_terminals() {
    assert!(!stdout(&["summary", &path("oom-capacity.log")]).contains('\u{1b}'));
    let output =
        ttmem().args(["summary", &path("malformed/empty.log")]).assert().code(2).get_output().clone();
    assert!(!output.stderr.contains(&0x1b));
}

#[test]
fn formats_lists_the_readers() {
    let text = stdout(&["formats"]);
    assert!(text.contains("tt_log") && text.contains("TT_RUNTIME_MEMORY_LOG_LEVEL"), "{text}");
}

#[test]
fn help_and_version_succeed() {
    for args in [&["--help"][..], &["summary", "--help"], &["report", "--help"], &["--version"]] {
        ttmem().args(args).assert().success();
    }
}

/// The weights and the KV cache of Llama 3.2 1B, compared with the log of another model.
#[test]
fn expected_sizes_are_compared_with_measured_ones() {
    let log = path("vae-decoder.log");
    let model =
        "params=1_235_814_400,dtype=bf16,kv_pages=10240,page_size=16,layers=16,kv_heads=8,head_dim=64";
    let answer = json(&["summary", "--json", &log, "--expect", model, "--expect", "activation=0"]);
    let rows = answer["ranks"][0]["expected"].as_array().unwrap();
    let row = |class: &str| rows.iter().find(|row| row["class"] == class).unwrap();
    assert_eq!(rows.len(), 3);
    let (weight, cache, activation) = (row("weight"), row("kv_cache"), row("activation"));
    assert_eq!(
        (&weight["expected_bytes"], &cache["expected_bytes"]),
        (&2_471_628_800_u64.into(), &(5_u64 << 30).into())
    );
    let (measured, difference) = (&weight["measured_bytes"], &weight["difference_bytes"]);
    assert_eq!(difference.as_i64().unwrap(), measured.as_i64().unwrap() - 2_471_628_800);
    // They were expanded to sixty times their declared size.
    assert!(weight["difference_pct"].as_f64().unwrap() > 0.0);
    // A class that was not measured has no difference, and a difference from zero has no percentage.
    assert!(
        cache["measured_bytes"].is_null() && cache["difference_bytes"].is_null() && cache["note"].is_string()
    );
    assert!(activation["difference_bytes"].as_i64().unwrap() > 0 && activation["difference_pct"].is_null());
}

#[test]
fn a_file_may_follow_expect() {
    let log = path("vae-decoder.log");
    let usual = stdout(&["summary", &log, "--expect", "weight=1GiB"]);
    assert!(usual.contains("Expected and measured peak per class"), "{usual}");
    assert_eq!(stdout(&["summary", "--expect", "weight=1GiB", &log]), usual);
    assert_eq!(stdout(&["summary", "--expect", "weight=1GiB", "--expect", &log]), usual);
    // Without the option, there is no table of expected sizes.
    assert!(!stdout(&["summary", &log]).contains("Expected"));
}

#[test]
fn invalid_expectations_are_errors() {
    let log = path("vae-decoder.log");
    for (words, said) in [
        (&["--expect"][..], "no expectations"),
        (&["--expect", "params=1e9"], "--expect params=1e9: params requires an element type"),
        (&["--expect", "wieght=1GB"], "unknown key"),
        (&["--expect", "weight=1GB", "--expect", "weight=2GB"], "given twice"),
    ] {
        let output = ttmem().args(["summary", &log]).args(words).assert().code(2).get_output().clone();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.stdout.is_empty() && stderr.contains(said), "{stderr}");
    }
    ttmem().args(["summary", "--expect"]).assert().code(2);
    ttmem().args(["summary", "--expect", "weight=1GB"]).assert().code(2);
    ttmem().arg("summary").assert().code(2);
}
