//! The original command lines of the tool, run unchanged in a shell.
//!
//! (`ttmem` without arguments is in `interactive.rs`.)

#![cfg(unix)]
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A working directory as in the documentation: a model, a log, the scripts, a home.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let log = root.join("corpus/tt_log/vae-decoder.log");
        for folder in ["path/to/forward_pass", "home", "bin"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        // A model that prints what the runtime printed.
        let model = format!("import sys\nsys.stdout.write(open({:?}).read())\n", log.display().to_string());
        for script in ["path/to/your_model.py", "path/to/model.py", "path/to/forward_pass/script.py"] {
            fs::write(place.path(script), &model).unwrap();
        }
        for name in ["path/to/script_profile.log", "path/to/profile.log"] {
            fs::copy(&log, place.path(name)).unwrap();
        }
        fs::create_dir(place.path("memory_profiler")).unwrap();
        for script in fs::read_dir(root.join("memory_profiler")).unwrap() {
            let script = script.unwrap();
            fs::copy(script.path(), place.path("memory_profiler").join(script.file_name())).unwrap();
        }
        let python =
            Command::new("sh").args(["-c", "command -v python || command -v python3"]).output().unwrap();
        symlink(String::from_utf8(python.stdout).unwrap().trim(), place.path("bin/python")).unwrap();
        place
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a line in a shell.
    fn shell(&self, line: &str) -> Output {
        let binaries = assert_cmd::cargo::cargo_bin("ttmem").parent().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new("sh")
            .args(["-c", line])
            .current_dir(self.folder.path())
            .env("HOME", self.path("home"))
            .env("PATH", format!("{}:{}:{path}", self.path("bin").display(), binaries.display()))
            .env_remove("TTMEM_HOME")
            .output()
            .unwrap()
    }

    /// The output of a line that must succeed.
    fn stdout(&self, line: &str) -> String {
        let output = self.shell(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The only folder of a run of the script.
    fn run_folder(&self, script: &str) -> PathBuf {
        let folders: Vec<PathBuf> =
            fs::read_dir(self.path("logs")).unwrap().map(|entry| entry.unwrap().path()).collect();
        let [folder] = &folders[..] else { panic!("{folders:?}") };
        assert!(folder.file_name().unwrap().to_str().unwrap().starts_with(&format!("{script}_20")));
        folder.clone()
    }
}

/// Asserts that a report has its files, by the start of their names.
fn assert_report(folder: &Path, stem: &str) {
    for end in ["memory.json", "operations.json", "inputs_registry.json", "report.html"] {
        assert!(folder.join(format!("{stem}_{end}")).is_file(), "{stem}_{end} in {}", folder.display());
    }
}

#[test]
fn a_script_is_run_parsed_and_visualized() {
    for (line, script) in [
        ("python memory_profiler/run_profiled.py path/to/forward_pass/script.py", "script"),
        ("python memory_profiler/run_profiled.py path/to/your_model.py", "your_model"),
        ("tt-memory-profiler path/to/your_model.py", "your_model"),
        ("tt-memory-profiler --output-dir logs path/to/your_model.py", "your_model"),
        ("export TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG; tt-memory-profiler path/to/model.py", "model"),
    ] {
        let place = Place::new();
        let page = place.stdout(line);
        let folder = place.run_folder(script);
        assert_report(&folder, script);
        let log = fs::read(folder.join(format!("{script}_profile.log"))).unwrap();
        assert_eq!(log, fs::read(place.path("path/to/profile.log")).unwrap(), "{line}");
        assert!(page.trim_end().ends_with(&format!("{script}_report.html")), "{line}: {page}");
    }
}

#[test]
fn a_log_is_only_captured() {
    for (line, script) in [
        ("python memory_profiler/run_profiled.py --log path/to/your_model.py", "your_model"),
        ("tt-memory-profiler --log path/to/your_model.py", "your_model"),
        ("tt-memory-profiler --log path/to/model.py", "model"),
    ] {
        let place = Place::new();
        place.stdout(line);
        let folder = place.run_folder(script);
        let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(files, [format!("{script}_profile.log").as_str()], "{line}");
    }
}

#[test]
fn a_log_of_a_run_is_analyzed_beside_it_and_any_other_in_the_store() {
    let place = Place::new();
    let folder = place.path("memory_profiler/logs/your_model_20260122_143957");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(place.path("path/to/profile.log"), folder.join("your_model_profile.log")).unwrap();
    place.stdout(
        "python memory_profiler/run_profiled.py --analyze memory_profiler/logs/your_model_20260122_143957/your_model_profile.log",
    );
    assert_report(&folder, "your_model");
    fs::remove_file(folder.join("your_model_report.html")).unwrap();
    place.stdout(
        "python memory_profiler/run_profiled.py --visualize memory_profiler/logs/your_model_20260122_143957/",
    );
    assert_report(&folder, "your_model");

    let page = place.stdout("tt-memory-profiler --analyze path/to/script_profile.log");
    assert_report(&place.path("home/.ttmem/reports/script"), "script");
    assert!(page.trim_end().ends_with("home/.ttmem/reports/script/script_report.html"), "{page}");
    place.stdout("tt-memory-profiler --analyze path/to/script_profile.log --output-dir elsewhere");
    assert_report(&place.path("elsewhere"), "script");
}

#[test]
fn a_page_is_made_from_a_folder_with_and_without_a_profile() {
    for line in [
        "tt-memory-profiler --visualize ~/.ttmem/reports/script/",
        "python memory_profiler/generate_viz.py ~/.ttmem/reports/script/",
    ] {
        let place = Place::new();
        place.stdout("tt-memory-profiler --analyze path/to/script_profile.log");
        let folder = place.path("home/.ttmem/reports/script");
        let page = folder.join("script_report.html");
        fs::remove_file(&page).unwrap();
        place.stdout(line);
        assert!(page.is_file(), "{line}");

        // tt-memory-profiler 0.x wrote JSON files and no profile; there is a warning about what they lack.
        for end in [".ttmem", "_about.json", "_summary.json", "_report.html"] {
            fs::remove_file(folder.join(format!("script{end}"))).unwrap();
        }
        let output = place.shell(line);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.success()
                && page.is_file()
                && said.contains("warning:")
                && said.contains("deallocation"),
            "{said}"
        );
    }
}

#[test]
fn the_last_run_is_extracted() {
    let place = Place::new();
    let log = fs::read(place.path("path/to/script_profile.log")).unwrap();
    let last = place.stdout("python memory_profiler/extract_last_run.py path/to/script_profile.log");
    assert!(last.len() < log.len(), "one of two passes is removed");
    fs::write(place.path("last.log"), last).unwrap();
    let peak = |line: &str| {
        let answer: serde_json::Value = serde_json::from_str(&place.stdout(line)).unwrap();
        answer["ranks"][0]["pools"]["DRAM"]["peak_per_bank"].as_u64().unwrap()
    };
    assert_eq!(
        peak("ttmem summary --json last.log"),
        peak("ttmem summary --json --run last path/to/script_profile.log")
    );
    assert_eq!(fs::read(place.path("path/to/script_profile.log")).unwrap(), log, "the log is not changed");
}

#[test]
fn an_agent_gets_markdown() {
    let place = Place::new();
    let printed = place.stdout("ttmem --llm --logfile path/to/profile.log");
    assert!(printed.starts_with("# Memory Profile: profile\n\n> Peak DRAM: "), "{printed}");
    let headings: Vec<&str> = printed.lines().filter(|line| line.starts_with("## ")).collect();
    let promised = [
        "## Configuration",
        "## Peak Memory",
        "## Top 10 Memory Consumers (DRAM)",
        "## Top 10 Padding Overhead",
        "## Model Weights (",
        "## Operation Distribution",
    ];
    for (heading, promised) in headings.iter().zip(promised) {
        assert!(heading.starts_with(promised), "{heading}");
    }
    assert_report(&place.path("home/.ttmem/reports/profile"), "profile");

    assert_eq!(place.stdout("ttmem --llm --logfile path/to/profile.log -o report.md"), "");
    assert_eq!(fs::read_to_string(place.path("report.md")).unwrap(), printed);
    // An earlier document is replaced, another file is kept without --force.
    place.stdout("ttmem --llm --logfile path/to/profile.log -o report.md");
    fs::write(place.path("report.md"), "# My notes\n").unwrap();
    assert_eq!(place.shell("ttmem --llm --logfile path/to/profile.log -o report.md").status.code(), Some(2));
    place.stdout("ttmem --llm --logfile path/to/profile.log -o report.md --force");
}
