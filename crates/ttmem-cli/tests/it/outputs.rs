//! Output files: no command replaces a log, a recording, a profile or its own input, with `--force` or without.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;
use ttmem_testkit::sweep;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

/// A folder with an input for each command.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (from, to) in [
        ("tt_log/vae-decoder.log", "in.log"),
        ("tt_train/tinyllama.log", "train.log"),
        ("memory_profile/threads.json", "calls.json"),
        ("guides/batch256.ttmem", "run.ttmem"),
    ] {
        fs::copy(corpus().join(from), folder.path().join(to)).unwrap();
    }
    folder
}

/// Every command that writes a file, with its input and `OUT` for the output.
const WRITERS: [&[&str]; 11] = [
    &["gantt", "calls.json", "OUT"],
    &["chart", "in.log", "-o", "OUT"],
    &["summary", "in.log", "-o", "OUT"],
    &["summary", "in.log", "--json", "-o", "OUT"],
    &["summary", "in.log", "--markdown", "-o", "OUT"],
    &["summary", "run.ttmem", "--flamegraph", "OUT"],
    &["phases", "train.log", "--chart", "OUT"],
    &["phases", "train.log", "--visualize-peak", "-o", "OUT"],
    &["last-run", "in.log", "-o", "OUT"],
    &["--llm", "--logfile", "in.log", "-o", "OUT"],
    &["diff", "in.log", "in.log", "--page", "OUT"],
];

/// Runs a writer; returns its exit code and standard error.
fn write(folder: &Path, writer: &[&str], output: &str, force: bool) -> (i32, String) {
    let words = writer.iter().map(|word| if *word == "OUT" { output } else { word });
    let done = Command::cargo_bin("ttmem")
        .unwrap()
        .current_dir(folder)
        .env("TTMEM_HOME", folder.join("home"))
        .args(words.chain(force.then_some("--force")))
        .output()
        .unwrap();
    (done.status.code().unwrap(), String::from_utf8_lossy(&done.stderr).into_owned())
}

/// A name for the output that the command accepts.
fn named(writer: &[&str], stem: &str) -> String {
    let is_picture = ["chart", "phases"].contains(&writer[0]) || writer.contains(&"--flamegraph");
    let is_page = writer.contains(&"--page");
    let ending = if is_page {
        ".html"
    } else if is_picture {
        ".svg"
    } else {
        ""
    };
    format!("{stem}{ending}")
}

/// One file of every format, including compressed ones.
fn inputs() -> Vec<(String, Vec<u8>)> {
    const FILES: [&str; 15] = [
        "tt_log/two-graphs.log",
        "tt_log/info-only.log",
        "tt_train/tinyllama.log",
        "memory_profile/server.json",
        "memory_profile/threads.json",
        "tt_json/small_model/small_model_memory.json",
        "tt_json/small_model/small_model_operations.json",
        "tt_json/small_model/small_model_ir.json",
        "tt_json/small_model/small_model_inputs_registry.json",
        "ttnn_db/db.sqlite",
        "ttnn_graph/linear.json",
        "ttnn_graph/linear-report.json",
        "ttrt_memory/memory_report.json",
        "ttrt_memory/memory_results.json",
        "torch_snapshot/train_gpt2_30m.pickle.gz",
    ];
    let mut inputs: Vec<(String, Vec<u8>)> =
        FILES.iter().map(|file| ((*file).to_owned(), fs::read(corpus().join(file)).unwrap())).collect();
    let place = folder();
    let reported = write(place.path(), &["report", "calls.json", "-o", "OUT"], "out", false);
    assert_eq!(reported.0, 0, "{}", reported.1);
    inputs.push(("a profile".into(), fs::read(place.path().join("out/calls.ttmem")).unwrap()));
    // A program that prints a lot before the runtime starts.
    let mut late = b"loading\n".repeat(3 << 20);
    late.extend_from_slice(&fs::read(corpus().join("tt_log/info-only.log")).unwrap());
    inputs.push(("a log that starts late".into(), late));
    inputs
}

#[test]
fn no_command_replaces_a_log_recording_or_profile() {
    let folder = folder();
    for ((what, content), writer) in sweep::pairs(&inputs(), &WRITERS) {
        for force in [false, true] {
            let output = named(writer, "kept");
            let path = folder.path().join(&output);
            fs::write(&path, content).unwrap();
            let (code, said) = write(folder.path(), writer, &output, force);
            assert!(fs::read(&path).unwrap() == *content, "{writer:?} has overwritten {what}: {said}");
            assert_eq!(code, 2, "{writer:?} onto {what}: {said}");
            assert!(said.contains("not overwritten") && !said.contains("--force"), "{writer:?}: {said}");
        }
    }
    assert!(!folder.path().join("home").exists(), "a refused output stores nothing either");
}

#[test]
#[cfg(unix)]
fn no_command_replaces_its_input() {
    let folder = folder();
    for writer in WRITERS {
        let input = writer.iter().find(|word| word.contains('.')).unwrap();
        let content = fs::read(folder.path().join(input)).unwrap();
        let symbolic = named(writer, "symbolic");
        let hard = named(writer, "hard");
        let _ = fs::remove_file(folder.path().join(&symbolic));
        let _ = fs::remove_file(folder.path().join(&hard));
        std::os::unix::fs::symlink(input, folder.path().join(&symbolic)).unwrap();
        fs::hard_link(folder.path().join(input), folder.path().join(&hard)).unwrap();
        for output in [symbolic, hard] {
            let (code, said) = write(folder.path(), writer, &output, true);
            assert!(fs::read(folder.path().join(input)).unwrap() == content, "{writer:?}: {said}");
            assert_eq!(code, 2, "{writer:?}: {said}");
            assert!(said.contains("an input of this command"), "{writer:?}: {said}");
        }
    }
}

