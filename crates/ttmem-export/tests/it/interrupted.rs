//! Exports that are killed, or whose disk is full: the dataset reads as before.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;
use ttmem::Error;
use ttmem::read::Progress;
use ttmem_export::Request;

use super::{all_rows, corpus, export, files, program, rows};

/// A hash of everything that counts, without what differs between exports.
fn content(dataset: &Path) -> Vec<Vec<String>> {
    let table = |table: &str| {
        let own = ["rank_id", "export_id", "exported_ns"];
        let rows = rows(dataset, table).into_iter();
        rows.map(|row| {
            format!("{:?}", row.iter().filter(|(name, _)| !own.contains(&name.as_str())).collect::<Vec<_>>())
        })
        .collect::<Vec<String>>()
    };
    ["runs", "labels", "pools", "classes", "curves", "tensors"].map(table).to_vec()
}

#[test]
fn a_killed_export_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let log = corpus("tt_log/oom-capacity.log");
    export(folder.path(), &["--run=r", "--label=commit=1", "--", &log]);
    let before = content(folder.path());
    // The first log is complete, and standard input never ends.
    let mut child = program(folder.path(), &["--run=r", "--label=commit=2", "--", &log, "/nonexistent", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"2026-01-01 some log\n").unwrap();
    // The message about the missing file comes after the rows of the first.
    let mut message = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut message).unwrap();
    assert!(message.contains("/nonexistent"), "{message}");
    child.kill().unwrap();
    child.wait().unwrap();
    let left: Vec<String> = files(folder.path()).into_iter().filter(|name| name.contains("/.")).collect();
    assert!(left.iter().any(|name| name.starts_with("tensors/")), "{left:?}");
    assert_eq!(content(folder.path()), before);
    // The next export removes what was left.
    export(folder.path(), &["--run=r", "--label=commit=1", "--", &log]);
    assert_eq!(content(folder.path()), before);
    assert!(files(folder.path()).iter().all(|name| !name.contains("/.")));
}

#[test]
fn an_export_that_is_killed_while_it_renames_changes_nothing() {
    let (before, after) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let log = corpus("tt_log/oom-capacity.log");
    export(before.path(), &["--run=r", "--", &log]);
    export(after.path(), &["--run=r", "--label=commit=2", "--", &log]);
    let expected = content(before.path());
    // As many of its files as were renamed: all orders are possible, except that `runs` is last.
    for name in files(after.path()).iter().filter(|name| !name.starts_with("runs/")) {
        fs::create_dir_all(before.path().join(name).parent().unwrap()).unwrap();
        fs::copy(after.path().join(name), before.path().join(name)).unwrap();
        assert_eq!(content(before.path()), expected, "{name}");
    }
    assert_eq!(all_rows(before.path(), "labels").len(), 1);
    export(before.path(), &["--run=r", "--", &log]);
    assert_eq!(content(before.path()), expected);
    assert_eq!(all_rows(before.path(), "labels").len(), 0, "its files are removed");
}

#[test]
fn an_export_that_is_stopped_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let log = corpus("tt_log/oom-capacity.log");
    export(folder.path(), &["--run=r", "--", &log]);
    let names = files(folder.path());
    let request = Request {
        dataset: folder.path().into(),
        run: Some("r".into()),
        inputs: vec!["/nonexistent".into(), log],
        ..Request::default()
    };
    let progress = Arc::new(Progress::default());
    let stopped = ttmem_export::export(&request, &progress, |_| progress.stop());
    assert!(matches!(stopped, Err(Error::Write { .. })), "{stopped:?}");
    assert_eq!(files(folder.path()), names);
}

