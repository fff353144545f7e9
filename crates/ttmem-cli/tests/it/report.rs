//! `ttmem report`: the folder, its name and its files.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;

fn corpus(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log").join(name).display().to_string()
}

fn ttmem(home: &Path) -> Command {
    let mut command = Command::cargo_bin("ttmem").unwrap();
    command.env("TTMEM_HOME", home);
    command
}

/// The folder of the page that `ttmem report` prints.
fn report(home: &Path, args: &[&str]) -> PathBuf {
    let output = ttmem(home).arg("report").args(args).assert().success().get_output().clone();
    let page = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    assert!(page.is_file(), "{}", page.display());
    assert!(page.to_str().unwrap().ends_with("_report.html"), "{}", page.display());
    page.parent().unwrap().to_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_report_is_stored_under_its_name_and_replaced_by_the_same_source() {
    let home = tempfile::tempdir().unwrap();
    let folder = report(home.path(), &[&corpus("vae-decoder.log")]);
    assert_eq!(folder, home.path().join("reports/vae-decoder"));
    for file in ["vae-decoder.ttmem", "vae-decoder_memory.json", "vae-decoder_operations.json"] {
        assert!(names(&folder).contains(&file.to_owned()), "{:?}", names(&folder));
    }
    assert_eq!(report(home.path(), &[&corpus("vae-decoder.log")]), folder);
    let other = home.path().join("vae_decoder_profile.log");
    fs::copy(corpus("oom-capacity.log"), &other).unwrap();
    assert_eq!(
        report(home.path(), &[&other.display().to_string()]),
        home.path().join("reports/vae-decoder-2")
    );
}

#[test]
fn a_report_of_a_folder_is_made_from_its_profile() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out");
    let out_text = out.display().to_string();
    report(home.path(), &[&corpus("two-graphs.log"), "-o", &out_text, "--name", "graphs"]);
    let first = fs::read(out.join("graphs_memory.json")).unwrap();
    let again = home.path().join("again");
    report(home.path(), &[&out_text, "-o", &again.display().to_string()]);
    assert_eq!(fs::read(again.join("graphs_memory.json")).unwrap(), first);
    let summary = |file: &Path| {
        let output =
            ttmem(home.path()).args(["summary", "--json"]).arg(file).assert().success().get_output().clone();
        let mut answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["source"] = serde_json::Value::Null;
        answer["ranks"][0]["file"] = serde_json::Value::Null;
        answer
    };
    assert_eq!(summary(&out.join("graphs.ttmem")), summary(Path::new(&corpus("two-graphs.log"))));
}

/// For a PyTorch program, the JSON files for Tenstorrent's tools would be many times as large as the recording.
#[test]
fn the_json_files_are_written_for_tenstorrent_or_on_request() {
    let home = tempfile::tempdir().unwrap();
    let recording = corpus("../guides/batch256.ttmem");
    let kinds = ["memory", "operations", "inputs_registry", "ir"];
    let written = |args: &[&str], name: &str| -> Vec<&str> {
        let folder = report(home.path(), args);
        let listed = fs::read_to_string(folder.join(format!("{name}_about.json"))).unwrap();
        let is_written = |kind: &&str| {
            let file = format!("{name}_{kind}.json");
            let is_there = names(&folder).contains(&file);
            assert_eq!(listed.contains(&file), is_there, "{listed}");
            is_there
        };
        assert!(names(&folder).contains(&format!("{name}_summary.json")), "{:?}", names(&folder));
        kinds.into_iter().filter(is_written).collect()
    };
    assert_eq!(written(&[&recording], "batch256"), [""; 0]);
    assert_eq!(written(&[&recording, "--all"], "batch256"), kinds);
    // The next report removes them.
    assert_eq!(written(&[&recording], "batch256"), [""; 0]);
    let out = home.path().join("out").display().to_string();
    assert_eq!(written(&[&recording, "-o", &out], "batch256"), [""; 0]);
    assert_eq!(written(&[&recording, "-o", &out, "--all"], "batch256"), kinds);
    let log = corpus("oom-capacity.log");
    assert_eq!(written(&[&log], "oom-capacity"), kinds);
    assert_eq!(written(&[&log, "--all"], "oom-capacity"), kinds);
}

#[test]
fn a_folder_without_a_report_says_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let output = ttmem(home.path()).arg("report").arg(home.path()).assert().code(2).get_output().clone();
    assert!(String::from_utf8(output.stderr).unwrap().contains("folder without a report"));
}

