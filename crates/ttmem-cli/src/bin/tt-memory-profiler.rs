//! `tt-memory-profiler`, with the flags of version 0.x: runs the `ttmem` in the same folder, which chooses between the
//! two commands by `argv[0]`.
//!
//! This program does not use the library, so that it links quickly and stays small. It replaces itself with `ttmem`
//! (`exec`) instead of starting a child, so signals, exit codes and the process id are those of the command.

use std::env;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

const NAME: &str = "tt-memory-profiler";

fn main() -> ExitCode {
    let error = match env::current_exe() {
        Ok(own) => {
            let ttmem = own.with_file_name("ttmem");
            let error = Command::new(&ttmem).arg0(NAME).args(env::args_os().skip(1)).exec();
            format!("{}: {error}; install ttmem and {NAME} into the same folder", ttmem.display())
        }
        Err(error) => format!("cannot find the path of this program: {error}; run ttmem instead"),
    };
    // If standard error is closed, only the exit code remains.
    let _ = writeln!(io::stderr(), "{NAME}: {error}");
    ExitCode::from(2)
}
