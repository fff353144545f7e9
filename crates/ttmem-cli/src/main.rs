//! The command `ttmem`: it reads arguments, asks the library and prints. It computes nothing.

mod args;
mod commands;
mod console;

use std::process::ExitCode;

use clap::Parser;

/// A log of distinct operations makes millions of small texts and lists; this allocator is a quarter faster there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return console::usage(&error),
    };
    match std::panic::catch_unwind(|| commands::run(&args)) {
        Ok(Ok(code)) => ExitCode::from(code),
        Ok(Err(error)) => console::fail(&error),
        // The panic itself has said where.
        Err(_) => console::bug(),
    }
}
