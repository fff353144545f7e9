//! `ttmem last-run`: streams, files, exit codes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log").join(name)
}

/// A folder with a log of two passes.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(corpus("vae-decoder.log"), folder.path().join("vae.log")).unwrap();
    folder
}

fn ttmem(folder: &Path) -> Command {
    let mut command = Command::cargo_bin("ttmem").unwrap();
    command.current_dir(folder).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    command
}

/// The output of a successful call on both streams.
fn run(folder: &Path, args: &[&str]) -> (Vec<u8>, String) {
    let output = ttmem(folder).args(args).assert().success().get_output().clone();
    (output.stdout, String::from_utf8(output.stderr).unwrap())
}

/// The error of a call that fails with exit code 2.
fn refused(folder: &Path, args: &[&str]) -> String {
    let output = ttmem(folder).args(args).assert().code(2).get_output().clone();
    assert_eq!(output.stdout, b"", "nothing is written");
    String::from_utf8(output.stderr).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

/// The peak, its cause, and the live tensors, without steps.
fn peak(folder: &Path, args: &[&str]) -> Value {
    let (json, _) = run(folder, &[&["summary", "--json"], args].concat());
    let mut peak: Value = serde_json::from_slice::<Value>(&json).unwrap()["ranks"][0]["peak"].take();
    peak["step"].take();
    peak["residue"].take();
    for field in ["step", "run"] {
        peak["caused_by"][field].take();
    }
    for tensor in peak["live"].as_array_mut().unwrap() {
        for field in ["run", "also", "born_step", "dies_step", "gone_before_step"] {
            tensor[field].take();
        }
    }
    peak
}

#[test]
fn the_profile_has_the_same_peak_as_the_last_pass_of_the_log() {
    let folder = folder();
    run(folder.path(), &["last-run", "vae.log", "-o", "last.log", "--profile", "last.ttmem"]);
    let whole = peak(folder.path(), &["vae.log", "--run", "last"]);
    assert_eq!(peak(folder.path(), &["last.ttmem"]), whole);
    assert!(whole["live"].as_array().unwrap().len() > 10);
    assert_eq!(names(folder.path()), ["last.log", "last.ttmem", "vae.log"]);
}

/// Every line is from the log: nothing is added, and a summary warns about what is missing.
#[test]
fn the_lines_are_those_of_the_log() {
    let folder = folder();
    run(folder.path(), &["last-run", "vae.log", "-o", "last.log"]);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let (log, last) = (read("vae.log"), read("last.log"));
    let mut rest = log.lines();
    assert!(last.lines().all(|line| rest.any(|of_log| of_log == line)));
    assert!(last.len() < log.len());
    let (_, said) = run(folder.path(), &["summary", "last.log"]);
    assert!(said.contains("the log does not include the start of the process"), "{said}");
    let (_, said) = run(folder.path(), &["summary", "vae.log"]);
    assert_eq!(said, "");
}

/// Every command reads the profile without the log.
#[test]
fn every_command_reads_the_profile() {
    let folder = folder();
    run(folder.path(), &["last-run", "vae.log", "--profile", "last.ttmem"]);
    fs::remove_file(folder.path().join("vae.log")).unwrap();
    for args in [
        &["summary", "last.ttmem", "--markdown"][..],
        &["chart", "last.ttmem", "-o", "chart.svg"],
        &["report", "last.ttmem", "-o", "out"],
    ] {
        let (_, said) = run(folder.path(), args);
        assert!(!said.contains("warning"), "{args:?}: {said}");
    }
}

#[test]
fn standard_output_a_file_and_a_pipe_have_the_same_lines() {
    let folder = folder();
    let (printed, said) = run(folder.path(), &["last-run", "vae.log"]);
    assert_eq!(said, "");
    run(folder.path(), &["last-run", "vae.log", "-o", "last.log"]);
    assert_eq!(fs::read(folder.path().join("last.log")).unwrap(), printed);
    let log = fs::read(folder.path().join("vae.log")).unwrap();
    let piped = ttmem(folder.path()).args(["last-run", "-"]).write_stdin(log).assert().success();
    assert_eq!(piped.get_output().stdout, printed);
}

#[test]
fn the_profile_of_a_pipe_equals_that_of_the_file() {
    let folder = folder();
    run(folder.path(), &["last-run", "vae.log", "--profile", "file.ttmem"]);
    let log = fs::read(folder.path().join("vae.log")).unwrap();
    let command = ["last-run", "-", "--profile", "pipe.ttmem"];
    ttmem(folder.path()).args(command).write_stdin(log).assert().success();
    assert_eq!(peak(folder.path(), &["pipe.ttmem"]), peak(folder.path(), &["file.ttmem"]));
}

/// A tensor of an earlier pass has an operation, but no step.
#[test]
fn tensors_allocated_before_the_pass_are_marked() {
    let folder = folder();
    fs::copy(corpus("trace.log"), folder.path().join("trace.log")).unwrap();
    run(folder.path(), &["last-run", "trace.log", "--profile", "last.ttmem"]);
    let (screen, _) = run(folder.path(), &["summary", "last.ttmem"]);
    let screen = String::from_utf8(screen).unwrap();
    assert!(screen.contains("ttnn.relu, earlier"), "{screen}");
}

#[test]
fn verbose_prints_what_was_found() {
    let folder = folder();
    let (_, said) = run(folder.path(), &["last-run", "vae.log", "-v", "-o", "last.log"]);
    assert!(said.contains("vae.log: pass 2 of 2, lines 1069 to 1579 of 1579"), "{said}");
}

#[test]
fn a_file_is_replaced_only_by_force() {
    let folder = folder();
    fs::write(folder.path().join("mine.log"), "mine").unwrap();
    let said = refused(folder.path(), &["last-run", "vae.log", "-o", "mine.log"]);
    assert!(said.contains("mine.log: already exists"), "{said}");
    assert_eq!(fs::read(folder.path().join("mine.log")).unwrap(), b"mine");
    run(folder.path(), &["last-run", "vae.log", "-o", "mine.log", "--force"]);
    let (expected, _) = run(folder.path(), &["last-run", "vae.log"]);
    assert_eq!(fs::read(folder.path().join("mine.log")).unwrap(), expected);
    // The output is a log now, like its source: only --in-place replaces a log.
    for log in ["mine.log", "vae.log"] {
        let before = fs::read(folder.path().join(log)).unwrap();
        let said = refused(folder.path(), &["last-run", "vae.log", "-o", log, "--force"]);
        assert!(said.contains("not overwritten"), "{said}");
        assert_eq!(fs::read(folder.path().join(log)).unwrap(), before);
    }
    assert_eq!(names(folder.path()), ["mine.log", "vae.log"]);
}

#[test]
fn a_profile_is_never_replaced() {
    let folder = folder();
    fs::write(folder.path().join("mine.ttmem"), "mine").unwrap();
    let profile = ["last-run", "vae.log", "--profile", "mine.ttmem"];
    let said = refused(folder.path(), &profile);
    assert!(said.contains("mine.ttmem: already exists"), "{said}");
    run(folder.path(), &[&profile[..], &["--force"]].concat());
    // If one file cannot be written, neither is.
    for args in [&["--force"][..], &["--force", "-o", "new.log"], &["--in-place", "--force"]] {
        let said = refused(folder.path(), &[&profile[..], args].concat());
        assert!(said.contains("not overwritten"), "{said}");
    }
    let said = refused(folder.path(), &["last-run", "vae.log", "-o", "a.log", "--profile", "a.log"]);
    assert!(said.contains("name the same file"), "{said}");
    let said = refused(folder.path(), &["last-run", "vae.log", "--profile", "vae.log", "--force"]);
    assert!(said.contains("an input of this command"), "{said}");
    assert_eq!(names(folder.path()), ["mine.ttmem", "vae.log"]);
    assert_eq!(
        fs::read(folder.path().join("vae.log")).unwrap(),
        fs::read(corpus("vae-decoder.log")).unwrap()
    );
}

#[test]
fn the_same_file_for_lines_and_profile_is_rejected_however_it_is_spelled() {
    let folder = folder();
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("a.log"), "notes\n").unwrap();
    let before = names(folder.path());
    for spelled in ["a.log", "./a.log", "sub/../a.log", folder.path().join("a.log").to_str().unwrap()] {
        let log = "vae.log";
        let message =
            refused(folder.path(), &["last-run", log, "-o", "a.log", "--profile", spelled, "--force"]);
        assert!(message.contains("name the same file"), "{spelled}: {message}");
        assert_eq!(fs::read_to_string(folder.path().join("a.log")).unwrap(), "notes\n", "{spelled}");
    }
    assert_eq!(names(folder.path()), before);
}