#[test]
fn an_input_of_a_given_format_is_kept() {
    let folder = folder();
    fs::write(folder.path().join("odd.svg"), "no signs of any format\n").unwrap();
    for writer in [
        &["chart", "odd.svg", "--format", "tt_log", "-o", "OUT"][..],
        &["summary", "odd.svg", "--format", "tt_log", "-o", "OUT"],
        &["phases", "odd.svg", "--format", "tt_train", "--chart", "OUT"],
    ] {
        let (code, said) = write(folder.path(), writer, "./odd.svg", true);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("an input of this command"), "{said}");
    }
}

#[test]
fn every_output_may_be_replaced_by_the_next() {
    let folder = folder();
    for writer in WRITERS.iter().filter(|writer| writer[0] != "last-run") {
        let output = named(writer, &format!("out-{}", writer.join("")));
        for force in [false, false, true] {
            let (code, said) = write(folder.path(), writer, &output, force);
            assert_eq!(code, 0, "{writer:?}: {said}");
        }
    }
}

#[test]
fn a_file_that_ttmem_did_not_write_needs_force() {
    let folder = folder();
    let pictures: [&[&str]; 2] =
        [&["chart", "in.log", "-o", "OUT"], &["phases", "train.log", "--chart", "OUT"]];
    let pictures = pictures.map(|writer| (writer, "mine.png".to_owned()));
    let others = WRITERS.into_iter().map(|writer| (writer, named(writer, "mine")));
    for (writer, output) in others.chain(pictures) {
        let path = folder.path().join(&output);
        fs::write(&path, "my notes\n").unwrap();
        let (code, said) = write(folder.path(), writer, &output, false);
        assert_eq!(code, 2, "{writer:?}: {said}");
        let wanted = format!("{output}: already exists, and ttmem did not write it; use --force");
        assert!(said.contains(&wanted), "{writer:?}: {said}");
        assert_eq!(fs::read(&path).unwrap(), b"my notes\n", "{writer:?}");
        let (code, said) = write(folder.path(), writer, &output, true);
        assert_eq!(code, 0, "{writer:?}: {said}");
        let written = fs::read(&path).unwrap();
        assert_ne!(written, b"my notes\n", "{writer:?}");
        // Its own output is replaced, except for an extracted log, which is a log.
        let (code, said) = write(folder.path(), writer, &output, false);
        assert_eq!(code, if writer[0] == "last-run" { 2 } else { 0 }, "{writer:?}: {said}");
        assert_eq!(fs::read(&path).unwrap(), written, "{writer:?}");
    }
}

#[test]
fn the_summaries_of_any_input_may_be_replaced() {
    let folder = folder();
    let logs = fs::read_dir(corpus().join("tt_log")).unwrap().map(|entry| entry.unwrap().path());
    for log in logs.filter(|path| path.extension().is_some_and(|end| end == "log")) {
        for form in [&[][..], &["--json"], &["--markdown"]] {
            let writer = [&["summary", log.to_str().unwrap(), "-o", "OUT"], form].concat();
            assert_eq!(write(folder.path(), &writer, "answer", true).0, 0, "{writer:?}");
            let (code, said) = write(folder.path(), &writer, "answer", true);
            assert_eq!(code, 0, "{writer:?}: {said}");
        }
    }
}

#[test]
fn gantt_takes_a_single_input() {
    let folder = folder();
    fs::copy(folder.path().join("calls.json"), folder.path().join("second.json")).unwrap();
    let (code, said) = write(folder.path(), &["gantt", "calls.json", "OUT"], "second.json", true);
    assert_eq!(code, 2);
    assert!(said.contains("second.json: not overwritten") && said.contains("pass one input per"), "{said}");
}

#[test]
fn a_report_in_the_folder_of_a_recording_keeps_the_recording() {
    let place = folder();
    let report = |words: &[&str]| write(place.path(), words, "", false);
    assert_eq!(report(&["report", "calls.json", "-o", "made"]).0, 0);
    let recordings = place.path().join("recordings");
    fs::create_dir(&recordings).unwrap();
    let recording = recordings.join("run.ttmem");
    fs::copy(place.path().join("made/calls.ttmem"), &recording).unwrap();
    // Bytes that a rewritten file would not have.
    let mut content = fs::read(&recording).unwrap();
    content.extend_from_slice(b"trailing");
    fs::write(&recording, &content).unwrap();
    let is_kept = || fs::read(&recording).unwrap() == content;

    // Its own report, twice, by file and by folder.
    for words in [&["report", "recordings/run.ttmem", "-o", "recordings"][..], &["report", "recordings"]] {
        for _ in 0..2 {
            let (code, said) = report(words);
            assert_eq!(code, 0, "{said}");
            assert!(is_kept() && recordings.join("run_report.html").is_file(), "{words:?}");
        }
    }
    // The report of something else.
    let (code, said) = report(&["report", "in.log", "-o", "recordings", "--name", "run"]);
    assert_eq!(code, 2, "{said}");
    assert!(is_kept() && said.contains("run.ttmem: not overwritten"), "{said}");
    // A report is replaced, its profile with it.
    let (code, said) = report(&["report", "in.log", "-o", "made", "--name", "calls"]);
    assert_eq!(code, 0, "{said}");
}
