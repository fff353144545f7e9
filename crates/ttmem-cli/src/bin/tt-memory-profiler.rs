//! `tt-memory-profiler`: the name and the flags that the tool began with.

use std::process::ExitCode;

fn main() -> ExitCode {
    ttmem_cli::tt_memory_profiler()
}
