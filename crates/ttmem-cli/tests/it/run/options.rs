//! Options, arguments, environment and output folders.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{Place, SETTINGS, assert_same, corpus, entries, page, program, start, text};

/// The arguments and settings that `show_setup.py` was started with.
fn setup(place: &Place, arguments: &[&str], settings: &[(&str, &str)]) -> (Value, String) {
    let mut command = place.run();
    command.arg("--log-only").arg(program("show_setup.py")).args(arguments).envs(settings.iter().copied());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let log = text(&output.stdout);
    let shown = serde_json::from_slice(&fs::read(place.path(log.trim())).unwrap()).unwrap();
    (shown, text(&output.stderr))
}

#[test]
fn everything_after_the_command_is_passed_to_it() {
    let arguments = ["--batch", "4", "-q", "--log-only", "--name", "x", "--help", "-v", "--", "-", ""];
    let (shown, _) = setup(&Place::new(), &arguments, &[]);
    assert_eq!(shown["arguments"], json!(arguments));
    let place = Place::new();
    let output = place.run().args(["--log-only", "--", "echo", "-q", "--"]).output().unwrap();
    assert!(output.status.success());
    assert_eq!(fs::read(place.log()).unwrap(), b"-q --\n");
}

#[test]
fn settings_of_the_user_are_kept() {
    let (shown, said) = setup(&Place::new(), &[], &[]);
    let wanted = json!({
        "TTMLIR_RUNTIME_LOGGER_LEVEL": "DEBUG",
        "TT_RUNTIME_MEMORY_LOG_LEVEL": "any",
        "TTXLA_LOGGER_LEVEL": "DEBUG",
        "PYTHONUNBUFFERED": "1",
    });
    assert_eq!((&shown["settings"], &shown["unbuffered"]), (&wanted, &json!(true)));
    assert!(!said.contains("warning"), "{said}");
    let own = [
        ("TTMLIR_RUNTIME_LOGGER_LEVEL", "trace"),
        ("TT_RUNTIME_MEMORY_LOG_LEVEL", "none"),
        ("TTXLA_LOGGER_LEVEL", "VERBOSE"),
        ("PYTHONUNBUFFERED", "yes"),
    ];
    let (shown, said) = setup(&Place::new(), &[], &own);
    for (variable, value) in own {
        assert_eq!(shown["settings"][variable], value);
    }
    let warnings: Vec<&str> = said.lines().filter(|line| line.starts_with("warning")).collect();
    assert_eq!(
        warnings,
        ["warning: TT_RUNTIME_MEMORY_LOG_LEVEL=none: the log will have no memory data; set it to any"]
    );
    assert_eq!(SETTINGS.len(), own.len() + 2, "every setting is tried");
}

#[test]
fn a_run_has_its_own_folder_named_after_script_and_time() {
    let place = Place::new();
    let output = place.print_log("two-graphs.log", "well").output().unwrap();
    page(&place, &output);
    let log = place.log();
    let folder = log.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let stamp = folder.strip_prefix("print_log_").unwrap();
    let shape: String = stamp.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "00000000_000000");
    assert_eq!(log.file_name().unwrap(), "print_log_profile.log");
    assert_eq!(ttmem::store::run_of(&log).as_deref(), Some("print_log"));
}

#[test]
fn the_name_and_the_folder_can_be_set() {
    let place = Place::new();
    let mut command = place.run();
    command.args(["--name", "night/ly_1", "--output-dir", "deep/er", "cat"]).arg(corpus("two-graphs.log"));
    let output = command.output().unwrap();
    let page = page(&place, &output);
    assert_eq!(page.file_name().unwrap(), "night-ly_1_report.html");
    let folder = page.parent().unwrap();
    assert_eq!(folder.parent().unwrap(), place.path("deep/er"));
    assert!(folder.file_name().unwrap().to_str().unwrap().starts_with("night-ly_1_"));
    assert!(folder.join("night-ly_1_profile.log").is_file());
    assert!(!place.path("logs").exists());
    // The descriptions of the next commands are aligned.
    let said = text(&output.stderr);
    let [show, serve] = ["prints this summary", "opens its page"]
        .map(|what| said.lines().find_map(|line| line.find(what)).unwrap());
    assert_eq!(show, serve, "{said}");
}

#[test]
fn log_only_writes_only_the_log() {
    let place = Place::new();
    let output = place.run().arg("--log-only").arg("cat").arg(corpus("two-graphs.log")).output().unwrap();
    assert!(output.status.success());
    let log = place.log();
    assert_eq!(place.path(text(&output.stdout).trim()), log);
    assert_eq!(entries(log.parent().unwrap()), [log.as_path()], "nothing else");
    assert!(!place.path("home").exists());
    // With --log-only, a log without memory data is not an error.
    let place = Place::new();
    assert!(place.run().args(["--log-only", "true"]).output().unwrap().status.success());
}

#[test]
fn concurrent_runs_have_separate_folders() {
    const RUNS: usize = 6;
    let place = Place::new();
    let started: Vec<_> = (0..RUNS)
        .map(|number| {
            let script = format!("echo run {number}; cat \"$0\"");
            start(place.run().args(["--name", "same", "sh", "-c", &script]).arg(corpus("two-graphs.log")))
        })
        .collect();
    let pages: Vec<_> =
        started.into_iter().map(|run| page(&place, &run.wait_with_output().unwrap())).collect();
    assert_eq!(place.runs().len(), RUNS);
    for (number, page) in pages.iter().enumerate() {
        let mut wanted = format!("run {number}\n").into_bytes();
        wanted.extend(fs::read(corpus("two-graphs.log")).unwrap());
        assert_same(&fs::read(page.with_file_name("same_profile.log")).unwrap(), &wanted);
    }
    let listed = text(&place.ttmem().arg("list").output().unwrap().stdout);
    for run in place.runs() {
        assert!(listed.contains(run.file_name().unwrap().to_str().unwrap()), "{listed}");
    }
}

#[test]
fn a_run_that_cannot_be_listed_is_still_reported() {
    let place = Place::new();
    fs::write(place.path("home"), "no folder").unwrap();
    let output = place.print_log("two-graphs.log", "well").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    page(&place, &output);
    let said = text(&output.stderr);
    assert!(said.contains("this run is not in `ttmem list`"), "{said}");
    assert!(!said.contains("ttmem show") && !said.contains("ttmem serve"), "{said}");
    let again = said.lines().find_map(|line| line.strip_suffix("  prints this summary again")).unwrap();
    let words: Vec<&str> = again.split(' ').collect();
    assert_eq!(words[..2], ["ttmem", "summary"]);
    assert!(place.ttmem().args(&words[1..]).output().unwrap().status.success(), "{again}");
}

#[test]
fn a_folder_that_cannot_be_created_is_an_error_before_anything_runs() {
    let place = Place::new();
    fs::write(place.path("logs"), "no folder").unwrap();
    let output = place.run().args(["touch", "ran"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot write logs"), "{}", text(&output.stderr));
    assert!(!Path::new(&place.path("ran")).exists());
}

#[test]
fn without_a_command_usage_is_printed() {
    let output = Place::new().run().stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("<CMD>"));
}
