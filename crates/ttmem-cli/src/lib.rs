//! The commands `ttmem` and `tt-memory-profiler`: they read arguments, ask the library and print. They compute
//! nothing.

mod args;
mod commands;
mod console;
mod reading;

use std::process::ExitCode;

use clap::Parser;

/// A log of distinct operations makes millions of small texts and lists; this allocator is a quarter faster there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the command `ttmem`.
pub fn ttmem() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return console::usage(&error),
    };
    finish(move || commands::run(&args))
}

/// Turns what a command came to into an exit code.
fn finish(command: impl FnOnce() -> ttmem::Result<u8> + std::panic::UnwindSafe) -> ExitCode {
    match std::panic::catch_unwind(command) {
        Ok(Ok(code)) => ExitCode::from(code),
        Ok(Err(error)) => console::fail(&error),
        // The panic itself has said where.
        Err(_) => console::bug(),
    }
}

/// Runs the command `tt-memory-profiler`.
pub fn tt_memory_profiler() -> ExitCode {
    ttmem()
}
