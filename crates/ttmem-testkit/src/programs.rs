//! Programs that tests write and start.
//!
//! No program can be started while a process has its file open for writing. A test that wrote the file itself could pass
//! it on, still open, to a process that another test starts at that moment. So these are written by other processes.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a script, with its interpreter in the first line.
///
/// # Panics
///
/// If it cannot be written.
pub fn script(path: &Path, text: &str) {
    let mut writer = Command::new("sh");
    writer.args(["-c", r#"cat >"$0" && chmod 755 "$0""#]).arg(path).stdin(Stdio::piped());
    let mut writer = writer.spawn().expect("sh starts");
    writer.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("sh reads");
    assert!(writer.wait().expect("sh ends").success(), "{} is not written", path.display());
}

/// Copies a program.
///
/// # Panics
///
/// If it cannot be copied.
pub fn copy(program: &Path, path: &Path) {
    let copied = Command::new("cp").arg(program).arg(path).status().expect("cp starts");
    assert!(copied.success(), "{} is not copied", program.display());
}