#[test]
fn if_one_file_cannot_be_written_neither_is() {
    let folder = folder();
    fs::create_dir(folder.path().join("taken")).unwrap();
    let before = names(folder.path());
    for [lines, profile] in [["taken", "last.ttmem"], ["last.log", "taken"]] {
        let args = ["last-run", "vae.log", "-o", lines, "--profile", profile, "--force"];
        let message = refused(folder.path(), &args);
        assert!(message.contains("taken"), "{message}");
        assert_eq!(names(folder.path()), before, "{lines} {profile}");
    }
}

#[test]
fn in_place_requires_a_profile() {
    let folder = folder();
    for args in [&[][..], &["--profile", "/dev/null"]] {
        let said = refused(folder.path(), &[&["last-run", "vae.log", "--in-place"], args].concat());
        assert!(said.contains("--in-place requires --profile FILE.ttmem, because"), "{said}");
    }
    let said = refused(folder.path(), &["last-run", "vae.log", "--profile", "-"]);
    assert!(said.contains("--profile needs a file name"), "{said}");
    assert_eq!(
        fs::read(folder.path().join("vae.log")).unwrap(),
        fs::read(corpus("vae-decoder.log")).unwrap()
    );
}

#[test]
fn in_place_the_log_becomes_its_last_pass() {
    let folder = folder();
    let (expected, _) = run(folder.path(), &["last-run", "vae.log"]);
    let whole = peak(folder.path(), &["vae.log", "--run", "last"]);
    run(folder.path(), &["last-run", "vae.log", "--in-place", "--profile", "last.ttmem"]);
    assert_eq!(fs::read(folder.path().join("vae.log")).unwrap(), expected);
    assert_eq!(peak(folder.path(), &["last.ttmem"]), whole);
    // A second time changes nothing.
    let (_, said) = run(folder.path(), &["last-run", "vae.log", "--in-place", "--profile", "again.ttmem"]);
    assert!(said.contains("the log has a single pass, which is copied whole"), "{said}");
    assert_eq!(fs::read(folder.path().join("vae.log")).unwrap(), expected);
    assert_eq!(names(folder.path()), ["again.ttmem", "last.ttmem", "vae.log"]);
}

