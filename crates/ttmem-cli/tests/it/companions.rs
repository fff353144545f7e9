//! Commands with a separate program, next to `ttmem`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use assert_cmd::Command;
use tempfile::TempDir;

/// A copy of `ttmem`, in a folder without companions.
fn ttmem_in(folder: &Path) -> Command {
    let program = folder.join("ttmem");
    fs::copy(assert_cmd::cargo::cargo_bin!("ttmem"), &program).unwrap();
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
    let program = folder.path().join("ttmem-mcp");
    fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let words = ["mcp", "--root", "logs", "--root", "other logs"];
    let output = ttmem_in(folder.path()).args(words).assert().code(7).get_output().clone();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "logs\nother logs\n");
}
