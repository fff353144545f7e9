//! How `ttmem` is started again by itself: for a server beside the screen, for a run on the terminal, for a worker.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

static STARTED_BY: OnceLock<Vec<OsString>> = OnceLock::new();

/// Says which words start `ttmem`, where the program of this process is another: an interpreter that has loaded it.
///
/// The first setting holds.
pub fn started_by(words: Vec<OsString>) {
    let _ = STARTED_BY.set(words);
}

/// The program that is to be started, and the words that come before its arguments.
pub(crate) fn program() -> io::Result<(PathBuf, &'static [OsString])> {
    if let Some((program, before)) = STARTED_BY.get().and_then(|words| words.split_first()) {
        return Ok((program.into(), before));
    }
    // On Linux this is the same program even after its file was replaced by a newer one.
    let own = Path::new("/proc/self/exe");
    Ok((if own.exists() { own.to_owned() } else { std::env::current_exe()? }, &[]))
}

/// The same, ready for its arguments.
pub(crate) fn command() -> io::Result<Command> {
    let (program, before) = program()?;
    let mut command = Command::new(program);
    command.args(before);
    Ok(command)
}
