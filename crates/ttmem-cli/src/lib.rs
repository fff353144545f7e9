//! The commands `ttmem` and `tt-memory-profiler`: they read arguments, ask the library and print. They compute
//! nothing.

mod args;
mod commands;
mod console;
mod memory_size;
mod profiler;
mod reading;

use std::panic::UnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

/// A log of distinct operations makes millions of small texts and lists; this allocator is a quarter faster there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the command `ttmem`, or the other where the program was started under its name.
pub fn ttmem() -> ExitCode {
    let name = std::env::args_os().next().map(PathBuf::from);
    if name.as_deref().and_then(Path::file_stem).is_some_and(|name| name == "tt-memory-profiler") {
        return tt_memory_profiler();
    }
    command(commands::run)
}

/// Runs the command `tt-memory-profiler`.
pub fn tt_memory_profiler() -> ExitCode {
    command(profiler::run)
}

/// Reads the arguments, does what they say, and turns what that came to into an exit code.
fn command<A: Parser + UnwindSafe>(run: impl FnOnce(A) -> ttmem::Result<u8> + UnwindSafe) -> ExitCode {
    let args = match A::try_parse() {
        Ok(args) => args,
        Err(error) => return console::usage(&error),
    };
    match std::panic::catch_unwind(|| run(args)) {
        Ok(Ok(code)) => ExitCode::from(code),
        Ok(Err(error)) => console::fail(&error),
        // The panic itself has said where.
        Err(_) => console::bug(),
    }
}
