//! The commands `ttmem` and `tt-memory-profiler`. They parse arguments, call the library and print; all computation is
//! in the library.
//!
//! Each command takes its arguments and returns its exit code. The callers own the process: the binary `ttmem`, which
//! implements both commands, and the commands of the Python package. The binary `tt-memory-profiler` only runs `ttmem`
//! under its own name.

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

use clap::{CommandFactory, Parser};

pub use again::started_by;

/// Parses a size as the commands accept it, such as `200MB`, into bytes. The error says what is expected.
pub fn memory_size(text: &str) -> Result<u64, String> {
    text.parse().map(|ttmem::query::MemorySize(bytes)| bytes)
}

/// Runs the command `ttmem`, or `tt-memory-profiler` if the first word has that name.
pub fn ttmem(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    let name = words.first().map(Path::new).and_then(Path::file_stem);
    if name.is_some_and(|name| name == "tt-memory-profiler") {
        return tt_memory_profiler(words);
    }
    command(with_summary(words), commands::run)
}

/// Inserts `summary` before a file that stands in place of a command: `ttmem model.log` is `ttmem summary model.log`.
///
/// A word that is not a command counts as a file if it exists, or looks like a path. Everything else is left to the
/// parser, which suggests the command that was probably meant.
fn with_summary(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_option = |word: &OsString| word.len() > 1 && word.as_encoded_bytes().starts_with(b"-");
    let Some(word) = words.iter().skip(1).find(|word| !is_option(word)) else { return words };
    let commands = args::Args::command();
    let is_command =
        word == "help" || word.to_str().is_some_and(|word| commands.find_subcommand(word).is_some());
    // The value of an option comes first only with `--llm`, which names its log.
    let is_llm = words.iter().any(|word| word.as_encoded_bytes().starts_with(b"--l"));
    let looks_like_a_path = |word: &OsString| {
        word == "-" || word.as_encoded_bytes().iter().any(|byte| matches!(byte, b'.' | b'/'))
    };
    if !is_command && !is_llm && (Path::new(word).exists() || looks_like_a_path(word)) {
        words.insert(1, "summary".into());
    }
    words
}

/// Runs the command `tt-memory-profiler`.
pub fn tt_memory_profiler(words: impl IntoIterator<Item = OsString>) -> u8 {
    command(words, profiler::run)
}

/// Parses the arguments, runs the command, and returns the exit code.
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
        // The panic hook has printed the location.
        Err(_) => console::bug(),
    }
}
