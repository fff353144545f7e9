//! `ttmem gantt`: the path of the page, the files it may replace, and inputs with nothing to draw.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn corpus(name: &str) -> String {
    format!("{}/../../corpus/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A folder with a profile in it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(corpus("memory_profile/threads.json"), folder.path().join("run.json")).unwrap();
    folder
}

fn gantt(folder: &Path, arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("ttmem").unwrap().current_dir(folder).arg("gantt").args(arguments).assert()
}

fn stderr(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
}

#[test]
fn the_page_is_a_single_file_next_to_its_input() {
    let folder = folder();
    gantt(folder.path(), &["run.json"]).success().stdout("run_gantt.html\n");
    let page = fs::read_to_string(folder.path().join("run_gantt.html")).unwrap();
    assert!(page.contains("<title>run · ttmem</title>") && page.contains("id=\"ttmem-gantt-0\""));
    assert!(page.contains("default-src 'none'"), "nothing may be loaded");
    assert_eq!(page.matches("<script").count(), 4, "one that runs, three with data");
}

#[test]
fn only_an_earlier_page_is_replaced() {
    let folder = folder();
    gantt(folder.path(), &["run.json", "out.html"]).success();
    gantt(folder.path(), &["run.json", "out.html"]).success();
    fs::write(folder.path().join("mine.html"), "<p>mine</p>").unwrap();
    let refused = gantt(folder.path(), &["run.json", "mine.html"]).code(2);
    assert!(stderr(&refused).contains("--force"), "{}", stderr(&refused));
    assert_eq!(fs::read_to_string(folder.path().join("mine.html")).unwrap(), "<p>mine</p>");
    // A report is not a chart, although ttmem writes both pages.
    let report = format!("{}/../ttmem-report/assets/report.html", env!("CARGO_MANIFEST_DIR"));
    fs::copy(report, folder.path().join("report.html")).unwrap();
    gantt(folder.path(), &["run.json", "report.html"]).code(2);
    gantt(folder.path(), &["run.json", "mine.html", "--force"]).success();
    assert!(fs::read_to_string(folder.path().join("mine.html")).unwrap().contains("ttmem-gantt-0"));
}

#[test]
fn standard_output_has_only_the_page() {
    let folder = folder();
    let done = gantt(folder.path(), &["run.json", "-"]).success();
    let page = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    gantt(folder.path(), &["run.json", "-", "--open"]).code(2);
    let text = fs::read(folder.path().join("run.json")).unwrap();
    Command::cargo_bin("ttmem")
        .unwrap()
        .current_dir(folder.path())
        .args(["gantt", "-", "piped.html"])
        .write_stdin(text)
        .assert()
        .success();
    assert!(folder.path().join("piped.html").is_file());
}

#[test]
fn json_is_the_answer_and_no_file_is_written() {
    let folder = folder();
    let done = gantt(folder.path(), &["run.json", "--json"]).success();
    let answer: Value = serde_json::from_slice(&done.get_output().stdout).unwrap();
    assert_eq!(answer["schema"], 1);
    assert_eq!(answer["ranks"][0]["calls"]["scope"].as_array().unwrap().len(), 9);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    gantt(folder.path(), &["run.json", "out.html", "--json"]).code(2);
}

#[test]
fn an_input_without_calls_says_how_to_record_them() {
    let folder = folder();
    let failed = gantt(folder.path(), &[&corpus("tt_log/vae-decoder.log"), "out.html"]).code(4);
    assert!(stderr(&failed).contains("ttmem track"), "{}", stderr(&failed));
    assert!(!folder.path().join("out.html").exists());
    let failed = gantt(folder.path(), &["run.json", "--json", "--rank", "7"]).code(2);
    assert!(stderr(&failed).contains("no rank 7"), "{}", stderr(&failed));
}

#[test]
fn a_summary_of_a_profile_without_lifetimes_does_not_ask_for_a_log() {
    let done = Command::cargo_bin("ttmem")
        .unwrap()
        .args(["summary", &corpus("memory_profile/server.json")])
        .assert()
        .success();
    let text = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
    assert!(
        text.contains("memory profile")
            && text.contains("largest tensors of each snapshot")
            && !text.contains("TTMLIR"),
        "{text}"
    );
}
