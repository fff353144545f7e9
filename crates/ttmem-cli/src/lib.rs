//! The commands `ttmem` and `tt-memory-profiler`: they read arguments, ask the library and print. They compute
//! nothing.
//!
//! Who calls them owns the process: the binary `ttmem`, which is both commands, and the commands of the Python package.
//! Each command is given its arguments and returns its exit code. The binary `tt-memory-profiler` only runs `ttmem` under
//! its name.

mod again;
mod args;
mod commands;
mod console;
mod profiler;
mod reading;
mod replacing;

use std::ffi::OsString;
use std::panic::UnwindSafe;
use std::path::Path;

use clap::Parser;

pub use again::started_by;

/// The bytes of a size as people type it to the commands: `200MB`. An error says what is wanted.
pub fn memory_size(text: &str) -> Result<u64, String> {
    text.parse().map(|ttmem::query::MemorySize(bytes)| bytes)
}

/// Runs the command `ttmem`, or `tt-memory-profiler` if that is the name of the program in the first word.
pub fn ttmem(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    let name = words.first().map(Path::new).and_then(Path::file_stem);
    if name.is_some_and(|name| name == "tt-memory-profiler") {
        return tt_memory_profiler(words);
    }
    command(words, commands::run)
}

/// Runs the command `tt-memory-profiler`.
pub fn tt_memory_profiler(words: impl IntoIterator<Item = OsString>) -> u8 {
    command(words, profiler::run)
}

/// Reads the arguments, does what they say, and turns what that came to into an exit code.
fn command<A: Parser + UnwindSafe>(
    words: impl IntoIterator<Item = OsString>,
    run: impl FnOnce(A) -> ttmem::Result<u8> + UnwindSafe,
) -> u8 {
    let args = match A::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => return console::usage(&error),
    };
    match std::panic::catch_unwind(|| run(args)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => console::fail(&error),
        // The panic itself has said where.
        Err(_) => console::bug(),
    }
}