#[cfg(unix)]
#[test]
fn in_place_keeps_permissions_and_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder();
    let log = folder.path().join("vae.log");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("vae.log", folder.path().join("link.log")).unwrap();
    let (expected, _) = run(folder.path(), &["last-run", "vae.log"]);
    run(folder.path(), &["last-run", "link.log", "--in-place", "--profile", "last.ttmem"]);
    assert!(folder.path().join("link.log").symlink_metadata().unwrap().is_symlink());
    assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read(&log).unwrap(), expected);
}

#[test]
fn in_place_a_compressed_log_stays_compressed() {
    let folder = folder();
    let log = fs::read(folder.path().join("vae.log")).unwrap();
    let whole = peak(folder.path(), &["vae.log", "--run", "last"]);
    let packed = |program: &str| {
        let mut child = std::process::Command::new(program)
            .arg("-c")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut stdin = child.stdin.take().unwrap();
        let log = log.clone();
        let writer = std::thread::spawn(move || stdin.write_all(&log).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Some(output.stdout)
    };
    for (program, name) in [("gzip", "vae.log.gz"), ("zstd", "vae.log.zst")] {
        // Without the program, only the library's own tests cover this.
        let Some(before) = packed(program) else { continue };
        fs::write(folder.path().join(name), &before).unwrap();
        let profile = format!("{program}.ttmem");
        run(folder.path(), &["last-run", name, "--in-place", "--profile", &profile]);
        let after = fs::read(folder.path().join(name)).unwrap();
        assert_eq!(after[..2], before[..2]);
        assert!(after.len() < before.len());
        assert_eq!(peak(folder.path(), &[&profile]), whole);
    }
}

#[test]
fn logs_without_passes_are_not_changed() {
    let folder = folder();
    fs::copy(corpus("info-only.log"), folder.path().join("info.log")).unwrap();
    fs::write(folder.path().join("hello.txt"), "hello\n").unwrap();
    run(folder.path(), &["report", "vae.log", "-o", "out"]);
    let before = names(folder.path());
    let cases: [(&[&str], &str); 9] = [
        (&["info.log"], "TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG"),
        (&["info.log", "--in-place", "--profile", "new.ttmem"], "--marker"),
        (&["info.log", "-o", "new.log"], "does not name programs"),
        (&["hello.txt", "-o", "new.log"], "unknown format"),
        (&["out/vae.ttmem", "-o", "new.log"], "out/vae.ttmem: not a log but "),
        (&["out"], "folder without a report"),
        (&["nothing.log"], "cannot read nothing.log"),
        (&["-", "--in-place", "--profile", "new.ttmem"], "standard input cannot be replaced"),
        (
            &["vae.log", "--marker", "never printed", "-o", "new.log"],
            "vae.log: no line contains the --marker text",
        ),
    ];
    for (args, expected) in cases {
        let said = refused(folder.path(), &[&["last-run"], args].concat());
        assert!(said.contains(expected), "{args:?}: {said}");
    }
    assert_eq!(names(folder.path()), before);
    assert_eq!(fs::read(folder.path().join("info.log")).unwrap(), fs::read(corpus("info-only.log")).unwrap());
    for args in
        [&["vae.log", "--marker", ""][..], &["vae.log", "--in-place", "-o", "x"], &["vae.log", "--force"]]
    {
        refused(folder.path(), &[&["last-run"], args].concat());
    }
}

#[test]
fn a_log_of_one_pass_is_kept_and_reported() {
    let folder = folder();
    fs::copy(corpus("oom-capacity.log"), folder.path().join("oom.log")).unwrap();
    let (printed, said) = run(folder.path(), &["last-run", "oom.log"]);
    assert_eq!(printed, fs::read(corpus("oom-capacity.log")).unwrap());
    assert!(
        said.contains(
            "oom.log: the log has a single pass, which is copied whole; to split it, pass --marker TEXT"
        ),
        "{said}"
    );
    let (_, said) = run(folder.path(), &["last-run", "oom.log", "-q"]);
    assert_eq!(said, "");
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_not_an_error() {
    let folder = folder();
    let binary = assert_cmd::cargo::cargo_bin("ttmem");
    let command = format!("set -o pipefail; {} last-run vae.log | head -n 1", binary.display());
    let output = Command::new("bash").args(["-c", &command]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stderr, b"");
}
