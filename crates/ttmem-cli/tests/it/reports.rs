//! `ttmem list`, `show` and `remove`: stored reports and runs.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

fn corpus(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log").join(name).display().to_string()
}

/// A home with two reports and a run.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().unwrap() };
        home.ttmem().args(["report", &corpus("vae-decoder.log")]).assert().success();
        home.ttmem().args(["report", &corpus("oom-capacity.log")]).assert().success();
        home
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn ttmem(&self) -> Command {
        let mut command = Command::cargo_bin("ttmem").unwrap();
        command.env("TTMEM_HOME", self.path().join("home")).current_dir(self.path());
        command
    }

    fn stdout(&self, args: &[&str]) -> String {
        let output = self.ttmem().args(args).assert().success().get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    }

    /// The folder of a run with its log, reported by `tt-memory-profiler`.
    fn with_run(&self) -> PathBuf {
        let folder = self.path().join("logs/two_graphs_20260122_143957");
        fs::create_dir_all(&folder).unwrap();
        let log = folder.join("two_graphs_profile.log");
        fs::copy(corpus("two-graphs.log"), &log).unwrap();
        let mut command = Command::cargo_bin("tt-memory-profiler").unwrap();
        command.env("TTMEM_HOME", self.path().join("home")).arg("--analyze").arg(&log).assert().success();
        folder
    }

    fn names(&self) -> Vec<String> {
        let rows: Value = serde_json::from_str(&self.stdout(&["list", "--json"])).unwrap();
        rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn the_list_has_name_time_format_peak_and_size() {
    let home = Home::new();
    let table = home.stdout(&["list"]);
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("vae-decoder").contains("tt_log  DRAM "), "{table}");
    assert!(row("oom-capacity").contains("OOM"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");

    let rows: Value = serde_json::from_str(&home.stdout(&["list", "--json"])).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "vae-decoder").unwrap();
    let summary: Value = serde_json::from_str(&home.stdout(&["show", "vae-decoder", "--json"])).unwrap();
    let pool = &summary["ranks"][0]["pools"]["DRAM"];
    assert_eq!(row["peak"]["per_bank"], pool["peak_per_bank"]);
    assert_eq!(row["peak"]["capacity_per_bank"], pool["capacity_per_bank"]);
    assert_eq!(row["peak"]["total"], pool["peak_total"]);
    assert_eq!((row["format"].as_str(), row["kind"].as_str()), (Some("tt_log"), Some("report")));
    assert_eq!(row["operations"], summary["ranks"][0]["operations"]["reported"]);
    assert_eq!(row["oom"], Value::Null);
    assert!(row["source"]["path"].as_str().unwrap().ends_with("vae-decoder.log"));
    let files = fs::read_dir(row["folder"].as_str().unwrap()).unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(row["bytes"].as_u64(), Some(bytes));
}

#[test]
fn a_stored_report_has_the_limits_of_a_summary() {
    let home = Home::new();
    let log = corpus("vae-decoder.log");
    let few: Value =
        serde_json::from_str(&home.stdout(&["show", "vae-decoder", "--json", "--top", "2"])).unwrap();
    assert_eq!(few["ranks"][0]["suspects"].as_array().unwrap().len(), 2);
    let full = home.stdout(&["show", "vae-decoder", "--full", "--top", "3"]);
    let of_log = home.stdout(&["summary", &log, "--full", "--top", "3"]);
    let body = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(body(&full), body(&of_log));
    let small = home.stdout(&["show", "vae-decoder", "--markdown", "--budget", "4kB"]);
    assert!(small.len() <= 4096 && small.len() > 2000, "{} bytes", small.len());
    home.ttmem().args(["show", "vae-decoder", "--budget", "4000"]).assert().code(2);
}

#[cfg(unix)]
#[test]
fn on_a_terminal_the_list_cuts_long_names_and_fits_the_width() {
    let place = crate::pseudo_terminal::Place::new();
    let long = "a-name-that-is-much-longer-than-usual".repeat(3);
    let reports = [(&*long, "vae-decoder.log"), ("short", "info-only.log"), ("full", "oom-capacity.log")];
    for (name, log) in reports {
        place.ttmem().args(["report", "--name", name, &corpus(log)]).assert().success();
    }
    for size in [(80, 24), (120, 40)] {
        let shown = place.show(&["list"], size);
        let lines = &shown.lines;
        assert_eq!(lines.len(), 4, "{lines:#?}");
        let is_narrow = |line: &String| line.chars().count() <= usize::from(size.0);
        assert!(lines.iter().all(is_narrow), "{lines:#?}");
        let row = |log: &str| lines.iter().find(|line| line.starts_with(log)).unwrap();
        // Names differ at their ends.
        let name = row("a-na").split_whitespace().next().unwrap();
        assert!(
            name.contains('…') && name.ends_with("than-usual") && name.chars().count() >= 12,
            "{lines:#?}"
        );
        assert!(row("full").contains("MiB/bank (99%), OOM"), "{lines:#?}");
        assert!(!row("a-na").contains("OOM") && !row("short").contains("OOM"), "{lines:#?}");
    }
    // In a pipe, names are complete.
    let output = place.ttmem().arg("list").assert().success().get_output().clone();
    let list = String::from_utf8(output.stdout).unwrap();
    assert!(list.lines().any(|line| line.starts_with(&format!("{long}  "))), "{list}");
    assert!(!list.contains('…') && list.contains("(99%), OOM"), "{list}");
}

#[cfg(unix)]
#[test]
fn on_a_terminal_a_stored_report_fits_the_height() {
    let place = crate::pseudo_terminal::Place::new();
    place
        .ttmem()
        .args(["report", "--name", &"long".repeat(20), &corpus("vae-decoder.log")])
        .assert()
        .success();
    let name = "long".repeat(20);
    let brief = place.show(&["show", &name], (80, 24));
    assert_eq!(brief.scrolled, 0, "{}", brief.screen);
    let (page, lines) = brief.lines.split_last().unwrap();
    assert!(page.starts_with("page: ") && page.ends_with("_report.html"), "{page}");
    let last = lines.last().unwrap();
    let hidden =
        last.strip_prefix("… ").and_then(|rest| rest.strip_suffix(" more lines (--full shows them)"));
    let full = place.show(&["show", "--full", &name], (80, 24));
    assert_eq!(
        lines.len() - 1 + hidden.unwrap().parse::<usize>().unwrap(),
        full.lines.len() - 1,
        "{lines:#?}"
    );
    let fewer = place.show(&["show", "--full", "--top", "2", &name], (80, 24));
    assert!(fewer.lines.len() < full.lines.len(), "{:#?}", fewer.lines);
}

#[test]
fn a_run_is_listed_and_its_folder_is_kept_when_it_is_removed() {
    let home = Home::new();
    let folder = home.with_run();
    assert!(folder.join("two_graphs_memory.json").is_file(), "the report is in the folder of the log");
    let table = home.stdout(&["list"]);
    let row = table.lines().find(|line| line.starts_with("two_graphs_20260122_143957 ")).unwrap();
    assert!(row.contains("tt_log, run"), "{table}");
    assert!(home.stdout(&["show", "two_graphs_20260122_143957"]).contains("DRAM"));
    // Reporting it again does not add another run.
    home.with_run();
    assert_eq!(home.names().len(), 3);
    home.ttmem().args(["remove", "--yes", "two_graphs_20260122_143957"]).assert().success();
    assert_eq!(home.names().len(), 2);
    assert!(folder.join("two_graphs_profile.log").is_file() && folder.join("two_graphs.ttmem").is_file());
}

#[test]
fn a_run_whose_folder_was_deleted_is_not_listed() {
    let home = Home::new();
    let folder = home.with_run();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(home.names().len(), 2);
    // Its name can be used again.
    home.with_run();
    assert!(home.names().contains(&"two_graphs_20260122_143957".to_owned()));
}

#[test]
fn remove_asks_first_and_removes_all_or_none_of_the_names() {
    let home = Home::new();
    let refused = home.ttmem().args(["remove", "vae-decoder"]).assert().code(2).get_output().clone();
    assert!(String::from_utf8(refused.stderr).unwrap().contains("--yes"));
    home.ttmem().args(["remove", "--yes", "vae-decoder", "missing"]).assert().code(2);
    assert_eq!(home.names().len(), 2);
    home.ttmem().args(["remove", "--yes", "vae-decoder", "vae-decoder"]).assert().success();
    assert_eq!(home.names(), ["oom-capacity"]);
    let missing = home.ttmem().args(["show", "vae-decoder"]).assert().code(2).get_output().clone();
    assert!(
        String::from_utf8(missing.stderr).unwrap().contains("oom-capacity"),
        "the error lists the reports"
    );
}

/// Every command reads the same report of a folder with two.
#[test]
fn a_second_report_in_the_folder_of_a_run_does_not_replace_the_first() {
    let home = Home::new();
    let folder = home.with_run();
    let given = folder.to_str().unwrap();
    home.ttmem().args(["report", &corpus("oom-capacity.log"), "-o", given]).assert().success();
    let other = fs::read(folder.join("oom-capacity.ttmem")).unwrap();
    assert!(home.stdout(&["show", "two_graphs_20260122_143957"]).contains("two_graphs_profile.log"));
    let page = home.stdout(&["report", given]);
    assert!(page.trim_end().ends_with("two_graphs_report.html"), "{page}");
    assert_eq!(fs::read(folder.join("oom-capacity.ttmem")).unwrap(), other);
}

#[test]
fn a_log_is_analyzed_from_inside_its_folder() {
    let home = Home::new();
    let folder = home.with_run();
    let mut command = Command::cargo_bin("tt-memory-profiler").unwrap();
    command.env("TTMEM_HOME", home.path().join("home")).current_dir(&folder);
    command.args(["--analyze", "two_graphs_profile.log"]).assert().success();
    assert_eq!(home.names().len(), 3);
}

#[test]
fn two_logs_of_one_name_in_one_folder_have_two_reports() {
    let home = Home::new();
    for (folder, log) in [("a", "trace.log"), ("b", "info-only.log")] {
        fs::create_dir(home.path().join(folder)).unwrap();
        fs::copy(corpus(log), home.path().join(folder).join("x_profile.log")).unwrap();
    }
    let pages = home.stdout(&["report", "a/x_profile.log", "b/x_profile.log", "-o", "both"]);
    assert_eq!(pages.lines().collect::<Vec<_>>(), ["both/x_report.html", "both/x-2_report.html"]);
    let operations = |stem: &str| {
        let about = fs::read(home.path().join(format!("both/{stem}_about.json"))).unwrap();
        serde_json::from_slice::<Value>(&about).unwrap()["operations"].clone()
    };
    assert_ne!(operations("x"), operations("x-2"));
}

#[test]
fn writers_of_one_folder_wait_for_each_other() {
    let home = Home::new();
    std::thread::scope(|scope| {
        for log in
            ["trace.log", "llm-decode.log", "trace.log", "llm-decode.log", "trace.log", "llm-decode.log"]
        {
            let write = || home.ttmem().args(["report", "-q", &corpus(log), "-o", "one"]).assert().success();
            scope.spawn(write);
        }
    });
    let left: Vec<_> =
        fs::read_dir(home.path().join("one")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 18, "{left:?}");
}

#[test]
fn a_copy_of_the_files_of_the_original_tool_is_not_changed() {
    let home = Home::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_json/small_model");
    let copy = |from: &Path, to: &str| {
        fs::create_dir(home.path().join(to)).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, home.path().join(to).join(path.file_name().unwrap())).unwrap();
        }
    };
    copy(&from, "given");
    home.stdout(&["report", "-q", "given"]);
    copy(&home.path().join("given"), "copy");
    home.stdout(&["report", "-q", "copy"]);
    for end in ["memory", "operations", "inputs_registry", "ir"] {
        let file = format!("small_model_{end}.json");
        let read = |folder: &Path| fs::read(folder.join(&file)).unwrap();
        assert_eq!(read(&home.path().join("copy")), read(&from), "{file}");
    }
}

