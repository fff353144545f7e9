//! Commands with a separate program, next to `ttmem`.

use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;
use ttmem_testkit::programs;

/// A copy of `ttmem`, in a folder without companions.
fn ttmem_in(folder: &Path) -> Command {
    let program = folder.join("ttmem");
    programs::copy(assert_cmd::cargo::cargo_bin!("ttmem"), &program);
    Command::new(program)
}

#[test]
fn a_missing_program_is_an_error_that_says_how_to_install_it() {
    let folder = TempDir::new().unwrap();
    let output = ttmem_in(folder.path()).arg("mcp").assert().code(2).get_output().clone();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("ttmem-mcp") && message.contains("cargo install --locked ttmem-mcp"),
        "{message}"
    );
}

#[test]
fn a_program_gets_the_arguments_and_returns_the_exit_code() {
    let folder = TempDir::new().unwrap();
    programs::script(&folder.path().join("ttmem-mcp"), "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 7\n");
    let words = ["mcp", "--root", "logs", "--root", "other logs"];
    let output = ttmem_in(folder.path()).args(words).assert().code(7).get_output().clone();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "logs\nother logs\n");
}

#[test]
fn the_arguments_of_an_export_are_checked_and_passed_on() {
    let folder = TempDir::new().unwrap();
    programs::script(&folder.path().join("ttmem-export"), "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
    let words =
        ["-q", "export", "a.log", "--run", "r", "--label", "a=b", "--label=c=", "-o", "fleet", "--", "-x"];
    let output = ttmem_in(folder.path()).args(words).assert().code(0).get_output().clone();
    let expected = "--output=fleet\n--run=r\n--label=a=b\n--label=c=\n--quiet\n--\na.log\n-x\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    for (wrong, reason) in [("--label=x", "KEY=VALUE"), ("--run=", "a name"), ("--to=csv", "parquet")] {
        let output = ttmem_in(folder.path()).args(["export", "a.log", "-o", "fleet", wrong]).assert().code(2);
        let message = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(message.contains(reason), "{message}");
    }
}
