//! `ttmem track`: it starts the tracker of the Python package. The programs named `python` here are scripts; the real
//! package is in the tests of Python.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use ttmem_testkit::programs;

/// An empty folder, with a folder for programs.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(place.path("bin")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, script: &str) {
        programs::script(&self.path("bin").join(name), &format!("#!/bin/sh\n{script}\n"));
    }

    /// Runs `ttmem track` with only these programs; returns its exit code, output and errors.
    fn track(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("ttmem"));
        command.arg("track").args(words).current_dir(self.folder.path()).env("PATH", self.path("bin"));
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

/// A Python with the package: it prints its arguments, one per line, and exits with 7.
const WITH_PACKAGE: &str = "[ \"$1\" = -c ] && exit 0\nfor word; do echo \"$word\"; done\nexit 7";

#[test]
fn the_tracker_gets_all_arguments_and_its_exit_code_is_passed_on() {
    for python in ["python", "python3"] {
        let place = Place::new();
        place.program(python, WITH_PACKAGE);
        let words = ["--level", "ops", "my script.py", "--help", "-q", "--", "x y", ""];
        let (code, out, error) = place.track(&words);
        let started: Vec<&str> = ["-m", "ttmem", "track"].into_iter().chain(words).collect();
        assert_eq!((code, out.lines().collect(), error), (Some(7), started, String::new()), "{python}");
    }
}

#[test]
fn questions_about_a_fleet_are_passed_on_as_well() {
    let place = Place::new();
    place.program("python", WITH_PACKAGE);
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("ttmem"));
    command.args(["fleet", "closest", "my fleet", "--json"]).env("PATH", place.path("bin"));
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "-m\nttmem\nfleet\nclosest\nmy fleet\n--json\n");
    assert_eq!(output.status.code(), Some(7));
}

/// An active environment has `python`, while `python3` may be the system's.
#[test]
fn python_comes_before_python3() {
    let place = Place::new();
    place.program("python", &WITH_PACKAGE.replace("exit 7", "exit 8"));
    place.program("python3", WITH_PACKAGE);
    assert_eq!(place.track(&["train.py"]).0, Some(8));
}

#[test]
fn without_python_the_error_says_what_to_do() {
    let (code, out, error) = Place::new().track(&["train.py"]);
    assert_eq!((code, out), (Some(2), String::new()));
    assert!(
        error.contains("python and python3: not found")
            && error.contains("activate the program's environment"),
        "{error}"
    );
}

#[test]
fn without_the_package_the_error_says_what_to_do() {
    let place = Place::new();
    // Without installed packages.
    place.program("python", "PATH=/usr/local/bin:/usr/bin:/bin exec python3 -E -S \"$@\"");
    fs::write(place.path("train.py"), "print('it ran')").unwrap();
    for _ in 0..2 {
        let (code, out, error) = place.track(&["train.py"]);
        assert_eq!((code, out), (Some(2), String::new()), "{error}");
        let wanted = "ttmem: python: the Python package ttmem is not installed; ";
        assert!(error.starts_with(wanted) && error.contains("`python -m pip install ttmem`"), "{error}");
        assert!(!error.contains("Traceback") && !error.contains("No module"), "{error}");
        // A folder with the package's name is not the package.
        fs::create_dir_all(place.path("ttmem")).unwrap();
    }
}

#[test]
fn without_a_script_usage_is_printed() {
    let place = Place::new();
    place.program("python", WITH_PACKAGE);
    let (code, out, error) = place.track(&[]);
    assert_eq!((code, out), (Some(2), String::new()));
    assert!(error.contains("Usage: ttmem track <SCRIPT>"), "{error}");
}
