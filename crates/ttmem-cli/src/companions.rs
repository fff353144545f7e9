//! Companions: commands with a separate program, such as `ttmem-mcp` for `ttmem mcp`.
//!
//! They need large libraries that no other command uses. As separate programs they do not make `ttmem` slower to build
//! in a checkout. Archives contain them in the folder of `ttmem`; the Python module contains them as functions.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use ttmem::{Error, Result};

/// A companion that this process contains.
#[derive(Debug)]
pub struct Companion {
    /// The name of its program.
    pub program: &'static str,
    /// Runs it with its arguments; returns the exit code.
    pub run: fn(&[OsString]) -> Result<u8>,
}

static LINKED: OnceLock<&'static [Companion]> = OnceLock::new();

/// Sets the companions that this process contains. Without this call, or for others, their programs are started.
///
/// Only the first call has an effect.
pub fn link(companions: &'static [Companion]) {
    let _ = LINKED.set(companions);
}

/// Runs a companion. If it is a program, that program replaces this process.
pub(crate) fn run(program: &str, words: &[OsString]) -> Result<u8> {
    let linked = LINKED.get().into_iter().copied().flatten().find(|companion| companion.program == program);
    if let Some(companion) = linked {
        return (companion.run)(words);
    }
    let own = std::env::current_exe()
        .map_err(|error| Error::NotFound(format!("cannot find the path of this program: {error}")))?;
    let path = own.with_file_name(program);
    let error = Command::new(&path).args(words).exec();
    Err(Error::NotFound(format!(
        "cannot start {}: {error}; install it with `cargo install --locked {program}`, or run `cargo build --release -p \
         {program}` in a checkout",
        path.display()
    )))
}
