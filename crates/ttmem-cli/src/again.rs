//! Starts another `ttmem` process: a server next to the interactive screens, a run on the terminal, or a worker.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

static STARTED_BY: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the command line that starts `ttmem`, for a process whose program is an interpreter that loaded it.
///
/// Only the first call has an effect.
pub fn started_by(words: Vec<OsString>) {
    let _ = STARTED_BY.set(words);
}

/// The program to start, and the words that precede its arguments.
pub(crate) fn program() -> io::Result<(PathBuf, &'static [OsString])> {
    if let Some((program, before)) = STARTED_BY.get().and_then(|words| words.split_first()) {
        return Ok((program.into(), before));
    }
    // On Linux this is the same program even after its file was replaced by a newer version.
    let own = Path::new("/proc/self/exe");
    Ok((if own.exists() { own.to_owned() } else { std::env::current_exe()? }, &[]))
}

/// The Python interpreter that runs this command, if one does.
pub(crate) fn interpreter() -> Option<&'static OsString> {
    STARTED_BY.get().and_then(|words| words.first())
}

/// A command that starts [`program`], ready for its arguments.
pub(crate) fn command() -> io::Result<Command> {
    let (program, before) = program()?;
    let mut command = Command::new(program);
    command.args(before);
    Ok(command)
}