/// A folder written by tt-memory-profiler 0.x.
fn small_model(parent: &Path) -> PathBuf {
    let folder = parent.join("small_model_20260122_143957");
    fs::create_dir(&folder).unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_json/small_model");
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    folder
}

#[test]
fn a_report_of_a_folder_without_a_profile_is_made_from_its_json_files() {
    let home = tempfile::tempdir().unwrap();
    let folder = small_model(home.path());
    let before: Vec<(String, Vec<u8>)> =
        names(&folder).into_iter().map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect();
    let output = ttmem(home.path()).arg("report").arg(&folder).assert().success().get_output().clone();
    let page = folder.join("small_model_report.html");
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), page.display().to_string());
    assert!(String::from_utf8(output.stderr).unwrap().contains("deallocations"));
    assert!(page.is_file() && folder.join("small_model.ttmem").is_file());
    // Its sources are unchanged, also after it is written again from the profile.
    assert_eq!(report(home.path(), &[&folder.display().to_string()]), folder);
    for (name, content) in &before {
        assert_eq!(&fs::read(folder.join(name)).unwrap(), content, "{name}");
    }
    let answer = |file: &Path| {
        let output =
            ttmem(home.path()).args(["summary", "--json"]).arg(file).assert().success().get_output().clone();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    // The folder, its memory file and its profile have the same summary.
    let of_file = answer(&folder.join("small_model_memory.json"));
    assert_eq!((of_file["source"]["format"].as_str(), &answer(&folder)), (Some("tt_json"), &of_file));
    // A memory file on its own is stored under the report's name.
    let memory = folder.join("small_model_memory.json").display().to_string();
    assert_eq!(report(home.path(), &[&memory]), home.path().join("reports/small-model"));
}

#[cfg(unix)]
#[test]
fn the_page_is_opened_on_request_and_the_report_is_written_if_that_fails() {
    let home = tempfile::tempdir().unwrap();
    let opener = "#!/bin/sh\nprintf %s \"$1\" >\"$TTMEM_HOME/opened\"\n";
    ttmem_testkit::programs::script(&home.path().join("xdg-open"), opener);
    let open = |path: &str| {
        let mut command = ttmem(home.path());
        command.env("PATH", path).args(["report", "--open", &corpus("vae-decoder.log")]);
        command.assert().success().get_output().clone()
    };
    let path = format!("{}:/usr/bin:/bin", home.path().display());
    let printed = String::from_utf8(open(&path).stdout).unwrap();
    let record = home.path().join("opened");
    for _ in 0..500 {
        if fs::read_to_string(&record).is_ok_and(|text| !text.is_empty()) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(fs::read_to_string(&record).unwrap(), printed.trim());
    let failed = open("/nowhere");
    assert_eq!(failed.stdout, printed.as_bytes());
    assert!(String::from_utf8(failed.stderr).unwrap().contains("cannot start a browser"));
}

/// The temporary files of a killed `report` are removed by the next `list`.
#[test]
#[cfg(unix)]
fn the_files_of_a_killed_report_are_removed() {
    let home = tempfile::tempdir().unwrap();
    let staged = || -> Vec<PathBuf> {
        let folders = fs::read_dir(home.path().join("reports")).into_iter().flatten().flatten();
        let entries = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
        let is_staged = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".ttmem-staged-"))
        };
        entries.map(|entry| entry.path()).filter(is_staged).collect()
    };
    let command = |words: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ttmem"));
        command.args(words).env("TTMEM_HOME", home.path()).stdout(std::process::Stdio::null());
        command
    };
    let log = format!("{}/../../corpus/tt_log/vae-decoder.log", env!("CARGO_MANIFEST_DIR"));
    // Once without a report of that name, once with one. The command may end before it is killed.
    for _ in 0..2 {
        let is_killed = (0..100).any(|_| {
            let mut child = command(&["report", &log]).spawn().unwrap();
            while staged().is_empty() && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            child.kill().unwrap();
            child.wait().unwrap();
            !staged().is_empty()
        });
        assert!(is_killed, "it always ended before it could be killed");
        assert!(command(&["list"]).status().unwrap().success());
        assert_eq!(staged(), Vec::<PathBuf>::new());
        assert!(command(&["report", &log]).status().unwrap().success());
    }
}