#[test]
fn a_running_export_keeps_its_files() {
    let folder = TempDir::new().unwrap();
    let log = corpus("tt_log/oom-capacity.log");
    let mut child = program(folder.path(), &["--run=r", "--", &log, "/nonexistent", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    errors.read_line(&mut String::new()).unwrap();
    export(folder.path(), &["--run=r", "--", &log]);
    let hidden = || files(folder.path()).into_iter().filter(|name| name.contains("/.")).count();
    assert!(hidden() > 5);
    drop(input);
    assert!(child.wait().unwrap().success());
    assert_eq!(hidden(), 0);
    let runs = rows(folder.path(), "runs");
    assert_eq!(runs.len(), 3, "{runs:?}");
}

/// A file system of a few megabytes, which is unmounted at the end.
struct SmallDisk(TempDir);

impl SmallDisk {
    const SIZE: u64 = 4 << 20;

    /// Mounts it; `None` where that takes more rights.
    fn mount() -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let size = format!("size={}", Self::SIZE);
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path());
        command.output().is_ok_and(|output| output.status.success()).then(|| Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn an_export_to_a_full_disk_changes_nothing() {
    let Some(disk) = SmallDisk::mount() else {
        // `a_file_that_becomes_too_large_changes_nothing` limits the size of files instead.
        writeln!(io::stderr(), "skipped: mounting a file system of limited size needs root").unwrap();
        return;
    };
    let dataset = disk.0.path().join("fleet");
    let log = corpus("tt_log/oom-capacity.log");
    export(&dataset, &["--run=r", "--label=commit=1", "--", &log]);
    let (before, names) = (content(&dataset), files(&dataset));
    let mut rest = File::create(disk.0.path().join("rest")).unwrap();
    let full = io::copy(&mut io::repeat(0).take(SmallDisk::SIZE), &mut rest).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    let filled = rest.metadata().unwrap().len();
    // The export fails at another file with each of these sizes, until it fits.
    let again = || program(&dataset, &["--run=r", "--label=commit=2", "--", &log]).output().unwrap();
    let mut failures = 0;
    for free in (0..filled).step_by(8 << 10) {
        rest.set_len(filled - free).unwrap();
        let output = again();
        if output.status.success() {
            break;
        }
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("cannot write") && message.contains("No space left"), "{message}");
        assert_eq!(files(&dataset), names, "{free} bytes are free");
        assert_eq!(content(&dataset), before, "{free} bytes are free");
        failures += 1;
    }
    assert!(failures > 2, "{failures}");
    let labels = rows(&dataset, "labels");
    assert_eq!(labels.iter().map(|row| row["value"].as_str()).collect::<Vec<_>>(), ["2"]);
    assert_eq!(files(&dataset).len(), names.len());
}

#[test]
fn a_file_that_becomes_too_large_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let log = corpus("tt_log/oom-capacity.log");
    export(folder.path(), &["--run=r", "--", &log]);
    let (before, names) = (content(folder.path()), files(folder.path()));
    let words = format!(
        "exec {} --output={} --run=r --label=commit=2 -- {log}",
        env!("CARGO_BIN_EXE_ttmem-export"),
        folder.path().display()
    );
    // The limit is in blocks of 512 bytes. If its signal is ignored, writing fails as on a full disk.
    let limited =
        |limit: &str| Command::new("sh").args(["-c", &format!("{limit}; {words}")]).output().unwrap();
    // The export fails at another file with each of these limits, until it fits.
    let mut failures = 0;
    for blocks in (0..).step_by(3) {
        let output = limited(&format!("trap '' XFSZ; ulimit -f {blocks}"));
        if output.status.success() {
            break;
        }
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("cannot write") && message.contains("File too large"), "{message}");
        assert_eq!(files(folder.path()), names, "{blocks} blocks");
        assert_eq!(content(folder.path()), before, "{blocks} blocks");
        failures += 1;
    }
    assert!(failures > 2, "{failures}");
    let before = content(folder.path());
    let output = limited("ulimit -f 4");
    assert_eq!(output.status.code(), None, "{output:?}");
    assert_eq!(content(folder.path()), before);
}
