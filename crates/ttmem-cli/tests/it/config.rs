//! `ttmem config`: the file, the settings and their sources, and atomic changes.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

const SERVER: &str = "\
# The server.
host = '127.0.0.1'   # only here

[[backend]]
model = \"llama-3.2-1b-instruct\"
max_num_kv_pages = 10240 # many
enable_memory_profiling = false # switched by hand

[auth]
enabled = true
";

fn ttmem(home: &Path) -> Command {
    let mut command = Command::cargo_bin("ttmem").unwrap();
    for name in
        ["TTMEM_CONFIG", "TTMEM_TRACK", "TTMEM_TRACK_DIR", "TTMEM_TRACK_INTERVAL", "TTMEM_TRACK_LEVEL"]
    {
        command.env_remove(name);
    }
    command.env("TTMEM_HOME", home).arg("config");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_switch_is_set_and_everything_else_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.toml");
    fs::write(&file, SERVER).unwrap();
    for (is_on, was) in [("true", "false"), ("false", "true")] {
        let update = ["update", "--backend-enable-memory-profiling", is_on];
        let output = ttmem(folder.path()).env("TTMEM_CONFIG", &file).args(update).assert().success();
        assert!(output.get_output().stdout.is_empty());
        let wanted = SERVER.replace("profiling = false", &format!("profiling = {is_on}"));
        assert_eq!(fs::read_to_string(&file).unwrap(), wanted, "was {was}");
        let again = ttmem(folder.path()).env("TTMEM_CONFIG", &file).args(update).assert().success();
        assert!(text(&again.get_output().stderr).contains("already up to date"));
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn the_default_file_is_in_the_home_of_ttmem() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("new").join("home");
    let path = text(&ttmem(&home).arg("path").assert().success().get_output().stdout);
    assert_eq!(Path::new(path.trim_end()), home.join("config.toml"));
    assert!(!home.exists());
    let update =
        ["update", "--backend-enable-memory-profiling", "true", "--interval", "0.5", "--level", "phases"];
    ttmem(&home).args(update).assert().success();
    assert_eq!(
        fs::read_to_string(home.join("config.toml")).unwrap(),
        "[[backend]]\nenable_memory_profiling = true\n\n[ttmem]\ninterval = 0.5\nlevel = \"phases\"\n"
    );
    // `show` is the default.
    let shown = text(&ttmem(&home).assert().success().get_output().stdout);
    assert_eq!(shown, text(&ttmem(&home).arg("show").assert().success().get_output().stdout));
    assert!(shown.contains("enable_memory_profiling  true    file\n"), "{shown}");
    assert!(shown.contains("output_dir               .       default\n"), "{shown}");
}

#[test]
fn settings_are_shown_with_their_sources() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.toml");
    fs::write(&file, format!("{SERVER}[ttmem]\nlevel = 'phases'\nlevl = 1\n")).unwrap();
    let mut command = ttmem(folder.path());
    command.env("TTMEM_CONFIG", &file).env("TTMEM_TRACK", "1").env("TTMEM_TRACK_DIR", "out");
    let output = command.args(["show", "--json"]).assert().success().get_output().clone();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["exists"], true);
    assert_eq!(said["path"], file.to_str().unwrap());
    assert_eq!(said["enable_memory_profiling"], serde_json::json!({"value": true, "from": "environment"}));
    assert_eq!(said["output_dir"], serde_json::json!({"value": "out", "from": "environment"}));
    assert_eq!(said["level"], serde_json::json!({"value": "phases", "from": "file"}));
    assert_eq!(said["interval"], serde_json::json!({"value": 5.0, "from": "default"}));
    let problem = said["problems"][0].as_str().unwrap();
    assert!(problem.contains("line 13: [ttmem] has no setting \"levl\""), "{problem}");
    assert!(text(&output.stderr).contains(problem));
}

#[test]
fn an_invalid_file_is_reported_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken.toml");
    fs::write(&file, "a = 1\n[[backend]\n").unwrap();
    for words in [&["show"][..], &["update", "--backend-enable-memory-profiling", "true"]] {
        let output = ttmem(folder.path()).env("TTMEM_CONFIG", &file).args(words).assert().code(2);
        let said = text(&output.get_output().stderr);
        assert!(said.contains(&format!("{}, line 2: invalid TOML", file.display())), "{said}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "a = 1\n[[backend]\n");
}

#[test]
fn wrong_usage_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for words in [
        &["update"][..],
        &["update", "--backend-enable-memory-profiling", "maybe"],
        &["update", "--interval", "0"],
        &["update", "--interval", "often"],
        &["update", "--level", "everything"],
        &["update", "--output-dir", ""],
        &["--json", "update", "--interval", "1"],
        &["remove"],
    ] {
        ttmem(folder.path()).args(words).assert().code(2);
    }
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
}

#[cfg(unix)]
#[test]
fn links_and_permissions_are_kept() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("dotfiles.toml"), folder.path().join("config.toml"));
    fs::write(&file, SERVER).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&file, &link).unwrap();
    ttmem(folder.path()).args(["update", "--output-dir", "p"]).assert().success();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{SERVER}\n[ttmem]\noutput_dir = \"p\"\n"));
}

#[test]
fn a_file_that_no_program_reads_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.toml");
    let words = ["update", "--interval", "1", "--file", file.to_str().unwrap()];
    let output = ttmem(folder.path()).args(words).assert().success();
    let said = text(&output.get_output().stderr);
    assert!(said.contains(&format!("TTMEM_CONFIG={}", file.display())), "{said}");
}
