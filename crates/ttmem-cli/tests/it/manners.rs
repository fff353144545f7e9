//! Behavior that all commands share: help, streams, verbosity, colors, completions, manual pages.

use std::io::Read;
use std::path::Path;
use std::process::{Command as Process, Stdio};

use assert_cmd::Command;

const COMMANDS: [&str; 16] = [
    "summary",
    "report",
    "run",
    "track",
    "last-run",
    "phases",
    "export",
    "chart",
    "gantt",
    "serve",
    "list",
    "show",
    "remove",
    "config",
    "completions",
    "man",
];

fn corpus(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log").join(name).display().to_string()
}

fn ttmem() -> Command {
    let mut command = Command::cargo_bin("ttmem").unwrap();
    command.env("TTMEM_HOME", "/nonexistent");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn without_a_terminal_ttmem_prints_help_and_exits_with_2() {
    let output = ttmem().assert().code(2).get_output().clone();
    assert!(output.stdout.is_empty());
    let help = text(&output.stderr);
    assert!(help.contains("Usage: ttmem") && help.contains("ttmem model_profile.log"), "{help}");
}

#[test]
fn every_command_has_help_with_examples() {
    for command in COMMANDS {
        let output = ttmem().args([command, "--help"]).assert().success().get_output().clone();
        let help = text(&output.stdout);
        assert!(help.contains(&format!("Examples:\n  ttmem {command}")), "{command}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 110), "{command}: {help}");
    }
    let help = text(&ttmem().arg("--help").assert().success().get_output().stdout.clone());
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command}")), "{command}: {help}");
    }
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script =
            text(&ttmem().args(["completions", shell]).assert().success().get_output().stdout.clone());
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    ttmem().args(["completions", "tcsh"]).assert().code(2);
}

/// A real bash accepts the script.
#[test]
fn bash_completes_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("ttmem.bash");
    let output = ttmem().args(["completions", "bash"]).assert().success().get_output().clone();
    std::fs::write(&script, output.stdout).unwrap();
    let offered = |command: &str, word: &str| {
        let place = command.split(' ').count();
        let ask = format!(
            "source {}; COMP_WORDS=({command} '{word}'); COMP_CWORD={place}; \
             _ttmem ttmem '{word}' {}; echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            command.rsplit(' ').next().unwrap(),
        );
        let answer = Process::new("bash").args(["--norc", "-c", &ask]).output().unwrap();
        assert!(answer.status.success(), "{}", text(&answer.stderr));
        text(&answer.stdout).trim().to_owned()
    };
    assert_eq!(offered("ttmem", "last"), "last-run");
    assert_eq!(offered("ttmem config", "up"), "update");
    // No completions of its own, so bash offers files.
    assert_eq!(offered("ttmem summary", ""), "");
    assert_eq!(offered("ttmem summary", "--mark"), "--markdown");
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    ttmem().arg("man").arg(folder.path()).assert().success();
    for command in COMMANDS {
        let page = std::fs::read_to_string(folder.path().join(format!("ttmem-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH EXAMPLES\n.nf\n"), "{command}");
    }
    let page = text(&ttmem().arg("man").assert().success().get_output().stdout.clone());
    assert!(page.contains(".TH ttmem 1"), "{page}");
}

#[test]
fn quiet_prints_only_results_and_errors_and_verbose_prints_more() {
    // A log with a warning.
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("cut.log");
    let whole = std::fs::read(corpus("vae-decoder.log")).unwrap();
    std::fs::write(&log, &whole[..whole.len() * 2 / 3]).unwrap();
    let said = |flag: &[&str]| {
        let output = ttmem().arg("summary").arg(&log).args(flag).assert().success().get_output().clone();
        (text(&output.stdout), text(&output.stderr))
    };
    let (usual, warnings) = said(&[]);
    assert!(warnings.contains("warning:"), "{warnings}");
    assert_eq!(said(&["-q"]), (usual.clone(), String::new()));
    let (same, more) = said(&["-v"]);
    assert_eq!(same, usual);
    assert!(more.contains("read as tt_log") && more.len() > warnings.len(), "{more}");
    let failed = ttmem().args(["-q", "summary", "missing.log"]).assert().code(2).get_output().clone();
    assert!(text(&failed.stderr).contains("missing.log"));
    ttmem().args(["-q", "-v", "summary", "x"]).assert().code(2);
}

