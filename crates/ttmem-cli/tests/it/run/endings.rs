//! Ways a command can end: in each, the order is kept, the exit code passed on, the log complete and the report
//! written.

use std::fs;
use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};

use super::{Place, assert_same, corpus, find, page, send, start, summary, text, until_there};

const LOG: &str = "vae-decoder.log";

/// Checks a run of a program that printed a log; returns standard error.
#[track_caller]
fn assert_reported(place: &Place, output: &Output, code: i32) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    place.assert_log_is_record();
    let page = page(place, output);
    let (log, folder) = (place.log(), page.parent().unwrap());
    assert_eq!(log.parent().unwrap(), folder);
    for file in
        ["print_log.ttmem", "print_log_memory.json", "print_log_operations.json", "print_log_summary.md"]
    {
        assert!(folder.join(file).is_file(), "{file} is missing");
    }
    // The output of the program was shown completely and in order.
    let record = fs::read(place.path("record")).unwrap();
    assert!(find(&output.stderr, &record).is_some(), "not shown as it came: {said}");
    assert_eq!(summary(place, &folder.join("print_log.ttmem")), summary(place, &log));
    assert!(said.contains("Peak DRAM 686.4 of 4080.0 MiB per bank (17%)."), "{said}");
    let listed = place.ttmem().arg("list").output().unwrap();
    assert!(text(&listed.stdout).contains(folder.file_name().unwrap().to_str().unwrap()));
    said
}

#[test]
fn a_program_that_succeeds() {
    let place = Place::new();
    let output = place.print_log(LOG, "well").arg("0.0002").output().unwrap();
    let said = assert_reported(&place, &output, 0);
    assert_same(&fs::read(place.log()).unwrap(), &fs::read(corpus(LOG)).unwrap());
    assert_eq!(summary(&place, &place.log()), summary(&place, &corpus(LOG)));
    assert!(!said.contains("exit code"), "{said}");
}

#[test]
fn a_program_that_exits_with_3() {
    let place = Place::new();
    let output = place.print_log(LOG, "3").arg("0.0002").output().unwrap();
    let said = assert_reported(&place, &output, 3);
    assert!(said.contains("print_log ended with exit code 3"), "{said}");
}

#[test]
fn a_program_that_kills_itself() {
    let place = Place::new();
    let output = place.print_log(LOG, "killed").output().unwrap();
    let said = assert_reported(&place, &output, 137);
    assert!(said.contains("print_log was killed by signal 9 (SIGKILL)"), "{said}");
}

#[test]
fn a_program_that_is_killed() {
    let place = Place::new();
    let run = start(&mut place.print_log(LOG, "wait"));
    let pid: i32 = until_there(&place.path("record.ready")).parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    assert_reported(&place, &run.wait_with_output().unwrap(), 137);
}

#[test]
fn a_program_that_ignores_sigterm_once() {
    let place = Place::new();
    let run = start(&mut place.print_log(LOG, "stubborn"));
    until_there(&place.path("record.ready"));
    send(&run, Signal::TERM);
    until_there(&place.path("record.refused"));
    send(&run, Signal::TERM);
    let said = assert_reported(&place, &run.wait_with_output().unwrap(), 143);
    assert!(said.contains("\nnot yet\n"), "{said}");
}

#[test]
fn a_program_that_runs_out_of_memory() {
    let place = Place::new();
    let output = place.print_log("oom-fragmentation.log", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    page(&place, &output);
    let said = text(&output.stderr);
    assert!(said.contains("Out of memory: DRAM is fragmented."), "{said}");
}

#[test]
fn a_program_that_prints_nothing() {
    for (command, code) in [("exit 0", 2), ("exit 5", 5)] {
        let place = Place::new();
        let output = place.run().args(["sh", "-c", command]).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(code), String::new()));
        let said = text(&output.stderr);
        assert!(said.contains("no output from the Tenstorrent runtime"), "{said}");
        assert!(said.contains("TT_RUNTIME_DEBUG=ON"), "{said}");
        assert_eq!(fs::read(place.log()).unwrap(), b"");
    }
}

#[test]
fn a_program_without_memory_states_says_which_setting_is_missing() {
    for (log, setting) in [
        ("malformed/no-memory-operations.log", "TT_RUNTIME_MEMORY_LOG_LEVEL"),
        ("malformed/no-memory-modules.log", "TT_RUNTIME_DEBUG=ON"),
    ] {
        let place = Place::new();
        let output = place.print_log(log, "well").output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
        let said = text(&output.stderr);
        assert!(said.contains(setting), "{said}");
        place.assert_log_is_record();
    }
}

#[test]
fn a_command_that_cannot_be_started_leaves_no_files() {
    for (words, said) in [
        (&["no-such-command", "x"][..], "cannot start no-such-command: No such file"),
        (&["no_such_script.py"], "no_such_script.py: not found"),
        (&["/"], "cannot start /: Permission denied"),
        (&["--log-onyl", "model.py"], "--log-onyl: not an option"),
    ] {
        let place = Place::new();
        let output = place.run().args(words).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{words:?}");
        assert!(text(&output.stderr).contains(said), "{words:?}: {}", text(&output.stderr));
        assert_eq!(super::entries(place.folder.path()), Vec::<std::path::PathBuf>::new(), "{words:?}");
    }
}

#[test]
fn an_existing_folder_is_kept_if_the_command_cannot_be_started() {
    let place = Place::new();
    fs::create_dir(place.path("logs")).unwrap();
    let output = place.run().args(["--output-dir", "logs/deep/er", "no-such-command"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(place.path("logs").is_dir() && place.runs().is_empty());
}

#[test]
fn a_script_needs_python() {
    let place = Place::new();
    let output = place.print_log(LOG, "well").env("PATH", place.path("nothing")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("python and python3: not found; activate"), "{said}");
    assert!(place.runs().is_empty());
}
