//! `tt-memory-profiler`: the name and the flags that the tool began with.

use std::process::ExitCode;

/// A log of distinct operations makes millions of small texts and lists; this allocator is a quarter faster there.
///
/// It is the program's, not the library's: a module that Python loads must not bring its own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ttmem_cli::tt_memory_profiler(std::env::args_os()).into()
}