#[test]
fn without_a_terminal_there_are_no_colors_and_no_bar() {
    for args in [vec!["summary"], vec!["summary", "-v"]] {
        let output =
            ttmem().args(args).arg(corpus("vae-decoder.log")).assert().success().get_output().clone();
        assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b));
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    for args in [vec!["summary", "--json"], vec!["summary"], vec!["completions", "bash"], vec!["--help"]] {
        let mut command = Process::new(assert_cmd::cargo::cargo_bin("ttmem"));
        command.args(&args);
        if args[0] == "summary" {
            command.arg(corpus("vae-decoder.log"));
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Closed before a byte is read.
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{args:?}: {said}");
        assert_eq!(said, "", "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_for_every_output() {
    for arguments in [&["--help"][..], &["--version"], &["help", "run"], &["formats"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("ttmem"));
        let output = command.args(arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("standard output"), "{arguments:?}");
    }
}

/// `-` is standard output, and a device can always be written to.
#[test]
fn results_can_be_sent_anywhere() {
    let log = corpus("vae-decoder.log");
    let printed = text(&ttmem().args(["summary", "--json", &log]).assert().success().get_output().stdout);
    for arguments in
        [["summary", "--json", &*log, "-o", "-"], ["summary", "--json", &log, "-o", "/dev/stdout"]]
    {
        assert_eq!(text(&ttmem().args(arguments).assert().success().get_output().stdout), printed);
    }
    ttmem().args(["last-run", &log, "-o", "/dev/null"]).assert().success();
    ttmem().args(["report", &log, "-o", "-"]).assert().code(2);
}

#[test]
fn the_program_runs_under_its_original_name() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("tt-memory-profiler");
    std::os::unix::fs::symlink(assert_cmd::cargo::cargo_bin("ttmem"), &link).unwrap();
    for program in [link, assert_cmd::cargo::cargo_bin("tt-memory-profiler")] {
        let help = Process::new(program).arg("--help").output().unwrap();
        assert!(text(&help.stdout).contains("Usage: tt-memory-profiler"), "{}", text(&help.stdout));
    }
}

/// A folder with only `tt-memory-profiler`.
fn profiler_alone() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("tt-memory-profiler");
    ttmem_testkit::programs::copy(&assert_cmd::cargo::cargo_bin("tt-memory-profiler"), &program);
    (folder, program)
}

#[test]
fn the_original_name_needs_ttmem_in_the_same_folder() {
    let (folder, program) = profiler_alone();
    let output = Process::new(program).arg("--version").output().unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
    let ttmem = folder.path().join("ttmem");
    assert!(said.starts_with(&format!("tt-memory-profiler: {}: ", ttmem.display())), "{said}");
    assert!(said.ends_with("install ttmem and tt-memory-profiler into the same folder\n"), "{said}");
}

/// Signals to the started process, and waiting for it, must reach the command.
#[test]
fn the_original_name_becomes_ttmem_in_the_same_process() {
    use std::os::unix::fs::symlink;
    use std::os::unix::process::ExitStatusExt;

    let (folder, program) = profiler_alone();
    let script = "#!/bin/sh\nprintf '%s|' $$ \"$@\"\n[ $# = 2 ] && kill -TERM $$\nexit 7\n";
    ttmem_testkit::programs::script(&folder.path().join("ttmem"), script);
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("profile");
    symlink(&program, &link).unwrap();
    for program in [&program, &link] {
        let start = |arguments: &[&str]| {
            let child = Process::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
            (child.id(), child.wait_with_output().unwrap())
        };
        let (id, output) = start(&["--log", "a b", ""]);
        assert_eq!(text(&output.stdout), format!("{id}|--log|a b||"));
        assert_eq!(output.status.code(), Some(7));
        let (_, output) = start(&["x", "y"]);
        assert_eq!(output.status.signal(), Some(15));
    }
}
