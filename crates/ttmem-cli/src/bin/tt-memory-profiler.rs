//! `tt-memory-profiler`, the first name of `ttmem`: runs the `ttmem` beside it, which decides by the name it is given
//! which of the two commands it is.
//!
//! This program uses nothing of the library, so that it takes no time to link and no room on the disk. It becomes
//! `ttmem` instead of starting it: signals, exit codes and the process id are those of the command.

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
        Err(error) => format!("the folder of this program is unknown: {error}; run ttmem instead"),
    };
    // If standard error is closed, the exit code is all that can be said.
    let _ = writeln!(io::stderr(), "{NAME}: {error}");
    ExitCode::from(2)
}