#[test]
fn an_empty_store_says_how_to_fill_it() {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::cargo_bin("ttmem").unwrap();
    let output = command.env("TTMEM_HOME", home.path()).arg("list").assert().success().get_output().clone();
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8(output.stderr).unwrap().contains("ttmem report"));
}

#[test]
fn reports_of_older_versions_are_listed() {
    let home = Home::new();
    for file in ["vae-decoder_about.json", "vae-decoder_summary.json", "source.json"] {
        fs::remove_file(home.path().join("home/reports/vae-decoder").join(file)).unwrap();
    }
    let table = home.stdout(&["list"]);
    let row = table.lines().find(|line| line.starts_with("vae-decoder")).unwrap();
    assert!(row.contains("unknown"), "{table}");
    assert!(home.stdout(&["show", "vae-decoder"]).contains("DRAM"));
}

#[test]
fn a_total_of_the_device_is_not_shown_as_a_peak_per_bank() {
    let home = tempfile::tempdir().unwrap();
    let corpus = |name: &str| format!("{}/../../corpus/{name}", env!("CARGO_MANIFEST_DIR"));
    let ttmem = |words: &[&str]| {
        let mut command = Command::cargo_bin("ttmem").unwrap();
        let done = command.env("TTMEM_HOME", home.path()).args(words).assert().success();
        String::from_utf8(done.get_output().stdout.clone()).unwrap()
    };
    for log in ["tt_train/tinyllama.log", "tt_log/vae-decoder.log", "memory_profile/server.json"] {
        ttmem(&["report", &corpus(log)]);
    }
    let list = ttmem(&["list"]);
    let row = |name: &str| list.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(!list.contains("of each bank"), "{list}");
    assert!(row("tinyllama").contains(" GiB") && !row("tinyllama").contains("/bank"), "{list}");
    assert!(row("vae-decoder").contains(" MiB/bank ("), "{list}");
    assert!(row("server").contains("mps 2.27 GiB") && !row("server").contains("/bank"), "{list}");
    let rows: Value = serde_json::from_str(&ttmem(&["list", "--json"])).unwrap();
    let rows = rows.as_array().unwrap();
    let peak = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap()["peak"].clone();
    let training = peak("tinyllama");
    assert!(training["per_bank"].is_null() && training["total"].is_u64(), "{training}");
    assert_eq!((training["of"].as_str(), peak("vae-decoder")["of"].as_str()), (Some("device"), Some("bank")));
}
